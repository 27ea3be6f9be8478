//! The history of a record, as an engine keeps it: an entry for each write that changes one.

use std::fmt;

use super::session::Found;
use super::stored::corrupt;
use crate::history::{Image, changes};
use crate::{
    Actor, Collection, Document, DocumentId, Error, ErrorKind, Memory, MemoryId, RecordId, Result, Revision, Timestamp,
};

/// What a write leaves in the history of its record, in the same step.
#[derive(Clone, PartialEq)]
pub struct VersionEntry {
    /// The revision that the write made; of a removal that which it took away.
    pub revision: Revision,
    /// When it was, by the provider's clock.
    pub at: Timestamp,
    /// Who did it, if the write says so.
    pub actor: Option<Actor>,
    /// Whether it removed the document.
    pub is_removal: bool,
    /// What makes the version before of the one that the write made, in the core's own format; of a removal, the whole version. Empty where
    /// there was none before.
    pub before: Vec<u8>,
}

/// An entry where it stands in the history of its record.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryRow {
    /// Greater than the places of all earlier entries of the same record, also of those from before it was removed; below `u64::MAX`.
    pub place: u64,
    /// The entry.
    pub entry: VersionEntry,
}

/// A document to remove.
#[derive(Debug)]
pub struct Removal<'a, V> {
    /// What was read under its id.
    pub found: &'a Found<Document, V>,
    /// The end of its history, if the engine keeps one.
    pub end: Option<VersionEntry>,
}

impl VersionEntry {
    /// The entry of an update, or of a restore over an older version.
    pub(crate) fn of_update(before: &Memory, after: &Memory, at: Timestamp, actor: Option<Actor>) -> Self {
        let before = changes(&before.into(), &after.into());
        Self { revision: after.revision, at, actor, is_removal: false, before }
    }

    /// The entry of a put.
    pub(crate) fn of_put(before: Option<&Document>, after: &Document, at: Timestamp, actor: Option<Actor>) -> Self {
        let before = before.map_or_else(Vec::new, |before| changes(&before.into(), &after.into()));
        Self { revision: after.revision, at, actor, is_removal: false, before }
    }

    /// The entry of a removal.
    pub(crate) fn of_removal(document: &Document, at: Timestamp, actor: Option<Actor>) -> Self {
        let before = changes(&document.into(), &Image::default());
        Self { revision: document.revision, at, actor, is_removal: true, before }
    }

    /// An entry as an engine has stored it. `Corrupt` when a value breaks a rule of the contract.
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
    /// Payloads stay out of logs: of what was before only the size shows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { revision, at, actor, is_removal, before } = self;
        let what = if *is_removal { "removal of" } else { "write of" };
        write!(f, "VersionEntry({what} revision {revision} at {at} by {actor:?}, {} bytes)", before.len())
    }
}

/// The error of an engine that keeps no history.
pub(super) fn no_history() -> Error {
    Error::new(ErrorKind::Unsupported, "no history is kept here")
}

impl RecordId {
    /// Bytes that no other record has: what an engine keeps the history of a record under.
    pub fn to_key(&self) -> Vec<u8> {
        match self {
            Self::Memory(id) => [b"m", id.as_bytes().as_slice()].concat(),
            // No name of a collection holds the boundary.
            Self::Document { collection, id } => {
                [b"d", collection.as_str().as_bytes(), b"/", id.as_str().as_bytes()].concat()
            }
        }
    }

    /// The record with these bytes; `None` where they are of none.
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
