//! An embedding model at whose work somebody looks.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{Embedder, Result};

/// The same embedder, which tells `observe` of each call what came of it: how many texts have vectors by it, or that it failed.
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
