//! A row of MAIAR as a record of this project.

use futures::stream::BoxStream;
use memory_core::{Document, Memory, NewMemory, Result};

/// One row of MAIAR, converted.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// A memory whose id is a UUID, which it keeps; add it with `restore`.
    Memory(Memory),
    /// A memory whose id became its idempotency key (`maiar:` and the id); add it with `store`.
    New(NewMemory),
    /// A document that the plugin of MAIAR saved.
    Document(Document),
}

/// The memories, then the documents. After an error the stream ends.
pub type Records = BoxStream<'static, Result<Record>>;
