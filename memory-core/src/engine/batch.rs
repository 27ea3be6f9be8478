//! Concurrent stores share one append, so one statement and one flush.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use tokio::time::timeout;

use crate::{Memory, MemoryId, Outcome, Result};

/// Number of concurrent writes: the next batch gathers while these are flushed.
const LANES: usize = 2;
/// A write gives up its lane after this time, because it is probably stuck.
const PATIENCE: Duration = Duration::from_millis(100);

/// A provider that can store several memories at once.
pub(super) trait BatchStore: Send + Sync + 'static {
    /// Returns the queue of waiting stores.
    fn batch(&self) -> &Batch;

    /// Stores a memory and retries temporary failures. Its id makes repeated attempts store it once (W11): unless
    /// `earlier` attempts certainly did nothing, it may already be stored, and may have been changed since.
    fn store_alone(&self, memory: Arc<Memory>, earlier: Outcome) -> impl Future<Output = Result<MemoryId>> + Send;

    /// Tries once to store each memory by itself; returns for each its id, or the outcome of its failure. An error
    /// means that all failed, perhaps because of one.
    fn store_each(
        &self,
        memories: Vec<Arc<Memory>>,
    ) -> impl Future<Output = Result<Vec<Result<MemoryId, Outcome>>>> + Send;
}

/// The waiting stores of one provider.
///
/// A store that comes alone goes at once. While two writes are under way, stores wait, and share the next write as soon
/// as one of the two ends or is stuck; no timer delays them. A store that fails in a batch is retried alone, so that
/// none fails because of another. A store that is dropped while it waits is left out.
#[derive(Debug)]
pub(super) struct Batch {
    lanes: Semaphore,
    waiting: Mutex<VecDeque<Waiting>>,
    most: usize,
    most_bytes: usize,
}

#[derive(Debug)]
struct Waiting {
    memory: Arc<Memory>,
    reply: oneshot::Sender<Result<MemoryId, Outcome>>,
}

impl Batch {
    /// Limits of a batch, in rows and bytes; a larger row goes alone.
    pub(super) fn new(most: usize, most_bytes: usize) -> Self {
        Self { lanes: Semaphore::new(LANES), waiting: Mutex::default(), most, most_bytes }
    }

    /// Stores a memory: at once if a lane is free, else in a batch with other waiting stores.
    pub(super) async fn store(on: &Arc<impl BatchStore>, memory: Memory) -> Result<MemoryId> {
        let (batch, memory) = (on.batch(), Arc::new(memory));
        if let Ok(lane) = batch.lanes.try_acquire() {
            return in_lane(lane, on.store_alone(memory, Outcome::NotDone)).await;
        }
        let (reply, answer) = oneshot::channel();
        batch.waiting().push_back(Waiting { memory: Arc::clone(&memory), reply });
        // A task of its own: other stores depend on it, and this call may be dropped. Each waiting store has a task, so
        // each is taken.
        tokio::spawn(store_next(Arc::clone(on)));
        // If there is no answer, the task ended early.
        match answer.await.unwrap_or(Err(Outcome::Unknown)) {
            Ok(id) => Ok(id),
            Err(earlier) => on.store_alone(memory, earlier).await.map_err(|error| error.after(earlier)),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        // No code panics while it holds the lock.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the first waiting stores that fit into a batch; none if earlier batches took them all.
    fn take(&self) -> Vec<Waiting> {
        let (mut waiting, mut bytes) = (self.waiting(), 0);
        // A closed reply means that the store was dropped.
        waiting.retain(|store| !store.reply.is_closed());
        let fits = |store: &&Waiting| {
            bytes += store.memory.size();
            bytes <= self.most_bytes
        };
        let count = waiting.iter().take(self.most).take_while(fits).count().max(1).min(waiting.len());
        waiting.drain(..count).collect()
    }
}

/// Stores the next batch once a lane is free. Gives up when no caller waits for the batch any more.
async fn store_next(on: Arc<impl BatchStore>) {
    let batch = on.batch();
    // The semaphore is never closed.
    let Ok(lane) = batch.lanes.acquire().await else { return };
    let stores = batch.take().into_iter().map(|store| (store.memory, store.reply));
    let (memories, mut replies): (Vec<_>, Vec<_>) = stores.unzip();
    // Completes at once for an empty batch.
    let nobody_waits = async {
        for reply in &mut replies {
            reply.closed().await;
        }
    };
    let stored = tokio::select! {
        biased;
        () = nobody_waits => return,
        stored = in_lane(lane, on.store_each(memories)) => stored,
    };
    let stored = stored.unwrap_or_else(|error| vec![Err(error.outcome()); replies.len()]);
    for (reply, stored) in replies.into_iter().zip(stored) {
        // The caller may be gone.
        let _ = reply.send(stored);
    }
}

/// Runs the work; releases the lane early if the work is stuck.
async fn in_lane<T>(lane: SemaphorePermit<'_>, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    match timeout(PATIENCE, &mut work).await {
        Ok(done) => done,
        Err(_) => {
            drop(lane);
            work.await
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::task::{JoinHandle, yield_now};
    use tokio::time::advance;

    use super::*;
    use crate::{Error, ErrorKind, NewMemory, SpaceId, Timestamp, Trigger};

    /// Writes by the names of spaces: who is `bad` is refused, with `poison` a batch fails as a whole, and `stuck` never ends.
    struct Engine {
        batch: Batch,
        /// How many writes may end.
        gate: Semaphore,
        /// What was begun, by what went together.
        begun: Mutex<Vec<Vec<String>>>,
        /// What was begun alone when an attempt had left this.
        alone: Mutex<Vec<(String, Outcome)>>,
    }

    impl BatchStore for Engine {
        fn batch(&self) -> &Batch {
            &self.batch
        }

        async fn store_alone(&self, memory: Arc<Memory>, earlier: Outcome) -> Result<MemoryId> {
            self.alone.lock().expect("sound").push((memory.space_id.to_string(), earlier));
            self.write(std::slice::from_ref(&memory)).await;
            match memory.space_id.as_str() {
                "bad" => Err(Error::conflict("bad")),
                "poison" => Err(Error::new(ErrorKind::Unavailable, "poison")),
                _ => Ok(memory.id),
            }
        }

        async fn store_each(&self, memories: Vec<Arc<Memory>>) -> Result<Vec<Result<MemoryId, Outcome>>> {
            self.write(&memories).await;
            if memories.iter().any(|memory| memory.space_id.as_str() == "poison") {
                return Err(Error::new(ErrorKind::Unavailable, "a batch").with_outcome(Outcome::Unknown));
            }
            let result = |memory: &Arc<Memory>| match memory.space_id.as_str() {
                "bad" => Err(Outcome::NotDone),
                _ => Ok(memory.id),
            };
            Ok(memories.iter().map(result).collect())
        }
    }

    impl Engine {
        /// With batches of three memories and 100 bytes at most.
        fn new() -> Arc<Self> {
            let (gate, begun, alone) = (Semaphore::new(0), Mutex::default(), Mutex::default());
            Arc::new(Self { batch: Batch::new(3, 100), gate, begun, alone })
        }

        async fn write(&self, memories: &[Arc<Memory>]) {
            let spaces: Vec<_> = memories.iter().map(|memory| memory.space_id.to_string()).collect();
            let is_stuck = spaces.iter().any(|space| space == "stuck");
            self.begun.lock().expect("sound").push(spaces);
            if is_stuck {
                pending::<()>().await;
            }
            self.gate.acquire().await.expect("open").forget();
        }

        fn begun(&self) -> Vec<Vec<String>> {
            self.begun.lock().expect("sound").clone()
        }

        async fn until_begun(&self, count: usize) {
            while self.begun().len() < count {
                yield_now().await;
            }
        }

        /// Stores in these spaces, one after the other, until each is under way or waits.
        async fn store<const N: usize>(self: &Arc<Self>, spaces: [&str; N]) -> [JoinHandle<Result<MemoryId>>; N] {
            let arrived = || self.begun().len() + self.batch.waiting().len();
            let mut stores = Vec::new();
            for space in spaces {
                let (engine, memory, before) = (Arc::clone(self), memory(space), arrived());
                stores.push(tokio::spawn(async move { Batch::store(&engine, memory).await }));
                while arrived() == before {
                    yield_now().await;
                }
            }
            stores.try_into().expect("as many")
        }
    }

    fn memory(space: &str) -> Memory {
        let trigger = Trigger::parse("1").expect("valid");
        let memory = NewMemory::new(SpaceId::parse(space).expect("valid"), trigger, Timestamp::MIN);
        memory.into_memory(MemoryId::generate())
    }

    async fn is_stored(store: JoinHandle<Result<MemoryId>>) -> bool {
        store.await.expect("ends").is_ok()
    }

    #[tokio::test]
    async fn who_comes_alone_does_not_wait() {
        let engine = Engine::new();
        engine.gate.add_permits(1);
        tokio::select! {
            biased;
            stored = Batch::store(&engine, memory("a")) => assert!(stored.is_ok()),
            () = ready(()) => panic!("it waited"),
        }
    }

    #[tokio::test]
    async fn who_comes_meanwhile_travels_together() {
        let engine = Engine::new();
        let large = "large".repeat(20);
        let stores = engine.store(["a", "b", "c", "d", "e", "f", &large, "g", "h"]).await;
        assert_eq!(engine.begun(), [["a"], ["b"]]);
        engine.gate.add_permits(6);
        for store in stores {
            assert!(is_stored(store).await);
        }
        assert_eq!(engine.begun()[2..], [vec!["c", "d", "e"], vec!["f"], vec![large.as_str()], vec!["g", "h"]]);
    }

    #[tokio::test]
    async fn the_failure_of_one_touches_no_other() {
        let engine = Engine::new();
        let [a, b, c, bad, d, e, poison, f] = engine.store(["a", "b", "c", "bad", "d", "e", "poison", "f"]).await;
        engine.gate.add_permits(8);
        for store in [a, b, c, d, e, f] {
            assert!(is_stored(store).await);
        }
        assert_eq!(bad.await.expect("ends").expect_err("refused").kind(), ErrorKind::Conflict);
        // What the batch has left is still unknown.
        assert_eq!(poison.await.expect("ends").expect_err("refused").outcome(), Outcome::Unknown);
        let mut alone = engine.alone.lock().expect("sound").split_off(2);
        alone.sort_by(|left, right| left.0.cmp(&right.0));
        let unknown = ["e", "f", "poison"].map(|space| (space.to_owned(), Outcome::Unknown));
        assert_eq!(alone, [vec![("bad".to_owned(), Outcome::NotDone)], unknown.to_vec()].concat());
    }

    // While something is waited for by yielding the time stands still, so no lane is given back early.
    #[tokio::test(start_paused = true)]
    async fn who_is_dropped_harms_nobody() {
        let engine = Engine::new();
        let [a, _b, first, c, d] = engine.store(["stuck", "stuck", "first", "c", "d"]).await;
        // The first of those that wait, and one that has the lane: the others go.
        first.abort();
        a.abort();
        engine.until_begun(3).await;
        // One that is under way: the other is stored.
        c.abort();
        engine.gate.add_permits(1);
        assert!(is_stored(d).await);
        assert_eq!(engine.begun()[2..], [["c", "d"]]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_is_given_up_when_nobody_waits_for_it() {
        let engine = Engine::new();
        let [a, b, c, d] = engine.store(["a", "b", "stuck", "c"]).await;
        engine.gate.add_permits(2);
        assert!(is_stored(a).await && is_stored(b).await);
        engine.until_begun(3).await;
        c.abort();
        d.abort();
        // Nobody holds the engine any more.
        while Arc::strong_count(&engine) > 1 {
            yield_now().await;
        }
        assert_eq!(engine.begun()[2..], [["stuck", "c"]]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_stuck_lets_others_pass() {
        let engine = Engine::new();
        let [a, b, c] = engine.store(["stuck", "stuck", "c"]).await;
        engine.gate.add_permits(1);
        advance(PATIENCE).await;
        assert!(is_stored(c).await);
        assert_eq!(engine.begun()[2..], [["c"]]);
        assert!(!a.is_finished() && !b.is_finished());
    }
}
