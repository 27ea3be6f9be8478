//! Stores memories: alone, in a shared batch, or as a batch of one caller.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::living::LivingWork;
use super::open::Open;
use crate::engine::batch::{Batch, BatchStore};
use crate::engine::session::{Append, Appended, Atomicity, Writer};
use crate::engine::{Access, Engine};
use crate::{
    Error, ErrorKind, HashKey, IdempotencyKey, Memory, MemoryId, Outcome, RecordId, Result, Timestamp, check_repetition,
};

/// Number of memories that are compared at once with those that they repeat.
const COMPARED: usize = 64;

impl<E: Engine> Open<E> {
    pub(super) async fn store(self: &Arc<Self>, memory: Memory) -> Result<MemoryId> {
        match E::BATCH {
            Some(_) => Batch::store(self, memory).await,
            None => self.store_alone(Arc::new(memory), Outcome::NotDone).await,
        }
    }

    /// Stores all or none, and returns the ids in their order.
    pub(super) async fn store_all(&self, memories: Vec<Arc<Memory>>, earlier: Outcome) -> Result<Vec<MemoryId>> {
        let (until, at, hash_key) = (self.until(), self.written_at().await?, self.hash_key_of(&memories).await?);
        let attempt = |attempt| {
            let is_repeated = attempt > 0 || earlier == Outcome::Unknown;
            let given = Arc::new(Given { memories: memories.clone(), is_repeated, at, hash_key: hash_key.clone() });
            self.in_session(Access::Write.into(), until, given, |writer, given| Box::pin(append_all(writer, given)))
        };
        // Its own id makes repeated attempts store a memory once (W11).
        self.retry().repeatable().run(|error| self.engine.is_temporary(error), attempt).await
    }
}

impl<E: Engine> BatchStore for Open<E> {
    fn batch(&self) -> &Batch {
        &self.batch
    }

    async fn store_alone(&self, memory: Arc<Memory>, earlier: Outcome) -> Result<MemoryId> {
        let id = memory.id;
        let stored = self.store_all(vec![memory], earlier).await?;
        Ok(stored.first().copied().unwrap_or(id))
    }

    async fn store_each(&self, memories: Vec<Arc<Memory>>) -> Result<Vec<Result<MemoryId, Outcome>>> {
        let (at, hash_key) = (self.written_at().await?, self.hash_key_of(&memories).await?);
        let given = Arc::new(Given { memories, is_repeated: false, at, hash_key });
        let work: LivingWork<E::Session, _, _> = |writer, given| Box::pin(append_each(writer, given));
        self.in_session(Access::Write.into(), self.until(), given, work).await
    }
}

/// Memories to append, with the values that an append needs.
struct Given {
    memories: Vec<Arc<Memory>>,
    is_repeated: bool,
    /// The time of the append, if the engine keeps a history.
    at: Option<Timestamp>,
    /// Makes the hashes of their idempotency keys, if the engine can erase.
    hash_key: Option<HashKey>,
}

impl Given {
    fn append<'a>(&'a self, memories: &'a [&'a Memory], atomicity: Atomicity, is_repeated: bool) -> Append<'a> {
        Append { memories, atomicity, is_repeated, at: self.at, hash_key: self.hash_key.as_ref() }
    }
}

/// Appends all or none, and returns their ids; for a memory that repeats another one, the other one's id (W3).
async fn append_all(writer: &mut impl Writer, given: &Given) -> Result<Vec<MemoryId>> {
    let (mut firsts, mut fresh) = (HashMap::<&IdempotencyKey, MemoryId>::new(), Vec::new());
    let mut ids = Vec::with_capacity(given.memories.len());
    for memory in given.memories.iter().map(Arc::as_ref) {
        let first = memory.idempotency_key.as_ref().map(|key| *firsts.entry(key).or_insert(memory.id));
        ids.push(first.unwrap_or(memory.id));
        if ids.last() == Some(&memory.id) {
            fresh.push(memory);
        }
    }
    let (mut owners, mut is_repeated) = (HashMap::new(), given.is_repeated);
    while !fresh.is_empty() {
        let appended = writer.append(given.append(&fresh, Atomicity::All, is_repeated)).await?;
        if appended.contains(&Appended::Erased) {
            return Err(Error::erased());
        }
        let taken = taken(&fresh, &appended);
        if taken.is_empty() {
            break;
        }
        // Nothing was written. The taken ones are left out, and the others are tried again.
        let firsts = firsts_of(writer, &taken).await?;
        // As after a sweep, `Erased` takes precedence over a conflict (X2).
        let is_erased =
            |first: &&Result<MemoryId>| first.as_ref().is_err_and(|error| error.kind() == ErrorKind::Erased);
        if let Some(Err(error)) = firsts.iter().find(is_erased) {
            return Err(error.clone());
        }
        for ((memory, _), first) in taken.iter().zip(firsts) {
            owners.insert(memory.id, first?);
        }
        fresh.retain(|memory| !owners.contains_key(&memory.id));
        is_repeated = true;
    }
    Ok(ids.into_iter().map(|id| owners.get(&id).copied().unwrap_or(id)).collect())
}

/// Appends each memory by itself, and returns its id, or the outcome of its failure.
async fn append_each(writer: &mut impl Writer, given: &Given) -> Result<Vec<Result<MemoryId, Outcome>>> {
    let mut keys = HashSet::new();
    let all = given.memories.iter().map(Arc::as_ref);
    // A memory that repeats another of the batch is stored after it.
    let first: Vec<&Memory> =
        all.filter(|memory| memory.idempotency_key.as_ref().is_none_or(|key| keys.insert(key))).collect();
    let appended = writer.append(given.append(&first, Atomicity::Each, given.is_repeated)).await?;
    let written = first.iter().zip(&appended).filter(|(_, appended)| **appended == Appended::Written);
    let mut stored: HashMap<_, _> = written.map(|(memory, _)| (memory.id, memory.id)).collect();
    let taken = taken(&first, &appended);
    // If the session is one transaction, a failure rolls back what was written before; each memory is then retried
    // alone.
    let firsts = firsts_of(writer, &taken).await.map_err(|error| error.with_outcome(Outcome::Unknown))?;
    stored.extend(taken.iter().zip(firsts).filter_map(|((memory, _), first)| Some((memory.id, first.ok()?))));
    Ok(given.memories.iter().map(|memory| stored.get(&memory.id).copied().ok_or(Outcome::NotDone)).collect())
}

/// Returns the memories whose id or key is taken, with the id of the one that has it.
fn taken<'m>(memories: &[&'m Memory], appended: &[Appended]) -> Vec<(&'m Memory, MemoryId)> {
    let taken = memories.iter().zip(appended).filter_map(|(memory, appended)| match appended {
        Appended::Taken(owner) => Some((*memory, *owner)),
        Appended::Written | Appended::NotWritten | Appended::Erased => None,
    });
    taken.collect()
}

/// Returns the result of storing each of these memories: the id of the memory that it repeats, or `Conflict` (W3).
async fn firsts_of(writer: &mut impl Writer, taken: &[(&Memory, MemoryId)]) -> Result<Vec<Result<MemoryId>>> {
    let mut firsts = Vec::with_capacity(taken.len());
    // In chunks, because stored memories may be large.
    for taken in taken.chunks(COMPARED) {
        let others = taken.iter().filter(|(memory, owner)| memory.id != *owner);
        let others: Vec<_> = others.map(|(_, owner)| *owner).collect();
        let found = if others.is_empty() { HashMap::new() } else { writer.memories(&others).await? };
        // A memory that is gone was erased meanwhile (E3).
        let gone = others.iter().filter(|owner| !found.contains_key(*owner)).map(|owner| RecordId::from(*owner));
        let gone: Vec<_> = gone.collect();
        let erased = if gone.is_empty() { Vec::new() } else { writer.tombstones(&gone).await? };
        let is_erased = |owner: MemoryId| erased.iter().any(|tombstone| tombstone.record == owner.into());
        firsts.extend(taken.iter().map(|(memory, owner)| match found.get(owner) {
            // An earlier attempt has stored it.
            _ if memory.id == *owner => Ok(*owner),
            Some(Ok(first)) => {
                check_repetition(memory, first.record.space_id.as_str(), first.record.trigger.as_str()).map(|()| *owner)
            }
            Some(Err(error)) => Err(error.clone()),
            None if is_erased(*owner) => Err(Error::erased()),
            None => Err(Error::corrupt("the memory of an idempotency key is gone")),
        }));
    }
    Ok(firsts)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::engine::{DocumentsFound, Found, Mark, MemoriesFound, Put, Reader, Removal, VersionEntry, Visit, Walk};
    use crate::in_memory::InMemorySession;
    use crate::query::{Documents, Ledger};
    use crate::{Collection, DocumentId, NewMemory, SpaceId, Trigger};

    /// A session that is one transaction, in which no record can be read by its id.
    #[derive(Default)]
    pub(in crate::engine::provider) struct Blind(InMemorySession);

    impl Reader for Blind {
        type Version = u64;

        const PLACES: usize = 1;

        async fn memories(&mut self, _: &[MemoryId]) -> Result<MemoriesFound<u64>> {
            Err(too_long())
        }

        async fn walk_memories(&mut self, walk: &Walk<'_>, visit: &mut Visit<'_, Ledger>) -> Result<Option<Mark>> {
            self.0.walk_memories(walk, visit).await
        }

        async fn documents(&mut self, _: &Collection, _: &[DocumentId]) -> Result<DocumentsFound<u64>> {
            Err(too_long())
        }

        async fn walk_documents(
            &mut self,
            collection: &Collection,
            walk: &Walk<'_>,
            visit: &mut Visit<'_, Documents>,
        ) -> Result<Option<Mark>> {
            self.0.walk_documents(collection, walk, visit).await
        }

        async fn collections(&mut self, behind: Option<&Collection>, most: usize) -> Result<Vec<Collection>> {
            self.0.collections(behind, most).await
        }
    }

    impl Writer for Blind {
        async fn append(&mut self, append: Append<'_>) -> Result<Vec<Appended>> {
            self.0.append(append).await
        }

        async fn replace(
            &mut self,
            before: &Found<Memory, u64>,
            after: &Memory,
            entry: Option<&VersionEntry>,
        ) -> Result<bool> {
            self.0.replace(before, after, entry).await
        }

        async fn put(&mut self, puts: &[Put<'_, u64>]) -> Result<bool> {
            self.0.put(puts).await
        }

        async fn remove(&mut self, collection: &Collection, removals: &[Removal<'_, u64>]) -> Result<bool> {
            self.0.remove(collection, removals).await
        }
    }

    fn too_long() -> Error {
        Error::new(ErrorKind::Timeout, "the statement took too long")
    }

    fn memory(key: Option<&str>) -> Arc<Memory> {
        let (space, trigger) = (SpaceId::parse("a").expect("valid"), Trigger::parse("1").expect("valid"));
        let idempotency_key = key.map(|key| IdempotencyKey::parse(key).expect("valid"));
        let memory = NewMemory { idempotency_key, ..NewMemory::new(space, trigger, Timestamp::MIN) };
        Arc::new(memory.into_memory(MemoryId::generate()))
    }

    /// The server takes back all of a transaction in which a statement has failed, so nobody may be told that it is stored.
    #[tokio::test]
    async fn a_step_that_fails_in_a_batch_is_not_passed_over() {
        let mut writer = Blind::default();
        let given = |memories| Given { memories, is_repeated: false, at: None, hash_key: None };
        append_each(&mut writer, &given(vec![memory(Some("k"))])).await.expect("nothing is in the way");
        let stored = append_each(&mut writer, &given(vec![memory(Some("k")), memory(None)])).await;
        assert_eq!(stored.expect_err("the failure of a step").outcome(), Outcome::Unknown);
    }
}
