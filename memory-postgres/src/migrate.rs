//! PostgreSQL as a target of the migrations crate.

use async_trait::async_trait;
use memory_core::{Error, ErrorKind, Result};
use migrations::{Applied, Migration, Report, Target};
use sqlx::{AssertSqlSafe, Row};

use crate::config::PostgresConfig;
use crate::connection::{Connections, Session};
use crate::error::{native, native_write};
use crate::statements::Statements;

/// Creates or migrates the schema, as `init` does, and tells which steps that took.
pub async fn migrate(config: &PostgresConfig) -> Result<Report> {
    let connections = Connections::new(config)?;
    let report = run(&connections).await;
    connections.close().await;
    report
}

/// Tells which steps [`migrate`] would take, and changes nothing; a missing schema stays missing.
pub async fn plan(config: &PostgresConfig) -> Result<Report> {
    let connections = Connections::new(config)?;
    let report = async {
        let mut target =
            PostgresTarget { connections: &connections, session: Some(connections.first_transaction().await?) };
        migrations::plan(&mut target, migrations::postgres()).await
    };
    let report = report.await;
    connections.close().await;
    report
}

/// Removes the schema with everything in it, for ever. Nothing happens when there is none.
pub async fn remove(config: &PostgresConfig) -> Result<()> {
    let connections = Connections::new(config)?;
    let removed = async {
        let mut session = connections.first_transaction().await?;
        let statement = session.statement(&connections.statements.remove_schema);
        statement.execute(&mut *session).await.map_err(native_write)?;
        session.commit().await
    };
    let removed = removed.await;
    connections.close().await;
    removed
}

/// Migrates over the connections of a provider.
pub(crate) async fn run(connections: &Connections) -> Result<Report> {
    migrations::migrate(&mut PostgresTarget { connections, session: None }, migrations::postgres()).await
}

/// All steps go in one transaction, which holds the lock; a connection that ends takes both back.
struct PostgresTarget<'c> {
    connections: &'c Connections,
    session: Option<Session>,
}

impl PostgresTarget<'_> {
    fn session(&mut self) -> Result<(&mut Session, &Statements)> {
        let session = self.session.as_mut();
        let session = session.ok_or_else(|| Error::new(ErrorKind::Unexpected, "the schema is not locked"))?;
        Ok((session, &self.connections.statements))
    }
}

#[async_trait]
impl Target for PostgresTarget<'_> {
    async fn lock(&mut self) -> Result<()> {
        let statements = &self.connections.statements;
        let mut session = self.connections.first_transaction().await?;
        let lock = session.statement(&statements.lock_schema).bind(&statements.schema);
        lock.execute(&mut *session).await.map_err(native)?;
        let bookkeeping = session.statement(&statements.has_bookkeeping).bind(&statements.bookkeeping);
        if !bookkeeping.fetch_one(&mut *session).await.and_then(|row| row.try_get(0)).map_err(native)? {
            let has_schema = session.statement(&statements.has_schema).bind(&statements.schema);
            // A role may be allowed to use a schema that is there, and not to make one.
            if !has_schema.fetch_one(&mut *session).await.and_then(|row| row.try_get(0)).map_err(native)? {
                session.statement(&statements.create_schema).execute(&mut *session).await.map_err(native)?;
            }
            session.statement(&statements.create_bookkeeping).execute(&mut *session).await.map_err(native)?;
        }
        self.session = Some(session);
        Ok(())
    }

    async fn applied(&mut self) -> Result<Vec<Applied>> {
        let (session, statements) = self.session()?;
        let bookkeeping = session.statement(&statements.has_bookkeeping).bind(&statements.bookkeeping);
        if !bookkeeping.fetch_one(&mut **session).await.and_then(|row| row.try_get(0)).map_err(native)? {
            return Ok(Vec::new());
        }
        let rows = session.statement(&statements.applied).fetch_all(&mut **session).await.map_err(native)?;
        let applied = |row: sqlx::postgres::PgRow| {
            Ok(Applied {
                version: u32::try_from(row.try_get::<i64, _>(0)?).unwrap_or(u32::MAX),
                name: row.try_get(1)?,
                checksum: row.try_get(2)?,
                complete: row.try_get(3)?,
            })
        };
        rows.into_iter().map(applied).collect::<sqlx::Result<_>>().map_err(native)
    }

    async fn apply(&mut self, migration: &Migration) -> Result<()> {
        let (session, statements) = self.session()?;
        sqlx::raw_sql("SAVEPOINT step").execute(&mut **session).await.map_err(native)?;
        let text = AssertSqlSafe(migration.text.replace("{schema}", &statements.quoted_schema));
        let mut applied = sqlx::raw_sql(text).execute(&mut **session).await;
        if applied.is_ok() {
            let insert = session.statement(&statements.insert_applied);
            let insert = insert.bind(i64::from(migration.version)).bind(migration.name).bind(migration.checksum());
            applied = insert.execute(&mut **session).await;
        }
        let end = if applied.is_ok() { "RELEASE step" } else { "ROLLBACK TO step; RELEASE step" };
        let ended = sqlx::raw_sql(end).execute(&mut **session).await;
        applied.map_err(native)?;
        ended.map(drop).map_err(native)
    }

    async fn unlock(&mut self) -> Result<()> {
        match self.session.take() {
            Some(session) => session.commit().await,
            None => Ok(()),
        }
    }
}
