//! The vectors of questions.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;
use memory_core::{Error, ErrorKind, Result};
use memory_model::Embedder;
use tokio::sync::OnceCell;

use super::embed::embed;
use super::vector::Vector;
use crate::hash;

/// The vectors of the texts that were asked about last. Whoever asks about the same text at once, or soon after, waits for the same
/// call of the model.
#[derive(Debug)]
pub(crate) struct Questions {
    embedder: Arc<dyn Embedder>,
    /// By the hash of the text.
    vectors: Mutex<LruCache<String, Arc<OnceCell<Vector>>>>,
}

const KEPT: NonZeroUsize = NonZeroUsize::new(100).expect("more than none");

impl Questions {
    pub(crate) fn new(embedder: Arc<dyn Embedder>) -> Self {
        Self { embedder, vectors: Mutex::new(LruCache::new(KEPT)) }
    }

    pub(crate) fn embedder(&self) -> &Arc<dyn Embedder> {
        &self.embedder
    }

    /// The vector of a text. What fails is asked for again the next time.
    pub(crate) async fn vector(&self, text: String) -> Result<Vector> {
        let cell = {
            let mut vectors = self.vectors.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(vectors.get_or_insert_mut(hash::of_parts([text.as_str()]), Arc::default))
        };
        let vector = cell.get_or_try_init(async || {
            let vector = embed(self.embedder.as_ref(), &[text]).await?.pop();
            vector.ok_or_else(|| Error::new(ErrorKind::Unexpected, "the model made no vector of a text"))
        });
        vector.await.cloned()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use futures::future::join_all;
    use tokio::sync::Semaphore;

    use super::*;

    /// Answers when it may, and fails at first.
    #[derive(Debug)]
    struct Scripted(AtomicUsize, Semaphore);

    #[async_trait]
    impl Embedder for Scripted {
        fn model(&self) -> &str {
            "m"
        }

        fn width(&self) -> usize {
            1
        }

        async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>> {
            let calls = self.0.fetch_add(1, Ordering::SeqCst);
            self.1.acquire().await.expect("it is not closed").forget();
            if calls == 0 { Err(Error::invalid("no")) } else { Ok(vec![vec![texts[0].len() as f32]]) }
        }
    }

    #[tokio::test]
    async fn a_text_is_asked_about_once_and_again_after_a_failure() {
        let embedder = Arc::new(Scripted(AtomicUsize::new(0), Semaphore::new(1)));
        let questions = Questions::new(Arc::clone(&embedder) as _);
        assert!(questions.vector("tea".into()).await.is_err());
        let asking = join_all((0..5).map(|_| questions.vector("tea".into())));
        let (vectors, ()) = futures::join!(asking, async { embedder.1.add_permits(9) });
        assert!(vectors.into_iter().all(|vector| vector.expect("a vector").width() == 1));
        assert_eq!(embedder.0.load(Ordering::SeqCst), 2);
        questions.vector("coffee".into()).await.expect("a vector");
        questions.vector("tea".into()).await.expect("a vector");
        assert_eq!(embedder.0.load(Ordering::SeqCst), 3);
    }
}
