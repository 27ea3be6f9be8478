//! What is there of the schema, for operators.

use std::collections::BTreeSet;

use memory_core::{Inspection, Result};
use rusqlite::{Connection, OpenFlags};

use crate::config::{Location, SqliteConfig};
use crate::connection::{check_path, connect, open_file};
use crate::error::native;
use crate::migrate::{on_a_thread, run};

const NAMES: &str = "SELECT name FROM sqlite_schema";
const BYTES: &str = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";

/// Tells which tables and indexes of the schema are missing, and changes nothing. A database in memory is its provider's alone, and
/// misses none.
pub async fn inspect(config: &SqliteConfig) -> Result<Inspection> {
    let Location::File(path) = config.location.clone() else { return Ok(Inspection::default()) };
    let deadline = config.deadline;
    on_a_thread(move || {
        check_path(&path)?;
        let file = open_file(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let present = names(&file)?;
        let bytes: i64 = file.query_row(BYTES, [], |row| row.get(0)).map_err(native)?;
        let mut fresh = connect(&Location::Memory, deadline)?;
        run(&mut fresh)?;
        Ok(Inspection::new(names(&fresh)?.difference(&present).cloned().collect(), None, u64::try_from(bytes).ok()))
    })
    .await
}

fn names(connection: &Connection) -> Result<BTreeSet<String>> {
    let mut statement = connection.prepare(NAMES).map_err(native)?;
    let names = statement.query_map([], |row| row.get(0));
    names.and_then(Iterator::collect).map_err(native)
}
