//! The models of a service, wrapped for providers, tools and evaluators in a run.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::{BoxStream, unfold};
use memory_core::Result;
use memory_model::{Completion, Delta, Modalities, Model, Prompt};
use tokio::time::{Instant, timeout, timeout_at};

use super::tap::{Spending, Tap};
use crate::deadline::{ends_after, no_answer};

/// Wraps a model: its calls count in the usage of a run, and have the service's deadline.
#[derive(Debug)]
pub(super) struct Metered {
    model: Arc<dyn Model>,
    limit: Duration,
    spending: Spending,
}

impl Metered {
    pub(super) fn new(model: Arc<dyn Model>, limit: Duration, tap: &Tap) -> Self {
        Self { model, limit, spending: tap.spending() }
    }
}

#[async_trait]
impl Model for Metered {
    async fn complete(&self, prompt: &Prompt) -> Result<Completion> {
        let completion =
            timeout(self.limit, self.model.complete(prompt)).await.map_err(|_| no_answer(self.limit))??;
        self.spending.add(completion.usage);
        Ok(completion)
    }

    fn modalities(&self) -> Modalities {
        self.model.modalities()
    }

    fn calls_tools(&self) -> bool {
        self.model.calls_tools()
    }

    fn stream<'a>(&'a self, prompt: &'a Prompt) -> BoxStream<'a, Result<Delta>> {
        let begin = Some((self.model.stream(prompt), None));
        let next = move |state: Option<(BoxStream<'a, Result<Delta>>, Option<Instant>)>| async move {
            let (mut pieces, ends) = state?;
            // The deadline counts from the first poll.
            let ends = ends.unwrap_or_else(|| ends_after(self.limit));
            let Ok(piece) = timeout_at(ends, pieces.next()).await else {
                return Some((Err(no_answer(self.limit)), None));
            };
            let piece = piece?;
            if let Ok(Delta::Done(completion)) = &piece {
                self.spending.add(completion.usage);
            }
            Some((piece, Some((pieces, Some(ends)))))
        };
        unfold(begin, next).boxed()
    }
}

#[cfg(test)]
mod tests {
    use futures::future::pending;
    use memory_core::{ErrorKind, MemoryId};
    use memory_model::Usage;

    use super::*;
    use crate::flow::End;

    /// Answers at a cost, or not at all.
    #[derive(Debug)]
    struct Costly {
        is_there: bool,
    }

    #[async_trait]
    impl Model for Costly {
        async fn complete(&self, _: &Prompt) -> Result<Completion> {
            if !self.is_there {
                return pending().await;
            }
            let usage = Usage { input_tokens: 3, output_tokens: 1 };
            Ok(Completion { text: "Yes".to_owned(), usage, ..Completion::default() })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn calls_count_and_end_at_the_limit() {
        let (tap, answered) = Tap::new();
        tap.began(MemoryId::generate());
        let metered = |is_there| Metered::new(Arc::new(Costly { is_there }), Duration::from_secs(60), &tap);
        let (there, gone, prompt) = (metered(true), metered(false), Prompt::default());
        there.complete(&prompt).await.expect("an answer");
        assert_eq!(there.stream(&prompt).count().await, 2, "the text and the end");
        assert_eq!(gone.complete(&prompt).await.expect_err("late").kind(), ErrorKind::Timeout);
        let pieces: Vec<_> = gone.stream(&prompt).collect().await;
        assert!(matches!(&pieces[..], [Err(late)] if late.kind() == ErrorKind::Timeout), "{pieces:?}");
        tap.end(&End::Completed);
        assert_eq!(answered.await.expect("an answer").usage, Usage { input_tokens: 6, output_tokens: 2 });
    }

    #[tokio::test]
    async fn who_keeps_a_model_keeps_nobody_waiting_for_the_answer() {
        let (tap, answered) = Tap::new();
        let kept = Metered::new(Arc::new(Costly { is_there: true }), Duration::from_secs(60), &tap);
        drop(tap);
        assert!(answered.await.is_err(), "the run is gone");
        kept.complete(&Prompt::default()).await.expect("an answer");
    }
}
