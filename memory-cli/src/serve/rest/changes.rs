//! Changes of a watch, as JSON: for the server and the command line.

use memory_core::{ChangeKind, Collection, Document, DocumentId, Memory, MemoryId, Record, RecordId, Unreadable};
use serde::Serialize;
use utoipa::ToSchema;

use super::wire::documents::DocumentBody;
use super::wire::memories::MemoryBody;

/// A change. Its kind determines which members are present.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = Change)]
pub(crate) struct ChangeBody {
    kind: ChangeName,
    /// The current memory, if it was stored or updated.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<MemoryBody>,
    /// The current document, if it was stored or updated.
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<DocumentBody>,
    /// The collection of a document that was removed or erased, or has left.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    collection: Option<Collection>,
    /// The id of a record that was removed or erased, has left or, for callers that may read every space, can't be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// Why a record can't be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// The kind of a change.
#[derive(Debug, Clone, Copy, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ChangeName {
    /// A record is at its first revision.
    Stored,
    /// A record is at a later revision.
    Updated,
    /// A document was removed.
    Removed,
    /// A record was erased, and nothing is left of it.
    Erased,
    /// A record has changed and no longer satisfies the conditions.
    Left,
    /// A record has changed and can't be read.
    Unreadable,
    /// The watch is at this position, and more changes follow.
    #[default]
    Progress,
    /// All changes up to this position were sent.
    Reached,
}

impl ChangeName {
    /// As JSON has it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Updated => "updated",
            Self::Removed => "removed",
            Self::Erased => "erased",
            Self::Left => "left",
            Self::Unreadable => "unreadable",
            Self::Progress => "progress",
            Self::Reached => "reached",
        }
    }
}

impl ChangeBody {
    /// A change for a caller who gets to see the ids of records that can't be read, or does not.
    pub(crate) fn new(kind: ChangeKind, shows_ids: bool) -> Self {
        match kind {
            ChangeKind::Stored(record) => Self { kind: ChangeName::Stored, ..record.into() },
            ChangeKind::Updated(record) => Self { kind: ChangeName::Updated, ..record.into() },
            ChangeKind::Removed(id) => Self { kind: ChangeName::Removed, ..id.into() },
            ChangeKind::Erased(id) => Self { kind: ChangeName::Erased, ..id.into() },
            ChangeKind::Left(id) => Self { kind: ChangeName::Left, ..id.into() },
            ChangeKind::Unreadable(Unreadable { id, reason }) => {
                let id = shows_ids.then_some(id);
                Self { kind: ChangeName::Unreadable, id, reason: Some(reason), ..Self::default() }
            }
            ChangeKind::Reached => Self { kind: ChangeName::Reached, ..Self::default() },
            // What this program does not know is passed over, and the token still tells how far the watch is.
            _ => Self::default(),
        }
    }

    /// The kind of the change, which names its event.
    pub(crate) fn kind(&self) -> ChangeName {
        self.kind
    }
}

impl From<Record> for ChangeBody {
    fn from(record: Record) -> Self {
        match record {
            Record::Memory(memory) => Self::from(memory),
            Record::Document(document) => Self::from(document),
        }
    }
}

impl From<Memory> for ChangeBody {
    fn from(memory: Memory) -> Self {
        Self { memory: Some(memory.into()), ..Self::default() }
    }
}

impl From<Document> for ChangeBody {
    fn from(document: Document) -> Self {
        Self { document: Some(document.into()), ..Self::default() }
    }
}

impl From<RecordId> for ChangeBody {
    fn from(id: RecordId) -> Self {
        match id {
            RecordId::Memory(id) => Self::from(id),
            RecordId::Document { collection, id } => Self { collection: Some(collection), ..Self::from(id) },
        }
    }
}

impl From<MemoryId> for ChangeBody {
    fn from(id: MemoryId) -> Self {
        Self { id: Some(id.to_string()), ..Self::default() }
    }
}

impl From<DocumentId> for ChangeBody {
    fn from(id: DocumentId) -> Self {
        Self { id: Some(id.to_string()), ..Self::default() }
    }
}
