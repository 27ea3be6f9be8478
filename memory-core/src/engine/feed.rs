//! The feed: an entry for each write, in the order in which the writes became visible.

use std::fmt;

use crate::{Collection, DocumentId, Error, KeyedHash, MemoryId, RecordId, Result};

/// A position in the feed of a namespace, in the engine's own bytes. Within one feed, later positions have greater
/// bytes.
///
/// From a position the engine can also tell whether its feed is still the one that gave it: see
/// [`Reader::changes`](super::Reader::changes).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FeedPosition(Vec<u8>);

/// Identifies the timeline of a storage: another one begins when the storage may have gone back to an earlier state, for
/// example because a replica has taken over. The default is the only one of a storage that has no others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timeline(String);

/// An entry of the feed. It names the record only; a watch delivers the record as it is at that time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedEntry {
    /// The position of the entry.
    pub position: FeedPosition,
    /// The write that it describes.
    pub write: FeedWrite,
}

/// The write that a feed entry describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedWrite {
    /// A memory was appended or replaced.
    Memory {
        /// The id of the memory.
        id: MemoryId,
        /// The memory's space, which never changes.
        space: String,
    },
    /// A document was put.
    Document {
        /// The document's collection.
        collection: Collection,
        /// The document's id in the collection.
        id: DocumentId,
        /// The space after the put.
        space: String,
        /// The space before the put, if it was another one.
        before: Option<String>,
        /// The revision after the put.
        revision: u64,
    },
    /// A document was removed.
    Removal {
        /// The document's collection.
        collection: Collection,
        /// The document's id in the collection.
        id: DocumentId,
        /// The space of the removed document.
        space: String,
    },
    /// A record was erased.
    Erasure {
        /// The id of the erased record.
        record: RecordId,
        /// The place hashes of its [`Tombstone`](crate::Tombstone), by which a watch decides whether the record lay in
        /// its spaces.
        places: Vec<KeyedHash>,
    },
}

impl FeedWrite {
    /// Returns the record that was written.
    pub fn record(&self) -> RecordId {
        match self {
            Self::Memory { id, .. } => RecordId::Memory(*id),
            Self::Document { collection, id, .. } | Self::Removal { collection, id, .. } => {
                RecordId::Document { collection: collection.clone(), id: id.clone() }
            }
            Self::Erasure { record, .. } => record.clone(),
        }
    }

    pub(crate) fn is_erasure(&self) -> bool {
        matches!(self, Self::Erasure { .. })
    }
}

/// The end of the feed at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedEnd {
    /// The last position whose entries can be delivered.
    pub position: FeedPosition,
    /// A later position, if some visible writes wait for an earlier write that has not ended. Once the feed reaches it,
    /// everything visible at this call was delivered. [`Reader::changes`](super::Reader::changes) can check it before.
    pub held_back_to: Option<FeedPosition>,
}

impl FeedEnd {
    /// Returns the position of the last visible write, held back or not.
    pub(crate) fn visible(self) -> FeedPosition {
        self.held_back_to.unwrap_or(self.position)
    }
}

/// A page of the feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedPage {
    /// The entries in order. An entry whose record id can't be read may be left out.
    pub entries: Vec<FeedEntry>,
    /// The position that the page reaches: that of the last entry, or a later one with no entry in between; the
    /// requested position if there is nothing new.
    pub reached: FeedPosition,
    /// Whether nothing committed before this call follows: neither entries beyond the limit, nor entries that wait for
    /// an earlier write that has not ended.
    pub is_end: bool,
}

impl Timeline {
    /// Makes a timeline from the engine's name for it.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }
}

impl From<FeedPosition> for FeedEnd {
    /// Makes the end of a feed that holds nothing back.
    fn from(position: FeedPosition) -> Self {
        Self { position, held_back_to: None }
    }
}

impl FeedPosition {
    /// Maximum length, in bytes.
    pub const MAX_BYTES: usize = 255;

    /// Makes a position from bytes. `Corrupt` for more than [`FeedPosition::MAX_BYTES`].
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self> {
        let bytes = bytes.into();
        if bytes.len() > Self::MAX_BYTES {
            return Err(Error::corrupt("a place in the feed has too many bytes"));
        }
        Ok(Self(bytes))
    }

    /// Makes a position from bytes that are known to be short enough.
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Returns the engine's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for FeedPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FeedPosition(")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}
