//! Calls that take long, that wait, or that nobody waits for any more: how the threads of an engine handle them.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use futures::future::{JoinAll, join_all, ready};
use futures::poll;
use memory_core::engine::{Access, Append, Appended, Atomicity, Engine, Put, Reader, Steps, Work, Writer};
use memory_core::{
    Collection, Content, Document, DocumentId, DocumentWrite, ErrorKind, Memory, MemoryId, NewMemory, Outcome, Result,
    SpaceId, Timestamp, Trigger,
};
use memory_sqlite::{SqliteConfig, SqliteEngine};
use rusqlite::Connection;
use tempfile::TempDir;
use tokio::sync::Semaphore;
use tokio::time::timeout;

const READERS: usize = 2;
/// Longer than anything here takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

type Session = <SqliteEngine as Engine>::Session;

#[tokio::test]
async fn a_transaction_takes_no_further_call_once_it_is_large() {
    // Each call writes a megabyte.
    let uncommitted = uncommitted(24, 1 << 20, Duration::ZERO).await;
    assert!(uncommitted.iter().all(|calls| *calls <= 8), "{uncommitted:?}");
}

#[tokio::test]
async fn a_transaction_takes_no_further_call_once_it_has_taken_long() {
    // Each call alone takes longer than a transaction may.
    assert_eq!(uncommitted(4, 1, Duration::from_millis(60)).await, [0; 4]);
}

#[tokio::test]
async fn a_write_that_is_given_up_or_late_before_its_turn_never_begins() {
    let (_folder, engine) = open().await;
    let (first, end_first) = Block::new();
    let (second, end_second) = Block::new();
    let begun = Arc::new(AtomicUsize::new(0));
    let soon = Instant::now() + Duration::from_millis(50);

    let mut first_blocks = Box::pin(engine.run(Access::Write, later(), Arc::clone(&first), BLOCK));
    assert!(poll!(first_blocks.as_mut()).is_pending());
    first.has_begun().await;
    // The writer takes these into one group.
    let mut second_blocks = Box::pin(engine.run(Access::Write, later(), Arc::clone(&second), BLOCK));
    let mut late = Box::pin(engine.run(Access::Write, soon, Arc::clone(&begun), COUNT));
    let mut given_up = Box::pin(engine.run(Access::Write, later(), Arc::clone(&begun), COUNT));
    let mut last = Box::pin(engine.run(Access::Write, later(), Arc::clone(&begun), COUNT));
    assert!(poll!(second_blocks.as_mut()).is_pending());
    for waiting in [&mut late, &mut given_up, &mut last] {
        assert!(poll!(waiting.as_mut()).is_pending());
    }
    end_first();
    second.has_begun().await;
    drop(given_up);
    tokio::time::sleep_until(soon.into()).await;
    end_second();

    assert_eq!(last.await.expect("the last"), 1, "another one has begun");
    let late = late.await.expect_err("its deadline has passed");
    assert_eq!((late.kind(), late.outcome(), late.is_retryable()), (ErrorKind::Timeout, Outcome::NotDone, true));
    first_blocks.await.expect("the first");
    second_blocks.await.expect("the second");
    engine.close().await.expect("closes");
}

#[tokio::test]
async fn health_answers_while_all_readers_are_busy() {
    let (_folder, engine) = open().await;
    let (blocking, end) = block_readers(&engine).await;
    timeout(PATIENCE, engine.health()).await.expect("an answer").expect("health");
    end();
    assert!(blocking.await.iter().all(Result::is_ok));
    engine.close().await.expect("closes");
}

#[tokio::test]
async fn reads_that_are_given_up_before_their_turn_never_begin_and_do_not_pile_up() {
    let (_folder, engine) = open().await;
    let (blocking, end) = block_readers(&engine).await;
    let begun = Arc::new(AtomicUsize::new(0));
    let late = engine.run(Access::Read, Instant::now(), Arc::clone(&begun), COUNT);
    let mut late = Box::pin(late);
    assert!(poll!(late.as_mut()).is_pending());
    for _ in 0..10_000 {
        let mut given_up = Box::pin(engine.run(Access::ReadLatest, later(), Arc::clone(&begun), COUNT));
        assert!(poll!(given_up.as_mut()).is_pending());
    }
    let waiting = Arc::strong_count(&begun);
    assert!(waiting < 2_000, "{waiting} reads wait for which nobody waits");
    end();
    assert_eq!(late.await.expect_err("its deadline has passed").kind(), ErrorKind::Timeout);
    let last = engine.run(Access::Read, later(), begun, COUNT).await;
    assert_eq!(last.expect("the last"), 1, "another one has begun");
    assert!(blocking.await.iter().all(Result::is_ok));
    engine.close().await.expect("closes");
}

/// The work would never end.
#[tokio::test]
async fn what_reads_or_writes_past_its_deadline_ends() {
    let (_folder, engine) = open().await;
    for access in [Access::Read, Access::ReadLatest, Access::Write] {
        let soon = Instant::now() + Duration::from_millis(200);
        let endless = engine.run(access, soon, Arc::new(document()), |session, document| {
            Box::pin(async move {
                loop {
                    session.documents(&document.collection, std::slice::from_ref(&document.id)).await?;
                }
            })
        });
        let ended: Result<()> = timeout(PATIENCE, endless).await.expect("an end");
        let ended = ended.expect_err("its deadline has passed");
        assert_eq!((ended.kind(), ended.outcome()), (ErrorKind::Timeout, Outcome::NotDone), "{access:?}: {ended:?}");
    }
    engine.close().await.expect("closes");
}

#[tokio::test]
async fn a_write_that_is_given_up_in_the_middle_ends_and_leaves_nothing() {
    let (_folder, engine) = open().await;
    let (document, begun) = (document(), Semaphore::new(0));
    let argument = Arc::new((document.clone(), begun));
    let mut endless =
        Box::pin(engine.run(Access::Write, later(), Arc::clone(&argument), |session, (document, begun)| {
            Box::pin(async move {
                session.put(&[Put { before: None, after: document, entry: None, is_guarded: false }]).await?;
                begun.add_permits(1);
                loop {
                    session.documents(&document.collection, std::slice::from_ref(&document.id)).await?;
                }
            })
        }));
    let endless_result: Poll<Result<()>> = poll!(endless.as_mut());
    assert!(endless_result.is_pending());
    argument.1.acquire().await.expect("never closed").forget();
    drop(endless);

    let put = engine.run(Access::Write, later(), Arc::new(document), |session, document| {
        Box::pin(
            async move { session.put(&[Put { before: None, after: document, entry: None, is_guarded: false }]).await },
        )
    });
    assert!(timeout(PATIENCE, put).await.expect("the writer goes on").expect("a put"), "its id is taken");
    engine.close().await.expect("closes");
}

#[tokio::test]
async fn readers_that_overlap_do_not_let_the_log_grow_for_ever() {
    const STORES: u64 = 64;
    let (folder, engine) = open().await;
    let engine = &engine;
    let relay = Arc::new(Relay { begun: Mutex::new(0), changed: Condvar::new() });
    let read = async || {
        while *relay.begun.lock().expect("no panic") < usize::MAX {
            let work = engine.run(Access::Read, later(), Arc::clone(&relay), |session, relay| {
                Box::pin(async move {
                    session.collections(None, 1).await?;
                    relay.pass_on();
                    Ok(())
                })
            });
            work.await.expect("a read");
        }
    };
    let write = async || {
        let trigger = trigger(4_000_000);
        for _ in 0..STORES {
            engine.run(Access::Write, later(), Arc::new(memory(&trigger)), append).await.expect("a store");
        }
        let log = std::fs::metadata(folder.path().join("memory.db-wal")).expect("the log").len();
        *relay.begun.lock().expect("no panic") = usize::MAX;
        relay.changed.notify_all();
        log
    };
    let (log, (), ()) = futures::join!(write(), read(), read());
    assert!(log < 3_000_000 * STORES, "the log has {log} bytes, and 4 MB were stored {STORES} times");
    engine.close().await.expect("closes");
}

/// Overlapping readers: each ends soon after the next one has begun, so there is always one.
struct Relay {
    /// How many have begun; `usize::MAX` ends them all.
    begun: Mutex<usize>,
    changed: Condvar,
}

impl Relay {
    fn pass_on(&self) {
        let mut begun = self.begun.lock().expect("no panic");
        let before = *begun;
        if before < usize::MAX {
            *begun += 1;
            self.changed.notify_all();
            drop(self.changed.wait_while(begun, |begun| *begun <= before + 1));
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// For each of some calls that wait together: how many calls before it are not committed when it begins.
async fn uncommitted(calls: usize, bytes: usize, takes: Duration) -> Vec<usize> {
    let (folder, engine) = open().await;
    let other = Connection::open(folder.path().join("memory.db")).expect("another program");
    let other = Arc::new(Mutex::new(other));
    let (block, end) = Block::new();
    let mut blocks = Box::pin(engine.run(Access::Write, later(), Arc::clone(&block), BLOCK));
    assert!(poll!(blocks.as_mut()).is_pending());
    block.has_begun().await;
    let trigger = trigger(bytes);
    let mut stores = join_all((0..calls).map(|number| {
        let store = Store { number, memory: memory(&trigger), takes, other: Arc::clone(&other) };
        engine.run(Access::Write, later(), Arc::new(store), |session, store| {
            Box::pin(async move {
                let count = "SELECT count(*) FROM memories";
                let count = |other: &Connection| other.query_row(count, [], |row| row.get::<_, i64>(0));
                let committed = count(&store.other.lock().expect("no panic")).expect("a number");
                append(session, &store.memory).await?;
                thread::sleep(store.takes);
                Ok(store.number - usize::try_from(committed).expect("small"))
            })
        })
    }));
    assert!(poll!(&mut stores).is_pending());
    end();
    let uncommitted = stores.await.into_iter().map(|uncommitted| uncommitted.expect("a store")).collect();
    blocks.await.expect("the first");
    engine.close().await.expect("closes");
    uncommitted
}

struct Store {
    number: usize,
    memory: Memory,
    takes: Duration,
    other: Arc<Mutex<Connection>>,
}

/// Keeps a thread of an engine busy until the test ends it.
struct Block {
    begun: Semaphore,
    end: Mutex<mpsc::Receiver<()>>,
}

impl Block {
    /// A block, and what ends it.
    fn new() -> (Arc<Self>, impl Fn()) {
        let (end, is_ended) = mpsc::channel();
        let block = Self { begun: Semaphore::new(0), end: Mutex::new(is_ended) };
        (Arc::new(block), move || end.send(()).expect("somebody waits"))
    }

    async fn has_begun(&self) {
        self.begun.acquire().await.expect("never closed").forget();
    }
}

/// Keeps all readers busy until the test ends that. Returns their work, and what ends it.
async fn block_readers(engine: &SqliteEngine) -> (JoinAll<impl Future<Output = Result<()>>>, impl Fn()) {
    let (block, end) = Block::new();
    let blocking = (0..READERS).map(|_| engine.run(Access::Read, later(), Arc::clone(&block), BLOCK));
    let mut blocking = join_all(blocking);
    assert!(poll!(&mut blocking).is_pending());
    for _ in 0..READERS {
        block.has_begun().await;
    }
    (blocking, move || (0..READERS).for_each(|_| end()))
}

const BLOCK: Work<Session, Block, ()> = |_, block| {
    block.begun.add_permits(1);
    block.end.lock().expect("no panic").recv().expect("an end");
    done(())
};

/// Counts how many pieces of work have begun.
const COUNT: Work<Session, AtomicUsize, usize> = |_, begun| done(begun.fetch_add(1, Ordering::Relaxed) + 1);

fn done<T: Send + 'static>(value: T) -> Steps<'static, T> {
    Box::pin(ready(Ok(value)))
}

async fn open() -> (TempDir, SqliteEngine) {
    let folder = TempDir::new().expect("a temporary folder");
    let mut config = SqliteConfig::new(folder.path().join("memory.db"));
    config.readers = NonZeroUsize::new(READERS).expect("not zero");
    let engine = SqliteEngine::open(&config).await.expect("an open database");
    (folder, engine)
}

fn later() -> Instant {
    Instant::now() + PATIENCE
}

/// A text of this many bytes.
fn trigger(bytes: usize) -> Trigger {
    Trigger::parse(&format!("\"{}\"", "x".repeat(bytes))).expect("valid")
}

fn memory(trigger: &Trigger) -> Memory {
    let space = SpaceId::parse("a").expect("valid");
    NewMemory::new(space, trigger.clone(), Timestamp::MIN).into_memory(MemoryId::generate())
}

fn append<'s>(session: &'s mut Session, memory: &'s Memory) -> Steps<'s, ()> {
    Box::pin(async move {
        let append =
            Append { memories: &[memory], atomicity: Atomicity::All, is_repeated: false, at: None, hash_key: None };
        assert_eq!(session.append(append).await?, [Appended::Written]);
        Ok(())
    })
}

fn document() -> Document {
    let (collection, id) = (Collection::parse("notes").expect("valid"), DocumentId::parse("one").expect("valid"));
    let (space, content) = (SpaceId::parse("a").expect("valid"), Content::parse("a text").expect("valid"));
    let write = DocumentWrite::new(collection, space, content, Timestamp::MIN);
    write.apply(&id, None, Timestamp::MIN).expect("a document")
}
