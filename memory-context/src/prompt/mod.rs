//! Prompt memory: an agent's texts about its user and its work, for the system prompt.
//!
//! Begin with [`PromptMemory`]; the crate documentation has an example.

mod cache;
mod config;
mod context;
mod flags;
mod guarded;
mod key;
mod markdown;
mod memory;
mod record;
mod render;
mod source;
mod update;

pub use config::{OnFailure, PromptConfig};
pub use context::{MemoryContext, MemoryLoadContext, MemoryScope};
pub use flags::Flags;
pub(crate) use guarded::Guarded;
pub use key::COLLECTION;
pub use markdown::MarkdownMemory;
pub use memory::{PromptMemory, Undone};
pub use record::{Diff, HistoryEntry};
pub(crate) use render::{LINE_BREAKS, neutralised};
pub use source::PromptSource;
pub(crate) use update::Unclear;
pub use update::{Action, MAX_UPDATES, MemoryStore, MemoryUpdate, SyncReport, UpdateReport};
