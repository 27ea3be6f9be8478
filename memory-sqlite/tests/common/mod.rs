//! A way into the file beside the provider.

use std::path::Path;

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;

/// A connection that may write: it says to be a program of this version.
pub(crate) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let file = Connection::open(path)?;
    let writer = |_: &rusqlite::functions::Context<'_>| Ok(migrations::WRITER);
    file.create_scalar_function("agent_memory_writer", 0, FunctionFlags::SQLITE_INNOCUOUS, writer)?;
    Ok(file)
}
