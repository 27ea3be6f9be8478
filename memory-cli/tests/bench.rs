//! `bench`, by the binary itself, at the smallest size: that it measures what it says, not how fast that is.

mod common;
#[path = "../examples/growth.rs"]
#[allow(dead_code)]
mod growth;

use std::time::{Duration, Instant};

use common::Cli;
use serde_json::Value;

const ROWS: u64 = 1_000;
const OPERATIONS: u64 = 20;
const CLIENTS: u64 = 4;

/// Name, clients and operations of every workload.
const WORKLOADS: [(&str, u64, u64); 23] = [
    ("load in batches of 1,000", 4, ROWS),
    ("exact, a room", 1, OPERATIONS),
    ("exact, a parent above half", 1, OPERATIONS),
    ("under, dense", 1, OPERATIONS),
    ("under, dense", CLIENTS, OPERATIONS),
    ("under, medium", 1, OPERATIONS),
    ("under, sparse", 1, OPERATIONS),
    ("under, stale", 1, OPERATIONS),
    ("prefix, siblings", 1, OPERATIONS),
    ("glob, a guild's channel", 1, OPERATIONS),
    ("filter under dense", 1, OPERATIONS),
    ("text under dense", 1, OPERATIONS),
    ("pending rows", 1, OPERATIONS),
    ("pending under dense", 1, OPERATIONS),
    ("a question under medium", 1, OPERATIONS),
    ("walk under dense, second page", 1, OPERATIONS),
    ("walk under dense, a last page", 1, OPERATIONS),
    ("get", 1, OPERATIONS),
    ("update", 1, OPERATIONS),
    ("store", 1, OPERATIONS),
    ("store", CLIENTS, OPERATIONS),
    ("store_many of 1,000", 1, OPERATIONS * 1_000),
    ("a store, until a watch tells of it", 1, OPERATIONS),
];

fn bench(cli: &Cli, url: &str, more: &[&str]) -> String {
    let (rows, operations, clients) = (ROWS.to_string(), OPERATIONS.to_string(), CLIENTS.to_string());
    let sizes = ["--rows", &rows, "--operations", &operations, "--clients", &clients, "--seconds", "600"];
    cli.ok(&[&["bench", "--url", url], sizes.as_slice(), more].concat())
}

fn check(report: &Value, engine: &str) {
    assert_eq!((&report["engine"], &report["rows"]), (&engine.into(), &ROWS.into()));
    let workloads = report["workloads"].as_array().expect("workloads");
    let found = workloads.iter().map(|workload| {
        let times = ["p50", "p95", "p99", "perSecond"].map(|name| workload[name].as_f64().expect("a number"));
        assert!(times.iter().all(|time| *time > 0.0) && times[0] <= times[1] && times[1] <= times[2], "{workload}");
        let number = |name: &str| workload[name].as_u64().expect("a count");
        (workload["name"].as_str().expect("a name"), number("clients"), number("operations"))
    });
    assert_eq!(found.collect::<Vec<_>>(), WORKLOADS);
}

#[test]
fn every_workload_is_measured_on_the_reference() {
    let report =
        bench(&Cli::new(), "memory:", &["--json", "--order", "random", "--spaces", "5,2,10", "--users", "uuid"]);
    let report: Value = serde_json::from_str(&report).expect("one JSON value");
    check(&report, "in-memory");
    assert_eq!((&report["order"], &report["users"]), (&"random".into(), &"uuid".into()));
    assert_eq!(report["spaces"], serde_json::json!([5, 2, 10]));
    assert_eq!(report["bytesPerMemory"], Value::Null);
}

#[test]
fn recalls_by_a_vector_are_measured_where_that_is_asked_for() {
    let report = bench(&Cli::new(), "memory:", &["--json", "--vectors", "1000,2000"]);
    let report: Value = serde_json::from_str(&report).expect("one JSON value");
    let workloads = report["workloads"].as_array().expect("workloads");
    assert_eq!(workloads.len(), WORKLOADS.len() + 6);
    for size in [1_000, 2_000] {
        for (name, operations) in [
            (format!("embed {size} in batches of 1,000"), size),
            (format!("a vector under {size}"), OPERATIONS),
            (format!("a question and a vector under {size}"), OPERATIONS),
        ] {
            let found = workloads.iter().find(|one| one["name"] == name.as_str()).expect("a workload");
            assert_eq!(found["operations"].as_u64(), Some(operations), "{name}");
        }
    }
    assert!(Cli::new().fails(2, &["bench", "--vectors", "9"]).contains("--vectors"));
}

#[test]
fn a_file_is_measured_and_gone_afterwards() {
    let cli = Cli::new();
    let (url, file) = (format!("sqlite://{}", cli.path("measured.db").display()), cli.path("report.json"));
    let shown = bench(&cli, &url, &["--payload", "100", "--report", &file.display().to_string()]);
    let report: Value = serde_json::from_slice(&std::fs::read(&file).expect("a report")).expect("JSON");
    check(&report, "sqlite");
    assert_eq!((&report["durability"], &report["payload"]), (&"durable".into(), &100.into()));
    let bytes = report["bytesPerMemory"].as_u64().expect("a size");
    assert!((150..2_000).contains(&bytes), "{bytes} bytes per memory");
    assert!(bytes as i64 > report["bytesBeyondTexts"].as_i64().expect("a size"));

    let figure = cli.path("growth.svg").display().to_string();
    growth::growth(&figure, &[file.display().to_string()]).expect("a figure");
    let figure = std::fs::read_to_string(figure).expect("a figure");
    assert!(figure.starts_with("<svg") && figure.contains("sqlite") && figure.contains("The newest 50"), "{figure}");

    let rows = shown.lines().filter(|line| line.starts_with("| ")).count();
    assert_eq!(rows, 1 + WORKLOADS.len(), "a head and a line for each workload: {shown}");
    let mut files: Vec<_> =
        cli.path("").read_dir().expect("the folder").flatten().map(|file| file.file_name()).collect();
    files.sort();
    assert_eq!(files, ["growth.svg", "report.json"], "nothing of the database");
}

#[cfg(unix)]
#[test]
fn each_recall_is_measured_on_cold_caches_too() {
    let cli = Cli::new();
    let url = format!("sqlite://{}", cli.path("measured.db").display());
    let emptied = cli.path("emptied").display().to_string();
    let report = bench(&cli, &url, &["--json", "--cold", &format!("echo once >> '{emptied}'; echo out")]);
    let report: Value = serde_json::from_str(&report).expect("one JSON value");
    let workloads = report["workloads"].as_array().expect("workloads");
    let named = |name: &str| workloads.iter().filter(|one| one["name"] == name).count();
    let cold: Vec<_> = workloads.iter().filter_map(|one| one["name"].as_str()?.strip_suffix(", cold")).collect();
    assert_eq!(cold.len(), 12);
    assert!(cold.iter().all(|name| named(name) >= 1), "{cold:?}");
    assert_eq!(std::fs::read_to_string(emptied).expect("a line for each time").lines().count(), cold.len());
    let short = ["bench", "--url", &url, "--rows", "1000", "--operations", "1", "--cold", "exit 3"];
    assert!(cli.fails(1, &short).contains("exit status: 3"));
    assert!(cli.fails(2, &["bench", "--url", "memory:", "--cold", "true"]).contains("--cold"));
}

#[test]
fn the_first_recall_waits_for_the_engine_to_settle() {
    let start = Instant::now();
    let sizes = ["--rows", "1000", "--operations", "1", "--settle", "1"];
    Cli::new().ok(&[&["bench", "--url", "memory:"], sizes.as_slice()].concat());
    assert!(start.elapsed() >= Duration::from_secs(1));
}

/// Only Linux reports the peak memory of a process.
#[cfg(target_os = "linux")]
#[test]
fn a_thousand_open_tasks_take_little_memory() {
    let peak = |clients: &str| {
        let cli = Cli::new();
        let url = format!("sqlite://{}", cli.path("measured.db").display());
        let sizes = ["--rows", "1000", "--clients", clients, "--operations", "2000", "--seconds", "1"];
        let report = cli.ok(&[&["bench", "--json", "--url", &url], sizes.as_slice()].concat());
        let report: Value = serde_json::from_str(&report).expect("one JSON value");
        report["peakResidentMib"].as_u64().expect("Linux tells")
    };
    // Most of the peak is the program's own file, which a debug build makes large.
    let (one, thousand) = (peak("1"), peak("1000"));
    assert!(thousand < one + 30, "{one} MiB for one task, {thousand} MiB for a thousand");
}

#[test]
fn mistakes_are_told_on_one_line() {
    let cli = Cli::new();
    assert!(cli.fails(2, &["bench", "--rows", "999"]).contains("--rows"));
    assert!(cli.fails(2, &["bench", "--spaces", "1,2"]).contains("--spaces: three whole numbers"));
    assert!(cli.fails(2, &["bench", "--url", "sqlite::memory:"]).contains("one handle only"));
    let sizes = ["--rows", "1000", "--operations", "1", "--report", "redis://app:secret@db/report.json"];
    let unwritten = cli.fails(1, &[&["bench", "--url", "memory:"], sizes.as_slice()].concat());
    assert!(unwritten.contains("named like a URL can't be written") && !unwritten.contains("secret"), "{unwritten}");
    assert!(!cli.path("memory.db").exists());
}
