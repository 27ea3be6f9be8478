//! Erasure: removes records from all tables.

use std::rc::Rc;

use memory_core::engine::{Erasing, ErasingRecord, Found};
use memory_core::{Memory, RecordId, Result};
use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};

use crate::connection::Session;
use crate::marks;
use crate::paths::{self, Gone};
use crate::statements::{self, column, execute, first};
use crate::tombstones;
use crate::write::found_values;

/// Erases records in the session's transaction, all or none (E1).
pub(crate) fn erase(session: &mut Session, erasings: &[Erasing<'_, i64>]) -> Result<bool> {
    let (mut memories, mut documents) = (Vec::new(), Vec::new());
    for erasing in erasings {
        if !is_unchanged(&session.connection, erasing)? {
            return Ok(false);
        }
        match erasing.found {
            ErasingRecord::Memory(found) => memories.push(found),
            ErasingRecord::Document(found) => documents.push(found),
            ErasingRecord::Absent => {}
        }
    }
    if erasings.iter().any(|erasing| matches!(erasing.tombstone.record, RecordId::Memory(_))) {
        // Memories stored by this transaction count too. From here on appends search the tombstones.
        paths::insert(&session.connection, &mut session.paths)?;
        execute(&session.connection, statements::SET_NEXT_MEMORY, [])?;
        session.next_memory = None;
    }
    // An expired record is overwritten in place only. Copies that SQLite has moved, the log, and what the feed says of
    // it go away over time, because cleaning the file and scanning the feed would add their whole cost to each sweep,
    // and to each put over an expired document.
    let is_asked_for = erasings.iter().any(|erasing| !erasing.tombstone.is_of_expiry());
    if !memories.is_empty() && delete_memories(session, &memories)? && is_asked_for {
        marks::set(&session.connection, marks::UNCLEAN_PATHS)?;
    }
    let mut gone = memories.len() + documents.len();
    for Found { record, version } in documents {
        session.bytes += record.size();
        execute(&session.connection, statements::DELETE_DOCUMENT, [version])?;
    }
    if is_asked_for {
        gone += forget(session, erasings)?;
    }
    for Erasing { tombstone, .. } in erasings {
        gone += execute(&session.connection, statements::DELETE_HISTORY, [tombstone.record.to_key()])?;
        tombstones::insert(&session.connection, tombstone)?;
        session.feed.note_erasure(tombstone);
    }
    if is_asked_for {
        if gone > 0 {
            marks::set(&session.connection, marks::UNCLEAN)?;
        }
        // Also if nothing is left to erase, but an earlier erasure's clean-up is pending.
        session.has_erased |= marks::find(&session.connection, marks::UNCLEAN)?.is_some();
    }
    Ok(true)
}

fn is_unchanged(connection: &Connection, erasing: &Erasing<'_, i64>) -> Result<bool> {
    let is_there = match erasing.found {
        ErasingRecord::Memory(Found { record, version }) => {
            let parameters = params![version, record.id.as_bytes().as_slice(), i64::from(record.revision)];
            first(connection, statements::MEMORY_IS_UNCHANGED, parameters, |_| Ok(()))?
        }
        ErasingRecord::Document(found) => {
            let parameters = params_from_iter(found_values(found));
            first(connection, statements::DOCUMENT_IS_UNCHANGED, parameters, |_| Ok(()))?
        }
        ErasingRecord::Absent => {
            let found = match &erasing.tombstone.record {
                RecordId::Memory(id) => {
                    first(connection, statements::HAS_MEMORY, [id.as_bytes().as_slice()], |_| Ok(()))?
                }
                RecordId::Document { collection, id } => {
                    first(connection, statements::HAS_DOCUMENT, [collection.as_str(), id.as_str()], |_| Ok(()))?
                }
            };
            return Ok(found.is_none());
        }
    };
    Ok(is_there.is_some())
}

/// Deletes memories with their tokens and store times. The feed holds only their row numbers, which no other memory
/// gets. Returns whether the path index must be rewritten.
fn delete_memories(session: &mut Session, memories: &[&Found<Memory, i64>]) -> Result<bool> {
    session.stored_at = None;
    let mut gone = Gone::new();
    for Found { record, version } in memories {
        session.bytes += record.size();
        let slot = first(&session.connection, statements::DELETE_MEMORY, [version], |row| column::<i64>(row, 0))?;
        let tokens = paths::tokens(record.id, &record.space_id);
        gone.entry(slot.unwrap_or_default()).or_default().extend(tokens);
    }
    for Found { version, .. } in memories {
        execute(&session.connection, statements::DELETE_STORES, [version])?;
    }
    paths::remove(&session.connection, gone)
}

/// Clears the feed rows of documents, because they tell the documents' spaces; returns the number of rows.
fn forget(session: &mut Session, erasings: &[Erasing<'_, i64>]) -> Result<usize> {
    let mut names = Vec::new();
    for Erasing { tombstone, .. } in erasings {
        if let RecordId::Document { collection, id } = &tombstone.record {
            session.feed.forget(collection, id);
            names.push(Value::Text(format!("{}/{}", collection.as_str(), id.as_str())));
        }
    }
    if names.is_empty() {
        return Ok(0);
    }
    // The statement must not be the last owner of the list.
    let names = Rc::new(names);
    execute(&session.connection, statements::FORGET_CHANGES, [&names])
}
