//! The schema: PostgreSQL as a target of the migrations crate, the text index of the ledger, and what operators ask.

use async_trait::async_trait;
use memory_core::{Error, ErrorKind, Inspection, Result, TextIndex, Timestamp};
use migrations::{Applied, Report, Step, Target};
use sqlx::AssertSqlSafe;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::config::PostgresConfig;
use crate::connection::{Connections, Session};
use crate::error::native;
use crate::read::{column, memory_of};
use crate::statements::{id_to_sql, words_of};

/// Creates or migrates the schema, as `init` does, and tells which steps that took.
pub async fn migrate(config: &PostgresConfig) -> Result<Report> {
    on_connections(config, async |connections| set_up(connections).await).await
}

/// Tells which steps [`migrate`] would take, and changes nothing; a missing schema stays missing.
pub async fn plan(config: &PostgresConfig) -> Result<Report> {
    let plan = async |connections: &Connections| {
        let session = Some(connections.first_transaction().await?);
        migrations::plan(&mut PostgresTarget { connections, session }, migrations::postgres(), &[]).await
    };
    on_connections(config, plan).await
}

/// Removes the schema with everything in it, for ever. Nothing happens when there is none.
pub async fn remove(config: &PostgresConfig) -> Result<()> {
    let remove = async |connections: &Connections| {
        let mut session = connections.first_transaction().await?;
        session.write(session.statement(|on| &on.remove_schema)).await?;
        session.end().await
    };
    on_connections(config, remove).await
}

/// Tells which tables and indexes of the schema are missing, and what time it is at the server; changes nothing.
pub async fn inspect(config: &PostgresConfig) -> Result<Inspection> {
    let look = async |connections: &Connections| {
        let mut session = connections.first_transaction().await?;
        let row = session.row(session.statement(|on| &on.inspect).bind(&session.on().schema)).await?;
        session.end().await?;
        let present: Vec<String> = column(&row, 1)?;
        let names = migrations::postgres().iter().flat_map(|step| names(step.text));
        let missing = names.filter(|name| !present.iter().any(|present| present == name)).map(str::to_owned).collect();
        let server_time = Timestamp::from_millis(column(&row, 0)?)?;
        Ok(Inspection::new(missing, Some(server_time), u64::try_from(column::<i64>(&row, 2)?).ok()))
    };
    on_connections(config, look).await
}

/// Creates or migrates the schema.
pub(crate) async fn set_up(connections: &Connections) -> Result<Report> {
    migrations::migrate(&mut PostgresTarget { connections, session: None }, migrations::postgres(), &[]).await
}

/// Indexes the words of the whole ledger if that is wanted and nobody did it before.
pub(crate) async fn set_up_text_index(connections: &Connections, text_index: TextIndex) -> Result<()> {
    let has_text = learn_ledger_text(connections).await?;
    if text_index != TextIndex::All {
        return Ok(());
    }
    let mut session = connections.transaction().await?;
    if has_text && session.holds(session.statement(|on| &on.is_ledger_text_complete)).await? {
        return session.end().await;
    }
    // Waits for the stores that don't know of the index yet; whoever comes later indexes what it stores.
    session.write(session.statement(|on| &on.lock_ledger)).await?;
    session.write(session.statement(|on| &on.begin_ledger_text)).await?;
    session.end().await?;
    learn_ledger_text(connections).await?;

    let mut from = Some(Uuid::nil());
    while let Some(id) = from {
        let mut session = connections.write().await?;
        let rows = session.rows(session.statement(|on| &on.memories_from_id).bind(id)).await?;
        // A row that can't be read has no words.
        let memories: Vec<_> = rows.iter().filter_map(|row| memory_of(row).ok()).collect();
        let ids: Vec<_> = memories.iter().map(|memory| id_to_sql(memory.id)).collect();
        let words: Vec<_> = memories.iter().map(words_of).collect();
        session.write(session.statement(|on| &on.insert_words).bind(ids).bind(words)).await?;
        session.end().await?;
        let last = rows.last().map(|row| column::<Uuid>(row, 0)).transpose()?;
        from = last.and_then(|id| id.as_u128().checked_add(1)).map(Uuid::from_u128);
    }
    let mut session = connections.write().await?;
    session.write(session.statement(|on| &on.complete_ledger_text)).await?;
    session.end().await
}

async fn learn_ledger_text(connections: &Connections) -> Result<bool> {
    let mut session = connections.write().await?;
    let has_text = session.learn_ledger_text().await?;
    session.end().await.map(|()| has_text)
}

/// Runs something on connections of its own.
async fn on_connections<T>(config: &PostgresConfig, work: impl AsyncFnOnce(&Connections) -> Result<T>) -> Result<T> {
    let connections = Connections::new(config)?;
    let done = work(&connections).await;
    connections.close().await;
    done
}

/// The tables and indexes that a step creates, each by a statement that begins a line.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let statements = text.lines().filter(|line| line.starts_with("CREATE "));
    statements.filter_map(|statement| {
        let mut words = statement.split_whitespace().skip_while(|word| !["TABLE", "INDEX"].contains(word));
        words.nth(1).map(|name| name.trim_start_matches("{schema}."))
    })
}

/// All steps go in one transaction, which holds the lock; a connection that ends takes both back.
struct PostgresTarget<'c> {
    connections: &'c Connections,
    session: Option<Session>,
}

impl PostgresTarget<'_> {
    fn session(&mut self) -> Result<&mut Session> {
        self.session.as_mut().ok_or_else(|| Error::new(ErrorKind::Unexpected, "the schema is not locked"))
    }
}

#[async_trait]
impl Target for PostgresTarget<'_> {
    async fn lock(&mut self) -> Result<()> {
        let mut session = self.connections.first_transaction().await?;
        session.row(session.statement(|on| &on.lock_schema).bind(&session.on().schema)).await?;
        if !has_bookkeeping(&mut session).await? {
            // A role may be allowed to use a schema that is there, and not to make one.
            if !session.holds(session.statement(|on| &on.has_schema).bind(&session.on().schema)).await? {
                session.write(session.statement(|on| &on.create_schema)).await?;
            }
            session.write(session.statement(|on| &on.create_bookkeeping)).await?;
        }
        self.session = Some(session);
        Ok(())
    }

    async fn applied(&mut self) -> Result<Vec<Applied>> {
        let session = self.session()?;
        if !has_bookkeeping(session).await? {
            return Ok(Vec::new());
        }
        let applied = |row: &PgRow| {
            Ok(Applied {
                version: u32::try_from(column::<i64>(row, 0)?).unwrap_or(u32::MAX),
                name: column(row, 1)?,
                checksum: column(row, 2)?,
                complete: column(row, 3)?,
            })
        };
        session.rows(session.statement(|on| &on.applied)).await?.iter().map(applied).collect()
    }

    async fn apply(&mut self, step: &Step) -> Result<()> {
        let session = self.session()?;
        session.command("SAVEPOINT migration").await.map_err(native)?;
        let text = step.text.replace("{schema}", &session.on().quoted_schema);
        let mut applied = session.command(AssertSqlSafe(text)).await.map_err(native);
        if applied.is_ok() {
            let insert = session.statement(|on| &on.insert_applied).bind(i64::from(step.version));
            applied = session.write(insert.bind(step.name).bind(step.checksum())).await.map(drop);
        }
        let end = if applied.is_ok() { "RELEASE migration" } else { "ROLLBACK TO migration; RELEASE migration" };
        let ended = session.command(end).await.map_err(native);
        applied.and(ended)
    }

    async fn unlock(&mut self) -> Result<()> {
        match self.session.take() {
            Some(session) => session.end().await,
            None => Ok(()),
        }
    }
}

async fn has_bookkeeping(session: &mut Session) -> Result<bool> {
    session.holds(session.statement(|on| &on.has_bookkeeping).bind(&session.on().bookkeeping)).await
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
