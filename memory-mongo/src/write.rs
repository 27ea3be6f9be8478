//! What a session writes: one atomic step each.

use std::collections::HashMap;
use std::time::Duration;

use memory_core::engine::{Append, Appended, Atomicity, Found, Put, Removal, VersionEntry, Writer};
use memory_core::{Collection, Document, Error, Memory, MemoryId, Outcome, Result};
use mongodb::ClientSession;
use mongodb::bson::{self, RawDocument, RawDocumentBuf, doc};

use crate::connection::{MongoSession, Rows};
use crate::error::{DUPLICATE_KEY, check, code, native, native_write, of_code, refusals};
use crate::read::{all, each};
use crate::row::{document_row, key_row, memory_id, memory_row, next_row, text, uuid};
use crate::statements::{changes, document_key, removed, same_memory, same_version};

/// How many documents, and about how many bytes of them, one command changes or removes: a command has at most 16 MiB.
const AT_ONCE: (usize, usize) = (1_000, 8 << 20);
/// How long to wait for a majority to have what stands in the way.
const PAUSE: Duration = Duration::from_millis(2);

impl Writer for MongoSession {
    async fn append(&mut self, append: Append<'_>) -> Result<Vec<Appended>> {
        // One that has no key needs no transaction for itself.
        let is_alone = |memory: &&Memory| append.atomicity == Atomicity::Each && memory.idempotency_key.is_none();
        let alone: Vec<_> = append.memories.iter().copied().filter(is_alone).collect();
        if alone.len() == append.memories.len() {
            return self.append_alone(&alone).await;
        }
        match self.append_together(append).await {
            // Perhaps because of one with a key: those are tried again alone.
            Err(error) if error.outcome() == Outcome::NotDone && !alone.is_empty() => {
                let mut appended = self.append_alone(&alone).await?.into_iter();
                let next = |memory: &&Memory| if is_alone(memory) { appended.next() } else { None };
                Ok(append.memories.iter().map(next).map(|next| next.unwrap_or(Appended::NotWritten)).collect())
            }
            appended => appended,
        }
    }

    async fn replace(&mut self, before: &Found<Memory, ()>, after: &Memory, _: Option<&VersionEntry>) -> Result<bool> {
        let before = &before.record;
        self.update(&self.on.primary.memories, same_memory(before), changes(before, after)).await
    }

    async fn put(&mut self, puts: &[Put<'_, ()>]) -> Result<bool> {
        if let [put] = puts {
            return self.put_one(put).await;
        }
        let mut transaction = self.begin().await?;
        let is_done = self.put_each(puts, &mut transaction).await;
        self.end(transaction, is_done).await
    }

    async fn put_new(&mut self, puts: &[Put<'_, ()>]) -> Result<Vec<bool>> {
        let rows = puts.iter().map(|put| document_row(put.after)).collect();
        let refused = insert_each(&self.on.primary.documents, rows).await?;
        if let Some(code) = refused.values().find(|code| **code != DUPLICATE_KEY) {
            let is_none_put = refused.len() == puts.len();
            return Err(of_code(*code).with_outcome(if is_none_put { Outcome::NotDone } else { Outcome::Unknown }));
        }
        Ok((0..puts.len()).map(|place| !refused.contains_key(&place)).collect())
    }

    async fn remove(&mut self, _: &Collection, removals: &[Removal<'_, ()>]) -> Result<bool> {
        let mut transaction = self.begin().await?;
        let is_done = self.remove_each(removals, &mut transaction).await;
        self.end(transaction, is_done).await
    }
}

impl MongoSession {
    async fn put_one(&self, Put { before, after, .. }: &Put<'_, ()>) -> Result<bool> {
        let documents = &self.on.primary.documents;
        match before {
            Some(before) => {
                let row = next_row(&before.record, after);
                let row = bson::Document::try_from(row).map_err(|error| native(error.into()))?;
                self.update(documents, same_version(&before.record), row).await
            }
            None => match documents.insert_one(document_row(after)).await.map_err(native_write) {
                Err(error) if code(&error) == Some(DUPLICATE_KEY) => Ok(false),
                is_put => is_put.map(|_| true),
            },
        }
    }

    /// Puts documents in a transaction: those that are new, and then those that are changed. `false` when one is not what was read.
    async fn put_each(&self, puts: &[Put<'_, ()>], transaction: &mut ClientSession) -> Result<bool> {
        let documents = &self.on.primary.documents;
        let new: Vec<_> = puts.iter().filter(|put| put.before.is_none()).map(|put| document_row(put.after)).collect();
        if !new.is_empty() {
            match documents.insert_many(new).session(&mut *transaction).await.map_err(native) {
                Err(error) if code(&error) == Some(DUPLICATE_KEY) => return Ok(false),
                inserted => inserted?,
            };
        }
        let changed = puts.iter().filter_map(|put| Some((&put.before?.record, put.after)));
        let (changed, mut start) = (changed.collect::<Vec<_>>(), 0);
        while let rest @ [_, ..] = &changed[start..] {
            let some = &rest[..at_once(rest.iter().map(|(_, after)| after.size()))];
            let update = |(before, after): &(&Document, &Document)| {
                let row = bson::Document::try_from(next_row(before, after)).map_err(|error| native(error.into()))?;
                Ok::<_, Error>(doc! { "q": same_version(before), "u": row })
            };
            let updates: Vec<_> = some.iter().map(update).collect::<Result<_>>()?;
            let command = doc! { "update": documents.name(), "updates": updates };
            if self.change_in(command, transaction).await? != some.len() {
                return Ok(false);
            }
            start += some.len();
        }
        Ok(true)
    }

    /// Removes documents in a transaction. `false` when one is not what was read.
    async fn remove_each(&self, removals: &[Removal<'_, ()>], transaction: &mut ClientSession) -> Result<bool> {
        let documents = self.on.primary.documents.name();
        let mut rest = removals;
        while !rest.is_empty() {
            let (some, others) = rest.split_at(at_once(rest.iter().map(|removal| removal.found.record.size())));
            let updates: Vec<_> = some.iter().map(|removal| removed(&removal.found.record)).collect();
            let delete = |Document { collection, id, .. }: &Document| doc! { "q": { "_id": document_key(collection, id) }, "limit": 1 };
            let deletes: Vec<_> = some.iter().map(|removal| delete(&removal.found.record)).collect();
            for command in
                [doc! { "update": documents, "updates": updates }, doc! { "delete": documents, "deletes": deletes }]
            {
                if self.change_in(command, transaction).await? != some.len() {
                    return Ok(false);
                }
            }
            rest = others;
        }
        Ok(true)
    }

    /// Runs a command in a transaction, and tells how many rows it has met.
    async fn change_in(&self, mut command: bson::Document, transaction: &mut ClientSession) -> Result<usize> {
        command.insert("maxTimeMS", self.left()?.as_millis() as i64);
        let answer = self.on.database.run_command(command).session(transaction).await.map_err(native)?;
        check(&answer)?;
        Ok(answer.get_i32("n").ok().and_then(|count| usize::try_from(count).ok()).unwrap_or_default())
    }

    /// Updates the row that this finds. `false` when there is none.
    async fn update(&self, on: &Rows, found: bson::Document, update: bson::Document) -> Result<bool> {
        self.change(doc! { "update": on.name(), "updates": [{ "q": found, "u": update }] }).await
    }

    /// Runs a command that changes one row. `false` when that is not there.
    ///
    /// The server ends it in the time of the call, also while a transaction is in its way. The driver's own methods can't say that; an
    /// insert uses them all the same, since it may be larger than a command. It waits for a majority as long as the client's write concern
    /// says: one deadline.
    async fn change(&self, mut command: bson::Document) -> Result<bool> {
        let left = self.left()?.as_millis() as i64;
        let concern = doc! { "w": "majority", "j": true, "wtimeout": left };
        command.extend(doc! { "writeConcern": concern, "maxTimeMS": left });
        let answer = self.on.database.run_command(command).await.map_err(native_write)?;
        check(&answer)?;
        Ok(answer.get_i32("n").is_ok_and(|count| count == 1))
    }

    /// Appends memories in one transaction: all, or where each counts by itself, all but those that are taken.
    async fn append_together(&self, append: Append<'_>) -> Result<Vec<Appended>> {
        let (mut rest, mut owners) = (append.memories.to_vec(), HashMap::new());
        while !rest.is_empty() {
            match self.insert_all(&rest).await {
                Ok(()) => break,
                Err(error) if code(&error) == Some(DUPLICATE_KEY) => {
                    let found = self.owners(&rest, append.is_repeated).await?;
                    if found.is_empty() {
                        self.pause(PAUSE).await?;
                    } else if append.atomicity == Atomicity::All {
                        return Ok(append.outcomes(&found));
                    }
                    rest.retain(|memory| !found.contains_key(&memory.id));
                    owners.extend(found);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(append.outcomes(&owners))
    }

    /// Appends memories without keys, each by itself. One that the server refuses for itself is not written.
    async fn append_alone(&self, memories: &[&Memory]) -> Result<Vec<Appended>> {
        let rows = memories.iter().map(|memory| memory_row(memory)).collect();
        let refused = insert_each(&self.on.primary.memories, rows).await?;
        let appended = memories.iter().enumerate().map(|(place, memory)| match refused.get(&place) {
            None => Appended::Written,
            Some(&DUPLICATE_KEY) => Appended::Taken(memory.id),
            Some(_) => Appended::NotWritten,
        });
        let appended: Vec<_> = appended.collect();
        if appended.iter().all(|appended| *appended == Appended::NotWritten)
            && let Some(code) = refused.values().next()
        {
            return Err(of_code(*code));
        }
        Ok(appended)
    }

    /// Writes memories, all or none; a duplicate of one is an error.
    async fn insert_all(&self, memories: &[&Memory]) -> Result<()> {
        if let [memory] = memories
            && memory.idempotency_key.is_none()
        {
            return self.on.primary.memories.insert_one(memory_row(memory)).await.map(drop).map_err(native_write);
        }
        let keys = memories.iter().filter_map(|memory| Some(key_row(memory.idempotency_key.as_ref()?, memory.id)));
        let keys: Vec<_> = keys.collect();
        let rows = memories.iter().map(|memory| memory_row(memory));
        let mut transaction = self.begin().await?;
        let write = async {
            if !keys.is_empty() {
                self.on.primary.keys.insert_many(keys).session(&mut transaction).await?;
            }
            self.on.primary.memories.insert_many(rows).session(&mut transaction).await
        };
        let is_done = write.await.map(|_| true).map_err(native);
        self.end(transaction, is_done).await.map(drop)
    }

    /// Which memories have the ids of these or, where nobody has, their keys: those that a majority has.
    async fn owners(&self, memories: &[&Memory], is_repeated: bool) -> Result<HashMap<MemoryId, MemoryId>> {
        let keyed = memories.iter().filter_map(|memory| Some((memory.idempotency_key.as_ref()?.as_str(), memory.id)));
        let keyed: HashMap<_, _> = keyed.collect();
        let keys = keyed.keys().map(|key| (*key).into()).collect();
        let owner = |row: &RawDocument| Ok((keyed.get(text(row, "_id")?).copied(), memory_id(row, "memory")?));
        let owners = each(self, &self.on.latest.keys, keys, owner).await?.into_iter();
        let mut owners: HashMap<_, _> = owners.filter_map(|(id, owner)| Some((id?, owner))).collect();
        // A new id is in nobody's way.
        let ids = memories.iter().filter(|memory| is_repeated || memory.idempotency_key.is_none());
        let ids: Vec<_> = ids.map(|memory| uuid(memory.id.as_bytes())).collect();
        if !ids.is_empty() {
            let find = self.on.latest.memories.find(doc! { "_id": { "$in": ids } }).projection(doc! { "_id": 1 });
            owners.extend(all(self, find, |row| memory_id(row, "_id").map(|id| (id, id))).await?);
        }
        Ok(owners)
    }
}

/// Inserts each row by itself, and tells which the server refused, by their place.
async fn insert_each(on: &Rows, rows: Vec<RawDocumentBuf>) -> Result<HashMap<usize, i32>> {
    on.insert_many(rows).ordered(false).await.map_or_else(refusals, |_| Ok(HashMap::new()))
}

/// How many of the first documents, which have these sizes, go in one command; at least one.
fn at_once(sizes: impl Iterator<Item = usize>) -> usize {
    let mut bytes = 0;
    let fits = |size: &usize| {
        bytes += size;
        bytes <= AT_ONCE.1
    };
    sizes.take(AT_ONCE.0).take_while(fits).count().max(1)
}
