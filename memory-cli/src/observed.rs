//! A wrapper that reports the calls of an embedding model.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{Embedder, Result};

/// Wraps an embedder. After each call it passes to `observe` how many texts have got vectors, or that the call failed.
pub(crate) fn observed(
    embedder: Arc<dyn Embedder>,
    observe: impl Fn(Option<usize>) + Send + Sync + 'static,
) -> Arc<dyn Embedder> {
    Arc::new(Observed { embedder, observe: Box::new(observe) })
}

struct Observed {
    embedder: Arc<dyn Embedder>,
    observe: Box<dyn Fn(Option<usize>) + Send + Sync>,
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed").field("embedder", &self.embedder).finish_non_exhaustive()
    }
}

#[async_trait]
impl Embedder for Observed {
    fn model(&self) -> &str {
        self.embedder.model()
    }

    fn width(&self) -> usize {
        self.embedder.width()
    }

    fn batch(&self) -> usize {
        self.embedder.batch()
    }

    fn max_text(&self) -> usize {
        self.embedder.max_text()
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>> {
        let made = self.embedder.embed(texts).await;
        (self.observe)(made.as_ref().ok().map(Vec::len));
        made
    }
}
