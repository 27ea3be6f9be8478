//! The models of an endpoint, against a local HTTP server.

mod chat;
mod embeddings;
mod endpoint;
mod retries;
mod streams;
mod tools;
