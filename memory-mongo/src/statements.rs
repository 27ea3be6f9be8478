//! The conditions and commands that are sent to the server.

use memory_core::engine::{Found, Mark, Place, Source, Walk};
use memory_core::{Collection, Context, DocumentId, Memory, Order, Timestamp, path_hash};
use mongodb::bson::{Bson, Document, doc};

use crate::row::{EVERYTHING, Stored, VECTOR, knows_vectors, open_path, paths_of, space_path, uuid, written};

pub(crate) fn document_key(collection: &Collection, id: &DocumentId) -> Document {
    doc! { "collection": collection.as_str(), "id": id.as_str() }
}

/// What finds a memory while it is the one that was read.
pub(crate) fn same_memory(memory: &Memory) -> Document {
    doc! { "_id": uuid(memory.id.as_bytes()), "revision": i64::from(memory.revision) }
}

/// The same while it also has the texts that were read. A memory that was lost and restored, or forgotten behind its erasure, comes again at
/// whatever revision its copy has.
pub(crate) fn same_texts(memory: &Memory) -> Document {
    let mut same = same_memory(memory);
    same.insert("trigger", memory.trigger.as_str());
    // Null also stands for none.
    same.insert("context", memory.context.as_ref().map(Context::as_str));
    same
}

/// What finds a document while it is the one that was read: whatever is written since, or put after a removal, has another entry. Where no
/// history is kept, a document that is put after a removal may have the same, and its texts and its expiry tell it from the one that was read.
pub(crate) fn same_document(found: &Found<memory_core::Document, i64>, has_history: bool) -> Document {
    let Found { record, version } = found;
    let mut same = doc! {
        "_id": document_key(&record.collection, &record.id),
        // Null also stands for none.
        "entry": (*version != 0).then_some(*version),
        "revision": i64::from(record.revision),
        "createdAt": record.created_at.as_millis(),
        "updatedAt": record.updated_at.map(Timestamp::as_millis),
    };
    if !has_history {
        same.insert("spaceId", record.space_id.as_str());
        same.insert("metadata", record.metadata.as_str());
        same.insert("content", record.content.as_str());
        // What was put again without its time is not what has expired.
        same.insert("expiresAt", record.expires_at.map(Timestamp::as_millis));
    }
    same
}

/// What is done to a document before it is deleted, in the same transaction: the deletion itself tells the feed of no space. That is empty for
/// an erasure, of which the feed has the tombstone.
pub(crate) fn removed(found: &Found<memory_core::Document, i64>, space: &str, has_history: bool) -> Document {
    // One that an older program has written is not refused.
    let set = doc! { "removed": space, "written": written(found.record.revision) };
    doc! { "q": same_document(found, has_history), "u": { "$set": set } }
}

/// The statements that change a memory into its next version, of which one finds it while it is the one that was read. The first one leaves its
/// vector where it is: it finds a row whose vector is of the texts that stay. The other one takes away what may be the vector of other texts.
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

/// What changes a memory into its next version: only the fields that differ. The words that an older program has left in the row go, since
/// beside them a longer text might have no room.
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

/// The conditions of the lists that a walk of the ledger goes along, which the server merges.
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

/// The condition of the documents of a collection that a walk goes along.
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

/// What the rows of these lists have that are left to a walk, unless there are none.
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

/// The ranges of time that together hold what is left; none when nothing is.
fn ranges<K: Stored>(walk: &Walk<'_>) -> Vec<Document> {
    // The bounds of a walk are exclusive.
    let mut from = walk.created_after.map_or(Timestamp::MIN.as_millis(), |after| after.as_millis() + 1);
    let mut to = walk.created_before.map_or(Timestamp::MAX.as_millis(), |before| before.as_millis() - 1);
    let mut ranges = Vec::with_capacity(2);
    if let Some(Mark { millis, id }) = walk.behind {
        let operator = if walk.order == Order::NewestFirst { "$lt" } else { "$gt" };
        // One millisecond as a range: after a single value the server would sort the lists instead of merging them.
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

/// What finds the sessions of transactions whose programs are gone, as one list: their connection is closed, and they wait. Of a program
/// that goes on, the connection may have been opened while the server looked: its transaction has not waited for long.
pub(crate) fn abandoned(program: &str) -> [Document; 6] {
    let name = doc! { "$split": ["$clientMetadata.driver.name", "|"] };
    [
        // Of the user's own: that needs no privilege.
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
