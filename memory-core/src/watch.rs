//! Watches: which records are watched, from where on, and the changes that are delivered.

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

/// Maximum number of open watches of one provider; a watch counts until its stream is dropped (C7).
pub const MAX_WATCHES: usize = 2_048;
/// A watch ends a page of changes after this many bytes of examined records, delivered or not (C7).
pub(crate) const MAX_CHANGES_BYTES: usize = 4 << 20;
/// Maximum bytes of unread changes that all watches of a provider hold, besides the page that was read last (C7).
pub(crate) const MAX_HELD_BYTES: usize = 128 << 20;
/// Maximum number of collections that a watch names (C1).
pub const MAX_COLLECTIONS: usize = 1_000;
/// Number of records on a page of a snapshot.
const SNAPSHOT: usize = 100;

/// Which records to watch, and from where on.
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

/// The kinds of records that are watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Watched {
    /// Memories only.
    Memories,
    /// Documents of these collections only.
    Documents(Collections),
    /// Memories, and documents of these collections.
    Both(Collections),
}

/// Collections of documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Collections {
    /// All collections, also those created later.
    All,
    /// These collections; 1 to [`MAX_COLLECTIONS`].
    Named(BTreeSet<Collection>),
}

/// Where a watch begins (C2).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum WatchFrom {
    /// With a snapshot of all matching records, followed by the changes since the snapshot began.
    Beginning,
    /// With the changes from now on.
    #[default]
    Now,
    /// After the change that carried this token, in a watch of the same records with the same conditions.
    Token(String),
}

/// The stream of changes of a watch. It ends with its first error; to continue, begin a watch with the token of the
/// last change.
///
/// It reads only when polled, a page at a time, and holds nothing of the engine in between; it finishes a page that it
/// has begun to read, also if nobody polls it.
pub type Changes = BoxStream<'static, Result<Change>>;

/// A change, with the token that continues after it.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The token to continue after this change: see [`WatchFrom::Token`].
    pub token: WatchToken,
    /// The change.
    pub kind: ChangeKind,
}

/// The kinds of changes (C1).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ChangeKind {
    /// The record is at its first revision.
    Stored(Record),
    /// The record is at a later revision.
    Updated(Record),
    /// The document was removed.
    Removed(RecordId),
    /// The record was erased (E4). It may be one that the watch never delivered.
    Erased(RecordId),
    /// The record changed and no longer satisfies the conditions, or the document moved to a space that is not watched
    /// (C4). It may be one that the watch never delivered.
    Left(RecordId),
    /// The record changed, or is part of the snapshot, and can't be read (Q8).
    Unreadable(Unreadable),
    /// A token for a watch that has more to deliver before its first [`ChangeKind::Reached`]. Sent whenever nothing
    /// else came for [`HEARTBEAT`](crate::engine::HEARTBEAT), so that an interrupted watch does not have to start over.
    Progress,
    /// Everything up to here was delivered. Sent first once everything was delivered that was there when the watch
    /// began, then whenever nothing else came for [`HEARTBEAT`](crate::engine::HEARTBEAT), so that there is always a
    /// recent token.
    Reached,
}

/// A record of either kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// A memory: one row of the ledger.
    Memory(Memory),
    /// A document.
    Document(Document),
}

/// The id of a record of either kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordId {
    /// The id of a memory.
    Memory(MemoryId),
    /// The collection and id of a document.
    Document {
        /// The document's collection.
        collection: Collection,
        /// The document's id in its collection.
        id: DocumentId,
    },
}

/// The position after a change. Sealed as a [`Cursor`](crate::Cursor) is; it survives a restart and belongs to its
/// watch (C5).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WatchToken(pub(crate) String);

impl Watch {
    /// Watches records that satisfy the conditions of a ledger query, from now on. Documents must satisfy its spaces,
    /// `within`, filter and text. Order, limit, offset and cursor of the query are ignored.
    ///
    /// `InvalidInput` if the query is not valid, if it has a field or condition that the watched records lack, or if no
    /// collection is named; `TooLarge` for more than [`MAX_COLLECTIONS`].
    pub fn new(of: Watched, conditions: QueryBuilder<Ledger>) -> Result<Self> {
        let sources: &[RecordSource] = match &of {
            Watched::Memories => &[Ledger::SOURCE],
            Watched::Documents(_) => &[Documents::SOURCE],
            Watched::Both(_) => &[Ledger::SOURCE, Documents::SOURCE],
        };
        let conditions = conditions.build_for(sources)?;
        if !of.has_memories() && !conditions.of.is_unconditional() {
            return Err(Error::invalid(
                "status, after, before and exclude are conditions on memories, and this watches documents",
            ));
        }
        if let Some(Collections::Named(names)) = of.documents() {
            match names.len() {
                0 => return Err(Error::invalid("a watch of documents must name a collection")),
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

    /// Sets where the watch begins.
    #[must_use]
    pub fn from(mut self, from: WatchFrom) -> Self {
        self.from = from;
        self
    }

    /// Returns which kinds of records are watched.
    pub fn of(&self) -> &Watched {
        &self.of
    }

    /// Returns the conditions that watched records must satisfy.
    pub fn conditions(&self) -> &MemoryQuery {
        &self.conditions
    }

    /// Returns where the watch begins.
    pub fn begins(&self) -> &WatchFrom {
        &self.from
    }

    /// Returns the query for the page of the ledger's snapshot at a cursor.
    pub(crate) fn snapshot(&self, cursor: Option<String>) -> MemoryQuery {
        self.page(cursor, self.conditions.of.clone())
    }

    /// Returns the query for the page of a collection's snapshot at a cursor.
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
    /// Tokens are bound to this output: two values with the same output are equal.
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
    /// Returns the sealed text.
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
    /// Returns the record's own expiry time.
    pub(crate) fn expires_at(&self) -> Option<Timestamp> {
        match self {
            Self::Memory(memory) => memory.expires_at,
            Self::Document(document) => document.expires_at,
        }
    }

    /// Returns the record's revision.
    pub fn revision(&self) -> Revision {
        match self {
            Self::Memory(memory) => memory.revision,
            Self::Document(document) => document.revision,
        }
    }

    /// Returns about how much the record weighs in a page, as [`Memory::size`] and [`Document::size`] count it.
    pub fn size(&self) -> usize {
        match self {
            Self::Memory(memory) => memory.size(),
            Self::Document(document) => document.size(),
        }
    }

    /// Returns the id of the record.
    pub fn id(&self) -> RecordId {
        match self {
            Self::Memory(memory) => RecordId::Memory(memory.id),
            Self::Document(document) => document.into(),
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
            (documents(), all().created_after(Timestamp::MIN)),
            (documents(), all().created_before(Timestamp::MIN)),
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
