//! A runtime that plans by a model.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use memory_core::{InMemory, Result, Status};
use memory_runtime::model::{Completion, Model, Prompt};
use memory_runtime::{ContextKind, Finished, ModelPlanner, Replanning, Runtime, RuntimeBuilder};
use serde_json::{Value, json};

mod common;
use common::{Log, TestPlugin, task};

/// A model that gives the answers of a list, and records its prompts.
#[derive(Debug)]
struct Scripted {
    answers: Mutex<Vec<Value>>,
    asked: Mutex<Vec<Prompt>>,
}

impl Scripted {
    fn new(answers: impl IntoIterator<Item = Value>) -> Self {
        Self { answers: Mutex::new(answers.into_iter().collect()), asked: Mutex::default() }
    }
}

#[async_trait]
impl Model for Scripted {
    async fn complete(&self, prompt: &Prompt) -> Result<Completion> {
        self.asked.lock().expect("no panic").push(prompt.clone());
        Ok(self.answers.lock().expect("no panic").remove(0).to_string().into())
    }
}

impl Scripted {
    /// The messages of a question: the system's, and that of the task.
    fn asked(&self, at: usize) -> Vec<String> {
        let asked = self.asked.lock().expect("no panic");
        asked[at].messages.iter().map(|message| message.content.clone()).collect()
    }

    fn questions(&self) -> usize {
        self.asked.lock().expect("no panic").len()
    }
}

fn say(text: &str) -> Value {
    json!({ "pluginId": "test", "action": "say", "arguments": { "text": text } })
}

fn fail() -> Value {
    json!({ "pluginId": "test", "action": "fail", "arguments": {} })
}

/// A runtime whose plugin says things, and fails when it is told to.
fn runtime(log: &Log) -> RuntimeBuilder {
    let plugin = TestPlugin::new("test", log).saying();
    let plugin = plugin.on("fail", |_| async { Err(memory_core::Error::invalid("the door is locked")) });
    Runtime::builder().memory(Arc::new(InMemory::new())).plugin(plugin.build())
}

/// Works on one task, and shuts down.
async fn finished(runtime: RuntimeBuilder) -> Finished {
    let runtime = runtime.build().await.expect("starts");
    let finished = runtime.submit(task("chat", "chat-1", 1)).await.expect("submitted").wait().await.expect("ended");
    runtime.shutdown().await.expect("ends");
    finished
}

#[tokio::test]
async fn a_model_plans_and_changes_its_plan_where_a_step_failed() {
    let unknown = json!({ "pluginId": "test", "action": "sing", "arguments": {} });
    let model = Arc::new(Scripted::new([
        json!({ "steps": [unknown] }),
        json!({ "steps": [say("first"), fail(), say("never")] }),
        json!({ "shouldModify": true, "explanation": "it failed", "steps": [say("instead"), say("last")] }),
    ]));
    let log = Log::new();
    let finished = finished(runtime(&log).model(Arc::<Scripted>::clone(&model))).await;
    assert_eq!(finished.status, Status::Completed);
    assert_eq!(log.plugins(), ["test init", "first", "instead", "last", "test shutdown"]);
    let kinds: Vec<_> = finished.chain.iter().map(|item| item.kind).collect();
    use ContextKind::{Error, Plan, Related, Result};
    assert_eq!(kinds, [Related, Plan, Result, Error, Plan, Result, Result]);
    assert!(model.asked(0)[0].starts_with("You plan "), "no instructions");
    assert!(model.asked(0)[0].contains(r#""action":"memory:query""#), "the model learns of the actions");
    assert!(model.asked(0)[1].contains(r#""event":{"text":"chat-1"}"#), "and of the event");
    let repair = model.asked(1).pop().expect("messages");
    assert!(repair.contains("/steps/0: no such action"), "{repair}");
    assert!(model.asked(2)[1].contains("the door is locked"), "the model learns of the failure");
    assert_eq!(model.questions(), 3, "nothing is asked after a step that did its work");
}

#[tokio::test]
async fn a_host_gives_instructions_and_has_each_step_looked_at() {
    let model = Arc::new(Scripted::new([
        json!({ "steps": [say("one"), say("two")] }),
        json!({ "shouldModify": true, "steps": [say("three")] }),
        json!({ "shouldModify": false }),
    ]));
    let planner = ModelPlanner::new(Arc::<Scripted>::clone(&model) as _).expect("schemas");
    let planner = planner.with_instructions(" You keep a diary.\n").with_replanning(Replanning::AfterEachStep);
    assert!(!format!("{planner:?}").contains("diary"), "{planner:?}");
    let log = Log::new();
    let finished = finished(runtime(&log).planner(Arc::new(planner))).await;
    assert_eq!(finished.status, Status::Completed);
    assert_eq!(log.plugins(), ["test init", "one", "three", "test shutdown"]);
    assert_eq!(model.questions(), 3);
    for (at, role) in [(0, "You plan "), (1, "You watch over "), (2, "You watch over ")] {
        assert!(model.asked(at)[0].starts_with(&format!("You keep a diary.\n\n{role}")), "{at}");
    }
}

#[tokio::test]
async fn the_steps_of_a_task_bound_what_its_model_is_asked() {
    let again = json!({ "shouldModify": true, "steps": [fail()] });
    let model = Arc::new(Scripted::new([json!({ "steps": [fail()] }), again.clone(), again.clone(), again]));
    let log = Log::new();
    let finished = finished(runtime(&log).model(Arc::<Scripted>::clone(&model)).max_steps(3)).await;
    assert_eq!((finished.status, model.questions()), (Status::Failed, 4), "the plan, and each of three failures");
    let last = finished.chain.last().expect("an error").content.as_str();
    assert!(last.contains("more than 3 steps"), "{last}");
}
