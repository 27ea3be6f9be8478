//! What the files of an engine still hold of erased records.

use std::fs;

use crate::engine;
use crate::usage::Usage;

/// The largest SQLite file, in bytes, that each erasure rewrites.
const REWRITTEN: u64 = 65_536_000;
/// The default schema of PostgreSQL.
const SCHEMA: &str = "agent_memory";
/// The tables that held the records.
const TABLES: [&str; 8] = [
    "memories",
    "documents",
    "document_paths",
    "memory_history",
    "document_history",
    "memory_vectors",
    "document_vectors",
    "changes",
];

/// Describes what the engine of a URL still holds, and the command or the time that ends that.
pub(super) fn of(url: &str) -> Result<String, Usage> {
    let address = engine::parse(url)?;
    Ok(match address.engine_name() {
        "sqlite" => {
            let held = "nothing is left in its files: what is erased is overwritten, and the log is truncated as soon as nobody \
                        reads on from before";
            match fs::metadata(address.location()) {
                Ok(file) if file.len() > REWRITTEN => {
                    format!("{held}; but copies of rows that were moved within the file, before they went, until VACUUM")
                }
                _ => held.to_owned(),
            }
        }
        "postgres" => {
            let schema = parameter(url, "namespace").unwrap_or_else(|| SCHEMA.to_owned());
            let tables = TABLES.map(|table| format!("{schema}.{table}")).join(", ");
            format!(
                "its files hold dead rows until VACUUM FULL {tables}; pg_statistic has samples of short values until a superuser \
                 deletes those of these tables and runs VACUUM FULL pg_statistic; and the write-ahead log holds all of it until it is \
                 turned over, with its archive"
            )
        }
        "redis" => {
            "the append-only file holds them until BGREWRITEAOF, and the snapshot until the next BGSAVE; the slow log until SLOWLOG RESET, \
             and the backlog for replicas until other writes have filled it"
                .to_owned()
        }
        "mongo" => {
            "the oplog holds them until its oldest entry is younger than the erasure, which rs.printReplicationInfo() tells; and its \
             files in free pages until these are used again, or compact gives them back"
                .to_owned()
        }
        other => format!("what the files of {other} still hold is not known"),
    })
}

/// Returns a parameter of a URL.
fn parameter(url: &str, wanted: &str) -> Option<String> {
    let (_, parameters) = url.split_once('?')?;
    let mut found = form_urlencoded::parse(parameters.as_bytes()).filter(|(name, _)| name == wanted);
    found.next().map(|(_, value)| value.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_engine_says_what_ends_it() {
        let of = |url| of(url).expect("a URL");
        assert!(of("sqlite://a.db").starts_with("nothing is left"));
        assert!(of("postgres://h/d").contains("VACUUM FULL agent_memory.memories, agent_memory.documents, "));
        let named = of("postgresql://app:xyzzy@h/d?pool_size=2&namespace=tenant_7");
        assert!(named.contains("tenant_7.changes;") && !named.contains("xyzzy"), "{named}");
        assert!(of("redis+cluster://h").contains("BGREWRITEAOF") && of("mongodb+srv://h/d").contains("oplog"));
        assert!(super::of("mysql://h").is_err());
    }
}
