//! Search by meaning: texts as vectors, kept as documents on any engine, and compared exactly.
//!
//! An [`Embedder`] makes the vectors. [`Records::with_embedder`](crate::records::Records::with_embedder) puts one to use.

mod embed;
mod questions;
mod rank;
mod vector;
mod vectors;

pub use memory_model::Embedder;
#[cfg(feature = "openai")]
pub use memory_model::openai::{OpenAiConfig, OpenAiEmbedder};

pub(crate) use embed::embed;
pub(crate) use questions::Questions;
pub(crate) use rank::{fuse, nearest};
pub(crate) use vector::Vector;
pub(crate) use vectors::Vectors;
