//! What pages of memories and of documents have in common.

use memory_core::{Cursor, Spaces, Unreadable};
use serde::Serialize;
use utoipa::ToSchema;

use crate::serve::access::Access;

/// A row that is not a valid record.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UnreadableBody {
    /// Only for callers that may read every space, since the space of such a row can't be trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    reason: String,
}

/// What is said of rows that can't be read.
pub(crate) fn unreadable(rows: Vec<Unreadable>, access: &Access) -> Vec<UnreadableBody> {
    let shows_ids = access.readable == Spaces::All;
    rows.into_iter().map(|row| UnreadableBody { id: shows_ids.then_some(row.id), reason: row.reason }).collect()
}

pub(crate) fn next(cursor: Option<Cursor>) -> Option<String> {
    cursor.map(|cursor| cursor.to_string())
}
