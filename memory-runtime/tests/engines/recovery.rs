//! Tasks whose runtime dies, or that another runtime tries to take.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use memory_core::{
    Erasure, ErrorKind, JsonText, ManualClock, Memory, MemoryId, MemoryPatch, MemoryProvider, MemoryQuery, Metadata,
    MetadataPatch, NewMemory, Order, Status,
};
use memory_runtime::{Actions, ContextKind, Finished, Planner, Runtime, RuntimeBuilder, Step, Task};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::Engine;
use super::common::{Event, Log, Recording, TestPlugin, at, chain, fixed, space, task};

/// When the default lease of a task that was taken at 0 has run out.
const EXPIRED: i64 = 60_000;

fn clock(millis: i64) -> Arc<ManualClock> {
    Arc::new(ManualClock::new(at(millis)))
}

/// A runtime whose tasks say one, wait, and say their trigger.
fn builder(engine: &Engine, log: &Log, until: watch::Receiver<bool>) -> RuntimeBuilder {
    let steps = [
        ("say", json!({ "text": "one" })),
        ("wait", json!({})),
        ("say", json!({ "text": { "$task": "/trigger/text" } })),
    ];
    Runtime::builder()
        .memory(Recording::new(engine.open(), log))
        .plugin(TestPlugin::new("test", log).saying().waiting(until).build())
        .planner(fixed(&steps))
}

/// The same, with a `wait` that ends at once.
fn rescuer(engine: &Engine, log: &Log) -> RuntimeBuilder {
    builder(engine, log, watch::Sender::new(true).subscribe())
}

/// Lets a runtime submit tasks, or recover one if there are none to submit, and end like a killed process. Before that,
/// as many tasks as given have reached their wait, so nothing is being written.
async fn die(
    engine: &Arc<Engine>,
    configure: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder + Send + 'static,
    ids: &'static [&'static str],
    waiting: usize,
) {
    let engine = Arc::clone(engine);
    let life = move || {
        let process = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        // It outlives the process: when it is dropped, nobody waits any more.
        let never = watch::Sender::new(false);
        process.block_on(async {
            let log = Log::new();
            let runtime = configure(builder(&engine, &log, never.subscribe())).build().await.expect("starts");
            for id in ids {
                runtime.submit(task(&id[..1], id, 1)).await.expect("submitted");
            }
            if ids.is_empty() {
                assert_eq!(runtime.recover().await.expect("recovers").len(), 1);
            }
            let is_waiting = |event: &&Event| matches!(event, Event::Plugin(text) if text == "waiting");
            log.wait_for(|events| events.iter().filter(is_waiting).count() == waiting).await;
            // No shutdown: everything ends where it is.
        });
        process.shutdown_timeout(Duration::from_secs(30));
        std::io::Result::Ok(())
    };
    let dead = tokio::task::spawn_blocking(|| std::thread::spawn(life).join()).await.expect("no panic");
    dead.expect("no panic").expect("it lived");
}

/// The member of the metadata that belongs to the runtime.
fn claim(memory: &Memory) -> Value {
    serde_json::from_str::<Value>(memory.metadata.as_str()).expect("JSON")["task"].clone()
}

async fn memory(engine: &Engine, id: MemoryId) -> Memory {
    let provider = engine.open();
    provider.init().await.expect("opens");
    provider.get(id).await.expect("reads").expect("is there")
}

async fn recover(runtime: &Runtime) -> Vec<Finished> {
    let mut finished = Vec::new();
    for task in runtime.recover().await.expect("recovers") {
        finished.push(task.wait().await.expect("ended"));
    }
    finished
}

pub(crate) async fn of_many_runtimes_one_gets_a_task(engine: Arc<Engine>) {
    const IDS: [&str; 12] = ["a-1", "a-2", "b-1", "b-2", "c-1", "d-1", "e-1", "f-1", "g-1", "h-1", "i-1", "j-1"];
    die(&engine, |builder| builder.clock(clock(0)).concurrency(3), &IDS, 3).await;
    let log = Log::new();
    let start = async || rescuer(&engine, &log).clock(clock(EXPIRED)).build().await.expect("starts");
    let runtimes = [start().await, start().await, start().await];
    let [a, b, c] = &runtimes;
    let (a, b, c) = tokio::join!(recover(a), recover(b), recover(c));
    let all: Vec<_> = [a, b, c].concat();
    assert!(all.iter().all(|finished| finished.status == Status::Completed));
    assert_eq!(all.len(), IDS.len());
    assert_eq!(all.iter().map(|finished| finished.id).collect::<BTreeSet<_>>().len(), IDS.len());
    let mut said: Vec<_> = log.plugins().into_iter().filter(|text| IDS.contains(&text.as_str())).collect();
    said.sort();
    assert_eq!(said, IDS, "each was worked on once");
    for runtime in &runtimes {
        assert!(runtime.recover().await.expect("looks").is_empty());
        runtime.shutdown().await.expect("ends");
    }
}

pub(crate) async fn a_task_goes_on_behind_its_last_step(engine: Arc<Engine>) {
    die(&engine, |builder| builder.clock(clock(0)), &["a-1"], 1).await;
    let log = Log::new();
    let runtime = rescuer(&engine, &log).clock(clock(EXPIRED)).build().await.expect("starts");
    let [task] = &runtime.recover().await.expect("recovers")[..] else { panic!("one task") };
    let id = task.id();
    log.wait_for_plugin("a-1").await;
    runtime.shutdown().await.expect("drains");
    assert_eq!(log.plugins()[1..4], ["waiting", "a-1", "test shutdown"], "the first step is not done again");
    let memory = memory(&engine, id).await;
    assert_eq!(memory.status, Status::Completed);
    let kinds: Vec<_> = chain(&memory).iter().map(|item| item.kind).collect();
    use ContextKind::{Plan, Related, Result};
    assert_eq!(kinds, [Related, Plan, Result, Result, Result]);
    assert_eq!((claim(&memory)["runs"].as_u64(), &claim(&memory)["leaseUntil"]), (Some(2), &Value::Null));
}

pub(crate) async fn a_live_lease_is_left_alone_and_renewed(engine: Arc<Engine>) {
    let (log, over) = (Log::new(), watch::Sender::new(false));
    let time = clock(0);
    let shared = || Arc::<ManualClock>::clone(&time);
    let lease = Duration::from_millis(300);
    let holder = builder(&engine, &log, over.subscribe()).clock(shared()).lease(lease).build().await.expect("starts");
    let other = rescuer(&engine, &Log::new()).clock(shared()).lease(lease).build().await.expect("starts");
    let task = holder.submit(task("a", "a-1", 1)).await.expect("submitted");
    log.wait_for_plugin("waiting").await;
    assert!(other.recover().await.expect("looks").is_empty());
    time.set(at(200));
    let is_renewal = |event: &Event| match event {
        Event::Updated(MemoryPatch { metadata: MetadataPatch::Merge(merged), .. }) => {
            merged.as_str() == r#"{"task":{"leaseUntil":500}}"#
        }
        _ => false,
    };
    log.wait_for(|events| events.iter().any(is_renewal)).await;
    // Past the first lease.
    time.set(at(499));
    assert!(other.recover().await.expect("looks").is_empty());
    over.send_replace(true);
    assert_eq!(task.wait().await.expect("ended").status, Status::Completed);
    other.shutdown().await.expect("ends");
    holder.shutdown().await.expect("ends");
}

pub(crate) async fn an_instance_takes_its_own_tasks_at_once(engine: Arc<Engine>) {
    die(&engine, |builder| builder.clock(clock(0)).instance("web-1"), &["a-1", "a-2"], 1).await;
    let log = Log::new();
    let other = rescuer(&engine, &log).clock(clock(1)).instance("web-2").build().await.expect("starts");
    assert!(other.recover().await.expect("looks").is_empty(), "another instance waits for the lease");
    let again = rescuer(&engine, &log).clock(clock(1)).instance("web-1").build().await.expect("starts");
    assert_eq!(recover(&again).await.len(), 2);
    assert!(again.recover().await.expect("looks").is_empty());
    for runtime in [other, again] {
        runtime.shutdown().await.expect("ends");
    }
}

pub(crate) async fn two_living_runtimes_of_one_instance_keep_their_tasks(engine: Arc<Engine>) {
    let (time, log, over) = (clock(0), Log::new(), watch::Sender::new(false));
    let start = async |until| {
        let builder = builder(&engine, &log, until).clock(Arc::<ManualClock>::clone(&time)).instance("web-1");
        builder.build().await.expect("starts")
    };
    let earlier = start(over.subscribe()).await;
    time.set(at(1));
    let later = start(over.subscribe()).await;
    time.set(at(2));
    let tasks = [
        earlier.submit(task("a", "a-1", 1)).await.expect("submitted"),
        later.submit(task("b", "b-1", 1)).await.expect("submitted"),
    ];
    let is_waiting = |event: &&Event| matches!(event, Event::Plugin(text) if text == "waiting");
    log.wait_for(|events| events.iter().filter(is_waiting).count() == 2).await;
    for runtime in [&earlier, &later] {
        assert!(runtime.recover().await.expect("looks").is_empty());
    }
    over.send_replace(true);
    for task in tasks {
        assert_eq!(task.wait().await.expect("ended").status, Status::Completed);
    }
    for runtime in [earlier, later] {
        runtime.shutdown().await.expect("ends");
    }
}

pub(crate) async fn a_lost_task_is_dropped_and_its_row_left_alone(engine: Arc<Engine>) {
    let (log, never) = (Log::new(), watch::Sender::new(false));
    let lease = Duration::from_millis(300);
    let slow = builder(&engine, &log, never.subscribe()).clock(clock(0)).lease(lease).build().await.expect("starts");
    let lost = slow.submit(task("a", "a-1", 1)).await.expect("submitted");
    log.wait_for_plugin("waiting").await;
    // As if the other runtime had paused for a long time.
    let other_log = Log::new();
    let other = rescuer(&engine, &other_log).clock(clock(10_000)).build().await.expect("starts");
    // A renewal may come between the runtime's search and its claim: then it takes nothing, and searches again.
    let finished = loop {
        if let Some(finished) = recover(&other).await.pop() {
            break finished;
        }
    };
    assert_eq!(finished.status, Status::Completed);
    let error = lost.wait().await.expect_err("another runtime has it");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let memory = memory(&engine, finished.id).await;
    assert_eq!((memory.status, chain(&memory)), (Status::Completed, finished.chain.clone()));
    assert_eq!(log.plugins(), ["test init", "one", "waiting"], "the lost work went no further");
    for runtime in [slow, other] {
        runtime.shutdown().await.expect("ends");
    }
}

pub(crate) async fn a_task_that_is_erased_is_dropped(engine: Arc<Engine>) {
    let (log, never) = (Log::new(), watch::Sender::new(false));
    let lease = Duration::from_millis(300);
    let runtime = builder(&engine, &log, never.subscribe()).clock(clock(0)).lease(lease).build().await.expect("starts");
    let erased = runtime.submit(task("a", "a-1", 1)).await.expect("submitted");
    log.wait_for_plugin("waiting").await;
    let aside = engine.open();
    aside.init().await.expect("opens");
    let erasure = Erasure::records([erased.id().into()], "a test").expect("valid");
    assert_eq!(aside.erase(&erasure).await.expect("erased").records.len(), 1);
    let error = erased.wait().await.expect_err("nothing is left of it");
    assert_eq!(error.kind(), ErrorKind::Erased);
    assert_eq!(log.plugins(), ["test init", "one", "waiting"], "the work went no further");
    runtime.shutdown().await.expect("ends");
}

pub(crate) async fn a_task_that_is_erased_while_it_waits_ends_for_who_submits_it(engine: Arc<Engine>) {
    let (log, over) = (Log::new(), watch::Sender::new(false));
    let runtime = builder(&engine, &log, over.subscribe()).queue(1).lease(Duration::from_millis(300));
    let runtime = Arc::new(runtime.clock(clock(0)).build().await.expect("starts"));
    let first = runtime.submit(task("a", "a-1", 1)).await.expect("submitted");
    log.wait_for_plugin("waiting").await;
    let submitting = Arc::clone(&runtime);
    let submitting = tokio::spawn(async move { submitting.submit(task("b", "b-1", 2)).await });
    let is_second = |event: &Event| matches!(event, Event::Stored(memory) if memory.space_id == space("b-1"));
    log.wait_for(|events| events.iter().any(is_second)).await;
    let aside = engine.open();
    aside.init().await.expect("opens");
    let stored = MemoryQuery::builder().exact(space("b-1")).build().expect("valid");
    let second = aside.query(&stored).await.expect("a page").memories[0].id;
    let erasure = Erasure::records([second.into()], "a test").expect("valid");
    assert_eq!(aside.erase(&erasure).await.expect("erased").records.len(), 1);
    let error = submitting.await.expect("no panic").expect_err("nothing is left of it");
    assert_eq!(error.kind(), ErrorKind::Erased);
    over.send_replace(true);
    assert_eq!(first.wait().await.expect("ended").status, Status::Completed);
    assert!(runtime.recover().await.expect("looks").is_empty());
    runtime.shutdown().await.expect("ends");
}

pub(crate) async fn a_task_survives_the_loss_of_every_answer(engine: Arc<Engine>) {
    let log = Log::new();
    let plugin = TestPlugin::new("test", &log).saying().build();
    let runtime = Runtime::builder().memory(Recording::losing_answers(engine.open(), &log)).plugin(plugin);
    let runtime = runtime.planner(fixed(&[("say", json!({ "text": "one" }))])).build().await.expect("starts");
    let finished = runtime.submit(task("a", "a-1", 1)).await.expect("submitted").wait().await.expect("ended");
    let memory = memory(&engine, finished.id).await;
    assert_eq!((memory.status, chain(&memory)), (Status::Completed, finished.chain.clone()));
    let writes = log.events().into_iter().filter(|event| matches!(event, Event::Updated(_))).count();
    assert_eq!((writes, memory.revision.get()), (3, 4), "it runs, a step is done, it ends: each is written once");
    runtime.shutdown().await.expect("ends");
}

pub(crate) async fn a_task_that_is_lost_while_it_waits_keeps_none_from_recovery(engine: Arc<Engine>) {
    let (aside, second) = recover_all_but_the_second(&engine, false).await;
    assert_eq!(aside.get(second).await.expect("reads").expect("is there").status, Status::Failed);
}

pub(crate) async fn a_task_that_is_erased_while_it_waits_keeps_none_from_recovery(engine: Arc<Engine>) {
    let (aside, second) = recover_all_but_the_second(&engine, true).await;
    assert_eq!(aside.get(second).await.expect_err("it is gone").kind(), ErrorKind::Erased);
}

/// Recovers three tasks through one place. The second one is erased while it waits for that, or else ended by somebody else.
async fn recover_all_but_the_second(engine: &Arc<Engine>, is_erased: bool) -> (Arc<dyn MemoryProvider>, MemoryId) {
    die(engine, |builder| builder.clock(clock(0)), &["a-1", "b-1", "c-1"], 3).await;
    let (log, over) = (Log::new(), watch::Sender::new(false));
    let runtime = builder(engine, &log, over.subscribe()).queue(1).lease(Duration::from_millis(300));
    let runtime = Arc::new(runtime.clock(clock(EXPIRED)).build().await.expect("starts"));
    let recovering = Arc::clone(&runtime);
    let recovering = tokio::spawn(async move { recovering.recover().await.expect("recovers").len() });
    // The first has the one place, and the second waits for it.
    let is_claim = |event: &&Event| match event {
        Event::Updated(MemoryPatch { metadata: MetadataPatch::Merge(merged), .. }) => {
            merged.as_str().contains("holder")
        }
        _ => false,
    };
    log.wait_for(|events| events.iter().filter(is_claim).count() == 2).await;
    let aside = engine.open();
    aside.init().await.expect("opens");
    let open = MemoryQuery::builder().all().order(Order::OldestFirst).build().expect("valid");
    let second = aside.query(&open).await.expect("a page").memories[1].id;
    if is_erased {
        let erasure = Erasure::records([second.into()], "a test").expect("valid");
        assert_eq!(aside.erase(&erasure).await.expect("erased").records.len(), 1);
    } else {
        aside.update(second, MemoryPatch::new().with_status(Status::Failed)).await.expect("updated");
    }
    log.wait_for(|events| events.iter().filter(is_claim).count() == 3).await;
    over.send_replace(true);
    assert_eq!(recovering.await.expect("no panic"), 2);
    runtime.shutdown().await.expect("ends");
    (aside, second)
}

pub(crate) async fn a_task_that_never_ends_is_given_up(engine: Arc<Engine>) {
    die(&engine, |builder| builder.instance("web-1"), &["a-1"], 1).await;
    die(&engine, |builder| builder.instance("web-1"), &[], 1).await;
    let log = Log::new();
    let runtime = rescuer(&engine, &log).instance("web-1").max_runs(2).build().await.expect("starts");
    let [finished] = &recover(&runtime).await[..] else { panic!("one task") };
    let last = finished.chain.last().expect("an error");
    assert_eq!((finished.status, last.kind), (Status::Failed, ContextKind::Error));
    assert!(last.content.as_str().contains("begun 2 times"), "{}", last.content.as_str());
    assert_eq!(log.plugins(), ["test init"]);
    assert_eq!(memory(&engine, finished.id).await.status, Status::Failed);
    runtime.shutdown().await.expect("ends");
}

pub(crate) async fn rows_that_are_no_tasks_are_left_alone(engine: Arc<Engine>) {
    let provider = engine.open();
    provider.init().await.expect("opens");
    let mut ids = Vec::new();
    for metadata in ["{}", r#"{"task":"to buy milk"}"#, r#"{"task":{"leaseUntil":0}}"#] {
        let memory = NewMemory::new(space("a-1"), "1".parse().expect("JSON"), at(1));
        let memory = memory.with_metadata(Metadata::parse(metadata).expect("valid"));
        ids.push(provider.store(memory).await.expect("stored"));
    }
    let runtime = rescuer(&engine, &Log::new()).clock(clock(EXPIRED)).build().await.expect("starts");
    assert!(runtime.recover().await.expect("looks").is_empty());
    for id in ids {
        let memory = memory(&engine, id).await;
        assert_eq!((memory.status, memory.revision.get()), (Status::Pending, 1));
    }
    runtime.shutdown().await.expect("ends");
}

/// Plans nothing, and logs what was recalled.
#[derive(Debug)]
struct Recalled(Log);

#[async_trait::async_trait]
impl Planner for Recalled {
    async fn plan(&self, task: &Task, _: &Actions) -> memory_core::Result<Vec<Step>> {
        let spaces = task.related.iter().map(|memory| memory.space_id.as_str());
        self.0.push(Event::Plugin(spaces.collect::<Vec<_>>().join(" ")));
        Ok(Vec::new())
    }

    async fn revise(&self, _: &Task, _: &[Step], _: &Actions) -> memory_core::Result<Option<Vec<Step>>> {
        Ok(None)
    }
}

pub(crate) async fn a_chain_recalls_only_what_is_related(engine: Arc<Engine>) {
    let provider = engine.open();
    provider.init().await.expect("opens");
    let new = |id: &str| NewMemory::new(space(id), "1".parse().expect("JSON"), at(1)).with_status(Status::Observed);
    let mut ids = Vec::new();
    for of_space in ["a-1", "b-1", "a-3"] {
        ids.push(provider.store(new(of_space)).await.expect("stored"));
    }
    let erasure = Erasure::records([ids[2].into()], "a test").expect("valid");
    assert_eq!(provider.erase(&erasure).await.expect("erased").records.len(), 1);
    let trigger = task("a", "a-2", 1).trigger;
    let related = json!([{
        "id": "r", "kind": "related", "pluginId": "runtime", "content": { "ids": ids }, "timestamp": 1
    }]);
    let claim = json!({ "task": {
        "container": "a", "related": [{ "under": "a" }], "instance": "x", "holder": "x", "leaseUntil": 0, "runs": 1
    }});
    let open = NewMemory::new(space("a-2"), JsonText::from_value(&trigger).expect("JSON"), at(1))
        .with_context(JsonText::from_value(&related).expect("JSON"))
        .with_metadata(Metadata::parse(&claim.to_string()).expect("valid"));
    provider.store(open).await.expect("stored");

    let log = Log::new();
    let runtime = Runtime::builder().memory(engine.open()).planner(Arc::new(Recalled(log.clone())));
    let runtime = runtime.clock(clock(EXPIRED)).build().await.expect("starts");
    let [finished] = &recover(&runtime).await[..] else { panic!("one task") };
    assert_eq!((finished.status, log.plugins()), (Status::Completed, vec!["a-1".to_owned()]));
    runtime.shutdown().await.expect("ends");
}

pub(crate) async fn a_patch_of_somebody_else_does_no_harm(engine: Arc<Engine>) {
    let (log, over) = (Log::new(), watch::Sender::new(false));
    let runtime = builder(&engine, &log, over.subscribe()).build().await.expect("starts");
    let task = runtime.submit(task("a", "a-1", 1)).await.expect("submitted");
    log.wait_for_plugin("waiting").await;
    let aside = engine.open();
    aside.init().await.expect("opens");
    let note = MemoryPatch::new().merge_metadata(Metadata::parse(r#"{"note":"seen"}"#).expect("valid"));
    aside.update(task.id(), note).await.expect("updated");
    over.send_replace(true);
    let finished = task.wait().await.expect("ended");
    let memory = memory(&engine, finished.id).await;
    assert_eq!((memory.status, finished.status), (Status::Completed, Status::Completed));
    assert!(memory.metadata.as_str().contains(r#""note":"seen""#));
    runtime.shutdown().await.expect("ends");
}
