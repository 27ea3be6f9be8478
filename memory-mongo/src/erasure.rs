//! Erasure: a record is deleted with all data of it in the namespace, and a row of `tombstones` takes its place.
//!
//! The `_id` of a tombstone is that of its record. Besides, a row that keeps the record out is stored where the record
//! would be written, so that an append finds its `_id` taken and needs no lookup. In `memories` an empty row stays
//! under the id. In `idempotency_keys` each key has two rows: one under the key itself, which is deleted, and the mark
//! under its hash, which stays and says that the key is erased. A key from before there was erasure has no mark, so the
//! erasure creates it.
//!
//! A document may be put again under its id, so its row is deleted. A restore looks for its tombstone in the same
//! transaction; an erasure that comes in between conflicts with it on the document's `_id`.

use std::collections::{BTreeSet, HashMap};

use memory_core::engine::{Erasing, ErasingRecord, Found, Put, corrupt};
use memory_core::{
    Actor, Collection, Document, DocumentId, Error, IdempotencyKey, KeyedHash, Memory, Reason, RecordId, Result,
    Timestamp, Tombstone,
};
use migrations::WRITER;
use mongodb::ClientSession;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::raw::RawDocument;
use mongodb::bson::{self, Bson, doc};

use crate::connection::MongoSession;
use crate::error::{DUPLICATE_KEY, code};
use crate::find::{all, each, each_in};
use crate::history;
use crate::row::{
    AT_ONCE, ERASED, at_once, binary, bson, bytes, erased_row, hash, impossible, key_mark, memory_id_of, number,
    optional, text, uuid,
};
use crate::statements::{document_key, removed, same_memory};

/// The most places that a tombstone has.
const PLACES: usize = 1_024;

/// The tombstones of these records.
pub(crate) async fn tombstones(session: &MongoSession, of: &[RecordId]) -> Result<Vec<Tombstone>> {
    each(session, &session.reads().tombstones, of.iter().map(id).collect(), read).await
}

/// The next tombstones in the order of their `_id`s: those of memories, then those of documents.
pub(crate) async fn tombstones_behind(
    session: &MongoSession,
    behind: Option<&[u8]>,
    most: usize,
) -> Result<(Vec<Tombstone>, Option<Vec<u8>>)> {
    let no_page = || Error::invalid("the cursor is not from a page of tombstones");
    let behind = behind.map(|key| RecordId::from_key(key).ok_or_else(no_page)).transpose()?;
    // A comparison matches only values of its own type.
    let memories = match &behind {
        None => Some(doc! { "$type": "binData" }),
        Some(record @ RecordId::Memory(_)) => Some(doc! { "$gt": id(record) }),
        Some(RecordId::Document { .. }) => None,
    };
    let documents = match &behind {
        Some(record @ RecordId::Document { .. }) => doc! { "$gt": id(record) },
        _ => doc! { "$type": "object" },
    };
    let mut found = Vec::new();
    for ids in memories.into_iter().chain([documents]).filter(|_| most > 0) {
        let rest = most - found.len();
        if rest > 0 {
            let find = session.reads().tombstones.find(doc! { "_id": ids }).sort(doc! { "_id": 1 });
            found.append(&mut all(session, find.limit(rest as i64), read).await?);
        }
    }
    let next = found.last().filter(|_| found.len() == most).map(|last| last.record.to_key());
    Ok((found, next))
}

/// The record with this `_id`; `None` if no record has such an `_id`.
pub(crate) fn record_of(id: &Bson) -> Option<RecordId> {
    match id {
        Bson::Document(key) => {
            let collection = Collection::parse(key.get_str("collection").ok()?).ok()?;
            Some((collection, DocumentId::parse(key.get_str("id").ok()?).ok()?).into())
        }
        id => memory_id_of(id).map(RecordId::Memory),
    }
}

/// The `_id` of a record's row and of its tombstone.
pub(crate) fn id(record: &RecordId) -> Bson {
    match record {
        RecordId::Memory(id) => uuid(id.as_bytes()).into(),
        RecordId::Document { collection, id } => document_key(collection, id).into(),
    }
}

pub(crate) fn read(row: &RawDocument) -> Result<Tombstone> {
    Ok(Tombstone {
        record: record_of(&bson(row, "_id")?).ok_or_else(|| impossible("_id"))?,
        at: Timestamp::from_millis(number(row, "at")?).map_err(corrupt)?,
        reason: Reason::parse(text(row, "reason")?).map_err(corrupt)?,
        actor: optional(row, "actor", text)?.map(Actor::parse).transpose().map_err(corrupt)?,
        key: optional(row, "key", bytes)?.map(|key| hash(key).ok_or_else(|| impossible("key"))).transpose()?,
        places: KeyedHash::all_of(bytes(row, "places")?).ok_or_else(|| impossible("places"))?,
    })
}

/// A tombstone that replaces an earlier one of its record, which may have been written after the call looked for one.
/// It keeps out all that either one keeps out, and it keeps an operator's reason, the later one of two. If the call has
/// already seen the earlier one, it is unchanged.
fn behind(tombstone: &Tombstone, earlier: &Tombstone) -> Tombstone {
    let why = match (tombstone.is_of_expiry(), earlier.is_of_expiry()) {
        (true, false) => earlier,
        (false, true) => tombstone,
        _ if earlier.at > tombstone.at => earlier,
        _ => tombstone,
    };
    // A caller who learned that something expired must not learn of what came later under its name.
    let is_another = earlier.is_of_expiry() && !tombstone.places.is_empty();
    let mut places: BTreeSet<_> = tombstone.places.iter().copied().collect();
    for place in earlier.places.iter().filter(|_| !is_another) {
        if places.len() >= PLACES {
            break;
        }
        places.insert(*place);
    }
    Tombstone {
        record: tombstone.record.clone(),
        at: tombstone.at.max(earlier.at),
        reason: why.reason.clone(),
        actor: why.actor.clone(),
        key: tombstone.key.or(earlier.key),
        places: places.into_iter().collect(),
    }
}

/// The statement that stores a tombstone. The feed also gets the erasure from it, and reads it from a whole row.
fn kept(tombstone: &Tombstone) -> bson::Document {
    let Tombstone { record, at, reason, actor, key, places } = tombstone;
    let mut row = doc! {
        "_id": id(record),
        // The server logs no write that changes nothing.
        "erasure": ObjectId::new(),
        "at": at.as_millis(),
        "reason": reason.as_str(),
        "places": binary(KeyedHash::concat(places)),
    };
    row.extend(actor.as_ref().map(|actor| ("actor".to_owned(), actor.as_str().into())));
    row.extend(key.map(|key| ("key".to_owned(), key_mark(key).into())));
    doc! { "q": { "_id": id(record) }, "u": row, "upsert": true }
}

/// About how many bytes that statement has.
fn size(tombstone: &Tombstone) -> usize {
    let Tombstone { reason, places, .. } = tombstone;
    1_024 + reason.as_str().len() + places.len() * KeyedHash::BYTES
}

/// The statement that leaves only the id of a memory, if it has not changed since it was read.
fn emptied(memory: &Memory) -> bson::Document {
    doc! { "q": same_memory(memory), "u": erased_row() }
}

/// The statement that stores such a row if there is no memory with this id; otherwise it fails.
fn buried(record: &RecordId) -> bson::Document {
    doc! { "q": { "_id": id(record), ERASED: true }, "u": erased_row(), "upsert": true }
}

/// A row that stands for a document within a transaction. It satisfies the rules of its collection.
fn passing_row(record: &RecordId) -> bson::Document {
    doc! { "_id": id(record), "revision": 0_i64, "written": i64::from(WRITER) }
}

/// The statement that removes an idempotency key from its memory.
fn without_key(memory: &Memory, key: &IdempotencyKey) -> bson::Document {
    doc! { "q": { "_id": key.as_str(), "memory": uuid(memory.id.as_bytes()) }, "limit": 1 }
}

/// The statement that makes a mark say that its key is erased. Its value differs each time, so that it is always a
/// change, and conflicts with a program that deletes the mark at the same time.
pub(crate) fn marked(key: KeyedHash) -> bson::Document {
    doc! { "q": { "_id": key_mark(key) }, "u": { "$set": { ERASED: ObjectId::new() } }, "upsert": true }
}

impl MongoSession {
    /// Erases records in a transaction. `false` if one has changed since it was read.
    pub(crate) async fn erase_each(
        &self,
        erasings: &[Erasing<'_, i64>],
        transaction: &mut ClientSession,
    ) -> Result<bool> {
        let (mut memories, mut documents) = (Vec::new(), Vec::new());
        let (mut buried, mut removed) = (Vec::new(), Vec::new());
        for Erasing { found, tombstone } in erasings {
            match (found, &tombstone.record) {
                (ErasingRecord::Memory(found), _) => memories.push(&found.record),
                (ErasingRecord::Document(found), _) => documents.push(*found),
                (ErasingRecord::Absent, record @ RecordId::Memory(_)) => buried.push(self::buried(record)),
                (ErasingRecord::Absent, record) => removed.push(record),
            }
        }
        // Before the first statement, since this read is not part of the transaction.
        let mut newest = self.newest(&documents).await?;
        if !self.pass_through(&removed, transaction).await? || !self.bury_memories(buried, transaction).await? {
            return Ok(false);
        }
        for (record, place) in history::newest_in(self, &removed, transaction).await? {
            newest.push((record.clone(), place.saturating_add(1)));
        }
        if !self.erase_memories(&memories, transaction).await? || !self.erase_documents(&documents, transaction).await?
        {
            return Ok(false);
        }
        self.erase_history(erasings, &newest, transaction).await?;
        self.erase_keys(&memories, erasings, transaction).await?;
        let earlier = self.earlier(erasings, transaction).await?;
        let tombstones = erasings.iter().map(|Erasing { tombstone, .. }| match earlier.get(&tombstone.record) {
            Some(earlier) => behind(tombstone, earlier),
            None => tombstone.clone(),
        });
        let tombstones: Vec<_> = tombstones.collect();
        let mut rest = tombstones.as_slice();
        while !rest.is_empty() {
            let (some, others) = rest.split_at(at_once(rest.iter().map(size)));
            let kept = some.iter().map(kept).collect();
            match self.update_in(self.on.primary.tombstones.name(), kept, transaction).await {
                Err(error) if code(&error) == Some(DUPLICATE_KEY) => return Ok(false),
                done => drop(done?),
            }
            rest = others;
        }
        Ok(true)
    }

    /// The tombstones of these records, as the transaction sees them. If another program has stored one since the
    /// snapshot, even where there was none, it conflicts on the `_id`: the transaction is aborted and retried, so that
    /// no tombstone replaces one that was not read.
    async fn earlier(
        &self,
        erasings: &[Erasing<'_, i64>],
        transaction: &mut ClientSession,
    ) -> Result<HashMap<RecordId, Tombstone>> {
        let ids = erasings.iter().map(|erasing| id(&erasing.tombstone.record)).collect();
        // A tombstone that can't be read has nothing to preserve.
        let found = each_in(self, &self.on.primary.tombstones, ids, transaction, |row| Ok(read(row).ok())).await?;
        Ok(found.into_iter().flatten().map(|tombstone| (tombstone.record.clone(), tombstone)).collect())
    }

    /// The places of the newest entries of documents; 0 if there is none.
    async fn newest(&self, documents: &[&Found<Document, i64>]) -> Result<Vec<(RecordId, i64)>> {
        let named: Vec<_> = documents.iter().map(|found| (RecordId::from(&found.record), found.version)).collect();
        let next = history::places(self, &named).await?;
        Ok(named.into_iter().zip(next).map(|((of, _), next)| (of, next.saturating_sub(1))).collect())
    }

    /// Inserts a row for each of these documents, which don't exist, and deletes it again. So a program that puts one
    /// meanwhile conflicts with the erasure, and the rules of the collection apply. `false` if one exists.
    async fn pass_through(&self, records: &[&RecordId], transaction: &mut ClientSession) -> Result<bool> {
        let name = self.on.primary.documents.name();
        for some in records.chunks(AT_ONCE.0) {
            let rows: Vec<_> = some.iter().map(|record| passing_row(record)).collect();
            match self.change_in(doc! { "insert": name, "documents": rows }, transaction).await {
                Err(error) if code(&error) == Some(DUPLICATE_KEY) => return Ok(false),
                done => drop(done?),
            }
            // The feed reads this as a removal without a space, and skips it.
            let removed =
                some.iter().map(|record| doc! { "q": { "_id": id(record) }, "u": { "$set": { "removed": "" } } });
            self.update_in(name, removed.collect(), transaction).await?;
            let deletes: Vec<_> = some.iter().map(|record| doc! { "q": { "_id": id(record) }, "limit": 1 }).collect();
            self.change_in(doc! { "delete": name, "deletes": deletes }, transaction).await?;
        }
        Ok(true)
    }

    async fn bury_memories(&self, buried: Vec<bson::Document>, transaction: &mut ClientSession) -> Result<bool> {
        for some in buried.chunks(AT_ONCE.0) {
            match self.update_in(self.on.primary.memories.name(), some.to_vec(), transaction).await {
                Err(error) if code(&error) == Some(DUPLICATE_KEY) => return Ok(false),
                done => drop(done?),
            }
        }
        Ok(true)
    }

    async fn erase_memories(&self, memories: &[&Memory], transaction: &mut ClientSession) -> Result<bool> {
        for some in memories.chunks(AT_ONCE.0) {
            let emptied = some.iter().map(|memory| emptied(memory)).collect();
            if self.update_in(self.on.primary.memories.name(), emptied, transaction).await? != some.len() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn erase_documents(
        &self,
        documents: &[&Found<Document, i64>],
        transaction: &mut ClientSession,
    ) -> Result<bool> {
        let mut rest = documents;
        while !rest.is_empty() {
            let (some, others) = rest.split_at(at_once(rest.iter().map(|found| found.record.size())));
            // Whether the namespace keeps a history is not known here, so the texts are compared, to detect a document
            // that was put again. The space is empty for the feed, which has the erasure from the tombstone.
            let updates = some.iter().map(|found| removed(found, "", false)).collect();
            if !self.remove_rows(some.iter().map(|found| &found.record), updates, transaction).await? {
                return Ok(false);
            }
            rest = others;
        }
        Ok(true)
    }

    /// Deletes the entries of these records, but keeps the places of the documents' newest ones.
    async fn erase_history(
        &self,
        erasings: &[Erasing<'_, i64>],
        newest: &[(RecordId, i64)],
        transaction: &mut ClientSession,
    ) -> Result<()> {
        let (name, mut count) = (self.on.primary.history.name(), 0);
        for some in erasings.chunks(AT_ONCE.0) {
            let dropped: Vec<_> = some.iter().map(|erasing| history::dropped(&erasing.tombstone.record)).collect();
            count += self.change_in(doc! { "delete": name, "deletes": dropped }, transaction).await?;
        }
        // Without a history there is nothing to continue after.
        for some in newest.chunks(AT_ONCE.0 / 2).filter(|_| count > 0) {
            let places: Vec<_> = some.iter().flat_map(|(of, newest)| history::emptied(of, *newest)).collect();
            self.keep(places, transaction).await?;
        }
        Ok(())
    }

    async fn erase_keys(
        &self,
        memories: &[&Memory],
        erasings: &[Erasing<'_, i64>],
        transaction: &mut ClientSession,
    ) -> Result<()> {
        let name = self.on.primary.keys.name();
        let keys = memories.iter().filter_map(|memory| Some(without_key(memory, memory.idempotency_key.as_ref()?)));
        for some in keys.collect::<Vec<_>>().chunks(AT_ONCE.0) {
            self.change_in(doc! { "delete": name, "deletes": some }, transaction).await?;
        }
        let marks: Vec<_> = erasings.iter().filter_map(|erasing| erasing.tombstone.key.map(marked)).collect();
        for some in marks.chunks(AT_ONCE.0) {
            self.update_in(name, some.to_vec(), transaction).await?;
        }
        Ok(())
    }

    /// Whether a tombstone keeps one of these documents out, as their transaction sees it. This is its first statement.
    pub(crate) async fn keeps_one_out(&self, puts: &[&Put<'_, i64>], transaction: &mut ClientSession) -> Result<bool> {
        let ids = guarded(puts);
        if ids.is_empty() {
            return Ok(false);
        }
        let tombstones = each_in(self, &self.on.primary.tombstones, ids, transaction, read).await?;
        Ok(!kept_out(puts, &tombstones).is_empty())
    }

    /// Which of these documents a majority-committed tombstone keeps out.
    pub(crate) async fn kept_out<'p>(&self, puts: &[&'p Put<'p, i64>]) -> Result<Vec<&'p Document>> {
        let tombstones = each(self, &self.on.latest.tombstones, guarded(puts), read).await?;
        Ok(kept_out(puts, &tombstones))
    }
}

/// The `_id`s of the documents that a tombstone may keep out.
fn guarded(puts: &[&Put<'_, i64>]) -> Vec<Bson> {
    let guarded = puts.iter().filter(|put| put.is_guarded);
    guarded.map(|put| document_key(&put.after.collection, &put.after.id).into()).collect()
}

fn kept_out<'p>(puts: &[&'p Put<'p, i64>], tombstones: &[Tombstone]) -> Vec<&'p Document> {
    let keeps_out = |tombstone: &Tombstone, document: &Document| match &tombstone.record {
        RecordId::Document { collection, id } => {
            (collection, id) == (&document.collection, &document.id) && tombstone.keeps_out(document)
        }
        RecordId::Memory(_) => false,
    };
    let guarded = puts.iter().filter(|put| put.is_guarded).map(|put| put.after);
    guarded.filter(|document| tombstones.iter().any(|tombstone| keeps_out(tombstone, document))).collect()
}

#[cfg(test)]
mod tests {
    use memory_core::MemoryId;

    use super::*;

    /// The time of a tombstone, the reason of an operator, and places.
    type Told<'t> = (i64, Option<&'t str>, &'t [u8]);

    #[test]
    fn a_tombstone_keeps_the_later_time_and_the_key_of_an_earlier_one() {
        let id = MemoryId::generate();
        let tombstone = |millis: i64, key: Option<u8>| Tombstone {
            record: id.into(),
            at: Timestamp::from_millis(millis).expect("a time"),
            reason: Reason::parse("why").expect("a reason"),
            actor: None,
            key: key.map(|byte| KeyedHash([byte; KeyedHash::BYTES])),
            places: Vec::new(),
        };
        for (new, earlier, at, key) in [
            ((7, None), (9, Some(1)), 9, Some(1)),
            ((9, Some(2)), (7, Some(1)), 9, Some(2)),
            ((9, Some(2)), (7, None), 9, Some(2)),
        ] {
            let behind = behind(&tombstone(new.0, new.1), &tombstone(earlier.0, earlier.1));
            let update = kept(&behind);
            let row = update.get_document("u").expect("a row");
            assert_eq!(row.get_i64("at").expect("a time"), at);
            let kept = row.get("key").map(|key| key.to_string());
            assert_eq!(kept, key.map(|byte| Bson::from(key_mark(KeyedHash([byte; KeyedHash::BYTES]))).to_string()));
        }
    }

    #[test]
    fn a_tombstone_keeps_the_reason_of_whom_nobody_has_overruled() {
        let id = MemoryId::generate();
        let tombstone = |millis: i64, reason: Option<&str>, places: &[u8]| {
            let at = Timestamp::from_millis(millis).expect("a time");
            let mut tombstone = Tombstone::of_expiry(id.into(), at);
            if let Some(reason) = reason {
                tombstone.reason = Reason::parse(reason).expect("a reason");
                tombstone.actor = Some(Actor::parse(reason).expect("an actor"));
            }
            tombstone.places = places.iter().map(|byte| KeyedHash([*byte; KeyedHash::BYTES])).collect();
            tombstone
        };
        let cases: [[Told<'_>; 3]; 6] = [
            [(9, None, &[1]), (7, Some("earlier"), &[2]), (9, Some("earlier"), &[1, 2])],
            [(7, Some("new"), &[]), (9, None, &[2]), (9, Some("new"), &[2])],
            [(7, Some("new"), &[1]), (9, None, &[2]), (9, Some("new"), &[1])],
            [(7, Some("new"), &[3]), (9, Some("earlier"), &[2]), (9, Some("earlier"), &[2, 3])],
            [(9, Some("new"), &[3]), (9, Some("earlier"), &[2]), (9, Some("new"), &[2, 3])],
            [(7, None, &[]), (9, None, &[]), (9, None, &[])],
        ];
        for case in cases {
            let [new, earlier, result] = case.map(|(millis, reason, places)| tombstone(millis, reason, places));
            let merged = behind(&new, &earlier);
            assert_eq!(merged, result);
            assert_eq!(behind(&merged, &earlier), merged, "what is made behind one stays as it is behind that");
        }
    }
}
