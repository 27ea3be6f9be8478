//! The engine: opens and closes a database, and runs work on it.

use std::sync::Arc;
use std::time::Instant;

use memory_core::engine::{Access, Engine, FeedPosition, Provider, Work};
use memory_core::{Backfill, Durability, Error, Health, MemoryProvider, Outcome, Result, Timestamp};
use mongodb::bson::doc;

use crate::config::MongoConfig;
use crate::connection::{Connections, MongoSession};
use crate::error::{NOT_VALID, code, is_temporary, native};
use crate::settings::{RETENTION, VECTOR_MODEL};
use crate::{feed, schema, settings};

/// Agent memory in a database of a MongoDB replica set.
///
/// Open it, call [`init`](memory_core::MemoryProvider::init), and hold it as `Arc<dyn MemoryProvider>`. Clones share the connections.
pub type MongoMemory = Provider<MongoEngine>;

/// Opens a [`MongoMemory`] as a [`MemoryProvider`] object, for a program that chooses its engine at run time. The
/// generic provider is compiled in this crate, so the program need not compile it.
///
/// `InvalidInput` if the configuration is not valid.
pub fn open(config: MongoConfig) -> Result<Arc<dyn MemoryProvider>> {
    Ok(Arc::new(MongoMemory::open(config)?))
}

/// The engine of [`MongoMemory`].
#[derive(Debug)]
pub struct MongoEngine {
    connections: Arc<Connections>,
}

/// How often a refused write is tried again if no rule refuses it any more: the read-only rule may be set and lifted
/// repeatedly meanwhile.
const MENDS: usize = 8;

impl Engine for MongoEngine {
    const NAME: &'static str = "mongo";
    // An insert of up to 48 MB is one command, so if it fails, it fails as a whole.
    const BATCH: Option<(usize, usize)> = Some((1_000, 16 << 20));
    const RESTORE: (usize, usize) = (1_000, 16 << 20);
    const HISTORY: bool = true;
    const ERASES: bool = true;
    const VECTORS: bool = true;

    type Config = MongoConfig;
    type Session = MongoSession;

    async fn open(config: &MongoConfig) -> Result<Self> {
        let connections = Arc::new(Connections::new(config).await?);
        let session = connections.session();
        let set_up = async move { session.retry(|| schema::set_up(&session)).await };
        if let Err(error) = connections.run(set_up).await {
            connections.close().await;
            return Err(error);
        }
        Ok(Self { connections })
    }

    async fn pending(&self) -> Result<Vec<Backfill>> {
        self.connections.run(schema::pending(self.connections.session())).await
    }

    async fn backfill(&self) -> Result<()> {
        let session = self.connections.session();
        let slice = async move {
            match schema::backfill(&session).await {
                Err(error) if code(&error) == Some(NOT_VALID) => Err(schema::refusal(&session, error).await),
                done => done,
            }
        };
        self.connections.run(slice).await
    }

    async fn secret(&self, proposed: &str) -> Result<String> {
        let (session, proposed) = (self.connections.session(), proposed.to_owned());
        self.connections.run(async move { schema::secret(&session, &proposed).await }).await
    }

    async fn set_read_only(&self, is_read_only: bool) -> Result<()> {
        let session = self.connections.session();
        self.connections.run(async move { schema::set_read_only(&session, is_read_only).await }).await
    }

    async fn is_read_only(&self) -> Result<bool> {
        let session = self.connections.session();
        self.connections.run(async move { schema::is_read_only(&session).await }).await
    }

    async fn history_since(&self, proposed: Option<Timestamp>) -> Result<Option<Timestamp>> {
        let session = self.connections.session();
        self.connections.run(async move { schema::history_since(&session, proposed).await }).await
    }

    async fn hash_key(&self, proposed: &str) -> Result<String> {
        let (session, proposed) = (self.connections.session(), proposed.to_owned());
        self.connections.run(async move { schema::hash_key(&session, &proposed).await }).await
    }

    async fn retention(&self) -> Result<Option<String>> {
        self.setting(RETENTION).await
    }

    async fn set_retention(&self, rules: &str) -> Result<()> {
        self.set(RETENTION, rules).await
    }

    async fn vector_model(&self) -> Result<Option<String>> {
        self.setting(VECTOR_MODEL).await
    }

    async fn set_vector_model(&self, model: &str) -> Result<()> {
        self.set(VECTOR_MODEL, model).await
    }

    async fn close(&self) -> Result<()> {
        self.connections.close().await;
        Ok(())
    }

    async fn health(&self) -> Result<Health> {
        let session = self.connections.session();
        let look = async move {
            let start = Instant::now();
            let build = async { session.on.database.run_command(doc! { "buildInfo": 1 }).await.map_err(native) };
            let (build, schema) = futures::try_join!(build, schema::version(&session))?;
            let version = build.get_str("version").unwrap_or("unknown");
            // Every write waits until a majority has journaled it.
            Ok(Health::new(Self::NAME, version, schema, start.elapsed(), Durability::Durable))
        };
        self.connections.run(look).await
    }

    async fn run<A, T>(
        &self,
        access: Access,
        until: Instant,
        argument: Arc<A>,
        work: Work<MongoSession, A, T>,
    ) -> Result<T>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        let reads = match access {
            Access::Read => &self.connections.configured,
            // A majority has it, so it is confirmed as well.
            Access::ReadLatest | Access::ReadConfirmed => &self.connections.latest,
            // A change is applied to what the primary has: against anything older it would lose the race.
            Access::Write => &self.connections.primary,
        };
        let mut session = MongoSession::new(&self.connections, reads, until);
        if access == Access::Write {
            let write = async move {
                let mut left = MENDS;
                let done = loop {
                    let refused = match work(&mut session, &argument).await {
                        Err(error) if code(&error) == Some(NOT_VALID) => schema::refusal(&session, error).await,
                        done => break done,
                    };
                    if left == 0 || code(&refused) != Some(NOT_VALID) || refused.outcome() == Outcome::Unknown {
                        break Err(refused);
                    }
                    // This removes a retired rule that came back. If the read-only rule was lifted meanwhile, the retry
                    // succeeds.
                    let _ = schema::mend(&session).await;
                    left -= 1;
                };
                session.settled(done).await
            };
            return self.connections.run_write(write).await;
        }
        let read = async {
            loop {
                let election = self.connections.election(&session).await?;
                let read = work(&mut session, &argument).await;
                if self.connections.is_last(election) {
                    return read;
                }
            }
        };
        self.connections.run_read(read).await
    }

    async fn changed(&self, after: &FeedPosition, until: Instant) -> Result<()> {
        feed::changed(&MongoSession::new(&self.connections, &self.connections.latest, until), after, until).await
    }

    fn is_temporary(&self, error: &Error) -> bool {
        is_temporary(error)
    }
}

impl MongoEngine {
    async fn setting(&self, name: &'static str) -> Result<Option<String>> {
        let session = self.connections.session();
        self.connections.run(async move { settings::get(&session, name).await }).await
    }

    /// Like every write, it is refused if the namespace is read-only.
    async fn set(&self, name: &'static str, value: &str) -> Result<()> {
        let (until, set) = (self.connections.until(), Arc::new((name, value.to_owned())));
        self.run(Access::Write, until, set, |session, (name, value): &(&'static str, String)| {
            Box::pin(settings::set(session, name, value))
        })
        .await
    }
}
