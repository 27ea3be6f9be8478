//! Storing memories: alone, with others that wait, or as a batch.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use memory_core::{Error, Group, IdempotencyKey, Memory, MemoryId, Outcome, Result, StoreTogether, check_repetition};
use mongodb::bson::{RawDocumentBuf, doc};
use mongodb::options::ReadConcern;

use crate::connection::Call;
use crate::error::{DUPLICATE_KEY, NOT_VALID, code, native, native_write, refusals};
use crate::statements::{self, id_to_bson, key_row, memory_row, text};

/// How many memories, and how many bytes, travel together.
pub(crate) const GROUP: (usize, usize) = (1_000, 16 << 20);
/// How long to wait for a majority to have what stands in the way.
const PAUSE: Duration = Duration::from_millis(2);

#[async_trait]
impl StoreTogether for Call {
    fn group(&self) -> &Group {
        &self.on.group
    }

    async fn store_alone(&self, memory: Arc<Memory>, _: Outcome) -> Result<MemoryId> {
        let id = memory.id;
        let known = self.run(async move |call| call.append(&[&memory]).await).await?;
        Ok(known.get(&id).copied().unwrap_or(id))
    }

    async fn store_group(&self, memories: Vec<Arc<Memory>>) -> Result<Vec<Result<MemoryId, Outcome>>> {
        // Who waits for the group may have more time than this call.
        self.on.call().run(async move |call| Ok(call.store_each(&memories).await)).await
    }
}

impl Call {
    /// Tries once to store each by itself: its id, or what its failure has left.
    async fn store_each(&self, memories: &[Arc<Memory>]) -> Vec<Result<MemoryId, Outcome>> {
        let (mut keys, mut keyed, mut keyless) = (HashSet::new(), Vec::new(), Vec::new());
        for memory in memories.iter().map(Arc::as_ref) {
            match &memory.idempotency_key {
                None => keyless.push(memory),
                Some(key) if keys.insert(key) => keyed.push(memory),
                // Repeats another one of the group, which has to be stored before.
                Some(_) => {}
            }
        }
        let (known, refused) = futures::join!(self.try_append(&keyed), self.try_insert_each(&keyless));
        let mut stored = HashMap::with_capacity(memories.len());
        for memory in keyed {
            let result = known.as_ref().map(|known| known.get(&memory.id).copied().unwrap_or(memory.id));
            stored.insert(memory.id, result.map_err(Error::outcome));
        }
        for (place, memory) in keyless.into_iter().enumerate() {
            let result = match &refused {
                Ok(refused) if refused.contains_key(&place) => Err(Outcome::NotDone),
                Ok(_) => Ok(memory.id),
                Err(error) => Err(error.outcome()),
            };
            stored.insert(memory.id, result);
        }
        memories.iter().map(|memory| stored.get(&memory.id).copied().unwrap_or(Err(Outcome::NotDone))).collect()
    }

    /// Writes memories without keys, each by itself, and tells which the server refused, by their place.
    pub(crate) async fn try_insert_each(&self, memories: &[&Memory]) -> Result<HashMap<usize, i32>> {
        if memories.is_empty() {
            return Ok(HashMap::new());
        }
        match self.on.primary.memories.insert_many(self.rows(memories)).ordered(false).await {
            Ok(_) => Ok(HashMap::new()),
            Err(error) => refusals(error),
        }
    }

    /// Writes memories with different keys, all or none. Tells of those that repeat another one which that is, by the id
    /// that they were given.
    pub(crate) async fn append(&self, memories: &[&Memory]) -> Result<HashMap<MemoryId, MemoryId>> {
        // Under its own id a memory is stored once, however often that is tried (W11).
        self.retry_repeatable(|| self.try_append(memories)).await
    }

    async fn try_append(&self, memories: &[&Memory]) -> Result<HashMap<MemoryId, MemoryId>> {
        let mut known = HashMap::new();
        loop {
            let was_known = self.has_ledger_text();
            let missing: Vec<_> = memories.iter().filter(|memory| !known.contains_key(&memory.id)).copied().collect();
            if missing.is_empty() {
                return Ok(known);
            }
            match self.insert_all(&missing).await {
                Ok(()) => return Ok(known),
                Err(error) if self.learns_of_ledger_text(was_known, code(&error)) => {}
                Err(error) if code(&error) == Some(DUPLICATE_KEY) => {
                    // What is in the way may be an earlier attempt.
                    known = self.known(memories).await.map_err(|error| error.after(Outcome::Unknown))?;
                    if known.len() < memories.len() {
                        tokio::time::sleep(PAUSE).await;
                        self.check_deadline()?;
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes memories, all or none; a duplicate of one is an error.
    pub(crate) async fn insert_all(&self, memories: &[&Memory]) -> Result<()> {
        if let [memory] = memories
            && memory.idempotency_key.is_none()
        {
            let row = memory_row(memory, self.has_ledger_text());
            return self.on.primary.memories.insert_one(row).await.map(drop).map_err(native_write);
        }
        let keys = memories.iter().filter_map(|memory| Some(key_row(memory.idempotency_key.as_ref()?, memory.id)));
        let keys: Vec<_> = keys.collect();
        let mut session = self.begin().await?;
        let write = async {
            if !keys.is_empty() {
                self.on.primary.keys.insert_many(keys).session(&mut session).await?;
            }
            self.on.primary.memories.insert_many(self.rows(memories)).session(&mut session).await
        };
        match write.await {
            Ok(_) => self.commit(session).await,
            Err(error) => {
                self.roll_back(session).await;
                Err(native(error))
            }
        }
    }

    /// Which memories were there before, by the ids of these. `Conflict` when a key belongs to another trigger or space.
    async fn known(&self, memories: &[&Memory]) -> Result<HashMap<MemoryId, MemoryId>> {
        let owners = self.owners(memories).await?;
        let mut ids: Vec<_> = memories.iter().map(|memory| id_to_bson(memory.id)).collect();
        ids.extend(owners.values().map(|id| id_to_bson(*id)));
        let find = self.on.primary.memories.find(doc! { "_id": { "$in": ids } });
        let find = find.projection(doc! { "spaceId": 1, "trigger": 1 }).read_concern(ReadConcern::majority());
        let mut rows = find.await.map_err(native)?;
        let mut present = HashMap::new();
        while rows.advance().await.map_err(native)? {
            present.insert(statements::memory_id(rows.current())?, rows.current().to_owned());
        }
        let mut known = HashMap::new();
        for memory in memories {
            if present.contains_key(&memory.id) {
                // An earlier attempt has stored it.
                known.insert(memory.id, memory.id);
                continue;
            }
            let owner = memory.idempotency_key.as_ref().and_then(|key| owners.get(key.as_str()));
            if let Some((owner, row)) = owner.and_then(|owner| present.get_key_value(owner)) {
                check_repetition(memory, text(row, "spaceId")?, text(row, "trigger")?)?;
                known.insert(memory.id, *owner);
            }
        }
        Ok(known)
    }

    /// Whom the idempotency keys of these memories belong to.
    pub(crate) async fn owners(&self, memories: &[&Memory]) -> Result<HashMap<String, MemoryId>> {
        let keys = memories.iter().filter_map(|memory| memory.idempotency_key.as_ref()).map(IdempotencyKey::as_str);
        let keys: Vec<_> = keys.collect();
        let mut owners = HashMap::new();
        if keys.is_empty() {
            return Ok(owners);
        }
        let find = self.on.primary.keys.find(doc! { "_id": { "$in": keys } }).read_concern(ReadConcern::majority());
        let mut rows = find.await.map_err(native)?;
        while rows.advance().await.map_err(native)? {
            let row = rows.current();
            owners.insert(text(row, "_id")?.to_owned(), statements::binary_id(row, "memory")?);
        }
        Ok(owners)
    }

    fn rows(&self, memories: &[&Memory]) -> Vec<RawDocumentBuf> {
        let has_words = self.has_ledger_text();
        memories.iter().map(|memory| memory_row(memory, has_words)).collect()
    }

    /// Whether a refusal tells that the words of the ledger are indexed, which was not known before the rows were made.
    pub(crate) fn learns_of_ledger_text(&self, was_known: bool, codes: impl IntoIterator<Item = i32>) -> bool {
        let learns = !was_known && codes.into_iter().any(|code| code == NOT_VALID);
        if learns {
            self.on.has_ledger_text.store(true, Ordering::Relaxed);
        }
        learns
    }
}
