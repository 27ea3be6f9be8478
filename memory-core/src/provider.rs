//! The contract: what an engine does, for the ledger and for documents.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::plugin::{MemoryPlugin, Plugin};
use crate::{
    Backfill, Changes, Collection, Document, DocumentId, DocumentPage, DocumentQuery, DocumentRecall,
    DocumentSelection, DocumentWrite, Embedding, ErasedSlice, Erasure, Error, HashKey, Health, History, HistoryPage,
    Memory, MemoryId, MemoryPage, MemoryPatch, MemoryQuery, MemoryRecall, NewMemory, Recalled, Record, RecordId,
    Result, Retention, SpaceLevel, SpaceQuery, Sweep, Swept, Timestamp, Tombstone, TombstonePage, Updated, VectorModel,
    Version, Watch, check_repetition,
};

/// An engine behind the contract, held as `Arc<dyn MemoryProvider>`.
///
/// The rules are numbered; `conformance/CONTRACT.md` has their whole text. What holds for every call: before
/// [`init`](Self::init) and after [`shutdown`](Self::shutdown) it answers `Closed` (L2); past its deadline, `Timeout` (L6);
/// dropping its future leaves the whole effect or none (W10). One method alone has a default, since the plugin is the same
/// on every engine: another default would be a second way to do a thing, and a wrapper could forget it.
#[async_trait]
pub trait MemoryProvider: IntoDynProvider + fmt::Debug + Send + Sync + 'static {
    /// Creates or migrates the schema, and opens the provider.
    ///
    /// # Behavior
    /// - Calling it twice, or from eight processes at once, is safe (L1).
    /// - After `shutdown` it answers `Closed` (L2).
    /// - A schema newer than the program is `SchemaMismatch`, with its name and version (L4).
    async fn init(&self) -> Result<()>;

    /// Tells how the engine is.
    ///
    /// # Behavior
    /// - Cheap, without a trace in the engine, and answered within two seconds (L3).
    /// - `Unavailable` when the engine is down; works again when it is back, without a new provider (L3).
    async fn check_health(&self) -> Result<Health>;

    /// Takes the next slice of a backfill, if the schema has one that is not complete: some hundred records. Tells how far it is then;
    /// `None` when nothing is left to do.
    ///
    /// # Behavior
    /// - A call that needs it completes one that has at most 2,000 records left; others are for `agent-memory migrate`, the server, or
    ///   whoever calls this (L7).
    /// - It goes on where it was cut, in whichever program, and any number of programs may take slices at once (L7).
    async fn backfill(&self) -> Result<Option<Backfill>>;

    /// Makes the namespace read-only, or takes that back. For operators, who move it elsewhere.
    ///
    /// # Behavior
    /// - From when it has returned, each write by whatever handle and program is refused with `Unavailable` and nothing of it is done; no
    ///   write that was begun before is committed then. Reads and watches go on (L9, with its one exception).
    /// - Behind a failure it may be done, also in part: take it back, or repeat it.
    /// - It survives a restart. To repeat it changes nothing.
    async fn set_read_only(&self, is_read_only: bool) -> Result<()>;

    /// Whether the namespace is read-only (L9).
    async fn is_read_only(&self) -> Result<bool>;

    /// Lets calls in flight finish, and closes. A second call does nothing (L2).
    async fn shutdown(&self) -> Result<()>;

    /// Appends a memory to the ledger.
    ///
    /// # Behavior
    /// - When it has returned, the memory is durable and visible to the next read through any handle (W1).
    /// - It never overwrites (W2).
    /// - With an idempotency key that is taken: the first id if trigger and space are the same, else `Conflict` (W3).
    async fn store(&self, memory: NewMemory) -> Result<MemoryId>;

    /// Appends many memories: all or none, with their ids in the order of the input (W4).
    ///
    /// # Behavior
    /// - 10,000 memories and 64 MiB go in one call (W4); more are `TooLarge`.
    /// - Idempotency keys work within the batch as between calls (W3).
    async fn store_many(&self, memories: Vec<NewMemory>) -> Result<Vec<MemoryId>>;

    /// Changes a memory: see [`MemoryPatch::apply`].
    ///
    /// # Behavior
    /// - An unknown id is `NotFound` (W5), a wrong revision `Conflict`, and either writes nothing (W8).
    /// - Concurrent patches of different metadata keys all survive (W9).
    async fn update(&self, id: MemoryId, patch: MemoryPatch) -> Result<Updated>;

    /// The memory with this id, or `None`. `Corrupt` when its row can't be read.
    async fn get(&self, id: MemoryId) -> Result<Option<Memory>>;

    /// One page of what a query finds (Q1 to Q9).
    async fn query(&self, query: &MemoryQuery) -> Result<MemoryPage>;

    /// What answers a question in words, best first (R1 to R6).
    ///
    /// # Behavior
    /// - The order is a function of the scope's memories and of the question: the same on every engine, and whatever lies outside (R1).
    /// - `complete` is false when a budget has ended it (R5).
    async fn recall(&self, recall: &MemoryRecall) -> Result<Recalled<Memory>>;

    /// The spaces right below a path, or the top-level ones, and how many memories each holds (S8 to S10): the level that is asked for, and
    /// with a `depth` those below it, one after the other.
    ///
    /// # Behavior
    /// - Nothing outside of the query's `within` shows: neither a space nor in a count (S9).
    async fn spaces(&self, query: &SpaceQuery) -> Result<Vec<SpaceLevel>>;

    /// The changes of memories and documents, from the beginning, from now on or from a token on (C1 to C7).
    ///
    /// # Behavior
    /// - Everything that is committed behind a token comes, at least once, and each record in the order of its revisions (C3).
    /// - Nothing outside of the spaces and of `within` shows, but that a document has left them (C4).
    /// - `FeedReset` when the feed has lost changes behind the token, also later from the stream; never a gap (C6).
    /// - It begins to read only when it is polled, and the stream ends with `Closed` at the shutdown of the provider (C7).
    /// - `LimitExceeded` when [`MAX_WATCHES`](crate::MAX_WATCHES) streams of the provider are open already (C7).
    async fn watch(&self, watch: &Watch) -> Result<Changes>;

    /// One page of the versions of a memory or of a document, newest first (H1, H2, H5). Empty where there is no such record.
    ///
    /// # Behavior
    /// - A version tells when it was committed, who made it, and the record as it was (H1).
    /// - The versions from before the removal of a document are for operators, who ask for them by name (H5).
    /// - An engine that keeps no history answers `Unsupported` (H6).
    async fn history(&self, history: &History) -> Result<HistoryPage>;

    /// The memory or document with this id as it was at a time of the provider's clock, as the commits recorded it (H3). `None` where it was
    /// not stored yet, and where the document was removed since.
    ///
    /// # Behavior
    /// - A time before the ledger had a history, or in the future, is `InvalidInput` (H4).
    /// - An engine that keeps no history answers `Unsupported` (H6).
    async fn get_as_of(&self, id: &RecordId, time: Timestamp) -> Result<Option<Record>>;

    /// Writes memories exactly as they are, each by itself (W12). For operators: backup and copy.
    ///
    /// # Behavior
    /// - A memory that is there and equal is counted; one that differs, or whose idempotency key another memory has, is a
    ///   conflict and stays as it is.
    async fn restore(&self, memories: Vec<Memory>) -> Result<RestoreReport>;

    /// Writes memories exactly as they are, each by itself, also in the place of an earlier version (W13). For operators: a copy that is
    /// kept up to date.
    ///
    /// # Behavior
    /// - A memory of a lower revision that has the same space, trigger, createdAt and idempotency key is replaced. Otherwise it does what
    ///   [`restore`](Self::restore) does.
    /// - To repeat it changes nothing.
    async fn restore_newer(&self, memories: Vec<Memory>) -> Result<RestoreReport>;

    /// Restores versions of one memory or document, oldest first, each with its time and its actor: those behind the one that is there, or all
    /// where nothing is (H9). Each is a step of its own, and a repetition goes on where a failure has ended it. For operators: a copy with
    /// the history.
    ///
    /// # Behavior
    /// - `InvalidInput` unless each is a later version of the same record, with the time of its commit, which the first may lack; for a removal;
    ///   and for more than 1,000.
    /// - One is a conflict where something else is there, or a version that is none of these.
    /// - Where no history is kept, it answers `Unsupported` (H6).
    async fn restore_versions(&self, versions: Vec<Version>) -> Result<RestoreReport>;

    /// Erases records, with all that the engine keeps of them: the next slice of those that the erasure names. For operators (E1).
    ///
    /// # Behavior
    /// - A slice is one step: each of its records is gone from every read path, index, history and feed, or none is.
    /// - A tombstone stays of each (E2). What was erased does not come back by a store with its idempotency key, a restore or a copy (E3).
    /// - An engine that can't erase answers `Unsupported`.
    async fn erase(&self, erasure: &Erasure) -> Result<ErasedSlice>;

    /// What stays of a record that was erased, or `None`. For operators (E2).
    async fn tombstone(&self, record: &RecordId) -> Result<Option<Tombstone>>;

    /// The next tombstones behind a page, or the first ones; up to 1,000. For operators (E5). `InvalidInput` for a place that no page gave.
    async fn tombstones(&self, behind: Option<&str>) -> Result<TombstonePage>;

    /// What makes the hashes of the namespace's tombstones; `None` where the engine can't erase. For operators, who keep it secret (E5).
    async fn hash_key(&self) -> Result<Option<HashKey>>;

    /// Brings tombstones from elsewhere, and erases what is there of their records: at most 1,000, else `InvalidInput`. For operators (E5).
    ///
    /// # Behavior
    /// - A namespace that has no key of its own yet takes this one. Where it has another, only the names of the records are known by the
    ///   tombstones that come, not their idempotency keys.
    /// - Documents that were put behind the erasure stay, and no tombstone comes for them.
    /// - A call that failed may have brought some. To repeat it changes nothing.
    async fn restore_tombstones(&self, tombstones: Vec<Tombstone>, key: &HashKey) -> Result<RestoreReport>;

    /// Erases what has expired, and takes away tombstones whose time is over: the next slice of a round, which begins with [`Sweep::all`] or
    /// [`Sweep::due`] (X4). For operators, and for who serves the memory. Nobody has to call it for a record to be over.
    ///
    /// # Behavior
    /// - A slice is of at most 100 records, or of a page of tombstones, and ends behind 64 MiB.
    /// - What can't be read is passed over.
    /// - An engine that can't erase answers `Unsupported`.
    async fn sweep(&self, from: &Sweep) -> Result<Swept>;

    /// The rules by which records are kept, in the order of their paths (X3). For operators.
    async fn retention(&self) -> Result<Vec<Retention>>;

    /// Puts these rules in the place of those that are there (X3): at most 1,000, else `TooLarge`, each for a path of its own, else
    /// `InvalidInput`. For operators. An engine that can't erase answers `Unsupported`.
    ///
    /// From when it returns no call of this handle shows what they have over, and no call of another one a second later.
    async fn set_retention(&self, rules: Vec<Retention>) -> Result<()>;

    /// The model that the namespace has its vectors from, if one was set (M1).
    async fn vector_model(&self) -> Result<Option<VectorModel>>;

    /// Makes this the model of the namespace. Vectors of another one count no more, until that is the model again (M1). For operators, and
    /// for who makes the vectors. An engine that keeps none answers `Unsupported`.
    ///
    /// Where another model was set before, it removes the places of the keepers ([`VectorKeeper`](crate::VectorKeeper)), which look at every
    /// record again (M5). From when it returns every recall goes by it, but for one whose provider can't ask the server that keeps the model:
    /// after 2 seconds, or a third of its deadline if that is less, it goes by the model that it saw last.
    async fn set_vector_model(&self, model: &VectorModel) -> Result<()>;

    /// Keeps vectors of this model beside records, each by itself, in the place of earlier ones (M2): at most
    /// [`MAX_VECTORS`](crate::MAX_VECTORS), else `TooLarge`. Tells of each whether it is kept: not where the record is gone, has another
    /// revision, or has other texts than [`Embedding::texts`] says. Of several for one record the last one counts.
    ///
    /// # Behavior
    /// - `SchemaMismatch` where the namespace has another model or none, `InvalidInput` for a vector of another width, before anything is kept. Where
    ///   another model is set meanwhile, `SchemaMismatch` with an unknown outcome: the keepers of that one look at every record again.
    /// - The record has no new revision, and no watch tells of it.
    /// - A call that failed may have kept some. To repeat it changes nothing.
    /// - `Unsupported` on an engine that keeps no vectors.
    async fn embed(&self, model: &VectorModel, embeddings: Vec<Embedding>) -> Result<Vec<bool>>;

    /// The vectors that these records have of the namespace's model, in their order (M2): at most [`MAX_VECTORS`](crate::MAX_VECTORS), else
    /// `TooLarge`. `None` for a record that is not there or has none, and for all where no model is set or the engine keeps no vectors.
    async fn vectors(&self, of: &[RecordId]) -> Result<Vec<Option<Embedding>>>;

    /// The documents beside the ledger.
    fn documents(&self) -> Arc<dyn DocumentStore>;

    /// The plugin by which a language model uses this memory: the standard one, unless an engine or a wrapper adds verbs.
    ///
    /// Call it on the outermost `Arc`, so that what the plugin does goes through all wrappers. A provider with verbs of its
    /// own puts their executors behind those of [`MemoryPlugin::new`].
    fn plugin(self: Arc<Self>) -> Arc<dyn Plugin> {
        Arc::new(MemoryPlugin::new(self.into_dyn()))
    }
}

/// What makes an `Arc<dyn MemoryProvider>` of a provider that is shared; every provider has it.
pub trait IntoDynProvider {
    /// The same provider without its type.
    fn into_dyn(self: Arc<Self>) -> Arc<dyn MemoryProvider>;
}

impl<P: MemoryProvider> IntoDynProvider for P {
    fn into_dyn(self: Arc<Self>) -> Arc<dyn MemoryProvider> {
        self
    }
}

/// The mutable part of an agent's memory. No call of it reads or changes the ledger (D6).
#[async_trait]
pub trait DocumentStore: fmt::Debug + Send + Sync + 'static {
    /// Creates or replaces a document: see [`DocumentWrite::apply`].
    ///
    /// # Behavior
    /// - `Conflict` when what is in place is not what the write expects; of N racing writers one wins (D1).
    async fn put(&self, write: DocumentWrite) -> Result<Document>;

    /// Puts many documents, of any collections: all or none, each as [`put`](Self::put) does. Returns them in the order of the input (D7).
    ///
    /// # Behavior
    /// - 10,000 documents and 64 MiB go in one call; more are `TooLarge` (D7).
    /// - Two of one collection with the same id are `InvalidInput` (D7).
    /// - Where one does not find what it expects, it is `Conflict` and none is put (D1, D7).
    async fn put_many(&self, writes: Vec<DocumentWrite>) -> Result<Vec<Document>>;

    /// The document with this id, or `None`. `Corrupt` when it can't be read.
    async fn get(&self, collection: &Collection, id: &DocumentId) -> Result<Option<Document>>;

    /// One page of what a query finds (D3).
    async fn query(&self, query: &DocumentQuery) -> Result<DocumentPage>;

    /// What answers a question in words, best first; like [`MemoryProvider::recall`].
    async fn recall(&self, recall: &DocumentRecall) -> Result<Recalled<Document>>;

    /// The spaces of a collection, and how many documents each holds; like [`MemoryProvider::spaces`].
    ///
    /// # Behavior
    /// - While documents can't be looked for by place, it answers `Unavailable` (S10, L7).
    async fn spaces(&self, collection: &Collection, query: &SpaceQuery) -> Result<Vec<SpaceLevel>>;

    /// Removes what a selection finds, and tells the ids in ascending order.
    ///
    /// # Behavior
    /// - More than `max` is `LimitExceeded` and removes nothing (D4).
    /// - What is found goes in one step, at the revision at which it was found; changed meanwhile, it is looked at again (D4).
    /// - A removed document is gone from every read path and every index (D5).
    async fn remove(&self, selection: &DocumentSelection, max: usize) -> Result<Vec<DocumentId>>;

    /// Writes documents exactly as they are, each by itself; like [`MemoryProvider::restore`].
    async fn restore(&self, documents: Vec<Document>) -> Result<RestoreReport>;

    /// Writes documents exactly as they are, each by itself, also in the place of an earlier version; like
    /// [`MemoryProvider::restore_newer`].
    ///
    /// # Behavior
    /// - A document of a lower revision that has the same createdAt is replaced. One that was removed and put again since has a revision
    ///   of its own, and comes in once its removal was repeated here (W13).
    async fn restore_newer(&self, documents: Vec<Document>) -> Result<RestoreReport>;

    /// The collections that hold a document, in ascending order.
    async fn collections(&self) -> Result<Vec<Collection>>;
}

/// The most memories of one `store_many` (W4), or documents of one `put_many` (D7).
pub const MAX_BATCH: usize = 10_000;
/// The most bytes of one `store_many`, by [`Memory::size`] (W4), or of one `put_many`, by [`DocumentWrite::size`] (D7).
pub const MAX_BATCH_BYTES: usize = 64 << 20;

/// The rows of a batch under their new ids. For engines.
///
/// `TooLarge` over the limits of W4; `Conflict` when two rows share an idempotency key and differ in trigger or space (W3).
/// Rows that repeat one of the same batch are left in it.
pub fn check_batch(memories: Vec<NewMemory>) -> Result<Vec<Memory>> {
    check_count(memories.len(), "memories")?;
    let memories: Vec<_> = memories.into_iter().map(|memory| memory.into_memory(MemoryId::generate())).collect();
    check_bytes(memories.iter().map(Memory::size).sum(), "memories")?;
    let mut firsts = HashMap::new();
    for memory in &memories {
        if let Some(key) = &memory.idempotency_key {
            let first: &Memory = firsts.entry(key).or_insert(memory);
            check_repetition(memory, first.space_id.as_str(), first.trigger.as_str())?;
        }
    }
    Ok(memories)
}

/// Checks what one `put_many` is given. For engines.
///
/// `TooLarge` over the limits of D7; `InvalidInput` when two writes of one collection name the same id.
pub fn check_writes(writes: &[DocumentWrite]) -> Result<()> {
    check_count(writes.len(), "documents")?;
    check_bytes(writes.iter().map(DocumentWrite::size).sum(), "documents")?;
    let mut named = HashMap::new();
    for (place, write) in writes.iter().enumerate() {
        let Some(id) = &write.id else { continue };
        if let Some(first) = named.insert((&write.collection, id), place) {
            return Err(Error::invalid(format!("documents {first} and {place} of the call have the same id")));
        }
    }
    Ok(())
}

fn check_count(count: usize, what: &str) -> Result<()> {
    match count > MAX_BATCH {
        true => Err(Error::too_large(format!("{count} {what}; at most {MAX_BATCH} go in one call"))),
        false => Ok(()),
    }
}

fn check_bytes(bytes: usize, what: &str) -> Result<()> {
    match bytes > MAX_BATCH_BYTES {
        true => Err(Error::too_large(format!("{what} of {bytes} bytes; at most {MAX_BATCH_BYTES} go in one call"))),
        false => Ok(()),
    }
}

/// What became of records or versions to restore (W12, W13, H9).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RestoreReport {
    /// How many were written.
    pub written: usize,
    /// How many were there already, and equal.
    pub equal: usize,
    /// The places in the input of those that differ from what is there.
    pub conflicts: Vec<usize>,
    /// The places of those that were erased, and are not brought back (E3).
    pub erased: Vec<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, IdempotencyKey, SpaceId, Timestamp, Trigger};

    #[test]
    fn a_key_stands_for_one_memory_within_a_batch() {
        let memory = |key: Option<&str>, trigger: &str| {
            let (space, trigger) = (SpaceId::parse("a").expect("valid"), Trigger::parse(trigger).expect("valid"));
            let idempotency_key = key.map(|key| IdempotencyKey::parse(key).expect("valid"));
            NewMemory { idempotency_key, ..NewMemory::new(space, trigger, Timestamp::MIN) }
        };
        let same = vec![memory(Some("k"), "1"), memory(None, "2"), memory(None, "3"), memory(Some("k"), "1")];
        assert_eq!(check_batch(same).expect("a repetition").len(), 4);
        let other = vec![memory(Some("k"), "1"), memory(Some("l"), "2"), memory(Some("k"), "2")];
        assert_eq!(check_batch(other).expect_err("two triggers").kind(), ErrorKind::Conflict);
    }
}
