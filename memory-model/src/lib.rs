#![doc = include_str!("../README.md")]

mod ask;
mod embedder;
mod message;
mod model;
#[cfg(feature = "openai")]
pub mod openai;
mod schema;

pub use ask::{MAX_ATTEMPTS, ask, structured};
pub use embedder::Embedder;
pub use message::{Message, Role};
pub use model::{Model, Prompt};
pub use schema::Schema;
