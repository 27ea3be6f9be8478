//! Watches of engines in memory, with paused time.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use futures::FutureExt;
use futures::future::{join_all, pending};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{sleep, timeout};

use super::*;
use crate::engine::Work;
use crate::engine::provider::open::NAMES;
use crate::engine::provider::tail::{PAGE, RECENT};
use crate::engine::provider::tell::Noted;
use crate::engine::{Config, EngineSettings, FeedEntry, FeedPosition, Provider};
use crate::in_memory::InMemorySession;
use crate::watch::MAX_HELD_BYTES;
use crate::{
    Collection, Collections, Content, DocumentWrite, Durability, ErrorKind, Health, InMemory, MAX_WATCHES, MemoryId,
    MemoryProvider, MemoryQuery, NewMemory, Outcome, Record, SpaceId, Timestamp, Trigger, Watched,
};

async fn opened() -> (InMemory, Watch) {
    let provider = InMemory::new();
    provider.init().await.expect("opens");
    (provider, Watch::new(Watched::Memories, MemoryQuery::builder().under("a")).expect("valid"))
}

async fn store(provider: &InMemory, space: &str) {
    let (space, trigger) = (SpaceId::parse(space).expect("valid"), Trigger::parse("1").expect("valid"));
    provider.store(NewMemory::new(space, trigger, Timestamp::MIN)).await.expect("stored");
}

async fn next(changes: &mut Changes) -> Change {
    changes.next().await.expect("goes on").expect("a change")
}

#[tokio::test(start_paused = true)]
async fn who_hears_nothing_has_a_token_that_is_recent() {
    let (provider, watch) = opened().await;
    let mut changes = provider.watch(&watch).await.expect("begins");
    let first = next(&mut changes).await;
    for _ in 0..3 {
        store(&provider, "b").await;
    }
    let begun = Instant::now();
    let second = next(&mut changes).await;
    assert_eq!((first.kind, second.kind), (ChangeKind::Reached, ChangeKind::Reached));
    assert!(begun.elapsed() >= HEARTBEAT);
    provider.drop_changes();
    let lost = provider.watch(&watch.clone().from(first.token.into())).await;
    assert_eq!(lost.err().map(|error| error.kind()), Some(ErrorKind::FeedReset));
    let mut changes = provider.watch(&watch.from(second.token.into())).await.expect("goes on");
    store(&provider, "a").await;
    assert!(matches!(next(&mut changes).await.kind, ChangeKind::Stored(_)));
}

/// However slow its consumer is: the clock says nothing before.
#[tokio::test(start_paused = true)]
async fn it_is_reached_when_all_was_told_that_was_there() {
    let (provider, watch) = opened().await;
    let token = next(&mut provider.watch(&watch).await.expect("begins")).await.token;
    let count = 2 * PAGE + 50;
    for _ in 0..count {
        store(&provider, "a").await;
        // A page that has nothing for the watch is not the end.
        store(&provider, "b").await;
    }
    for from in [WatchFrom::Beginning, token.into()] {
        let mut changes = provider.watch(&watch.clone().from(from.clone())).await.expect("begins");
        for number in 0..count {
            let kind = next(&mut changes).await.kind;
            assert!(matches!(kind, ChangeKind::Stored(_)), "{kind:?} behind {number} from {from:?}");
            sleep(HEARTBEAT).await;
        }
        assert_eq!(next(&mut changes).await.kind, ChangeKind::Reached);
    }
}

#[tokio::test]
async fn nobody_reads_the_feed_when_nobody_watches() {
    let (provider, watch) = opened().await;
    let is_followed =
        || provider.shared.tail.entries(&FeedPosition::of(vec![u8::MAX; 16]), &Timeline::default()).is_some();
    let until = async |wanted: bool| {
        let settled = async {
            while is_followed() != wanted {
                yield_now().await;
            }
        };
        timeout(Duration::from_secs(60), settled).await.expect("in good time");
    };
    assert!(!is_followed());
    for _ in 0..2 {
        let mut begun = Vec::new();
        for _ in 0..3 {
            let mut changes = provider.watch(&watch).await.expect("begins");
            next(&mut changes).await;
            begun.push(tokio::spawn(async move { next(&mut changes).await }));
        }
        until(true).await;
        store(&provider, "a").await;
        for watch in begun {
            assert!(matches!(watch.await.expect("ends").kind, ChangeKind::Stored(_)));
        }
        until(false).await;
    }
}

/// What is let go is read again.
#[tokio::test]
async fn watches_that_nobody_asks_hold_no_more_than_they_may() {
    let (provider, watch) = opened().await;
    let token = next(&mut provider.watch(&watch).await.expect("begins")).await.token;
    let large = Trigger::parse(&format!("\"{}\"", "x".repeat(1 << 20))).expect("valid");
    for number in 0..6 {
        let space = SpaceId::parse(format!("a-{number}")).expect("valid");
        provider.store(NewMemory::new(space, large.clone(), Timestamp::MIN)).await.expect("stored");
    }
    let mut watching = Vec::new();
    for number in 0..100 {
        let from = if number % 2 == 0 { WatchFrom::Beginning } else { token.clone().into() };
        let mut changes = provider.watch(&watch.clone().from(from)).await.expect("begins");
        let first = next(&mut changes).await;
        watching.push((vec![first], changes));
        assert!(provider.shared.tail.held.bytes() <= MAX_HELD_BYTES);
    }
    for (told, changes) in &mut watching {
        while told.last().is_none_or(|change| change.kind != ChangeKind::Reached) {
            told.push(next(changes).await);
        }
        let space = |change: &Change| match &change.kind {
            ChangeKind::Stored(Record::Memory(memory)) => memory.space_id.as_str().to_owned(),
            kind => format!("{kind:?}"),
        };
        let spaces: Vec<_> = told.iter().map(space).collect();
        assert_eq!(spaces, ["a-0", "a-1", "a-2", "a-3", "a-4", "a-5", "Reached"]);
    }
    assert_eq!(provider.shared.tail.held.bytes(), 0);
    drop(watching);
}

/// What one page leaves of a feed comes on the next, also where the records are large.
#[tokio::test]
async fn a_page_is_cut_at_its_bytes() {
    let (provider, watch) = opened().await;
    let mut changes = provider.watch(&watch).await.expect("begins");
    next(&mut changes).await;
    let large = Trigger::parse(&format!("\"{}\"", "x".repeat(1 << 20))).expect("valid");
    for number in 0..40 {
        let space = SpaceId::parse(format!("a-{number}")).expect("valid");
        provider.store(NewMemory::new(space, large.clone(), Timestamp::MIN)).await.expect("stored");
    }
    for number in 0..40 {
        let ChangeKind::Stored(Record::Memory(memory)) = next(&mut changes).await.kind else { panic!("a memory") };
        assert_eq!(memory.space_id.as_str(), format!("a-{number}"));
    }
}

/// An engine whose sessions take their time.
#[derive(Debug, Clone)]
struct Slow {
    data: InMemorySession,
    /// How many milliseconds each takes.
    pace: Arc<AtomicU64>,
    /// Whether it hears of no change, however long it is waited for.
    is_deaf: Arc<AtomicBool>,
    begun: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
    most_open: Arc<AtomicUsize>,
    /// How often it was told that nobody watches any more.
    unwatched: Arc<AtomicUsize>,
}

impl Slow {
    async fn opened(pace: Duration) -> (Provider<Self>, Self) {
        let (data, pace_of, is_deaf, begun, open, most_open, unwatched) = Default::default();
        let engine = Self { data, pace: pace_of, is_deaf, begun, open, most_open, unwatched };
        engine.slow_down(pace);
        let provider = Provider::<Self>::open(engine.clone()).expect("valid");
        provider.init().await.expect("opens");
        (provider, engine)
    }

    fn slow_down(&self, pace: Duration) {
        self.pace.store(pace.as_millis() as u64, Ordering::Relaxed);
    }
}

impl Config for Slow {
    fn settings(&self) -> EngineSettings {
        EngineSettings::default()
    }
}

impl Engine for Slow {
    const NAME: &'static str = "slow";
    const BATCH: Option<(usize, usize)> = None;
    const RESTORE: (usize, usize) = (1, 1);
    // Paused time stands still as long as anything has a thread for itself.
    const OWN_THREADS: bool = true;

    type Config = Self;
    type Session = InMemorySession;

    async fn open(config: &Self) -> Result<Self> {
        Ok(config.clone())
    }

    async fn secret(&self, proposed: &str) -> Result<String> {
        Ok(proposed.to_owned())
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }

    async fn health(&self) -> Result<Health> {
        Ok(Health::new(Self::NAME, "1", 1, Duration::ZERO, Durability::Durable))
    }

    async fn run<A, T>(
        &self,
        _: Access,
        _: std::time::Instant,
        argument: Arc<A>,
        work: Work<InMemorySession, A, T>,
    ) -> Result<T>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        self.begun.fetch_add(1, Ordering::Relaxed);
        let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_open.fetch_max(open, Ordering::Relaxed);
        sleep(Duration::from_millis(self.pace.load(Ordering::Relaxed))).await;
        let done = work(&mut self.data.clone(), &argument).await;
        self.open.fetch_sub(1, Ordering::Relaxed);
        done
    }

    async fn changed(&self, after: &FeedPosition, until: std::time::Instant) -> Result<()> {
        while self.is_deaf.load(Ordering::Relaxed) {
            pending::<()>().await;
        }
        while std::time::Instant::now() < until && self.data.clone().newest_change().await?.position == *after {
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    fn unwatched(&self) {
        self.unwatched.fetch_add(1, Ordering::Relaxed);
    }
}

fn all(from: WatchFrom) -> Watch {
    let watch = Watch::new(Watched::Both(Collections::All), MemoryQuery::builder().under("a"));
    watch.expect("valid").from(from)
}

async fn store_slowly(provider: &Provider<Slow>, space: &str) {
    let (space, trigger) = (SpaceId::parse(space).expect("valid"), Trigger::parse("1").expect("valid"));
    provider.store(NewMemory::new(space, trigger, Timestamp::MIN)).await.expect("stored");
}

async fn put(provider: &Provider<Slow>, collection: &str) {
    let collection = Collection::parse(collection).expect("a valid name");
    let (space, content) = (SpaceId::parse("b").expect("valid"), Content::parse("x").expect("valid"));
    let write = DocumentWrite::new(collection, space, content, Timestamp::MIN);
    provider.documents().put(write).await.expect("put");
}

/// Nothing of these collections is watched.
#[tokio::test(start_paused = true)]
async fn a_snapshot_lists_the_collections_once() {
    let (provider, engine) = Slow::opened(Duration::ZERO).await;
    for number in 0..50 {
        put(&provider, &number.to_string()).await;
    }
    let before = engine.begun.load(Ordering::Relaxed);
    let mut changes = provider.watch(&all(WatchFrom::Beginning)).await.expect("begins");
    assert_eq!(changes.next().await.expect("goes on").expect("a change").kind, ChangeKind::Reached);
    let sessions = engine.begun.load(Ordering::Relaxed) - before;
    // A page of each collection, and the end of the feed after it.
    assert!((100..=110).contains(&sessions), "{sessions} sessions");
}

/// Not all at once, since there may be many of other tenants.
#[tokio::test]
async fn a_snapshot_comes_to_each_collection() {
    let (provider, _) = Slow::opened(Duration::ZERO).await;
    let name = |number| format!("{number:04}");
    for number in 0..2 * NAMES {
        put(&provider, &name(number)).await;
    }
    let listed = provider.documents().collections().await.expect("listed");
    let names: Vec<_> = listed.iter().map(Collection::to_string).collect();
    assert_eq!(names, (0..2 * NAMES).map(name).collect::<Vec<_>>());
    let conditions = MemoryQuery::builder().under("b");
    let watch = Watch::new(Watched::Documents(Collections::All), conditions).expect("valid").from(WatchFrom::Beginning);
    let mut changes = provider.watch(&watch).await.expect("begins");
    for name in names {
        let ChangeKind::Stored(Record::Document(document)) = next(&mut changes).await.kind else {
            panic!("a document")
        };
        assert_eq!(document.collection.as_str(), name);
    }
    assert_eq!(next(&mut changes).await.kind, ChangeKind::Reached);
}

/// One that is cut off in between goes on there.
#[tokio::test(start_paused = true)]
async fn a_long_snapshot_tells_how_far_it_is() {
    let (provider, engine) = Slow::opened(Duration::from_secs(4)).await;
    for number in 0..12 {
        put(&provider, &format!("{number:02}")).await;
    }
    let (mut from, mut progress) = (WatchFrom::Beginning, 0);
    let before = engine.begun.load(Ordering::Relaxed);
    loop {
        let mut changes = provider.watch(&all(from)).await.expect("begins");
        let change = changes.next().await.expect("goes on").expect("a change");
        from = change.token.into();
        match change.kind {
            ChangeKind::Progress => progress += 1,
            kind => break assert_eq!(kind, ChangeKind::Reached),
        }
    }
    assert!(progress >= 3, "{progress} times");
    // Beside the 27 that one watch takes, each that goes on checks its token, lists the collections and reads again what
    // was cut off.
    let sessions = engine.begun.load(Ordering::Relaxed) - before;
    assert!(sessions <= 27 + 5 * progress, "{sessions} sessions for {progress}");
}

#[tokio::test(start_paused = true)]
async fn watches_share_a_few_sessions() {
    let (provider, engine) = Slow::opened(Duration::from_millis(5)).await;
    let watching = (0..50).map(|_| {
        let provider = provider.clone();
        tokio::spawn(async move {
            let mut changes = provider.watch(&all(WatchFrom::Beginning)).await.expect("begins");
            changes.next().await.expect("goes on").expect("a change").kind
        })
    });
    for watch in watching.collect::<Vec<_>>() {
        assert_eq!(watch.await.expect("ends"), ChangeKind::Reached);
    }
    // The task that follows the feed for all of them has one for itself.
    let most_open = engine.most_open.load(Ordering::Relaxed);
    assert!((4..=5).contains(&most_open), "{most_open} sessions");
}

/// Neither for one that goes on nor for one that begins, although they wait for each other.
#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_no_watch() {
    let (provider, _) = Slow::opened(Duration::from_secs(1)).await;
    let watching = (0..40).map(|number| {
        let provider = provider.clone();
        let watch: JoinHandle<Result<()>> = tokio::spawn(async move {
            sleep(Duration::from_millis(100) * number).await;
            let mut changes = provider.watch(&all(WatchFrom::Beginning)).await?;
            // Nothing changes, so what ends it is the end of the provider.
            loop {
                changes.next().await.expect("goes on")?;
            }
        });
        watch
    });
    let watching: Vec<_> = watching.collect();
    sleep(Duration::from_millis(3_500)).await;
    let begun = Instant::now();
    provider.shutdown().await.expect("closes");
    assert!(begun.elapsed() < Duration::from_secs(5));
    for watch in watching {
        assert_eq!(watch.await.expect("ends").map_err(|error| error.kind()), Err(ErrorKind::Closed));
    }
}

#[tokio::test(start_paused = true)]
async fn an_engine_is_told_when_nobody_watches() {
    let (provider, engine) = Slow::opened(Duration::ZERO).await;
    for times in 1..3 {
        let mut changes = provider.watch(&all(WatchFrom::Now)).await.expect("begins");
        changes.next().await.expect("goes on").expect("a change");
        assert!(timeout(Duration::from_secs(3), changes.next()).await.is_err(), "nothing has changed");
        assert_eq!(engine.unwatched.load(Ordering::Relaxed), times - 1);
        drop(changes);
        while engine.unwatched.load(Ordering::Relaxed) < times {
            yield_now().await;
        }
    }
}

#[tokio::test]
async fn there_are_so_many_watches_at_most() {
    let (provider, watch) = opened().await;
    let mut begun = Vec::new();
    for _ in 0..MAX_WATCHES {
        begun.push(provider.watch(&watch).await.expect("begins"));
    }
    let refused = provider.watch(&watch).await.err().map(|error| error.kind());
    assert_eq!(refused, Some(ErrorKind::LimitExceeded));
    begun.pop();
    begun.push(provider.watch(&watch).await.expect("one has ended"));
}

/// Whether anything of it is told or not, and however little time there is.
#[tokio::test]
async fn a_page_is_cut_at_what_was_read_and_in_time() {
    let (provider, engine) = Slow::opened(Duration::ZERO).await;
    let large = Trigger::parse(&format!("\"{}\"", "x".repeat(1 << 20))).expect("valid");
    let mut reader = engine.data.clone();
    let end = reader.newest_change().await.expect("a place").position;
    for _ in 0..40 {
        let space = SpaceId::parse("a").expect("valid");
        provider.store(NewMemory::new(space, large.clone(), Timestamp::MIN)).await.expect("stored");
    }
    let entries: Vec<_> = reader.changes(&end, 100).await.expect("a page").entries.into_iter().map(Arc::new).collect();
    let conditions = MemoryQuery::builder().under("a").filter_text("metadata.n = 1");
    let watch = Arc::new(Watch::new(Watched::Memories, conditions).expect("valid"));
    let now = std::time::Instant::now();
    let mut cut = async |entries: &[Arc<FeedEntry>], until| {
        let noted = Noted { watch: Arc::clone(&watch), entries: entries.to_vec(), until };
        tell::tell(&mut reader, &noted).await.expect("told").changes.len()
    };
    let later = now + Duration::from_secs(3_600);
    assert_eq!((entries.len(), cut(&entries, later).await), (40, 4), "the first 4 have 4 MiB");
    // These have less than a page may have, and more than a slice.
    let few: Vec<_> = entries.iter().take(2).cycle().take(40).cloned().collect();
    assert_eq!((cut(&few, later).await, cut(&few, now).await), (2, 0));
}

/// Whatever it is in the midst of.
#[tokio::test(start_paused = true)]
async fn a_watch_that_nobody_polls_holds_up_nobody() {
    let (provider, engine) = Slow::opened(Duration::from_secs(1)).await;
    let in_time = Duration::from_secs(30);
    let mut unpolled = Vec::new();
    for _ in 0..8 {
        let begun = timeout(in_time, provider.watch(&all(WatchFrom::Beginning))).await.expect("comes on");
        let mut changes = begun.expect("begins");
        assert!(changes.next().now_or_never().is_none(), "it reads");
        unpolled.push(changes);
    }
    let other = async {
        let mut changes = provider.watch(&all(WatchFrom::Beginning)).await.expect("begins");
        next(&mut changes).await.kind
    };
    assert_eq!(timeout(in_time, other).await.expect("comes on"), ChangeKind::Reached);
    for changes in &mut unpolled {
        // Whether it has read so far or goes on to read.
        while changes.next().now_or_never().is_some() {}
    }
    let get = async { provider.get(MemoryId::generate()).await.map_err(|error| error.kind()) };
    let ended = timeout(Duration::from_secs(5), async { tokio::join!(provider.shutdown(), get) }).await;
    let (closed, got) = ended.expect("in time");
    closed.expect("closes");
    assert!(matches!(got, Ok(None) | Err(ErrorKind::Closed)), "{got:?}");
    drop((unpolled, engine));
}

/// However long what it was reading would have taken.
#[tokio::test(start_paused = true)]
async fn a_watch_that_is_dropped_gives_back_what_it_has() {
    let (provider, engine) = Slow::opened(Duration::ZERO).await;
    let mut dropped = Vec::new();
    for _ in 0..8 {
        dropped.push(provider.watch(&all(WatchFrom::Beginning)).await.expect("begins"));
    }
    engine.slow_down(Duration::from_secs(3_600));
    for changes in &mut dropped {
        assert!(timeout(Duration::from_secs(1), changes.next()).await.is_err(), "it reads");
    }
    drop(dropped);
    timeout(Duration::from_secs(1), provider.shutdown()).await.expect("in time").expect("closes");
}

/// However many begin at once on an engine that does not answer.
#[tokio::test(start_paused = true)]
async fn a_watch_begins_in_time_or_not_at_all() {
    let (provider, engine) = Slow::opened(Duration::ZERO).await;
    let token = next(&mut provider.watch(&all(WatchFrom::Now)).await.expect("begins")).await.token;
    engine.slow_down(Duration::from_secs(3_600));
    let begun = Instant::now();
    let watching = (0..9).map(|_| async {
        let refused = provider.watch(&all(token.clone().into())).await.err().expect("no answer");
        (refused.kind(), refused.outcome(), refused.to_string())
    });
    for (kind, outcome, text) in join_all(watching).await {
        assert_eq!((kind, outcome), (ErrorKind::Timeout, Outcome::NotDone));
        assert_eq!(text, "watch (slow): Timeout: no answer within 30000 ms");
    }
    assert!(begun.elapsed() < Duration::from_secs(31), "{:?}", begun.elapsed());
}

/// Also those that wait for others.
#[tokio::test(start_paused = true)]
async fn a_watch_has_a_recent_token_however_slow_the_engine_is() {
    let (provider, engine) = Slow::opened(Duration::ZERO).await;
    let mut watching = Vec::new();
    for _ in 0..12 {
        watching.push(provider.watch(&all(WatchFrom::Beginning)).await.expect("begins"));
    }
    engine.slow_down(Duration::from_secs(14));
    let watching = watching.iter_mut().map(async |changes| {
        let mut told = Vec::new();
        while told.last() != Some(&ChangeKind::Reached) {
            let change = timeout(HEARTBEAT + Duration::from_millis(1), changes.next()).await.expect("in time");
            told.push(change.expect("goes on").expect("a change").kind);
        }
        told.len()
    });
    let told = join_all(watching).await;
    assert!(told.iter().all(|count| *count > 2), "{told:?}");
}

/// A server that vanished without a word says nothing for a long time, and another one may be there for those who ask anew.
#[tokio::test(start_paused = true)]
async fn an_engine_that_hears_of_nothing_is_asked() {
    let (provider, engine) = Slow::opened(Duration::ZERO).await;
    engine.is_deaf.store(true, Ordering::Relaxed);
    let mut changes = provider.watch(&all(WatchFrom::Now)).await.expect("begins");
    assert_eq!(next(&mut changes).await.kind, ChangeKind::Reached);
    assert!(timeout(Duration::from_secs(1), changes.next()).await.is_err(), "nothing has changed");
    store_slowly(&provider, "a").await;
    let told = timeout(HEARTBEAT, changes.next()).await.expect("in time").expect("goes on").expect("a change");
    assert!(matches!(told.kind, ChangeKind::Stored(_)), "{:?}", told.kind);
}

/// Also of a page of the feed that all watches share: an entry that the engine leaves out because its record was erased
/// after the page is missing only as long as the erasure is not lost.
#[tokio::test(start_paused = true)]
async fn a_watch_has_seen_what_was_there_when_its_page_was_read() {
    let (provider, engine) = Slow::opened(Duration::ZERO).await;
    let mut changes = provider.watch(&all(WatchFrom::Now)).await.expect("begins");
    assert_eq!(next(&mut changes).await.kind, ChangeKind::Reached);
    engine.is_deaf.store(true, Ordering::Relaxed);
    assert!(timeout(Duration::from_secs(1), changes.next()).await.is_err(), "nothing has changed");
    for _ in 0..RECENT + 1 {
        store_slowly(&provider, "b").await;
    }
    let end = engine.data.clone().newest_change().await.expect("an end").position;
    // The page and the end behind it are read before the heartbeat, and the next page after it.
    engine.slow_down(Duration::from_secs(2));
    let token = next(&mut changes).await.token;
    let open = provider.shared.open().expect("is open");
    let progress = Progress::open(token.as_str(), &open.key, &all(WatchFrom::Now).fingerprint).expect("a token");
    assert!(progress.feed().after < end, "the page does not reach the end");
    assert_eq!(progress.feed().seen, end);
}

/// Each step of a watch costs sessions for which others wait.
#[tokio::test(start_paused = true)]
async fn a_watch_takes_no_step_for_writes_that_are_held_back() {
    let (provider, engine) = Slow::opened(Duration::from_millis(1)).await;
    let begin = next(&mut provider.watch(&all(WatchFrom::Now)).await.expect("begins")).await.token;
    engine.data.hold_back();
    let of_stores = async || {
        let begun = engine.begun.load(Ordering::Relaxed);
        for _ in 0..100 {
            store_slowly(&provider, "b").await;
        }
        engine.begun.load(Ordering::Relaxed) - begun
    };
    let alone = of_stores().await;
    let mut changes = provider.watch(&all(begin.into())).await.expect("begins");
    let watching = tokio::spawn(async move { changes.next().await });
    let beside = of_stores().await;
    assert!(beside <= alone + 20, "{beside} sessions, {alone} of them for the stores");
    assert!(!watching.is_finished(), "nothing can be delivered");
}

/// They examine many records, and may have to wait for a permit before.
#[tokio::test(start_paused = true)]
async fn snapshots_leave_turns_to_others() {
    let (provider, _) = Slow::opened(Duration::ZERO).await;
    let mut live = provider.watch(&all(WatchFrom::Now)).await.expect("begins");
    assert_eq!(next(&mut live).await.kind, ChangeKind::Reached);
    let mut heavy = Vec::new();
    for _ in 0..crate::engine::heavy_calls() {
        heavy.push(provider.shared.gate.permit().await.expect("a free one"));
    }
    let conditions = MemoryQuery::builder().under("b").filter_text("metadata.n = 1");
    let filtered = Watch::new(Watched::Memories, conditions).expect("valid").from(WatchFrom::Beginning);
    let mut snapshots = Vec::new();
    for _ in 0..4 {
        let mut changes = provider.watch(&filtered).await.expect("begins");
        snapshots.push(tokio::spawn(async move { changes.next().await.expect("goes on").map(|change| change.kind) }));
    }
    assert!(timeout(Duration::from_secs(1), live.next()).await.is_err(), "nothing has changed");
    store_slowly(&provider, "a").await;
    let told = timeout(Duration::from_secs(1), next(&mut live)).await.expect("in time");
    assert!(matches!(told.kind, ChangeKind::Stored(_)), "{:?}", told.kind);
    drop(heavy);
    for snapshot in snapshots {
        assert_eq!(snapshot.await.expect("ends").expect("a change"), ChangeKind::Reached);
    }
}
