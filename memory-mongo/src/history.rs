//! The history: a row for each write that changed or removed a record, or put a document where there was none.
//!
//! The `_id` of a row is {of, place}: the key of the record, and the place of the entry. For a memory the place is the
//! revision. The writes of a document are counted from 1, also across its removals, and its row holds the count. Two
//! writes can't take the same place, because one of them doesn't find what it has read, or its `_id` is taken: the
//! entries have the order of the commits, and depend on no clock. An older program removes a document without an entry,
//! which the server can't refuse, so the count of a removed document is kept only in its entries.
//!
//! After the erasure of a document, empty rows stay at the first place and at that of the newest entry. A document
//! that is later put under its id continues after them, as after a removal, so it can't be mistaken for anything that
//! was read before.

use std::collections::HashSet;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use memory_core::engine::{HistoryRow, VersionEntry};
use memory_core::{Actor, RecordId, Result};
use mongodb::ClientSession;
use mongodb::bson::raw::{RawDocument, cstr};
use mongodb::bson::{Document, RawDocumentBuf, doc, rawdoc};

use crate::connection::MongoSession;
use crate::error::native;
use crate::find::{each, each_in};
use crate::row::{append, binary, bytes, impossible, key_of, number, optional, text};

/// How many newest entries are looked up concurrently.
const AT_ONCE: usize = 32;
/// After this many bytes a page reads no further row.
const BYTES: usize = 4 << 20;

/// The row of an entry.
pub(crate) fn row(of: &RecordId, place: i64, entry: &VersionEntry) -> RawDocumentBuf {
    let VersionEntry { revision, at, actor, is_removal, before } = entry;
    let mut row = rawdoc! {
        "_id": { "of": binary(of.to_key()), "place": place },
        "revision": i64::from(*revision),
        "at": at.as_millis(),
        "isRemoval": *is_removal,
        "before": binary(before.clone()),
    };
    append(&mut row, cstr!("actor"), actor.as_ref().map(Actor::as_str));
    row
}

/// The statement that writes the entry of a record, which the same transaction has locked. It overwrites what an
/// inconsistent dump has left at that place.
pub(crate) fn kept(of: &RecordId, place: i64, entry: &VersionEntry) -> Result<Document> {
    let row = Document::try_from(row(of, place, entry)).map_err(|error| native(error.into()))?;
    Ok(doc! { "q": { "_id": id(of, place) }, "u": row, "upsert": true })
}

/// The statement that deletes all entries of a record.
pub(crate) fn dropped(of: &RecordId) -> Document {
    doc! { "q": between(of, i64::MAX), "limit": 0 }
}

/// The statements that put empty rows in place of the deleted entries of a document, whose newest entry had this place.
pub(crate) fn emptied(of: &RecordId, newest: i64) -> impl Iterator<Item = Document> {
    let places = [1, newest].into_iter().take(usize::try_from(newest.clamp(0, 2)).unwrap_or_default());
    places.map(|place| doc! { "q": { "_id": id(of, place) }, "u": { "_id": id(of, place) }, "upsert": true })
}

/// The next rows of a record below a place, newest first.
pub(crate) async fn rows(session: &MongoSession, of: &RecordId, below: u64, most: usize) -> Result<Vec<HistoryRow>> {
    let (below, most) = (i64::try_from(below).unwrap_or(i64::MAX), most.max(1));
    let mut entries = between(of, below);
    // The rows of an erased document are empty.
    entries.insert("revision", doc! { "$exists": true });
    let find = session.reads().history.find(entries).sort(doc! { "_id": -1 });
    let find = find.limit(most as i64).batch_size(most as u32);
    let mut rows = find.max_time(session.left()?).await.map_err(native)?;
    let (mut found, mut size) = (Vec::new(), 0);
    while size <= BYTES && rows.advance().await.map_err(native)? {
        let row = read(rows.current())?;
        size += row.entry.before.len();
        found.push(row);
    }
    Ok(found)
}

/// The place of the next entry of each document. The caller gives the place of the newest one, or 0 if no row has it.
/// A place of 0 is looked up, since a removed document may have left entries under its id; the first of them shows that
/// there are some.
pub(crate) async fn places(session: &MongoSession, documents: &[(RecordId, i64)]) -> Result<Vec<i64>> {
    let unknown = documents.iter().filter(|(_, newest)| *newest == 0);
    let firsts = unknown.map(|(of, _)| id(of, 1).into()).collect();
    let known: HashSet<_> = each(session, &session.on.primary.history, firsts, of_row).await?.into_iter().collect();
    let newest = documents.iter().map(|(of, newest)| {
        let has_entries = *newest == 0 && known.contains(&of.to_key());
        async move { if has_entries { newest_of(session, of).await } else { Ok(*newest) } }
    });
    let newest: Vec<_> = stream::iter(newest.collect::<Vec<_>>()).buffered(AT_ONCE).try_collect().await?;
    Ok(newest.into_iter().map(|newest| newest.saturating_add(1)).collect())
}

async fn newest_of(session: &MongoSession, of: &RecordId) -> Result<i64> {
    let find = session.on.primary.history.find_one(between(of, i64::MAX)).sort(doc! { "_id": -1 });
    let newest = find.projection(doc! { "_id": 1 }).max_time(session.left()?).await.map_err(native)?;
    newest.map_or(Ok(0), |newest| place_of(&newest))
}

/// The places of the newest rows of documents, as a transaction sees them; 0 if there is none.
pub(crate) async fn newest_in<'r>(
    session: &MongoSession,
    documents: &[&'r RecordId],
    transaction: &mut ClientSession,
) -> Result<Vec<(&'r RecordId, i64)>> {
    let mut newest = Vec::with_capacity(documents.len());
    if documents.is_empty() {
        return Ok(newest);
    }
    let (history, firsts) = (&session.on.primary.history, documents.iter().map(|of| id(of, 1).into()).collect());
    let known: HashSet<_> = each_in(session, history, firsts, transaction, of_row).await?.into_iter().collect();
    for of in documents.iter().copied() {
        let mut place = 0;
        if known.contains(&of.to_key()) {
            let find = history.find_one(between(of, i64::MAX)).sort(doc! { "_id": -1 });
            let find = find.projection(doc! { "_id": 1 }).max_time(session.left()?).session(&mut *transaction);
            place = find.await.map_err(native)?.map_or(Ok(0), |newest| place_of(&newest))?;
        }
        newest.push((of, place));
    }
    Ok(newest)
}

/// The key of the record that a row belongs to.
fn of_row(row: &RawDocument) -> Result<Vec<u8>> {
    bytes(key_of(row)?, "of").map(<[u8]>::to_vec)
}

fn read(row: &RawDocument) -> Result<HistoryRow> {
    let entry = VersionEntry::from_stored(
        number(row, "revision")?,
        number(row, "at")?,
        optional(row, "actor", text)?,
        row.get_bool("isRemoval").map_err(|_| impossible("isRemoval"))?,
        bytes(row, "before")?,
    )?;
    Ok(HistoryRow { place: place_of(row)?.unsigned_abs(), entry })
}

fn place_of(row: &RawDocument) -> Result<i64> {
    number(key_of(row)?, "place")
}

/// Matches the rows of a record below a place.
fn between(of: &RecordId, below: i64) -> Document {
    doc! { "_id": { "$gt": id(of, 0), "$lt": id(of, below) } }
}

fn id(of: &RecordId, place: i64) -> Document {
    doc! { "of": binary(of.to_key()), "place": place }
}
