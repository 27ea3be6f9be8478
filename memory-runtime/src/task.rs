//! Tasks: new, running and finished ones.

use memory_core::{Error, ErrorKind, Memory, MemoryId, Metadata, Outcome, Result, Status};
use tokio::sync::oneshot;

use crate::{ContextItem, Space};

/// A task to be submitted.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct NewTask {
    /// The address, the container and the related spaces.
    pub space: Space,
    /// The event that started the task.
    pub trigger: ContextItem,
    /// Metadata of the memory, for filters; empty by default. The member `task` is reserved for the runtime.
    pub metadata: Metadata,
}

impl NewTask {
    /// Makes a task without metadata.
    pub fn new(space: Space, trigger: ContextItem) -> Self {
        Self { space, trigger, metadata: Metadata::default() }
    }

    /// Sets the metadata.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }
}

/// A running task, as planners see it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Task {
    /// The id of the task's memory.
    pub id: MemoryId,
    /// The address, the container and the related spaces.
    pub space: Space,
    /// The event that started the task.
    pub trigger: ContextItem,
    /// The chain of items so far, oldest first.
    pub chain: Vec<ContextItem>,
    /// The related memories that were recalled, newest first.
    pub related: Vec<Memory>,
    /// The metadata of the task's memory, without the member `task`.
    pub metadata: Metadata,
}

/// The end of a task.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Finished {
    /// The id of the task's memory.
    pub id: MemoryId,
    /// `Completed` or `Failed`; hosts other than a runtime may use other statuses.
    pub status: Status,
    /// The whole chain. The chain of a failed task ends with the error.
    pub chain: Vec<ContextItem>,
}

impl Finished {
    /// Makes the end of a task from its parts.
    pub fn new(id: MemoryId, status: Status, chain: Vec<ContextItem>) -> Self {
        Self { id, status, chain }
    }
}

/// A handle to a running task. Dropping it does not stop the task.
#[derive(Debug)]
pub struct TaskHandle {
    pub(crate) id: MemoryId,
    pub(crate) end: oneshot::Receiver<Result<Finished>>,
}

impl TaskHandle {
    /// Makes a handle for a host other than a runtime. `end` completes when the task ends; it is spawned on the caller's tokio runtime, so
    /// it runs even if the handle is dropped.
    pub fn new(id: MemoryId, end: impl Future<Output = Result<Finished>> + Send + 'static) -> Self {
        let (sender, receiver) = oneshot::channel();
        tokio::spawn(async move {
            // Fails if nobody waits for the end.
            let _ = sender.send(end.await);
        });
        Self { id, end: receiver }
    }

    /// The id of the task's memory.
    pub fn id(&self) -> MemoryId {
        self.id
    }

    /// Waits for the end of the task. A task that failed is returned as `Ok`, with the status `Failed`.
    ///
    /// # Errors
    /// An error means that this runtime stopped working on the task before its end: `Conflict` if another runtime has taken it, otherwise
    /// the error of the provider. [`recover`](crate::Runtime::recover) finds the task after its lease has expired.
    ///
    /// `Erased` means that an operator has erased the memory, so nothing is left to recover. This error is for the program that runs the
    /// runtime, which may know of erasures. To its own callers it should say only that the task does not exist.
    pub async fn wait(self) -> Result<Finished> {
        self.end.await.unwrap_or_else(|_| {
            let message = "the task was stopped before its end; it can be recovered when its lease has run out";
            Err(Error::new(ErrorKind::Unexpected, message).with_outcome(Outcome::Unknown))
        })
    }
}
