//! What a row of MAIAR becomes here.

use memory_core::{Document, Memory, NewMemory};

/// One row of MAIAR.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// A memory that keeps its id: to be restored.
    Memory(Memory),
    /// A memory whose id is its idempotency key: to be stored.
    New(NewMemory),
    /// What the plugin saved.
    Document(Document),
}
