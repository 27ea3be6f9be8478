//! What the calls on the ledger do.

use std::collections::{BTreeSet, HashMap};
use std::mem;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use memory_core::{
    Error, Group, IdempotencyKey, Memory, MemoryId, MemoryPatch, Outcome, RestoreReport, Result, StoreTogether,
    TextIndex, Timestamp, Updated, check_repetition,
};
use redis::{Pipeline, Value};

use crate::connection::{Connections, command, unexpected_answer};
use crate::rows;
use crate::statements::{Append, Call, is_full, score, words_of};

/// How many memories, and about how many bytes, travel together: the server does nothing else meanwhile.
pub(crate) const GROUP: (usize, usize) = (256, 1 << 20);
/// How many memories, and about how many bytes, are restored by what is sent at once.
const RESTORED: (usize, usize) = (500, 4 << 20);
/// How many rows are taken into the index of words at once.
const INDEXED: usize = 64;

#[async_trait]
impl StoreTogether for Connections {
    fn group(&self) -> &Group {
        &self.group
    }

    async fn store_alone(&self, memory: Arc<Memory>, mut earlier: Outcome) -> Result<MemoryId> {
        let append = Append::new(&self.keys, &[&memory], self.text_index == TextIndex::All);
        if memory.idempotency_key.is_none() && earlier == Outcome::NotDone {
            match self.write_below(append.transaction(&self.keys), &append.paths).await {
                // From here on the row may be there, and may have been changed since.
                Err(error) if self.is_passing(&error) => earlier = error.outcome(),
                result => return result.map(|_| memory.id),
            }
        }
        // Under its own id a memory is stored once, however often that is tried (W11).
        let known = self.retry_repeatable(|| self.append(&append)).await.map_err(|error| error.after(earlier))?;
        first_of(&known, 0, &memory)
    }

    async fn store_group(&self, memories: Vec<Arc<Memory>>) -> Result<Vec<Result<MemoryId, Outcome>>> {
        let all: Vec<_> = memories.iter().map(Arc::as_ref).collect();
        let append = Append::new(&self.keys, &all, self.text_index == TextIndex::All);
        self.write_below(append.transaction(&self.keys), &append.paths).await?;
        Ok(memories.iter().map(|memory| Ok(memory.id)).collect())
    }
}

impl Connections {
    pub(crate) async fn store(self: &Arc<Self>, memory: Memory) -> Result<MemoryId> {
        let id = match memory.idempotency_key {
            None => Group::store(self, memory).await?,
            // Whether it repeats another one is read first, by a script of its own.
            Some(_) => self.store_alone(Arc::new(memory), Outcome::NotDone).await?,
        };
        self.seal().await;
        Ok(id)
    }

    /// All or none; repetitions within the batch and of what is there get the first id (W3).
    pub(crate) async fn store_many(&self, memories: &[Memory]) -> Result<Vec<MemoryId>> {
        let mut firsts = HashMap::<&IdempotencyKey, MemoryId>::new();
        let mut ids: Vec<_> = memories.iter().map(|memory| memory.id).collect();
        let mut fresh = Vec::with_capacity(memories.len());
        for (place, memory) in memories.iter().enumerate() {
            let first =
                memory.idempotency_key.as_ref().map_or(memory.id, |key| *firsts.entry(key).or_insert(memory.id));
            if first == memory.id {
                fresh.push(place);
            } else {
                ids[place] = first;
            }
        }
        let mut known = HashMap::new();
        while !fresh.is_empty() {
            let batch: Vec<_> = fresh.iter().map(|place| &memories[*place]).collect();
            let append = Append::new(&self.keys, &batch, self.text_index == TextIndex::All);
            let present = self.retry_repeatable(|| self.append(&append)).await?;
            if present.is_empty() {
                break;
            }
            // Nothing was written: those that are there stay out, and the others are tried again.
            let mut rest = Vec::with_capacity(fresh.len());
            for (at, place) in fresh.into_iter().enumerate() {
                match present.contains_key(&at) {
                    true => drop(known.insert(memories[place].id, first_of(&present, at, &memories[place])?)),
                    false => rest.push(place),
                }
            }
            fresh = rest;
        }
        self.seal().await;
        Ok(ids.into_iter().map(|id| known.get(&id).copied().unwrap_or(id)).collect())
    }

    /// Each by itself (W12). Which are written, which are there, and which of these differ.
    pub(crate) async fn restore(&self, memories: &[Memory]) -> Result<RestoreReport> {
        let mut report = RestoreReport::default();
        let mut rest = memories;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |memory: &&Memory| {
                bytes += memory.size();
                bytes <= RESTORED.1
            };
            let count = rest.iter().take(RESTORED.0).take_while(fits).count().max(1);
            let (some, others) = rest.split_at(count);
            let start = memories.len() - rest.len();
            let send = || async {
                let (mut pipeline, mut paths) = (Pipeline::with_capacity(some.len()), BTreeSet::new());
                for memory in some {
                    let append = Append::new(&self.keys, &[memory], self.text_index == TextIndex::All);
                    pipeline.add_command(append.script(&self.keys, &self.scripts, self.waits()).into_cmd());
                    paths.extend(append.paths);
                }
                self.write_below(pipeline, &paths).await
            };
            for (at, answer) in self.retry_repeatable(send).await?.iter().enumerate() {
                match known_memories(answer)?.get(&0) {
                    None => report.written += 1,
                    // What is there and can't be read differs from what is given.
                    Some(known) => match known.read() {
                        Ok(present) if present == some[at] => report.equal += 1,
                        _ => report.conflicts.push(start + at),
                    },
                }
            }
            rest = others;
            self.seal().await;
        }
        Ok(report)
    }

    /// `None` when the memory was changed meanwhile.
    pub(crate) async fn update(&self, id: MemoryId, patch: &MemoryPatch, now: Timestamp) -> Result<Option<Updated>> {
        let key = self.keys.memory(id);
        let row = self.retry(|| async { self.read(&command("GET", &[&key])).await }).await?;
        let Some(Value::BulkString(row)) = row.first() else { return Err(Error::not_found()) };
        let memory = rows::memory(id, row)?;
        let Some(patched) = patch.apply(&memory, now)? else { return Ok(Some(Updated::from(&memory))) };
        loop {
            let (mut going, mut coming, mut words) = (Vec::new(), Vec::new(), String::new());
            if patched.context != memory.context {
                words = "-1".to_owned();
                if self.has_ledger_text.load(Ordering::Relaxed) {
                    let (before, after) = (words_of(&memory), words_of(&patched));
                    going =
                        before.iter().filter(|word| !after.contains(word)).map(|word| self.keys.word(word)).collect();
                    coming =
                        after.iter().filter(|word| !before.contains(word)).map(|word| self.keys.word(word)).collect();
                    words = going.len().to_string();
                }
            }
            let new = rows::from_memory(&patched);
            let status = |status| i64::from(patched.status == status);
            let call = Call::new(&self.scripts.update)
                .key(key.clone())
                .key(self.keys.open(memory_core::Status::Pending))
                .key(self.keys.open(memory_core::Status::Running))
                .key(self.keys.indexed())
                .keys(going)
                .keys(coming)
                .arg(rows::head(row))
                .arg(rows::head(&new))
                .arg(new.as_slice())
                .arg(score(memory.created_at))
                .arg(*id.as_bytes())
                .number(status(memory_core::Status::Pending))
                .number(status(memory_core::Status::Running))
                .arg(words)
                .into_pipeline();
            match self.retry(|| self.write(call.clone())).await?.first() {
                Some(Value::Int(1)) => return Ok(Some(Updated::from(&patched))),
                Some(Value::Int(2)) => self.has_ledger_text.store(true, Ordering::Relaxed),
                _ => return Ok(None),
            }
        }
    }

    pub(crate) async fn memory(&self, id: MemoryId) -> Result<Option<Memory>> {
        let answers = self.read(&command("GET", &[&self.keys.memory(id)])).await?;
        match answers.first() {
            Some(Value::BulkString(row)) => rows::memory(id, row).map(Some),
            _ => Ok(None),
        }
    }

    /// Takes the words of all memories into the index that were stored by providers that don't keep it.
    pub(crate) async fn index_words(&self) -> Result<()> {
        loop {
            let walk = Call::new(&self.scripts.walk).key(self.keys.unindexed()).arg(self.keys.memories());
            let walk = walk.number(0).number(INDEXED as i64).args([const { Vec::new() }; 4]);
            let walk = walk.arg("ids").arg("").into_pipeline();
            let answers = self.retry(|| self.read(&walk)).await?;
            let Some(Value::Array(found)) = answers.first() else { return Err(unexpected_answer()) };
            if found.len() == 1 {
                return Ok(());
            }
            let mut pipeline = Pipeline::new();
            for record in found[1..].chunks_exact(3) {
                let (Value::BulkString(id), Value::Int(created_at)) = (&record[0], &record[1]) else {
                    return Err(unexpected_answer());
                };
                let row = if let Value::BulkString(row) = &record[2] { row.as_slice() } else { &[] };
                let memory = rows::memory_id(id).and_then(|id| rows::memory(id, row));
                // A row that can't be read has no words.
                let words = memory.map(|memory| words_of(&memory)).unwrap_or_default();
                let call = Call::new(&self.scripts.index)
                    .key([self.keys.memories().as_slice(), id].concat())
                    .key(self.keys.unindexed())
                    .key(self.keys.indexed())
                    .keys(words.iter().map(|word| self.keys.word(word)))
                    .arg(rows::head(row))
                    .number(*created_at)
                    .arg(id.as_slice());
                pipeline.add_command(call.into_cmd());
            }
            self.retry_repeatable(|| self.write(pipeline.clone())).await?;
        }
    }

    /// Which of the memories are there already, by their places; nothing was written if some are.
    async fn append(&self, append: &Append<'_>) -> Result<HashMap<usize, Known>> {
        let script = append.script(&self.keys, &self.scripts, self.waits()).into_pipeline();
        let answers = self.write_below(script, &append.paths).await?;
        answers.first().map_or(Err(unexpected_answer()), known_memories)
    }

    /// Writes memories, and finds out which of these paths above them are full then.
    async fn write_below(&self, mut commands: Pipeline, paths: &BTreeSet<&str>) -> Result<Vec<Value>> {
        for path in paths {
            commands.cmd("ZCARD").arg(self.keys.path(path)).cmd("ZCARD").arg(self.keys.chunks(path));
        }
        let mut answers = self.write(commands).await?;
        let sizes = answers.split_off(answers.len().saturating_sub(2 * paths.len()));
        let is_full =
            |sizes: &[Value]| matches!(sizes, [Value::Int(steps), Value::Int(chunks)] if is_full(*steps, *chunks));
        let full = paths.iter().zip(sizes.chunks_exact(2)).filter(|(_, sizes)| is_full(sizes));
        let full = full.map(|(path, _)| (*path).to_owned());
        self.full.lock().unwrap_or_else(PoisonError::into_inner).extend(full);
        Ok(answers)
    }

    /// Moves what is old below full paths into chunks. Whoever comes first does it for all that were stored together.
    async fn seal(&self) {
        let full = mem::take(&mut *self.full.lock().unwrap_or_else(PoisonError::into_inner));
        if !full.is_empty() {
            let seal = Call::seal(&self.scripts, &self.keys, full.iter().map(String::as_str)).into_pipeline();
            // Recalls find everything where it is, and when this fails, a later store below the path tries again.
            while self.write_unawaited(&seal).await.is_ok_and(|answers| answers == [Value::Int(1)]) {}
        }
    }
}

/// A memory that is there already.
struct Known {
    id: MemoryId,
    row: Option<Vec<u8>>,
}

impl Known {
    fn read(&self) -> Result<Memory> {
        let gone = || Error::corrupt("the memory of an idempotency key is gone");
        rows::memory(self.id, self.row.as_deref().ok_or_else(gone)?)
    }
}

/// The id that a store answers with: that of the memory it repeats, or its own.
fn first_of(known: &HashMap<usize, Known>, place: usize, memory: &Memory) -> Result<MemoryId> {
    match known.get(&place) {
        // An earlier attempt has stored it.
        Some(known) if known.id == memory.id => Ok(memory.id),
        Some(known) => {
            let first = known.read()?;
            check_repetition(memory, first.space_id.as_str(), first.trigger.as_str()).map(|()| first.id)
        }
        None => Ok(memory.id),
    }
}

fn known_memories(answer: &Value) -> Result<HashMap<usize, Known>> {
    let Value::Array(items) = answer else { return Err(unexpected_answer()) };
    let mut known = HashMap::new();
    for item in items.chunks_exact(3) {
        let (Value::Int(place), Value::BulkString(id)) = (&item[0], &item[1]) else { return Err(unexpected_answer()) };
        let row = if let Value::BulkString(row) = &item[2] { Some(row.clone()) } else { None };
        // Places of a script begin with 1.
        known.insert(usize::try_from(place - 1).unwrap_or(usize::MAX), Known { id: rows::memory_id(id)?, row });
    }
    Ok(known)
}
