//! A run: the processing of one message, from its receipt to its final event.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use memory_core::{MemoryId, Result};
use tokio::time::{Instant, timeout};

use super::event::{End, Event, EventKind, FlowStep, RunContext};
use super::events::Events;
use super::sink::Sink;
use super::tap::Tap;
use crate::records::{EntityId, RoomId};

/// A run in progress.
///
/// # Behavior
/// - It ends with exactly one event. If it is dropped before its end, for example by cancelling its task, the event is
///   [`End::Left`].
/// - No step follows its end.
#[derive(Debug)]
pub(crate) struct Run {
    context: Arc<RunContext>,
    sink: Sink,
    tap: Tap,
    is_over: bool,
}

impl Run {
    /// Starts the run for a message.
    pub(super) fn start(events: &Events, room: RoomId, author: EntityId) -> Self {
        Self::go_on(events, MemoryId::generate(), room, author)
    }

    /// Continues an interrupted run, under its id.
    pub(super) fn go_on(events: &Events, id: MemoryId, room: RoomId, author: EntityId) -> Self {
        let sink = events.sink().clone();
        let context = RunContext { id, room, author, began_at: sink.now() };
        let run = Self { context: Arc::new(context), sink, tap: Tap::default(), is_over: false };
        run.send(EventKind::Started);
        run
    }

    /// Sets the tap, which collects the answer for a caller.
    #[must_use]
    pub(super) fn with_tap(mut self, tap: Tap) -> Self {
        tap.began(self.context.id);
        self.tap = tap;
        self
    }

    pub(super) fn tap(&self) -> &Tap {
        &self.tap
    }

    /// The identity of the run and its message.
    pub(super) fn context(&self) -> &RunContext {
        &self.context
    }

    /// Reports a step.
    pub(super) fn step(&self, step: FlowStep) {
        self.send(EventKind::Step(step));
    }

    /// Ends the run.
    pub(super) fn end(mut self, end: End) {
        self.is_over = true;
        self.send(EventKind::Ended(end));
    }

    /// Does the work of the run and ends the run with its result; with [`End::Failed`] after an error or a panic.
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

/// The time that a run has left. Waiting for other messages does not count.
#[derive(Debug)]
pub(super) struct TimeLeft {
    limit: Duration,
    left: Duration,
}

impl TimeLeft {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, left: limit }
    }

    /// Runs `work` while there is time left; then the work is dropped.
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
