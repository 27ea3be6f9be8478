//! Sessions: the single steps that an engine executes for a call.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::pin::Pin;

use super::feed::{FeedEnd, FeedPage, FeedPosition, Timeline};
use super::history::{HistoryRow, VersionEntry, no_history};
use super::walk::{Mark, Place, Visit, Walk};
use crate::query::{Documents, Ledger};
use crate::{
    Collection, Document, DocumentId, Error, ErrorKind, HashKey, KeyedHash, Memory, MemoryId, Outcome, RecordId,
    Result, Revision, TextHash, Timestamp, Tombstone,
};

/// The work of a call in a session: a function of the session and the call's argument. It may run several times.
pub type Work<S, A, T> = for<'s> fn(&'s mut S, &'s A) -> Steps<'s, T>;

/// The future of a piece of work.
pub type Steps<'s, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 's>>;

/// A session that reads.
///
/// An embedded engine runs a session on a thread of its own, with futures that are always ready.
pub trait Reader: Send {
    /// Identifies one version of a record among all under the same id, also across removals.
    type Version: Clone + Send + Sync + 'static;

    /// Maximum number of places in one walk. [`Provider`](super::Provider) splits more into several walks and merges
    /// their candidates.
    const PLACES: usize;

    /// Returns the memories with these ids that exist, by id. One that can't be read is a `Corrupt` error in its place.
    fn memories(&mut self, ids: &[MemoryId]) -> impl Future<Output = Result<MemoriesFound<Self::Version>>> + Send;

    /// Offers the next memories of a walk. Returns where to continue, or `None` at the end.
    fn walk_memories(
        &mut self,
        walk: &Walk<'_>,
        visit: &mut Visit<'_, Ledger>,
    ) -> impl Future<Output = Result<Option<Mark>>> + Send;

    /// Lists the paths that start with `prefix` and have no further boundary (`-`, `/`, `:`), of the ledger or of a
    /// collection: as a space if a record lies at the path, as an ancestor if one lies below it. `None` if the engine
    /// has no index by place, as in the default.
    ///
    /// Returns at least `most` of them, or all. `after` is `None` if it does not matter which; otherwise it is empty or
    /// one of these paths: it and those with lower bytes may be left out and don't count, and every other path before
    /// the last one in byte order is included, except ancestors that are a prefix of the last one.
    fn siblings(
        &mut self,
        of: Option<&Collection>,
        prefix: &str,
        after: Option<&str>,
        most: usize,
    ) -> impl Future<Output = Result<Option<Vec<Place>>>> + Send {
        let _ = (of, prefix, after, most);
        async { Ok(None) }
    }

    /// Returns the documents of a collection with these ids that exist. One that can't be read is a `Corrupt` error in
    /// its place.
    fn documents(
        &mut self,
        collection: &Collection,
        ids: &[DocumentId],
    ) -> impl Future<Output = Result<DocumentsFound<Self::Version>>> + Send;

    /// Offers the next documents of a walk along a collection. Returns where to continue, or `None` at the end.
    fn walk_documents(
        &mut self,
        collection: &Collection,
        walk: &Walk<'_>,
        visit: &mut Visit<'_, Documents>,
    ) -> impl Future<Output = Result<Option<Mark>>> + Send;

    /// Lists the collections after `behind` that hold a document, in ascending order: at most `most`; fewer only at the
    /// end.
    fn collections(
        &mut self,
        behind: Option<&Collection>,
        most: usize,
    ) -> impl Future<Output = Result<Vec<Collection>>> + Send;

    /// Returns the end of the feed. A read that begins after this call sees every write up to that end. Does not wait.
    fn newest_change(&mut self) -> impl Future<Output = Result<FeedEnd>> + Send {
        async { Err(no_feed()) }
    }

    /// Returns the next entries of the feed after a position, about `most`. An entry is returned only once no other
    /// entry can still come before it; from then on every caller with the same position gets it. If `most` is 0, the
    /// caller only wants to know whether the storage went back to a state before the position, which may then be one
    /// that entries are held back to.
    ///
    /// Fails with [`Error::feed_reset`] unless the feed still has everything that was committed after the position: if
    /// entries were dropped, or if the storage went back to an earlier state, such as a backup, whatever was written
    /// since.
    fn changes(&mut self, after: &FeedPosition, most: usize) -> impl Future<Output = Result<FeedPage>> + Send {
        let _ = (after, most);
        async { Err(no_feed()) }
    }

    /// Returns the timeline of the storage. The same one before and after a read tells that the storage did not go back
    /// to an earlier state in between.
    ///
    /// The default is for an engine on which that can't happen while the provider is open: it never loses what a session
    /// has read, or no position of one timeline is valid on another.
    fn timeline(&mut self) -> impl Future<Output = Result<Timeline>> + Send {
        async { Ok(Timeline::default()) }
    }

    /// Returns the newest entries of a record's history below a place, newest first: at most `most`, fewer once they
    /// have more than about 4 MiB, but at least one if there is one.
    fn history(
        &mut self,
        of: &RecordId,
        below: u64,
        most: usize,
    ) -> impl Future<Output = Result<Vec<HistoryRow>>> + Send {
        let _ = (of, below, most);
        async { Err(no_history()) }
    }

    /// Returns the tombstones of these records, in any order; none on an engine that can't erase.
    fn tombstones(&mut self, of: &[RecordId]) -> impl Future<Output = Result<Vec<Tombstone>>> + Send {
        let _ = of;
        async { Ok(Vec::new()) }
    }

    /// Returns about `most` tombstones of the next page, in an order of the engine's own, and the engine's bytes for
    /// the page after it, if there is one. A tombstone that exists throughout the walk is on at least one page.
    /// `InvalidInput` for bytes that the engine never gave.
    fn tombstones_behind(
        &mut self,
        behind: Option<&[u8]>,
        most: usize,
    ) -> impl Future<Output = Result<(Vec<Tombstone>, Option<Vec<u8>>)>> + Send {
        let _ = (behind, most);
        async { Ok((Vec::new(), None)) }
    }

    /// Returns records whose own expiry time is at or before `by`, with that time: ordered by time, then by
    /// [`RecordId::to_key`]; only those after `behind`, if given; at most `most`, fewer only at the end. None on an
    /// engine that can't erase.
    fn expired(
        &mut self,
        by: Timestamp,
        behind: Option<&(Timestamp, RecordId)>,
        most: usize,
    ) -> impl Future<Output = Result<Vec<(Timestamp, RecordId)>>> + Send {
        let _ = (by, behind, most);
        async { Ok(Vec::new()) }
    }

    /// Returns the vectors of these records, in any order, as [`Writer::embed`] stored them (M2).
    fn vectors(&mut self, of: &[RecordId]) -> impl Future<Output = Result<Vec<(RecordId, Vec<u8>)>>> + Send {
        let _ = of;
        async { Err(no_vectors()) }
    }

    /// Returns when a memory was appended, if that was recorded.
    fn stored_at(&mut self, id: MemoryId) -> impl Future<Output = Result<Option<Timestamp>>> + Send {
        let _ = id;
        async { Err(no_history()) }
    }
}

fn no_feed() -> Error {
    Error::new(ErrorKind::Unsupported, "this engine has no feed of changes")
}

/// A session that writes. Each method is one atomic step: it is done completely and durably, or not at all.
///
/// Each step also adds its writes to the feed: every memory that it appends or replaces, and every document that it
/// puts or removes, with its space and the space before. It adds nothing for what it does not write.
///
/// If the engine keeps a history ([`Engine::HISTORY`](super::Engine::HISTORY)), the step also stores the history entry
/// that comes with a write, and the time that comes with an append; on other engines none comes.
pub trait Writer: Reader {
    /// Appends memories, and returns the result of each, in their order. A memory is not written if its id or
    /// idempotency key is taken, or if a tombstone has either.
    fn append(&mut self, append: Append<'_>) -> impl Future<Output = Result<Vec<Appended>>> + Send;

    /// Replaces a memory with its next version. Returns `false` if it has changed since it was read.
    fn replace(
        &mut self,
        before: &Found<Memory, Self::Version>,
        after: &Memory,
        entry: Option<&VersionEntry>,
    ) -> impl Future<Output = Result<bool>> + Send;

    /// Puts documents, all or none: each replaces the version that was read, or is new. Returns `false`, and puts none,
    /// if one of these has changed or a tombstone blocks one. No two have the same collection and id.
    fn put(&mut self, puts: &[Put<'_, Self::Version>]) -> impl Future<Output = Result<bool>> + Send;

    /// Puts new documents, each by itself. Returns `false` for each whose id is taken and each that a tombstone blocks.
    ///
    /// The default puts one after the other; an engine that can send many at once overrides it.
    fn put_new(&mut self, puts: &[Put<'_, Self::Version>]) -> impl Future<Output = Result<Vec<bool>>> + Send {
        async move {
            let mut done = Vec::with_capacity(puts.len());
            for put in puts {
                let earlier = Outcome::unknown_if(done.contains(&true));
                done.push(self.put(std::slice::from_ref(put)).await.map_err(|error| error.after(earlier))?);
            }
            Ok(done)
        }
    }

    /// Removes documents of one collection, all or none. Returns `false`, and removes none, if one has changed since it
    /// was read.
    fn remove(
        &mut self,
        collection: &Collection,
        removals: &[Removal<'_, Self::Version>],
    ) -> impl Future<Output = Result<bool>> + Send;

    /// Erases records, all or none, with everything that indexes, history and feed hold of them and of earlier
    /// versions. Stores their tombstones, replacing earlier ones of the same records, and adds each to the feed.
    /// Returns `false`, and erases none, if one has changed since it was read.
    fn erase(&mut self, erasings: &[Erasing<'_, Self::Version>]) -> impl Future<Output = Result<bool>> + Send {
        let _ = erasings;
        async { Err(no_erasure()) }
    }

    /// Removes tombstones that are unchanged since they were read, each by itself. Leaves changed ones, and adds
    /// nothing to the feed.
    fn forget(&mut self, tombstones: &[Tombstone]) -> impl Future<Output = Result<()>> + Send {
        let _ = tombstones;
        async { Err(no_erasure()) }
    }

    /// Stores vectors beside records, each by itself, replacing earlier ones. Returns `false` for each whose record has
    /// changed since it was read. Adds nothing to feed and history, and leaves the record's version as it is (M2).
    ///
    /// In the other steps a vector stays if its record is replaced by one with the same texts
    /// ([`Memory::has_texts_of`], [`Document::has_texts_of`]), and is removed by any other change of it.
    fn embed(&mut self, embeds: &[Embed<'_, Self::Version>]) -> impl Future<Output = Result<Vec<bool>>> + Send {
        let _ = embeds;
        async { Err(no_vectors()) }
    }
}

/// A vector to store.
pub struct Embed<'a, V> {
    /// The record as it was read.
    pub found: EmbedRecord<'a, V>,
    /// The encoded vector: about 10 bytes more than its numbers. The engine does not interpret it.
    pub vector: Vec<u8>,
}

impl<V: fmt::Debug> fmt::Debug for Embed<'_, V> {
    /// Hides the vector, because it reveals much of its text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embed").field("found", &self.found).finish_non_exhaustive()
    }
}

/// The record of a vector, as it was read.
#[derive(Debug, Clone, Copy)]
pub enum EmbedRecord<'a, V> {
    /// A memory.
    Memory(&'a Found<Memory, V>),
    /// A document.
    Document(&'a Found<Document, V>),
}

impl<V> EmbedRecord<'_, V> {
    /// Returns the id of the record.
    pub fn id(&self) -> RecordId {
        match self {
            Self::Memory(found) => found.record.id.into(),
            Self::Document(found) => (&found.record).into(),
        }
    }

    /// Returns the record's revision.
    pub fn revision(&self) -> Revision {
        match self {
            Self::Memory(found) => found.record.revision,
            Self::Document(found) => found.record.revision,
        }
    }

    /// Returns about how much the record weighs in a page, in bytes, as [`Memory::size`] and [`Document::size`] count it.
    pub fn size(&self) -> usize {
        match self {
            Self::Memory(found) => found.record.size(),
            Self::Document(found) => found.record.size(),
        }
    }

    /// Returns the hash of the texts that the vector is made from.
    pub(crate) fn texts(&self) -> TextHash {
        match self {
            Self::Memory(found) => (&found.record).into(),
            Self::Document(found) => (&found.record).into(),
        }
    }
}

/// A record to erase.
#[derive(Debug)]
pub struct Erasing<'a, V> {
    /// The record as it was read.
    pub found: ErasingRecord<'a, V>,
    /// The tombstone to store.
    pub tombstone: Tombstone,
}

/// The record to erase, as it was read.
#[derive(Debug, Clone, Copy)]
pub enum ErasingRecord<'a, V> {
    /// A memory.
    Memory(&'a Found<Memory, V>),
    /// A document.
    Document(&'a Found<Document, V>),
    /// No record exists under this id. A removed document may still have a history.
    Absent,
}

pub(super) fn no_erasure() -> Error {
    Error::new(ErrorKind::Unsupported, "this engine can't erase")
}

pub(super) fn no_vectors() -> Error {
    Error::new(ErrorKind::Unsupported, "this engine keeps no vectors")
}

/// A document to put.
#[derive(Debug)]
pub struct Put<'a, V> {
    /// The stored document as it was read; `None` if there was none.
    pub before: Option<&'a Found<Document, V>>,
    /// The document to store.
    pub after: &'a Document,
    /// The history entry, if the engine keeps a history.
    pub entry: Option<VersionEntry>,
    /// Whether a tombstone of the id blocks the put unless it is older than the document's createdAt (E3): `true` if
    /// there was no document before, and for a restore.
    pub is_guarded: bool,
}

/// A document to remove.
#[derive(Debug)]
pub struct Removal<'a, V> {
    /// The document as it was read.
    pub found: &'a Found<Document, V>,
    /// The last entry of its history, if the engine keeps one.
    pub end: Option<VersionEntry>,
}

/// A record as it was read.
#[derive(Debug, Clone)]
pub struct Found<T, V> {
    /// The memory or document.
    pub record: T,
    /// The version, as the engine identifies it.
    pub version: V,
}

/// Memories by id.
pub type MemoriesFound<V> = HashMap<MemoryId, Result<Found<Memory, V>>>;

/// Documents, in any order.
pub type DocumentsFound<V> = Vec<Result<Found<Document, V>>>;

/// Memories to append.
#[derive(Debug, Clone, Copy)]
pub struct Append<'a> {
    /// The memories. No two have the same id or idempotency key.
    pub memories: &'a [&'a Memory],
    /// Whether all are one step, or each is a step of its own.
    pub atomicity: Atomicity,
    /// Whether an earlier attempt may have appended some of them. If not, their ids are new, unless a restore gives
    /// them.
    pub is_repeated: bool,
    /// The time of the append by the provider's clock, if the engine keeps a history.
    pub at: Option<Timestamp>,
    /// Makes the hashes of their idempotency keys, if the engine can erase.
    pub hash_key: Option<&'a HashKey>,
}

impl Append<'_> {
    /// Returns the hash by which a tombstone identifies a memory's idempotency key.
    pub fn hash(&self, memory: &Memory) -> Option<KeyedHash> {
        Some(self.hash_key?.of_key(memory.idempotency_key.as_ref()?))
    }

    /// Returns the result of each memory, in their order. `owners` maps ids to the memory that has the id or key
    /// already; `erased` holds the ids that a tombstone blocks.
    pub fn outcomes(&self, owners: &HashMap<MemoryId, MemoryId>, erased: &HashSet<MemoryId>) -> Vec<Appended> {
        let is_refused = self.atomicity == Atomicity::All && !(owners.is_empty() && erased.is_empty());
        let outcome = |memory: &&Memory| match owners.get(&memory.id) {
            _ if erased.contains(&memory.id) => Appended::Erased,
            Some(owner) => Appended::Taken(*owner),
            None if is_refused => Appended::NotWritten,
            None => Appended::Written,
        };
        self.memories.iter().map(outcome).collect()
    }
}

/// What one step covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Atomicity {
    /// All memories: if one is not written, none is.
    All,
    /// Each memory by itself.
    Each,
}

/// The result of appending a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// The memory was written.
    Written,
    /// Not written: this memory already has its id or idempotency key.
    Taken(MemoryId),
    /// Not written: a tombstone has its id or idempotency key.
    Erased,
    /// Not written: another memory of the same step was refused.
    NotWritten,
}
