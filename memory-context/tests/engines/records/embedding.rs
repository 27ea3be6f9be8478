//! Facts and messages by their meaning.
//!
//! All cases of an engine share one namespace, and so one model, and the keeper of one case makes vectors for the
//! others. The keeper has tests of its own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use memory_context::embedding::Embedder;
use memory_context::records::{Audience, FactQuery, RecalledFacts, Records};
use memory_core::{DocumentQuery, Error, ErrorKind, RecordId, Result, words};

use super::{at, audience, direct, entity, know, room, said};
use crate::stage::{CaseResult, Stage, cases};

cases! {
    a_fact_is_found_by_its_meaning,
    what_both_find_comes_first,
    a_threshold_of_zero_means_zero,
    what_does_not_come_into_question_takes_nobodys_place,
    a_fact_of_another_users_room_is_not_near,
    rooms_are_compared_by_meaning,
    facts_wait_for_their_vectors_and_are_found_by_their_words,
    an_embedder_that_fails_leaves_the_words,
    words_answer_for_another_model,
    what_is_removed_stays_removed,
    without_an_embedder_there_is_nothing_to_make,
    what_older_programs_have_kept_is_no_fact,
    an_earlier_message_is_found_by_its_meaning,
}

/// Knows a few subjects, each a direction, and recognizes their words.
#[derive(Debug)]
pub(super) struct Subjects {
    model: &'static str,
    is_down: AtomicBool,
}

const SUBJECTS: [&[&str]; 4] =
    [&["tea", "drink", "beverage"], &["cat", "pet", "kitten"], &["job", "work", "harbour"], &["cold"]];

impl Subjects {
    pub(super) fn new(model: &'static str) -> Arc<Self> {
        Arc::new(Self { model, is_down: AtomicBool::new(false) })
    }

    /// `hot` is the opposite of `cold`. Nothing is without a direction.
    fn vector(&self, text: &str) -> Vec<f32> {
        let words: Vec<_> = words::of(text).collect();
        let count = |known: &[&str]| words.iter().filter(|word| known.contains(&word.as_str())).count() as f32;
        let mut vector: Vec<_> = SUBJECTS.iter().map(|known| count(known)).collect();
        vector[3] -= count(&["hot"]);
        vector.push(0.1);
        vector
    }
}

#[async_trait]
impl Embedder for Subjects {
    fn model(&self) -> &str {
        self.model
    }

    fn width(&self) -> usize {
        SUBJECTS.len() + 1
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>> {
        if self.is_down.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Unavailable, "the model is down"));
        }
        Ok(texts.iter().map(|text| self.vector(text)).collect())
    }
}

fn with(records: Records, embedder: &Arc<Subjects>) -> Records {
    records.with_embedder(Arc::clone(embedder) as Arc<dyn Embedder>)
}

/// Records with a model, with these facts of ana's in a room and their vectors.
async fn knowing(stage: &Stage, texts: &[&str]) -> Records {
    let records = with(stage.records("a"), &Subjects::new("m"));
    for (number, text) in texts.iter().enumerate() {
        know(&records, "r", "ana", text, number as i64).await;
    }
    records.upkeep().await.expect("vectors");
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
    assert!((similarity - 1.0).abs() < 1e-2, "{similarity}");
    Ok(())
}

async fn what_both_find_comes_first(stage: Stage) -> CaseResult {
    let records = knowing(&stage, &["A kitten came by", "The cat is a pet", "Friday"]).await;
    let query = FactQuery::new("cat on Friday").threshold(0.2);
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
    assert_eq!(texts(&recall(&records, &audience("r", "ana"), &asked(Some(0.2))).await), ["Ice is cold"]);
    Ok(())
}

async fn what_does_not_come_into_question_takes_nobodys_place(stage: Stage) -> CaseResult {
    let records = with(stage.records("a"), &Subjects::new("m"));
    for number in 0..120 {
        know(&records, "r", "bob", &format!("Bob drinks beverage number {number}"), number).await;
    }
    know(&records, "r", "ana", "Ana has tea at work", 1).await;
    records.upkeep().await?;
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
    records.upkeep().await?;
    for query in [FactQuery::new("kitten"), FactQuery::new("pet"), FactQuery::new("pet").about(entity("bob"))] {
        let found = recall(&records, &audience("dm-ana", "ana"), &query).await;
        assert!(texts(&found).iter().all(|text| text.starts_with("Ana")), "{query:?}");
    }
    let found = recall(&records, &audience("dm-bob", "bob"), &FactQuery::new("pet")).await;
    assert_eq!(texts(&found), ["Bob has a secret kitten"]);
    Ok(())
}

async fn rooms_are_compared_by_meaning(stage: Stage) -> CaseResult {
    let records = with(stage.records("a"), &Subjects::new("m"));
    for of_room in ["dm-ana", "dm-too"] {
        direct(&records, of_room, &["ana"]).await;
    }
    for text in ["Ana needs a job", "Soup is hot", "It is Friday"] {
        know(&records, "dm-ana", "ana", text, 1).await;
    }
    for text in ["Ana has tea", "One more beverage"] {
        know(&records, "dm-too", "ana", text, 2).await;
    }
    records.upkeep().await?;
    let found = recall(&records, &audience("dm-ana", "ana"), &FactQuery::new("drink").limit(2)).await;
    assert_eq!(
        texts(&found).into_iter().collect::<BTreeSet<_>>(),
        BTreeSet::from(["Ana has tea", "One more beverage"])
    );
    Ok(())
}

async fn facts_wait_for_their_vectors_and_are_found_by_their_words(stage: Stage) -> CaseResult {
    let embedder = Subjects::new("m");
    let records = stage.records("a");
    for text in ["Ana likes tea", "Ana has a cat", "Ana needs a job"] {
        know(&records, "r", "ana", text, 1).await;
    }
    drop(records);
    let restarted = with(stage.records_elsewhere("a"), &embedder);
    assert_eq!(texts(&recall(&restarted, &audience("r", "ana"), &FactQuery::new("tea")).await)[0], "Ana likes tea");
    restarted.upkeep().await?;
    let found = recall(&restarted, &audience("r", "ana"), &FactQuery::new("beverage").threshold(0.5)).await;
    assert_eq!((texts(&found), found.unembedded), (vec!["Ana likes tea"], 0));
    Ok(())
}

async fn an_embedder_that_fails_leaves_the_words(stage: Stage) -> CaseResult {
    let embedder = Subjects::new("m");
    let records = with(stage.records("a"), &embedder);
    embedder.is_down.store(true, Ordering::SeqCst);
    for text in ["Ana likes tea", "Ana has a cat"] {
        know(&records, "r", "ana", text, 1).await;
    }
    let found = recall(&records, &audience("r", "ana"), &FactQuery::new("tea")).await;
    assert_eq!((texts(&found), found.unembedded), (vec!["Ana likes tea"], 2));
    assert_eq!(found.facts[0].similarity, None);
    embedder.is_down.store(false, Ordering::SeqCst);
    records.upkeep().await?;
    let found = recall(&records, &audience("r", "ana"), &FactQuery::new("beverage").limit(1)).await;
    assert_eq!((texts(&found), found.unembedded), (vec!["Ana likes tea"], 0));
    Ok(())
}

async fn words_answer_for_another_model(stage: Stage) -> CaseResult {
    knowing(&stage, &["Ana likes tea"]).await;
    let records = with(stage.records("a"), &Subjects::new("n"));
    assert!(recall(&records, &audience("r", "ana"), &FactQuery::new("beverage")).await.facts.is_empty());
    let found = recall(&records, &audience("r", "ana"), &FactQuery::new("tea")).await;
    assert_eq!((texts(&found), found.unembedded), (vec!["Ana likes tea"], 1));
    assert_eq!(records.upkeep().await.expect_err("another model").kind(), ErrorKind::SchemaMismatch);
    Ok(())
}

async fn what_is_removed_stays_removed(stage: Stage) -> CaseResult {
    let records = knowing(&stage, &["Ana likes tea", "Ana has a cat"]).await;
    let of_ana = audience("r", "ana");
    let tea = records.facts().find(&of_ana, "Ana likes tea").await?.expect("a fact");
    records.facts().remove(&tea).await?;
    records.upkeep().await?;
    let found = recall(&records, &of_ana, &FactQuery::new("tea cat pet")).await;
    assert_eq!((texts(&found), found.unembedded), (vec!["Ana has a cat"], 0));
    know(&records, "r", "ana", "Ana likes tea", 1).await;
    records.upkeep().await?;
    let found = recall(&records, &of_ana, &FactQuery::new("beverage").threshold(0.5)).await;
    assert_eq!((texts(&found), found.unembedded), (vec!["Ana likes tea"], 0));
    Ok(())
}

async fn without_an_embedder_there_is_nothing_to_make(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    know(&records, "r", "ana", "Ana likes tea", 1).await;
    assert_eq!(records.upkeep().await?, 0);
    let found = recall(&records, &audience("r", "ana"), &FactQuery::new("tea")).await;
    assert_eq!((found.facts.len(), found.unembedded), (1, 1));
    assert!(recall(&records, &audience("r", "ana"), &FactQuery::new("beverage")).await.facts.is_empty());
    let records = with(records, &Subjects::new("m"));
    records.upkeep().await?;
    assert_eq!(recall(&records, &audience("r", "ana"), &FactQuery::new("beverage")).await.unembedded, 0);
    Ok(())
}

async fn what_older_programs_have_kept_is_no_fact(stage: Stage) -> CaseResult {
    let records = knowing(&stage, &["Ana likes tea"]).await;
    let vectors = stage.keep_old_vectors(&records.room_space(&room("r"))?).await?;
    records.upkeep().await?;
    let of_ana = audience("r", "ana");
    assert_eq!(records.facts().newest(&of_ana, 9).await?.len(), 1);
    let found = recall(&records, &of_ana, &FactQuery::new("beverage")).await;
    assert_eq!((texts(&found), found.unembedded), (vec!["Ana likes tea"], 0));
    let embedded = stage.provider().vectors(&vectors).await?;
    assert_eq!(embedded, [None], "nor is it embedded");
    let RecordId::Document { collection, .. } = &vectors[0] else { panic!("a document") };
    let left = DocumentQuery::builder(collection.clone()).all().build()?;
    assert_eq!(stage.provider().documents().query(&left).await?.documents.len(), 1, "it stays");
    Ok(())
}

async fn an_earlier_message_is_found_by_its_meaning(stage: Stage) -> CaseResult {
    let records = with(stage.records("a"), &Subjects::new("m"));
    for (number, text) in ["I had some tea", "Look at the kitten", "It is Friday"].into_iter().enumerate() {
        records.messages().add(said("r", "ana", text, number as i64)).await?;
    }
    let asked = records.messages().add(said("r", "ana", "beverage", 9)).await?;
    records.upkeep().await?;
    let earlier = records.messages().earlier(&asked, at(9), 1).await?;
    assert_eq!(earlier.iter().map(|one| one.content.text.as_str()).collect::<Vec<_>>(), ["I had some tea"]);
    Ok(())
}
