//! The order of the messages of a room, and which of them supersede others.

use std::collections::{BTreeMap, HashMap};
use std::future::pending;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::{Either, select};
use memory_core::Timestamp;
use tokio::sync::watch;

use crate::records::RoomId;

/// The queues of the messages in progress, one per room. Cloning is cheap.
///
/// # Behavior
/// - Messages of a room are decided one at a time, in the order of their arrival. Rooms don't wait for each other.
/// - A recovered message is placed by its time, before the messages that arrived since.
/// - A message that is to be answered supersedes the earlier ones of its room, unless their answer was claimed. A message that has only
///   arrived, and one that ended undecided, supersede nothing.
/// - A message that is answered because the agent follows the room supersedes only others of this kind. Nobody addressed the agent, so it
///   must not drop an answer that somebody waits for.
/// - Answers in a room are generated one at a time.
/// - A room without messages in progress takes no memory.
#[derive(Debug, Clone, Default)]
pub(super) struct RoomQueues {
    rooms: Rooms,
}

type Rooms = Arc<Mutex<HashMap<RoomId, Queue>>>;

/// The messages of one room.
#[derive(Debug)]
struct Queue {
    /// The messages that are in progress or wait, by position, with the decision about each.
    open: BTreeMap<Position, Standing>,
    /// The message whose answer is claimed.
    claimed: Option<Position>,
    /// The position of the newest message.
    newest: Position,
    /// The number of messages that have arrived.
    count: u64,
    heads: watch::Sender<Heads>,
}

/// The decision about a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Undecided,
    /// It is to be answered because the agent follows the room.
    Followed,
    Answered,
}

/// The position of a message in its room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    at: Timestamp,
    /// The number of its arrival, which orders messages of the same time.
    number: u64,
}

/// The position before all messages.
const START: Position = Position { at: Timestamp::MIN, number: 0 };
/// The position behind all messages.
const END: Position = Position { at: Timestamp::MAX, number: u64::MAX };

/// The progress of a queue.
#[derive(Debug, Clone, Copy)]
struct Heads {
    /// The first message that has not ended.
    first: Position,
    /// Whether an answer is claimed. It need not be that of the first message: a recovered one may have entered before it.
    is_claimed: bool,
    /// The first message that is not decided.
    undecided: Position,
    /// The newest message that is to be answered for another reason than that the agent follows the room.
    answered: Position,
    /// The newest message that is to be answered for any reason.
    followed: Position,
}

/// The place of a message in the queue of its room, until dropped.
#[derive(Debug)]
pub(super) struct Ticket {
    place: Place,
}

/// The right to answer in a room, until dropped. Later answers wait for it.
#[derive(Debug)]
pub(super) struct Claim {
    _place: Place,
}

#[derive(Debug)]
struct Place {
    rooms: Rooms,
    room: RoomId,
    position: Position,
    /// Whether the message is answered because the agent follows the room.
    is_followed: bool,
    heads: watch::Receiver<Heads>,
}

impl RoomQueues {
    /// Enters a message with this time at the end of its room's queue.
    ///
    /// It does not wait, so the order of calls is the order of the room, even if the times of the platform are not in order.
    pub(super) fn enter(&self, room: &RoomId, at: Timestamp) -> Ticket {
        self.insert(room, |newest| newest.max(at))
    }

    /// Enters a recovered message at its time, before messages that were sent later.
    pub(super) fn enter_again(&self, room: &RoomId, at: Timestamp) -> Ticket {
        self.insert(room, |_| at)
    }

    fn insert(&self, room: &RoomId, time: impl FnOnce(Timestamp) -> Timestamp) -> Ticket {
        let mut rooms = lock(&self.rooms);
        let queue = rooms.entry(room.clone()).or_insert_with(|| {
            let (heads, _) = watch::channel(Heads {
                first: START,
                is_claimed: false,
                undecided: START,
                answered: START,
                followed: START,
            });
            Queue { open: BTreeMap::new(), claimed: None, newest: START, count: 0, heads }
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

    /// The number of rooms with messages.
    #[cfg(test)]
    fn busy_rooms(&self) -> usize {
        lock(&self.rooms).len()
    }
}

impl Ticket {
    /// Waits until all earlier messages are decided.
    pub(super) async fn turn(&self) {
        self.place.until(|heads, position| heads.undecided >= position).await;
    }

    /// Decides that the message is to be answered, which supersedes earlier messages whose answer is not claimed. If it is not to be
    /// answered, drop the ticket instead.
    pub(super) fn supersede(&self) {
        self.place.stand(Standing::Answered);
    }

    /// Decides that the message is to be answered because the agent follows the room, which supersedes only others of this kind.
    pub(super) fn follow(&mut self) {
        self.place.is_followed = true;
        self.place.stand(Standing::Followed);
    }

    /// Waits until all earlier messages have ended and no answer is claimed.
    pub(super) async fn first(&self) {
        self.place.until(|heads, position| heads.first == position && !heads.is_claimed).await;
    }

    /// Whether a newer message has superseded this one.
    pub(super) fn is_superseded(&self) -> bool {
        let newest = self.place.newest(&self.place.heads.borrow());
        newest > self.place.position
    }

    /// Waits until a newer message supersedes this one.
    pub(super) async fn superseded(&self) {
        self.place.until(|heads, position| self.place.newest(heads) > position).await;
    }

    /// Runs `work`. If the message is superseded, the work is dropped and `None` is returned.
    pub(super) async fn unless_superseded<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        match select(pin!(self.superseded()), pin!(work)).await {
            Either::Left(_) => None,
            Either::Right((output, _)) => Some(output),
        }
    }

    /// Waits until all earlier messages have ended, and claims the answer: from then on newer messages wait for its end instead of
    /// superseding it. Returns `None` if it was superseded before.
    pub(super) async fn claim(self) -> Option<Claim> {
        self.unless_superseded(self.place.claim()).await?;
        // From this check on the answer counts as claimed: a message that is decided later waits for its end.
        if self.is_superseded() { None } else { Some(Claim { _place: self.place }) }
    }

    /// Like [`claim`](Self::claim), for an answer that was claimed before its process died, so that nothing supersedes it.
    pub(super) async fn claim_again(self) -> Claim {
        self.place.claim().await;
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

    /// Waits until all earlier messages have ended and no answer is claimed, and claims the answer to this one.
    async fn claim(&self) {
        loop {
            self.until(|heads, position| heads.first == position && !heads.is_claimed).await;
            let mut rooms = lock(&self.rooms);
            let Some(queue) = rooms.get_mut(&self.room) else { continue };
            // A recovered message may have entered before this one meanwhile.
            if queue.claimed.is_none() && queue.first() == self.position {
                queue.claimed = Some(self.position);
                queue.tell();
                return;
            }
        }
    }

    /// The newest message of the kinds that can supersede this one.
    fn newest(&self, heads: &Heads) -> Position {
        if self.is_followed { heads.followed } else { heads.answered }
    }

    async fn until(&self, reached: impl Fn(&Heads, Position) -> bool) {
        let mut heads = self.heads.clone();
        if heads.wait_for(|heads| reached(heads, self.position)).await.is_err() {
            // Unreachable: the queue exists as long as it has places.
            pending::<()>().await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut rooms = lock(&self.rooms);
        let Some(queue) = rooms.get_mut(&self.room) else { return };
        queue.open.remove(&self.position);
        queue.claimed = queue.claimed.filter(|claimed| *claimed != self.position);
        queue.tell();
        if queue.open.is_empty() {
            rooms.remove(&self.room);
        }
    }
}

impl Queue {
    fn first(&self) -> Position {
        self.open.keys().next().copied().unwrap_or(END)
    }

    fn tell(&self) {
        let (first, is_claimed) = (self.first(), self.claimed.is_some());
        let places_of = |standing| self.open.iter().filter(move |(_, of)| **of == standing).map(|(place, _)| *place);
        let undecided = places_of(Standing::Undecided).next().unwrap_or(END);
        let answered = places_of(Standing::Answered).next_back().unwrap_or(START);
        let followed = places_of(Standing::Followed).next_back().unwrap_or(START);
        // Messages stay superseded after the newer one has ended.
        let before = *self.heads.borrow();
        let answered = answered.max(before.answered);
        let followed = followed.max(answered).max(before.followed);
        self.heads.send_replace(Heads { first, is_claimed, undecided, answered, followed });
    }
}

/// Locks the map. Each change is one step, so a poisoned map is consistent.
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
    fn one_that_is_taken_up_again_waits_for_the_answer_that_is_claimed() {
        let queues = RoomQueues::default();
        let room = RoomId::parse("r").expect("valid");
        let newer = queues.enter(&room, at(2));
        newer.supersede();
        let claim = newer.claim().now_or_never().flatten().expect("the newest");
        let [old, older] = [1, 0].map(|millis| queues.enter_again(&room, at(millis)));
        assert!(!is_over(older.first()), "it does not begin its answer either");
        drop(older);
        old.supersede();
        let mut again = Box::pin(old.claim_again());
        assert!(again.as_mut().now_or_never().is_none(), "one answer after the other");
        drop(claim);
        assert!(again.now_or_never().is_some());
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
