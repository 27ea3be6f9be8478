//! A database to copy and to show.

use super::{Cli, fixture};

/// The checks of a doctor.
pub(crate) const CHECKS: [&str; 11] = [
    "connection",
    "schema",
    "indexes",
    "feed",
    "clock",
    "version",
    "durability",
    "recall",
    "newest memory",
    "open work",
    "write and read",
];

/// The recorded conversation with a changed memory and one with a key in it, and documents in several collections besides.
pub(crate) fn filled() -> Cli {
    let cli = Cli::new();
    cli.ok(&["import", &fixture()]);
    let id = cli.ok(&["store", "--space", "changed-1", "--trigger", "0", "--context", "null"]);
    cli.ok(&[
        "update",
        id.trim(),
        "--status",
        "failed",
        "--merge-metadata",
        r#"{"n":1e2,"z":[null,18446744073709551615]}"#,
    ]);
    cli.ok(&["prompt", "add", "--session", "s", "kept apart from what a model may use"]);
    for (collection, id) in [("notes", "a"), ("notes", "b"), ("other", "a")] {
        cli.ok(&["document", "put", "--collection", collection, "--id", id, "--space", "s", "--content", id]);
        cli.ok(&["document", "put", "--collection", collection, "--id", id, "--space", "s", "--content", "again"]);
    }
    cli.ok(&["store", "--space", "odd-1", "--trigger", r#"{"n":1.50,"s":"\u00e9"}"#, "--idempotency-key", "k"]);
    cli
}
