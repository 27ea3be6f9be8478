//! The order within a room, and which of its messages is answered.

use std::collections::{BTreeMap, HashMap};
use std::future::pending;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::{Either, select};
use tokio::sync::watch;

use crate::records::RoomId;

/// The messages of each room that are being worked on. Cheap to clone.
///
/// # Behavior
/// - Of a room, one message after the other is decided on, in the order in which they came in. Rooms don't wait for each other.
/// - A message that is to be answered supersedes those of its room before it, unless their answer was claimed. One that has only
///   come in, and one that is over without having been decided on, supersedes nothing.
/// - Of a room, one answer after the other is worked on.
/// - A room without messages takes no memory.
#[derive(Debug, Clone, Default)]
pub struct RoomQueues {
    rooms: Rooms,
}

type Rooms = Arc<Mutex<HashMap<RoomId, Queue>>>;

/// The messages of one room.
#[derive(Debug)]
struct Queue {
    /// The places of those that are worked on or wait, and whether each is to be answered; nobody knows yet where it is not.
    open: BTreeMap<u64, bool>,
    /// The place of the newest that came in.
    newest: u64,
    heads: watch::Sender<Heads>,
}

/// How far a queue is.
#[derive(Debug, Clone, Copy, Default)]
struct Heads {
    /// The first that is not over.
    first: u64,
    /// The first that is not decided on.
    undecided: u64,
    /// The newest that is to be answered.
    answered: u64,
}

/// The place of a message in its room, until it is dropped.
#[derive(Debug)]
pub struct Ticket {
    place: Place,
}

/// The right to answer, until it is dropped. The answers after it wait.
#[derive(Debug)]
pub struct Claim {
    _place: Place,
}

#[derive(Debug)]
struct Place {
    rooms: Rooms,
    room: RoomId,
    number: u64,
    heads: watch::Receiver<Heads>,
}

impl RoomQueues {
    /// Lets a message in, behind those of its room.
    ///
    /// It does not wait, so that the order of calls is the order of the room.
    pub fn enter(&self, room: &RoomId) -> Ticket {
        let mut rooms = lock(&self.rooms);
        let queue = rooms.entry(room.clone()).or_insert_with(|| {
            let (heads, _) = watch::channel(Heads::default());
            Queue { open: BTreeMap::new(), newest: 0, heads }
        });
        queue.newest += 1;
        let number = queue.newest;
        queue.open.insert(number, false);
        queue.tell();
        let heads = queue.heads.subscribe();
        drop(rooms);
        Ticket { place: Place { rooms: Arc::clone(&self.rooms), room: room.clone(), number, heads } }
    }

    /// How many rooms have messages.
    pub fn busy_rooms(&self) -> usize {
        lock(&self.rooms).len()
    }
}

impl Ticket {
    /// Waits until it is decided of all messages before it whether they are answered.
    pub async fn turn(&self) {
        self.place.until(|heads, number| heads.undecided >= number).await;
    }

    /// Says that the message is to be answered, which supersedes those before it whose answer is not claimed. One that is not
    /// to be answered is dropped instead.
    pub fn supersede(&self) {
        let mut rooms = lock(&self.place.rooms);
        if let Some(queue) = rooms.get_mut(&self.place.room) {
            queue.open.insert(self.place.number, true);
            queue.tell();
        }
    }

    /// Waits until all messages before it are over.
    pub async fn first(&self) {
        self.place.until(|heads, number| heads.first == number).await;
    }

    /// Whether a newer message is to be answered.
    pub fn is_superseded(&self) -> bool {
        self.place.heads.borrow().answered > self.place.number
    }

    /// Waits until a newer message is to be answered.
    pub async fn superseded(&self) {
        self.place.until(|heads, number| heads.answered > number).await;
    }

    /// Works on the answer until that is over or superseded: then the work is dropped, and there is none.
    pub async fn unless_superseded<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        match select(pin!(self.superseded()), pin!(work)).await {
            Either::Left(_) => None,
            Either::Right((output, _)) => Some(output),
        }
    }

    /// Waits until all messages before it are over, and claims the answer: a message that is to be answered from now on waits for
    /// its end instead of superseding it. `None` when it was superseded before.
    pub async fn claim(self) -> Option<Claim> {
        self.unless_superseded(self.first()).await?;
        // The one look that counts: whatever is decided after it is later than the answer.
        if self.is_superseded() { None } else { Some(Claim { _place: self.place }) }
    }
}

impl Place {
    async fn until(&self, reached: impl Fn(&Heads, u64) -> bool) {
        let mut heads = self.heads.clone();
        if heads.wait_for(|heads| reached(heads, self.number)).await.is_err() {
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
        queue.tell();
        if queue.open.is_empty() {
            rooms.remove(&self.room);
        }
    }
}

impl Queue {
    fn tell(&self) {
        let after = self.newest + 1;
        let first = self.open.keys().next().copied().unwrap_or(after);
        let undecided = self.open.iter().find(|(_, is_answered)| !**is_answered).map_or(after, |(number, _)| *number);
        let newest = self.open.iter().rfind(|(_, is_answered)| **is_answered).map_or(0, |(number, _)| *number);
        // What a message superseded stays so when it is over.
        let answered = newest.max(self.heads.borrow().answered);
        self.heads.send_replace(Heads { first, undecided, answered });
    }
}

/// A panic leaves the map as whole as it was: each change is one step.
fn lock(rooms: &Rooms) -> MutexGuard<'_, HashMap<RoomId, Queue>> {
    rooms.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::sync::oneshot;

    use super::*;

    fn enter(queues: &RoomQueues, name: &str) -> Ticket {
        queues.enter(&RoomId::parse(name).expect("valid"))
    }

    fn is_over(waiting: impl Future) -> bool {
        waiting.now_or_never().is_some()
    }

    #[test]
    fn a_message_that_comes_in_supersedes_nothing_until_it_is_to_be_answered() {
        let queues = RoomQueues::default();
        let (older, newer, other) = (enter(&queues, "r"), enter(&queues, "r"), enter(&queues, "s"));
        older.supersede();
        other.supersede();
        assert!(!older.is_superseded());
        newer.supersede();
        assert!(older.is_superseded() && !newer.is_superseded() && !other.is_superseded());
        drop(newer);
        assert!(older.is_superseded(), "it stays so");
    }

    #[test]
    fn a_message_that_is_dropped_undecided_supersedes_nothing() {
        let queues = RoomQueues::default();
        let (older, newer) = (enter(&queues, "r"), enter(&queues, "r"));
        older.supersede();
        drop(newer);
        assert!(!older.is_superseded());
        assert!(older.claim().now_or_never().flatten().is_some());
    }

    #[test]
    fn messages_are_decided_on_one_after_the_other() {
        let queues = RoomQueues::default();
        let (one, two, three) = (enter(&queues, "r"), enter(&queues, "r"), enter(&queues, "r"));
        assert!(is_over(one.turn()) && !is_over(two.turn()) && !is_over(three.turn()));
        one.supersede();
        assert!(is_over(two.turn()) && !is_over(three.turn()), "the answer to the first need not be over");
        drop(two);
        assert!(is_over(three.turn()) && !is_over(three.first()), "its own answer waits");
        drop(one);
        assert!(is_over(three.first()));
    }

    #[tokio::test]
    async fn a_newer_answer_drops_the_work_on_an_older_one() {
        let queues = RoomQueues::default();
        let older = enter(&queues, "r");
        older.supersede();
        let (alive, dropped) = oneshot::channel::<()>();
        let work = async move {
            let _alive = alive;
            pending::<()>().await
        };
        let superseded = tokio::spawn(async move { older.unless_superseded(work).await });
        let newer = enter(&queues, "r");
        newer.supersede();
        assert!(dropped.await.is_err(), "the work is gone");
        assert_eq!(superseded.await.expect("no panic"), None);
        assert_eq!(newer.unless_superseded(async { 1 }).await, Some(1));
    }

    #[test]
    fn a_claimed_answer_is_not_superseded_and_the_next_waits() {
        let queues = RoomQueues::default();
        let older = enter(&queues, "r");
        older.supersede();
        let claim = older.claim().now_or_never().flatten().expect("the newest");
        let next = enter(&queues, "r");
        assert!(is_over(next.turn()), "it can be decided on");
        next.supersede();
        let mut answer = Box::pin(next.claim());
        assert!(answer.as_mut().now_or_never().is_none(), "the answer is not over");
        drop(claim);
        assert!(answer.now_or_never().flatten().is_some());
    }

    #[test]
    fn a_room_without_messages_is_forgotten() {
        let queues = RoomQueues::default();
        let (one, other) = (enter(&queues, "r"), enter(&queues, "r"));
        other.supersede();
        assert_eq!(queues.busy_rooms(), 1);
        drop(one);
        assert_eq!(queues.busy_rooms(), 1);
        drop(other.claim().now_or_never().flatten().expect("the newest"));
        assert_eq!(queues.busy_rooms(), 0);
        assert!(!enter(&queues, "r").is_superseded());
    }
}
