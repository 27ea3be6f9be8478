//! Facts by their meaning.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use memory_context::embedding::Embedder;
use memory_context::records::{Audience, FactQuery, RecalledFacts, Records};
use memory_core::{
    Collection, Content, Document, DocumentQuery, DocumentSelection, DocumentWrite, Error, ErrorKind, ManualClock,
    Result, SpaceId, words,
};

use super::{at, audience, direct, entity, know, room};
use crate::stage::{CaseResult, Stage, cases};

cases! {
    a_fact_is_found_by_its_meaning,
    what_both_find_comes_first,
    a_threshold_of_zero_means_zero,
    what_does_not_come_into_question_takes_nobodys_place,
    a_fact_of_another_users_room_is_not_near,
    vectors_are_documents_of_the_same_id,
    pending_vectors_survive_the_end_of_a_process,
    an_embedder_that_fails_leaves_them_pending,
    a_fact_that_the_embedder_refuses_keeps_no_other_waiting,
    refused_facts_at_the_head_keep_no_other_waiting,
    a_mark_that_is_none_keeps_no_other_waiting,
    a_document_that_is_no_vector_hides_none,
    vectors_of_another_model_are_refused_until_they_are_made_again,
    a_vector_of_another_width_is_refused,
    what_is_removed_stays_removed,
    without_an_embedder_there_is_nothing_to_make,
}

/// Knows a few subjects, each a direction, and looks for their words.
#[derive(Debug)]
pub(super) struct Subjects {
    model: &'static str,
    width: usize,
    is_down: AtomicBool,
    /// Whether it takes what it refuses at first.
    is_lenient: AtomicBool,
}

const SUBJECTS: [&[&str]; 4] =
    [&["tea", "drink", "beverage"], &["cat", "pet", "kitten"], &["job", "work", "harbour"], &["cold"]];

impl Subjects {
    pub(super) fn new(model: &'static str) -> Arc<Self> {
        Arc::new(Self::of_width(model, SUBJECTS.len()))
    }

    fn of_width(model: &'static str, width: usize) -> Self {
        Self { model, width, is_down: AtomicBool::new(false), is_lenient: AtomicBool::new(false) }
    }

    /// `hot` is the opposite of `cold`.
    fn vector(&self, text: &str) -> Vec<f32> {
        let words: Vec<_> = words::of(text).collect();
        let count = |known: &[&str]| words.iter().filter(|word| known.contains(&word.as_str())).count() as f32;
        let mut vector: Vec<_> = SUBJECTS.iter().map(|known| count(known)).collect();
        vector[3] -= count(&["hot"]);
        vector.resize(self.width, 0.0);
        vector
    }
}

#[async_trait]
impl Embedder for Subjects {
    fn model(&self) -> &str {
        self.model
    }

    fn width(&self) -> usize {
        self.width
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>> {
        if self.is_down.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Unavailable, "the model is down"));
        }
        if !self.is_lenient.load(Ordering::SeqCst) && texts.iter().any(|text| text.contains("refused")) {
            return Err(Error::too_large("the model does not take that"));
        }
        Ok(texts.iter().map(|text| self.vector(text)).collect())
    }
}

fn with(records: Records, embedder: &Arc<Subjects>) -> Records {
    records.with_embedder(Arc::clone(embedder) as Arc<dyn Embedder>)
}

/// Records with a model, which know these facts of ana's in a room, with their vectors.
async fn knowing(stage: &Stage, texts: &[&str]) -> Records {
    let records = with(stage.records("a"), &Subjects::new("m"));
    for (number, text) in texts.iter().enumerate() {
        know(&records, "r", "ana", text, number as i64).await;
    }
    assert_eq!(records.facts().embed_pending(100).await.expect("vectors"), texts.len());
    records
}

async fn recall(records: &Records, of: &Audience, query: &FactQuery) -> RecalledFacts {
    records.facts().recall(of, query).await.expect("facts")
}

fn texts(recalled: &RecalledFacts) -> Vec<&str> {
    recalled.facts.iter().map(|found| found.fact.text.as_str()).collect()
}

async fn a_fact_is_found_by_its_meaning(stage: Stage) -> CaseResult {
    let records = knowing(&stage, &["Ana likes tea", "Ana has a cat", "Ana needs a job"]).await;
    let found = recall(&records, &audience("r", "ana"), &FactQuery::new("Which beverage?").threshold(0.5)).await;
    assert_eq!((texts(&found), found.unembedded), (vec!["Ana likes tea"], 0), "no word in common");
    let similarity = found.facts[0].similarity.expect("found by its meaning");
    assert!((similarity - 1.0).abs() < 1e-6, "{similarity}");
    Ok(())
}

async fn what_both_find_comes_first(stage: Stage) -> CaseResult {
    let records = knowing(&stage, &["A kitten came by", "The cat is a pet", "Friday"]).await;
    let query = FactQuery::new("cat on Friday").threshold(0.1);
    let found = recall(&records, &audience("r", "ana"), &query).await;
    assert_eq!(texts(&found)[0], "The cat is a pet", "by its meaning and by its words");
    assert_eq!(texts(&found).into_iter().collect::<BTreeSet<_>>().len(), 3, "and whatever one of them finds");
    let scores: Vec<_> = found.facts.iter().map(|found| found.score).collect();
    assert!(scores.is_sorted_by(|one, other| one >= other), "{scores:?}");
    Ok(())
}

async fn a_threshold_of_zero_means_zero(stage: Stage) -> CaseResult {
    let records = knowing(&stage, &["Soup is hot", "Ana has a cat", "Ice is cold"]).await;
    let asked = |threshold: Option<f32>| {
        let mut query = FactQuery::new("cold");
        query.threshold = threshold;
        query
    };
    let all = recall(&records, &audience("r", "ana"), &asked(None)).await;
    assert_eq!(texts(&all), ["Ice is cold", "Ana has a cat", "Soup is hot"]);
    let near = recall(&records, &audience("r", "ana"), &asked(Some(0.0))).await;
    assert_eq!(texts(&near), ["Ice is cold", "Ana has a cat"]);
    assert_eq!(texts(&recall(&records, &audience("r", "ana"), &asked(Some(0.1))).await), ["Ice is cold"]);
    Ok(())
}

async fn what_does_not_come_into_question_takes_nobodys_place(stage: Stage) -> CaseResult {
    let records = with(stage.records("a"), &Subjects::new("m"));
    for number in 0..120 {
        know(&records, "r", "bob", &format!("Bob drinks beverage number {number}"), number).await;
    }
    know(&records, "r", "ana", "Ana has tea at work", 1).await;
    assert_eq!(records.facts().embed_pending(1_000).await?, 121);
    let query = FactQuery::new("pure drink").about(entity("ana")).limit(1);
    let found = recall(&records, &audience("r", "bob"), &query).await;
    assert_eq!(texts(&found), ["Ana has tea at work"], "a hundred of bob's are nearer");
    Ok(())
}

async fn a_fact_of_another_users_room_is_not_near(stage: Stage) -> CaseResult {
    let records = with(stage.records("a"), &Subjects::new("m"));
    direct(&records, "dm-ana", &["ana"]).await;
    direct(&records, "dm-bob", &["bob"]).await;
    know(&records, "dm-bob", "bob", "Bob has a secret kitten", 1).await;
    know(&records, "dm-ana", "ana", "Ana works with a cat", 2).await;
    assert_eq!(records.facts().embed_pending(10).await?, 2);
    for query in [FactQuery::new("kitten"), FactQuery::new("pet"), FactQuery::new("pet").about(entity("bob"))] {
        let found = recall(&records, &audience("dm-ana", "ana"), &query).await;
        assert!(texts(&found).iter().all(|text| text.starts_with("Ana")), "{query:?}");
    }
    let found = recall(&records, &audience("dm-bob", "bob"), &FactQuery::new("pet")).await;
    assert_eq!(texts(&found), ["Bob has a secret kitten"]);
    Ok(())
}

/// The documents of a room of agent `a`, by their collections.
async fn documents_of(stage: &Stage, records: &Records, of_room: &str) -> Vec<Document> {
    let documents = stage.provider().documents();
    let space = records.room_space(&room(of_room)).expect("a space");
    let mut found = Vec::new();
    for collection in documents.collections().await.expect("collections") {
        let query = DocumentQuery::builder(collection).exact(&space).build().expect("a query");
        found.extend(documents.query(&query).await.expect("a page").documents);
    }
    found
}

async fn vectors_are_documents_of_the_same_id(stage: Stage) -> CaseResult {
    let records = knowing(&stage, &["tea and tea and cat"]).await;
    let [fact, vector] = &documents_of(&stage, &records, "r").await[..] else { panic!("a fact and a vector") };
    assert_eq!(vector.collection, Collection::parse(format!("{}-vectors", fact.collection))?);
    assert_eq!((&vector.id, &vector.space_id), (&fact.id, &fact.space_id));
    assert_eq!(vector.metadata.as_str(), r#"{"model":"m","width":4}"#);
    let numbers = [2.0_f32, 1.0, 0.0, 0.0];
    let bytes: Vec<_> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    assert_eq!(vector.content.as_str(), STANDARD.encode(bytes));
    Ok(())
}

async fn pending_vectors_survive_the_end_of_a_process(stage: Stage) -> CaseResult {
    let embedder = Subjects::new("m");
    let records = with(stage.records("a"), &embedder);
    for text in ["Ana likes tea", "Ana has a cat", "Ana needs a job"] {
        know(&records, "r", "ana", text, 1).await;
    }
    let found = recall(&records, &audience("r", "ana"), &FactQuery::new("tea")).await;
    assert_eq!((texts(&found), found.unembedded), (vec!["Ana likes tea"], 3), "found by its words meanwhile");
    drop(records);
    let restarted = with(stage.records_elsewhere("a"), &embedder);
    assert_eq!(restarted.facts().embed_pending(2).await?, 2, "as many as were asked for");
    assert_eq!(recall(&restarted, &audience("r", "ana"), &FactQuery::new("tea")).await.unembedded, 1);
    assert_eq!(with(stage.records("b"), &embedder).facts().embed_pending(9).await?, 0, "those of another agent");
    assert_eq!(restarted.facts().embed_pending(9).await?, 1);
    assert_eq!(restarted.facts().embed_pending(9).await?, 0);
    let found = recall(&restarted, &audience("r", "ana"), &FactQuery::new("beverage").threshold(0.5)).await;
    assert_eq!((texts(&found), found.unembedded), (vec!["Ana likes tea"], 0));
    Ok(())
}

async fn an_embedder_that_fails_leaves_them_pending(stage: Stage) -> CaseResult {
    let embedder = Subjects::new("m");
    let records = with(stage.records("a"), &embedder);
    embedder.is_down.store(true, Ordering::SeqCst);
    know(&records, "r", "ana", "Ana likes tea", 1).await;
    assert_eq!(records.facts().embed_pending(9).await.expect_err("down").kind(), ErrorKind::Unavailable);
    let error = records.facts().recall(&audience("r", "ana"), &FactQuery::new("tea")).await.expect_err("down");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "a failure does not look like no facts");
    embedder.is_down.store(false, Ordering::SeqCst);
    assert_eq!(records.facts().embed_pending(9).await?, 1);
    Ok(())
}

async fn a_fact_that_the_embedder_refuses_keeps_no_other_waiting(stage: Stage) -> CaseResult {
    let records = with(stage.records("a"), &Subjects::new("m"));
    for text in ["This one is refused", "Ana likes tea"] {
        know(&records, "r", "ana", text, 1).await;
    }
    assert_eq!(records.facts().embed_pending(9).await?, 1);
    assert_eq!(records.facts().embed_pending(9).await?, 0, "it waits on");
    let found = recall(&records, &audience("r", "ana"), &FactQuery::new("beverage").threshold(0.5)).await;
    assert_eq!((texts(&found), found.unembedded), (vec!["Ana likes tea"], 1));
    Ok(())
}

async fn refused_facts_at_the_head_keep_no_other_waiting(stage: Stage) -> CaseResult {
    let (subjects, clock) = (Subjects::new("m"), Arc::new(ManualClock::new(at(0))));
    let records = with(stage.records("a").with_clock(Arc::clone(&clock) as _), &subjects);
    for (number, text) in ["refused", "refused too", "refused as well", "Ana likes tea"].into_iter().enumerate() {
        clock.set(at(number as i64));
        know(&records, "r", "ana", text, number as i64).await;
    }
    assert_eq!(records.facts().embed_pending(2).await?, 0, "the first two are refused");
    assert_eq!(records.facts().embed_pending(2).await?, 1, "and the next two are looked at");
    subjects.is_lenient.store(true, Ordering::SeqCst);
    assert_eq!(records.facts().embed_pending(9).await?, 0, "they are not asked for again at once");
    clock.set(at(3_600_003));
    assert_eq!(records.facts().embed_pending(9).await?, 3);
    Ok(())
}

async fn a_mark_that_is_none_keeps_no_other_waiting(stage: Stage) -> CaseResult {
    let (records, documents) = (with(stage.records("a"), &Subjects::new("m")), stage.provider().documents());
    know(&records, "r", "ana", "Ana likes tea", 1).await;
    let space = records.room_space(&room("r"))?;
    let agent = SpaceId::parse(space.as_str().split_once("/room/").expect("the space of a room").0)?;
    let mut marks = Vec::new();
    for collection in documents.collections().await? {
        if collection.as_str().starts_with("_embeddings-") {
            marks.extend(documents.query(&DocumentQuery::builder(collection).exact(&agent).build()?).await?.documents);
        }
    }
    let [mark] = &marks[..] else { panic!("one mark") };
    let broken = DocumentWrite::new(mark.collection.clone(), agent, Content::parse("no\nroom")?, at(0));
    documents.put(broken).await?;
    assert_eq!(records.facts().embed_pending(1).await?, 1, "though the other is older");
    Ok(())
}

async fn a_document_that_is_no_vector_hides_none(stage: Stage) -> CaseResult {
    let records = knowing(&stage, &["Ana likes tea", "Ana has a cat"]).await;
    let is_vector = |document: &Document| document.collection.as_str().ends_with("-vectors");
    let mut vectors = documents_of(&stage, &records, "r").await;
    vectors.retain(is_vector);
    let broken = vectors.pop().expect("a vector");
    let write = DocumentWrite::new(broken.collection, broken.space_id, broken.content, broken.created_at);
    stage.provider().documents().put(write.with_id(broken.id)).await?;
    let query = FactQuery::new("beverage pet").threshold(0.5);
    let found = recall(&records, &audience("r", "ana"), &query).await;
    assert_eq!((found.facts.len(), found.unembedded), (1, 1), "the other has its vector");
    assert_eq!(records.facts().embed_again().await?, 1);
    assert_eq!(records.facts().embed_pending(9).await?, 1);
    assert_eq!(recall(&records, &audience("r", "ana"), &query).await.facts.len(), 2);
    Ok(())
}

async fn vectors_of_another_model_are_refused_until_they_are_made_again(stage: Stage) -> CaseResult {
    let old = knowing(&stage, &["Ana likes tea", "Ana has a cat"]).await;
    let records = with(stage.records("a"), &Subjects::new("n"));
    let query = FactQuery::new("beverage").threshold(0.5);
    let error = records.facts().recall(&audience("r", "ana"), &query).await.expect_err("another model");
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
    assert!(error.message().contains("model m") && error.message().contains("is n"), "{error}");
    assert_eq!(old.facts().embed_again().await?, 0);
    assert_eq!(records.facts().embed_again().await?, 2);
    assert_eq!(records.facts().embed_again().await?, 0, "marked already");
    assert_eq!(records.facts().embed_pending(9).await?, 2);
    assert_eq!(texts(&recall(&records, &audience("r", "ana"), &query).await), ["Ana likes tea"]);
    assert_eq!(
        old.facts().recall(&audience("r", "ana"), &query).await.expect_err("the old one now").kind(),
        ErrorKind::SchemaMismatch
    );
    Ok(())
}

async fn a_vector_of_another_width_is_refused(stage: Stage) -> CaseResult {
    knowing(&stage, &["Ana likes tea"]).await;
    let wide = Arc::new(Subjects::of_width("m", 5));
    let records = with(stage.records("a"), &wide);
    let error = records.facts().recall(&audience("r", "ana"), &FactQuery::new("tea")).await.expect_err("another width");
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
    Ok(())
}

async fn what_is_removed_stays_removed(stage: Stage) -> CaseResult {
    let clock = Arc::new(ManualClock::new(at(0)));
    let records = with(stage.records("a"), &Subjects::new("m")).with_clock(Arc::clone(&clock) as _);
    know(&records, "r", "ana", "Ana likes tea", 1).await;
    know(&records, "r", "ana", "Ana has a cat", 2).await;
    let remove = async |what: &str| -> Result<usize> {
        let documents = documents_of(&stage, &records, "r").await;
        let fact = documents.into_iter().find(|document| document.content.as_str() == what).expect("a fact");
        let selection = DocumentSelection::ids(fact.collection, [fact.id])?;
        Ok(stage.provider().documents().remove(&selection, 1).await?.len())
    };
    assert_eq!(remove("Ana likes tea").await?, 1, "before it had a vector");
    assert_eq!(records.facts().embed_pending(9).await?, 1);
    assert_eq!(remove("Ana has a cat").await?, 1, "behind it");
    clock.set(at(3_600_000));
    assert_eq!(records.facts().embed_pending(9).await?, 0);
    let found = recall(&records, &audience("r", "ana"), &FactQuery::new("tea cat pet")).await;
    assert_eq!((found.facts.len(), found.unembedded), (0, 0));
    know(&records, "r", "ana", "Ana likes tea", 1).await;
    assert_eq!(records.facts().embed_pending(9).await?, 1, "and comes back when it is said again");
    Ok(())
}

async fn without_an_embedder_there_is_nothing_to_make(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    know(&records, "r", "ana", "Ana likes tea", 1).await;
    assert_eq!(records.facts().embed_pending(9).await.expect_err("no embedder").kind(), ErrorKind::Unsupported);
    assert_eq!(records.facts().embed_again().await.expect_err("no embedder").kind(), ErrorKind::Unsupported);
    let found = recall(&records, &audience("r", "ana"), &FactQuery::new("tea")).await;
    assert_eq!((found.facts.len(), found.unembedded), (1, 1));
    let records = with(records, &Subjects::new("m"));
    assert_eq!(records.facts().embed_again().await?, 1, "one comes later");
    assert_eq!(records.facts().embed_pending(9).await?, 1);
    assert_eq!(recall(&records, &audience("r", "ana"), &FactQuery::new("tea")).await.unembedded, 0);
    Ok(())
}
