//! The marks of what erasures have left to do, in the table of what programs have agreed on. They stay until it is done, also when a program
//! ends before.

use memory_core::Result;
use rusqlite::Connection;

use crate::statements::{self, column, execute, first};

/// That the file or its log may have what was erased.
pub(crate) const UNCLEAN: &str = "unclean";
/// That pages of the path index may be found by what was erased.
pub(crate) const UNCLEAN_PATHS: &str = "unclean_paths";

/// Sets a mark, or makes another one of it.
pub(crate) fn set(connection: &Connection, name: &str) -> Result<()> {
    execute(connection, statements::SET_MARK, [name]).map(drop)
}

/// What tells the mark from earlier and later ones, if it is set.
pub(crate) fn find(connection: &Connection, name: &str) -> Result<Option<String>> {
    first(connection, statements::AGREEMENT, [name], |row| column(row, 0))
}

/// Takes a mark away unless it is another one by now; whether it was there.
pub(crate) fn clear(connection: &Connection, name: &str, mark: &str) -> Result<bool> {
    Ok(execute(connection, statements::CLEAR_MARK, [name, mark])? > 0)
}
