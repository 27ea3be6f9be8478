//! Adapters from executors of plugins to tools.

use std::sync::Arc;

use async_trait::async_trait;
use memory_core::plugin::{Arguments, Executor, Plugin, Scope};
use memory_core::{Actor, Collection, Result, SpaceSelector};

use super::{Tool, ToolContext};
use crate::state::{ContextParts, ContextPlugin, Services, Values};

/// The default collection of executors.
const NOTES: &str = "notes";

/// An adapter from a plugin with executors to a [`ContextPlugin`] with tools; see [`Tool::from_plugin`].
#[derive(Debug)]
pub struct PluginTools {
    plugin: Arc<dyn Plugin>,
}

impl PluginTools {
    /// Wraps a plugin. Installing the context plugin initialises it, and uninstalling shuts it down.
    pub fn new(plugin: Arc<dyn Plugin>) -> Self {
        Self { plugin }
    }
}

#[async_trait]
impl ContextPlugin for PluginTools {
    fn name(&self) -> &str {
        self.plugin.id()
    }

    async fn init(&self, _: &Values, _: &Services) -> Result<ContextParts> {
        self.plugin.init().await?;
        Ok(ContextParts { tools: Tool::from_plugin(self.plugin.as_ref()), ..ContextParts::default() })
    }

    async fn shutdown(&self) -> Result<()> {
        self.plugin.shutdown().await
    }
}

impl Tool {
    /// Makes a tool of an executor. For each call, `scope` returns what the executor may use. In the name of the tool, `_` replaces the
    /// characters that are not allowed; the executor's own name is a simile.
    pub fn from_executor(
        executor: Arc<dyn Executor>,
        scope: impl Fn(&ToolContext) -> Result<Scope> + Send + Sync + 'static,
    ) -> Self {
        let own = executor.name().to_owned();
        let is_allowed = |character: char| character.is_ascii_alphanumeric() || character == '-';
        let name = own.replace(|character: char| !is_allowed(character), "_");
        let (description, schema) = (executor.description().to_owned(), executor.arguments().clone());
        let tool = Self::with_schema(name, description, schema, move |arguments, context| {
            let (executor, scope) = (Arc::clone(&executor), scope(&context));
            async move {
                let answer = executor.call(&scope?, &Arguments::from_value(&arguments)?).await?;
                Ok(answer.as_str().to_owned())
            }
        });
        tool.with_simile(own)
    }

    /// Makes tools of the executors of a plugin, each limited to the room of the message: they read and write the space of the room, and
    /// use the collection `notes`.
    pub fn from_plugin(plugin: &dyn Plugin) -> Vec<Self> {
        let executors = plugin.executors().iter();
        executors.map(|executor| Self::from_executor(Arc::clone(executor), room_scope)).collect()
    }
}

fn room_scope(context: &ToolContext) -> Result<Scope> {
    let space = context.records().room_space(&context.message().content.room)?;
    let scope = Scope::new(SpaceSelector::under(space.as_str())?).with_writable(space);
    let scope = scope.with_collections([Collection::parse(NOTES)?]);
    Ok(Actor::parse(context.records().agent().as_str()).into_iter().fold(scope, Scope::with_actor))
}
