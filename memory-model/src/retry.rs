//! Retries after transient failures of a model.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use futures::future;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use memory_core::{Error, ErrorKind, Result};
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use crate::completion::{Completion, Delta};
use crate::modalities::Modalities;
use crate::model::{Model, Prompt};
use memory_core::Embedder;

/// How often and for how long a call is retried after a retryable error.
///
/// The pause before a retry is random, between 0 and a ceiling that doubles with each attempt (exponential back-off with full
/// jitter), so that clients that failed together do not retry together. If the endpoint says how long to wait ([`RetryAfter`]),
/// that time is added to the pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Retries {
    /// The most attempts, including the first; 4 by default. With 1 or 0 nothing is retried.
    pub attempts: u32,
    /// The ceiling of the first pause, in milliseconds; 500 by default.
    pub pause_ms: u64,
    /// The highest ceiling, in milliseconds; 10 s by default.
    pub max_pause_ms: u64,
    /// How long after the start of the first attempt a retry may start, in milliseconds; 2 min by default. If the pause would end
    /// later, the call fails at once with the last error. It does not limit an attempt that has started; the model's own deadline
    /// does.
    pub within_ms: u64,
}

/// A [`Model`] or an [`Embedder`] whose calls are retried as [`Retries`] say. Dropping a call ends it, even during a pause.
///
/// A stream is retried only before its first item, since items that were given out cannot be taken back.
#[derive(Debug, Clone)]
pub struct Retrying<M> {
    inner: M,
    retries: Retries,
}

/// How long an endpoint asks clients to wait. A model attaches it to its error as the source ([`Error::with_source`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryAfter {
    /// The time to wait, counted from the error.
    pub pause: Duration,
}

impl Retries {
    /// One attempt, without retries.
    pub const NONE: Self = Self { attempts: 1, pause_ms: 0, max_pause_ms: 0, within_ms: 0 };

    async fn run<T, F: Future<Output = Result<T>>>(self, attempt: impl Fn() -> F) -> Result<T> {
        let started = Instant::now();
        let mut made = 1;
        loop {
            let error = match attempt().await {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let pause = self.pause(made).saturating_add(wanted(&error));
            let is_late = started.elapsed().saturating_add(pause) > Duration::from_millis(self.within_ms);
            if !error.is_retryable() || made >= self.attempts || is_late {
                return Err(error);
            }
            tracing::debug!(%error, made, pause_ms = pause.as_millis(), "the model is asked again");
            sleep(pause).await;
            made += 1;
        }
    }

    /// The random pause after `made` attempts, without the time that the endpoint asks for.
    fn pause(self, made: u32) -> Duration {
        let doubled = self.pause_ms.saturating_mul(2_u64.saturating_pow(made - 1));
        Duration::from_millis(fastrand::u64(0..=doubled.min(self.max_pause_ms)))
    }
}

impl Default for Retries {
    fn default() -> Self {
        Self { attempts: 4, pause_ms: 500, max_pause_ms: 10_000, within_ms: 120_000 }
    }
}

impl<M> Retrying<M> {
    /// Wraps a model or an embedder.
    pub fn new(inner: M, retries: Retries) -> Self {
        Self { inner, retries }
    }
}

#[async_trait]
impl<M: Model> Model for Retrying<M> {
    async fn complete(&self, prompt: &Prompt) -> Result<Completion> {
        self.retries.run(|| self.inner.complete(prompt)).await
    }

    fn modalities(&self) -> Modalities {
        self.inner.modalities()
    }

    fn calls_tools(&self) -> bool {
        self.inner.calls_tools()
    }

    fn stream<'a>(&'a self, prompt: &'a Prompt) -> BoxStream<'a, Result<Delta>> {
        let begin = move || async move {
            let mut rest = self.inner.stream(prompt);
            let first =
                rest.next().await.ok_or_else(|| Error::new(ErrorKind::Unexpected, "the model streamed nothing"))??;
            Ok(stream::once(future::ready(Ok(first))).chain(rest))
        };
        stream::once(self.retries.run(begin)).try_flatten().boxed()
    }
}

#[async_trait]
impl<E: Embedder> Embedder for Retrying<E> {
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

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>> {
        self.retries.run(|| self.inner.embed(texts)).await
    }
}

impl fmt::Display for RetryAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the endpoint wants a pause of {} ms", self.pause.as_millis())
    }
}

impl StdError for RetryAfter {}

/// The pause that the endpoint asks for.
fn wanted(error: &Error) -> Duration {
    error.source_as::<RetryAfter>().map_or(Duration::ZERO, |after| after.pause)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::completion::Usage;

    /// Fails with its errors one after the other, and then answers; remembers when it was asked.
    #[derive(Debug, Default)]
    struct Scripted {
        errors: Mutex<Vec<Error>>,
        asked: Mutex<Vec<Instant>>,
        /// Whether a stream yields text before it fails.
        speaks: bool,
    }

    #[async_trait]
    impl Model for Scripted {
        async fn complete(&self, _: &Prompt) -> Result<Completion> {
            self.asked.lock().expect("no panic").push(Instant::now());
            self.errors.lock().expect("no panic").pop().map_or(Ok("Hello".into()), Err)
        }

        fn stream<'a>(&'a self, prompt: &'a Prompt) -> BoxStream<'a, Result<Delta>> {
            let spoken = self.speaks.then(|| Ok(Delta::Text("Well".into())));
            stream::iter(spoken).chain(stream::once(self.complete(prompt)).map_ok(Delta::Done)).boxed()
        }
    }

    fn down() -> Error {
        Error::new(ErrorKind::Unavailable, "down").retryable()
    }

    fn busy(pause: Duration) -> Error {
        down().with_source(RetryAfter { pause })
    }

    fn scripted(errors: impl IntoIterator<Item = Error>) -> Retrying<Scripted> {
        let mut errors: Vec<_> = errors.into_iter().collect();
        errors.reverse();
        Retrying::new(Scripted { errors: Mutex::new(errors), ..Scripted::default() }, Retries::default())
    }

    impl Retrying<Scripted> {
        /// The pauses between the attempts.
        fn pauses(&self) -> Vec<Duration> {
            self.inner.asked.lock().expect("no panic").windows(2).map(|two| two[1] - two[0]).collect()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_up_to_the_highest() {
        let ceilings = [500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000].map(Duration::from_millis);
        let (mut longest, mut shortest) = ([Duration::ZERO; 7], ceilings);
        for _ in 0..200 {
            let mut model = scripted((0..7).map(|_| down()));
            model.retries.attempts = 8;
            model.complete(&Prompt::default()).await.expect("the eighth");
            let pauses = model.pauses();
            assert_eq!(pauses.len(), 7);
            for (at, pause) in pauses.into_iter().enumerate() {
                longest[at] = longest[at].max(pause);
                shortest[at] = shortest[at].min(pause);
            }
        }
        for (at, ceiling) in ceilings.into_iter().enumerate() {
            // The timer counts in milliseconds, and a chance of less than 1e-30 is none.
            assert!(longest[at] <= ceiling + Duration::from_millis(1), "{longest:?}");
            assert!(longest[at] > ceiling / 2 && shortest[at] < ceiling / 2, "{shortest:?} {longest:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_endpoint_gets_the_pause_that_it_wants() {
        let wanted = Duration::from_secs(30);
        let model = scripted([busy(wanted)]);
        model.complete(&Prompt::default()).await.expect("the second");
        let [pause] = model.pauses()[..] else { panic!("two attempts") };
        assert!(pause >= wanted && pause <= wanted + Duration::from_millis(501), "{pause:?}");
        let model = scripted([busy(Duration::from_secs(121))]);
        let began = Instant::now();
        let error = model.complete(&Prompt::default()).await.expect_err("too long");
        assert_eq!((error.kind(), began.elapsed()), (ErrorKind::Unavailable, Duration::ZERO));
        let model = scripted([busy(Duration::from_secs(60)), busy(Duration::from_secs(61))]);
        model.complete(&Prompt::default()).await.expect_err("too long together");
        assert_eq!(model.pauses().len(), 1);
        scripted([busy(Duration::MAX)]).complete(&Prompt::default()).await.expect_err("no overflow");
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_and_kinds_are_bounded() {
        let model = scripted((0..4).map(|_| down()));
        assert_eq!(model.complete(&Prompt::default()).await.expect_err("four failures").kind(), ErrorKind::Unavailable);
        assert_eq!(model.pauses().len(), 3);
        let model = scripted([Error::new(ErrorKind::Unauthorized, "no")]);
        assert_eq!(model.complete(&Prompt::default()).await.expect_err("no").kind(), ErrorKind::Unauthorized);
        let mut model = scripted([down()]);
        model.retries = Retries::NONE;
        model.complete(&Prompt::default()).await.expect_err("one attempt");
        let mut model = scripted((0..100).map(|_| down()));
        model.retries = Retries { attempts: u32::MAX, pause_ms: u64::MAX, max_pause_ms: 0, within_ms: u64::MAX };
        model.complete(&Prompt::default()).await.expect("no overflow");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_dropped_is_not_made_again() {
        let model = scripted([busy(Duration::from_secs(30))]);
        let prompt = Prompt::default();
        tokio::time::timeout(Duration::from_secs(10), model.complete(&prompt)).await.expect_err("it pauses");
        sleep(Duration::from_secs(60)).await;
        assert_eq!(model.pauses(), []);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_begins_again_only_before_its_first_text() {
        let prompt = Prompt::default();
        let model = scripted([down(), down()]);
        let items: Vec<_> = model.stream(&prompt).map(|item| item.expect("the third")).collect().await;
        assert_eq!(items, [Delta::Done(Completion { usage: Usage::default(), ..Completion::from("Hello") })]);
        let mut model = scripted([down(), down()]);
        model.inner.speaks = true;
        let items: Vec<_> = model.stream(&prompt).collect().await;
        assert_eq!(items.len(), 2);
        assert_eq!(items[0].as_ref().expect("a text"), &Delta::Text("Well".into()));
        assert_eq!(items[1].as_ref().expect_err("down").kind(), ErrorKind::Unavailable);
    }
}
