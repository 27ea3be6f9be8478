//! The feed: what an engine notes of each write, in the order in which the writes became visible.

use std::fmt;

use crate::{Collection, DocumentId, Error, KeyedHash, MemoryId, RecordId, Result};

/// A place in the feed of a namespace, in the engine's own bytes. Of two places of one feed the later one has the greater bytes.
///
/// It tells an engine as well whether the feed is still the one that gave it: see [`Reader::changes`](super::Reader::changes).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FeedPosition(Vec<u8>);

/// A record that was written. It names the record alone, since a watch tells how that is when it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedEntry {
    /// Where the entry stands.
    pub position: FeedPosition,
    /// What was written.
    pub write: FeedWrite,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedWrite {
    /// A memory was appended or replaced.
    Memory {
        /// Its id.
        id: MemoryId,
        /// Its space, which it keeps.
        space: String,
    },
    /// A document was put.
    Document {
        /// The collection.
        collection: Collection,
        /// The id in the collection.
        id: DocumentId,
        /// The space since then.
        space: String,
        /// The space of the version that was replaced, if that was another one.
        before: Option<String>,
        /// The revision since then.
        revision: u64,
    },
    /// A document was removed.
    Removal {
        /// The collection.
        collection: Collection,
        /// The id in the collection.
        id: DocumentId,
        /// The space that it had.
        space: String,
    },
    /// A record was erased.
    Erasure {
        /// What it was called.
        record: RecordId,
        /// By which it is told where it lay: those of its [`Tombstone`](crate::Tombstone).
        places: Vec<KeyedHash>,
    },
}

impl FeedWrite {
    /// Of which record it is.
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

/// The end of a feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedEnd {
    /// The last place up to which entries are given.
    pub position: FeedPosition,
    /// A later place, where some of what is visible waits for an earlier write that has not ended: when the feed has come up to it, all
    /// that was visible at this call was given.
    pub held_back_to: Option<FeedPosition>,
}

/// The next entries of a feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedPage {
    /// In their order. An entry whose record has no id that can be read may be left out.
    pub entries: Vec<FeedEntry>,
    /// Up to where they go: the place of the last entry, or a later one up to which there is none; the place that was asked for when there
    /// is nothing new.
    pub reached: FeedPosition,
    /// Whether nothing is behind it that was committed before this call: neither more than was wanted, nor what waits for an earlier write
    /// that has not ended.
    pub is_end: bool,
}

impl From<FeedPosition> for FeedEnd {
    /// The end of a feed that holds nothing back.
    fn from(position: FeedPosition) -> Self {
        Self { position, held_back_to: None }
    }
}

impl FeedPosition {
    /// The longest one, in bytes.
    pub const MAX_BYTES: usize = 255;

    /// A place with these bytes. `Corrupt` for more than [`FeedPosition::MAX_BYTES`].
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self> {
        let bytes = bytes.into();
        if bytes.len() > Self::MAX_BYTES {
            return Err(Error::corrupt("a place in the feed has too many bytes"));
        }
        Ok(Self(bytes))
    }

    /// A place that is known to be short enough.
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The bytes.
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
