//! Sessions: what an engine can do for a call, one step at a time.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::pin::Pin;

use super::feed::{FeedEnd, FeedPage, FeedPosition};
use super::history::{HistoryRow, Removal, VersionEntry, no_history};
use super::walk::{Mark, Place, Visit, Walk};
use crate::query::{Documents, Ledger};
use crate::{
    Collection, Document, DocumentId, Error, ErrorKind, HashKey, KeyedHash, Memory, MemoryId, Outcome, RecordId,
    Result, Timestamp, Tombstone,
};

/// What a call does in a session: a function of the session and of the call's argument, which it may run several times.
pub type Work<S, A, T> = for<'s> fn(&'s mut S, &'s A) -> Steps<'s, T>;

/// The steps of a piece of work.
pub type Steps<'s, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 's>>;

/// A session that reads.
///
/// An embedded engine runs a session on a thread of its own, with futures that are always ready.
pub trait Reader: Send {
    /// How the engine tells one version of a record from all others under the same id, also after it was removed and put again.
    type Version: Clone + Send + Sync + 'static;

    /// The most places of one walk. More are divided among several walks, whose candidates [`Provider`](super::Provider) merges.
    const PLACES: usize;

    /// The memories with these ids that are there, by their id. One that can't be read is a `Corrupt` error in its place.
    fn memories(&mut self, ids: &[MemoryId]) -> impl Future<Output = Result<MemoriesFound<Self::Version>>> + Send;

    /// Offers the next memories of a walk. Returns where to go on, or `None` when there are no more.
    fn walk_memories(
        &mut self,
        walk: &Walk<'_>,
        visit: &mut Visit<'_, Ledger>,
    ) -> impl Future<Output = Result<Option<Mark>>> + Send;

    /// The paths that start with `prefix` and have no further boundary (`-`, `/`, `:`), of the ledger or of a collection: as a space where
    /// a record has the path as its space, as an ancestor where a record has it above. `None` when the engine has no index by place, as here.
    ///
    /// `after` is empty, or one of these paths: then it and those with lower bytes may be left out. At least `most` others are given, or all
    /// that there are. What comes before the last of them by its bytes is among them, but for ancestors with which that begins.
    fn siblings(
        &mut self,
        of: Option<&Collection>,
        prefix: &str,
        after: &str,
        most: usize,
    ) -> impl Future<Output = Result<Option<Vec<Place>>>> + Send {
        let _ = (of, prefix, after, most);
        async { Ok(None) }
    }

    /// The documents of a collection with these ids that are there. One that can't be read is a `Corrupt` error in its place.
    fn documents(
        &mut self,
        collection: &Collection,
        ids: &[DocumentId],
    ) -> impl Future<Output = Result<DocumentsFound<Self::Version>>> + Send;

    /// Offers the next documents of a walk along a collection. Returns where to go on, or `None` when there are no more.
    fn walk_documents(
        &mut self,
        collection: &Collection,
        walk: &Walk<'_>,
        visit: &mut Visit<'_, Documents>,
    ) -> impl Future<Output = Result<Option<Mark>>> + Send;

    /// The collections that hold a document, behind one of that name, in ascending order: so many at most, and fewer only where that is all.
    fn collections(
        &mut self,
        behind: Option<&Collection>,
        most: usize,
    ) -> impl Future<Output = Result<Vec<Collection>>> + Send;

    /// The end of the feed. Whatever was written at or before it is seen by everybody who begins to read behind this call. Does not wait.
    fn newest_change(&mut self) -> impl Future<Output = Result<FeedEnd>> + Send {
        async { Err(no_feed()) }
    }

    /// The next entries of the feed behind a place, about as many as are wanted. An entry is given only when no other can come before it any
    /// more; then it is given to everybody who asks behind the same place.
    ///
    /// [`Error::feed_reset`] unless the feed still has everything that was committed behind that place: not when entries were dropped
    /// since, and not when the storage went back to an earlier state, such as a backup, whatever was written since then.
    fn changes(&mut self, after: &FeedPosition, most: usize) -> impl Future<Output = Result<FeedPage>> + Send {
        let _ = (after, most);
        async { Err(no_feed()) }
    }

    /// The newest entries of a record's history below a place, newest first: at most `most`, fewer where they have more than some 4 MiB, but
    /// one where there is one.
    fn history(
        &mut self,
        of: &RecordId,
        below: u64,
        most: usize,
    ) -> impl Future<Output = Result<Vec<HistoryRow>>> + Send {
        let _ = (of, below, most);
        async { Err(no_history()) }
    }

    /// The tombstones of these records, in any order. None, where the engine can't erase.
    fn tombstones(&mut self, of: &[RecordId]) -> impl Future<Output = Result<Vec<Tombstone>>> + Send {
        let _ = of;
        async { Ok(Vec::new()) }
    }

    /// The next tombstones behind a page, in an order of the engine's own, and where the page behind them begins, in its own bytes, if there
    /// is one: about as many as are wanted. One that is there all the time while pages are read is in one at least. `InvalidInput` for bytes
    /// that it never gave.
    fn tombstones_behind(
        &mut self,
        behind: Option<&[u8]>,
        most: usize,
    ) -> impl Future<Output = Result<(Vec<Tombstone>, Option<Vec<u8>>)>> + Send {
        let _ = (behind, most);
        async { Ok((Vec::new(), None)) }
    }

    /// Records that have expired by then, as they say themselves, with when that was: those with the earliest times, and of one time in the
    /// order of [`RecordId::to_key`]; behind the one that is given, if one is; at most `most`, fewer only where that is all. None, where the
    /// engine can't erase.
    fn expired(
        &mut self,
        by: Timestamp,
        behind: Option<&(Timestamp, RecordId)>,
        most: usize,
    ) -> impl Future<Output = Result<Vec<(Timestamp, RecordId)>>> + Send {
        let _ = (by, behind, most);
        async { Ok(Vec::new()) }
    }

    /// The vectors that these records have, in any order, as [`Writer::embed`] has kept them (M2).
    fn vectors(&mut self, of: &[RecordId]) -> impl Future<Output = Result<Vec<(RecordId, Vec<u8>)>>> + Send {
        let _ = of;
        async { Err(no_vectors()) }
    }

    /// When a memory was appended, if that was recorded.
    fn stored_at(&mut self, id: MemoryId) -> impl Future<Output = Result<Option<Timestamp>>> + Send {
        let _ = id;
        async { Err(no_history()) }
    }
}

fn no_feed() -> Error {
    Error::new(ErrorKind::Unsupported, "this engine has no feed of changes")
}

/// A session that writes. Each method is one atomic step: it is done as a whole and durable, or not at all.
///
/// What a step writes it notes in the feed, too, in the same step: each memory that it appends or replaces, and each document that it puts
/// or removes, with its space and the one before. What it does not write it does not note.
///
/// In the same step it keeps the entry of the history that comes with a write, and the time that comes with an append, where the engine
/// keeps a history ([`Engine::HISTORY`](super::Engine::HISTORY)); elsewhere none comes.
pub trait Writer: Reader {
    /// Appends memories, and tells for each what became of it, in their order. A memory whose id or idempotency key is taken is not
    /// written, nor is one whose id or idempotency key a tombstone has.
    fn append(&mut self, append: Append<'_>) -> impl Future<Output = Result<Vec<Appended>>> + Send;

    /// Replaces a memory by its next version, unless it has changed since it was read. `false` when it has.
    fn replace(
        &mut self,
        before: &Found<Memory, Self::Version>,
        after: &Memory,
        entry: Option<&VersionEntry>,
    ) -> impl Future<Output = Result<bool>> + Send;

    /// Puts documents, all or none: each in the place of the version that was read, or where there was none. `false`, and none is put, when
    /// one of these places has changed, or a tombstone keeps one out. No two of them have the same id in the same collection.
    fn put(&mut self, puts: &[Put<'_, Self::Version>]) -> impl Future<Output = Result<bool>> + Send;

    /// Puts documents where there are none, each by itself. `false` for each whose id is taken, and for each that a tombstone keeps out.
    ///
    /// Here one after the other; an engine that can send many at once overrides it.
    fn put_new(&mut self, puts: &[Put<'_, Self::Version>]) -> impl Future<Output = Result<Vec<bool>>> + Send {
        async move {
            let mut done = Vec::with_capacity(puts.len());
            for put in puts {
                let is_put = self.put(std::slice::from_ref(put)).await.map_err(|error| match done.contains(&true) {
                    true => error.after(Outcome::Unknown),
                    false => error,
                })?;
                done.push(is_put);
            }
            Ok(done)
        }
    }

    /// Removes documents of one collection, all or none. `false`, and none is removed, when one has changed since it was read.
    fn remove(
        &mut self,
        collection: &Collection,
        removals: &[Removal<'_, Self::Version>],
    ) -> impl Future<Output = Result<bool>> + Send;

    /// Erases records, all or none: each with all that an index, the history and the feed have of it, also of its earlier versions. Leaves
    /// their tombstones, in the place of earlier ones of the same records, and notes each in the feed. `false`, and none is erased, when one
    /// has changed since it was read.
    fn erase(&mut self, erasings: &[Erasing<'_, Self::Version>]) -> impl Future<Output = Result<bool>> + Send {
        let _ = erasings;
        async { Err(no_erasure()) }
    }

    /// Takes tombstones away that are still as they were read, each by itself. Leaves nothing in the feed, and the others alone.
    fn forget(&mut self, tombstones: &[Tombstone]) -> impl Future<Output = Result<()>> + Send {
        let _ = tombstones;
        async { Err(no_erasure()) }
    }

    /// Keeps vectors beside records, each by itself, in the place of earlier ones. `false` for each whose record has changed since it was
    /// read. Leaves nothing in the feed and in the history, and the version of the record as it is (M2).
    ///
    /// In the steps of the others a vector stays where a record is replaced by one with the same texts
    /// ([`Memory::has_texts_of`], [`Document::has_texts_of`]), and goes with every other change of it.
    fn embed(&mut self, embeds: &[Embed<'_, Self::Version>]) -> impl Future<Output = Result<Vec<bool>>> + Send {
        let _ = embeds;
        async { Err(no_vectors()) }
    }
}

/// A vector to keep.
pub struct Embed<'a, V> {
    /// What was read.
    pub found: EmbedRecord<'a, V>,
    /// Some 10 bytes more than its numbers have, which mean nothing to the engine.
    pub vector: Vec<u8>,
}

impl<V: fmt::Debug> fmt::Debug for Embed<'_, V> {
    /// A vector tells much of its text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embed").field("found", &self.found).finish_non_exhaustive()
    }
}

/// What was read of a record that gets a vector.
#[derive(Debug, Clone, Copy)]
pub enum EmbedRecord<'a, V> {
    /// A memory.
    Memory(&'a Found<Memory, V>),
    /// A document.
    Document(&'a Found<Document, V>),
}

/// A record to erase.
#[derive(Debug)]
pub struct Erasing<'a, V> {
    /// What was read.
    pub found: ErasingRecord<'a, V>,
    /// What stays.
    pub tombstone: Tombstone,
}

/// What was read of a record to erase.
#[derive(Debug, Clone, Copy)]
pub enum ErasingRecord<'a, V> {
    /// A memory.
    Memory(&'a Found<Memory, V>),
    /// A document.
    Document(&'a Found<Document, V>),
    /// That nothing was there under its name. A document that was removed may have a history.
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
    /// What was read under its id; `None` where nothing was there.
    pub before: Option<&'a Found<Document, V>>,
    /// What is to be there.
    pub after: &'a Document,
    /// What it leaves in the history, if the engine keeps one.
    pub entry: Option<VersionEntry>,
    /// Whether it is not put where a tombstone has its id that is not older than the document's createdAt (E3): as where none was before, and
    /// by a restore.
    pub is_guarded: bool,
}

/// A record as it was read.
#[derive(Debug, Clone)]
pub struct Found<T, V> {
    /// The record.
    pub record: T,
    /// Its version, as the engine tells it.
    pub version: V,
}

/// Memories by their id.
pub type MemoriesFound<V> = HashMap<MemoryId, Result<Found<Memory, V>>>;

/// Documents in any order.
pub type DocumentsFound<V> = Vec<Result<Found<Document, V>>>;

/// Memories to append.
#[derive(Debug, Clone, Copy)]
pub struct Append<'a> {
    /// No two of them have the same id or the same idempotency key.
    pub memories: &'a [&'a Memory],
    /// Whether they are one step, or a step each.
    pub atomicity: Atomicity,
    /// Whether an earlier attempt may have appended some of them. Otherwise their ids are new, unless a restore gives them.
    pub is_repeated: bool,
    /// When they are appended, by the provider's clock, if the engine keeps a history.
    pub at: Option<Timestamp>,
    /// Makes the hashes of their idempotency keys, if the engine can erase.
    pub hash_key: Option<&'a HashKey>,
}

impl Append<'_> {
    /// By which a tombstone knows the idempotency key of one of them.
    pub fn hash(&self, memory: &Memory) -> Option<KeyedHash> {
        Some(self.hash_key?.of_key(memory.idempotency_key.as_ref()?))
    }

    /// What becomes of each memory, in their order, where some are taken: `owners` has, by their ids, which memory is in their way, and
    /// `erased` has the ids of those that a tombstone keeps out.
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

/// What is done as a whole or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Atomicity {
    /// All of it: where one memory is not written, none is.
    All,
    /// Each memory by itself.
    Each,
}

/// What became of a memory that was to be appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// It was written.
    Written,
    /// It was not written, since this memory has its id or its idempotency key.
    Taken(MemoryId),
    /// It was not written, since a tombstone has its id or its idempotency key.
    Erased,
    /// It was not written because of another memory of the same step.
    NotWritten,
}
