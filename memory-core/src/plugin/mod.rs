//! Plugins: named executors that a language model may call, and the standard plugin that every provider has.
//!
//! ```
//! use std::sync::Arc;
//! use memory_core::plugin::{Arguments, Executor, Plugin, Scope};
//! use memory_core::{Collection, InMemory, MemoryProvider, SpaceId, SpaceSelector};
//!
//! # #[tokio::main] async fn main() -> memory_core::Result<()> {
//! let provider: Arc<dyn MemoryProvider> = Arc::new(InMemory::new());
//! provider.init().await?;
//! let plugin = provider.plugin();
//!
//! // The host sets the scope; nothing that the model asks for leads out of it.
//! let scope = Scope::new(SpaceSelector::under("discord-guild1")?)
//!     .with_writable(SpaceId::parse("discord-guild1-ana")?)
//!     .with_collections([Collection::parse("notes")?]);
//!
//! let add = plugin.executor("memory:add_document").expect("a standard verb");
//! add.call(&scope, &Arguments::parse(r#"{"id": "cat", "content": "Ana has a cat"}"#)?).await?;
//! let query = plugin.executor("memory:query").expect("a standard verb");
//! let answer = query.call(&scope, &Arguments::parse(r#"{"text": "Which cat?"}"#)?).await?;
//! assert!(answer.as_str().contains("Ana has a cat"));
//! # Ok(()) }
//! ```

mod add_document;
mod arguments;
mod ledger;
mod memory_plugin;
mod query;
mod record;
mod remove_document;
mod scope;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::{JsonText, Result};

pub use arguments::NamedArguments;
pub use memory_plugin::MemoryPlugin;
pub use query::MAX_ANSWER_BYTES;
pub use scope::Scope;

/// The arguments of a call: a JSON object of at most 8 MiB.
pub type Arguments = JsonText<{ 8 << 20 }>;

/// The answer of an executor: JSON of at most 16 MiB, in which stored JSON is embedded byte for byte.
pub type AnswerJson = JsonText<{ 16 << 20 }>;

/// A set of named executors, held as `Arc<dyn Plugin>`.
#[async_trait]
pub trait Plugin: Send + Sync + 'static {
    /// The name that distinguishes it from a host's other plugins, such as `memory`. Never empty.
    fn id(&self) -> &str;

    /// What the plugin is for, in words for a model that has to choose.
    fn description(&self) -> &str;

    /// The executors; names are unique. The same at every call.
    fn executors(&self) -> &[Arc<dyn Executor>];

    /// Prepares what the executors need. A host calls it once, after the provider is initialised and before any
    /// executor.
    async fn init(&self) -> Result<()>;

    /// Releases what `init` prepared. A host calls it once, before it shuts the provider down, and calls no executor
    /// afterwards.
    async fn shutdown(&self) -> Result<()>;

    /// Returns the executor with this name.
    fn executor(&self, name: &str) -> Option<&Arc<dyn Executor>> {
        self.executors().iter().find(|executor| executor.name() == name)
    }
}

/// A tool that a model may call.
#[async_trait]
pub trait Executor: Send + Sync + 'static {
    /// The name, such as `memory:query`.
    fn name(&self) -> &str;

    /// When to call it and what it does, in words for a model that has to choose.
    fn description(&self) -> &str;

    /// The JSON Schema (2020-12) of the arguments: always an object. Usable as a tool definition.
    fn arguments(&self) -> &Value;

    /// The JSON Schema (2020-12) of the answer: always an object.
    fn answer(&self) -> &Value;

    /// Executes a call within the scope.
    ///
    /// # Behavior
    /// - Arguments narrow what the scope allows, and never widen it (P2).
    /// - Arguments that don't satisfy the schema are `InvalidInput` or `TooLarge`, and nothing is done (P1).
    /// - The message of an error is a sentence that a model can act on, and quotes no payload (P1).
    /// - Dropping the future leaves the whole effect or none (W10).
    async fn call(&self, scope: &Scope, arguments: &Arguments) -> Result<AnswerJson>;
}

impl fmt::Debug for dyn Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin").field("id", &self.id()).finish_non_exhaustive()
    }
}

impl fmt::Debug for dyn Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor").field("name", &self.name()).finish_non_exhaustive()
    }
}
