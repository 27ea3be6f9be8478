//! The engine: how a file is opened, and where the sessions on it run.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use memory_core::engine::{Access, Config, Engine, EngineSettings, Reader, Retry, Work};
use memory_core::{Durability, Error, ErrorKind, Health, Result};
use tokio::runtime::Handle;

use crate::tables::{Session, VERSION};

/// Agent memory in a file of redb.
#[derive(Debug)]
pub struct Redb(Session);

/// The file of an engine, and the settings of its provider.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RedbConfig {
    /// The path of the file, which is created if it is missing.
    pub path: PathBuf,
    /// The settings that all engines have.
    pub settings: EngineSettings,
}

impl RedbConfig {
    /// The default settings for a file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), settings: EngineSettings::default() }
    }
}

impl Config for RedbConfig {
    fn settings(&self) -> EngineSettings {
        self.settings.clone()
    }
}

impl Engine for Redb {
    const NAME: &'static str = "redb";
    const BATCH: Option<(usize, usize)> = Some((1_000, 4 << 20));
    const RESTORE: (usize, usize) = (10_000, 64 << 20);

    type Config = RedbConfig;
    type Session = Session;

    async fn open(config: &RedbConfig) -> Result<Self> {
        let open = |_| {
            let path = config.path.clone();
            on_a_thread(move || Session::open(&path))
        };
        // A file that was just closed may still be flushed, so this tries again until the deadline.
        Retry::until(Instant::now() + config.settings.deadline + Duration::from_secs(1))
            .run(Error::is_retryable, open)
            .await
            .map(Self)
    }

    async fn secret(&self, proposed: &str) -> Result<String> {
        let (session, proposed) = (self.0.clone(), proposed.to_owned());
        on_a_thread(move || session.secret(&proposed)).await
    }

    async fn close(&self) -> Result<()> {
        Ok(()) // The file closes with the last session on it.
    }

    async fn health(&self) -> Result<Health> {
        let start = Instant::now();
        run(self.0.clone(), Arc::new(()), |session, ()| Box::pin(session.collections(None, 1))).await?;
        Ok(Health::new(Self::NAME, "4", VERSION, start.elapsed(), Durability::Durable))
    }

    async fn run<A, T>(&self, _: Access, _: Instant, argument: Arc<A>, work: Work<Session, A, T>) -> Result<T>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        run(self.0.clone(), argument, work).await
    }
}

/// redb blocks, so it works on a thread of its own; the work is completed even if the caller drops the call (W10).
async fn run<A, T>(mut session: Session, argument: Arc<A>, work: Work<Session, A, T>) -> Result<T>
where
    A: Send + Sync + 'static,
    T: Send + 'static,
{
    let runtime = Handle::current();
    on_a_thread(move || runtime.block_on(work(&mut session, &argument))).await
}

async fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let ended = |error| Error::new(ErrorKind::Unexpected, "the call ended early").with_source(error);
    tokio::task::spawn_blocking(work).await.map_err(ended)?
}
