//! Models behind an endpoint that speaks OpenAI's protocol.

mod answer;
mod chat;
mod config;
mod embeddings;
mod endpoint;
mod events;
mod request;

pub use chat::OpenAiModel;
pub use config::{OpenAiConfig, SchemaHint};
pub use embeddings::OpenAiEmbedder;
