//! Expiry: the lists of records with an expiry time of their own, which triggers maintain, and the removal of
//! tombstones that are due.

use memory_core::{RecordId, Result, Timestamp, Tombstone};

use crate::connection::Session;
use crate::row::column;
use crate::statements::id_to_sql;

/// Returns what expired by a time, in order, after a position. Skips an entry that can't be read because somebody
/// edited it.
pub(crate) async fn expired(
    session: &mut Session,
    by: Timestamp,
    behind: Option<&(Timestamp, RecordId)>,
    most: usize,
) -> Result<Vec<(Timestamp, RecordId)>> {
    // No record has an empty key.
    let mut place = behind.map_or((i64::MIN, Vec::new()), |(at, record)| (at.as_millis(), record.to_key()));
    let mut expired = Vec::new();
    loop {
        let wanted = most - expired.len();
        let next = session.statement(|on| &on.expired).bind(by.as_millis());
        let rows = session.rows(next.bind(place.0).bind(place.1.clone()).bind(wanted as i64)).await?;
        for row in &rows {
            place = (column(row, 0)?, column(row, 1)?);
            let at = Timestamp::from_millis(place.0).ok();
            expired.extend(at.zip(RecordId::from_key(&place.1)));
        }
        if rows.len() < wanted || expired.len() == most {
            return Ok(expired);
        }
    }
}

/// Deletes tombstones that are unchanged since they were read; a tombstone of a later erasure stays.
pub(crate) async fn forget(session: &mut Session, tombstones: &[Tombstone]) -> Result<()> {
    let (mut ids, mut of_memories) = (Vec::new(), Vec::new());
    let (mut collections, mut names, mut of_documents) = (Vec::new(), Vec::new(), Vec::new());
    for tombstone in tombstones {
        match &tombstone.record {
            RecordId::Memory(id) => {
                ids.push(id_to_sql(*id));
                of_memories.push(tombstone);
            }
            RecordId::Document { collection, id } => {
                collections.push(collection.as_str());
                names.push(id.as_str());
                of_documents.push(tombstone);
            }
        }
    }
    if !ids.is_empty() {
        let forget = session.statement(|on| &on.forget_memories).bind(ids);
        session.write(forget.bind(times(&of_memories)).bind(reasons(&of_memories))).await?;
    }
    if !names.is_empty() {
        let forget = session.statement(|on| &on.forget_documents).bind(collections).bind(names);
        session.write(forget.bind(times(&of_documents)).bind(reasons(&of_documents))).await?;
    }
    Ok(())
}

fn times(tombstones: &[&Tombstone]) -> Vec<i64> {
    tombstones.iter().map(|tombstone| tombstone.at.as_millis()).collect()
}

fn reasons<'t>(tombstones: &[&'t Tombstone]) -> Vec<&'t str> {
    tombstones.iter().map(|tombstone| tombstone.reason.as_str()).collect()
}
