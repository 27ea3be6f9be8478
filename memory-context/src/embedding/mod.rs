//! Search by meaning: a model makes vectors of texts and of questions, and the engine keeps those of texts beside its records.
//!
//! [`Records::with_embedder`](crate::records::Records::with_embedder) puts an [`Embedder`] to use. The vectors are made by a
//! [`VectorKeeper`]: that of [`keeper`], which makes those of facts too.

mod cached;
mod fuse;

use std::sync::Arc;

use memory_core::MemoryProvider;

pub use memory_core::{Embedder, Kept, VectorKeeper};
#[cfg(feature = "openai")]
pub use memory_model::openai::{OpenAiConfig, OpenAiEmbedder};

use crate::records::is_fact_collection;

pub(crate) use cached::{Cached, Hurried};
pub(crate) use fuse::fuse;

/// What makes the vectors of a namespace, those of facts among them, whose collections are reserved.
///
/// One in a namespace is enough, for all of its agents: in a program that runs it all the time, or where [`Records::upkeep`] is called.
///
/// [`Records::upkeep`]: crate::records::Records::upkeep
pub fn keeper(provider: Arc<dyn MemoryProvider>, embedder: Arc<dyn Embedder>) -> VectorKeeper {
    VectorKeeper::new(provider, embedder).with_reserved("facts", is_fact_collection)
}
