//! The stream of events.

use std::sync::Arc;

use futures::Stream;
use futures::stream::unfold;
use memory_core::Clock;
use tokio::sync::broadcast::error::RecvError;

use super::event::Event;
use super::sink::Sink;

/// The source of events, to subscribe to; [`Agent::events`](crate::agent::Agent::events) returns that of an agent. Cloning is cheap; all
/// clones are the same source.
#[derive(Debug, Clone)]
pub struct Events {
    sink: Sink,
}

/// An item of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// An event.
    Event(Event),
    /// This many events were lost, since the subscriber was too slow.
    Missed(u64),
}

impl Events {
    /// Makes a source with a buffer of this many events, at least one, for slow subscribers.
    pub fn new(capacity: usize, clock: Arc<dyn Clock>) -> Self {
        Self { sink: Sink::new(capacity, clock) }
    }

    /// Subscribes to all later events, in their order. The stream ends when all clones of this source and all of their runs are dropped. No
    /// run waits for a subscriber.
    pub fn subscribe(&self) -> impl Stream<Item = Notice> + Send + use<> {
        unfold(self.sink.subscribe(), |mut receiver| async {
            let notice = match receiver.recv().await {
                Ok(event) => Notice::Event(event),
                Err(RecvError::Lagged(missed)) => Notice::Missed(missed),
                Err(RecvError::Closed) => return None,
            };
            Some((notice, receiver))
        })
    }

    /// The sink that the runs send their events to.
    pub(super) fn sink(&self) -> &Sink {
        &self.sink
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures::StreamExt;
    use memory_core::{Error, ManualClock, Result, Timestamp};

    use super::super::event::{End, EventKind};
    use super::super::respond::Why;
    use super::super::run::Run;
    use super::*;
    use crate::records::{EntityId, RoomId};

    fn events() -> Events {
        Events::new(100, Arc::new(ManualClock::new(Timestamp::MIN)))
    }

    fn start(events: &Events) -> Run {
        Run::start(events, RoomId::parse("r").expect("valid"), EntityId::parse("ana").expect("valid"))
    }

    /// What was heard of one run, with all else gone.
    async fn heard(events: Events, stream: impl Stream<Item = Notice>) -> Vec<EventKind> {
        drop(events);
        let kinds = stream.map(|notice| match notice {
            Notice::Event(event) => event.kind,
            Notice::Missed(missed) => panic!("{missed} missed"),
        });
        kinds.collect().await
    }

    async fn driven(work: impl AsyncFnOnce(&Run) -> Result<End>) -> (End, Vec<EventKind>) {
        let events = events();
        let stream = events.subscribe();
        let end = start(&events).drive(work).await;
        (end, heard(events, stream).await)
    }

    #[tokio::test]
    async fn a_run_ends_with_exactly_one_event() {
        for end in [End::Completed, End::Superseded, End::Ignored(Why::Muted)] {
            let (driven, events) = driven(async |_| Ok(end.clone())).await;
            assert_eq!((&driven, &events[..]), (&end, &[EventKind::Started, EventKind::Ended(end.clone())][..]));
        }
        let (failed, events) = driven(async |_| Err(Error::invalid("no"))).await;
        assert!(matches!(&failed, End::Failed { reason } if reason.contains("no")), "{failed:?}");
        assert_eq!(events, [EventKind::Started, EventKind::Ended(failed)]);
    }

    #[tokio::test]
    async fn a_run_that_is_dropped_is_left_and_one_that_panics_has_failed() {
        let events = events();
        let stream = events.subscribe();
        drop(start(&events).drive(async |_| pending().await));
        let end = start(&events).drive(async |_| panic!("as a test")).await;
        assert!(matches!(end, End::Failed { .. }), "{end:?}");
        let ends: Vec<_> = heard(events, stream).await;
        let ends: Vec<_> = ends.iter().filter(|kind| **kind != EventKind::Started).collect();
        let [EventKind::Ended(End::Left { .. }), EventKind::Ended(End::Failed { .. })] = ends[..] else {
            panic!("{ends:?}")
        };
    }

    #[tokio::test]
    async fn runs_at_the_same_time_are_told_apart() {
        let events = events();
        let mut stream = Box::pin(events.subscribe());
        let (one, other) = (start(&events), start(&events));
        assert_ne!(one.context().id, other.context().id);
        let (first, second) = (one.context().id, other.context().id);
        other.end(End::Completed);
        one.end(End::Superseded);
        let mut ids = Vec::new();
        for _ in 0..4 {
            let Some(Notice::Event(event)) = stream.next().await else { panic!("an event") };
            ids.push(event.run.id);
        }
        assert_eq!(ids, [first, second, second, first]);
    }

    #[tokio::test]
    async fn a_slow_subscriber_is_told_what_it_missed() {
        let events = Events::new(2, Arc::new(ManualClock::new(Timestamp::MIN)));
        let mut stream = Box::pin(events.subscribe());
        for _ in 0..3 {
            start(&events).end(End::Completed);
        }
        assert_eq!(stream.next().await, Some(Notice::Missed(4)));
        let Some(Notice::Event(event)) = stream.next().await else { panic!("an event") };
        assert_eq!(event.kind, EventKind::Started);
    }
}
