//! The trait that a model of vectors implements.

use std::fmt;

use async_trait::async_trait;
use memory_core::Result;

/// A model that makes vectors, held as `Arc<dyn Embedder>`: texts that mean alike lie in alike directions.
#[async_trait]
pub trait Embedder: Send + Sync + 'static {
    /// The name of the model. Vectors of different models are never compared.
    fn model(&self) -> &str;

    /// How many numbers a vector has.
    fn width(&self) -> usize;

    /// The vectors of these texts, in their order.
    ///
    /// A retryable error (`Unavailable`, `Timeout`) says that the same call may succeed later; `Unauthorized` that the
    /// credentials are refused. No error quotes a text.
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>>;
}

impl fmt::Debug for dyn Embedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Embedder({})", self.model())
    }
}
