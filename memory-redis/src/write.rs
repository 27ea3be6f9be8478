//! The writing part of a session. Each step is one script that names all of its keys: while the slot moves, the server
//! refuses it as a whole if one of its keys is on another node or missing, so that nothing is ever half done, and it is
//! resent.

use std::collections::{HashMap, HashSet};

use memory_core::engine::{Append, Appended, Atomicity, Embed, Erasing, Found, Put, Removal, VersionEntry, Writer};
use memory_core::{
    Collection, Document, Documents, Error, IdempotencyKey, Ledger, Memory, MemoryId, Outcome, RecordId, Result,
    Tombstone,
};
use redis::Pipeline;

use crate::connection::{DONE, RedisSession};
use crate::feed::Stamps;
use crate::history;
use crate::rows::{self, Version};
use crate::statements::{
    COLLECTIONS, Call, IDEMPOTENCY, Kept, Keys, Lua, MOST_KEYS, OPEN, RowChange, TOMBSTONES, decoded, open_entry,
    step_of,
};
use crate::tombstone::hash_name;

impl Writer for RedisSession {
    async fn append(&mut self, append: Append<'_>) -> Result<Vec<Appended>> {
        let (on, memories) = (&self.on, append.memories);
        // Certainly new memories can't be blocked, so they share a script even if each is a step of its own.
        let is_new = |memory: &Memory| !append.is_repeated && memory.idempotency_key.is_none();
        let (shared, alone): (Vec<_>, Vec<_>) =
            memories.iter().partition(|memory| append.atomicity == Atomicity::All || is_new(memory));
        let groups = shared.chunks(shared.len().max(1)).chain(alone.chunks(1));
        let mut scripts = Pipeline::with_capacity(1 + alone.len());
        for group in groups {
            scripts.add_command(appending(&on.keys, group, &append).into_cmd());
        }
        // The memories that a script did not append because their id or key is taken, with the owner; an empty owner
        // means that it was erased.
        let (mut owners, mut erased) = (HashMap::new(), HashSet::new());
        for answer in self.write(scripts).await? {
            let bad = || Error::corrupt("a stored id is not a UUID").with_outcome(Outcome::Unknown);
            let taken: Vec<([u8; 16], Vec<u8>)> = decoded(answer).map_err(|_| bad())?;
            for (id, owner) in taken {
                let id = MemoryId::from_bytes(id);
                if owner.is_empty() {
                    erased.insert(id);
                } else {
                    owners.insert(id, MemoryId::from_bytes(owner.try_into().map_err(|_| bad())?));
                }
            }
        }
        on.grown.notify_waiters();
        let outcomes = append.outcomes(&owners, &erased);
        // A script that is sent again finds what it has written.
        let is_written = |(memory, appended): (&&Memory, &Appended)| {
            matches!(appended, Appended::Written) || *appended == Appended::Taken(memory.id)
        };
        if memories.iter().zip(&outcomes).any(is_written) {
            self.wrote();
        }
        Ok(outcomes)
    }

    async fn replace(
        &mut self,
        before: &Found<Memory, Version>,
        after: &Memory,
        entry: Option<&VersionEntry>,
    ) -> Result<bool> {
        let (on, step) = (&self.on, step_of::<Ledger>(after));
        let Version { head, stored_at } = &before.version;
        let change = RowChange {
            row: on.keys.row(None, after.id.as_bytes()),
            head,
            new: rows::from_memory(after, *stored_at),
            entry: Stamps::new().of_memory(after),
            kept: entry.map(|entry| history::kept(&on.keys, &after.id.into(), entry)),
            guarded: None,
            vector: (!after.has_texts_of(&before.record)).then(|| on.keys.vector(&after.id.into())),
        };
        let mut call = Call::change(&on.keys, vec![change], None);
        let (old, new) = (before.record.status, after.status);
        if old.is_open() && old != new {
            call.remove(on.keys.of(OPEN), open_entry(old, &step));
        }
        if new.is_open() && old != new {
            call.add(on.keys.of(OPEN), open_entry(new, &step));
        }
        call.schedule(&after.id.into(), before.record.expires_at, after.expires_at);
        Ok(self.run(call).await? == DONE)
    }

    async fn put(&mut self, puts: &[Put<'_, Version>]) -> Result<bool> {
        let keys = &self.on.keys;
        let (mut changes, mut stamps) = (Vec::with_capacity(puts.len()), Stamps::new());
        for Put { before, after, entry, is_guarded } in puts {
            let of = RecordId::from(*after);
            changes.push(RowChange {
                row: keys.row_of(&of),
                head: before.map_or(&[][..], |before| &before.version.head),
                new: rows::from_document(after),
                entry: stamps.of_put(before.map(|before| &before.record), after),
                kept: entry.as_ref().map(|entry| history::kept(keys, &of, entry)),
                guarded: is_guarded.then_some(*after),
                // Also if nothing was read, for example because the server has dropped the row.
                vector: (!before.is_some_and(|before| after.has_texts_of(&before.record))).then(|| keys.vector(&of)),
            });
        }
        let mut call = Call::change(keys, changes, None);
        for Put { before, after, .. } in puts {
            // A document that is put again keeps its createdAt, and so its step.
            let (collection, step) = (&after.collection, step_of::<Documents>(after));
            if let Some(before) = before.filter(|before| before.record.space_id != after.space_id) {
                call.displace_document(collection, &step, &before.record.space_id);
            }
            call.place_document(collection, &step, &after.space_id);
            call.list_document(collection, step);
            call.schedule(&(*after).into(), before.and_then(|before| before.record.expires_at), after.expires_at);
        }
        Ok(self.run(call).await? == DONE)
    }

    async fn remove(&mut self, collection: &Collection, removals: &[Removal<'_, Version>]) -> Result<bool> {
        let (keys, mut late) = (&self.on.keys, Vec::new());
        let row = |document: &Document| keys.row(Some(collection), document.id.as_str());
        let mut call = Call::new(Lua::Remove, keys)
            .key(keys.collection(collection))
            .key(keys.of(COLLECTIONS))
            .arg(collection.as_str())
            .arg(removals.len().to_string());
        let clear = |call: &mut Call<'_>, document: &Document| {
            call.displace_document(collection, &step_of::<Documents>(document), &document.space_id);
        };
        for Found { record, version } in removals.iter().map(|removal| removal.found) {
            call = call.key(row(record)).arg(version.head);
            call.remove(keys.collection(collection), step_of::<Documents>(record));
            call.schedule(&record.into(), record.expires_at, None);
            match call.is_full() {
                true => late.push(record),
                false => clear(&mut call, record),
            }
        }
        let mut stamps = Stamps::new();
        for Removal { found: Found { record, .. }, end } in removals {
            let of = RecordId::from(record);
            let kept = end.as_ref().map(|end| history::kept(keys, &of, end));
            // Without an entry no history is touched, so any key of the script will do.
            let kept = kept.unwrap_or_else(|| Kept { history: row(record), entry: Vec::new() });
            call = call.key(kept.history).arg(stamps.of_removal(record)).arg(kept.entry);
        }
        for Removal { found: Found { record, .. }, .. } in removals {
            call = call.key(keys.vector(&record.into()));
        }
        if self.run(call).await? != DONE {
            return Ok(false);
        }
        // Entries without a row count as none, so those that don't fit in the script are removed afterwards, unless a
        // document was put there again.
        let mut late = late.into_iter().peekable();
        while late.peek().is_some() {
            let (mut scripts, mut size) = (Pipeline::new(), 0);
            while size <= MOST_KEYS
                && let Some(document) = late.next()
            {
                let mut call = Call::change(keys, vec![RowChange::none(row(document), &[])], None);
                clear(&mut call, document);
                size += call.size();
                scripts.add_command(call.into_cmd());
            }
            self.on.write(scripts, self.until).await.map_err(|error| error.with_outcome(Outcome::Unknown))?;
        }
        Ok(true)
    }

    async fn erase(&mut self, erasings: &[Erasing<'_, Version>]) -> Result<bool> {
        self.erase_all(erasings).await
    }

    async fn forget(&mut self, tombstones: &[Tombstone]) -> Result<()> {
        self.forget_all(tombstones).await
    }

    async fn embed(&mut self, embeds: &[Embed<'_, Version>]) -> Result<Vec<bool>> {
        self.embed_each(embeds).await
    }
}

/// Makes the call that appends these memories: all, or none if an id or idempotency key is taken or erased.
fn appending<'k>(keys: &'k Keys, memories: &[&Memory], of: &Append<'_>) -> Call<'k> {
    let mut call = Call::new(Lua::Append, keys).key(keys.of(IDEMPOTENCY)).key(keys.of(TOMBSTONES));
    call = call.arg(memories.len().to_string());
    let (mut stamps, mut vectors) = (Stamps::new(), Vec::new());
    for memory in memories {
        let idempotency_key = memory.idempotency_key.as_ref().map_or("", IdempotencyKey::as_str);
        call = call.key(keys.row(None, memory.id.as_bytes()));
        call = call.arg(*memory.id.as_bytes()).arg(idempotency_key).arg(rows::from_memory(memory, of.at));
        call = call.arg(stamps.of_memory(memory)).arg(of.hash(memory).map(hash_name).unwrap_or_default());
        let step = step_of::<Ledger>(memory);
        call.place(&step, &memory.space_id, Some(memory.status));
        call.list(step);
        call.schedule(&memory.id.into(), None, memory.expires_at);
        // A memory whose row the server has lost may have left its vector. A new id has none.
        vectors.extend(of.is_repeated.then(|| keys.vector(&memory.id.into())));
    }
    call = call.arg(vectors.len().to_string());
    for vector in vectors {
        call = call.key(vector);
    }
    call
}
