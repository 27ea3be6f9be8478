//! An agent that remembers what it is told, on an embedded SQLite file and without a model.
//!
//! ```sh
//! cargo run -p agent-memory-runtime --example tasks -- "I adopted a cat" "Ben plays chess" "Who has a cat?"
//! ```
//!
//! Each line is a task: the agent looks for what it was told before, answers with it, and saves the line. It remembers
//! from one run to the next, and finishes first what a run that was killed has left. Without arguments it reads lines
//! from standard input.

use std::env;
use std::io::{self, BufRead};
use std::path::Path;
use std::sync::Arc;

use memory_core::plugin::Arguments;
use memory_core::{Clock, Error, Result, SpaceId, SystemClock};
use memory_runtime::{
    ContextContent, ContextItem, ContextKind, Finished, FixedPlanner, NewTask, Pipeline, Runtime, Space, Step,
};
use serde::Deserialize;
use serde_json::json;

#[tokio::main]
async fn main() -> Result<()> {
    let agent = Agent::start(Path::new("data/agent.db")).await?;
    for answer in agent.recover().await? {
        println!("(left from last time) {answer}");
    }
    let arguments: Vec<String> = env::args().skip(1).collect();
    if arguments.is_empty() {
        for line in io::stdin().lock().lines().map_while(io::Result::ok) {
            println!("{}", agent.hear(&line).await?);
        }
    }
    for line in arguments {
        println!("> {line}\n{}", agent.hear(&line).await?);
    }
    agent.stop().await
}

/// A runtime with a fixed pipeline, and how to talk to it.
#[derive(Debug)]
pub(crate) struct Agent {
    runtime: Runtime,
}

impl Agent {
    /// Starts it on a file, which is made if it is not there.
    pub(crate) async fn start(file: &Path) -> Result<Self> {
        let memory = memory_runtime::open(&format!("sqlite://{}", file.display()))?;
        let heard = json!({ "$task": "/trigger/text" });
        let recall = json!({ "text": heard.clone(), "limit": 3 });
        let pipeline = Pipeline {
            steps: vec![
                memory_step("memory:query", &recall)?,
                memory_step("memory:add_document", &json!({ "content": heard }))?,
            ],
        };
        let runtime = Runtime::builder()
            .memory(memory)
            .planner(Arc::new(FixedPlanner::new(pipeline)))
            .collections(["notes".parse()?])
            // The same after a restart, which then finds its tasks again at once.
            .instance("agent")
            .build()
            .await?;
        Ok(Self { runtime })
    }

    /// Answers a line with what it reminds of.
    pub(crate) async fn hear(&self, line: &str) -> Result<String> {
        let now = SystemClock.now();
        let content = ContextContent::from_value(&json!({ "text": line }))?;
        let trigger = ContextItem::trigger("terminal", content, now);
        // Each event has an address of its own, below that of the conversation.
        let space = Space::within("terminal".parse()?, SpaceId::parse(format!("terminal-{}", trigger.id))?)?;
        let task = self.runtime.submit(NewTask::new(space, trigger)).await?;
        answer(&task.wait().await?)
    }

    /// Finishes what was left over.
    pub(crate) async fn recover(&self) -> Result<Vec<String>> {
        let mut answers = Vec::new();
        for task in self.runtime.recover().await? {
            answers.push(answer(&task.wait().await?)?);
        }
        Ok(answers)
    }

    /// Waits for what is going on, and closes the file.
    pub(crate) async fn stop(self) -> Result<()> {
        self.runtime.shutdown().await
    }
}

fn memory_step(action: &str, arguments: &serde_json::Value) -> Result<Step> {
    Ok(Step { plugin_id: "memory".to_owned(), action: action.to_owned(), arguments: Arguments::from_value(arguments)? })
}

#[derive(Deserialize)]
struct Recalled {
    records: Vec<Note>,
}

#[derive(Deserialize)]
struct Note {
    content: String,
}

/// What the first step has found, in words.
fn answer(finished: &Finished) -> Result<String> {
    let result = finished.chain.iter().find(|item| item.kind == ContextKind::Result);
    let result = result.ok_or_else(|| Error::invalid(failure(finished)))?;
    let notes = result.content.to_value::<Recalled>()?.records;
    if notes.is_empty() {
        return Ok("I remember nothing of it yet, and keep it in mind.".to_owned());
    }
    let notes: Vec<_> = notes.into_iter().map(|note| note.content).collect();
    Ok(format!("I remember: {}", notes.join("; ")))
}

fn failure(finished: &Finished) -> String {
    let last = finished.chain.last().map(|item| item.content.as_str()).unwrap_or_default();
    format!("the task failed: {last}")
}
