//! Tasks: what is submitted, what is worked on, and what came of it.

use memory_core::{Error, ErrorKind, Memory, MemoryId, Metadata, Outcome, Result, Status};
use tokio::sync::oneshot;

use crate::{ContextItem, Space};

/// A task that is not submitted yet.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct NewTask {
    /// Where it happens.
    pub space: Space,
    /// What started it.
    pub trigger: ContextItem,
    /// What filters can look into; empty by default. The member `task` belongs to the runtime.
    pub metadata: Metadata,
}

impl NewTask {
    /// A task without metadata.
    pub fn new(space: Space, trigger: ContextItem) -> Self {
        Self { space, trigger, metadata: Metadata::default() }
    }

    /// With metadata.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }
}

/// A task that is being worked on, as planners see it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Task {
    /// The id of its memory.
    pub id: MemoryId,
    /// Where it happens.
    pub space: Space,
    /// What started it.
    pub trigger: ContextItem,
    /// What came of it so far.
    pub chain: Vec<ContextItem>,
    /// What was recalled for it, newest first.
    pub related: Vec<Memory>,
    /// The metadata of its memory.
    pub metadata: Metadata,
}

/// What became of a task.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Finished {
    /// The id of its memory.
    pub id: MemoryId,
    /// `Completed` or `Failed`; of a host that is no runtime also another one.
    pub status: Status,
    /// The whole chain; that of a failed task ends with the error.
    pub chain: Vec<ContextItem>,
}

impl Finished {
    /// What became of the task of a memory.
    pub fn new(id: MemoryId, status: Status, chain: Vec<ContextItem>) -> Self {
        Self { id, status, chain }
    }
}

/// A task that is worked on. Dropping it changes nothing for the task.
#[derive(Debug)]
pub struct TaskHandle {
    pub(crate) id: MemoryId,
    pub(crate) end: oneshot::Receiver<Result<Finished>>,
}

impl TaskHandle {
    /// A task of another host than a runtime, and what tells its end; that is awaited on the Tokio runtime of the caller, whether the
    /// handle is kept or not.
    pub fn new(id: MemoryId, end: impl Future<Output = Result<Finished>> + Send + 'static) -> Self {
        let (sender, receiver) = oneshot::channel();
        tokio::spawn(async move {
            // Nobody may be waiting.
            let _ = sender.send(end.await);
        });
        Self { id, end: receiver }
    }

    /// The id of its memory.
    pub fn id(&self) -> MemoryId {
        self.id
    }

    /// Waits for the end of the task, which a failed step is as well.
    ///
    /// An error says that this runtime stopped working on it while it was open: `Conflict` when another runtime has
    /// taken it, else what the ledger answered. Then [`recover`](crate::Runtime::recover) finds it when its lease has
    /// run out.
    ///
    /// `Erased` says that an operator has erased its memory, and nothing is left to recover. The program that holds the runtime is the
    /// operator's, and has the ledger too; to others it tells that the task is not there.
    pub async fn wait(self) -> Result<Finished> {
        self.end.await.unwrap_or_else(|_| {
            let message = "the task was stopped before its end; it can be recovered when its lease has run out";
            Err(Error::new(ErrorKind::Unexpected, message).with_outcome(Outcome::Unknown))
        })
    }
}
