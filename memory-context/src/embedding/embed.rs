//! Asking an embedder, and checking what it gives.

use memory_core::{Error, ErrorKind, Result};
use memory_model::Embedder;

use super::vector::Vector;

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
