//! Keepers of namespaces in memory, with a model that does what the test says.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::*;
use crate::{
    Content, Context, DocumentId, DocumentQuery, DocumentSelection, DocumentWrite, InMemory, ManualClock, MemoryId,
    MemoryPatch, NewMemory, SpaceId, Status, Timestamp, Trigger,
};

/// Makes a vector of the length of a text.
#[derive(Default)]
struct Lengths {
    name: &'static str,
    asked: Mutex<Vec<Vec<String>>>,
    /// How many calls succeed before it is down.
    is_down_after: Option<AtomicUsize>,
    takes_all: AtomicBool,
    /// How many calls with a text that says so fail.
    fails: AtomicUsize,
    /// Told whenever it is asked.
    hears: Notify,
    /// Held back until the test lets a call go on.
    gate: Option<Notify>,
}

impl Lengths {
    fn named(name: &'static str) -> Arc<Self> {
        Arc::new(Self { name, ..Self::default() })
    }

    /// The texts that it was asked for since.
    fn texts(&self) -> Vec<String> {
        let mut texts: Vec<_> = std::mem::take(&mut *self.asked.lock().expect("no panic")).concat();
        texts.sort();
        texts
    }
}

#[async_trait]
impl Embedder for Lengths {
    fn model(&self) -> &str {
        self.name
    }

    fn width(&self) -> usize {
        2
    }

    fn batch(&self) -> usize {
        4
    }

    fn max_text(&self) -> usize {
        20
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>> {
        self.hears.notify_one();
        if let Some(gate) = &self.gate {
            gate.notified().await;
        }
        if let Some(left) = &self.is_down_after
            && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_err()
        {
            return Err(Error::new(ErrorKind::Unavailable, "the model is down"));
        }
        if texts.iter().any(|text| text.contains("fails"))
            && self.fails.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
        {
            return Err(Error::new(ErrorKind::Unavailable, "the server is busy").retryable());
        }
        if texts.iter().any(|text| text.contains("poison")) {
            return Err(Error::new(ErrorKind::Unavailable, "the server has failed").retryable());
        }
        if !self.takes_all.load(Ordering::SeqCst) && texts.iter().any(|text| text.contains("refused")) {
            return Err(Error::too_large("the model does not take that"));
        }
        self.asked.lock().expect("no panic").push(texts.to_vec());
        Ok(texts.iter().map(|text| vec![1.0, text.len() as f32]).collect())
    }
}

/// A clock that goes on at each look.
#[derive(Debug)]
struct Ticking(AtomicI64);

impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.fetch_add(1, Ordering::SeqCst)).expect("valid")
    }
}

struct Stage {
    engine: InMemory,
    provider: Arc<dyn MemoryProvider>,
}

impl Stage {
    async fn new() -> Self {
        let engine = InMemory::new();
        let provider = engine.reopen(Arc::new(SystemClock), crate::DEFAULT_DEADLINE);
        provider.init().await.expect("opens");
        Self { engine, provider: Arc::new(provider) }
    }

    fn keeper(&self, model: &Arc<Lengths>) -> VectorKeeper {
        VectorKeeper::new(Arc::clone(&self.provider), Arc::clone(model) as _)
    }

    async fn store(&self, text: &str) -> MemoryId {
        let (space, trigger) = (SpaceId::parse("a").expect("valid"), Trigger::from_value(&text).expect("valid"));
        self.provider.store(NewMemory::new(space, trigger, Timestamp::MIN)).await.expect("stored")
    }

    async fn put(&self, collection: &str, id: &str, text: &str) -> RecordId {
        let collection = Collection::parse(collection).expect("valid");
        let (space, content) = (SpaceId::parse("a").expect("valid"), Content::parse(text).expect("valid"));
        let write = DocumentWrite::new(collection, space, content, Timestamp::MIN);
        let write = write.with_id(DocumentId::parse(id).expect("valid"));
        (&self.provider.documents().put(write).await.expect("put")).into()
    }

    async fn has(&self, records: &[RecordId]) -> Vec<bool> {
        let vectors = self.provider.vectors(records).await.expect("vectors");
        vectors.into_iter().map(|vector| vector.is_some()).collect()
    }

    /// Takes away how far keepers are.
    async fn forget(&self) {
        let ids = [DocumentId::parse("feed").expect("valid")];
        let selection = DocumentSelection::ids(own::collection().expect("valid"), ids).expect("valid");
        assert_eq!(self.provider.documents().remove(&selection, 1).await.expect("removed").len(), 1);
    }
}

fn kept(embedded: usize, refused: usize) -> Kept {
    Kept { embedded, refused }
}

#[tokio::test]
async fn what_is_there_has_its_vector_and_is_not_embedded_again() -> Result<()> {
    let (stage, model) = (Stage::new().await, Lengths::named("m"));
    let memory: RecordId = stage.store("one").await.into();
    let blank: RecordId = stage.store(" ").await.into();
    let document = stage.put("notes", "1", "two, and more than it looks at").await;
    let reserved = stage.put("_own", "1", "three").await;
    assert_eq!(stage.keeper(&model).catch_up().await?, kept(2, 0));
    assert_eq!(model.texts(), ["one", "two, and more than i"]);
    assert_eq!(stage.has(&[memory, blank, document.clone(), reserved.clone()]).await, [true, false, true, false]);

    // It goes on where it was, and a status is no text.
    let later = stage.store("later").await;
    stage.provider.update(later, MemoryPatch::new().with_status(Status::Completed)).await?;
    assert_eq!(stage.keeper(&model).catch_up().await?, kept(1, 0));
    stage.provider.update(later, MemoryPatch::new().with_status(Status::Failed)).await?;
    assert_eq!(stage.keeper(&model).catch_up().await?, kept(0, 0));
    assert_eq!(model.texts(), ["later"]);
    stage.provider.update(later, MemoryPatch::new().set_context(Context::parse(r#""on""#)?)).await?;
    assert_eq!(stage.put("notes", "1", "other").await, document);
    assert_eq!(stage.keeper(&model).catch_up().await?, kept(2, 0));
    assert_eq!(model.texts(), ["later\non", "other"]);

    // Another one embeds more, and goes along the feed by itself.
    let more = || stage.keeper(&model).with_reserved("own", |collection| collection.as_str() == "_own");
    assert_eq!(more().catch_up().await?, kept(1, 0));
    assert_eq!((model.texts(), stage.has(&[reserved]).await), (vec!["three".to_owned()], vec![true]));
    assert_eq!(more().catch_up().await?, kept(0, 0));
    Ok(())
}

#[tokio::test]
async fn it_goes_on_where_it_was_cut_and_where_its_place_is_lost() -> Result<()> {
    let stage = Stage::new().await;
    for number in 0..10 {
        stage.store(&format!("number {number}")).await;
    }
    let down = Lengths { name: "m", is_down_after: Some(AtomicUsize::new(2)), ..Lengths::default() };
    let down = Arc::new(down);
    let error = stage.keeper(&down).catch_up().await.expect_err("the model is down");
    assert_eq!((error.kind(), down.texts().len()), (ErrorKind::Unavailable, 8));
    let model = Lengths::named("m");
    assert_eq!(stage.keeper(&model).catch_up().await?, kept(2, 0));
    model.texts();

    stage.forget().await;
    assert_eq!(stage.keeper(&model).catch_up().await?, kept(0, 0));
    stage.store("behind").await;
    stage.engine.drop_changes();
    assert_eq!(stage.keeper(&model).catch_up().await?, kept(1, 0), "the feed has lost it");
    assert_eq!(model.texts(), ["behind"]);
    Ok(())
}

#[tokio::test]
async fn what_is_refused_holds_up_no_other_and_is_tried_again() -> Result<()> {
    let (stage, model) = (Stage::new().await, Lengths::named("m"));
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(0)?));
    let keeper = stage.keeper(&model).clock(Arc::clone(&clock) as _);
    let first: RecordId = stage.store("refused").await.into();
    let second = stage.put("notes", "1", "refused too").await;
    let gone = stage.put("notes", "2", "refused as well").await;
    let third: RecordId = stage.store("taken").await.into();
    assert_eq!(keeper.catch_up().await?, kept(1, 3));
    assert_eq!(stage.has(&[first.clone(), second.clone(), third]).await, [false, false, true]);
    clock.set(Timestamp::from_millis(3_599_999)?);
    assert_eq!(keeper.catch_up().await?, kept(0, 0), "it is not due");
    clock.set(Timestamp::from_millis(3_600_000)?);
    assert_eq!(keeper.catch_up().await?, kept(0, 3), "it is refused again");
    let RecordId::Document { collection, id } = gone else { panic!("a document") };
    stage.provider.documents().remove(&DocumentSelection::ids(collection, [id])?, 1).await?;
    model.takes_all.store(true, Ordering::SeqCst);
    assert_eq!(keeper.catch_up().await?, kept(0, 0), "it is not due again");
    clock.set(Timestamp::from_millis(10_799_999)?);
    assert_eq!(keeper.catch_up().await?, kept(0, 0), "it waits for twice as long");
    clock.set(Timestamp::from_millis(10_800_000)?);
    assert_eq!(keeper.catch_up().await?, kept(2, 0));
    assert_eq!(stage.has(&[first, second]).await, [true, true]);
    let left = DocumentQuery::builder(own::collection()?).all().build()?;
    assert_eq!(stage.provider.documents().query(&left).await?.documents.len(), 1, "nothing waits");
    Ok(())
}

#[tokio::test]
async fn another_model_is_taken_over_and_loses_none() -> Result<()> {
    let (stage, one, other) = (Stage::new().await, Lengths::named("m"), Lengths::named("n"));
    let first: RecordId = stage.store("first").await.into();
    stage.keeper(&one).catch_up().await?;
    let refused = stage.keeper(&other).catch_up().await.expect_err("another model");
    assert_eq!(refused.kind(), ErrorKind::SchemaMismatch);
    let exact = stage.keeper(&other).taking_over().precision(Precision::Exact);
    assert_eq!(exact.catch_up().await?, kept(1, 0));
    let present = stage.provider.vector_model().await?.expect("a model");
    assert_eq!((present.name(), present.precision()), ("n", Precision::Exact));
    let second: RecordId = stage.store("second").await.into();
    assert_eq!(exact.catch_up().await?, kept(1, 0));
    assert_eq!(stage.keeper(&one).catch_up().await.expect_err("taken over").kind(), ErrorKind::SchemaMismatch);

    // An operator goes back to the first model, whose vectors are gone.
    stage.provider.set_vector_model(&VectorModel::new("m", 2, Precision::Compact)?).await?;
    assert_eq!(stage.keeper(&one).catch_up().await?, kept(2, 0));
    assert_eq!(stage.has(&[first, second]).await, [true, true]);
    Ok(())
}

#[tokio::test]
async fn a_keeper_that_was_overtaken_ends_and_keeps_no_place() -> Result<()> {
    let stage = Stage::new().await;
    let slow = Arc::new(Lengths { name: "m", gate: Some(Notify::new()), ..Lengths::default() });
    stage.store("first").await;
    let keeper = stage.keeper(&slow);
    let overtaken = tokio::spawn(async move { keeper.catch_up().await });
    slow.hears.notified().await;
    let other = Lengths::named("n");
    assert_eq!(stage.keeper(&other).taking_over().catch_up().await?, kept(1, 0));
    slow.gate.as_ref().expect("a gate").notify_one();
    let error = overtaken.await.expect("no panic").expect_err("overtaken");
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
    assert_eq!(stage.keeper(&other).catch_up().await?, kept(0, 0), "the place of the other one stays");
    Ok(())
}

#[tokio::test]
async fn what_changes_while_the_model_is_asked_is_embedded_as_it_is_then() -> Result<()> {
    let stage = Stage::new().await;
    let slow = Arc::new(Lengths { name: "m", gate: Some(Notify::new()), ..Lengths::default() });
    let document = stage.put("notes", "1", "before").await;
    let keeper = stage.keeper(&slow);
    let keeping = tokio::spawn(async move { keeper.catch_up().await });
    slow.hears.notified().await;
    stage.put("notes", "1", "behind").await;
    slow.gate.as_ref().expect("a gate").notify_one();
    slow.gate.as_ref().expect("a gate").notify_one();
    // Whether the watch has told of the change before its end or not.
    let first = keeping.await.expect("no panic")?;
    let model = Lengths::named("m");
    let second = stage.keeper(&model).catch_up().await?;
    assert_eq!((first.embedded + second.embedded, stage.has(&[document]).await), (1, vec![true]));
    assert!(slow.texts().into_iter().chain(model.texts()).any(|text| text == "behind"));
    Ok(())
}

#[tokio::test]
async fn a_model_that_is_down_takes_nothing_over() -> Result<()> {
    let (stage, model) = (Stage::new().await, Lengths::named("m"));
    let record: RecordId = stage.store("first").await.into();
    let is_down = || Lengths { is_down_after: Some(AtomicUsize::new(0)), ..Lengths::default() };
    let down = Arc::new(Lengths { name: "n", ..is_down() });
    stage.keeper(&down).catch_up().await.expect_err("it is down");
    assert_eq!(stage.provider.vector_model().await?, None);
    stage.keeper(&model).catch_up().await?;
    stage.keeper(&down).taking_over().catch_up().await.expect_err("it is down");
    assert_eq!(stage.has(&[record]).await, [true]);
    assert_eq!(stage.keeper(&model).catch_up().await?, kept(0, 0));
    assert_eq!(model.texts(), ["first"]);
    // Where there is nothing to embed, nothing can fail.
    let empty = Stage::new().await;
    empty.keeper(&down).catch_up().await?;
    assert_eq!(empty.provider.vector_model().await?.expect("a model").name(), "n");
    Ok(())
}

/// As servers do that answer a text which is too long for them as if they were down.
#[tokio::test]
async fn a_text_by_which_the_model_fails_holds_up_no_other() -> Result<()> {
    let (stage, model) = (Stage::new().await, Lengths::named("m"));
    let records = [stage.store("poison").await.into(), stage.store("tea").await.into()];
    assert_eq!(stage.keeper(&model).catch_up().await?, kept(1, 1));
    assert_eq!(stage.has(&records).await, [false, true]);
    assert_eq!(stage.keeper(&model).catch_up().await?, kept(0, 0));
    Ok(())
}

#[tokio::test]
async fn a_failure_that_passes_refuses_nothing() -> Result<()> {
    let (stage, model) = (Stage::new().await, Lengths::named("m"));
    let records = [stage.store("fails").await.into(), stage.store("tea").await.into()];
    // Together, and the first time alone.
    model.fails.store(2, Ordering::SeqCst);
    assert_eq!(stage.keeper(&model).catch_up().await?, kept(2, 0));
    assert_eq!(stage.has(&records).await, [true, true]);
    Ok(())
}

#[tokio::test]
async fn another_text_and_another_model_begin_to_wait_anew() -> Result<()> {
    let (stage, model, other) = (Stage::new().await, Lengths::named("m"), Lengths::named("n"));
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(0)?));
    let keeper = |model: &Arc<Lengths>| stage.keeper(model).taking_over().clock(Arc::clone(&clock) as _);
    stage.put("notes", "1", "refused").await;
    stage.store("taken").await;
    assert_eq!(keeper(&model).catch_up().await?, kept(1, 1));
    clock.set(Timestamp::from_millis(3_600_000)?);
    assert_eq!(keeper(&model).catch_up().await?, kept(0, 1), "it waits for two hours now");
    stage.put("notes", "1", "refused, too").await;
    assert_eq!(keeper(&model).catch_up().await?, kept(0, 1));
    clock.set(Timestamp::from_millis(7_200_000)?);
    assert_eq!(keeper(&model).catch_up().await?, kept(0, 1), "an hour behind the put");
    assert_eq!(keeper(&other).catch_up().await?, kept(1, 1));
    clock.set(Timestamp::from_millis(10_800_000)?);
    assert_eq!(keeper(&other).catch_up().await?, kept(0, 1), "an hour behind the other model");
    Ok(())
}

/// More than the model takes at once, while time goes on.
#[tokio::test]
async fn all_that_is_due_is_tried_again() -> Result<()> {
    let (stage, model) = (Stage::new().await, Lengths::named("m"));
    let clock = Arc::new(Ticking(AtomicI64::new(0)));
    let keeper = stage.keeper(&model).clock(Arc::clone(&clock) as _);
    for number in 0..10 {
        stage.store(&format!("refused {number}")).await;
    }
    assert_eq!(keeper.catch_up().await?, kept(0, 10));
    clock.0.fetch_add(3_600_000, Ordering::SeqCst);
    model.takes_all.store(true, Ordering::SeqCst);
    stage.store("new").await;
    assert_eq!(keeper.catch_up().await?, kept(11, 0));
    Ok(())
}

/// Of two that share a mark one hears late that it was removed, when the other has put one again.
#[tokio::test]
async fn a_mark_that_was_put_again_is_another_one() -> Result<()> {
    let stage = Stage::new().await;
    let (documents, model) = (stage.provider.documents(), VectorModel::new("m", 2, Precision::Compact)?);
    let read = || Mark::read(&*documents, "", &model);
    let at = |millis| Timestamp::from_millis(millis);
    let is_reset = |put: Result<()>| put.is_err_and(|error| error.kind() == ErrorKind::FeedReset);
    // With the revision that the late one knows, and with another one.
    for puts in 1..=2 {
        let (mut late, mut early) = (read().await?, read().await?);
        early.put(&*documents, &model, at(1)?).await?;
        late.put(&*documents, &model, at(1)?).await?;
        early.put(&*documents, &model, at(2)?).await?;
        stage.forget().await;
        assert!(is_reset(early.put(&*documents, &model, at(3)?).await));
        early.begin_anew();
        for put in 0..puts {
            early.put(&*documents, &model, at(4 + put)?).await?;
        }
        late.token = Some("far".to_owned());
        assert!(is_reset(late.put(&*documents, &model, at(5)?).await), "{puts}");
        late.begin_anew();
        late.put(&*documents, &model, at(6)?).await?;
        assert_eq!(read().await?.token, None);
        stage.forget().await;
    }
    Ok(())
}

#[tokio::test]
async fn a_model_that_refuses_everything_takes_nothing_over() -> Result<()> {
    let (stage, model, other) = (Stage::new().await, Lengths::named("m"), Lengths::named("n"));
    model.takes_all.store(true, Ordering::SeqCst);
    let record: RecordId = stage.store("refused").await.into();
    assert_eq!(stage.keeper(&model).catch_up().await?, kept(1, 0));
    assert_eq!(stage.keeper(&other).taking_over().catch_up().await?, kept(0, 1));
    assert_eq!(stage.provider.vector_model().await?.expect("a model").name(), "m");
    assert_eq!(stage.has(&[record]).await, [true]);
    Ok(())
}

/// With paused time, whose clock goes on only while nobody has anything to do.
#[tokio::test(start_paused = true)]
async fn a_keeper_that_runs_follows_and_waits_for_a_model_that_is_down() {
    let stage = Stage::new().await;
    let model = Arc::new(Lengths { name: "m", is_down_after: Some(AtomicUsize::new(0)), ..Lengths::default() });
    let keeper = stage.keeper(&model);
    let running = tokio::spawn(async move { keeper.run().await });
    let first: RecordId = stage.store("first").await.into();
    for _ in 0..3 {
        model.hears.notified().await;
    }
    assert_eq!(stage.has(std::slice::from_ref(&first)).await, [false]);
    model.is_down_after.as_ref().expect("a number").store(1_000, Ordering::SeqCst);
    until(&stage, &first).await;
    let second: RecordId = stage.store("second").await.into();
    until(&stage, &second).await;
    assert!(!running.is_finished());
    stage.provider.shutdown().await.expect("closes");
    let error = running.await.expect("no panic").expect_err("it is closed");
    assert_eq!(error.kind(), ErrorKind::Closed);
}

/// Waits until a record has its vector.
async fn until(stage: &Stage, record: &RecordId) {
    let is_there = async {
        while stage.has(std::slice::from_ref(record)).await != [true] {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(600), is_there).await.expect("a vector");
}

/// What a keeper writes comes along the feed, and makes it write nothing.
#[tokio::test(start_paused = true)]
async fn a_keeper_that_has_nothing_to_do_writes_nothing() -> Result<()> {
    let (stage, model) = (Stage::new().await, Lengths::named("m"));
    let record: RecordId = stage.store("first").await.into();
    let keeper = stage.keeper(&model);
    let running = tokio::spawn(async move { keeper.run().await });
    until(&stage, &record).await;
    let revision = async || -> Result<u64> {
        let id = DocumentId::parse("feed")?;
        let mark = stage.provider.documents().get(&own::collection()?, &id).await?.expect("a mark");
        Ok(mark.revision.get())
    };
    sleep(Duration::from_secs(120)).await;
    let before = revision().await?;
    sleep(Duration::from_secs(1_200)).await;
    assert_eq!(revision().await?, before);
    sleep(KEPT_IDLE).await;
    assert_eq!(revision().await?, before + 1, "but for a recent place in the feed");
    running.abort();
    Ok(())
}
