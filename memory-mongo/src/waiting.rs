//! Stores: those that wait travel together.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use memory_core::{Error, ErrorKind, IdempotencyKey, Memory, MemoryId, Outcome, Result, check_repetition};
use mongodb::bson::{RawDocumentBuf, doc};
use mongodb::options::ReadConcern;
use tokio::sync::{Semaphore, oneshot};

use crate::connection::{Call, Connections};
use crate::error::{DUPLICATE_KEY, NOT_VALID, code, native, native_write, of_code, refusals};
use crate::statements::{self, id_to_bson, key_row, memory_row, text};

/// How many groups are on their way at the same time: while one waits for the journal, the next is made.
const TURNS: usize = 2;
/// How many memories, and about how many bytes, travel together.
const GROUP: (usize, usize) = (1_000, 16 << 20);
/// How long to wait for a majority to have what stands in the way.
const PAUSE: Duration = Duration::from_millis(2);

/// Stores that nobody has sent yet.
#[derive(Debug)]
pub(crate) struct Waiting {
    stores: Mutex<Vec<Store>>,
    turns: Semaphore,
}

#[derive(Debug)]
struct Store {
    memory: Memory,
    /// The end of its call.
    end: Instant,
    answer: oneshot::Sender<Result<MemoryId>>,
}

impl Default for Waiting {
    fn default() -> Self {
        Self { stores: Mutex::default(), turns: Semaphore::new(TURNS) }
    }
}

impl Waiting {
    fn push(&self, store: Store) {
        self.stores.lock().unwrap_or_else(PoisonError::into_inner).push(store);
    }

    /// The first ones, as many as travel together.
    fn take(&self) -> Vec<Store> {
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = 0;
        let fits = |store: &&Store| {
            bytes += store.memory.size();
            bytes <= GROUP.1
        };
        let count = stores.iter().take(GROUP.0).take_while(fits).count().max(1).min(stores.len());
        stores.drain(..count).collect()
    }
}

impl Connections {
    async fn store_waiting(self: &Arc<Self>) {
        // Nobody closes the semaphore.
        let Ok(_turn) = self.waiting.turns.acquire().await else { return };
        let mut stores = self.waiting.take();
        // Whoever does not wait any more was told that nothing is known.
        stores.retain(|store| !store.answer.is_closed());
        // They are tried for as long as the last of them waits.
        let Some(end) = stores.iter().map(|store| store.end).max() else { return };
        let call = Call { on: Arc::clone(self), end };
        let (memories, answers): (Vec<_>, Vec<_>) =
            stores.into_iter().map(|store| (store.memory, store.answer)).unzip();
        let (keyed, keyless): (Vec<_>, Vec<_>) = memories.iter().partition(|memory| memory.idempotency_key.is_some());
        let (keyed, keyless) = futures::join!(call.store_keyed(&keyed), call.store_keyless(&keyless));
        let (mut keyed, mut keyless) = (keyed.into_iter(), keyless.into_iter());
        for (memory, answer) in memories.iter().zip(answers) {
            let results = if memory.idempotency_key.is_some() { &mut keyed } else { &mut keyless };
            if let Some(result) = results.next() {
                // Whoever waited may have given up.
                let _ = answer.send(result);
            }
        }
    }
}

impl Call {
    /// Stores a memory, together with those that wait at the same time.
    pub(crate) async fn store(&self, memory: Memory) -> Result<MemoryId> {
        let (answer, answered) = oneshot::channel();
        self.on.waiting.push(Store { memory, end: self.end, answer });
        let on = Arc::clone(&self.on);
        // There are as many of these as stores, so each is taken; who finds nothing left was served by an earlier one.
        self.on.running.spawn(async move { on.store_waiting().await });
        answered.await.unwrap_or_else(|_| Err(Error::new(ErrorKind::Unexpected, "a task of the provider ended early")))
    }

    async fn store_keyless(&self, memories: &[&Memory]) -> Vec<Result<MemoryId>> {
        // Under its own id a memory is stored once, however often that is tried (W11).
        match self.retry_repeatable(|| self.insert_each(memories)).await {
            Ok(mut refused) => {
                let stored = memories.iter().map(|memory| memory.id).enumerate();
                stored.map(|(place, id)| refused.remove(&place).map_or(Ok(id), |code| Err(of_code(code)))).collect()
            }
            Err(error) => vec![Err(error); memories.len()],
        }
    }

    /// In one transaction; each in one of its own when one of them is refused.
    async fn store_keyed(&self, memories: &[&Memory]) -> Vec<Result<MemoryId>> {
        let id_of = |memory: &Memory, known: HashMap<_, _>| known.get(&memory.id).copied().unwrap_or(memory.id);
        let keys: HashSet<_> = memories.iter().map(|memory| &memory.idempotency_key).collect();
        if keys.len() == memories.len() {
            match self.append(memories).await {
                Ok(known) => return memories.iter().map(|memory| Ok(id_of(memory, known.clone()))).collect(),
                Err(error) if memories.len() == 1 || error.kind() != ErrorKind::Conflict => {
                    return vec![Err(error); memories.len()];
                }
                Err(_) => {}
            }
        }
        let mut results = Vec::with_capacity(memories.len());
        for memory in memories {
            results.push(self.append(&[memory]).await.map(|known| id_of(memory, known)));
        }
        results
    }

    /// Writes memories without keys, each by itself. Tells which were refused, by their place; one that is there under its own
    /// id was written before.
    async fn insert_each(&self, memories: &[&Memory]) -> Result<HashMap<usize, i32>> {
        let was_known = self.has_ledger_text();
        let mut refused = self.try_insert_each(memories).await?;
        if self.learns_of_ledger_text(was_known, refused.values().copied()) {
            refused = self.try_insert_each(memories).await?;
        }
        refused.retain(|_, code| *code != DUPLICATE_KEY);
        Ok(refused)
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
        if memories.is_empty() {
            return Ok(HashMap::new());
        }
        let mut known = HashMap::new();
        loop {
            let was_known = self.has_ledger_text();
            let missing: Vec<_> = memories.iter().filter(|memory| !known.contains_key(&memory.id)).copied().collect();
            // Under its own id a memory is stored once, however often that is tried (W11).
            match self.retry_repeatable(|| self.insert_all(&missing)).await {
                Ok(()) => return Ok(known),
                Err(error) if self.learns_of_ledger_text(was_known, code(&error)) => {}
                Err(error) if code(&error) == Some(DUPLICATE_KEY) => {
                    // What is in the way may be an earlier attempt.
                    let found = self.retry(|| self.known(memories)).await;
                    known = found.map_err(|error| error.after(Outcome::Unknown))?;
                    if known.len() == memories.len() {
                        return Ok(known);
                    }
                    tokio::time::sleep(PAUSE).await;
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
