//! The order within a room, and which of its messages is answered.

use std::collections::{BTreeMap, HashMap};
use std::future::pending;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::{Either, select};
use memory_core::Timestamp;
use tokio::sync::watch;

use crate::records::RoomId;

/// The messages of each room that are being worked on. Cheap to clone.
///
/// # Behavior
/// - Of a room, one message after the other is decided on, in the order in which they came in. Rooms don't wait for each other.
/// - One that was cut off and is taken up again stands at its time, before those that came in since.
/// - A message that is to be answered supersedes those of its room before it, unless their answer was claimed. One that has only
///   come in, and one that is over without having been decided on, supersedes nothing.
/// - One that is answered because the agent follows the room supersedes only others that are answered for that reason: nobody spoke to
///   the agent, so it drops no answer that somebody is waiting for.
/// - Of a room, one answer after the other is worked on.
/// - A room without messages takes no memory.
#[derive(Debug, Clone, Default)]
pub(super) struct RoomQueues {
    rooms: Rooms,
}

type Rooms = Arc<Mutex<HashMap<RoomId, Queue>>>;

/// The messages of one room.
#[derive(Debug)]
struct Queue {
    /// The places of those that are worked on or wait, and what is known of each.
    open: BTreeMap<Position, Standing>,
    /// The place of the newest that came in.
    newest: Position,
    /// How many came in.
    count: u64,
    heads: watch::Sender<Heads>,
}

/// Whether a message is to be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Undecided,
    /// To be answered because the agent follows the room.
    Followed,
    Answered,
}

/// Where a message stands in its room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    at: Timestamp,
    /// Among those of the same time.
    number: u64,
}

/// Before all messages.
const START: Position = Position { at: Timestamp::MIN, number: 0 };
/// Behind all messages.
const END: Position = Position { at: Timestamp::MAX, number: u64::MAX };

/// How far a queue is.
#[derive(Debug, Clone, Copy)]
struct Heads {
    /// The first that is not over.
    first: Position,
    /// The first that is not decided on.
    undecided: Position,
    /// The newest that is to be answered, and not only because the agent follows the room.
    answered: Position,
    /// The newest that is to be answered for any reason, also because the agent follows the room.
    followed: Position,
}

/// The place of a message in its room, until it is dropped.
#[derive(Debug)]
pub(super) struct Ticket {
    place: Place,
}

/// The right to answer, until it is dropped. The answers after it wait.
#[derive(Debug)]
pub(super) struct Claim {
    _place: Place,
}

#[derive(Debug)]
struct Place {
    rooms: Rooms,
    room: RoomId,
    position: Position,
    /// Whether it is answered because the agent follows the room.
    is_followed: bool,
    heads: watch::Receiver<Heads>,
}

impl RoomQueues {
    /// Lets a message of this time in, behind those of its room.
    ///
    /// It does not wait, so that the order of calls is the order of the room, also where the times of a platform are not.
    pub(super) fn enter(&self, room: &RoomId, at: Timestamp) -> Ticket {
        self.insert(room, |newest| newest.max(at))
    }

    /// Lets a message in that came in at this time and was cut off since.
    pub(super) fn enter_again(&self, room: &RoomId, at: Timestamp) -> Ticket {
        self.insert(room, |_| at)
    }

    fn insert(&self, room: &RoomId, time: impl FnOnce(Timestamp) -> Timestamp) -> Ticket {
        let mut rooms = lock(&self.rooms);
        let queue = rooms.entry(room.clone()).or_insert_with(|| {
            let (heads, _) = watch::channel(Heads { first: START, undecided: START, answered: START, followed: START });
            Queue { open: BTreeMap::new(), newest: START, count: 0, heads }
        });
        queue.count += 1;
        let position = Position { at: time(queue.newest.at), number: queue.count };
        queue.newest = queue.newest.max(position);
        queue.open.insert(position, Standing::Undecided);
        queue.tell();
        let heads = queue.heads.subscribe();
        drop(rooms);
        let (rooms, room) = (Arc::clone(&self.rooms), room.clone());
        Ticket { place: Place { rooms, room, position, is_followed: false, heads } }
    }

    /// How many rooms have messages.
    #[cfg(test)]
    fn busy_rooms(&self) -> usize {
        lock(&self.rooms).len()
    }
}

impl Ticket {
    /// Waits until it is decided of all messages before it whether they are answered.
    pub(super) async fn turn(&self) {
        self.place.until(|heads, position| heads.undecided >= position).await;
    }

    /// Says that the message is to be answered, which supersedes those before it whose answer is not claimed. One that is not
    /// to be answered is dropped instead.
    pub(super) fn supersede(&self) {
        self.place.stand(Standing::Answered);
    }

    /// Says that the message is to be answered because the agent follows the room, which supersedes only others of this kind.
    pub(super) fn follow(&mut self) {
        self.place.is_followed = true;
        self.place.stand(Standing::Followed);
    }

    /// Waits until all messages before it are over.
    pub(super) async fn first(&self) {
        self.place.until(|heads, position| heads.first == position).await;
    }

    /// Whether a newer message is to be answered that supersedes it.
    pub(super) fn is_superseded(&self) -> bool {
        let newest = self.place.newest(&self.place.heads.borrow());
        newest > self.place.position
    }

    /// Waits until a newer message is to be answered that supersedes it.
    pub(super) async fn superseded(&self) {
        self.place.until(|heads, position| self.place.newest(heads) > position).await;
    }

    /// Works on the answer until that is over or superseded: then the work is dropped, and there is none.
    pub(super) async fn unless_superseded<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        match select(pin!(self.superseded()), pin!(work)).await {
            Either::Left(_) => None,
            Either::Right((output, _)) => Some(output),
        }
    }

    /// Waits until all messages before it are over, and claims the answer: a message that is to be answered from now on waits for
    /// its end instead of superseding it. `None` when it was superseded before.
    pub(super) async fn claim(self) -> Option<Claim> {
        self.unless_superseded(self.first()).await?;
        // The one look that counts: whatever is decided after it is later than the answer.
        if self.is_superseded() { None } else { Some(Claim { _place: self.place }) }
    }

    /// The same for an answer that was claimed before its process died: nothing supersedes it.
    pub(super) async fn claim_again(self) -> Claim {
        self.first().await;
        Claim { _place: self.place }
    }
}

impl Place {
    fn stand(&self, standing: Standing) {
        let mut rooms = lock(&self.rooms);
        if let Some(queue) = rooms.get_mut(&self.room) {
            queue.open.insert(self.position, standing);
            queue.tell();
        }
    }

    /// The newest of those that supersede it where they are newer.
    fn newest(&self, heads: &Heads) -> Position {
        if self.is_followed { heads.followed } else { heads.answered }
    }

    async fn until(&self, reached: impl Fn(&Heads, Position) -> bool) {
        let mut heads = self.heads.clone();
        if heads.wait_for(|heads| reached(heads, self.position)).await.is_err() {
            // The queue stays for as long as it has places.
            pending::<()>().await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut rooms = lock(&self.rooms);
        let Some(queue) = rooms.get_mut(&self.room) else { return };
        queue.open.remove(&self.position);
        queue.tell();
        if queue.open.is_empty() {
            rooms.remove(&self.room);
        }
    }
}

impl Queue {
    fn tell(&self) {
        let first = self.open.keys().next().copied().unwrap_or(END);
        let places_of = |standing| self.open.iter().filter(move |(_, of)| **of == standing).map(|(place, _)| *place);
        let undecided = places_of(Standing::Undecided).next().unwrap_or(END);
        let answered = places_of(Standing::Answered).next_back().unwrap_or(START);
        let followed = places_of(Standing::Followed).next_back().unwrap_or(START);
        // What a message superseded stays so when it is over.
        let before = *self.heads.borrow();
        let answered = answered.max(before.answered);
        let followed = followed.max(answered).max(before.followed);
        self.heads.send_replace(Heads { first, undecided, answered, followed });
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
        queues.enter(&RoomId::parse(name).expect("valid"), at(1))
    }

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis).expect("in range")
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
    fn one_in_a_followed_room_supersedes_its_like_alone() {
        let queues = RoomQueues::default();
        let [mut one, asked, mut other, mut last] = [(); 4].map(|()| enter(&queues, "r"));
        one.follow();
        asked.supersede();
        assert!(one.is_superseded(), "by any that is to be answered");
        other.follow();
        assert!(!asked.is_superseded() && !other.is_superseded());
        last.follow();
        assert!(!asked.is_superseded() && other.is_superseded() && !last.is_superseded());
        assert!(is_over(last.turn()) && !is_over(last.first()), "its own answer waits");
        drop(last);
        assert!(!asked.is_superseded() && other.is_superseded(), "it stays so");
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
    fn one_that_is_taken_up_again_stands_at_its_time() {
        let queues = RoomQueues::default();
        let room = RoomId::parse("r").expect("valid");
        let newer = queues.enter(&room, at(3));
        let early = queues.enter(&room, at(2));
        let [old, older] = [2, 1].map(|millis| queues.enter_again(&room, at(millis)));
        assert!(is_over(older.turn()) && !is_over(old.turn()));
        old.supersede();
        assert!(older.is_superseded() && !newer.is_superseded(), "it is older than what came in since");
        newer.supersede();
        assert!(old.is_superseded());
        early.supersede();
        assert!(newer.is_superseded(), "what comes in is later, whatever its clock says");
        let mut claim = Box::pin(old.claim_again());
        assert!(claim.as_mut().now_or_never().is_none(), "one answer after the other");
        drop(older);
        assert!(claim.now_or_never().is_some(), "what was claimed is not superseded");
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
