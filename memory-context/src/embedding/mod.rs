//! Search by meaning: texts as vectors, kept as documents on any engine, and compared exactly.
//!
//! An [`Embedder`] makes the vectors. [`Records::with_embedder`](crate::records::Records::with_embedder) puts one to use.

mod embedder;
#[cfg(feature = "openai")]
mod openai;
mod questions;
mod rank;
mod vector;
mod vectors;

pub use embedder::Embedder;
pub(crate) use embedder::embed;
#[cfg(feature = "openai")]
pub use openai::OpenAiEmbedder;
pub(crate) use questions::Questions;
pub(crate) use rank::{fuse, nearest};
pub(crate) use vector::Vector;
pub(crate) use vectors::Vectors;
