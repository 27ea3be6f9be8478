#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../README.md")]

mod ask;
mod attachment;
mod completion;
#[cfg(feature = "local")]
pub mod local;
mod message;
mod modalities;
mod model;
#[cfg(feature = "openai")]
pub mod openai;
mod retry;
mod schema;
mod tool;

pub use ask::{Asked, MAX_ATTEMPTS, ask, structured};
pub use attachment::PromptAttachment;
pub use completion::{Completion, Delta, Finish, Usage};
pub use memory_core::Embedder;
pub use message::{ChatMessage, Role};
pub use modalities::Modalities;
pub use model::{Model, Prompt};
pub use retry::{Retries, RetryAfter, Retrying};
pub use schema::Schema;
pub use tool::{ToolCall, ToolSpec};
