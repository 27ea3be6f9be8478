//! Runs the real binary on a file of its own.

// Each test binary uses a part of this.
#![allow(dead_code)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

use tempfile::TempDir;

pub(crate) mod console;
pub(crate) mod embeddings;
pub(crate) mod events;
pub(crate) mod lines;
pub(crate) mod moving;
#[path = "../../../memory-sqlite/tests/older/mod.rs"]
pub(crate) mod older;
pub(crate) mod python;
pub(crate) mod sample;
pub(crate) mod server;
pub(crate) mod servers;

/// A runtime that writes under `guild1`, and a model that reads and writes a space below it.
pub(crate) const TOKENS: &str = r#"
[[token]]
name = "runtime"
token = "runtime-0123456789abcdef"
read = ["all"]
write = "guild1"
collections = ["notes"]
ledger = "write"

[[token]]
name = "model"
token = "model-0123456789abcdef"
read = [{ under = "guild1-model" }]
write = "guild1-model"
collections = ["notes"]
"#;

/// A temporary folder with a database in it.
pub(crate) struct Cli {
    folder: TempDir,
}

impl Cli {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The file of a database.
    pub(crate) fn database(&self, name: &str) -> rusqlite::Connection {
        rusqlite::Connection::open(self.path(name)).expect("a database")
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).expect("a file in the temporary folder");
        path.display().to_string()
    }

    /// The binary on the database of this folder.
    pub(crate) fn command(&self) -> Command {
        let mut command = self.bare();
        command.env("AGENT_MEMORY_URL", format!("sqlite://{}", self.path("memory.db").display()));
        command
    }

    /// The binary without a URL, in this folder.
    pub(crate) fn bare(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agent-memory"));
        command.current_dir(self.folder.path()).env_remove("AGENT_MEMORY_URL").stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command().args(args).output().expect("the binary runs")
    }

    /// Standard output of a command that succeeds.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        stdout(&output)
    }

    /// The one line on standard error of a command that fails with this code.
    pub(crate) fn fails(&self, code: i32, args: &[&str]) -> String {
        let output = self.run(args);
        let errors = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {errors}");
        assert!(errors.starts_with("error: ") && errors.lines().count() == 1, "{errors}");
        assert_eq!(stdout(&output), "", "{args:?}");
        errors
    }

    /// A command that reads this from standard input.
    pub(crate) fn fed(&self, args: &[&str], input: &str) -> Output {
        let mut child = self
            .command()
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        child.stdin.take().expect("it is piped").write_all(input.as_bytes()).expect("the binary reads");
        child.wait_with_output().expect("the binary ends")
    }

    /// How many memories a selection finds.
    pub(crate) fn count(&self, selection: &[&str]) -> usize {
        let args: Vec<_> =
            ["query", "--json", "--limit", "1000"].into_iter().chain(selection.iter().copied()).collect();
        self.ok(&args).lines().count()
    }
}

/// Numbers that look like chance, the same for the same seed.
#[derive(Debug)]
pub(crate) struct Random {
    seed: u64,
}

impl Random {
    /// Begins at the time of day. Whoever uses it prints it first.
    pub(crate) fn new() -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a time after 1970");
        Self { seed: now.as_millis() as u64 }
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        // Knuth's MMIX generator; its high bits are the better ones.
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) as usize % bound
    }
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Well above what anything takes; it ends a test that would never end.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a condition holds that no event reports.
pub(crate) fn eventually(what: &str, condition: impl Fn() -> bool) {
    let limit = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < limit, "in vain: {what}");
        std::thread::yield_now();
    }
}

/// The recorded conversation that the tests import.
pub(crate) fn fixture() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/conversation.jsonl").display().to_string()
}
