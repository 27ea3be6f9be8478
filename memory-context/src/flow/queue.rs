//! The order within a room, and which message of it is the newest.

use std::collections::{BTreeSet, HashMap};
use std::future::pending;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::{Either, select};
use tokio::sync::watch;

use crate::records::{AgentId, EntityId, RoomId};

/// The messages of each room that are being worked on. Cheap to clone.
///
/// # Behavior
/// - Of a room, one message after the other has its turn, in the order in which they came in. Rooms don't wait for each other.
/// - A message that comes in supersedes those of its room before it at once, unless their answer was claimed.
/// - What the agent said itself does not come in: it supersedes nothing.
/// - A room without messages takes no memory.
#[derive(Debug, Clone)]
pub struct RoomQueues {
    agent: EntityId,
    rooms: Rooms,
}

type Rooms = Arc<Mutex<HashMap<RoomId, Queue>>>;

/// The messages of one room.
#[derive(Debug)]
struct Queue {
    /// The places of those that are worked on or wait.
    open: BTreeSet<u64>,
    ends: watch::Sender<Ends>,
}

/// The two ends of a queue.
#[derive(Debug, Clone, Copy)]
struct Ends {
    /// Whose turn it is.
    first: u64,
    /// The newest that came in.
    newest: u64,
}

/// The place of a message in its room, until it is dropped.
#[derive(Debug)]
pub struct Ticket {
    place: Place,
}

/// The right to answer, until it is dropped. The messages after it wait.
#[derive(Debug)]
pub struct Claim {
    _place: Place,
}

#[derive(Debug)]
struct Place {
    rooms: Rooms,
    room: RoomId,
    number: u64,
    ends: watch::Receiver<Ends>,
}

impl RoomQueues {
    /// The rooms of an agent.
    pub fn new(agent: &AgentId) -> Self {
        Self { agent: agent.entity(), rooms: Rooms::default() }
    }

    /// Lets a message in as the newest of its room; `None` for what the agent said itself.
    ///
    /// It does not wait, so that the order of calls is the order of the room.
    pub fn enter(&self, room: &RoomId, author: &EntityId) -> Option<Ticket> {
        if *author == self.agent {
            return None;
        }
        let mut rooms = lock(&self.rooms);
        let queue = rooms.entry(room.clone()).or_insert_with(|| {
            let (ends, _) = watch::channel(Ends { first: 0, newest: 0 });
            Queue { open: BTreeSet::new(), ends }
        });
        let number = queue.ends.borrow().newest + 1;
        queue.open.insert(number);
        queue.tell(number);
        let ends = queue.ends.subscribe();
        drop(rooms);
        Some(Ticket { place: Place { rooms: Arc::clone(&self.rooms), room: room.clone(), number, ends } })
    }

    /// How many rooms have messages.
    pub fn busy_rooms(&self) -> usize {
        lock(&self.rooms).len()
    }
}

impl Ticket {
    /// Waits until all messages before it are over.
    pub async fn turn(&self) {
        self.place.until(|ends, number| ends.first == number).await;
    }

    /// Whether a newer message came in.
    pub fn is_superseded(&self) -> bool {
        self.place.ends.borrow().newest > self.place.number
    }

    /// Waits until a newer message comes in.
    pub async fn superseded(&self) {
        self.place.until(|ends, number| ends.newest > number).await;
    }

    /// Works on the answer until that is over or a newer message comes in: then the work is dropped, and there is none.
    pub async fn unless_superseded<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        match select(pin!(self.superseded()), pin!(work)).await {
            Either::Left(_) => None,
            Either::Right((output, _)) => Some(output),
        }
    }

    /// Waits for the turn, and claims the answer: a message that comes in from now on waits for its end instead of superseding it.
    /// `None` when a newer one came in before.
    pub async fn claim(self) -> Option<Claim> {
        self.unless_superseded(self.turn()).await?;
        // The one look that counts: whatever comes in after it is later than the answer.
        if self.is_superseded() { None } else { Some(Claim { _place: self.place }) }
    }
}

impl Place {
    async fn until(&self, reached: impl Fn(&Ends, u64) -> bool) {
        let mut ends = self.ends.clone();
        if ends.wait_for(|ends| reached(ends, self.number)).await.is_err() {
            // The queue stays for as long as it has places.
            pending::<()>().await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut rooms = lock(&self.rooms);
        let Some(queue) = rooms.get_mut(&self.room) else { return };
        queue.open.remove(&self.number);
        let newest = queue.ends.borrow().newest;
        queue.tell(newest);
        if queue.open.is_empty() {
            rooms.remove(&self.room);
        }
    }
}

impl Queue {
    fn tell(&self, newest: u64) {
        let first = self.open.first().copied().unwrap_or(newest);
        self.ends.send_replace(Ends { first, newest });
    }
}

/// A panic leaves the map as whole as it was: each change is one step.
fn lock(rooms: &Rooms) -> MutexGuard<'_, HashMap<RoomId, Queue>> {
    rooms.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::future::join_all;
    use tokio::sync::{Barrier, oneshot};

    use super::*;

    fn queues() -> RoomQueues {
        RoomQueues::new(&AgentId::parse("agent").expect("valid"))
    }

    fn room(name: &str) -> RoomId {
        RoomId::parse(name).expect("valid")
    }

    fn enter(queues: &RoomQueues, name: &str) -> Ticket {
        queues.enter(&room(name), &EntityId::parse("ana").expect("valid")).expect("not the agent")
    }

    #[test]
    fn the_echo_of_the_agent_supersedes_nothing() {
        let queues = queues();
        let ticket = enter(&queues, "r");
        assert!(queues.enter(&room("r"), &EntityId::parse("agent").expect("valid")).is_none());
        assert!(!ticket.is_superseded());
        assert!(ticket.claim().now_or_never().flatten().is_some());
    }

    #[test]
    fn a_newer_message_supersedes_older_ones_of_its_room() {
        let queues = queues();
        let (older, elsewhere) = (enter(&queues, "r"), enter(&queues, "s"));
        assert!(!older.is_superseded());
        let newer = enter(&queues, "r");
        assert!(older.is_superseded() && !newer.is_superseded() && !elsewhere.is_superseded());
        assert!(older.claim().now_or_never().expect("at once").is_none());
        assert!(newer.claim().now_or_never().flatten().is_some());
        assert!(elsewhere.claim().now_or_never().flatten().is_some());
    }

    #[tokio::test]
    async fn work_on_a_superseded_answer_is_dropped() {
        let queues = queues();
        let older = enter(&queues, "r");
        let (alive, dropped) = oneshot::channel::<()>();
        let work = async move {
            let _alive = alive;
            pending::<()>().await
        };
        let superseded = tokio::spawn(async move { older.unless_superseded(work).await });
        let newer = enter(&queues, "r");
        assert!(dropped.await.is_err(), "the work is gone");
        assert_eq!(superseded.await.expect("no panic"), None);
        assert_eq!(newer.unless_superseded(async { 1 }).await, Some(1));
    }

    #[test]
    fn a_claimed_answer_is_not_superseded_and_the_next_waits() {
        let queues = queues();
        let claim = enter(&queues, "r").claim().now_or_never().flatten().expect("the newest");
        let next = enter(&queues, "r");
        let mut turn = Box::pin(next.turn());
        assert!(turn.as_mut().now_or_never().is_none(), "the answer is not over");
        drop(claim);
        assert!(turn.now_or_never().is_some());
    }

    #[test]
    fn a_room_without_messages_is_forgotten() {
        let queues = queues();
        let (one, other) = (enter(&queues, "r"), enter(&queues, "r"));
        assert_eq!(queues.busy_rooms(), 1);
        drop(one);
        assert_eq!(queues.busy_rooms(), 1);
        drop(other.claim().now_or_never().flatten().expect("the newest"));
        assert_eq!(queues.busy_rooms(), 0);
    }

    /// Every room's last message waits at a barrier with its answer claimed, which none passes before all are there.
    #[tokio::test]
    async fn a_hundred_rooms_go_on_at_once_and_each_in_order() {
        const ROOMS: usize = 100;
        const MESSAGES: usize = 5;
        let (queues, model) = (queues(), Arc::new(Barrier::new(ROOMS)));
        let mut rooms = Vec::new();
        for number in 0..ROOMS {
            let log = Arc::new(Mutex::new(Vec::new()));
            let tickets: Vec<_> = (0..MESSAGES).map(|_| enter(&queues, &number.to_string())).collect();
            // The last begins first, and still comes last.
            let runs = tickets.into_iter().enumerate().rev().map(|(message, ticket)| {
                let (log, model) = (Arc::clone(&log), Arc::clone(&model));
                tokio::spawn(async move {
                    ticket.turn().await;
                    log.lock().expect("no panic").push(message);
                    let Some(_claim) = ticket.claim().await else { return 0 };
                    model.wait().await;
                    1
                })
            });
            let runs: Vec<_> = runs.collect();
            rooms.push((log, join_all(runs)));
        }
        for (log, runs) in rooms {
            let answers: usize = runs.await.into_iter().map(|answers| answers.expect("no panic")).sum();
            assert_eq!(answers, 1, "only the newest is answered");
            assert_eq!(*log.lock().expect("no panic"), [0, 1, 2, 3, 4]);
        }
        assert_eq!(queues.busy_rooms(), 0);
    }
}
