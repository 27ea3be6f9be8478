//! The console in a real browser, on SQLite and on PostgreSQL: the flows of `browser/main.js`.
//!
//! Node.js runs them with Debian's Chromium, or with the one that `MEMORY_TEST_CHROMIUM` names. `MEMORY_SCREENSHOTS`
//! names a folder for pictures of all pages; none are made without it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use common::embeddings::Embeddings;
use common::python::run;
use common::server::Server;
use common::servers::with_parameter;
use common::{Cli, TOKENS};
use conformance::CaseResult;
use conformance::server::{Missing, TestServer, trial};
use libtest_mimic::Arguments;

mod common;

/// How many flows there are at least, on each engine.
const FLOWS: usize = 30;

fn main() -> ExitCode {
    let trials = vec![
        trial("the_console_in_a_browser_on_sqlite", on_sqlite),
        trial("the_console_in_a_browser_on_postgres", on_postgres),
    ];
    // One after the other: each uses the whole machine, and two at once are not faster.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn on_sqlite() -> CaseResult {
    let chromium = chromium()?;
    let cli = Cli::new();
    let url = |name: &str| format!("sqlite://{}", cli.path(name).display());
    flows(&cli, &chromium, "sqlite", &url("memory.db"), &url("empty.db"))
}

fn on_postgres() -> CaseResult {
    let chromium = chromium()?;
    let server = TestServer::postgres()?;
    let url = |name: &str| with_parameter(server.url(), &format!("namespace={name}_{}", std::process::id()));
    flows(&Cli::new(), &chromium, "postgres", &url("browser"), &url("browser_empty"))
}

fn chromium() -> Result<PathBuf, Missing> {
    let named = std::env::var_os("MEMORY_TEST_CHROMIUM");
    let path = named.map_or_else(|| PathBuf::from("/usr/bin/chromium"), PathBuf::from);
    let missing = || format!("{} is not there; MEMORY_TEST_CHROMIUM names another", path.display());
    if path.exists() { Ok(path) } else { Err(Missing::new("chromium", missing())) }
}

/// Runs all flows on servers of a ledger that they fill, and of one that stays empty.
fn flows(cli: &Cli, chromium: &Path, engine: &str, url: &str, empty: &str) -> CaseResult {
    let folder = installed();
    let embeddings = Embeddings::start();
    let embedder = embeddings.options("test");
    let tokens = cli.write("tokens.toml", TOKENS);
    let start = |url: &str, args: &[&str]| Server::start(cli, &[&["--url", url], args].concat());
    // Nobody listens there: no page calls a language model.
    let agent = cli.write("agent.toml", "name = \"ada\"\nmodel = { url = \"http://127.0.0.1:9/v1\", model = \"m\" }\n");
    let open = start(url, &[&embedder[..], &["--agent", &agent]].concat());
    let closed = start(url, &["--tokens", &tokens]);
    let without = start(url, &["--no-console"]);
    let writable = start(url, &["--console-write"]);
    let empty = start(empty, &[]);
    let mut node = Command::new("node");
    node.args(["--test-reporter=tap", "main.js"]).current_dir(folder).env("MEMORY_CONSOLE_BROWSER", chromium);
    let servers =
        [("OPEN", &open), ("CLOSED", &closed), ("WITHOUT", &without), ("WRITABLE", &writable), ("EMPTY", &empty)];
    for (name, server) in servers {
        node.env(format!("MEMORY_CONSOLE_{name}"), format!("http://{}", server.address));
    }
    if let Some(folder) = std::env::var_os("MEMORY_SCREENSHOTS") {
        node.env("MEMORY_SCREENSHOTS", Path::new(&folder).join(engine));
    }
    let told = run(&mut node);
    let count = |what: &str| {
        let line = told.lines().find_map(|line| line.strip_prefix("# ")?.strip_prefix(what)?.trim().parse().ok());
        line.unwrap_or_else(|| panic!("no number of what {what}: {told}"))
    };
    let (passed, skipped): (usize, usize) = (count("pass "), count("skipped "));
    assert!(passed >= FLOWS && skipped == 0, "{passed} flows passed, {skipped} were skipped: {told}");
    Ok(())
}

/// The folder of the flows, with the packages that its lock file names.
fn installed() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser");
    // Both trials need them, and other test programs may run at the same time.
    let lock = File::open(folder.join("package-lock.json")).expect("the lock file of the packages");
    lock.lock().expect("the lock");
    let listed = std::fs::read(folder.join("package-lock.json")).expect("the lock file of the packages");
    // npm does not copy files that are identical byte for byte.
    let marker = folder.join("node_modules/.installed");
    if std::fs::read(&marker).ok().as_ref() != Some(&listed) {
        run(Command::new("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(&folder));
        std::fs::write(&marker, listed).expect("a marker");
    }
    folder
}
