//! Models behind an endpoint that speaks OpenAI's protocol.

mod chat;
mod config;
mod embeddings;
mod endpoint;

pub use chat::OpenAiModel;
pub use config::{OpenAiConfig, SchemaHint};
pub use embeddings::OpenAiEmbedder;
pub use endpoint::Endpoint;
