//! The writes of a session: one atomic step each.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use memory_core::engine::{Append, Appended, Atomicity, Embed, Erasing, Found, Put, Removal, VersionEntry, Writer};
use memory_core::{Collection, Document, Error, Memory, MemoryId, Outcome, RecordId, Result, Timestamp, Tombstone};
use mongodb::ClientSession;
use mongodb::bson::{self, RawDocument, RawDocumentBuf, doc};

use crate::connection::{MongoSession, Rows};
use crate::error::{DUPLICATE_KEY, check, code, native, native_write, of_code, refusals};
use crate::find::{all, each};
use crate::row::{
    ERASED, at_once, document_row, hash, is_erased, key_mark, key_of, key_row, mark_row, memory_id, memory_row,
    next_row, text, uuid,
};
use crate::statements::{document_key, removed, replaced, same_document};
use crate::{expiry, history, vectors};

/// The pause while what blocks a write is not majority-committed yet.
const PAUSE: Duration = Duration::from_millis(2);

impl Writer for MongoSession {
    async fn append(&mut self, append: Append<'_>) -> Result<Vec<Appended>> {
        // A memory without a key needs no transaction of its own.
        let is_alone = |memory: &&Memory| append.atomicity == Atomicity::Each && memory.idempotency_key.is_none();
        let alone: Vec<_> = append.memories.iter().copied().filter(is_alone).collect();
        if alone.len() == append.memories.len() {
            return self.append_alone(&alone, append.at).await;
        }
        match self.append_together(append).await {
            // Perhaps because of a memory with a key: those without one are tried again alone.
            Err(error) if error.outcome() == Outcome::NotDone && !alone.is_empty() => {
                let mut appended = self.append_alone(&alone, append.at).await?.into_iter();
                let next = |memory: &&Memory| if is_alone(memory) { appended.next() } else { None };
                Ok(append.memories.iter().map(next).map(|next| next.unwrap_or(Appended::NotWritten)).collect())
            }
            appended => appended,
        }
    }

    async fn replace(
        &mut self,
        before: &Found<Memory, i64>,
        after: &Memory,
        entry: Option<&VersionEntry>,
    ) -> Result<bool> {
        let before = &before.record;
        let updates = replaced(before, after);
        let place = i64::from(after.revision);
        let kept = entry.map(|entry| history::kept(&after.id.into(), place, entry)).transpose()?;
        let mut transaction = self.begin().await?;
        let write = async {
            let name = self.on.primary.memories.name();
            let is_unchanged = self.update_in(name, updates, &mut transaction).await? == 1;
            if is_unchanged {
                self.keep(kept.into_iter().collect(), &mut transaction).await?;
            }
            Ok::<_, Error>(is_unchanged)
        };
        let is_done = write.await;
        self.end(transaction, is_done).await
    }

    async fn put(&mut self, puts: &[Put<'_, i64>]) -> Result<bool> {
        self.put_together(&puts.iter().collect::<Vec<_>>()).await
    }

    async fn put_new(&mut self, puts: &[Put<'_, i64>]) -> Result<Vec<bool>> {
        let mut names = HashSet::new();
        // If several puts have the same id, the first one counts.
        let is_first = |place: &usize| names.insert((&puts[*place].after.collection, &puts[*place].after.id));
        let mut rest: Vec<_> = (0..puts.len()).filter(is_first).collect();
        let mut is_put = vec![false; puts.len()];
        while !rest.is_empty() {
            let some: Vec<_> = rest.iter().map(|place| &puts[*place]).collect();
            if self.put_together(&some).await? {
                rest.iter().for_each(|place| is_put[*place] = true);
                break;
            }
            let mut taken = self.taken(&some).await?;
            let kept_out = self.kept_out(&some).await?.into_iter();
            taken.extend(kept_out.map(|Document { collection, id, .. }| (collection.to_string(), id.to_string())));
            if taken.is_empty() {
                self.pause(PAUSE).await?;
            }
            rest.retain(|place| {
                let Document { collection, id, .. } = puts[*place].after;
                !taken.contains(&(collection.to_string(), id.to_string()))
            });
        }
        Ok(is_put)
    }

    async fn remove(&mut self, _: &Collection, removals: &[Removal<'_, i64>]) -> Result<bool> {
        let mut transaction = self.begin().await?;
        let is_done = self.remove_each(removals, &mut transaction).await;
        self.end(transaction, is_done).await
    }

    async fn erase(&mut self, erasings: &[Erasing<'_, i64>]) -> Result<bool> {
        let mut transaction = self.begin().await?;
        let is_done = self.erase_each(erasings, &mut transaction).await;
        self.end(transaction, is_done).await
    }

    async fn forget(&mut self, tombstones: &[Tombstone]) -> Result<()> {
        expiry::forget(self, tombstones).await
    }

    async fn embed(&mut self, embeds: &[Embed<'_, i64>]) -> Result<Vec<bool>> {
        vectors::embed(self, embeds).await
    }
}

/// What prevents memories from being appended, by their ids.
#[derive(Default)]
struct Taken {
    /// The memories that have their ids or their keys.
    owners: HashMap<MemoryId, MemoryId>,
    /// Those that were erased, or whose key was.
    erased: HashSet<MemoryId>,
}

/// A put that replaces a document, the place of its history entry, and the vector that stays.
struct Changed<'p> {
    put: &'p Put<'p, i64>,
    before: &'p Found<Document, i64>,
    of: &'p RecordId,
    place: i64,
    vector: Option<Vec<u8>>,
}

impl MongoSession {
    /// Puts documents, all or none. `false` if one has changed since it was read, or is kept out.
    async fn put_together(&self, puts: &[&Put<'_, i64>]) -> Result<bool> {
        let mut transaction = self.begin().await?;
        let is_done = self.put_each(puts, &mut transaction).await;
        self.end(transaction, is_done).await
    }

    /// Puts documents in a transaction: the new ones first, then the changed ones. `false` if one has changed since it
    /// was read, or a tombstone keeps one out.
    async fn put_each(&self, puts: &[&Put<'_, i64>], transaction: &mut ClientSession) -> Result<bool> {
        let named = puts.iter().map(|put| (RecordId::from(put.after), put.before.map_or(0, |before| before.version)));
        let named: Vec<_> = named.collect();
        let places = self.places(&named, puts.iter().any(|put| put.entry.is_some())).await?;
        if self.keeps_one_out(puts, transaction).await? {
            return Ok(false);
        }
        let (mut rows, mut entries, mut changed) = (Vec::new(), Vec::new(), Vec::new());
        for ((put, (of, _)), place) in puts.iter().copied().zip(&named).zip(places) {
            if let Some(before) = put.before {
                changed.push(Changed { put, before, of, place, vector: None });
            } else {
                rows.push(document_row(put.after, place));
                entries.extend(put.entry.as_ref().map(|entry| history::row(of, place, entry)));
            }
        }
        if !rows.is_empty() && !self.insert_new(rows, entries, transaction).await? {
            return Ok(false);
        }
        // A program that embeds one meanwhile conflicts with this transaction.
        let unchanged: Vec<_> = changed.iter().filter(|changed| changed.has_same_texts()).map(|same| same.of).collect();
        let mut vectors = vectors::vectors_in(self, &unchanged, transaction).await?;
        changed.iter_mut().for_each(|changed| changed.vector = vectors.remove(changed.of));
        let mut rest = changed.as_slice();
        while !rest.is_empty() {
            let (some, others) = rest.split_at(at_once(rest.iter().map(Changed::size)));
            let updates: Vec<_> = some.iter().map(Changed::update).collect::<Result<_>>()?;
            if self.update_in(self.on.primary.documents.name(), updates, transaction).await? != some.len() {
                return Ok(false);
            }
            let kept = some.iter().filter_map(Changed::kept).collect::<Result<_>>()?;
            self.keep(kept, transaction).await?;
            rest = others;
        }
        Ok(true)
    }

    /// Inserts documents and their entries in a transaction. `false` if a document exists, or was put and removed since
    /// the places of the entries were looked up.
    async fn insert_new(
        &self,
        rows: Vec<RawDocumentBuf>,
        entries: Vec<RawDocumentBuf>,
        transaction: &mut ClientSession,
    ) -> Result<bool> {
        let on = &self.on.primary;
        for (to, rows) in [(&on.documents, rows), (&on.history, entries)] {
            if rows.is_empty() {
                continue;
            }
            match to.insert_many(rows).session(&mut *transaction).await.map_err(native) {
                Err(error) if code(&error) == Some(DUPLICATE_KEY) => return Ok(false),
                inserted => drop(inserted?),
            }
        }
        Ok(true)
    }

    /// Which of these documents are majority-committed, as (collection, id).
    async fn taken(&self, puts: &[&Put<'_, i64>]) -> Result<HashSet<(String, String)>> {
        let keys = puts.iter().map(|put| document_key(&put.after.collection, &put.after.id));
        let keys: Vec<_> = keys.collect();
        let find = self.on.latest.documents.find(doc! { "_id": { "$in": keys } }).projection(doc! { "_id": 1 });
        let name = |row: &RawDocument| {
            let key = key_of(row)?;
            Ok((text(key, "collection")?.to_owned(), text(key, "id")?.to_owned()))
        };
        Ok(all(self, find, name).await?.into_iter().collect())
    }

    /// Removes documents in a transaction. `false` if one has changed since it was read.
    async fn remove_each(&self, removals: &[Removal<'_, i64>], transaction: &mut ClientSession) -> Result<bool> {
        let named = removals.iter().map(|removal| (RecordId::from(&removal.found.record), removal.found.version));
        let named: Vec<_> = named.collect();
        let has_history = removals.iter().any(|removal| removal.end.is_some());
        let places = self.places(&named, has_history).await?;
        let mut start = 0;
        while start < removals.len() {
            let rest = &removals[start..];
            let some = &rest[..at_once(rest.iter().map(|removal| removal.found.record.size()))];
            let update =
                |Removal { found, .. }: &Removal<'_, i64>| removed(found, found.record.space_id.as_str(), has_history);
            let updates = some.iter().map(update).collect();
            if !self.remove_rows(some.iter().map(|removal| &removal.found.record), updates, transaction).await? {
                return Ok(false);
            }
            let mut kept = Vec::new();
            for ((removal, (of, _)), place) in some.iter().zip(&named[start..]).zip(&places[start..]) {
                if let Some(end) = &removal.end {
                    kept.push(history::kept(of, *place, end)?);
                }
            }
            self.keep(kept, transaction).await?;
            start += some.len();
        }
        Ok(true)
    }

    /// Removes the rows of documents in a transaction, each after its update. `false` if one of the updates does not
    /// match its document.
    pub(crate) async fn remove_rows<'d>(
        &self,
        rows: impl Iterator<Item = &'d Document>,
        updates: Vec<bson::Document>,
        transaction: &mut ClientSession,
    ) -> Result<bool> {
        let delete = |Document { collection, id, .. }: &Document| doc! { "q": { "_id": document_key(collection, id) }, "limit": 1 };
        let deletes: Vec<_> = rows.map(delete).collect();
        let (name, count) = (self.on.primary.documents.name(), updates.len());
        Ok(self.update_in(name, updates, transaction).await? == count
            && self.change_in(doc! { "delete": name, "deletes": deletes }, transaction).await? == count)
    }

    /// The place of each document's next entry. The place of its newest one is given, or 0 if that is not known.
    async fn places(&self, documents: &[(RecordId, i64)], has_history: bool) -> Result<Vec<i64>> {
        match has_history {
            true => history::places(self, documents).await,
            false => Ok(documents.iter().map(|(_, newest)| newest.saturating_add(1)).collect()),
        }
    }

    /// Writes history entries in the transaction that makes the change.
    pub(crate) async fn keep(&self, entries: Vec<bson::Document>, transaction: &mut ClientSession) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        self.update_in(self.on.primary.history.name(), entries, transaction).await.map(drop)
    }

    /// Runs updates of a collection in a transaction, and returns how many rows matched.
    pub(crate) async fn update_in(
        &self,
        name: &str,
        updates: Vec<bson::Document>,
        transaction: &mut ClientSession,
    ) -> Result<usize> {
        self.change_in(doc! { "update": name, "updates": updates }, transaction).await
    }

    /// Runs a command in a transaction, and returns how many rows it affected.
    pub(crate) async fn change_in(
        &self,
        mut command: bson::Document,
        transaction: &mut ClientSession,
    ) -> Result<usize> {
        command.insert("maxTimeMS", self.left()?.as_millis() as i64);
        let answer = self.on.database.run_command(command).session(transaction).await.map_err(native)?;
        check(&answer)?;
        Ok(answer.get_i32("n").ok().and_then(|count| usize::try_from(count).ok()).unwrap_or_default())
    }

    /// Appends memories in one transaction: all of them, or, if each counts by itself, all but those that are taken.
    async fn append_together(&self, append: Append<'_>) -> Result<Vec<Appended>> {
        let (mut rest, mut taken) = (append.memories.to_vec(), Taken::default());
        while !rest.is_empty() {
            match self.insert_all(&rest, append).await {
                Ok(()) => break,
                Err(error) if code(&error) == Some(DUPLICATE_KEY) => {
                    let found = self.taken_of(&rest, append).await?;
                    if found.is_empty() {
                        self.pause(PAUSE).await?;
                    } else if append.atomicity == Atomicity::All {
                        return Ok(append.outcomes(&found.owners, &found.erased));
                    }
                    rest.retain(|memory| !found.has(memory.id));
                    taken.extend(found);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(append.outcomes(&taken.owners, &taken.erased))
    }

    /// Appends memories without keys, each by itself. A memory that the server refuses individually is not written.
    async fn append_alone(&self, memories: &[&Memory], at: Option<Timestamp>) -> Result<Vec<Appended>> {
        let rows = memories.iter().map(|memory| memory_row(memory, at)).collect();
        self.sends_write();
        let refused = insert_each(&self.on.primary.memories, rows).await?;
        self.caught_up();
        let is_taken = |place: &usize| refused.get(place) == Some(&DUPLICATE_KEY);
        let taken = (0..memories.len()).filter(is_taken).map(|place| memories[place].id).collect();
        // The other memories may be written already.
        let erased = self.present(taken).await.map_err(|error| error.after(Outcome::Unknown))?.erased;
        let appended = memories.iter().enumerate().map(|(place, memory)| match refused.get(&place) {
            None => Appended::Written,
            Some(&DUPLICATE_KEY) if erased.contains(&memory.id) => Appended::Erased,
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

    /// Writes memories, all or none; if one already exists, it is an error.
    async fn insert_all(&self, memories: &[&Memory], append: Append<'_>) -> Result<()> {
        let at = append.at;
        if let [memory] = memories
            && memory.idempotency_key.is_none()
        {
            self.sends_write();
            self.on.primary.memories.insert_one(memory_row(memory, at)).await.map_err(native_write)?;
            self.caught_up();
            return Ok(());
        }
        let key = |memory: &&Memory| Some(key_row(memory.idempotency_key.as_ref()?, memory.id));
        let keys = memories.iter().flat_map(|memory| key(memory).into_iter().chain(append.hash(memory).map(mark_row)));
        let keys: Vec<_> = keys.collect();
        let rows = memories.iter().map(|memory| memory_row(memory, at));
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

    /// What prevents these memories from being appended: who has their ids or, where nobody has them, their keys, and
    /// whose id or key is erased. Only majority-committed rows count.
    async fn taken_of(&self, memories: &[&Memory], append: Append<'_>) -> Result<Taken> {
        let (mut keyed, mut marked) = (HashMap::new(), HashMap::new());
        for memory in memories {
            keyed.extend(memory.idempotency_key.as_ref().map(|key| (key.as_str(), memory.id)));
            marked.extend(append.hash(memory).map(|key| (key, memory.id)));
        }
        let keys = keyed.keys().map(|key| (*key).into()).chain(marked.keys().map(|key| key_mark(*key).into()));
        let read = |row: &RawDocument| match row.get_binary("_id") {
            // The mark of a key that is in use, or about to be, prevents nothing.
            Ok(key) if is_erased(row) => Ok((hash(key.bytes).and_then(|key| marked.get(&key).copied()), None)),
            Ok(_) => Ok((None, None)),
            Err(_) => Ok((keyed.get(text(row, "_id")?).copied(), Some(memory_id(row, "memory")?))),
        };
        let mut taken = Taken::default();
        for (id, owner) in each(self, &self.on.latest.keys, keys.collect(), read).await? {
            match (id, owner) {
                (Some(id), Some(owner)) => drop(taken.owners.insert(id, owner)),
                (Some(id), None) => drop(taken.erased.insert(id)),
                (None, _) => {}
            }
        }
        // A new id can't be taken yet.
        let ids = memories.iter().filter(|memory| append.is_repeated || memory.idempotency_key.is_none());
        taken.extend(self.present(ids.map(|memory| memory.id).collect()).await?);
        Ok(taken)
    }

    /// Which of these memories are majority-committed, as their own owners, and which are erased.
    async fn present(&self, ids: Vec<MemoryId>) -> Result<Taken> {
        let mut taken = Taken::default();
        if ids.is_empty() {
            return Ok(taken);
        }
        let ids: Vec<_> = ids.iter().map(|id| uuid(id.as_bytes())).collect();
        let find = self.on.latest.memories.find(doc! { "_id": { "$in": ids } }).projection(doc! { ERASED: 1 });
        for (id, is_erased) in all(self, find, |row| Ok((memory_id(row, "_id")?, is_erased(row)))).await? {
            match is_erased {
                true => drop(taken.erased.insert(id)),
                false => drop(taken.owners.insert(id, id)),
            }
        }
        Ok(taken)
    }
}

impl Taken {
    fn is_empty(&self) -> bool {
        self.owners.is_empty() && self.erased.is_empty()
    }

    fn has(&self, id: MemoryId) -> bool {
        self.owners.contains_key(&id) || self.erased.contains(&id)
    }

    fn extend(&mut self, other: Self) {
        self.owners.extend(other.owners);
        self.erased.extend(other.erased);
    }
}

impl Changed<'_> {
    fn has_same_texts(&self) -> bool {
        self.put.after.has_texts_of(&self.before.record)
    }

    /// About how many bytes the larger of its two statements has.
    fn size(&self) -> usize {
        let after = self.put.after.size() + self.vector.as_ref().map_or(0, Vec::len);
        // Without a history the statement also contains the texts that were read.
        self.put.entry.as_ref().map_or(after + self.before.record.size(), |entry| after.max(entry.before.len()))
    }

    fn update(&self) -> Result<bson::Document> {
        let row = next_row(&self.before.record, self.put.after, self.place, self.vector.as_deref());
        let row = bson::Document::try_from(row).map_err(|error| native(error.into()))?;
        Ok(doc! { "q": same_document(self.before, self.put.entry.is_some()), "u": row })
    }

    fn kept(&self) -> Option<Result<bson::Document>> {
        let entry = self.put.entry.as_ref()?;
        Some(history::kept(self.of, self.place, entry))
    }
}

/// Inserts each row by itself, and returns the error codes of refused rows by their position.
async fn insert_each(on: &Rows, rows: Vec<RawDocumentBuf>) -> Result<HashMap<usize, i32>> {
    on.insert_many(rows).ordered(false).await.map_or_else(refusals, |_| Ok(HashMap::new()))
}
