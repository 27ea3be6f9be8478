//! The schemas of the engines.

use crate::Step;

/// The writer version of this program. A step can set the lowest writer version that may write.
pub const WRITER: u32 = 9;
/// Added to the lowest writer version while a namespace is read-only, on engines that store it as a number: greater
/// than any version. A program that does not know of this fails as one that is too old.
pub const READ_ONLY: u32 = 1_000_000_000;
/// The name of the step that indexes documents by place, on every engine.
pub const PATHS: &str = "paths";
/// The name of the step that removes the word index, on every engine.
pub const NO_WORDS: &str = "no_words";

/// The name of the step that adds the feed of changes, on every engine.
pub const FEED: &str = "feed";
/// The name of the step that adds the history, on every engine.
pub const HISTORY: &str = "history";
/// The name of the step that adds erasure, on every engine.
pub const ERASURE: &str = "erasure";
/// The name of the step that adds expiry, on every engine.
pub const EXPIRY: &str = "expiry";
/// The name of the step that adds vectors, on every engine.
pub const VECTORS: &str = "vectors";

/// The steps of the SQLite schema, in ascending order.
pub fn sqlite() -> &'static [Step] {
    const {
        &[
            Step::quick(1, "ledger", include_str!("../sqlite/0001_ledger.sql")),
            Step::quick(2, "writers", include_str!("../sqlite/0002_writers.sql")),
            Step::backfill(2, PATHS, include_str!("../sqlite/0002_paths.sql")),
            Step::retired(2, "words", include_str!("../sqlite/0002_words.sql")),
            Step::backfill(3, NO_WORDS, include_str!("../sqlite/0003_no_words.sql")),
            Step::quick(4, FEED, include_str!("../sqlite/0004_feed.sql")),
            Step::quick(5, HISTORY, include_str!("../sqlite/0005_history.sql")),
            Step::quick(6, ERASURE, include_str!("../sqlite/0006_erasure.sql")),
            Step::quick(7, EXPIRY, include_str!("../sqlite/0007_expiry.sql")),
            Step::quick(8, VECTORS, include_str!("../sqlite/0008_vectors.sql")),
        ]
    }
}

/// The steps of the PostgreSQL schema, in ascending order. In their texts `{schema}` stands for the quoted name of the
/// target schema.
pub fn postgres() -> &'static [Step] {
    const {
        &[
            Step::quick(1, "ledger", include_str!("../postgres/0001_ledger.sql")),
            Step::quick(2, "writers", include_str!("../postgres/0002_writers.sql")),
            Step::quick(2, "secrets", include_str!("../postgres/0002_secrets.sql")),
            Step::backfill(2, PATHS, include_str!("../postgres/0002_paths.sql")),
            Step::retired(2, "words", include_str!("../postgres/0002_words.sql")),
            Step::quick(3, NO_WORDS, include_str!("../postgres/0003_no_words.sql")),
            Step::quick(4, FEED, include_str!("../postgres/0004_feed.sql")),
            Step::quick(5, HISTORY, include_str!("../postgres/0005_history.sql")),
            Step::quick(6, ERASURE, include_str!("../postgres/0006_erasure.sql")),
            Step::quick(7, EXPIRY, include_str!("../postgres/0007_expiry.sql")),
            Step::quick(8, VECTORS, include_str!("../postgres/0008_vectors.sql")),
        ]
    }
}

/// The steps of the MongoDB schema, in ascending order. Each text is a list of commands, each of which can be repeated.
/// The validator of a `collMod` is added to the rules that the collection already has.
pub fn mongo() -> &'static [Step] {
    const {
        &[
            Step::quick(1, "ledger", include_str!("../mongo/0001_ledger.json")),
            Step::quick(2, "writers", include_str!("../mongo/0002_writers.json")),
            Step::backfill(2, PATHS, include_str!("../mongo/0002_paths.json")),
            Step::retired(2, "words", include_str!("../mongo/0002_words.json")),
            Step::backfill(3, NO_WORDS, include_str!("../mongo/0003_no_words.json")),
            Step::quick(4, FEED, include_str!("../mongo/0004_feed.json")),
            Step::quick(5, HISTORY, include_str!("../mongo/0005_history.json")),
            Step::quick(6, ERASURE, include_str!("../mongo/0006_erasure.json")),
            Step::backfill(7, EXPIRY, include_str!("../mongo/0007_expiry.json")),
            Step::quick(8, VECTORS, include_str!("../mongo/0008_vectors.json")),
        ]
    }
}

/// The steps of the Redis schema, in ascending order. Each text is part of a script.
pub fn redis() -> &'static [Step] {
    const {
        &[
            Step::quick(1, "ledger", include_str!("../redis/0001_ledger.lua")),
            Step::backfill(2, "layout", include_str!("../redis/0002_layout.lua")),
            Step::backfill(2, PATHS, include_str!("../redis/0002_paths.lua")),
            Step::backfill(3, NO_WORDS, include_str!("../redis/0003_no_words.lua")),
            Step::quick(4, FEED, include_str!("../redis/0004_feed.lua")),
            Step::quick(5, HISTORY, include_str!("../redis/0005_history.lua")),
            Step::quick(6, ERASURE, include_str!("../redis/0006_erasure.lua")),
            Step::quick(7, EXPIRY, include_str!("../redis/0007_expiry.lua")),
            Step::quick(8, VECTORS, include_str!("../redis/0008_vectors.lua")),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn the_sqlite_schema_is_its_folder() {
        check("sqlite", "sql", sqlite());
    }

    #[test]
    fn the_postgres_schema_is_its_folder() {
        check("postgres", "sql", postgres());
    }

    #[test]
    fn the_mongo_schema_is_its_folder() {
        check("mongo", "json", mongo());
    }

    #[test]
    fn the_redis_schema_is_its_folder() {
        check("redis", "lua", redis());
    }

    /// The versions are consecutive from 1, and the folder holds exactly the listed files with the listed texts.
    fn check(engine: &str, extension: &str, steps: &[Step]) {
        let mut versions: Vec<_> = steps.iter().map(|step| step.version).collect();
        versions.dedup();
        let expected: Vec<_> = (1..).take(versions.len()).collect();
        assert_eq!(versions, expected, "the versions of {engine} have a gap or are out of order");

        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(engine);
        let files: BTreeMap<_, _> = fs::read_dir(&folder)
            .expect("the folder of the engine")
            .map(|entry| entry.expect("an entry of the folder"))
            .map(|entry| (entry.file_name(), fs::read_to_string(entry.path()).expect("a text file")))
            .collect();
        let listed: BTreeMap<_, _> = steps
            .iter()
            .map(|step| format!("{:04}_{}.{extension}", step.version, step.name).into())
            .zip(steps.iter().map(|step| step.text.to_owned()))
            .collect();
        assert_eq!(
            files.keys().collect::<Vec<_>>(),
            listed.keys().collect::<Vec<_>>(),
            "left is what the folder of {engine} holds, right is what is listed"
        );
        assert!(files == listed, "a listed version of {engine} embeds the file of another one");
    }
}
