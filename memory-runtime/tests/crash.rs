//! A runtime whose process is killed, on SQLite. The process is this test again, with a file.

use std::collections::BTreeSet;
use std::env;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use memory_core::plugin::AnswerJson;
use memory_core::{MemoryProvider, MemoryQuery, Order, Status};
use memory_runtime::{ContextKind, Runtime, RuntimeBuilder};
use memory_sqlite::{SqliteConfig, SqliteMemory};
use serde_json::json;
use tempfile::TempDir;

mod common;
use common::{Log, TestPlugin, chain, fixed, task};

/// The role of the other process, and its file.
const ROLE: &str = "MEMORY_TEST_ROLE";
const FILE: &str = "MEMORY_TEST_FILE";
const ROUNDS: usize = 8;

fn main() -> ExitCode {
    if let (Ok(role), Some(file)) = (env::var(ROLE), env::var_os(FILE)) {
        let played = block_on(live(&role, &PathBuf::from(file)));
        return if played.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let trials = vec![
        Trial::test("a_process_that_is_killed_between_steps_loses_none", || block_on(killed_between_steps())),
        Trial::test("a_process_that_is_killed_anywhere_loses_no_trigger", || block_on(killed_anywhere())),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn block_on(test: impl Future<Output = Result<(), Failed>>) -> Result<(), Failed> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(test)
}

/// A runtime whose tasks say `one`, `two` and `three` on standard output.
fn builder(file: &Path, log: &Log) -> Result<RuntimeBuilder, Failed> {
    let print = |arguments: serde_json::Value| async move {
        say(arguments["text"].as_str().unwrap_or_default());
        AnswerJson::from_value(&arguments)
    };
    let plugin = TestPlugin::new("test", log).on("print", print).saying().on("wait", |_| async {
        say("waiting");
        std::future::pending().await
    });
    let memory = Arc::new(SqliteMemory::open(SqliteConfig::new(file))?);
    // Each process has the same name, so none waits for the lease of the one before.
    Ok(Runtime::builder().memory(memory).plugin(plugin.build()).instance("crash-test"))
}

/// Prints a line for the parent, and flushes it.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).expect("the parent listens");
}

/// The life of the process that is killed.
async fn live(role: &str, file: &Path) -> Result<(), Failed> {
    let builder = builder(file, &Log::new())?;
    if role == "wait" {
        let steps = [("print", json!({ "text": "one" })), ("wait", json!({})), ("print", json!({ "text": "three" }))];
        let runtime = builder.planner(fixed(&steps)).build().await?;
        let task = runtime.submit(task("a", "a-1", 1)).await?;
        task.wait().await?;
        return Ok(());
    }
    let runtime = builder.planner(fixed(&three_steps())).build().await?;
    for number in 0_i64.. {
        let container = format!("c{}", number % 4);
        let task = runtime.submit(task(&container, &format!("{container}-{number}"), number)).await?;
        say(&format!("submitted {}", task.id()));
    }
    Ok(())
}

fn three_steps() -> [(&'static str, serde_json::Value); 3] {
    ["one", "two", "three"].map(|text| ("say", json!({ "text": text })))
}

fn start(role: &str, file: &Path) -> Result<(Child, Lines<BufReader<ChildStdout>>), Failed> {
    let mut command = Command::new(env::current_exe()?);
    let mut child = command.env(ROLE, role).env(FILE, file).stdout(Stdio::piped()).spawn()?;
    let lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
    Ok((child, lines))
}

async fn killed_between_steps() -> Result<(), Failed> {
    let folder = TempDir::new()?;
    let file = folder.path().join("memory.db");
    let (mut child, lines) = start("wait", &file)?;
    for line in lines {
        if line? == "waiting" {
            break;
        }
    }
    child.kill()?;
    child.wait()?;

    let log = Log::new();
    let plan = fixed(&[("say", json!({ "text": "another plan" }))]);
    let plugin = TestPlugin::new("test", &log)
        .on("wait", |arguments| async move { AnswerJson::from_value(&arguments) })
        .on("print", {
            let log = log.clone();
            move |arguments| {
                log.push(common::Event::Plugin(arguments["text"].to_string()));
                async move { AnswerJson::from_value(&arguments) }
            }
        });
    let memory = Arc::new(SqliteMemory::open(SqliteConfig::new(&file))?);
    let runtime = Runtime::builder().memory(memory).plugin(plugin.build()).planner(plan).instance("crash-test");
    let runtime = runtime.build().await?;
    let mut tasks = runtime.recover().await?;
    let finished = tasks.pop().ok_or("the task is lost")?.wait().await?;
    assert!(tasks.is_empty());
    assert_eq!(finished.status, Status::Completed);
    assert_eq!(log.plugins(), ["test init", "\"three\""], "the plan goes on, and what was done is not done again");
    let results = finished.chain.iter().filter(|item| item.kind == ContextKind::Result);
    let results: Vec<_> = results.map(|item| item.content.as_str()).collect();
    assert_eq!(results, [r#"{"text":"one"}"#, "{}", r#"{"text":"three"}"#]);
    runtime.shutdown().await?;
    Ok(())
}

async fn killed_anywhere() -> Result<(), Failed> {
    let folder = TempDir::new()?;
    let file = folder.path().join("memory.db");
    let mut submitted = BTreeSet::new();
    for round in 0..ROUNDS {
        let (mut child, mut lines) = start("submit", &file)?;
        // Each round is killed at another place.
        for _ in 0..(1 + 7 * round) {
            submitted.insert(lines.next().ok_or("the process ended early")??);
        }
        child.kill()?;
        child.wait()?;
        // Lines that it printed before the kill count as well; the last one may be truncated.
        let told = lines.map_while(Result::ok).filter(|line| line.len() == "submitted ".len() + 36);
        submitted.extend(told);
    }
    let runtime = builder(&file, &Log::new())?.planner(fixed(&three_steps())).build().await?;
    for task in runtime.recover().await? {
        assert_eq!(task.wait().await?.status, Status::Completed);
    }
    runtime.shutdown().await?;

    let memory = SqliteMemory::open(SqliteConfig::new(&file))?;
    memory.init().await?;
    let mut completed = BTreeSet::new();
    let query = || MemoryQuery::builder().all().order(Order::OldestFirst).limit(1_000);
    let mut page = memory.query(&query().build()?).await?;
    loop {
        for memory in &page.memories {
            let results = chain(memory).iter().filter(|item| item.kind == ContextKind::Result).count();
            assert_eq!((memory.status, results), (Status::Completed, 3), "each step has one result");
            completed.insert(format!("submitted {}", memory.id));
        }
        let Some(next) = page.next else { break };
        page = memory.query(&query().cursor(&next).build()?).await?;
    }
    let lost: Vec<_> = submitted.difference(&completed).collect();
    assert!(lost.is_empty(), "{lost:?}");
    memory.shutdown().await?;
    Ok(())
}
