//! An engine that is slow, down, or overtaken: an engine in memory behind a door that a test can close.

#[path = "common/engine.rs"]
mod engine;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use memory_context::prompt::MemoryStore::{Memory, User};
use memory_context::prompt::{COLLECTION, MemoryLoadContext, MemoryUpdate, OnFailure, PromptConfig, PromptMemory};
use memory_context::records::{AgentId, Audience, EntityId, Fact, NewFact, Records, RoomId};
use memory_core::{
    Clock, Collection, Content, DEFAULT_DEADLINE, DocumentQuery, DocumentWrite, Error, ErrorKind, IdempotencyKey,
    InMemory, ManualClock, MemoryProvider, Outcome, Result, SystemClock, Timestamp,
};
use tokio::sync::{Mutex, Notify};
use tokio::time::{Instant, advance};

use crate::engine::{Around, Call, Wrapped};

/// How the door treats a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Door {
    #[default]
    Open,
    /// The call is not carried out.
    Unavailable,
    /// The call is carried out, and its answer is lost.
    AnswerLost,
    /// The call is made, and its answer never comes.
    Stuck,
    /// The call is made, and its answer comes when the test allows it.
    Late,
    /// Somebody else is always first.
    Overtaken,
}

/// The doors of the documents.
#[derive(Debug, Default)]
struct Doors {
    gets: AtomicUsize,
    puts: AtomicUsize,
    get: Mutex<Door>,
    /// For the next writes, one after the other; then the door is open.
    put: Mutex<VecDeque<Door>>,
    /// What late answers wait for.
    allowed: Notify,
}

impl Around for Arc<Doors> {
    async fn around<T: Send>(&self, call: Call, work: impl Future<Output = Result<T>> + Send) -> Result<T> {
        let door = match call {
            Call::GetDocument => {
                self.gets.fetch_add(1, SeqCst);
                *self.get.lock().await
            }
            Call::PutDocument => {
                self.puts.fetch_add(1, SeqCst);
                self.put.lock().await.pop_front().unwrap_or_default()
            }
            _ => Door::Open,
        };
        match door {
            Door::Open => work.await,
            Door::Unavailable => Err(Error::new(ErrorKind::Unavailable, "the engine is down")),
            Door::Overtaken => Err(Error::conflict("somebody else was first")),
            Door::AnswerLost => {
                work.await?;
                Err(Error::new(ErrorKind::Unavailable, "the answer is lost").with_outcome(Outcome::Unknown))
            }
            Door::Stuck => {
                work.await?;
                std::future::pending().await
            }
            Door::Late => {
                let answer = work.await?;
                self.allowed.notified().await;
                Ok(answer)
            }
        }
    }
}

/// An engine in memory, and the doors of its documents.
#[derive(Debug)]
struct House {
    engine: Arc<dyn MemoryProvider>,
    doors: Arc<Doors>,
}

impl House {
    async fn new() -> Self {
        let engine = Arc::new(InMemory::new());
        engine.init().await.expect("opens");
        Self { engine, doors: Arc::default() }
    }

    fn wrapped(&self) -> Wrapped<Arc<Doors>> {
        Wrapped { engine: Arc::clone(&self.engine), around: Arc::clone(&self.doors) }
    }

    /// The records of an agent.
    fn records(&self) -> Records {
        Records::new(Arc::new(self.wrapped()), AgentId::parse("ada").expect("valid"))
    }

    fn memory(&self, set: impl FnOnce(&mut PromptConfig)) -> PromptMemory {
        let mut config = PromptConfig::default();
        set(&mut config);
        PromptMemory::with(self.wrapped().documents(), config).expect("valid settings")
    }

    /// Prompt memory in another process, which has no doors.
    fn elsewhere(&self) -> PromptMemory {
        PromptMemory::new(self.engine.documents())
    }

    async fn gets_are(&self, door: Door) {
        *self.doors.get.lock().await = door;
    }

    async fn puts_are(&self, doors: impl IntoIterator<Item = Door>) {
        *self.doors.put.lock().await = doors.into_iter().collect();
    }

    fn calls(&self) -> (usize, usize) {
        (self.doors.gets.load(SeqCst), self.doors.puts.load(SeqCst))
    }
}

fn context() -> MemoryLoadContext {
    MemoryLoadContext::new("s", "cli:test", "cli")
}

fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::parse(text).expect("a valid key")
}

async fn add(memory: &PromptMemory, text: &str) {
    memory.sync(&context(), &[MemoryUpdate::add(Memory, text)]).await.expect("an add");
}

async fn content(memory: &PromptMemory) -> Option<String> {
    memory.prefetch(&context()).await.expect("a prefetch").map(|context| context.content)
}

#[tokio::test]
async fn an_empty_batch_makes_no_call() {
    let doors = House::new().await;
    let memory = doors.memory(|_| ());
    memory.sync(&context(), &[]).await.expect("nothing to do");
    assert_eq!(doors.calls(), (0, 0));
    memory.sync(&context(), &[MemoryUpdate::remove(Memory, "a")]).await.expect("nothing to change");
    assert_eq!(doors.calls(), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_cached_text_is_served_until_it_is_old_or_changed_here() {
    let doors = House::new().await;
    let memory = doors.memory(|config| config.cache_for = Duration::from_secs(60));
    assert_eq!(content(&memory).await, None);
    assert_eq!(content(&memory).await, None);
    assert_eq!(doors.calls().0, 2, "one for each store");
    add(&memory, "a").await;
    let calls = doors.calls();
    assert_eq!(content(&memory).await.as_deref(), Some("## Memory\n\na"));
    memory.sync(&context(), &[MemoryUpdate::replace(Memory, "b")]).await.expect("a replace");
    assert_eq!(content(&memory).await.as_deref(), Some("## Memory\n\nb"));
    assert_eq!(doors.calls(), (calls.0 + 1, calls.1 + 1), "only the replacement itself asked");

    add(&doors.elsewhere(), "c").await;
    assert_eq!(content(&memory).await.as_deref(), Some("## Memory\n\nb"));
    advance(Duration::from_secs(60)).await;
    assert_eq!(content(&memory).await.as_deref(), Some("## Memory\n\nb\n\nc"));
}

#[tokio::test(start_paused = true)]
async fn a_cached_profile_of_all_agents_is_that_of_an_agent_until_it_is_changed_here() {
    let doors = House::new().await;
    let memory = doors.memory(|config| config.cache_for = Duration::from_secs(60));
    let of_ada = context().with_agent("ada");
    let profile = async |memory: &PromptMemory| memory.prefetch(&of_ada).await.expect("read").map(|it| it.content);
    memory.sync(&context(), &[MemoryUpdate::add(User, "a")]).await.expect("kept");
    assert_eq!(profile(&memory).await.as_deref(), Some("## About You\n\na"));
    let calls = doors.calls();
    assert_eq!(profile(&memory).await.as_deref(), Some("## About You\n\na"));
    assert_eq!(doors.calls(), calls);
    memory.sync(&context(), &[MemoryUpdate::add(User, "b")]).await.expect("kept");
    assert_eq!(profile(&memory).await.as_deref(), Some("## About You\n\na\n\nb"));
    memory.sync(&of_ada, &[MemoryUpdate::replace(User, "c")]).await.expect("kept");
    assert_eq!(profile(&memory).await.as_deref(), Some("## About You\n\nc"));
}

#[tokio::test]
async fn without_a_cache_each_prefetch_reads() {
    let doors = House::new().await;
    let memory = doors.memory(|_| ());
    add(&doors.elsewhere(), "a").await;
    assert_eq!(content(&memory).await.as_deref(), Some("## Memory\n\na"));
    add(&doors.elsewhere(), "b").await;
    assert_eq!(content(&memory).await.as_deref(), Some("## Memory\n\na\n\nb"));
}

#[tokio::test(start_paused = true)]
async fn a_cache_forgets_a_write_whose_outcome_is_unknown() {
    let doors = House::new().await;
    let memory = doors.memory(|config| config.cache_for = Duration::from_secs(60));
    add(&memory, "a").await;
    doors.puts_are([Door::AnswerLost]).await;
    let update = [MemoryUpdate::add(Memory, "b")];
    memory.sync(&context(), &update).await.expect_err("the answer is lost");
    assert_eq!(content(&memory).await.as_deref(), Some("## Memory\n\na\n\nb"));
    doors.puts_are([Door::Stuck]).await;
    let update = [MemoryUpdate::add(Memory, "c")];
    tokio::time::timeout(Duration::from_secs(1), memory.sync(&context(), &update)).await.expect_err("dropped");
    assert_eq!(content(&memory).await.as_deref(), Some("## Memory\n\na\n\nb\n\nc"));
}

#[tokio::test(start_paused = true)]
async fn past_the_deadline_a_prefetch_fails() {
    let doors = House::new().await;
    let memory = doors.memory(|config| config.deadline = Duration::from_secs(3));
    add(&memory, "a").await;
    doors.gets_are(Door::Stuck).await;
    let start = Instant::now();
    let error = memory.prefetch(&context()).await.expect_err("late");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Timeout, Outcome::NotDone));
    assert_eq!(start.elapsed().as_secs(), 3, "both stores are read at the same time");
    doors.gets_are(Door::Unavailable).await;
    assert_eq!(memory.prefetch(&context()).await.expect_err("down").kind(), ErrorKind::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn a_prefetch_that_fails_open_says_so_and_gives_what_was_known_last() {
    let doors = House::new().await;
    let memory = doors.memory(|config| config.on_failure = OnFailure::Open);
    let warned = |kind, rest| {
        format!("[memory could not be read ({kind}): what follows may be old, and what is missing is not gone]{rest}")
    };
    for (door, kind) in [(Door::Stuck, "Timeout"), (Door::Unavailable, "Unavailable")] {
        doors.gets_are(door).await;
        let shown = memory.prefetch(&context()).await.expect("it goes on").expect("a warning");
        assert_eq!(shown.content, warned(kind, ""));
        assert!(shown.warning.is_some_and(|warning| shown.content.contains(&warning)));
    }
    doors.gets_are(Door::Open).await;
    add(&memory, "a").await;
    doors.gets_are(Door::Unavailable).await;
    assert_eq!(content(&memory).await, Some(warned("Unavailable", "\n\n## Memory\n\na")));
    doors.gets_are(Door::Open).await;
    let shown = memory.prefetch(&context()).await.expect("it works again").expect("a text");
    assert_eq!((shown.content.as_str(), shown.warning), ("## Memory\n\na", None));
}

#[tokio::test]
async fn a_lost_race_is_run_again() {
    let doors = House::new().await;
    let memory = doors.memory(|_| ());
    doors.puts_are([Door::Overtaken, Door::Overtaken]).await;
    let report = memory.sync(&context(), &[MemoryUpdate::add(Memory, "a")]).await.expect("the third one wins");
    assert!(report.updates[0].changed);
    assert_eq!(doors.calls(), (3, 3));
    assert_eq!(content(&memory).await.as_deref(), Some("## Memory\n\na"));
}

#[tokio::test(start_paused = true)]
async fn a_sync_that_gets_no_answer_ends() {
    let doors = House::new().await;
    let memory = doors.memory(|_| ());
    doors.puts_are([Door::Stuck]).await;
    let error = memory.sync(&context(), &[MemoryUpdate::add(Memory, "a")]).await.expect_err("late");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Timeout, Outcome::Unknown));
}

#[tokio::test]
async fn a_repetition_completes_what_a_crash_cut_and_doubles_nothing() {
    let doors = House::new().await;
    let memory = doors.memory(|_| ());
    let batch = [MemoryUpdate::add(Memory, "m"), MemoryUpdate::add(User, "u")];
    for (number, crash) in [Door::Unavailable, Door::AnswerLost].into_iter().enumerate() {
        for (place, doors_of_batch) in [vec![crash], vec![Door::Open, crash]].into_iter().enumerate() {
            let turn = key(&format!("turn {number} {place}"));
            doors.puts_are(doors_of_batch).await;
            let error = memory.sync_once(&context(), &turn, &batch).await.expect_err("a crash");
            let is_unknown = place == 1 || crash == Door::AnswerLost;
            assert_eq!(error.outcome() == Outcome::Unknown, is_unknown, "{error:?}");
            for _ in 0..2 {
                memory.sync_once(&context(), &turn, &batch).await.expect("a repetition");
            }
        }
    }
    assert_eq!(memory.read(&context(), User).await.expect("read").as_deref(), Some("u\n\nu\n\nu\n\nu"));
    assert_eq!(memory.read(&context(), Memory).await.expect("read").as_deref(), Some("m\n\nm\n\nm\n\nm"));
}

#[tokio::test]
async fn what_was_not_written_here_is_refused_and_left_alone() {
    let doors = House::new().await;
    let memory = doors.memory(|_| ());
    add(&memory, "a").await;
    let collection = Collection::parse(COLLECTION).expect("valid");
    let query = DocumentQuery::builder(collection).all().build().expect("valid");
    let mut document = doors.engine.documents().query(&query).await.expect("found").documents.remove(0);
    for text in ["by hand", "{}", r#"{"text":"a","changes":[],"from":"the future"}"#] {
        document.content = Content::parse(text).expect("valid");
        let write = DocumentWrite::new(
            document.collection.clone(),
            document.space_id.clone(),
            document.content.clone(),
            document.created_at,
        );
        doors.engine.documents().put(write.with_id(document.id.clone())).await.expect("put");
        assert_eq!(memory.prefetch(&context()).await.expect_err("not ours").kind(), ErrorKind::Corrupt);
        let update = [MemoryUpdate::replace(Memory, "b")];
        assert_eq!(memory.sync(&context(), &update).await.expect_err("not ours").kind(), ErrorKind::Corrupt);
        let left =
            doors.engine.documents().get(&document.collection, &document.id).await.expect("found").expect("there");
        assert_eq!(left.content.as_str(), text);
    }
}

fn audience() -> Audience {
    Audience::new(RoomId::parse("r").expect("valid"), EntityId::parse("ana").expect("valid"))
}

fn fact(text: &str) -> NewFact {
    let Audience { room, entity, .. } = audience();
    NewFact::new(room, entity.clone(), entity, text, Timestamp::MIN)
}

async fn known(records: &Records, text: &str) -> Fact {
    records.facts().remember(fact(text)).await.expect("kept").fact
}

async fn facts(records: &Records) -> Vec<String> {
    let facts = records.facts().newest(&audience(), 10).await.expect("read");
    facts.into_iter().map(|fact| fact.text).collect()
}

#[tokio::test]
async fn a_fact_that_others_know_outlives_a_race_of_corrections() {
    let house = House::new().await;
    let records = house.records();
    let wrong = known(&records, "Ana is 3").await;
    house.puts_are([Door::Late]).await;
    let meanwhile = async {
        let other = records.facts().replace(&wrong, fact("Ana is 31")).await;
        known(&records, "Ana is 30").await;
        house.doors.allowed.notify_one();
        other
    };
    let facts_of = records.facts();
    let (one, other) = tokio::join!(facts_of.replace(&wrong, fact("Ana is 30")), meanwhile);
    assert!(facts(&records).await.contains(&"Ana is 30".to_owned()), "who remembered it was told that it is known");
    assert_eq!((one.is_ok(), other.is_ok()), (true, false));
    assert_eq!(facts(&records).await, ["Ana is 30"]);
}

#[tokio::test]
async fn two_corrections_by_one_text_leave_it() {
    let house = House::new().await;
    let records = house.records();
    let wrong = known(&records, "Ana is 3").await;
    house.puts_are([Door::Late]).await;
    let meanwhile = async {
        let other = records.facts().replace(&wrong, fact("Ana is 30")).await;
        house.doors.allowed.notify_one();
        other
    };
    let facts_of = records.facts();
    let (one, other) = tokio::join!(facts_of.replace(&wrong, fact("Ana is 30")), meanwhile);
    assert_eq!(facts(&records).await, ["Ana is 30"]);
    assert!(one.is_ok() && other.is_ok());
}

#[tokio::test]
async fn a_correction_that_was_cut_off_goes_on_or_makes_way() {
    let house = House::new().await;
    let later = Timestamp::from_millis(SystemClock.now().as_millis() + 180_000).expect("in range");
    let records = house.records();
    let cut = async |wrong: &Fact| {
        house.puts_are([Door::Open, Door::Unavailable]).await;
        records.facts().replace(wrong, fact("Ana is 30")).await.expect_err("cut off");
    };
    let wrong = known(&records, "Ana is 3").await;
    cut(&wrong).await;
    assert_eq!(facts(&records).await, ["Ana is 3"]);
    let other = records.facts().replace(&wrong, fact("Ana is 31")).await.expect_err("it is being replaced");
    let removed = records.facts().remove(&wrong).await.expect_err("it is being replaced");
    assert_eq!((other.kind(), removed.kind()), (ErrorKind::Conflict, ErrorKind::NotFound));
    assert!(records.facts().replace(&wrong, fact("Ana is 30")).await.expect("it goes on").is_new);
    assert_eq!(facts(&records).await, ["Ana is 30"]);

    let wrong = known(&records, "Ana is 4").await;
    records.facts().remove(&known(&records, "Ana is 30").await).await.expect("known");
    cut(&wrong).await;
    let records = records.with_clock(Arc::new(ManualClock::new(later)));
    records.facts().replace(&wrong, fact("Ana is 31")).await.expect("nobody goes on with the other");
    assert_eq!(facts(&records).await, ["Ana is 31"]);
}

#[tokio::test]
async fn a_correction_that_goes_on_after_a_long_time_keeps_others_out() {
    for (goes_on_after, other_comes_after) in [(180_000, 180_000), (100_000, 130_000)] {
        let after = |millis| Timestamp::from_millis(Timestamp::MIN.as_millis() + millis).expect("in range");
        let clock = Arc::new(ManualClock::new(Timestamp::MIN));
        let engine = Arc::new(InMemory::new().reopen(Arc::clone(&clock) as _, DEFAULT_DEADLINE));
        engine.init().await.expect("opens");
        let house = House { engine, doors: Arc::default() };
        let records = house.records().with_clock(Arc::clone(&clock) as _);
        let wrong = known(&records, "Ana is 3").await;
        house.puts_are([Door::Open, Door::Unavailable]).await;
        records.facts().replace(&wrong, fact("Ana is 30")).await.expect_err("cut off");
        clock.set(after(goes_on_after));
        house.puts_are([Door::Late]).await;
        let meanwhile = async {
            clock.set(after(other_comes_after));
            let other = records.facts().replace(&wrong, fact("Ana is 31")).await;
            house.doors.allowed.notify_one();
            other
        };
        let facts_of = records.facts();
        let (one, other) = tokio::join!(facts_of.replace(&wrong, fact("Ana is 30")), meanwhile);
        assert!(one.is_ok());
        assert_eq!(other.expect_err("it is being replaced").kind(), ErrorKind::Conflict);
        assert_eq!(facts(&records).await, ["Ana is 30"]);
    }
}
