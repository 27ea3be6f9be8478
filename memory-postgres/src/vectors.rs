//! Vectors: one row for each record that has one, in a table for each kind of record. Triggers delete it when the
//! record is removed or its text changes.

use std::collections::{BTreeMap, HashSet};

use memory_core::engine::{Embed, EmbedRecord, corrupt};
use memory_core::{Collection, DocumentId, Outcome, RecordId, Result};
use sqlx::postgres::PgRow;

use crate::connection::Session;
use crate::row::{column, memory_id};
use crate::statements::id_to_sql;

/// Returns the vectors of these records; those without one are left out.
pub(crate) async fn vectors(session: &mut Session, of: &[RecordId]) -> Result<Vec<(RecordId, Vec<u8>)>> {
    let (mut memories, mut collections, mut documents) = (Vec::new(), Vec::new(), Vec::new());
    for record in of {
        match record {
            RecordId::Memory(id) => memories.push(id_to_sql(*id)),
            RecordId::Document { collection, id } => {
                collections.push(collection.as_str());
                documents.push(id.as_str());
            }
        }
    }
    let mut vectors: Vec<(RecordId, Vec<u8>)> = Vec::new();
    if !memories.is_empty() {
        for row in session.rows(session.statement(|on| &on.memory_vectors).bind(memories)).await? {
            vectors.push((memory_id(&row)?.into(), column(&row, 1)?));
        }
    }
    if !documents.is_empty() {
        let found = session.statement(|on| &on.document_vectors).bind(collections).bind(documents);
        for row in session.rows(found).await? {
            vectors.push((document_name(&row)?, column(&row, 2)?));
        }
    }
    Ok(vectors)
}

/// Stores vectors beside the records that are still as they were read: one statement for memories, and one for
/// documents.
pub(crate) async fn embed(session: &mut Session, embeds: &[Embed<'_, i64>]) -> Result<Vec<bool>> {
    // Sorted by id, so that all transactions take their locks in the same order. Of several for one record the last one
    // stays.
    let (mut memories, mut documents) = (BTreeMap::new(), BTreeMap::new());
    for Embed { found, vector } in embeds {
        match found {
            EmbedRecord::Memory(found) => {
                memories.insert(found.record.id, (found.version, vector.as_slice()));
            }
            EmbedRecord::Document(found) => {
                let name = (&found.record.collection, &found.record.id);
                documents.insert(name, (found.version, vector.as_slice()));
            }
        }
    }
    let mut kept = HashSet::<RecordId>::new();
    if !memories.is_empty() {
        let ids: Vec<_> = memories.keys().copied().map(id_to_sql).collect();
        let (versions, vectors): (Vec<_>, Vec<_>) = memories.into_values().unzip();
        let embed = session.statement(|on| &on.embed_memories).bind(ids).bind(versions).bind(vectors);
        for row in session.written_rows(embed).await? {
            kept.insert(memory_id(&row)?.into());
        }
    }
    if !documents.is_empty() {
        let (collections, ids): (Vec<_>, Vec<_>) =
            documents.keys().map(|(collection, id)| (collection.as_str(), id.as_str())).unzip();
        let (versions, vectors): (Vec<_>, Vec<_>) = documents.into_values().unzip();
        let embed = session.statement(|on| &on.embed_documents).bind(collections).bind(ids);
        let rows = session.written_rows(embed.bind(versions).bind(vectors)).await;
        // By then those of memories are stored.
        let earlier = Outcome::unknown_if(!kept.is_empty());
        for row in rows.map_err(|error| error.after(earlier))? {
            kept.insert(document_name(&row)?);
        }
    }
    Ok(embeds.iter().map(|embed| kept.contains(&embed.found.id())).collect())
}

/// Reads the document that the first two columns name.
fn document_name(row: &PgRow) -> Result<RecordId> {
    let collection = Collection::parse(column::<&str>(row, 0)?).map_err(corrupt)?;
    let id = DocumentId::parse(column::<&str>(row, 1)?).map_err(corrupt)?;
    Ok((collection, id).into())
}
