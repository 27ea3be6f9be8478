//! The five steps in which memory takes part in a task, each seen in the calls that reach the provider.

use std::sync::Arc;

use memory_core::{ContextPatch, InMemory, MemoryPatch, MemoryProvider, MemoryQuery, NewMemory, Spaces, Status};
use memory_runtime::{ContextItem, ContextKind, Runtime};
use serde_json::json;

mod common;
use common::{Event, Log, Recording, TestPlugin, at, chain, fixed, task};

/// A runtime whose tasks say `one` and `two`, and the log of its provider and its plugin.
async fn runtime() -> (Runtime, Arc<Recording>, Log) {
    let log = Log::new();
    let provider = Recording::new(Arc::new(InMemory::new()), &log);
    let steps = [("say", json!({ "text": "one" })), ("say", json!({ "text": "two" }))];
    let runtime = Runtime::builder()
        .memory(Arc::<Recording>::clone(&provider))
        .plugin(TestPlugin::new("test", &log).saying().build())
        .planner(fixed(&steps))
        .build()
        .await
        .expect("starts");
    (runtime, provider, log)
}

fn stored(log: &Log) -> Vec<NewMemory> {
    let stored = |event| if let Event::Stored(memory) = event { Some(memory) } else { None };
    log.events().into_iter().filter_map(stored).collect()
}

fn updates(log: &Log) -> Vec<MemoryPatch> {
    let updated = |event| if let Event::Updated(patch) = event { Some(patch) } else { None };
    log.events().into_iter().filter_map(updated).collect()
}

fn queries(log: &Log) -> Vec<MemoryQuery> {
    let queried = |event| if let Event::Queried(query) = event { Some(*query) } else { None };
    log.events().into_iter().filter_map(queried).collect()
}

#[tokio::test]
async fn step_1_a_trigger_makes_a_task_with_its_context_and_an_empty_chain() {
    let (runtime, _, log) = runtime().await;
    let task = task("chat", "chat-ana-m1", 7);
    let trigger = task.trigger.clone();
    runtime.submit(task).await.expect("submitted").wait().await.expect("ended");
    let [memory] = &stored(&log)[..] else { panic!("one memory is stored") };
    assert_eq!(memory.space_id.as_str(), "chat-ana-m1");
    assert_eq!(memory.created_at, at(7), "the time of the trigger");
    assert_eq!(memory.trigger.to_value::<ContextItem>().expect("a context"), trigger);
    assert_eq!((memory.context.as_ref(), memory.status), (None, Status::Pending));
}

#[tokio::test]
async fn step_2_the_runtime_hands_the_task_to_the_memory_manager_alone() {
    let (runtime, _, log) = runtime().await;
    runtime.submit(task("chat", "chat-ana-m1", 7)).await.expect("submitted").wait().await.expect("ended");
    // All calls that reached the provider: no plugin and no planner has called it.
    let calls = ["init", "check_health", "test init", "store", "update", "query", "one", "update", "two", "update"];
    assert_eq!(log.names(), [&calls[..], &["update"]].concat());
}

#[tokio::test]
async fn step_3_the_trigger_is_persisted_before_the_pipeline_starts() {
    let (runtime, provider, log) = runtime().await;
    let handle = runtime.submit(task("chat", "chat-ana-m1", 7)).await.expect("submitted");
    let names = log.names();
    let first = |name: &str| names.iter().position(|other| other == name);
    assert!(first("store").is_some(), "it is persisted when submit has returned");
    assert!(first("one").is_none_or(|step| first("store") < Some(step)), "{names:?}");
    assert!(provider.get(handle.id()).await.expect("reads").is_some());
    handle.wait().await.expect("ended");
}

#[tokio::test]
async fn step_4_each_step_updates_the_persisted_row_with_the_chain() {
    let (runtime, provider, log) = runtime().await;
    let finished =
        runtime.submit(task("chat", "chat-ana-m1", 7)).await.expect("submitted").wait().await.expect("ended");
    let [claim, one, two, end] = &updates(&log)[..] else { panic!("four updates: {:?}", log.names()) };
    assert_eq!(claim.status, Some(Status::Running));
    assert!([claim, one, two, end].iter().all(|patch| patch.if_revision.is_some()), "no write without a revision");
    let results = |patch: &MemoryPatch| match &patch.context {
        ContextPatch::Set(text) => {
            let chain: Vec<ContextItem> = text.to_value().expect("a chain");
            let results = chain.into_iter().filter(|item| item.kind == ContextKind::Result);
            results.map(|item| item.content.as_str().to_owned()).collect()
        }
        _ => Vec::new(),
    };
    assert_eq!(results(one), [r#"{"text":"one"}"#]);
    assert_eq!(results(two), [r#"{"text":"one"}"#, r#"{"text":"two"}"#]);
    assert_eq!((one.status, two.status, end.status), (None, None, Some(Status::Completed)));
    let memory = provider.get(finished.id).await.expect("reads").expect("is there");
    assert_eq!((memory.status, chain(&memory)), (Status::Completed, finished.chain));
}

#[tokio::test]
async fn step_5_history_is_queried_by_the_selector_of_the_task() {
    let (runtime, _, log) = runtime().await;
    for id in ["chat-ana-m1", "chatter-ben-m1", "chat-ana-m2"] {
        let container = id.split('-').next().expect("a container");
        runtime.submit(task(container, id, 7)).await.expect("submitted").wait().await.expect("ended");
    }
    let queries = queries(&log);
    assert_eq!(queries.len(), 3, "once for each task");
    assert!(matches!(queries[2].spaces(), Spaces::Any(selectors) if selectors[0].to_string() == r#"under("chat")"#));
    assert_eq!(queries[2].limit(), 10);
}
