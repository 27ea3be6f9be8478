//! Expiry: the list of records that have an expiry time, and the removal of old tombstones.
//!
//! The list is an index on each of the two collections, over only the rows that have a time. So the server maintains
//! it in every statement of every program, including an older one, whose put removes a row's time with the row; a row
//! without a time is not in it, and costs nothing. A separate collection would need a transaction for each write of an
//! expiring record, and older programs would not maintain it. The drawback of an index is that it must be built when
//! there are many rows already; the server does so while programs run.

use std::collections::HashSet;

use memory_core::engine::corrupt;
use memory_core::{Error, ErrorKind, MemoryId, RecordId, Result, Timestamp, Tombstone};
use migrations::EXPIRY;
use mongodb::ClientSession;
use mongodb::bson::raw::RawDocument;
use mongodb::bson::{Binary, Document, doc};
use mongodb::options::Hint;

use crate::connection::{MongoSession, Rows};
use crate::erasure::{id, marked, read, record_of};
use crate::error::code;
use crate::find::{all, all_in, each_in};
use crate::row::{AT_ONCE, ERASED, bson, bytes, erased_row, expiry_key, hash, impossible, key_mark, number, uuid};

/// The error code of a search whose index doesn't exist, or not yet.
const NO_HINT: i32 = 2;

/// The records that have expired by this time, after one of them.
pub(crate) async fn expired(
    session: &MongoSession,
    by: Timestamp,
    behind: Option<&(Timestamp, RecordId)>,
    most: usize,
) -> Result<Vec<(Timestamp, RecordId)>> {
    let mut found = Vec::new();
    for list in [List::Memories, List::Documents] {
        found.append(&mut list.next(session, by, behind, most).await?);
    }
    found.sort_by_cached_key(|(at, record)| (*at, record.to_key()));
    found.truncate(most);
    Ok(found)
}

/// Deletes the tombstones that have not changed since they were read, with the rows that keep their records out.
pub(crate) async fn forget(session: &MongoSession, tombstones: &[Tombstone]) -> Result<()> {
    let mut transaction = session.begin().await?;
    let mut write = Ok(());
    for some in tombstones.chunks(AT_ONCE.0) {
        write = forget_each(session, some, &mut transaction).await;
        if write.is_err() {
            break;
        }
    }
    session.end(transaction, write.map(|()| true)).await.map(drop)
}

async fn forget_each(session: &MongoSession, tombstones: &[Tombstone], transaction: &mut ClientSession) -> Result<()> {
    let (on, ids) = (&session.on.primary, tombstones.iter().map(|tombstone| id(&tombstone.record)).collect());
    // A tombstone that can't be read has changed. A program that changes one meanwhile conflicts with this transaction.
    let found = each_in(session, &on.tombstones, ids, transaction, |row| Ok(read(row).ok())).await?;
    let gone: Vec<_> = found.into_iter().flatten().filter(|found| tombstones.contains(found)).collect();
    if gone.is_empty() {
        return Ok(());
    }
    meet_rules(session, transaction).await?;
    let delete = |tombstone: &Tombstone| doc! { "q": { "_id": id(&tombstone.record) }, "limit": 1 };
    drop_in(session, &on.tombstones, gone.iter().map(delete).collect(), transaction).await?;

    let memories = gone.iter().filter(|tombstone| matches!(tombstone.record, RecordId::Memory(_)));
    let delete = |tombstone: &Tombstone| doc! { "q": { "_id": id(&tombstone.record), ERASED: true }, "limit": 1 };
    drop_in(session, &on.memories, memories.map(delete).collect(), transaction).await?;

    let keys: HashSet<_> = gone.iter().filter_map(|tombstone| tombstone.key).collect();
    let marks: Vec<_> = keys.iter().copied().map(key_mark).collect();
    if marks.is_empty() {
        return Ok(());
    }
    // A tombstone from another ledger may have the same key as one that was written here.
    let others = on.tombstones.find(doc! { "key": { "$in": marks } }).projection(doc! { "_id": 0, "key": 1 });
    let key = |row: &RawDocument| hash(bytes(row, "key")?).ok_or_else(|| impossible("key"));
    let others: HashSet<_> = all_in(session, others, transaction, key).await?.into_iter().collect();
    // If two transactions each leave the mark to the tombstone that the other one deletes, they conflict.
    let left: Vec<_> = others.iter().copied().map(marked).collect();
    if !left.is_empty() {
        session.update_in(on.keys.name(), left, transaction).await?;
    }
    let delete = |mark: Binary| doc! { "q": { "_id": mark, ERASED: { "$exists": true } }, "limit": 1 };
    let deletes = keys.difference(&others).copied().map(key_mark).map(delete);
    drop_in(session, &on.keys, deletes.collect(), transaction).await
}

async fn drop_in(
    session: &MongoSession,
    rows: &Rows,
    deletes: Vec<Document>,
    transaction: &mut ClientSession,
) -> Result<()> {
    if deletes.is_empty() {
        return Ok(());
    }
    session.change_in(doc! { "delete": rows.name(), "deletes": deletes }, transaction).await.map(drop)
}

/// Makes a transaction subject to the rules for writers, which don't apply to deletions or to other collections. It
/// inserts a row and deletes it again, which the feed ignores.
pub(crate) async fn meet_rules(session: &MongoSession, transaction: &mut ClientSession) -> Result<()> {
    let (name, id) = (session.on.primary.memories.name(), uuid(MemoryId::generate().as_bytes()));
    let mut row = erased_row();
    row.insert("_id", id.clone());
    session.change_in(doc! { "insert": name, "documents": [row] }, transaction).await?;
    let delete = doc! { "q": { "_id": id }, "limit": 1 };
    session.change_in(doc! { "delete": name, "deletes": [delete] }, transaction).await.map(drop)
}

/// The list of a collection.
#[derive(Debug, Clone, Copy)]
enum List {
    Memories,
    Documents,
}

impl List {
    /// The field that orders records that expire at the same time.
    fn key(self) -> &'static str {
        match self {
            Self::Memories => "_id",
            Self::Documents => "expiryKey",
        }
    }

    async fn next(
        self,
        session: &MongoSession,
        by: Timestamp,
        behind: Option<&(Timestamp, RecordId)>,
        most: usize,
    ) -> Result<Vec<(Timestamp, RecordId)>> {
        let rows = match self {
            Self::Memories => &session.reads().memories,
            Self::Documents => &session.reads().documents,
        };
        // The server reads zero as no limit.
        let Some(condition) = self.condition(by, behind).filter(|_| most > 0) else { return Ok(Vec::new()) };
        let key = self.key();
        let find = rows.find(condition).sort(doc! { "expiresAt": 1, key: 1 });
        let find = find.limit(i64::try_from(most).unwrap_or(i64::MAX)).projection(doc! { "expiresAt": 1 });
        // With another index, or none, the server would look at all rows.
        let find = find.hint(Hint::Name(EXPIRY.to_owned()));
        let place = |row: &RawDocument| {
            let at = Timestamp::from_millis(number(row, "expiresAt")?).map_err(corrupt)?;
            Ok((at, record_of(&bson(row, "_id")?).ok_or_else(|| impossible("_id"))?))
        };
        all(session, find, place).await.map_err(|error| match code(&error) {
            Some(NO_HINT) => {
                let message = "the index of what expires is still being built, or is gone: try again later";
                Error::new(ErrorKind::Unavailable, message).with_source(error).retryable()
            }
            _ => error,
        })
    }

    /// Matches the rest of the list. The index contains only numbers, so a search must restrict the type.
    fn condition(self, by: Timestamp, behind: Option<&(Timestamp, RecordId)>) -> Option<Document> {
        let range = |from: i64| doc! { "expiresAt": { "$type": "long", "$gte": from, "$lte": by.as_millis() } };
        let Some((at, record)) = behind else { return Some(range(Timestamp::MIN.as_millis())) };
        if by < *at {
            return None;
        }
        let (at, later) = (at.as_millis(), range(at.as_millis() + 1));
        // At the same time documents come before memories.
        let rest = match (self, record) {
            (Self::Memories, RecordId::Memory(id)) => doc! { "$gt": uuid(id.as_bytes()) },
            (Self::Memories, RecordId::Document { .. }) => return Some(range(at)),
            (Self::Documents, RecordId::Memory(_)) => return Some(later),
            (Self::Documents, RecordId::Document { collection, id }) => doc! { "$gt": expiry_key(collection, id) },
        };
        // One millisecond, as a range: for a single value the server would sort the two lists instead of merging them.
        let key = self.key();
        let same = doc! { "expiresAt": { "$type": "long", "$gt": at - 1, "$lt": at + 1 }, key: rest };
        Some(doc! { "$or": [same, later] })
    }
}
