//! Vectors beside records.
//!
//! A vector is a field of the row of its record. So it goes with the row, and with each replacement of the row, also by a program that does not
//! know of it; one search of a walk has it beside the rest of the row; and to keep one is an update of one row, for which no transaction is begun. It leaves
//! the revision as it is, by which the feed passes it over, also in a program of an earlier version.
//!
//! A program of an earlier version that updates a memory leaves the vector in the row, beside what may be another text. By `written` it shows that
//! it was there: such a vector counts no more, and the next update takes it away.

use std::collections::HashMap;

use memory_core::engine::{Embed, EmbedRecord};
use memory_core::{Error, Outcome, RecordId, Result, Revision};
use mongodb::ClientSession;
use mongodb::bson::raw::RawDocument;
use mongodb::bson::{Document, doc};

use crate::connection::{MongoSession, Rows};
use crate::erasure::{id, record_of};
use crate::error::{check, native_write};
use crate::read::{all, all_in};
use crate::row::{VECTOR, binary, bson, impossible, number, vector, written};
use crate::statements::{same_document, same_texts};
use crate::write::{AT_ONCE, at_once};

/// The vectors that these records have.
pub(crate) async fn vectors(session: &MongoSession, of: &[RecordId]) -> Result<Vec<(RecordId, Vec<u8>)>> {
    let (memories, documents): (Vec<_>, Vec<_>) = of.iter().partition(|of| matches!(of, RecordId::Memory(_)));
    let mut found = Vec::new();
    for (rows, of) in [(&session.reads.memories, memories), (&session.reads.documents, documents)] {
        for some in of.chunks(AT_ONCE.0) {
            let find = rows.find(embedded(some)).projection(parts());
            found.extend(all(session, find, read).await?.into_iter().flatten());
        }
    }
    Ok(found)
}

/// The vectors that these documents have, as a transaction sees them.
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

/// Keeps vectors beside records that are still what was read, and tells of each whether it is.
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
            let are_kept = are_kept.map_err(|error| after(error, kept.contains(&true)))?;
            some.iter().zip(are_kept).for_each(|(place, is_kept)| kept[*place] = is_kept);
            rest = others;
        }
    }
    Ok(kept)
}

/// Does so in one command, each by itself.
async fn embed_together(session: &MongoSession, rows: &Rows, embeds: &[&Embed<'_, i64>]) -> Result<Vec<bool>> {
    let updates: Vec<_> = embeds.iter().map(|embed| update(embed)).collect();
    let command = doc! {
        "update": rows.name(),
        "updates": updates,
        "ordered": false,
        "writeConcern": { "w": "majority", "j": true },
        "maxTimeMS": session.left()?.as_millis() as i64,
    };
    let answer = session.on.database.run_command(command).await.map_err(native_write)?;
    let count = answer.get_i32("n").ok().and_then(|count| usize::try_from(count).ok()).unwrap_or_default();
    check(&answer).map_err(|error| after(error, count > 0))?;
    if count == 0 || count == embeds.len() {
        return Ok(vec![count > 0; embeds.len()]);
    }
    // The server tells how many it has met, and not which. Those have the vector that they were given, unless somebody has changed them since; a
    // row that came to be what was read only behind the command has none. Of several for one record the last one counts.
    let unchanged: Vec<_> = embeds.iter().map(|embed| unchanged(embed)).collect();
    let find = rows.find(doc! { "$or": unchanged }).projection(parts());
    let present = all(session, find, read_at).await.map_err(|error| after(error, true))?;
    let present: HashMap<_, _> = present.into_iter().flatten().collect();
    let given: HashMap<_, _> = embeds.iter().map(|embed| (version(embed), embed.vector.as_slice())).collect();
    let is_kept = |embed: &&Embed<'_, i64>| {
        let version = version(embed);
        present.get(&version).map(Vec::as_slice) == given.get(&version).copied()
    };
    Ok(embeds.iter().map(is_kept).collect())
}

/// An error behind which some may have been kept.
fn after(error: Error, has_kept: bool) -> Error {
    if has_kept { error.after(Outcome::Unknown) } else { error }
}

/// The statement that keeps a vector. It says which program has written, as each does that the rules for writers are to see.
fn update(embed: &Embed<'_, i64>) -> Document {
    let set = doc! { VECTOR: binary(embed.vector.clone()), "written": written(revision(embed)) };
    doc! { "q": unchanged(embed), "u": { "$set": set } }
}

/// What finds the row while it is the one that was read. Whether there is a history nobody says here.
fn unchanged(embed: &Embed<'_, i64>) -> Document {
    match embed.found {
        EmbedRecord::Memory(found) => same_texts(&found.record),
        EmbedRecord::Document(found) => same_document(found, false),
    }
}

/// Of which record a vector is, at which revision.
fn version(embed: &Embed<'_, i64>) -> (RecordId, i64) {
    let record = match embed.found {
        EmbedRecord::Memory(found) => found.record.id.into(),
        EmbedRecord::Document(found) => (&found.record).into(),
    };
    (record, revision(embed).into())
}

fn revision(embed: &Embed<'_, i64>) -> Revision {
    match embed.found {
        EmbedRecord::Memory(found) => found.record.revision,
        EmbedRecord::Document(found) => found.record.revision,
    }
}

/// About how many bytes its statement has.
fn size(embed: &Embed<'_, i64>) -> usize {
    let texts = match embed.found {
        EmbedRecord::Memory(found) => found.record.size(),
        EmbedRecord::Document(found) => found.record.size(),
    };
    1_024 + embed.vector.len() + texts
}

/// What finds the rows of these records that have a vector.
fn embedded(of: &[&RecordId]) -> Document {
    let ids: Vec<_> = of.iter().map(|record| id(record)).collect();
    doc! { "_id": { "$in": ids }, VECTOR: { "$exists": true } }
}

/// What tells a vector, and whether it counts.
pub(crate) fn parts() -> Document {
    doc! { VECTOR: 1, "revision": 1, "written": 1 }
}

fn read(row: &RawDocument) -> Result<Option<(RecordId, Vec<u8>)>> {
    let Some(vector) = vector(row) else { return Ok(None) };
    Ok(Some((record(row)?, vector.to_vec())))
}

/// A record at a revision.
type At = (RecordId, i64);

/// The same with the revision of the record.
fn read_at(row: &RawDocument) -> Result<Option<(At, Vec<u8>)>> {
    let Some((record, vector)) = read(row)? else { return Ok(None) };
    Ok(Some(((record, number(row, "revision")?), vector)))
}

fn record(row: &RawDocument) -> Result<RecordId> {
    record_of(&bson(row, "_id")?).ok_or_else(|| impossible("_id"))
}
