//! Marks of pending clean-up after erasures, in the table of agreements. They stay until the work is done, also if the
//! program ends before.

use memory_core::Result;
use rusqlite::Connection;

use crate::statements::{self, column, execute, first};

/// The file or its log may still hold erased data.
pub(crate) const UNCLEAN: &str = "unclean";
/// Page keys of the path index may still hold erased data.
pub(crate) const UNCLEAN_PATHS: &str = "unclean_paths";

/// Sets a mark, with a new value.
pub(crate) fn set(connection: &Connection, name: &str) -> Result<()> {
    execute(connection, statements::SET_MARK, [name]).map(drop)
}

/// Returns the mark's current value, if it is set.
pub(crate) fn find(connection: &Connection, name: &str) -> Result<Option<String>> {
    first(connection, statements::AGREEMENT, [name], |row| column(row, 0))
}

/// Clears a mark if it still has this value; returns whether it was cleared.
pub(crate) fn clear(connection: &Connection, name: &str, mark: &str) -> Result<bool> {
    Ok(execute(connection, statements::CLEAR_MARK, [name, mark])? > 0)
}
