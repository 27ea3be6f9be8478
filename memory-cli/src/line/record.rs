//! What a line holds.

use memory_core::{
    self as core, Context, Document, HashKey, Memory, Metadata, NewMemory, Tombstone, Trigger, Vector, VectorModel,
    Version,
};

/// The record in a line.
#[derive(Debug)]
pub(crate) enum Record {
    /// A memory without an id, which is stored once, however often it is imported.
    New(NewMemory),
    /// A memory with an id, which is restored unchanged.
    Memory(Memory),
    /// A document; if it had no id, the id is made from its content.
    Document(Document),
    /// A version of a memory or document. The versions of a record are consecutive lines, the oldest first.
    Version(Version),
    /// The tombstone of an erased record, with the key of its hashes.
    Tombstone(Tombstone, HashKey),
    /// The embedding model of the vectors in the following lines.
    VectorModel(VectorModel),
}

/// A parsed line: a record, and the vector beside it.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) record: Record,
    /// The vector of a memory with an id, of a document, or of the last version of a record.
    pub(crate) vector: Option<Vector>,
}

impl Record {
    /// The size of its texts in bytes.
    pub(crate) fn size(&self) -> usize {
        let of_memory = |trigger: &Trigger, context: &Option<Context>, metadata: &Metadata| {
            trigger.as_str().len()
                + context.as_ref().map_or(0, |context| context.as_str().len())
                + metadata.as_str().len()
        };
        match self {
            Self::New(memory) => of_memory(&memory.trigger, &memory.context, &memory.metadata),
            Self::Memory(memory) => of_memory(&memory.trigger, &memory.context, &memory.metadata),
            Self::Document(document) => document.content.as_str().len() + document.metadata.as_str().len(),
            Self::Version(version) => version.record.as_ref().map_or(0, core::Record::size),
            Self::Tombstone(tombstone, _) => tombstone.reason.as_str().len(),
            Self::VectorModel(model) => model.name().len(),
        }
    }
}

impl From<maiar::Record> for Record {
    fn from(record: maiar::Record) -> Self {
        match record {
            maiar::Record::New(memory) => Self::New(memory),
            maiar::Record::Memory(memory) => Self::Memory(memory),
            maiar::Record::Document(document) => Self::Document(document),
        }
    }
}
