//! A complete agent: memory, models and tools.
//!
//! Begin with [`Agent::builder`]. The parts can also be used separately: [`records`](crate::records), [`state`](crate::state),
//! [`flow`](crate::flow), [`tool`](crate::tool).

mod builder;
mod conversation;
mod handle;
mod platforms;
mod source;
mod source_trigger;
mod stream;
mod trigger;
mod triggers;

pub use builder::AgentBuilder;
pub use conversation::Conversation;
pub use handle::{Agent, DIRECT, TriggerContext};
pub use source::MemorySource;
pub use source_trigger::SourceTrigger;
pub use stream::AnswerStream;
pub use trigger::{Arrival, MessageTrigger};

pub use crate::flow::{Answer, End, Incoming, Limits, Piece};
pub use crate::state::{ContextPart, ContextParts, ContextPlugin, ToolResult};
pub use crate::tool::{Tool, ToolContext, ToolOutput};
#[cfg(feature = "http")]
pub use memory_runtime::{ContextContent, HttpTrigger};
