//! Tasks that nothing interrupts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use memory_core::plugin::AnswerJson;
use memory_core::{Collection, MemoryProvider, MemoryQuery, Metadata, SpaceSelector, Status};
use memory_runtime::{ContextItem, ContextKind, FixedPlanner, Pipeline, Runtime, RuntimeBuilder, Space};
use serde_json::json;
use tokio::sync::{Barrier, watch};

use super::Engine;
use super::common::{Event, Log, TestPlugin, chain, fixed, space, step, task};

fn builder(engine: &Engine) -> RuntimeBuilder {
    Runtime::builder().memory(engine.open())
}

/// Opens a handle beside that of the runtime.
async fn aside(engine: &Engine) -> Arc<dyn MemoryProvider> {
    let provider = engine.open();
    provider.init().await.expect("opens");
    provider
}

/// The kinds and contents of a chain.
fn outline(chain: &[ContextItem]) -> Vec<(ContextKind, String)> {
    chain.iter().map(|item| (item.kind, item.content.as_str().to_owned())).collect()
}

pub(crate) async fn a_container_keeps_its_order_and_others_run_beside_it(engine: Arc<Engine>) {
    let log = Log::new();
    let (over, until) = watch::channel(false);
    let plugin = TestPlugin::new("test", &log).saying();
    let plugin = plugin.on("slow", move |_| {
        let mut until = until.clone();
        async move {
            let _ = until.wait_for(|is_over| *is_over).await;
            AnswerJson::from_value(&json!({}))
        }
    });
    // The first task of a container waits, and the other container continues.
    let planner = fixed(&[("say", json!({ "text": { "$task": "/trigger/text" } }))]);
    let slow = fixed(&[("slow", json!({})), ("say", json!({ "text": { "$task": "/trigger/text" } }))]);
    let planner = Arc::new(ByText { slow, other: planner });
    let runtime = builder(&engine).plugin(plugin.build()).planner(planner).build().await.expect("starts");
    let mut handles = Vec::new();
    for id in ["a-slow", "a-2", "b-1", "a-3", "b-2"] {
        handles.push(runtime.submit(task(&id[..1], id, 1)).await.expect("submitted"));
    }
    log.wait_for_plugin("b-2").await;
    assert_eq!(log.plugins()[1..], ["b-1", "b-2"], "the container a waits for its first task");
    over.send_replace(true);
    for handle in handles {
        assert_eq!(handle.wait().await.expect("ended").status, Status::Completed);
    }
    assert_eq!(log.plugins()[1..], ["b-1", "b-2", "a-slow", "a-2", "a-3"]);
    runtime.shutdown().await.expect("ends");
}

/// Plans one way for triggers that say slow, and another way for the rest.
#[derive(Debug)]
struct ByText {
    slow: Arc<FixedPlanner>,
    other: Arc<FixedPlanner>,
}

#[async_trait::async_trait]
impl memory_runtime::Planner for ByText {
    async fn plan(
        &self,
        task: &memory_runtime::Task,
        actions: &memory_runtime::Actions,
    ) -> memory_core::Result<Vec<memory_runtime::Step>> {
        let planner = if task.trigger.content.as_str().contains("slow") { &self.slow } else { &self.other };
        planner.plan(task, actions).await
    }

    async fn revise(
        &self,
        _: &memory_runtime::Task,
        _: &[memory_runtime::Step],
        _: &memory_runtime::Actions,
    ) -> memory_core::Result<Option<Vec<memory_runtime::Step>>> {
        Ok(None)
    }
}

pub(crate) async fn no_more_tasks_run_than_may(engine: Arc<Engine>) {
    let log = Log::new();
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let greatest = Arc::clone(&most);
    // Three run at the same time; otherwise the barrier would block.
    let three = Arc::new(Barrier::new(3));
    let plugin = TestPlugin::new("test", &log).on("count", move |_| {
        let (running, most, three) = (Arc::clone(&running), Arc::clone(&greatest), Arc::clone(&three));
        async move {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            three.wait().await;
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            running.fetch_sub(1, Ordering::SeqCst);
            AnswerJson::from_value(&json!({}))
        }
    });
    let runtime = builder(&engine).plugin(plugin.build()).planner(fixed(&[("count", json!({}))]));
    let runtime = runtime.concurrency(3).build().await.expect("starts");
    let mut handles = Vec::new();
    for number in 0..21 {
        let id = format!("c{number}");
        handles.push(runtime.submit(task(&id, &format!("{id}-1"), number)).await.expect("submitted"));
    }
    for handle in handles {
        assert_eq!(handle.wait().await.expect("ended").status, Status::Completed);
    }
    assert_eq!(most.load(Ordering::SeqCst), 3);
    runtime.shutdown().await.expect("ends");
}

pub(crate) async fn submit_waits_for_a_place_and_has_persisted_before(engine: Arc<Engine>) {
    let log = Log::new();
    let (over, until) = watch::channel(false);
    let recording = super::common::Recording::new(engine.open(), &log);
    let runtime = Runtime::builder().memory(recording).queue(1).planner(fixed(&[("wait", json!({}))]));
    let runtime = runtime.plugin(TestPlugin::new("test", &log).waiting(until).build()).build().await.expect("starts");
    let runtime = Arc::new(runtime);
    let first = runtime.submit(task("a", "a-1", 1)).await.expect("submitted");
    let submitting = Arc::clone(&runtime);
    let second = tokio::spawn(async move { submitting.submit(task("b", "b-1", 2)).await });
    log.wait_for(|events| events.iter().filter(|event| matches!(event, Event::Stored(_))).count() == 2).await;
    log.wait_for_plugin("waiting").await;
    assert!(!second.is_finished(), "there is one place, and it is taken");
    over.send_replace(true);
    first.wait().await.expect("ended");
    let second = second.await.expect("no panic").expect("submitted").wait().await.expect("ended");
    assert_eq!(second.status, Status::Completed);
    runtime.shutdown().await.expect("ends");
}

pub(crate) async fn a_failed_step_ends_the_task_with_the_error(engine: Arc<Engine>) {
    let log = Log::new();
    let plugin = TestPlugin::new("test", &log).saying();
    let plugin = plugin.on("fail", |_| async { Err(memory_core::Error::invalid("the door is locked")) });
    let steps = [("say", json!({ "text": "one" })), ("fail", json!({})), ("say", json!({ "text": "never" }))];
    let runtime = builder(&engine).plugin(plugin.build()).planner(fixed(&steps)).build().await.expect("starts");
    let finished = runtime.submit(task("a", "a-1", 1)).await.expect("submitted").wait().await.expect("ended");
    assert_eq!(finished.status, Status::Failed);
    assert_eq!(log.plugins(), ["test init", "one"]);
    let memory = aside(&engine).await.get(finished.id).await.expect("reads").expect("is there");
    assert_eq!((memory.status, chain(&memory)), (Status::Failed, finished.chain.clone()));
    let last = finished.chain.last().expect("an error");
    assert_eq!((last.kind, last.action.as_deref()), (ContextKind::Error, Some("fail")));
    assert_eq!(last.content.as_str(), r#"{"kind":"InvalidInput","message":"the door is locked"}"#);
    runtime.shutdown().await.expect("ends");
}

pub(crate) async fn wrong_arguments_never_reach_an_executor(engine: Arc<Engine>) {
    let log = Log::new();
    let schema = json!({
        "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"], "additionalProperties": false
    });
    for (action, arguments, sentence) in [
        ("strict", json!({ "n": "xyzzy" }), r#"/n: value is not of type \"integer\""#),
        ("strict", json!({}), r#"\"n\" is a required property"#),
        ("strict", json!({ "n": { "$task": "/trigger/text" } }), r#"/n: value is not of type \"integer\""#),
        ("strict", json!({ "n": { "$task": "/nowhere" } }), "the arguments refer to /nowhere"),
        ("missing", json!({}), "no such action; the plugins are memory (memory:query"),
    ] {
        let never = |_| async { panic!("an executor is called with arguments that its schema refuses") };
        let plugin = TestPlugin::new("test", &log).with_schema("strict", schema.clone(), never);
        let planner = fixed(&[(action, arguments)]);
        let runtime = builder(&engine).plugin(plugin.build()).planner(planner).build().await.expect("starts");
        let finished = runtime.submit(task("a", "a-1", 1)).await.expect("submitted").wait().await.expect("ended");
        let last = finished.chain.last().expect("an error");
        assert_eq!((finished.status, last.kind), (Status::Failed, ContextKind::Error));
        assert!(last.content.as_str().contains(sentence), "{}", last.content.as_str());
        assert!(!last.content.as_str().contains("xyzzy"), "no value is quoted");
        runtime.shutdown().await.expect("ends");
    }
}

pub(crate) async fn what_is_foreign_can_not_break_a_task(engine: Arc<Engine>) {
    let log = Log::new();
    let plugin = TestPlugin::new("test", &log)
        .on("panic", |_| async { panic!("a bug in a plugin") })
        .on("hang", |_| std::future::pending())
        .on("flood", |_| async { AnswerJson::from_value(&"x".repeat(9 << 20)) })
        .on("dig", |_| async { AnswerJson::parse(&("[".repeat(99) + &"]".repeat(99))) });
    let plugin = plugin.build();
    for (action, sentence) in [
        ("panic", "the action panicked"),
        ("hang", "the action did not end within 300 ms"),
        ("flood", "TooLarge"),
        ("dig", "TooLarge"),
    ] {
        let runtime = builder(&engine).plugin(Arc::clone(&plugin)).planner(fixed(&[(action, json!({}))]));
        let runtime = runtime.step_deadline(Duration::from_millis(300)).build().await.expect("starts");
        let finished = runtime.submit(task("a", "a-1", 1)).await.expect("submitted").wait().await.expect("ended");
        let last = finished.chain.last().expect("an error");
        assert_eq!((finished.status, last.kind), (Status::Failed, ContextKind::Error), "{action}");
        assert!(last.content.as_str().contains(sentence), "{action}: {}", last.content.as_str());
        let memory = aside(&engine).await.get(finished.id).await.expect("reads").expect("is there");
        assert_eq!((memory.status, chain(&memory)), (Status::Failed, finished.chain));
        runtime.shutdown().await.expect("ends");
    }
}

pub(crate) async fn what_is_observed_is_never_worked_on(engine: Arc<Engine>) {
    let log = Log::new();
    let plugin = TestPlugin::new("test", &log).saying().build();
    let runtime = builder(&engine).plugin(plugin).planner(fixed(&[("say", json!({ "text": "no" }))]));
    let runtime = runtime.build().await.expect("starts");
    let metadata = Metadata::parse(r#"{"author":"ana"}"#).expect("valid");
    let event = task("a", "a-1", 7).with_metadata(metadata.clone());
    let id = runtime.observe(event).await.expect("stored");
    assert!(runtime.recover().await.expect("looks").is_empty());
    let memory = aside(&engine).await.get(id).await.expect("reads").expect("is there");
    assert_eq!((memory.status, memory.context, memory.metadata), (Status::Observed, None, metadata));
    let reserved = Metadata::parse(r#"{"task":{}}"#).expect("valid");
    for refused in [
        runtime.observe(task("a", "a-2", 8).with_metadata(reserved.clone())).await.map(drop),
        runtime.submit(task("a", "a-2", 8).with_metadata(reserved)).await.map(drop),
    ] {
        assert!(refused.expect_err("a reserved member").message().contains("belongs to the runtime"));
    }
    let full = Metadata::parse(&format!(r#"{{"x":"{}"}}"#, "x".repeat(64_400))).expect("valid");
    let error = runtime.submit(task("a", "a-3", 9).with_metadata(full)).await.expect_err("no room for a claim");
    assert_eq!(error.kind(), memory_core::ErrorKind::TooLarge);
    assert_eq!(log.plugins(), ["test init"]);
    runtime.shutdown().await.expect("ends");
}

pub(crate) async fn related_memories_are_those_of_the_selector(engine: Arc<Engine>) {
    let log = Log::new();
    let runtime = builder(&engine).planner(fixed(&[])).window(3).build().await.expect("starts");
    let mut ids = Vec::new();
    for (number, id) in ["g-1-m1", "g-1-m2", "g-12-m1", "g-1-m3", "g-1-m4"].into_iter().enumerate() {
        let container = id.rsplit_once('-').expect("a container").0;
        let submitted = runtime.submit(task(container, id, number as i64)).await.expect("submitted");
        ids.push(submitted.wait().await.expect("ended").id);
    }
    let related = |chain: &[ContextItem]| {
        let items: Vec<_> = outline(chain).into_iter().filter(|(kind, _)| *kind == ContextKind::Related).collect();
        items.into_iter().map(|(_, content)| content).collect::<Vec<_>>()
    };
    let finish = async |task| runtime.submit(task).await.expect("submitted").wait().await.expect("ended");
    let newest = finish(task("g-1", "g-1-m5", 10)).await;
    let expected = json!({ "ids": [ids[4], ids[3], ids[1]] }).to_string();
    assert_eq!(related(&newest.chain), [expected], "the newest of the container, not itself, and no sibling");
    let mut alone = task("g-1", "g-1-m6", 11);
    alone.space = Space::new(space("g-1-m6"));
    assert!(related(&finish(alone).await.chain).is_empty(), "no selector is nothing, never everything");
    let mut wide = task("g-1", "g-1-m7", 12);
    let selectors = ["g-12", "g-3"].map(|path| SpaceSelector::under(path).expect("valid"));
    wide.space = Space::within(space("g-1"), space("g-1-m7")).expect("valid").with_related(selectors);
    assert_eq!(related(&finish(wide).await.chain), [json!({ "ids": [ids[2]] }).to_string()]);
    runtime.shutdown().await.expect("ends");
    drop(log);
}

pub(crate) async fn steps_use_memory_within_their_container(engine: Arc<Engine>) {
    let notes = Collection::parse("notes").expect("valid");
    let save = json!({ "id": "note", "content": { "$task": "/trigger/text" } });
    let pipeline = Pipeline {
        steps: vec![
            step("memory", "memory:add_document", &save),
            step("memory", "memory:query", &json!({ "text": "ana" })),
        ],
    };
    let runtime = builder(&engine).planner(Arc::new(FixedPlanner::new(pipeline))).collections([notes]);
    let runtime = runtime.build().await.expect("starts");
    let finish = async |task| runtime.submit(task).await.expect("submitted").wait().await.expect("ended");
    let first = finish(task("g-1", "g-1-ana-m1", 1)).await;
    assert_eq!(first.status, Status::Completed, "{:?}", outline(&first.chain));
    let [.., added, found] = &outline(&first.chain)[..] else { panic!("two steps") };
    assert!(added.1.contains(r#""spaceId":"g-1""#), "{}", added.1);
    assert!(found.1.contains(r#""content":"g-1-ana-m1""#), "{}", found.1);
    let other = finish(task("g-12", "g-12-ana-m1", 2)).await;
    let [.., refused] = &outline(&other.chain)[..] else { panic!("a step") };
    assert!(refused.1.contains("another document has it"), "the document of another container stays: {}", refused.1);
    let all = MemoryQuery::builder().all().status(Status::Completed).build().expect("valid");
    assert_eq!(aside(&engine).await.query(&all).await.expect("a page").memories.len(), 1);
    runtime.shutdown().await.expect("ends");
}
