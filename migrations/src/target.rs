//! The trait that an engine implements to be migrated.

use std::fmt;

use async_trait::async_trait;
use memory_core::Result;

use crate::Step;

/// A step that a database has applied: one entry of its bookkeeping. `Display` shows version and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The version of the [`Step`].
    pub version: u32,
    /// The name of the step.
    pub name: String,
    /// The checksum of the executed text.
    pub checksum: String,
    /// Whether the step is complete. A step with a backfill becomes complete later; any other step is complete when it
    /// was applied, because the engine applies it in one transaction or can repeat it.
    pub complete: bool,
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "version {} {:?}", self.version, self.name)
    }
}

/// A database that can be migrated, over one connection.
#[async_trait]
pub trait Target: Send {
    /// Waits for the migration lock, which one process holds at a time, then creates the bookkeeping if it is missing.
    ///
    /// A failed call must leave nothing locked. The engine must also release the lock when the connection ends, because
    /// a caller may give up between two calls.
    async fn lock(&mut self) -> Result<()>;

    /// Returns the applied steps in any order. Writes nothing, and may be called without the lock; without bookkeeping
    /// nothing was applied.
    async fn applied(&mut self) -> Result<Vec<Applied>>;

    /// Executes the text of a step and stores its bookkeeping entry, in one transaction if the engine has transactions
    /// for schemas. If not, the entry is written last, and everything that the step does must be repeatable. The entry
    /// is complete if the step is [`Kind::Quick`](crate::Kind::Quick).
    async fn apply(&mut self, step: &Step) -> Result<()>;

    /// Releases the lock. Called once after each successful [`Target::lock`], even if a step failed.
    async fn unlock(&mut self) -> Result<()>;
}
