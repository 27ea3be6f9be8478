//! Where the events of runs go.

use std::sync::Arc;

use memory_core::{Clock, Timestamp};
use tokio::sync::broadcast::{Receiver, Sender, channel};

use super::event::Event;

/// Takes the events of all runs, and hands them to whoever listens.
#[derive(Debug, Clone)]
pub(super) struct Sink {
    sender: Sender<Event>,
    clock: Arc<dyn Clock>,
}

impl Sink {
    /// Keeps this many events, at least one, for whoever is slower than they come.
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
        // An error says that nobody listens.
        let _ = self.sender.send(event);
    }
}
