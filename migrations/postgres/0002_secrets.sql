-- What seals the cursors of the schema: one row, made by the first program that opens it.
CREATE TABLE {schema}.secrets (id smallint PRIMARY KEY CHECK (id = 1), secret text NOT NULL);
