//! Watching: what is watched, from where on, and the changes that come.

use std::collections::BTreeSet;
use std::fmt;

use futures::stream::BoxStream;
use sha2::{Digest, Sha256};

use crate::cursor::Fingerprint;
use crate::filter::RecordSource;
use crate::query::{Documents, Kind, Ledger};
use crate::{
    Collection, Document, DocumentId, DocumentQuery, Error, Memory, MemoryId, MemoryQuery, Order, QueryBuilder, Result,
    Revision, Timestamp, Unreadable,
};

/// How many watches of one provider there are at most, until their streams are dropped (C7).
pub const MAX_WATCHES: usize = 2_048;
/// After how many bytes of records a watch ends a page of changes, whatever it tells of them (C7).
pub(crate) const MAX_CHANGES_BYTES: usize = 4 << 20;
/// How many bytes of changes all watches of one provider hold that nobody has asked for, but for the page that was read last (C7).
pub(crate) const MAX_HELD_BYTES: usize = 128 << 20;
/// The most collections that a watch names (C1).
pub const MAX_COLLECTIONS: usize = 1_000;
/// How many records a page of a snapshot has.
const SNAPSHOT: usize = 100;

/// What is watched, and from where on.
///
/// ```
/// use memory_core::{MemoryQuery, Watch, WatchFrom, Watched};
///
/// let watch = Watch::new(Watched::Memories, MemoryQuery::builder().under("guild-1"))?.from(WatchFrom::Beginning);
/// # Ok::<(), memory_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Watch {
    of: Watched,
    conditions: MemoryQuery,
    from: WatchFrom,
    pub(crate) fingerprint: Fingerprint,
}

/// Which records are watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Watched {
    /// Those of the ledger.
    Memories,
    /// Those of these collections.
    Documents(Collections),
    /// Both.
    Both(Collections),
}

/// Collections of documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Collections {
    /// Every one, also those that come later.
    All,
    /// These; at least one, [`MAX_COLLECTIONS`] at most.
    Named(BTreeSet<Collection>),
}

/// Where a watch begins (C2).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum WatchFrom {
    /// With a snapshot of everything that is there, and goes on with what has changed since it was begun.
    Beginning,
    /// With what changes from now on.
    #[default]
    Now,
    /// Behind the change that came with this token, in a watch of the same records with the same conditions.
    Token(String),
}

/// The changes of a watch, as far as it has come. Ends with its first error; whoever goes on begins with the token of the last change.
///
/// It looks for changes when it is polled, keeps a page of them, and holds nothing of the engine in between: a page that it has begun it ends.
pub type Changes = BoxStream<'static, Result<Change>>;

/// One change, and where to go on behind it.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Goes on behind this change: see [`WatchFrom::Token`].
    pub token: WatchToken,
    /// What has changed.
    pub kind: ChangeKind,
}

/// What a change tells.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ChangeKind {
    /// The record is at its first revision.
    Stored(Record),
    /// The record is at a later revision.
    Updated(Record),
    /// The document is gone.
    Removed(RecordId),
    /// The record was erased (E4). It may be one that was never told of.
    Erased(RecordId),
    /// The record has changed and does not satisfy the conditions now, or has moved to a space that is not watched (C4). It may be one that
    /// was never told of.
    Left(RecordId),
    /// The record has changed, or is part of the snapshot, and can't be read (Q8).
    Unreadable(Unreadable),
    /// The watch has come this far, and there is more to tell. Comes only before the first [`ChangeKind::Reached`], whenever nothing else came
    /// for [`HEARTBEAT`](crate::engine::HEARTBEAT), so that one that is cut off does not begin at the front again.
    Progress,
    /// Everything up to here was told. Comes first when all was told that was there when the watch began, and from then on whenever nothing
    /// else came for [`HEARTBEAT`](crate::engine::HEARTBEAT), so that there is a recent token however little of what changes is watched.
    Reached,
}

/// A record of a watch, as it is now.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// A row of the ledger.
    Memory(Memory),
    /// A document.
    Document(Document),
}

/// What names a record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordId {
    /// A row of the ledger.
    Memory(MemoryId),
    /// A document.
    Document {
        /// The collection that it is in.
        collection: Collection,
        /// Its id there.
        id: DocumentId,
    },
}

/// Goes on behind a change. Sealed as a [`Cursor`](crate::Cursor) is; survives a restart, and belongs to its watch (C5).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WatchToken(pub(crate) String);

impl Watch {
    /// Watches records that satisfy what a query of the ledger asks, from now on. Order, limit, offset and cursor of the query mean nothing
    /// here. Documents satisfy its spaces, `within`, filter and text.
    ///
    /// `InvalidInput` when the query is not valid, when it names a field or a condition that what is watched does not have, or when no
    /// collection is named; `TooLarge` for more than [`MAX_COLLECTIONS`].
    pub fn new(of: Watched, conditions: QueryBuilder<Ledger>) -> Result<Self> {
        let sources: &[RecordSource] = match &of {
            Watched::Memories => &[Ledger::SOURCE],
            Watched::Documents(_) => &[Documents::SOURCE],
            Watched::Both(_) => &[Ledger::SOURCE, Documents::SOURCE],
        };
        let conditions = conditions.build_for(sources)?;
        if !of.has_memories() && !conditions.of.is_unconditional() {
            return Err(Error::invalid("documents have neither a status nor a condition on their time or id"));
        }
        if let Some(Collections::Named(names)) = of.documents() {
            match names.len() {
                0 => return Err(Error::invalid("a watch of documents names no collection")),
                count if count > MAX_COLLECTIONS => {
                    let message = format!("{count} collections; at most {MAX_COLLECTIONS} are allowed");
                    return Err(Error::too_large(message));
                }
                _ => {}
            }
        }
        let mut hash = Sha256::new_with_prefix(format!("watch;{of};"));
        hash.update(conditions.fingerprint.0);
        let fingerprint = Fingerprint(hash.finalize().into());
        Ok(Self { of, conditions, from: WatchFrom::Now, fingerprint })
    }

    /// The same watch from there on.
    #[must_use]
    pub fn from(mut self, from: WatchFrom) -> Self {
        self.from = from;
        self
    }

    /// Which records are watched.
    pub fn of(&self) -> &Watched {
        &self.of
    }

    /// What they have to satisfy.
    pub fn conditions(&self) -> &MemoryQuery {
        &self.conditions
    }

    /// Where it begins.
    pub fn begins(&self) -> &WatchFrom {
        &self.from
    }

    /// The page of the snapshot of the ledger that begins behind a cursor.
    pub(crate) fn snapshot(&self, cursor: Option<String>) -> MemoryQuery {
        self.page(cursor, self.conditions.of.clone())
    }

    /// The page of the snapshot of a collection that begins behind a cursor.
    pub(crate) fn snapshot_of(&self, collection: &Collection, cursor: Option<String>) -> DocumentQuery {
        self.page(cursor, Documents { collection: collection.clone() })
    }

    fn page<K>(&self, cursor: Option<String>, of: K) -> crate::Query<K> {
        let MemoryQuery { spaces, within, filter, text, words, .. } = self.conditions.clone();
        let (order, limit, offset, page_bytes) = (Order::OldestFirst, SNAPSHOT, 0, MAX_CHANGES_BYTES);
        let fingerprint = self.fingerprint.clone();
        crate::Query { spaces, within, filter, text, words, order, limit, offset, cursor, page_bytes, fingerprint, of }
    }
}

impl Watched {
    pub(crate) fn has_memories(&self) -> bool {
        matches!(self, Self::Memories | Self::Both(_))
    }

    pub(crate) fn documents(&self) -> Option<&Collections> {
        match self {
            Self::Memories => None,
            Self::Documents(collections) | Self::Both(collections) => Some(collections),
        }
    }

    pub(crate) fn has_collection(&self, collection: &Collection) -> bool {
        match self.documents() {
            None => false,
            Some(Collections::All) => true,
            Some(Collections::Named(names)) => names.contains(collection),
        }
    }
}

impl fmt::Display for Watched {
    /// Tokens belong to what this writes: two that show the same are the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.has_memories() {
            f.write_str("memories;")?;
        }
        match self.documents() {
            None => Ok(()),
            Some(Collections::All) => f.write_str("documents"),
            Some(Collections::Named(names)) => names.iter().try_for_each(|name| write!(f, "documents {name};")),
        }
    }
}

impl WatchToken {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for WatchToken {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WatchToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<WatchToken> for WatchFrom {
    fn from(token: WatchToken) -> Self {
        Self::Token(token.0)
    }
}

impl From<MemoryId> for RecordId {
    fn from(id: MemoryId) -> Self {
        Self::Memory(id)
    }
}

impl From<&Document> for RecordId {
    fn from(document: &Document) -> Self {
        (document.collection.clone(), document.id.clone()).into()
    }
}

impl From<(Collection, DocumentId)> for RecordId {
    fn from((collection, id): (Collection, DocumentId)) -> Self {
        Self::Document { collection, id }
    }
}

impl Record {
    /// When it expires, as it says itself.
    pub(crate) fn expires_at(&self) -> Option<Timestamp> {
        match self {
            Self::Memory(memory) => memory.expires_at,
            Self::Document(document) => document.expires_at,
        }
    }

    /// Its revision.
    pub fn revision(&self) -> Revision {
        match self {
            Self::Memory(memory) => memory.revision,
            Self::Document(document) => document.revision,
        }
    }

    /// How many bytes its texts have.
    pub fn size(&self) -> usize {
        match self {
            Self::Memory(memory) => memory.size(),
            Self::Document(document) => document.size(),
        }
    }

    /// What names it.
    pub fn id(&self) -> RecordId {
        match self {
            Self::Memory(memory) => RecordId::Memory(memory.id),
            Self::Document(document) => {
                RecordId::Document { collection: document.collection.clone(), id: document.id.clone() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, Status};

    fn all() -> QueryBuilder<Ledger> {
        MemoryQuery::builder().all()
    }

    fn named(names: &[&str]) -> Collections {
        Collections::Named(names.iter().map(|name| Collection::parse(name).expect("a valid name")).collect())
    }

    #[test]
    fn conditions_fit_what_is_watched() {
        let kind = |of, conditions| Watch::new(of, conditions).err().map(|error| error.kind());
        let of_content = || all().filter_text("content LIKE 'a%'");
        let of_status = || all().filter_text("status = 'failed'");
        let documents = || Watched::Documents(Collections::All);
        let both = || Watched::Both(Collections::All);
        assert_eq!(kind(documents(), of_content()), None);
        assert_eq!(kind(Watched::Memories, of_status().status(Status::Failed)), None);
        assert_eq!(kind(both(), all().status(Status::Failed).text("a")), None);
        for (of, conditions) in [
            (Watched::Memories, of_content()),
            (both(), of_content()),
            (both(), of_status()),
            (documents(), all().status(Status::Failed)),
            (documents(), all().exclude(MemoryId::from_bytes([0; 16]))),
            (Watched::Documents(named(&[])), all()),
            (Watched::Memories, MemoryQuery::builder()),
        ] {
            assert_eq!(kind(of.clone(), conditions), Some(ErrorKind::InvalidInput), "{of}");
        }
        let names: Vec<_> = (0..=MAX_COLLECTIONS).map(|number| number.to_string()).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        assert_eq!(kind(Watched::Documents(named(&names)), all()), Some(ErrorKind::TooLarge));
        assert_eq!(kind(Watched::Documents(named(&names[1..])), all()), None);
    }

    #[test]
    fn a_token_belongs_to_the_records_and_to_the_conditions() {
        let fingerprint = |of, conditions| Watch::new(of, conditions).expect("valid").fingerprint;
        let same = || fingerprint(Watched::Both(named(&["a", "b"])), all());
        assert_eq!(same(), same());
        for other in [
            fingerprint(Watched::Memories, all()),
            fingerprint(Watched::Both(named(&["a"])), all()),
            fingerprint(Watched::Both(Collections::All), all()),
            fingerprint(Watched::Documents(named(&["a", "b"])), all()),
            fingerprint(Watched::Both(named(&["a", "b"])), all().text("a")),
            all().build().expect("valid").fingerprint,
        ] {
            assert_ne!(same(), other);
        }
    }
}
