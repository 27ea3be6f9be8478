//! All engines that are servers, by the binary itself.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread::scope;

use common::events::{Events, store};
use common::sample::{CHECKS, filled};
use common::server::{Mcp, Server};
use common::servers::Servers;
use common::{Cli, eventually, stderr};
use conformance::server::postgres::LocalPostgres;
use serde_json::json;

mod common;

#[test]
fn a_copy_through_the_engines_is_byte_for_byte_the_same() {
    let cli = filled();
    let before = cli.ok(&["export"]);
    let name = format!("copy_{}", std::process::id());
    let servers = Servers::start();
    let mut urls = vec![format!("sqlite://{}", cli.path("memory.db").display())];
    urls.extend(servers.urls(&name));
    urls.push(format!("sqlite://{}", cli.path("copy.db").display()));
    for pair in urls.windows(2) {
        let told = cli.ok(&["--url", &pair[0], "copy", "--to", &pair[1], "--json"]);
        assert!(told.contains(r#""verified":true"#), "{told}");
        let again = cli.ok(&["--url", &pair[0], "copy", "--to", &pair[1], "--json"]);
        assert!(again.contains(r#""written":0"#), "a repetition writes nothing: {again}");
        assert_eq!(cli.ok(&["--url", &pair[1], "export"]), before);
        let told = cli.ok(&["--url", &pair[1], "doctor"]);
        for check in CHECKS {
            // Redis without a log is at risk, and says so.
            let is_told = |line: &str| line[5..].starts_with(&format!("{check}: ")) && !line.starts_with("BAD");
            assert!(told.lines().any(is_told), "{check} in {told}");
        }
    }
}

/// Eight programs start at the same time on a ledger that does not exist yet: each makes it or finds it (L1).
#[test]
fn eight_programs_begin_one_ledger() {
    let (cli, servers) = (Cli::new(), Servers::start());
    let mut urls = servers.urls(&format!("eight_{}", std::process::id())).to_vec();
    urls.push(format!("sqlite://{}", cli.path("eight.db").display()));
    for url in &urls {
        let begin = |number: usize| {
            let mut program = cli.command();
            program.args(["--url", url, "store", "--space", "s", "--trigger", &number.to_string()]);
            program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs")
        };
        let programs: Vec<_> = (0..8).map(begin).collect();
        for program in programs {
            let output = program.wait_with_output().expect("the binary ends");
            assert!(output.status.success(), "{url}: {}", stderr(&output));
        }
        assert_eq!(cli.count(&["--url", url, "--all"]), 8, "{url}");
        let told = cli.ok(&["--url", url, "doctor"]);
        assert!(!told.lines().any(|line| line.starts_with("BAD")), "{told}");
    }
}

#[test]
fn a_doctor_names_the_transaction_that_holds_the_feed_back() {
    // Which would write too.
    let server = LocalPostgres::start_with(&[("autovacuum", "off")]);
    let (cli, server) = (Cli::new(), server.unwrap_or_else(|missing| panic!("{}", missing.reason())));
    cli.ok(&["--url", server.url(), "migrate"]);
    let mut psql = Command::new(server.binaries().join("psql"));
    psql.args(["-XAtq", server.url()]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut psql = psql.spawn().expect("psql runs");
    let mut begin = psql.stdin.take().expect("it is piped");
    writeln!(begin, "BEGIN; SELECT pg_current_xact_id() > '0', 'xyzzy';").expect("psql reads");
    let mut begun = String::new();
    BufReader::new(psql.stdout.take().expect("it is piped")).read_line(&mut begun).expect("an answer");
    assert_eq!(begun, "t|xyzzy\n");
    // This row exists, and waits to be delivered.
    cli.ok(&["--url", server.url(), "store", "--space", "s", "--trigger", "1"]);
    let told = cli.ok(&["--url", server.url(), "doctor", "--read-only"]);
    let feed = told.lines().find(|line| line[5..].starts_with("feed: ")).expect("a line");
    assert!(feed.contains(" s for the transaction of process ") && feed.contains("application \"psql\""), "{feed}");
    assert!(!told.contains("xyzzy"), "{told}");
    drop(begin);
    psql.wait().expect("psql ends");
    let told = cli.ok(&["--url", server.url(), "doctor", "--read-only"]);
    assert!(told.lines().any(|line| line == "ok   feed: nothing holds it back"), "{told}");
}

const UPDATED: &str = "notifications/resources/updated";

#[test]
fn a_subscription_outlives_an_outage() {
    let server = LocalPostgres::start();
    let mut engine = server.unwrap_or_else(|missing| panic!("{}", missing.reason()));
    let cli = Cli::new();
    let server = Server::start(&cli, &["--url", engine.url(), "--stall-ms", "300"]);
    let client = Mcp::connect(&server);
    let events = Events::open(&server, "/mcp", &[("accept", "text/event-stream"), ("mcp-session-id", &client.session)]);
    assert!(client.ask("resources/subscribe", &json!({"uri": "memory://newest"})).contains(r#""result":{}"#));
    let (told, methods) = channel();
    let is_told = |wanted: &str| while methods.recv().expect("the session goes on") != wanted {};
    scope(|scope| {
        // The client answers the server's requests, whatever else happens.
        scope.spawn(move || {
            while let Some(event) = events.next() {
                let method = event.data["method"].as_str().unwrap_or_default().to_owned();
                if method == "ping" {
                    client.answer(&event.data["id"]);
                }
                let _ = told.send(method);
            }
        });
        store(&server, "before");
        is_told(UPDATED);
        engine.kill().expect("killed");
        // Requests continue while the watch fails to start again.
        for _ in 0..8 {
            is_told("ping");
        }
        engine.restart().expect("restarted");
        let body = json!({"spaceId": "behind", "trigger": 1}).to_string();
        eventually("a store", || server.post("/v1/memories", &body).status == 201);
        is_told(UPDATED);
        server.terminate();
    });
}

#[test]
fn a_server_is_ready_while_its_engine_answers() {
    let engine = LocalPostgres::start();
    let mut engine = engine.unwrap_or_else(|missing| panic!("{}", missing.reason()));
    let cli = Cli::new();
    // As long as each call waits for a connection while the engine is down.
    let server = Server::start(&cli, &["--url", &format!("{}?acquire_timeout_ms=1000", engine.url())]);
    assert_eq!(server.get("/readyz").status, 200);
    engine.kill().expect("killed");
    eventually("it is not ready", || server.get("/readyz").status == 503);
    let problem = server.get("/readyz");
    assert_eq!(problem.json()["retryable"], true, "{problem:?}");
    assert!(!problem.body.contains("PostgreSQL"), "it names no engine: {problem:?}");
    assert_eq!(server.get("/healthz").status, 200, "the process itself answers");
    // What proxies say with the same status changes nothing on a page; what the server says stands where the part was to be.
    for (path, place, swap) in [("/", "class=\"level\"", "innerHTML"), ("/console/live", "id=\"changes\"", "outerHTML")]
    {
        let page = server.request("GET", path, &[("hx-request", "true")], "");
        let (_, part) = page.body.split_once(place).unwrap_or_else(|| panic!("{page:?}"));
        assert!(page.status == 503 && part.contains("class=\"error\""), "{page:?}");
        assert_eq!(page.header("hx-reswap"), Some(swap), "{path}");
    }
    let error = cli.fails(1, &["probe", &server.address]);
    assert!(error.contains("the server is not ready: it answered 503"), "{error}");
    engine.restart().expect("restarted");
    eventually("it is ready again", || cli.run(&["probe", &server.address]).status.success());
}

#[test]
fn a_server_that_is_not_there_is_named_without_its_password() {
    let cli = Cli::new();
    let folder = cli.path("no socket").display().to_string();
    let url = format!("postgres://user:secret@{}/db", folder.replace('/', "%2F").replace(' ', "%20"));
    for command in [&["health"][..], &["migrate"], &["migrate", "--dry-run"]] {
        let error = cli.fails(1, &[command, &["--url", &format!("{url}?deadline_ms=200")]].concat());
        assert!(error.contains(&format!("PostgreSQL at {folder}/db")), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}

#[test]
fn a_server_of_maiar_that_is_not_there_is_named_without_its_password() {
    let cli = Cli::new();
    // The URL may have a password, so it may be in the environment.
    let mut command = cli.command();
    command.args(["import", "--from", "maiar"]).env("AGENT_MEMORY_FROM", "postgres://app:xyzzy@127.0.0.1:1/none");
    let output = command.output().expect("the binary runs");
    let error = common::stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("PostgreSQL at 127.0.0.1:1/none: can't be reached") && !error.contains("xyzzy"), "{error}");
}
