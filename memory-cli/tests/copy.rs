//! Moving data between engines, and looking at one.

use common::{Cli, fixture, stderr, stdout};
use conformance::server::mongo::MongoServer;
use conformance::server::postgres::PostgresServer;

mod common;

/// What the folder's own database holds, and documents in two collections besides.
fn filled() -> Cli {
    let cli = Cli::new();
    cli.ok(&["import", &fixture()]);
    for (collection, id) in [("notes", "a"), ("notes", "b"), ("other", "a")] {
        cli.ok(&["document", "put", "--collection", collection, "--id", id, "--space", "s", "--content", id]);
        cli.ok(&["document", "put", "--collection", collection, "--id", id, "--space", "s", "--content", "again"]);
    }
    cli.ok(&["store", "--space", "odd-1", "--trigger", r#"{"n":1.50,"s":"\u00e9"}"#, "--idempotency-key", "k"]);
    cli
}

#[test]
fn a_copy_through_the_engines_is_byte_for_byte_the_same() {
    let cli = filled();
    let before = cli.ok(&["export"]);
    let postgres = PostgresServer::start().unwrap_or_else(|missing| panic!("{}", missing.reason()));
    let mongo = MongoServer::start().unwrap_or_else(|missing| panic!("{}", missing.reason()));
    let name = format!("copy_{}", std::process::id());
    let sign = if postgres.url().contains('?') { '&' } else { '?' };
    let mut urls = vec![
        format!("sqlite://{}", cli.path("memory.db").display()),
        format!("{}{sign}namespace={name}", postgres.url()),
        // The namespace of MongoDB is its database.
        match mongo.url().split_once("/?") {
            Some((address, options)) => format!("{address}/{name}?{options}"),
            None => format!("{}/{name}", mongo.url().trim_end_matches('/')),
        },
    ];
    urls.push(format!("sqlite://{}", cli.path("copy.db").display()));
    for pair in urls.windows(2) {
        let told = cli.ok(&["--url", &pair[0], "copy", "--to", &pair[1], "--json"]);
        assert!(told.contains(r#""verified":true"#), "{told}");
        let again = cli.ok(&["--url", &pair[0], "copy", "--to", &pair[1], "--json"]);
        assert!(again.contains(r#""written":0"#), "a repetition writes nothing: {again}");
    }
    assert_eq!(cli.ok(&["--url", &urls[urls.len() - 1], "export"]), before);
}

#[test]
fn a_copy_takes_what_is_selected_and_spares_what_is_there() {
    let cli = filled();
    let target = format!("sqlite://{}", cli.path("copy.db").display());
    let told = cli.ok(&["copy", "--to", &target, "--under", "odd", "--json"]);
    assert!(told.contains(r#""memories":1"#) && told.contains(r#""documents":0"#), "{told}");
    let id = cli.ok(&["--url", &target, "query", "--all", "--json"]);
    let id = id.split('"').nth(3).expect("an id").to_owned();
    cli.ok(&["--url", &target, "update", &id, "--status", "failed"]);
    let output = cli.run(&["copy", "--to", &target, "--json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains(r#""conflicts":1"#) && stdout(&output).contains(r#""verified":false"#));
    assert!(stderr(&output).contains(&id), "{}", stderr(&output));
    let kept = cli.ok(&["--url", &target, "get", &id, "--json"]);
    assert!(kept.contains(r#""status":"failed""#), "{kept}");
    let source = format!("sqlite://{}", cli.path("memory.db").display());
    assert!(cli.fails(2, &["copy", "--to", &source]).contains("--to"));
    assert!(cli.fails(2, &["copy", "--to", "nothing"]).contains("--to"));
}

#[test]
fn a_doctor_tells_what_works_and_leaves_no_trace() {
    let cli = filled();
    let before = cli.ok(&["export"]);
    let told = cli.ok(&["doctor"]);
    for check in ["connection", "version", "durability", "schema", "recall", "clock", "write and read"] {
        assert!(told.lines().any(|line| line.starts_with(&format!("ok   {check}: "))), "{check} in {told}");
    }
    assert_eq!(cli.ok(&["export"]), before);
    cli.ok(&["store", "--space", "s", "--trigger", "1", "--created-at", "8000000000000"]);
    assert!(cli.ok(&["doctor", "--read-only"]).contains("in the future"));
    cli.write(
        "broken.db",
        "not a database, but a text of more than a hundred bytes, which is what a header takes at the least....",
    );
    let broken = format!("sqlite://{}", cli.path("broken.db").display());
    let output = cli.run(&["--url", &broken, "doctor", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains(r#""finding":"bad""#), "{}", stdout(&output));
}
