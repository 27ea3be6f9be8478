//! What a session writes. Each step is one script that names all of its keys: while the slot moves, the server
//! refuses it as a whole where one of its keys is elsewhere or nowhere, so that nothing is ever half done, and it is sent again.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use memory_core::engine::{Append, Appended, Atomicity, Found, Writer};
use memory_core::{Collection, Document, Memory, MemoryId, Outcome, Result, TextIndex};
use redis::{Cmd, Pipeline, Value};

use crate::connection::decoded;
use crate::read::RedisSession;
use crate::rows::{self, Version};
use crate::statements::{
    COLLECTIONS, Call, INDEXED, Keys, Lua, MEMORIES, OPEN, WORD, open_entry, step_of_document, step_of_memory,
    words_of, words_of_document,
};

impl Writer for RedisSession {
    async fn append(&mut self, append: Append<'_>) -> Result<Vec<Appended>> {
        let (on, memories) = (&self.on, append.memories);
        let is_new = |memory: &&Memory| !append.is_repeated && memory.idempotency_key.is_none();
        let (new, others): (Vec<_>, Vec<_>) = match append.atomicity {
            Atomicity::All => (memories.to_vec(), Vec::new()),
            // Nothing is in the way of those that are certainly new, so they can share a script.
            Atomicity::Each => memories.iter().copied().partition(is_new),
        };
        let groups = std::iter::once(new.as_slice()).chain(others.chunks(1)).filter(|group| !group.is_empty());
        let mut scripts = Pipeline::with_capacity(1 + others.len());
        for group in groups {
            let call = Call::append(&on.keys, group, on.config.text_index == TextIndex::All);
            scripts.add_command(call.into_cmd());
        }
        let mut owners = HashMap::new();
        for answer in on.write(scripts, self.until).await? {
            // The script may have written.
            owners.extend(taken(answer).map_err(|error| error.with_outcome(Outcome::Unknown))?);
        }
        Ok(append.outcomes(&owners))
    }

    async fn replace(&mut self, before: &Found<Memory, Version>, after: &Memory) -> Result<bool> {
        let (on, step) = (&self.on, step_of_memory(after));
        let is_same_text = after.context == before.record.context;
        let mut is_indexed = on.has_ledger_text.load(Ordering::Relaxed);
        loop {
            let call = Call::new(Lua::Change, &on.keys)
                .key(on.keys.with(MEMORIES, after.id.as_bytes()))
                .arg(before.version)
                .arg(rows::from_memory(after));
            let expected = if is_same_text { Vec::new() } else { step.clone() };
            let mut call = call.expect(on.keys.of(INDEXED), expected, is_indexed);
            let (old, new) = (before.record.status, after.status);
            if old.is_open() && old != new {
                call.remove(on.keys.of(OPEN), open_entry(old, &step));
            }
            if new.is_open() && old != new {
                call.add(on.keys.of(OPEN), open_entry(new, &step));
            }
            if !is_same_text && is_indexed {
                let (old, new) = (words_of(&before.record), words_of(after));
                old.difference(&new).for_each(|word| call.remove(on.keys.with(WORD, word), step.clone()));
                new.difference(&old).for_each(|word| call.add(on.keys.with(WORD, word), step.clone()));
            }
            match on.write(call.into_pipeline(), self.until).await?.first() {
                Some(Value::Int(2)) => is_indexed = !is_indexed,
                answer => return Ok(is_done(answer)),
            }
            on.has_ledger_text.fetch_or(is_indexed, Ordering::Relaxed);
        }
    }

    async fn put(&mut self, before: Option<&Found<Document, Version>>, after: &Document) -> Result<bool> {
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.add_command(put(&self.on.keys, before, after));
        Ok(is_done(self.on.write(pipeline, self.until).await?.first()))
    }

    async fn remove(&mut self, collection: &Collection, found: &[Found<Document, Version>]) -> Result<bool> {
        let keys = &self.on.keys;
        let mut call = Call::new(Lua::Remove, keys)
            .key(keys.collection(collection))
            .key(keys.of(COLLECTIONS))
            .arg(collection.as_str())
            .arg(found.len().to_string());
        for Found { record, version } in found {
            call = call.key(row_of(keys, record)).arg(*version);
            let step = step_of_document(record);
            for word in words_of_document(record) {
                call.remove(keys.document_word(collection, &word), step.clone());
            }
            call.remove(keys.collection(collection), step);
        }
        Ok(is_done(self.on.write(call.into_pipeline(), self.until).await?.first()))
    }
}

/// Puts a document in the place of what was read, or where there was none.
fn put(keys: &Keys, before: Option<&Found<Document, Version>>, after: &Document) -> Cmd {
    let (collection, step) = (&after.collection, step_of_document(after));
    let old = before.map(|before| words_of_document(&before.record)).unwrap_or_default();
    let new = words_of_document(after);
    let mut call = Call::new(Lua::Change, keys)
        .key(row_of(keys, after))
        .arg(before.map_or(&[][..], |before| &before.version))
        .arg(rows::from_document(after))
        .expect(keys.collection(collection), Vec::new(), false);
    // A document that is put again keeps its createdAt, and so its step.
    old.difference(&new).for_each(|word| call.remove(keys.document_word(collection, word), step.clone()));
    new.difference(&old).for_each(|word| call.add(keys.document_word(collection, word), step.clone()));
    call.add(keys.of(COLLECTIONS), collection.as_str().into());
    call.add(keys.collection(collection), step);
    call.into_cmd()
}

/// The key of a document's row.
fn row_of(keys: &Keys, document: &Document) -> Vec<u8> {
    [keys.documents(&document.collection).as_slice(), document.id.as_str().as_bytes()].concat()
}

fn is_done(answer: Option<&Value>) -> bool {
    answer == Some(&Value::Int(1))
}

/// Of memories that a script was to append, those that it did not because their id or key is taken, with who has it.
fn taken(answer: Value) -> Result<HashMap<MemoryId, MemoryId>> {
    let pairs: Vec<(Vec<u8>, Vec<u8>)> = decoded(answer)?;
    pairs.into_iter().map(|(id, owner)| Ok((rows::memory_id(&id)?, rows::memory_id(&owner)?))).collect()
}
