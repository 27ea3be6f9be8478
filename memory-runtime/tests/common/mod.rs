//! Helpers for tests of the runtime: a log, and a provider and plugins that write it.

// Each test program uses a part of this.
#![allow(dead_code)]

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use memory_core::plugin::{AnswerJson, Arguments, Executor, Plugin, Scope};
use memory_core::{
    Backfill, Changes, DocumentStore, Embedding, ErasedSlice, Erasure, Error, ErrorKind, HashKey, Health, History,
    HistoryPage, Memory, MemoryId, MemoryPage, MemoryPatch, MemoryProvider, MemoryQuery, MemoryRecall, NewMemory,
    Outcome, Recalled, Record, RecordId, RestoreReport, Result, Retention, SpaceId, SpaceLevel, SpaceQuery, Sweep,
    Swept, Timestamp, Tombstone, TombstonePage, Updated, VectorModel, Version, Watch,
};
use memory_runtime::{ContextContent, ContextItem, FixedPlanner, NewTask, Pipeline, Space, Step};
use serde_json::{Value, json};
use tokio::sync::watch;

/// Well above what anything takes; it ends a test that hangs.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The events of the provider and the plugins, in order.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    /// A call of the provider that has no other event here.
    Called(&'static str),
    Stored(NewMemory),
    Updated(MemoryPatch),
    Queried(Box<MemoryQuery>),
    /// An event of a plugin or an executor.
    Plugin(String),
}

/// The events so far, which can be waited for.
#[derive(Debug, Clone)]
pub(crate) struct Log(Arc<watch::Sender<Vec<Event>>>);

impl Log {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Vec::new())))
    }

    pub(crate) fn push(&self, event: Event) {
        self.0.send_modify(|events| events.push(event));
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.0.borrow().clone()
    }

    /// The events of the plugins.
    pub(crate) fn plugins(&self) -> Vec<String> {
        let of_plugin = |event| match event {
            Event::Plugin(text) => Some(text),
            _ => None,
        };
        self.events().into_iter().filter_map(of_plugin).collect()
    }

    /// The events by name.
    pub(crate) fn names(&self) -> Vec<String> {
        let name = |event| match event {
            Event::Called(name) => name.to_owned(),
            Event::Stored(_) => "store".to_owned(),
            Event::Updated(_) => "update".to_owned(),
            Event::Queried(_) => "query".to_owned(),
            Event::Plugin(text) => text,
        };
        self.events().into_iter().map(name).collect()
    }

    /// Waits until the events satisfy a condition.
    pub(crate) async fn wait_for(&self, condition: impl Fn(&[Event]) -> bool) {
        let mut events = self.0.subscribe();
        let met = tokio::time::timeout(TIME_LIMIT, events.wait_for(|events| condition(events))).await;
        met.expect("the condition is met in time").expect("the log is there");
    }

    /// Waits until a plugin did this.
    pub(crate) async fn wait_for_plugin(&self, text: &str) {
        self.wait_for(|events| events.iter().any(|event| matches!(event, Event::Plugin(other) if other == text))).await;
    }
}

/// A provider that logs its calls when they have succeeded.
#[derive(Debug)]
pub(crate) struct Recording {
    inner: Arc<dyn MemoryProvider>,
    log: Log,
    loses_answers: bool,
}

impl Recording {
    pub(crate) fn new(inner: Arc<dyn MemoryProvider>, log: &Log) -> Arc<Self> {
        Arc::new(Self { inner, log: log.clone(), loses_answers: false })
    }

    /// A provider whose updates all take effect, and whose answers are lost.
    pub(crate) fn losing_answers(inner: Arc<dyn MemoryProvider>, log: &Log) -> Arc<Self> {
        Arc::new(Self { inner, log: log.clone(), loses_answers: true })
    }

    fn called(&self, name: &'static str) {
        self.log.push(Event::Called(name));
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl MemoryProvider for Recording {
    async fn init(&self) -> Result<()> {
        self.inner.init().await?;
        self.called("init");
        Ok(())
    }

    async fn check_health(&self) -> Result<Health> {
        let health = self.inner.check_health().await?;
        self.called("check_health");
        Ok(health)
    }

    async fn shutdown(&self) -> Result<()> {
        self.inner.shutdown().await?;
        self.called("shutdown");
        Ok(())
    }

    async fn backfill(&self) -> Result<Option<Backfill>> {
        let backfill = self.inner.backfill().await?;
        self.called("backfill");
        Ok(backfill)
    }

    async fn store(&self, memory: NewMemory) -> Result<MemoryId> {
        let id = self.inner.store(memory.clone()).await?;
        self.log.push(Event::Stored(memory));
        Ok(id)
    }

    async fn store_many(&self, memories: Vec<NewMemory>) -> Result<Vec<MemoryId>> {
        let ids = self.inner.store_many(memories).await?;
        self.called("store_many");
        Ok(ids)
    }

    async fn update(&self, id: MemoryId, patch: MemoryPatch) -> Result<Updated> {
        let updated = self.inner.update(id, patch.clone()).await?;
        self.log.push(Event::Updated(patch));
        if self.loses_answers {
            return Err(Error::new(ErrorKind::Unavailable, "the answer is lost").with_outcome(Outcome::Unknown));
        }
        Ok(updated)
    }

    async fn get(&self, id: MemoryId) -> Result<Option<Memory>> {
        let memory = self.inner.get(id).await?;
        self.called("get");
        Ok(memory)
    }

    async fn query(&self, query: &MemoryQuery) -> Result<MemoryPage> {
        let page = self.inner.query(query).await?;
        self.log.push(Event::Queried(Box::new(query.clone())));
        Ok(page)
    }

    async fn recall(&self, recall: &MemoryRecall) -> Result<Recalled<Memory>> {
        let recalled = self.inner.recall(recall).await?;
        self.called("recall");
        Ok(recalled)
    }

    async fn spaces(&self, query: &SpaceQuery) -> Result<Vec<SpaceLevel>> {
        let levels = self.inner.spaces(query).await?;
        self.called("spaces");
        Ok(levels)
    }

    async fn watch(&self, watch: &Watch) -> Result<Changes> {
        let changes = self.inner.watch(watch).await?;
        self.called("watch");
        Ok(changes)
    }

    async fn history(&self, history: &History) -> Result<HistoryPage> {
        let page = self.inner.history(history).await?;
        self.called("history");
        Ok(page)
    }

    async fn get_as_of(&self, id: &RecordId, time: Timestamp) -> Result<Option<Record>> {
        let record = self.inner.get_as_of(id, time).await?;
        self.called("get_as_of");
        Ok(record)
    }

    async fn restore(&self, memories: Vec<Memory>) -> Result<RestoreReport> {
        let report = self.inner.restore(memories).await?;
        self.called("restore");
        Ok(report)
    }

    async fn set_read_only(&self, is_read_only: bool) -> Result<()> {
        self.inner.set_read_only(is_read_only).await
    }

    async fn is_read_only(&self) -> Result<bool> {
        self.inner.is_read_only().await
    }

    async fn restore_newer(&self, memories: Vec<Memory>) -> Result<RestoreReport> {
        let report = self.inner.restore_newer(memories).await?;
        self.called("restore_newer");
        Ok(report)
    }

    async fn restore_versions(&self, versions: Vec<Version>) -> Result<RestoreReport> {
        let report = self.inner.restore_versions(versions).await?;
        self.called("restore_versions");
        Ok(report)
    }

    async fn erase(&self, erasure: &Erasure) -> Result<ErasedSlice> {
        let erased = self.inner.erase(erasure).await?;
        self.called("erase");
        Ok(erased)
    }

    async fn tombstone(&self, record: &RecordId) -> Result<Option<Tombstone>> {
        self.inner.tombstone(record).await
    }

    async fn tombstones(&self, behind: Option<&str>) -> Result<TombstonePage> {
        self.inner.tombstones(behind).await
    }

    async fn hash_key(&self) -> Result<Option<HashKey>> {
        self.inner.hash_key().await
    }

    async fn sweep(&self, from: &Sweep) -> Result<Swept> {
        self.inner.sweep(from).await
    }

    async fn retention(&self) -> Result<Vec<Retention>> {
        self.inner.retention().await
    }

    async fn set_retention(&self, rules: Vec<Retention>) -> Result<()> {
        self.inner.set_retention(rules).await
    }

    async fn vector_model(&self) -> Result<Option<VectorModel>> {
        self.inner.vector_model().await
    }

    async fn set_vector_model(&self, model: &VectorModel) -> Result<()> {
        self.inner.set_vector_model(model).await
    }

    async fn embed(&self, model: &VectorModel, embeddings: Vec<Embedding>) -> Result<Vec<bool>> {
        self.inner.embed(model, embeddings).await
    }

    async fn vectors(&self, of: &[RecordId]) -> Result<Vec<Option<Embedding>>> {
        self.inner.vectors(of).await
    }

    async fn restore_tombstones(&self, tombstones: Vec<Tombstone>, key: &HashKey) -> Result<RestoreReport> {
        self.inner.restore_tombstones(tombstones, key).await
    }

    fn documents(&self) -> Arc<dyn DocumentStore> {
        self.inner.documents()
    }

    fn plugin(self: Arc<Self>) -> Arc<dyn Plugin> {
        Arc::clone(&self.inner).plugin()
    }
}

type Act = dyn Fn(Value) -> BoxFuture<'static, Result<AnswerJson>> + Send + Sync;

/// A plugin of executors that are closures.
pub(crate) struct TestPlugin {
    id: String,
    log: Log,
    executors: Vec<Arc<dyn Executor>>,
}

struct TestExecutor {
    name: String,
    schema: Value,
    answer: Value,
    act: Box<Act>,
}

impl TestPlugin {
    pub(crate) fn new(id: &str, log: &Log) -> Self {
        Self { id: id.to_owned(), log: log.clone(), executors: Vec::new() }
    }

    /// Adds an executor that takes any object.
    pub(crate) fn on<F>(self, name: &str, act: impl Fn(Value) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<AnswerJson>> + Send + 'static,
    {
        self.with_schema(name, json!({ "type": "object" }), act)
    }

    /// Adds an executor with a schema.
    pub(crate) fn with_schema<F>(
        mut self,
        name: &str,
        schema: Value,
        act: impl Fn(Value) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<AnswerJson>> + Send + 'static,
    {
        let act = Box::new(move |arguments| -> BoxFuture<'static, Result<AnswerJson>> { Box::pin(act(arguments)) });
        let answer = json!({ "type": "object" });
        self.executors.push(Arc::new(TestExecutor { name: name.to_owned(), schema, answer, act }));
        self
    }

    /// Adds an executor `say` that logs its argument `text` and answers with it.
    pub(crate) fn saying(self) -> Self {
        let log = self.log.clone();
        self.on("say", move |arguments| {
            let log = log.clone();
            async move {
                log.push(Event::Plugin(arguments["text"].as_str().unwrap_or_default().to_owned()));
                AnswerJson::from_value(&arguments)
            }
        })
    }

    /// Adds an executor `wait` that logs `waiting` and waits until `until` is true.
    pub(crate) fn waiting(self, until: watch::Receiver<bool>) -> Self {
        let log = self.log.clone();
        self.on("wait", move |_| {
            let (log, mut until) = (log.clone(), until.clone());
            async move {
                log.push(Event::Plugin("waiting".to_owned()));
                let _ = until.wait_for(|is_over| *is_over).await;
                AnswerJson::from_value(&json!({}))
            }
        })
    }

    pub(crate) fn build(self) -> Arc<dyn Plugin> {
        Arc::new(self)
    }
}

impl fmt::Debug for TestPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TestPlugin({})", self.id)
    }
}

impl fmt::Debug for TestExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TestExecutor({})", self.name)
    }
}

#[async_trait]
impl Plugin for TestPlugin {
    fn id(&self) -> &str {
        &self.id
    }

    fn description(&self) -> &str {
        "For tests."
    }

    fn executors(&self) -> &[Arc<dyn Executor>] {
        &self.executors
    }

    async fn init(&self) -> Result<()> {
        self.log.push(Event::Plugin(format!("{} init", self.id)));
        Ok(())
    }

    async fn shutdown(&self) -> Result<()> {
        self.log.push(Event::Plugin(format!("{} shutdown", self.id)));
        Ok(())
    }
}

#[async_trait]
impl Executor for TestExecutor {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        "For tests."
    }

    fn arguments(&self) -> &Value {
        &self.schema
    }

    fn answer(&self) -> &Value {
        &self.answer
    }

    async fn call(&self, _: &Scope, arguments: &Arguments) -> Result<AnswerJson> {
        (self.act)(arguments.to_value()?).await
    }
}

/// A planner of these steps of the plugin `test`.
pub(crate) fn fixed(steps: &[(&str, Value)]) -> Arc<FixedPlanner> {
    let step = |(action, arguments): &(&str, Value)| step("test", action, arguments);
    Arc::new(FixedPlanner::new(Pipeline { steps: steps.iter().map(step).collect() }))
}

pub(crate) fn step(plugin: &str, action: &str, arguments: &Value) -> Step {
    let arguments = Arguments::from_value(arguments).expect("JSON");
    Step { plugin_id: plugin.to_owned(), action: action.to_owned(), arguments }
}

/// A task in a container, with a small trigger at a time.
pub(crate) fn task(container: &str, id: &str, millis: i64) -> NewTask {
    let space = Space::within(space(container), space(id)).expect("an id under its container");
    let content = ContextContent::from_value(&json!({ "text": id })).expect("JSON");
    NewTask::new(space, ContextItem::trigger("test", content, at(millis)))
}

pub(crate) fn space(id: &str) -> SpaceId {
    SpaceId::parse(id).expect("a valid space")
}

pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis).expect("a valid time")
}

/// The context chain of a memory.
pub(crate) fn chain(memory: &Memory) -> Vec<ContextItem> {
    memory.context.as_ref().map(|context| context.to_value().expect("a chain")).unwrap_or_default()
}
