//! Tools: what an agent can do, and what a model may call.
//!
//! [`Tool`] is the one kind of them. A function of typed arguments becomes one by [`Tool::new`], a function of any JSON object by
//! [`Tool::with_schema`], and an executor of a plugin by [`Tool::from_executor`].

mod alias;
mod built_in;
mod context;
mod definition;
mod executor;
mod output;

pub use alias::ToolAlias;
pub use built_in::built_in_tools;
pub use context::ToolContext;
pub(crate) use definition::plain;
pub use definition::{MAX_ARGUMENTS, MAX_NAME, Tool};
pub use executor::PluginTools;
pub use output::ToolOutput;
