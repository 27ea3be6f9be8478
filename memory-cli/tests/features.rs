//! What a program says about the parts that it was built without.

use common::Cli;

mod common;

#[test]
fn a_part_that_was_left_out_is_named_with_its_flag() {
    let cli = Cli::new();
    for (args, name, feature, is_built_in) in [
        // The arguments are wrong in any case.
        (&["bench", "--fly"][..], "bench", "bench", cfg!(feature = "bench")),
        (&["conformance", "--fly"], "conformance", "suite", cfg!(feature = "suite")),
        (&["health", "--url", "sqlite://a.db?fly=secret"], "SQLite", "sqlite", cfg!(feature = "sqlite")),
        (
            &["health", "--url", "postgres://app:secret@host/db?fly=1"],
            "PostgreSQL",
            "postgres",
            cfg!(feature = "postgres"),
        ),
        (&["health", "--url", "rediss://app:secret@host/0?fly=1"], "Redis", "redis", cfg!(feature = "redis")),
        (&["health", "--url", "mongodb://app:secret@host/db?fly=1"], "MongoDB", "mongo", cfg!(feature = "mongo")),
        (&["import", "--from", "maiar", "sqlite://"], "SQLite", "sqlite", cfg!(feature = "sqlite")),
    ] {
        let error = cli.fails(2, args);
        let expected = format!("this program was built without {name}: build it with --features {feature}");
        assert_eq!(error.contains(&expected), !is_built_in, "{args:?}: {error}");
        assert!(!error.contains("secret"), "{error}");
    }
}
