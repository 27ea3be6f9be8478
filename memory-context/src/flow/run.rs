//! The run: the work on one message, from its receipt to the one event that ends it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use memory_core::Result;
use tokio::time::{Instant, timeout};

use super::event::{End, Event, EventKind, FlowStep, RunContext};
use super::sink::Sink;
use super::tap::Tap;

/// A run that is going on.
///
/// # Behavior
/// - It ends with exactly one event: ending it takes it away, and one that is dropped before, as where its task is cancelled, has
///   left its work.
/// - No step of it comes after its end.
#[derive(Debug)]
pub(crate) struct Run {
    context: Arc<RunContext>,
    sink: Sink,
    tap: Tap,
    is_over: bool,
}

impl Run {
    pub(super) fn start(context: RunContext, sink: Sink) -> Self {
        let run = Self { context: Arc::new(context), sink, tap: Tap::default(), is_over: false };
        run.send(EventKind::Started);
        run
    }

    /// Gives its answer to whoever waits for it.
    #[must_use]
    pub(super) fn with_tap(mut self, tap: Tap) -> Self {
        tap.began(self.context.id);
        self.tap = tap;
        self
    }

    pub(super) fn tap(&self) -> &Tap {
        &self.tap
    }

    /// What it is about.
    pub(super) fn context(&self) -> &RunContext {
        &self.context
    }

    /// Tells of a step.
    pub(super) fn step(&self, step: FlowStep) {
        self.send(EventKind::Step(step));
    }

    /// Ends it.
    pub(super) fn end(mut self, end: End) {
        self.is_over = true;
        self.send(EventKind::Ended(end));
    }

    /// Does the work of the run and ends it with what comes of that: with [`End::Failed`] after an error and after a panic.
    pub(super) async fn drive(self, work: impl AsyncFnOnce(&Self) -> Result<End>) -> End {
        let end = match AssertUnwindSafe(work(&self)).catch_unwind().await {
            Ok(Ok(end)) => end,
            Ok(Err(error)) => End::from(error),
            Err(_) => End::Failed { reason: "the run panicked".to_owned() },
        };
        self.end(end.clone());
        end
    }

    fn send(&self, kind: EventKind) {
        self.sink.send(Event { run: Arc::clone(&self.context), at: self.sink.now(), kind });
    }
}

/// What is left of the time of a run. Waiting for other messages takes none of it.
#[derive(Debug)]
pub(super) struct TimeLeft {
    limit: Duration,
    left: Duration,
}

impl TimeLeft {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, left: limit }
    }

    /// Works for as long as there is time left; then the work is dropped and does nothing any more.
    pub(super) async fn spend<T>(&mut self, work: impl Future<Output = T>) -> Result<T, End> {
        let began = Instant::now();
        let done = timeout(self.left, work).await.map_err(|_| End::TimedOut { after: self.limit });
        self.left = self.left.saturating_sub(began.elapsed());
        done
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !self.is_over {
            self.send(EventKind::Ended(End::Left { reason: "the run was stopped before its end".to_owned() }));
        }
    }
}
