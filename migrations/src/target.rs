//! The side of the engine.

use std::fmt;

use async_trait::async_trait;
use memory_core::Result;

use crate::Step;

/// A step that a database has applied: one entry of its bookkeeping. `Display` names version and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The version of the [`Step`].
    pub version: u32,
    /// The name that it had.
    pub name: String,
    /// The checksum of the text that was executed.
    pub checksum: String,
    /// Whether the step came to its end. One that a backfill completes is not when it was applied; another always is, on an engine that
    /// applies it in one transaction or can repeat it.
    pub complete: bool,
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "version {} {:?}", self.version, self.name)
    }
}

/// A database that can be migrated: what an engine implements, over one connection.
#[async_trait]
pub trait Target: Send {
    /// Waits for the right to migrate, which one process holds at a time, and then makes the bookkeeping if it is missing.
    ///
    /// A call that fails leaves nothing locked. The engine has to release the lock also when the connection ends, since
    /// a caller may give up between two calls.
    async fn lock(&mut self) -> Result<()>;

    /// What the database has applied, in any order. Writes nothing, and may be called without the lock: where the
    /// bookkeeping is missing, nothing was applied.
    async fn applied(&mut self) -> Result<Vec<Applied>>;

    /// Executes the text of one step and keeps its bookkeeping, in one transaction where the engine has them for schemas. Where it
    /// does not, the entry is written last, and all that a step does can be repeated. The entry is complete if the step is
    /// [`Kind::Quick`](crate::Kind::Quick).
    async fn apply(&mut self, step: &Step) -> Result<()>;

    /// Gives the right back. Called once after each [`Target::lock`] that succeeded, also when a step failed.
    async fn unlock(&mut self) -> Result<()>;
}
