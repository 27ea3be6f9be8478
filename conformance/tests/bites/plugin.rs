//! The standard plugin with one bug.

use std::sync::Arc;

use async_trait::async_trait;
use memory_core::plugin::{AnswerJson, Arguments, Executor, MemoryPlugin, Plugin, Scope};
use memory_core::{MemoryProvider, Result, Spaces};

use crate::flaw::Flaw;

/// A plugin whose executors pass every call on, apart from its flaw.
#[derive(Debug)]
pub(crate) struct BrokenPlugin {
    inner: MemoryPlugin,
    executors: Vec<Arc<dyn Executor>>,
}

#[derive(Debug)]
struct BrokenExecutor {
    inner: Arc<dyn Executor>,
    flaw: Flaw,
}

impl BrokenPlugin {
    pub(crate) fn new(provider: Arc<dyn MemoryProvider>, flaw: Flaw) -> Self {
        let inner = MemoryPlugin::new(provider);
        let broken = |inner: &Arc<dyn Executor>| -> Arc<dyn Executor> {
            Arc::new(BrokenExecutor { inner: Arc::clone(inner), flaw })
        };
        Self { executors: inner.executors().iter().map(broken).collect(), inner }
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
        self.inner.shutdown().await
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
            Flaw::PluginIgnoresDryRun => {
                let arguments = arguments.as_str().replace(r#""dryRun":true"#, r#""dryRun":false"#);
                self.inner.call(scope, &Arguments::parse(&arguments)?).await
            }
            _ => self.inner.call(scope, arguments).await,
        }
    }
}
