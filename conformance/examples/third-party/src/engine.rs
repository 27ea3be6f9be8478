//! The engine: how a file is opened, and where the sessions on it run.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use memory_core::engine::{Config, Engine, Retry, Settings, View, Work};
use memory_core::{
    Clock, DEFAULT_DEADLINE, Durability, Error, ErrorKind, Health, MemoryId, Result, SystemClock, TextIndex,
};
use tokio::runtime::Handle;
use tokio::task::{JoinError, spawn_blocking};

use crate::tables::{Session, VERSION};

/// Agent memory in a file of redb.
#[derive(Debug)]
pub struct Redb {
    session: Session,
}

/// Where the file is, and the settings of the provider.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RedbConfig {
    /// The file; made when it is missing.
    pub path: PathBuf,
    /// What text search covers; only documents by default.
    pub text_index: TextIndex,
    /// How long a call may take; 30 s by default.
    pub deadline: Duration,
    /// Where `updatedAt` comes from; the clock of the machine by default.
    pub clock: Arc<dyn Clock>,
}

impl RedbConfig {
    /// The default settings for a file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let (text_index, clock) = (TextIndex::default(), Arc::new(SystemClock));
        Self { path: path.into(), text_index, deadline: DEFAULT_DEADLINE, clock }
    }
}

impl Config for RedbConfig {
    fn settings(&self) -> Settings {
        let Self { text_index, deadline, clock, .. } = self.clone();
        Settings { deadline, patience: deadline, text_index, clock }
    }
}

impl Engine for Redb {
    const NAME: &'static str = "redb";
    const BATCH: Option<(usize, usize)> = Some((1_000, 4 << 20));
    const RESTORE: (usize, usize) = (10_000, 64 << 20);

    type Config = RedbConfig;
    type Reader = Session;
    type Writer = Session;

    async fn open(config: &RedbConfig) -> Result<Self> {
        let attempt = |_| async {
            let path = config.path.clone();
            spawn_blocking(move || Session::open(&path)).await.map_err(ended)?
        };
        // A file that was just closed is still being flushed. Longer than the deadline, which then ends it.
        let session = Retry::until(Instant::now() + 2 * config.deadline).run(Error::is_retryable, attempt).await?;
        Ok(Self { session })
    }

    async fn close(&self) -> Result<()> {
        // The file closes with the last session on it.
        Ok(())
    }

    async fn health(&self) -> Result<Health> {
        let (start, session) = (Instant::now(), self.session.clone());
        spawn_blocking(move || session.row(MemoryId::from_bytes([0; 16]))).await.map_err(ended)??;
        Ok(Health::new(Self::NAME, "4", VERSION, start.elapsed(), Durability::Durable))
    }

    async fn read<A, T>(&self, _: View, _: Instant, argument: Arc<A>, work: Work<Session, A, T>) -> Result<T>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        run(self.session.clone(), argument, work).await
    }

    async fn write<A, T>(&self, _: Instant, argument: Arc<A>, work: Work<Session, A, T>) -> Result<T>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        run(self.session.clone(), argument, work).await
    }
}

/// redb blocks, so it works on a thread of its own; a caller may go away meanwhile, and the work is done all the same (W10).
async fn run<A, T>(mut session: Session, argument: Arc<A>, work: Work<Session, A, T>) -> Result<T>
where
    A: Send + Sync + 'static,
    T: Send + 'static,
{
    let runtime = Handle::current();
    spawn_blocking(move || runtime.block_on(work(&mut session, &argument))).await.map_err(ended)?
}

fn ended(error: JoinError) -> Error {
    Error::new(ErrorKind::Unexpected, "the call ended early").with_source(error)
}
