//! The engine: implements the core's traits on a PostgreSQL server.

use std::sync::Arc;
use std::time::Instant;

use memory_core::engine::{Access, Engine, FeedPosition, Provider, Work, corrupt};
use memory_core::{Backfill, Durability, Error, Health, MemoryProvider, Result, Timestamp};

use crate::config::PostgresConfig;
use crate::connection::{Connections, Session};
use crate::error::is_passing;
use crate::feed::Feed;
use crate::row::column;
use crate::schema;

/// Agent memory in a schema of a PostgreSQL database.
pub type PostgresMemory = Provider<PostgresEngine>;

/// Opens a [`PostgresMemory`] as a [`MemoryProvider`] object, for a program that chooses its engine at run time. The
/// generic provider is compiled in this crate, so the program need not compile it.
///
/// `InvalidInput` if the configuration is not valid.
pub fn open(config: PostgresConfig) -> Result<Arc<dyn MemoryProvider>> {
    Ok(Arc::new(PostgresMemory::open(config)?))
}

/// The engine of [`PostgresMemory`].
#[derive(Debug)]
pub struct PostgresEngine {
    connections: Arc<Connections>,
    feed: Feed,
}

impl Engine for PostgresEngine {
    const NAME: &'static str = "postgres";
    const BATCH: Option<(usize, usize)> = Some((256, 4 << 20));
    const RESTORE: (usize, usize) = (1_000, 16 << 20);
    const HISTORY: bool = true;
    const ERASES: bool = true;
    const VECTORS: bool = true;

    type Config = PostgresConfig;
    type Session = Session;

    async fn open(config: &PostgresConfig) -> Result<Self> {
        let connections = Arc::new(Connections::new(config)?);
        if let Err(error) = schema::set_up(&connections, config).await {
            connections.close().await;
            return Err(error);
        }
        let feed = Feed::new(&connections, config.kept_changes);
        Ok(Self { connections, feed })
    }

    async fn pending(&self) -> Result<Vec<Backfill>> {
        schema::pending(&self.connections).await
    }

    async fn backfill(&self) -> Result<()> {
        schema::backfill(&self.connections).await
    }

    async fn secret(&self, proposed: &str) -> Result<String> {
        let mut session = self.connections.session(Access::Write, None).await?;
        let mut kept = session.rows(session.statement(|on| &on.secret)).await?;
        if kept.is_empty() {
            kept = session.rows(session.statement(|on| &on.keep_secret).bind(proposed.to_owned())).await?;
        }
        session.end().await?;
        kept.first().map_or_else(|| Ok(String::new()), |row| column(row, 0))
    }

    async fn set_read_only(&self, is_read_only: bool) -> Result<()> {
        schema::set_read_only(&self.connections, is_read_only).await
    }

    async fn is_read_only(&self) -> Result<bool> {
        schema::is_read_only(&self.connections).await
    }

    async fn history_since(&self, proposed: Option<Timestamp>) -> Result<Option<Timestamp>> {
        let mut session = self.connections.session(Access::Write, None).await?;
        let mut kept = session.rows(session.statement(|on| &on.history_begin)).await?;
        if kept.is_empty() {
            let begin = session.statement(|on| &on.keep_history_begin).bind(proposed.map(Timestamp::as_millis));
            kept = session.rows(begin).await?;
            if kept.is_empty() {
                kept = session.rows(session.statement(|on| &on.history_begin)).await?;
            }
        }
        session.end().await?;
        let since: Option<i64> = kept.first().map(|row| column(row, 0)).transpose()?.flatten();
        since.map(Timestamp::from_millis).transpose().map_err(corrupt)
    }

    async fn hash_key(&self, proposed: &str) -> Result<String> {
        let mut session = self.connections.session(Access::Write, None).await?;
        let mut kept = session.rows(session.statement(|on| &on.hash_key)).await?;
        if kept.is_empty() {
            let keep = session.statement(|on| &on.keep_hash_key).bind(proposed.to_owned());
            kept = session.rows(keep).await?;
            if kept.is_empty() {
                kept = session.rows(session.statement(|on| &on.hash_key)).await?;
            }
        }
        session.end().await?;
        kept.first().map_or_else(|| Ok(String::new()), |row| column(row, 0))
    }

    /// Rules must take effect for every handle at once, so this does not read from a replica.
    async fn retention(&self) -> Result<Option<String>> {
        let mut session = self.connections.session(Access::ReadLatest, None).await?;
        let kept = session.rows(session.statement(|on| &on.retention)).await?;
        session.end().await?;
        kept.first().map(|row| column(row, 0)).transpose()
    }

    async fn set_retention(&self, rules: &str) -> Result<()> {
        let mut session = self.connections.session(Access::Write, None).await?;
        session.write(session.statement(|on| &on.keep_retention).bind(rules.to_owned())).await?;
        session.end().await
    }

    /// The model must take effect for every handle at once, so this does not read from a replica.
    async fn vector_model(&self) -> Result<Option<String>> {
        let mut session = self.connections.session(Access::ReadLatest, None).await?;
        let kept = session.rows(session.statement(|on| &on.vector_model)).await?;
        session.end().await?;
        kept.first().map(|row| column(row, 0)).transpose()
    }

    async fn set_vector_model(&self, model: &str) -> Result<()> {
        let mut session = self.connections.session(Access::Write, None).await?;
        session.write(session.statement(|on| &on.keep_vector_model).bind(model.to_owned())).await?;
        session.end().await
    }

    async fn close(&self) -> Result<()> {
        self.connections.close().await;
        Ok(())
    }

    async fn health(&self) -> Result<Health> {
        let start = Instant::now();
        let row = self.connections.ask(|on| &on.health).await?;
        let text = |index| column::<&str>(&row, index);
        let at_risk = |reason: &str| Durability::AtRisk { reason: reason.to_owned(), bound: None };
        let durability = match (text(2)?, text(3)?, text(4)?) {
            ("off", _, _) => at_risk("fsync is off: a crash of the server's machine can lose or damage everything"),
            (_, "off", _) => at_risk("full_page_writes is off on the server: a crash of its machine can damage pages"),
            (_, _, "off") => at_risk("synchronous_commit is off: a crash of the server can lose the latest writes"),
            _ => Durability::Durable,
        };
        let version = column::<Option<i64>>(&row, 1)?.and_then(|version| u32::try_from(version).ok());
        Ok(Health::new(Self::NAME, text(0)?, version.unwrap_or_default(), start.elapsed(), durability))
    }

    async fn run<A, T>(&self, access: Access, until: Instant, argument: Arc<A>, work: Work<Session, A, T>) -> Result<T>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        let session = self.connections.session(access, Some(until)).await?;
        let done = session.lend(|session| async move { session.run(&*argument, work).await }).await;
        if access == Access::Write {
            self.feed.tell();
        }
        done
    }

    async fn changed(&self, after: &FeedPosition, until: Instant) -> Result<()> {
        self.feed.changed(after, until.into()).await
    }

    fn unwatched(&self) {
        self.feed.unwatched();
    }

    fn is_temporary(&self, error: &Error) -> bool {
        is_passing(error)
    }
}
