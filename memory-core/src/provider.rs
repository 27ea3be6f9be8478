//! The contract that every engine implements, for the ledger and for documents.

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
/// The rules are numbered; `conformance/CONTRACT.md` has their full text. For every call: before [`init`](Self::init)
/// and after [`shutdown`](Self::shutdown) it fails with `Closed` (L2); past its deadline it fails with `Timeout` (L6);
/// dropping its future leaves the whole effect or none (W10).
///
/// Only [`plugin`](Self::plugin) has a default implementation, because the plugin is the same on every engine. Other
/// methods have none, so that a wrapper can't forget to forward one.
#[async_trait]
pub trait MemoryProvider: IntoDynProvider + fmt::Debug + Send + Sync + 'static {
    /// Creates or migrates the schema, and opens the provider.
    ///
    /// # Behavior
    /// - Repeated calls, and calls from several processes at once, are safe (L1).
    /// - Fails with `Closed` after `shutdown` (L2).
    /// - Fails with `SchemaMismatch` if the schema is newer than the program; the message names the version (L4).
    async fn init(&self) -> Result<()>;

    /// Reports engine, versions, latency and durability.
    ///
    /// # Behavior
    /// - Cheap, leaves no trace in the engine, and answers within two seconds (L3).
    /// - Fails with `Unavailable` while the engine is down, and works again once it is back, without a new provider
    ///   (L3).
    async fn check_health(&self) -> Result<Health>;

    /// Runs the next slice of an incomplete backfill, a few hundred records, and returns its progress; `None` when no
    /// backfill is left.
    ///
    /// # Behavior
    /// - A call that depends on a backfill completes it if at most 2,000 records are left. A longer one is completed by
    ///   `agent-memory migrate`, by the server, or by repeated calls of this method (L7).
    /// - A backfill resumes where it was interrupted, in any program; several programs may run slices at once (L7).
    async fn backfill(&self) -> Result<Option<Backfill>>;

    /// Makes the namespace read-only, or writable again. For operators who move it elsewhere.
    ///
    /// # Behavior
    /// - Once the call has returned, every write by any handle or program fails with `Unavailable` and writes nothing;
    ///   no earlier write commits after that. Reads and watches go on (L9, which names exceptions for older programs).
    /// - A failed call may have taken effect, also in part: repeat it or revert it.
    /// - The setting survives a restart. Repeating the call changes nothing.
    async fn set_read_only(&self, is_read_only: bool) -> Result<()>;

    /// Returns whether the namespace is read-only (L9).
    async fn is_read_only(&self) -> Result<bool>;

    /// Waits for calls in flight, then closes this handle. A second call does nothing (L2).
    async fn shutdown(&self) -> Result<()>;

    /// Appends a memory to the ledger.
    ///
    /// # Behavior
    /// - When the call returns, the memory is durable and visible to the next read through any handle (W1).
    /// - Never overwrites (W2).
    /// - If the idempotency key is taken: returns the first id if trigger and space are equal, else fails with
    ///   `Conflict` (W3). `Erased` if the memory with the key was erased or has expired (E3, X2).
    async fn store(&self, memory: NewMemory) -> Result<MemoryId>;

    /// Appends many memories, all or none; returns their ids in input order (W4).
    ///
    /// # Behavior
    /// - Takes at most 10,000 memories and 64 MiB in one call, else `TooLarge` (W4).
    /// - Idempotency keys work within the batch as between calls (W3).
    async fn store_many(&self, memories: Vec<NewMemory>) -> Result<Vec<MemoryId>>;

    /// Changes a memory as [`MemoryPatch::apply`] defines.
    ///
    /// # Behavior
    /// - An unknown id is `NotFound` (W5), an erased or expired memory `Erased` (E2, X2), and a wrong revision
    ///   `Conflict` (W8); none of these writes anything.
    /// - Concurrent patches of different metadata keys all survive (W9).
    async fn update(&self, id: MemoryId, patch: MemoryPatch) -> Result<Updated>;

    /// Returns the memory with this id, or `None`. `Erased` if it was erased or has expired (E2, X2), `Corrupt` if its
    /// row can't be read.
    async fn get(&self, id: MemoryId) -> Result<Option<Memory>>;

    /// Returns one page of the memories that match a query (Q1 to Q9).
    async fn query(&self, query: &MemoryQuery) -> Result<MemoryPage>;

    /// Ranks memories by how well they answer a question in words, best first (R1 to R6).
    ///
    /// # Behavior
    /// - Order and scores depend only on the question and on the memories in scope; they are the same on every engine
    ///   (R1).
    /// - `complete` is false if a limit ended the search early (R5).
    async fn recall(&self, recall: &MemoryRecall) -> Result<Recalled<Memory>>;

    /// Lists the spaces right below a path, or the top-level ones, with how many memories each holds (S8 to S10). With
    /// a `depth`, the levels below follow.
    ///
    /// # Behavior
    /// - Nothing outside the query's `within` is listed or counted (S9).
    async fn spaces(&self, query: &SpaceQuery) -> Result<Vec<SpaceLevel>>;

    /// Streams changes of memories and documents: from a snapshot, from now on, or from a token (C1 to C7).
    ///
    /// # Behavior
    /// - Delivers everything that is committed after the token at least once, and each record in ascending revisions
    ///   (C3).
    /// - Shows nothing outside the spaces and `within`, except that a document has left them (C4), and, if the spaces
    ///   are prefixes or patterns, erasures anywhere in `within` (E4).
    /// - Fails with `FeedReset`, at once or later in the stream, if the feed has lost changes after the token; it never
    ///   skips a gap (C6).
    /// - Reads only when polled. The stream ends with `Closed` when the provider shuts down (C7).
    /// - Fails with `LimitExceeded` if [`MAX_WATCHES`](crate::MAX_WATCHES) streams of the provider are already open
    ///   (C7).
    async fn watch(&self, watch: &Watch) -> Result<Changes>;

    /// Returns one page of the versions of a memory or document, newest first (H1, H2, H5); an empty page for an
    /// unknown record.
    ///
    /// # Behavior
    /// - A version holds the record as it was, when it was committed and who made it (H1).
    /// - Versions from before a document's removal are for operators, who ask for them explicitly (H5).
    /// - Fails with `Unsupported` where no history is kept (H6).
    async fn history(&self, history: &History) -> Result<HistoryPage>;

    /// Returns the memory or document as it was at a time by the provider's clock, as its commits recorded it (H3);
    /// `None` before it was stored and after a document's removal.
    ///
    /// # Behavior
    /// - A time before the ledger had a history, or in the future, is `InvalidInput` (H4).
    /// - Fails with `Unsupported` where no history is kept (H6).
    async fn get_as_of(&self, id: &RecordId, time: Timestamp) -> Result<Option<Record>>;

    /// Writes memories exactly as given, each by itself (W12). For operators: backup and copy.
    ///
    /// # Behavior
    /// - Counts a memory that is already there and equal. One that differs, or whose idempotency key belongs to another
    ///   memory, is a conflict; what is stored stays as it is.
    async fn restore(&self, memories: Vec<Memory>) -> Result<RestoreReport>;

    /// Writes memories exactly as given, each by itself, and replaces earlier versions (W13). For operators: keeping a
    /// copy up to date.
    ///
    /// # Behavior
    /// - Replaces a stored memory of a lower revision if space, trigger, createdAt and idempotency key are equal.
    ///   Otherwise does what [`restore`](Self::restore) does.
    /// - Repeating the call changes nothing.
    async fn restore_newer(&self, memories: Vec<Memory>) -> Result<RestoreReport>;

    /// Restores versions of one memory or document, oldest first, each with its commit time and actor (H9): the
    /// versions after the stored one, or all of them if nothing is stored. Each version is a step of its own, and a
    /// repeated call resumes where a failed one stopped. For operators: a copy with its history.
    ///
    /// # Behavior
    /// - `InvalidInput` unless each is a later version of the same record and has its commit time (the first may lack
    ///   it); also for a removal, and for more than 1,000 versions.
    /// - A version is a conflict if something else is stored, or a version that is none of these.
    /// - Fails with `Unsupported` where no history is kept (H6).
    async fn restore_versions(&self, versions: Vec<Version>) -> Result<RestoreReport>;

    /// Erases the next slice of the records that an erasure selects, with everything the engine keeps of them. For
    /// operators (E1).
    ///
    /// # Behavior
    /// - A slice is atomic: all its records leave every read path, index, history and the feed, or none does.
    /// - A tombstone of each record stays (E2). No store with its idempotency key, restore or copy brings an erased
    ///   record back (E3).
    /// - Fails with `Unsupported` on an engine that can't erase.
    async fn erase(&self, erasure: &Erasure) -> Result<ErasedSlice>;

    /// Returns the tombstone of an erased record, or `None`. For operators (E2).
    async fn tombstone(&self, record: &RecordId) -> Result<Option<Tombstone>>;

    /// Returns a page of about 1,000 tombstones, which may be more: the first page, or the one at a place that the page
    /// before it gave (E5). Any other place is `InvalidInput`. For operators.
    async fn tombstones(&self, behind: Option<&str>) -> Result<TombstonePage>;

    /// Returns the key of the hashes in the namespace's tombstones; `None` where the engine can't erase. For operators,
    /// who keep it secret (E5).
    async fn hash_key(&self) -> Result<Option<HashKey>>;

    /// Imports tombstones from another namespace and erases the records that they name: at most 1,000, else
    /// `InvalidInput`. For operators (E5).
    ///
    /// # Behavior
    /// - A namespace without a key of its own adopts this one. If it has another key, imported tombstones block records
    ///   by name only, not by idempotency key.
    /// - A document that was put after the erasure stays, and its tombstone is not imported.
    /// - A failed call may have imported some of them. Repeating it changes nothing.
    async fn restore_tombstones(&self, tombstones: Vec<Tombstone>, key: &HashKey) -> Result<RestoreReport>;

    /// Erases expired records and removes tombstones that are due (X4): the next slice of a round, which starts with
    /// [`Sweep::all`] or [`Sweep::due`]. For operators and servers. Records expire without it: no call shows an expired
    /// record.
    ///
    /// # Behavior
    /// - A slice covers at most 100 records or one page of tombstones. It erases the records in steps of about 64 MiB.
    /// - Skips records that can't be read.
    /// - Fails with `Unsupported` on an engine that can't erase.
    async fn sweep(&self, from: &Sweep) -> Result<Swept>;

    /// Returns the retention rules in the order of their paths (X3). For operators.
    async fn retention(&self) -> Result<Vec<Retention>>;

    /// Replaces all retention rules (X3): at most 1,000, else `TooLarge`; two rules for one path are `InvalidInput`.
    /// Fails with `Unsupported` on an engine that can't erase. For operators.
    ///
    /// Records that the new rules expire are hidden from calls of this handle at once, and from those of other handles
    /// within a second.
    async fn set_retention(&self, rules: Vec<Retention>) -> Result<()>;

    /// Returns the namespace's vector model, if one is set (M1).
    async fn vector_model(&self) -> Result<Option<VectorModel>>;

    /// Sets the namespace's vector model (M1). Vectors of any other model are ignored until that model is set again.
    /// Fails with `Unsupported` on an engine that keeps no vectors. For operators and for programs that embed.
    ///
    /// Replacing a model removes the positions of all keepers ([`VectorKeeper`](crate::VectorKeeper)), which then look
    /// at every record again (M5). Once the call has returned, every recall uses the new model, unless its provider
    /// can't ask the server for it: after 2 seconds, or a third of its deadline if that is less, such a recall uses the
    /// model that the provider saw last.
    async fn set_vector_model(&self, model: &VectorModel) -> Result<()>;

    /// Stores vectors beside their records, each by itself, in place of earlier ones (M2): at most
    /// [`MAX_VECTORS`](crate::MAX_VECTORS), else `TooLarge`. Returns for each whether it was kept: not if the record is
    /// gone, has another revision, or has texts other than [`Embedding::texts`] says. Of several for one record the
    /// last one counts.
    ///
    /// # Behavior
    /// - Before anything is kept, fails with `SchemaMismatch` if the namespace has another model or none, and with
    ///   `InvalidInput` for a vector of another width. If another model is set meanwhile, fails with `SchemaMismatch`
    ///   and an unknown outcome; the keepers of that model look at every record again.
    /// - Neither raises the record's revision nor appears in a watch.
    /// - A failed call may have kept some. Repeating it changes nothing.
    /// - Fails with `Unsupported` on an engine that keeps no vectors.
    async fn embed(&self, model: &VectorModel, embeddings: Vec<Embedding>) -> Result<Vec<bool>>;

    /// Returns these records' vectors of the namespace's model, in the order given (M2): at most
    /// [`MAX_VECTORS`](crate::MAX_VECTORS) records, else `TooLarge`. `None` for a record that is missing or has no
    /// vector, and for all if no model is set or the engine keeps no vectors.
    async fn vectors(&self, of: &[RecordId]) -> Result<Vec<Option<Embedding>>>;

    /// Returns the store of the documents in this namespace.
    fn documents(&self) -> Arc<dyn DocumentStore>;

    /// Returns the plugin through which a language model uses this memory: the standard one, unless an engine or a
    /// wrapper adds verbs.
    ///
    /// Call it on the outermost `Arc`, so that the plugin's calls pass through all wrappers. A provider with verbs of
    /// its own appends their executors to those of [`MemoryPlugin::new`].
    fn plugin(self: Arc<Self>) -> Arc<dyn Plugin> {
        Arc::new(MemoryPlugin::new(self.into_dyn()))
    }
}

/// Turns a shared provider into an `Arc<dyn MemoryProvider>`; implemented for every provider.
pub trait IntoDynProvider {
    /// Returns the same provider with its type erased.
    fn into_dyn(self: Arc<Self>) -> Arc<dyn MemoryProvider>;
}

impl<P: MemoryProvider> IntoDynProvider for P {
    fn into_dyn(self: Arc<Self>) -> Arc<dyn MemoryProvider> {
        self
    }
}

/// The mutable part of an agent's memory. Its calls never read or change the ledger (D6).
#[async_trait]
pub trait DocumentStore: fmt::Debug + Send + Sync + 'static {
    /// Creates or replaces a document as [`DocumentWrite::apply`] defines.
    ///
    /// # Behavior
    /// - `Conflict` if the stored document is not what the write expects; of N racing writers one wins (D1).
    async fn put(&self, write: DocumentWrite) -> Result<Document>;

    /// Puts many documents, of any collections, all or none, each as [`put`](Self::put) does; returns them in input
    /// order (D7).
    ///
    /// # Behavior
    /// - Takes at most 10,000 documents and 64 MiB in one call, else `TooLarge` (D7).
    /// - Two with the same collection and id are `InvalidInput` (D7).
    /// - If one does not find what it expects, the call is `Conflict` and puts none (D1, D7).
    async fn put_many(&self, writes: Vec<DocumentWrite>) -> Result<Vec<Document>>;

    /// Returns the document with this id, or `None`. `Corrupt` if it can't be read.
    async fn get(&self, collection: &Collection, id: &DocumentId) -> Result<Option<Document>>;

    /// Returns one page of the documents that match a query (D3).
    async fn query(&self, query: &DocumentQuery) -> Result<DocumentPage>;

    /// Ranks documents by how well they answer a question in words, best first; like [`MemoryProvider::recall`].
    async fn recall(&self, recall: &DocumentRecall) -> Result<Recalled<Document>>;

    /// Lists the spaces of a collection, with how many documents each holds; like [`MemoryProvider::spaces`].
    ///
    /// # Behavior
    /// - Completes the backfill of the documents' places if it is short; fails with `Unavailable` while a longer one is
    ///   pending (S10, L7).
    async fn spaces(&self, collection: &Collection, query: &SpaceQuery) -> Result<Vec<SpaceLevel>>;

    /// Removes the selected documents and returns their ids in ascending order.
    ///
    /// # Behavior
    /// - If it finds more than `max`, it fails with `LimitExceeded` and removes nothing (D4).
    /// - Removes all in one step, each at the revision at which it was found; a document that changed meanwhile is
    ///   checked again (D4).
    /// - A removed document is gone from every read path and every index (D5).
    async fn remove(&self, selection: &DocumentSelection, max: usize) -> Result<Vec<DocumentId>>;

    /// Writes documents exactly as given, each by itself; like [`MemoryProvider::restore`].
    async fn restore(&self, documents: Vec<Document>) -> Result<RestoreReport>;

    /// Writes documents exactly as given, each by itself, and replaces earlier versions; like
    /// [`MemoryProvider::restore_newer`].
    ///
    /// # Behavior
    /// - Replaces a stored document of a lower revision if createdAt is equal. A document that was removed and put
    ///   again is a new one, and is accepted once the removal was repeated here (W13).
    async fn restore_newer(&self, documents: Vec<Document>) -> Result<RestoreReport>;

    /// Lists the collections that hold a document, in ascending order.
    async fn collections(&self) -> Result<Vec<Collection>>;
}

/// Maximum number of memories in one `store_many` (W4), or of documents in one `put_many` (D7).
pub const MAX_BATCH: usize = 10_000;
/// Maximum bytes of one `store_many`, by [`Memory::size`] (W4), or of one `put_many`, by [`DocumentWrite::size`] (D7).
pub const MAX_BATCH_BYTES: usize = 64 << 20;

/// Gives the memories of a batch their ids and checks the batch. For engines.
///
/// `TooLarge` over the limits of W4; `Conflict` if two share an idempotency key and differ in trigger or space (W3).
/// Repetitions within the batch stay in it.
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

/// Checks the input of one `put_many`. For engines.
///
/// `TooLarge` over the limits of D7; `InvalidInput` if two writes name the same collection and id.
pub fn check_writes(writes: &[DocumentWrite]) -> Result<()> {
    check_count(writes.len(), "documents")?;
    check_bytes(writes.iter().map(DocumentWrite::size).sum(), "documents")?;
    let mut named = HashMap::new();
    for (place, write) in writes.iter().enumerate() {
        let Some(id) = &write.id else { continue };
        if let Some(first) = named.insert((&write.collection, id), place) {
            return Err(Error::invalid(format!(
                "documents {first} and {place} of the call have the same collection and id"
            )));
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

/// Result of restoring records, versions or tombstones (W12, W13, H9, E5).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RestoreReport {
    /// Number of records, versions or tombstones written.
    pub written: usize,
    /// Number that were already stored and equal; of tombstones, all that were not written and are no conflict.
    pub equal: usize,
    /// Input positions of those that conflict with what is stored.
    pub conflicts: Vec<usize>,
    /// Input positions of those that were erased or have expired, and are not brought back (E3, X2).
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
