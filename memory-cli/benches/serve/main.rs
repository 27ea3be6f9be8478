//! What the server and `copy` cost beside the library in process. The machine decides on the figures: what counts is how those of
//! one run compare.
//!
//! - `cargo bench -p agent-memory-cli --features bench,postgres -- stdio`: `memory_query` over the standard streams, on 100,000 documents in SQLite
//! - `… -- rest`: a store over REST, at 64 connections on PostgreSQL
//! - `… -- copy`: `copy` of 1,000,000 memories from SQLite to PostgreSQL, with the memory that it takes
//! - `… -- console`: the pages of the console beside the same calls of REST, on 1,000,000 memories in SQLite and PostgreSQL
//! - `… -- hostile`: stores over REST beside 200 hostile callers, on SQLite or at the `MEMORY_BENCH_URL` of an empty database
//!
//! - `… -- watch`: 1,000 who watch over REST, on SQLite or at the `MEMORY_BENCH_URL` of an empty database
//!
//! `MEMORY_BENCH_ROWS` makes it another number of documents, memories or watches.

mod console;
mod copy;
mod hostile;
mod rest;
mod stdio;
mod watch;

use std::process::{Child, Command};
use std::time::Duration;

fn main() {
    // Cargo adds options of its own.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let benches: [(&str, fn()); 6] = [
        ("stdio", stdio::run),
        ("rest", rest::run),
        ("copy", copy::run),
        ("console", console::run),
        ("hostile", hostile::run),
        ("watch", watch::run),
    ];
    for (name, run) in benches {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            run();
        }
    }
}

/// The binary on a database.
fn agent_memory(url: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agent-memory"));
    command.env("AGENT_MEMORY_URL", url);
    command
}

/// How many rows to work on.
fn rows(usual: usize) -> usize {
    std::env::var("MEMORY_BENCH_ROWS").ok().and_then(|rows| rows.parse().ok()).unwrap_or(usual)
}

/// The most resident memory that a process ever had, in bytes.
fn most_resident(child: &Child) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let mark = text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
    mark.unwrap_or(0) * 1_024
}

/// A value of sorted samples: the median at 0.5.
fn quantile(sorted: &[Duration], quantile: f64) -> Duration {
    sorted[((sorted.len() - 1) as f64 * quantile) as usize]
}

fn millis(duration: Duration) -> String {
    format!("{:.2} ms", duration.as_secs_f64() * 1_000.0)
}
