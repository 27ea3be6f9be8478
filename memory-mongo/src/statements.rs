//! The conditions and commands that are sent to the server.

use memory_core::engine::{Found, Mark, Place, Source, Walk};
use memory_core::{Collection, Context, DocumentId, Memory, Order, Timestamp, path_hash};
use mongodb::bson::{Bson, Document, doc};

use crate::row::{EVERYTHING, Stored, VECTOR, knows_vectors, open_path, paths_of, space_path, uuid, written};

pub(crate) fn document_key(collection: &Collection, id: &DocumentId) -> Document {
    doc! { "collection": collection.as_str(), "id": id.as_str() }
}

/// Matches a memory if it has not changed since it was read.
pub(crate) fn same_memory(memory: &Memory) -> Document {
    doc! { "_id": uuid(memory.id.as_bytes()), "revision": i64::from(memory.revision) }
}

/// The same, if its texts are also unchanged. A memory that was lost and restored, or forgotten after its erasure, can
/// come back with any revision.
pub(crate) fn same_texts(memory: &Memory) -> Document {
    let mut same = same_memory(memory);
    same.insert("trigger", memory.trigger.as_str());
    // Null also matches a missing field.
    same.insert("context", memory.context.as_ref().map(Context::as_str));
    same
}

/// Matches a document if it has not changed since it was read: every later write, and a put after a removal, has
/// another entry. Without a history, a document put after a removal may have the same entry; then its texts and its
/// expiry distinguish it.
pub(crate) fn same_document(found: &Found<memory_core::Document, i64>, has_history: bool) -> Document {
    let Found { record, version } = found;
    let mut same = doc! {
        "_id": document_key(&record.collection, &record.id),
        // Null also matches a missing field.
        "entry": (*version != 0).then_some(*version),
        "revision": i64::from(record.revision),
        "createdAt": record.created_at.as_millis(),
        "updatedAt": record.updated_at.map(Timestamp::as_millis),
    };
    if !has_history {
        same.insert("spaceId", record.space_id.as_str());
        same.insert("metadata", record.metadata.as_str());
        same.insert("content", record.content.as_str());
        // A document put again without its expiry is not the one that has expired.
        same.insert("expiresAt", record.expires_at.map(Timestamp::as_millis));
    }
    same
}

/// The update of a document before it is deleted, in the same transaction, since the deletion itself doesn't tell the
/// feed the space. For an erasure the space is empty, because the feed has its tombstone.
pub(crate) fn removed(found: &Found<memory_core::Document, i64>, space: &str, has_history: bool) -> Document {
    // So that a document written by an older program is not refused.
    let set = doc! { "removed": space, "written": written(found.record.revision) };
    doc! { "q": same_document(found, has_history), "u": { "$set": set } }
}

/// The statements that change a memory into its next version. One of them matches if the memory has not changed since
/// it was read. The first one keeps the vector: it matches a row whose vector belongs to the texts, which stay. The
/// other one removes a vector that may belong to other texts.
pub(crate) fn replaced(before: &Memory, after: &Memory) -> Vec<Document> {
    let mut changes = changes(before, after);
    let mut statements = Vec::with_capacity(2);
    if after.has_texts_of(before) {
        let mut same = same_memory(before);
        same.insert("written", doc! { "$gte": knows_vectors(before.revision.into()) });
        statements.push(doc! { "q": same, "u": &changes });
    }
    if let Ok(unset) = changes.get_document_mut("$unset") {
        unset.insert(VECTOR, "");
    }
    statements.push(doc! { "q": same_memory(before), "u": changes });
    statements
}

/// The update that changes a memory into its next version: only the fields that differ. It removes the words that an
/// older program has left in the row, since with them a longer text might not fit.
fn changes(before: &Memory, after: &Memory) -> Document {
    let mut set = doc! { "revision": i64::from(after.revision), "written": written(after.revision) };
    let mut unset = doc! { "words": "" };
    set.extend(after.updated_at.map(|time| ("updatedAt".to_owned(), time.as_millis().into())));
    if after.context != before.context {
        match after.context.as_ref().map(Context::as_str) {
            Some(context) => drop(set.insert("context", context)),
            None => drop(unset.insert("context", "")),
        }
    }
    if after.metadata != before.metadata {
        set.insert("metadata", after.metadata.as_str());
    }
    if after.expires_at != before.expires_at {
        match after.expires_at {
            Some(time) => drop(set.insert("expiresAt", time.as_millis())),
            None => drop(unset.insert("expiresAt", "")),
        }
    }
    if after.status != before.status {
        set.insert("status", after.status.as_str());
        set.insert("paths", paths_of(&after.space_id, after.status));
    }
    doc! { "$set": set, "$unset": unset }
}

/// The conditions of the lists that a walk of the ledger follows, which the server merges.
pub(crate) fn lists(source: &Source<'_>) -> Vec<Document> {
    let (mut paths, mut spaces) = (Vec::new(), Vec::new());
    match source {
        Source::Everything => paths.push(*EVERYTHING),
        Source::Open(statuses) => paths.extend(statuses.iter().map(|status| open_path(*status))),
        Source::Places(places) => places.iter().for_each(|place| match place {
            Place::Space(id) => spaces.push(id.as_str()),
            Place::Below(path) => paths.push(path_hash(path)),
        }),
    }
    let paths = (!paths.is_empty()).then(|| doc! { "paths": { "$in": paths } });
    let spaces = (!spaces.is_empty()).then(|| doc! { "spaceId": { "$in": spaces } });
    paths.into_iter().chain(spaces).collect()
}

/// The condition of the documents of a collection that a walk follows.
pub(crate) fn documents_of(collection: &Collection, source: &Source<'_>) -> Document {
    let mut documents = within(collection);
    if let Source::Places(places) = source {
        let path = |place: &Place| match place {
            Place::Space(id) => space_path(id),
            Place::Below(path) => path_hash(path),
        };
        documents.insert("paths", doc! { "$in": places.iter().map(path).collect::<Vec<_>>() });
    }
    documents
}

pub(crate) fn within(collection: &Collection) -> Document {
    doc! { "_id.collection": collection.as_str() }
}

/// The condition of the rows in these lists that a walk has not visited yet; `None` if there are none.
pub(crate) fn rest<K: Stored>(lists: &[Document], walk: &Walk<'_>) -> Option<Document> {
    let ranges = ranges::<K>(walk);
    let both = |list: &Document, range: &Document| list.clone().into_iter().chain(range.clone()).collect();
    let searched = lists.iter().flat_map(|list| ranges.iter().map(move |range| both(list, range)));
    let mut searched: Vec<Document> = searched.collect();
    match searched.len() {
        0 | 1 => searched.pop(),
        _ => Some(doc! { "$or": searched }),
    }
}

/// The ranges of time that together cover the rest of a walk; empty if nothing is left.
fn ranges<K: Stored>(walk: &Walk<'_>) -> Vec<Document> {
    // The bounds of a walk are exclusive.
    let mut from = walk.created_after.map_or(Timestamp::MIN.as_millis(), |after| after.as_millis() + 1);
    let mut to = walk.created_before.map_or(Timestamp::MAX.as_millis(), |before| before.as_millis() - 1);
    let mut ranges = Vec::with_capacity(2);
    if let Some(Mark { millis, id }) = walk.behind {
        let operator = if walk.order == Order::NewestFirst { "$lt" } else { "$gt" };
        // One millisecond, as a range: for a single value the server would sort the lists instead of merging them.
        let same = doc! { "$gt": millis - 1, "$lt": millis + 1 };
        ranges.push(doc! { "createdAt": same, K::ID: { operator: K::id_to_bson(id) } });
        match walk.order {
            Order::NewestFirst => to = to.min(millis - 1),
            Order::OldestFirst => from = from.max(millis + 1),
        }
    }
    if from <= to {
        ranges.push(doc! { "createdAt": { "$gte": from, "$lte": to } });
    }
    ranges
}

pub(crate) fn sort<K: Stored>(order: Order) -> Document {
    let direction = if order == Order::NewestFirst { -1 } else { 1 };
    doc! { "createdAt": direction, K::ID: direction }
}

/// Finds the sessions of transactions whose programs are gone, as one list: their connection is closed, and they are
/// idle. For a running program the connection may have been opened while the server looked, but then its transaction
/// has not been idle for long.
pub(crate) fn abandoned(program: &str) -> [Document; 6] {
    let name = doc! { "$split": ["$clientMetadata.driver.name", "|"] };
    [
        // Only the user's own operations, which needs no privilege.
        doc! { "$currentOp": { "allUsers": false, "idleConnections": true, "idleSessions": true } },
        doc! { "$group": {
            "_id": "$connectionId",
            "types": { "$addToSet": "$type" },
            "found": { "$push": {
                "session": { "id": "$lsid.id" },
                "program": { "$arrayElemAt": [name, -1] },
                "waited": "$transaction.timeInactiveMicros",
            } },
        } },
        doc! { "$match": { "types": ["idleSession"] } },
        doc! { "$unwind": "$found" },
        doc! { "$match": { "found.program": program, "found.waited": { "$gte": 100_000 } } },
        doc! { "$group": { "_id": Bson::Null, "sessions": { "$push": "$found.session" } } },
    ]
}
