//! The standard plugin with one bug.

use std::sync::Arc;

use async_trait::async_trait;
use memory_core::plugin::{AnswerJson, Arguments, Executor, MemoryPlugin, Plugin, Scope};
use memory_core::{
    Clock as _, DocumentId, DocumentSelection, MemoryProvider, NewMemory, Result, SpaceId, Spaces, SystemClock, Trigger,
};
use serde_json::{Map, Value};

use crate::flaw::Flaw;

/// A plugin whose executors pass every call on, apart from its flaw.
#[derive(Debug)]
pub(crate) struct BrokenPlugin {
    inner: MemoryPlugin,
    provider: Arc<dyn MemoryProvider>,
    flaw: Flaw,
    executors: Vec<Arc<dyn Executor>>,
}

#[derive(Debug)]
struct BrokenExecutor {
    inner: Arc<dyn Executor>,
    provider: Arc<dyn MemoryProvider>,
    flaw: Flaw,
}

impl BrokenPlugin {
    pub(crate) fn new(provider: Arc<dyn MemoryProvider>, flaw: Flaw) -> Self {
        let inner = MemoryPlugin::new(Arc::clone(&provider));
        let broken = |inner: &Arc<dyn Executor>| -> Arc<dyn Executor> {
            Arc::new(BrokenExecutor { inner: Arc::clone(inner), provider: Arc::clone(&provider), flaw })
        };
        Self { executors: inner.executors().iter().map(broken).collect(), inner, provider, flaw }
    }
}

#[async_trait]
impl Plugin for BrokenPlugin {
    fn id(&self) -> &str {
        self.inner.id()
    }

    fn description(&self) -> &str {
        self.inner.description()
    }

    fn executors(&self) -> &[Arc<dyn Executor>] {
        &self.executors
    }

    async fn init(&self) -> Result<()> {
        self.inner.init().await
    }

    async fn shutdown(&self) -> Result<()> {
        match self.flaw {
            Flaw::PluginEndsItsProvider => self.provider.shutdown().await,
            _ => self.inner.shutdown().await,
        }
    }
}

#[async_trait]
impl Executor for BrokenExecutor {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn description(&self) -> &str {
        self.inner.description()
    }

    fn arguments(&self) -> &serde_json::Value {
        self.inner.arguments()
    }

    fn answer(&self) -> &serde_json::Value {
        self.inner.answer()
    }

    async fn call(&self, scope: &Scope, arguments: &Arguments) -> Result<AnswerJson> {
        match self.flaw {
            Flaw::PluginForgetsReadableSpaces => {
                let mut wide = Scope::new(Spaces::All).with_collections(scope.collections().iter().cloned());
                if let Some(space) = scope.writable() {
                    wide = wide.with_writable(space.clone());
                }
                self.inner.call(&wide, arguments).await
            }
            Flaw::PluginIgnoresDryRun => self.without(scope, arguments, "dryRun").await,
            Flaw::PluginIgnoresTheOrder => self.without(scope, arguments, "order").await,
            Flaw::PluginTakesUnknownArguments => {
                let mut members = object(arguments.as_str());
                members.retain(|name, _| self.arguments()["properties"].get(name).is_some());
                self.call_with(scope, members).await
            }
            Flaw::PluginWritesTheLedger => {
                let call = NewMemory::new(SpaceId::parse("calls")?, Trigger::parse("1")?, SystemClock.now());
                self.provider.store(call).await?;
                self.inner.call(scope, arguments).await
            }
            Flaw::PluginWritesEscapesAnew => {
                let answer = self.inner.call(scope, arguments).await?;
                AnswerJson::parse(&answer.as_str().replace(r"\/", "/"))
            }
            Flaw::PluginCutsWithoutAWord => {
                let mut answer = object(self.inner.call(scope, arguments).await?.as_str());
                answer.remove("cut");
                AnswerJson::parse(&Value::Object(answer).to_string())
            }
            Flaw::PluginAddsOver if self.name() == "memory:add_document" => {
                if let (Some(Value::String(id)), [collection, ..]) =
                    (object(arguments.as_str()).get("id"), scope.collections())
                {
                    let present = DocumentSelection::ids(collection.clone(), [DocumentId::parse(id)?])?;
                    self.provider.documents().remove(&present, 1).await?;
                }
                self.inner.call(scope, arguments).await
            }
            _ => self.inner.call(scope, arguments).await,
        }
    }
}

impl BrokenExecutor {
    /// Calls as if an argument had not been given.
    async fn without(&self, scope: &Scope, arguments: &Arguments, name: &str) -> Result<AnswerJson> {
        let mut members = object(arguments.as_str());
        members.remove(name);
        self.call_with(scope, members).await
    }

    async fn call_with(&self, scope: &Scope, members: Map<String, Value>) -> Result<AnswerJson> {
        self.inner.call(scope, &Arguments::parse(&Value::Object(members).to_string())?).await
    }
}

/// The members of JSON that is an object; none for any other JSON.
fn object(json: &str) -> Map<String, Value> {
    match serde_json::from_str(json) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    }
}
