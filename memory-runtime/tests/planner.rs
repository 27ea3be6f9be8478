//! A runtime that plans by a model.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use memory_core::{InMemory, Result, Status};
use memory_runtime::model::{Completion, Model, Prompt};
use memory_runtime::{ContextKind, Runtime};
use serde_json::{Value, json};

mod common;
use common::{Log, TestPlugin, task};

/// A model that answers from a list, and remembers what it was asked.
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

#[tokio::test]
async fn a_model_plans_and_changes_its_plan() {
    let say = |text: &str| json!({ "pluginId": "test", "action": "say", "arguments": { "text": text } });
    let fail = json!({ "pluginId": "test", "action": "fail", "arguments": {} });
    let unknown = json!({ "pluginId": "test", "action": "sing", "arguments": {} });
    let model = Arc::new(Scripted::new([
        json!({ "steps": [unknown] }),
        json!({ "steps": [fail, say("never")] }),
        json!({ "shouldModify": true, "explanation": "it failed", "steps": [say("instead"), say("last")] }),
        json!({ "shouldModify": false }),
        json!({ "shouldModify": false }),
    ]));
    let log = Log::new();
    let plugin = TestPlugin::new("test", &log).saying();
    let plugin = plugin.on("fail", |_| async { Err(memory_core::Error::invalid("the door is locked")) });
    let runtime = Runtime::builder().memory(Arc::new(InMemory::new())).plugin(plugin.build());
    let runtime = runtime.model(Arc::<Scripted>::clone(&model)).build().await.expect("starts");
    let finished = runtime.submit(task("chat", "chat-1", 1)).await.expect("submitted").wait().await.expect("ended");
    assert_eq!(finished.status, Status::Completed);
    assert_eq!(log.plugins(), ["test init", "instead", "last"]);
    let kinds: Vec<_> = finished.chain.iter().map(|item| item.kind).collect();
    use ContextKind::{Error, Plan, Related, Result};
    assert_eq!(kinds, [Related, Plan, Error, Plan, Result, Result]);
    let asked = model.asked.lock().expect("no panic").clone();
    let texts = |at: usize| asked[at].messages.iter().map(|message| message.content.as_str()).collect::<Vec<_>>();
    assert!(texts(0)[0].contains(r#""action":"memory:query""#), "the model learns of the actions");
    assert!(texts(0)[1].contains(r#""event":{"text":"chat-1"}"#), "and of the event");
    let repair = texts(1).pop().expect("messages");
    assert!(repair.contains("/steps/0: no such action"), "{repair}");
    assert!(texts(2)[1].contains("the door is locked"), "the model learns of the failure");
    runtime.shutdown().await.expect("ends");
}
