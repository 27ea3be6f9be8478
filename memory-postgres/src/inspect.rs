//! What is there of the schema and what time it is at the server, for operators.

use memory_core::{Inspection, Result, Timestamp};
use sqlx::Row;

use crate::config::PostgresConfig;
use crate::connection::Connections;
use crate::error::native;

/// Tells which tables and indexes of the schema are missing, and what time it is at the server; changes nothing.
pub async fn inspect(config: &PostgresConfig) -> Result<Inspection> {
    let connections = Connections::new(config)?;
    let inspection = look(&connections).await;
    connections.close().await;
    inspection
}

async fn look(connections: &Connections) -> Result<Inspection> {
    let mut session = connections.first_transaction().await?;
    let statement = session.statement(&connections.statements.inspect).bind(&connections.statements.schema);
    let row = statement.fetch_one(&mut *session).await.map_err(native)?;
    session.commit().await?;
    let server_time = Timestamp::from_millis(row.try_get(0).map_err(native)?)?;
    let present: Vec<String> = row.try_get(1).map_err(native)?;
    let bytes: i64 = row.try_get(2).map_err(native)?;
    let names = migrations::postgres().iter().flat_map(|migration| names(migration.text));
    let missing = names.filter(|name| !present.iter().any(|present| present == name)).map(str::to_owned);
    Ok(Inspection::new(missing.collect(), Some(server_time), u64::try_from(bytes).ok()))
}

/// The tables and indexes that a step creates, each by a statement that begins a line.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let statements = text.lines().filter(|line| line.starts_with("CREATE "));
    statements.filter_map(|statement| {
        let mut words = statement.split_whitespace().skip_while(|word| !["TABLE", "INDEX"].contains(word));
        words.nth(1).map(|name| name.trim_start_matches("{schema}."))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_and_index_of_a_step_is_known() {
        let text =
            "CREATE TABLE {schema}.a (\n    b text\n);\nCREATE UNIQUE INDEX c ON {schema}.a (b);\n-- CREATE TABLE d\n";
        assert_eq!(names(text).collect::<Vec<_>>(), ["a", "c"]);
        let created: usize = migrations::postgres().iter().map(|step| step.text.matches("CREATE ").count()).sum();
        assert_eq!(migrations::postgres().iter().flat_map(|step| names(step.text)).count(), created);
    }
}
