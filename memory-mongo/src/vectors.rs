//! Vectors stored with records.
//!
//! A vector is a field of its record's row. So it is deleted and replaced together with the row, even by a program that
//! doesn't know about vectors; one search of a walk reads it with the rest of the row; and storing it is an update of
//! one row, without a transaction. It leaves the revision unchanged, so the feed skips it, also in a program of an
//! earlier version.
//!
//! A program of an earlier version that updates a memory leaves the vector in the row, possibly with other texts.
//! `written` shows that such a program wrote the row: the vector is then ignored, and the next update removes it.

use std::collections::HashMap;

use memory_core::engine::{Embed, EmbedRecord};
use memory_core::{Outcome, RecordId, Result};
use mongodb::ClientSession;
use mongodb::bson::raw::RawDocument;
use mongodb::bson::{Document, doc};

use crate::connection::{MongoSession, Rows};
use crate::erasure::{id, record_of};
use crate::error::{check, native_write};
use crate::find::{all, all_in};
use crate::row::{AT_ONCE, VECTOR, at_once, binary, bson, impossible, number, vector, written};
use crate::statements::{same_document, same_texts};

/// The vectors of these records.
pub(crate) async fn vectors(session: &MongoSession, of: &[RecordId]) -> Result<Vec<(RecordId, Vec<u8>)>> {
    let (memories, documents): (Vec<_>, Vec<_>) = of.iter().partition(|of| matches!(of, RecordId::Memory(_)));
    let mut found = Vec::new();
    for (rows, of) in [(&session.reads().memories, memories), (&session.reads().documents, documents)] {
        for some in of.chunks(AT_ONCE.0) {
            let find = rows.find(embedded(some)).projection(parts());
            found.extend(all(session, find, read).await?.into_iter().flatten());
        }
    }
    Ok(found)
}

/// The vectors of these documents, as a transaction sees them.
pub(crate) async fn vectors_in(
    session: &MongoSession,
    documents: &[&RecordId],
    transaction: &mut ClientSession,
) -> Result<HashMap<RecordId, Vec<u8>>> {
    let mut found = HashMap::new();
    for some in documents.chunks(AT_ONCE.0) {
        let find = session.on.primary.documents.find(embedded(some)).projection(parts());
        found.extend(all_in(session, find, transaction, read).await?.into_iter().flatten());
    }
    Ok(found)
}

/// Stores the vectors of records that have not changed since they were read, and returns for each whether it was
/// stored.
pub(crate) async fn embed(session: &MongoSession, embeds: &[Embed<'_, i64>]) -> Result<Vec<bool>> {
    let on = &session.on.primary;
    let is_of_memory = |place: &usize| matches!(embeds[*place].found, EmbedRecord::Memory(_));
    let (memories, documents): (Vec<usize>, Vec<usize>) = (0..embeds.len()).partition(is_of_memory);
    let mut kept = vec![false; embeds.len()];
    for (rows, places) in [(&on.memories, memories), (&on.documents, documents)] {
        let mut rest = places.as_slice();
        while !rest.is_empty() {
            let (some, others) = rest.split_at(at_once(rest.iter().map(|place| size(&embeds[*place]))));
            let together: Vec<_> = some.iter().map(|place| &embeds[*place]).collect();
            let are_kept = embed_together(session, rows, &together).await;
            let are_kept = are_kept.map_err(|error| error.after(Outcome::unknown_if(kept.contains(&true))))?;
            some.iter().zip(are_kept).for_each(|(place, is_kept)| kept[*place] = is_kept);
            rest = others;
        }
    }
    Ok(kept)
}

/// Stores vectors in one command, each by itself.
async fn embed_together(session: &MongoSession, rows: &Rows, embeds: &[&Embed<'_, i64>]) -> Result<Vec<bool>> {
    let updates: Vec<_> = embeds.iter().map(|embed| update(embed)).collect();
    let command = doc! {
        "update": rows.name(),
        "updates": updates,
        "ordered": false,
        "writeConcern": { "w": "majority", "j": true },
        "maxTimeMS": session.left()?.as_millis() as i64,
    };
    session.sends_write();
    let answer = session.on.database.run_command(command).await.map_err(native_write)?;
    let count = answer.get_i32("n").ok().and_then(|count| usize::try_from(count).ok()).unwrap_or_default();
    check(&answer).map_err(|error| error.after(Outcome::unknown_if(count > 0)))?;
    session.caught_up();
    if count == 0 || count == embeds.len() {
        return Ok(vec![count > 0; embeds.len()]);
    }
    // The server returns how many rows matched, but not which. Those have the vector they were given, unless somebody
    // has changed them since; a row that matches only after the command has no such vector. Of several vectors for one
    // record the last one counts.
    let unchanged: Vec<_> = embeds.iter().map(|embed| unchanged(embed)).collect();
    let find = rows.find(doc! { "$or": unchanged }).projection(parts());
    let present = all(session, find, read_at).await.map_err(|error| error.after(Outcome::Unknown))?;
    let present: HashMap<_, _> = present.into_iter().flatten().collect();
    let given: HashMap<_, _> = embeds.iter().map(|embed| (version(embed), embed.vector.as_slice())).collect();
    let is_kept = |embed: &&Embed<'_, i64>| {
        let version = version(embed);
        present.get(&version).map(Vec::as_slice) == given.get(&version).copied()
    };
    Ok(embeds.iter().map(is_kept).collect())
}

/// The statement that stores a vector. It also sets `written`, so that the rules for writers apply to it.
fn update(embed: &Embed<'_, i64>) -> Document {
    let set = doc! { VECTOR: binary(embed.vector.clone()), "written": written(embed.found.revision()) };
    doc! { "q": unchanged(embed), "u": { "$set": set } }
}

/// Matches the row if it has not changed since it was read. Whether there is a history is not known here, so the texts
/// are compared too.
fn unchanged(embed: &Embed<'_, i64>) -> Document {
    match embed.found {
        EmbedRecord::Memory(found) => same_texts(&found.record),
        EmbedRecord::Document(found) => same_document(found, false),
    }
}

/// The record and the revision that a vector belongs to.
fn version(embed: &Embed<'_, i64>) -> (RecordId, i64) {
    (embed.found.id(), embed.found.revision().into())
}

/// About how many bytes its statement has.
fn size(embed: &Embed<'_, i64>) -> usize {
    1_024 + embed.vector.len() + embed.found.size()
}

/// Matches the rows of these records that have a vector.
fn embedded(of: &[&RecordId]) -> Document {
    let ids: Vec<_> = of.iter().map(|record| id(record)).collect();
    doc! { "_id": { "$in": ids }, VECTOR: { "$exists": true } }
}

/// The fields that contain a vector and show whether it is valid.
pub(crate) fn parts() -> Document {
    doc! { VECTOR: 1, "revision": 1, "written": 1 }
}

fn read(row: &RawDocument) -> Result<Option<(RecordId, Vec<u8>)>> {
    let Some(vector) = vector(row) else { return Ok(None) };
    Ok(Some((record(row)?, vector.to_vec())))
}

/// A record at a revision.
type At = (RecordId, i64);

/// The same, with the revision of the record.
fn read_at(row: &RawDocument) -> Result<Option<(At, Vec<u8>)>> {
    let Some((record, vector)) = read(row)? else { return Ok(None) };
    Ok(Some(((record, number(row, "revision")?), vector)))
}

fn record(row: &RawDocument) -> Result<RecordId> {
    record_of(&bson(row, "_id")?).ok_or_else(|| impossible("_id"))
}
