//! The models of an agent, by what they are for.

use std::sync::Arc;

use crate::embedder::Embedder;
use crate::model::Model;

/// The models of an agent, by their roles. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Models {
    /// Decides small things, often: quick and cheap.
    pub small: Arc<dyn Model>,
    /// Writes what the agent says and decides what it does.
    pub large: Arc<dyn Model>,
    /// Makes vectors of texts; without it nothing is found by its meaning.
    pub embedding: Option<Arc<dyn Embedder>>,
}

impl Models {
    /// One model for everything that is said, and none for vectors.
    pub fn new(model: Arc<dyn Model>) -> Self {
        Self { small: Arc::clone(&model), large: model, embedding: None }
    }

    /// With another model for small things.
    #[must_use]
    pub fn with_small(mut self, model: Arc<dyn Model>) -> Self {
        self.small = model;
        self
    }

    /// With a model for vectors.
    #[must_use]
    pub fn with_embedding(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.embedding = Some(embedder);
        self
    }
}
