//! A cache of the vectors of questions.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lru::LruCache;
use memory_core::{Embedder, Error, ErrorKind, Result, Vector};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use crate::hash;

/// An embedding model with a cache of the vectors of the last questions. Concurrent calls with the same question share one call of the
/// model, so a question to several rooms is embedded once.
#[derive(Debug)]
pub(crate) struct Cached {
    inner: Arc<dyn Embedder>,
    /// Keyed by the hash of the text.
    vectors: Mutex<LruCache<String, Arc<OnceCell<Vec<f32>>>>>,
}

/// A [`Cached`] model with a short deadline, `patience`, after which a call fails with `Timeout`.
#[derive(Debug)]
pub(crate) struct Hurried {
    pub(crate) cached: Arc<Cached>,
    pub(crate) patience: Duration,
}

const KEPT: NonZeroUsize = NonZeroUsize::new(100).expect("more than none");

impl Cached {
    pub(crate) fn new(inner: Arc<dyn Embedder>) -> Self {
        Self { inner, vectors: Mutex::new(LruCache::new(KEPT)) }
    }

    /// The model without the cache, for texts other than questions.
    pub(crate) fn inner(&self) -> &Arc<dyn Embedder> {
        &self.inner
    }

    async fn one(&self, text: &String) -> Result<Vec<f32>> {
        let cell = {
            let mut vectors = self.vectors.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(vectors.get_or_insert_mut(hash::of_parts([text.as_str()]), Arc::default))
        };
        let vector = cell.get_or_try_init(async || {
            let made = self.inner.embed(std::slice::from_ref(text)).await?.pop();
            // Only valid vectors of the model's width are cached.
            let is_vector = |made: &Vec<f32>| made.len() == self.inner.width() && Vector::new(made).is_ok();
            let none = || Error::new(ErrorKind::Unexpected, "the model made no vector of a question");
            made.filter(is_vector).ok_or_else(none)
        });
        vector.await.cloned()
    }
}

#[async_trait]
impl Embedder for Cached {
    fn model(&self) -> &str {
        self.inner.model()
    }

    fn width(&self) -> usize {
        self.inner.width()
    }

    fn batch(&self) -> usize {
        self.inner.batch()
    }

    fn max_text(&self) -> usize {
        self.inner.max_text()
    }

    /// Failures are not cached: the next call asks the model again.
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>> {
        match texts {
            [text] => Ok(vec![self.one(text).await?]),
            texts => self.inner.embed(texts).await,
        }
    }
}

#[async_trait]
impl Embedder for Hurried {
    fn model(&self) -> &str {
        self.cached.model()
    }

    fn width(&self) -> usize {
        self.cached.width()
    }

    fn batch(&self) -> usize {
        self.cached.batch()
    }

    fn max_text(&self) -> usize {
        self.cached.max_text()
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>> {
        let late = |_| Err(Error::new(ErrorKind::Timeout, "the embedder returned no vector of the question in time"));
        timeout(self.patience, self.cached.embed(texts)).await.unwrap_or_else(late)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::join_all;
    use tokio::sync::Semaphore;

    use super::*;

    /// Answers when it may, and fails at first; then with a vector that is none.
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
            match calls {
                0 => Err(Error::invalid("no")),
                1 => Ok(vec![vec![0.0]]),
                _ => Ok(vec![vec![texts[0].len() as f32]]),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_is_asked_about_once_and_again_after_a_failure() {
        let scripted = Arc::new(Scripted(AtomicUsize::new(0), Semaphore::new(2)));
        let cached = Arc::new(Cached::new(Arc::clone(&scripted) as _));
        let embedder: Arc<dyn Embedder> = Arc::clone(&cached) as _;
        let vector = async |text: &str| embedder.vectors(&[text.to_owned()]).await;
        for kind in [ErrorKind::InvalidInput, ErrorKind::Unexpected] {
            assert_eq!(vector("tea").await.expect_err("no vector").kind(), kind);
        }
        let hurried: Arc<dyn Embedder> =
            Arc::new(Hurried { cached: Arc::clone(&cached), patience: Duration::from_secs(2) });
        let late = hurried.vectors(&["tea".to_owned()]).await.expect_err("nothing answers");
        assert_eq!((late.kind(), scripted.0.load(Ordering::SeqCst)), (ErrorKind::Timeout, 3));
        let asking = join_all((0..5).map(|_| vector("tea")));
        let (vectors, ()) = futures::join!(asking, async { scripted.1.add_permits(9) });
        assert!(vectors.into_iter().all(|made| made.expect("made").len() == 1));
        assert_eq!(scripted.0.load(Ordering::SeqCst), 4);
        vector("coffee").await.expect("a vector");
        hurried.vectors(&["tea".to_owned()]).await.expect("a vector");
        assert_eq!(scripted.0.load(Ordering::SeqCst), 5);
    }
}
