//! How a runtime starts and ends.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory_core::plugin::{Executor, Plugin, Scope};
use memory_core::{
    Collection, Content, DocumentWrite, Error, ErrorKind, Expect, InMemory, MemoryProvider, MemoryQuery, Result,
    Revision, SpaceSelector, SystemClock,
};
use memory_runtime::{Runtime, RuntimeBuilder, TaskSender, TriggerSource};
use serde_json::json;
use tokio::sync::watch;

mod common;
use common::{Event, Log, Recording, TestPlugin, at, fixed, space, task};

fn builder(log: &Log) -> RuntimeBuilder {
    Runtime::builder().memory(Recording::new(Arc::new(InMemory::new()), log)).planner(fixed(&[]))
}

/// A plugin that can't be initialised.
#[derive(Debug)]
struct Broken;

#[async_trait]
impl Plugin for Broken {
    fn id(&self) -> &str {
        "broken"
    }

    fn description(&self) -> &str {
        "Does not start."
    }

    fn executors(&self) -> &[Arc<dyn Executor>] {
        &[]
    }

    async fn init(&self) -> Result<()> {
        Err(Error::new(ErrorKind::Unavailable, "no connection").retryable())
    }

    async fn shutdown(&self) -> Result<()> {
        panic!("it never was initialised")
    }
}

#[tokio::test]
async fn the_start_keeps_its_order_and_the_end_the_reverse() {
    let log = Log::new();
    let plugin = |id| TestPlugin::new(id, &log).build();
    let runtime = builder(&log).plugin(plugin("a")).plugin(plugin("b")).build().await.expect("starts");
    let ids: Vec<_> = runtime.actions().plugins().iter().map(|plugin| plugin.id()).collect();
    assert_eq!(ids, ["memory", "a", "b"], "the plugin of the provider comes first, and by itself");
    runtime.shutdown().await.expect("ends");
    runtime.shutdown().await.expect("has ended");
    let order = ["init", "check_health", "a init", "b init", "b shutdown", "a shutdown", "shutdown"];
    assert_eq!(log.names(), order, "each once");
    let late = runtime.submit(task("a", "a-1", 1)).await.expect_err("has ended");
    assert_eq!(late.kind(), ErrorKind::Closed);
    assert_eq!(runtime.observe(task("a", "a-1", 1)).await.expect_err("has ended").kind(), ErrorKind::Closed);
    assert_eq!(runtime.recover().await.expect_err("has ended").kind(), ErrorKind::Closed);
}

#[tokio::test]
async fn mistakes_are_refused_before_anything_is_touched() {
    let log = Log::new();
    let memory = || Recording::new(Arc::new(InMemory::new()), &log);
    let planner = || fixed(&[]);
    for (builder, sentence) in [
        (Runtime::builder().planner(planner()), "exactly one memory provider"),
        (Runtime::builder().planner(planner()).memory(memory()).memory(memory()), "exactly one memory provider"),
        (Runtime::builder().memory(memory()), "needs a planner, or a model"),
        (builder(&log).queue(0), "must not be 0"),
        (builder(&log).concurrency(0), "must not be 0"),
        (builder(&log).lease(Duration::ZERO), "must not be 0"),
        (builder(&log).window(1_001), "a window must hold at most 1000"),
        (builder(&log).instance(""), "the name of an instance"),
        (builder(&log).instance("x".repeat(129)), "the name of an instance"),
        (builder(&log).trigger(Arc::new(Feed)).trigger(Arc::new(Feed)), "the name of a trigger"),
    ] {
        let error = builder.build().await.expect_err(sentence);
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.message().contains(sentence), "{error}");
    }
    assert!(log.names().is_empty());
}

#[tokio::test]
async fn a_start_that_fails_names_its_step_and_leaves_nothing_open() {
    let log = Log::new();
    let plugin = |id| TestPlugin::new(id, &log);
    let twice = || plugin("c").saying().saying().build();
    let no_schema = || plugin("d").with_schema("x", json!({ "type": 7 }), |_| async { unreachable!() }).build();
    let cases: [(Arc<dyn Plugin>, &str); 6] = [
        (plugin("").build(), r#"registration of the plugin "": InvalidInput: the id of a plugin must not be empty"#),
        (plugin("a").build(), r#"registration of the plugin "a": InvalidInput: the plugin id a is taken"#),
        (
            plugin("memory").build(),
            r#"registration of the plugin "memory": InvalidInput: the plugin id memory is taken"#,
        ),
        (twice(), r#"registration of the plugin "c": InvalidInput: the plugin c has two executors of the name say"#),
        (no_schema(), "the schema of d x is no valid JSON Schema"),
        (Arc::new(Broken), r#"registration of the plugin "broken": Unavailable: no connection"#),
    ];
    for (wrong, sentence) in cases {
        let start = log.names().len();
        let error = builder(&log).plugin(plugin("a").build()).plugin(wrong).build().await.expect_err(sentence);
        assert!(error.message().contains(sentence), "{error}");
        assert_eq!(error.is_retryable(), error.kind() == ErrorKind::Unavailable);
        assert_eq!(log.names()[start..], ["init", "check_health", "a init", "a shutdown", "shutdown"]);
    }
    let closed = InMemory::new();
    closed.shutdown().await.expect("closes");
    let error = Runtime::builder().memory(Arc::new(closed)).planner(fixed(&[])).build().await.expect_err("is closed");
    assert!(error.message().starts_with("the runtime did not start: init: "), "{error}");
    assert_eq!(error.kind(), ErrorKind::Closed);
}

#[tokio::test]
async fn a_shutdown_drains_the_tasks_before_the_plugins() {
    let log = Log::new();
    let (over, until) = watch::channel(false);
    let plugin = TestPlugin::new("test", &log).waiting(until).saying().build();
    let steps = [("wait", json!({})), ("say", json!({ "text": "done" }))];
    let runtime = builder(&log).plugin(plugin).planner(fixed(&steps)).concurrency(1).build().await.expect("starts");
    for id in ["a-1", "a-2", "b-1"] {
        runtime.submit(task(&id[..1], id, 1)).await.expect("submitted");
    }
    log.wait_for_plugin("waiting").await;
    let shutdown = runtime.shutdown();
    tokio::pin!(shutdown);
    assert!(futures::poll!(shutdown.as_mut()).is_pending(), "a task runs");
    over.send_replace(true);
    shutdown.await.expect("ends");
    let names = log.names();
    assert_eq!(names.iter().filter(|name| *name == "done").count(), 3, "also those that waited: {names:?}");
    assert_eq!(names[names.len() - 2..], ["test shutdown", "shutdown"]);
}

/// Submits a task for each event that it receives, and one when it is stopped.
#[derive(Debug)]
struct Feed;

#[async_trait]
impl TriggerSource for Feed {
    fn name(&self) -> &str {
        "feed"
    }

    async fn run(&self, tasks: TaskSender) -> Result<()> {
        tasks.submit(task("feed", "feed-1", 1)).await?;
        tasks.observe(task("feed", "feed-2", 2)).await?;
        tasks.stopped().await;
        tasks.submit(task("feed", "feed-3", 3)).await.map(drop)
    }
}

#[tokio::test]
async fn triggers_start_last_and_stop_first() {
    let log = Log::new();
    let plugin = TestPlugin::new("test", &log).saying().build();
    let planner = fixed(&[("say", json!({ "text": { "$task": "/trigger/text" } }))]);
    let runtime = builder(&log).plugin(plugin).planner(planner).trigger(Arc::new(Feed)).build().await.expect("starts");
    log.wait_for(|events| events.iter().filter(|event| matches!(event, Event::Stored(_))).count() == 2).await;
    runtime.shutdown().await.expect("ends");
    let said: Vec<_> = log.plugins().into_iter().filter(|text| text.starts_with("feed")).collect();
    assert_eq!(said, ["feed-1", "feed-3"], "what came in while it stopped is done, and what is observed is not");
    assert_eq!(log.names().last().map(String::as_str), Some("shutdown"));
}

#[tokio::test]
async fn a_plugin_gets_memory_within_its_scope() {
    let log = Log::new();
    let provider = InMemory::new();
    let aside = provider.reopen(Arc::new(SystemClock), memory_core::DEFAULT_DEADLINE);
    aside.init().await.expect("opens");
    let notes = Collection::parse("notes").expect("valid");
    let write = |collection: &str, id: &str, place: &str| {
        let (collection, content) = (Collection::parse(collection).expect("valid"), Content::parse(id).expect("valid"));
        DocumentWrite::new(collection, space(place), content, at(1)).with_id(id.parse().expect("valid"))
    };
    for (id, place) in [("theirs", "b-1"), ("kept", "a-1-kept")] {
        aside.documents().put(write("notes", id, place)).await.expect("put");
    }

    let (sender, mut memory) = watch::channel(None);
    let scope = Scope::new(SpaceSelector::under("a").expect("valid"));
    let scope = scope.with_writable(space("a-1")).with_unwritable(space("a-1-kept")).with_collections([notes.clone()]);
    let make = move |memory| {
        sender.send_replace(Some(memory));
        TestPlugin::new("test", &log).build()
    };
    let runtime = Runtime::builder().memory(Arc::new(provider)).planner(fixed(&[]));
    let runtime = runtime.plugin_with_memory(scope, make).build().await.expect("starts");
    let memory = memory.borrow_and_update().clone().expect("the plugin was made");

    let mine = runtime.submit(task("a", "a-1", 1)).await.expect("submitted").wait().await.expect("ended").id;
    let theirs = runtime.submit(task("b", "b-1", 1)).await.expect("submitted").wait().await.expect("ended").id;
    assert!(memory.get(mine).await.expect("reads").is_some());
    assert!(memory.get(theirs).await.expect("reads").is_none(), "as if it were not there");
    let page = memory.query(MemoryQuery::builder().all()).await.expect("a page");
    assert_eq!(page.memories.iter().map(|memory| memory.id).collect::<Vec<_>>(), [mine]);

    memory.put_document(write("notes", "mine", "a-1")).await.expect("put");
    memory.put_document(write("notes", "mine", "a-1-b")).await.expect("replaced");
    for (refused, kind) in [
        (write("notes", "x", "a-2"), ErrorKind::Unauthorized),
        (write("notes", "x", "a-1-kept-b"), ErrorKind::Unauthorized),
        (write("notes", "kept", "a-1"), ErrorKind::Conflict),
        (write("other", "x", "a-1"), ErrorKind::Unauthorized),
        (write("notes", "theirs", "a-1"), ErrorKind::Conflict),
        (write("notes", "theirs", "a-1").expect(Expect::Revision(Revision::FIRST)), ErrorKind::Conflict),
        (write("notes", "mine", "a-1").expect(Expect::Absent), ErrorKind::Conflict),
        (write("notes", "mine", "a-1").expect(Expect::Revision(Revision::FIRST)), ErrorKind::Conflict),
    ] {
        let error = memory.put_document(refused).await.expect_err("outside of the scope, or not as expected");
        assert_eq!(error.kind(), kind);
    }
    let all = || memory_core::DocumentQuery::builder(notes.clone()).all();
    let page = memory.query_documents(all()).await.expect("a page");
    let mut shown: Vec<_> = page.documents.iter().map(|document| document.id.as_str()).collect();
    shown.sort_unstable();
    assert_eq!(shown, ["kept", "mine"]);
    let filter = memory_core::filter::Field::SpaceId.ne("");
    let removed = memory.remove_documents(all().filter(filter), 9).await.expect("removed");
    assert_eq!(removed.iter().map(|id| id.as_str()).collect::<Vec<_>>(), ["mine"]);
    for id in ["theirs", "kept"] {
        assert!(aside.documents().get(&notes, &id.parse().expect("valid")).await.expect("reads").is_some(), "{id}");
    }
    runtime.shutdown().await.expect("ends");
}
