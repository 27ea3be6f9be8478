//! A row of MAIAR as a record of this project.

use memory_core::{Document, Memory, NewMemory};

/// One row of MAIAR, converted.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// A memory whose id is a UUID and stays: restore it.
    Memory(Memory),
    /// A memory whose id became its idempotency key (`maiar:` and the id): store it.
    New(NewMemory),
    /// A document that the plugin of MAIAR saved.
    Document(Document),
}
