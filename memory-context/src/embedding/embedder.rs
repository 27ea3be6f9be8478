//! What makes vectors of texts.

use async_trait::async_trait;
use memory_core::{Error, ErrorKind, Result};

use super::Vector;

/// A model that makes vectors, held as `Arc<dyn Embedder>`: texts that mean alike lie in alike directions.
#[async_trait]
pub trait Embedder: std::fmt::Debug + Send + Sync + 'static {
    /// The name of the model. Vectors of different models are never compared.
    fn model(&self) -> &str;

    /// How many numbers a vector has.
    fn width(&self) -> usize;

    /// The vectors of these texts, in their order.
    ///
    /// `Unavailable` and `Timeout` say that the same call may succeed later; `Unauthorized` that the credentials are
    /// refused. No error quotes a text.
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>>;
}

/// The vectors of these texts, checked: `Unexpected` when the model gives another number of them, of another width, or
/// with a number that is not finite.
pub(crate) async fn embed(embedder: &dyn Embedder, texts: &[String]) -> Result<Vec<Vector>> {
    let unexpected = |message: String| Error::new(ErrorKind::Unexpected, message);
    let vectors = embedder.embed(texts).await?;
    if vectors.len() != texts.len() {
        let (given, asked) = (vectors.len(), texts.len());
        return Err(unexpected(format!("the model made {given} vectors of {asked} texts")));
    }
    let checked = vectors.into_iter().map(|numbers| {
        let (width, expected) = (numbers.len(), embedder.width());
        if width != expected {
            return Err(unexpected(format!("the model made a vector of {width} numbers, not of {expected}")));
        }
        Vector::new(numbers)
            .ok_or_else(|| unexpected("the model made a vector with a number that is not finite".into()))
    });
    checked.collect()
}
