//! The channel of events from runs to subscribers.

use std::sync::Arc;

use memory_core::{Clock, Timestamp};
use tokio::sync::broadcast::{Receiver, Sender, channel};

use super::event::Event;

/// Receives the events of all runs and passes them to the subscribers.
#[derive(Debug, Clone)]
pub(super) struct Sink {
    sender: Sender<Event>,
    clock: Arc<dyn Clock>,
}

impl Sink {
    /// Makes a channel with a buffer of this many events, at least one, for slow subscribers.
    pub(super) fn new(capacity: usize, clock: Arc<dyn Clock>) -> Self {
        Self { sender: channel(capacity.max(1)).0, clock }
    }

    pub(super) fn subscribe(&self) -> Receiver<Event> {
        self.sender.subscribe()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn send(&self, event: Event) {
        // Fails if nobody listens.
        let _ = self.sender.send(event);
    }
}
