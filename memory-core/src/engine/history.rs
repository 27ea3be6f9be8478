//! History entries as an engine stores them: one for each write that changes a record.

use std::fmt;

use super::stored::corrupt;
use crate::history::{Image, changes};
use crate::{
    Actor, Collection, Document, DocumentId, Error, ErrorKind, Memory, MemoryId, RecordId, Result, Revision, Timestamp,
};

/// The entry that a write adds to its record's history, in the same step.
#[derive(Clone, PartialEq)]
pub struct VersionEntry {
    /// The revision that the write made; for a removal, the one that it removed.
    pub revision: Revision,
    /// The time of the write, by the provider's clock.
    pub at: Timestamp,
    /// The actor, if the write names one.
    pub actor: Option<Actor>,
    /// Whether the write removed the document.
    pub is_removal: bool,
    /// The difference to the version before, in the core's own format; for a removal, the whole version. Empty if there
    /// was none before.
    pub before: Vec<u8>,
}

/// An entry with its place in the record's history.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryRow {
    /// Ascending with time, also across a removal of the record; below `u64::MAX`.
    pub place: u64,
    /// The stored entry.
    pub entry: VersionEntry,
}

impl VersionEntry {
    /// Makes the entry of an update, or of a restore over an older version.
    pub(crate) fn of_update(before: &Memory, after: &Memory, at: Timestamp, actor: Option<Actor>) -> Self {
        let before = changes(&before.into(), &after.into());
        Self { revision: after.revision, at, actor, is_removal: false, before }
    }

    /// Makes the entry of a put.
    pub(crate) fn of_put(before: Option<&Document>, after: &Document, at: Timestamp, actor: Option<Actor>) -> Self {
        let before = before.map_or_else(Vec::new, |before| changes(&before.into(), &after.into()));
        Self { revision: after.revision, at, actor, is_removal: false, before }
    }

    /// Makes the entry of a removal.
    pub(crate) fn of_removal(document: &Document, at: Timestamp, actor: Option<Actor>) -> Self {
        let before = changes(&document.into(), &Image::default());
        Self { revision: document.revision, at, actor, is_removal: true, before }
    }

    /// Makes an entry from stored values. `Corrupt` if a value breaks a rule of the contract.
    pub fn from_stored(
        revision: i64,
        at: i64,
        actor: Option<&str>,
        is_removal: bool,
        before: impl Into<Vec<u8>>,
    ) -> Result<Self> {
        Ok(Self {
            revision: Revision::new(u64::try_from(revision).unwrap_or_default()).map_err(corrupt)?,
            at: Timestamp::from_millis(at).map_err(corrupt)?,
            actor: actor.map(Actor::parse).transpose().map_err(corrupt)?,
            is_removal,
            before: before.into(),
        })
    }
}

impl fmt::Debug for VersionEntry {
    /// Shows only the size of the previous version, because payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { revision, at, actor, is_removal, before } = self;
        let what = if *is_removal { "removal of" } else { "write of" };
        write!(f, "VersionEntry({what} revision {revision} at {at} by {actor:?}, {} bytes)", before.len())
    }
}

/// Makes the error of an engine that keeps no history.
pub(super) fn no_history() -> Error {
    Error::new(ErrorKind::Unsupported, "no history is kept here")
}

impl RecordId {
    /// Returns a unique key, under which an engine stores the record's history.
    pub fn to_key(&self) -> Vec<u8> {
        match self {
            Self::Memory(id) => [b"m", id.as_bytes().as_slice()].concat(),
            // A collection name never holds a `/`.
            Self::Document { collection, id } => {
                [b"d", collection.as_str().as_bytes(), b"/", id.as_str().as_bytes()].concat()
            }
        }
    }

    /// Parses such a key; `None` for any other bytes.
    pub fn from_key(key: &[u8]) -> Option<Self> {
        match key.split_first()? {
            (b'm', id) => Some(MemoryId::from_bytes(id.try_into().ok()?).into()),
            (b'd', name) => {
                let (collection, id) = str::from_utf8(name).ok()?.split_once('/')?;
                Some((Collection::parse(collection).ok()?, DocumentId::parse(id).ok()?).into())
            }
            _ => None,
        }
    }
}
