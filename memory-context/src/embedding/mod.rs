//! Search by meaning: an embedding model makes vectors of texts and questions, and the engine keeps the vectors of texts beside its
//! records.
//!
//! [`Records::with_embedder`](crate::records::Records::with_embedder) sets the [`Embedder`]. The [`VectorKeeper`] of [`keeper`] makes the
//! vectors, including those of facts.

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

/// Returns the keeper that makes the vectors of a namespace, including those of facts, whose collections are reserved.
///
/// One keeper per namespace is enough for all its agents: run it all the time in one program, or call [`Records::upkeep`].
///
/// [`Records::upkeep`]: crate::records::Records::upkeep
pub fn keeper(provider: Arc<dyn MemoryProvider>, embedder: Arc<dyn Embedder>) -> VectorKeeper {
    VectorKeeper::new(provider, embedder).with_reserved("facts", is_fact_collection)
}
