//! Tools: functions that a model may call.
//!
//! [`Tool::new`] makes a [`Tool`] of a function with typed arguments, [`Tool::with_schema`] of a function of a JSON object, and
//! [`Tool::from_executor`] of an executor of a plugin.

mod alias;
mod built_in;
mod context;
mod definition;
mod executor;
mod output;
pub(crate) mod reserved;

pub use alias::ToolAlias;
pub use built_in::built_in_tools;
pub use context::ToolContext;
pub(crate) use definition::plain;
pub use definition::{MAX_ARGUMENTS, MAX_NAME, Tool};
pub use executor::PluginTools;
pub use output::ToolOutput;
