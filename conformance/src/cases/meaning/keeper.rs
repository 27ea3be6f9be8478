//! The keeper, which embeds records after they were stored (M5).

use std::sync::Arc;

use memory_core::{
    Clock, Embedder, ErrorKind, ManualClock, MemoryId, MemoryPatch, MemoryProvider, Precision, RecordId, Result,
    Revision, VectorKeeper,
};
use tokio::time::timeout;

use super::{PATIENCE, answer, embed, have, vector_of, written};
use crate::case::{CaseResult, Stage, chapter};
use crate::cases::recall::{asked, said};
use crate::embedder::{Manner, WordModel};
use crate::fixture::{at, context, kind, note, put, remove_note};

chapter!("meaning":
    a_keeper_embeds_what_is_there_and_what_comes ["M5"] needs VectorsAndFeed,
    a_keeper_goes_on_where_it_was ["M5"] needs VectorsAndFeed,
    a_text_that_changes_meanwhile_is_embedded_anew ["M5", "M2"] needs VectorsAndFeed,
    a_vector_that_is_given_meanwhile_stays ["M5", "M2"] needs VectorsAndFeed,
    a_model_that_fails_loses_nothing ["M5"] needs VectorsAndFeed,
    a_model_that_is_not_what_it_says_refuses_nothing ["M5"] needs VectorsAndFeed,
    what_a_model_refuses_holds_up_no_other ["M5"] needs VectorsAndFeed,
    another_model_is_taken_over ["M5", "M1"] needs VectorsAndFeed,
    what_another_model_has_replaced_is_embedded_anew ["M5", "M1"] needs VectorsAndFeed,
    a_keeper_begins_anew_where_the_feed_was_cut ["M5", "C6"] needs LostChanges,
);

/// Two hours, in milliseconds. A text that was refused once is tried again after one hour.
const LATER: i64 = 2 * 60 * 60 * 1_000;
/// More texts than the keeper gives the model in one call.
const MANY: i64 = 150;

fn keeper(provider: &Arc<dyn MemoryProvider>, words: &Arc<WordModel>) -> VectorKeeper {
    VectorKeeper::new(Arc::clone(provider), Arc::clone(words) as Arc<dyn Embedder>)
}

fn model() -> Arc<WordModel> {
    Arc::new(WordModel::new("words"))
}

/// Checks that a record has the vector of this text, at this revision.
async fn means(
    provider: &dyn MemoryProvider,
    words: &WordModel,
    record: &RecordId,
    revision: u64,
    text: &str,
) -> CaseResult {
    let expected = (Revision::new(revision)?, words.vector(text).kept(Precision::Compact));
    assert_eq!(vector_of(provider, record).await?, Some(expected), "{text:?}");
    Ok(())
}

/// How many memories have no vector, as a recall reports.
async fn missing(provider: &dyn MemoryProvider, words: &Arc<WordModel>) -> Result<Option<usize>> {
    let recall = asked("nothing else", |query| query.all()).by_meaning(Arc::clone(words) as Arc<dyn Embedder>);
    Ok(answer(provider, &recall).await?.1)
}

/// The keeper embeds the memories and documents that exist when it starts, and those that come later.
async fn a_keeper_embeds_what_is_there_and_what_comes(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.open().await?);
    let words = model();
    let before = provider.store(said("a", 0, "a zebra").with_context(context(r#"{"seen":["twice","here"]}"#))).await?;
    put(&*provider, written("before", "a", "two horses")).await?;
    let kept = keeper(&provider, &words).catch_up().await?;
    assert_eq!((kept.embedded, kept.refused), (2, 0));
    let set = provider.vector_model().await?.ok_or("the first to embed sets the model")?;
    assert!(set.is_same(&words.kept(Precision::Compact)));
    means(&*other, &words, &before.into(), 1, "a zebra twice here").await?;
    means(&*other, &words, &note("before"), 1, "two horses").await?;
    let behind = other.store(said("b", 1, "stripes")).await?;
    other.update(before, MemoryPatch::new().clear_context()).await?;
    put(&*other, written("before", "b", "three horses")).await?;
    put(&*other, written("behind", "b", "a cat")).await?;
    put(&*other, written("gone", "b", "a dog")).await?;
    remove_note(&*other, "gone").await?;
    assert_eq!(missing(&*provider, &words).await?, Some(2));
    keeper(&provider, &words).catch_up().await?;
    for (record, revision, text) in [
        (before.into(), 2, "a zebra"),
        (behind.into(), 1, "stripes"),
        (note("before"), 2, "three horses"),
        (note("behind"), 1, "a cat"),
    ] {
        means(&*other, &words, &record, revision, text).await?;
    }
    assert_eq!(have(&*other, &[note("gone")]).await?, [false]);
    assert_eq!(missing(&*provider, &words).await?, Some(0));
    Ok(())
}

/// The keeper, even another one after a restart, does not embed a record with a vector again.
async fn a_keeper_goes_on_where_it_was(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let words = model();
    let memories = (0..MANY).map(|number| said(&format!("a{number}-0"), number, &format!("zebra {number}")));
    let ids: Vec<_> = provider.store_many(memories.collect()).await?.into_iter().map(RecordId::from).collect();
    assert_eq!(keeper(&provider, &words).catch_up().await?.embedded, MANY as usize);
    assert_eq!(have(&*provider, &ids).await?, vec![true; MANY as usize]);
    let mut asked = words.take_asked();
    asked.sort();
    asked.dedup();
    assert_eq!(asked.len(), MANY as usize, "each text once");
    assert_eq!(keeper(&provider, &words).catch_up().await?.embedded, 0);
    provider.shutdown().await?;
    let provider = stage.open().await?;
    assert_eq!(keeper(&provider, &words).catch_up().await?.embedded, 0);
    assert_eq!(words.take_asked(), [""; 0]);
    // After a change that leaves the texts as they are, nothing is embedded; after a store, only its text.
    let RecordId::Memory(id) = ids[0] else { return Err("a memory".into()) };
    provider.update(id, MemoryPatch::new().with_status(memory_core::Status::Failed)).await?;
    provider.store(said("b", 0, "a horse")).await?;
    assert_eq!(keeper(&provider, &words).catch_up().await?.embedded, 1);
    assert_eq!(words.take_asked(), ["a horse"]);
    Ok(())
}

/// No vector of an earlier text is kept beside a text that has changed meanwhile.
async fn a_text_that_changes_meanwhile_is_embedded_anew(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.open().await?);
    let words = model();
    let id = provider.store(said("a", 0, "a zebra")).await?;
    put(&*provider, written("n", "a", "a zebra")).await?;
    put(&*provider, written("gone", "a", "a zebra")).await?;
    words.answers(Manner::Hangs);
    let first = keeper(&provider, &words);
    let keeping = tokio::spawn(async move { first.catch_up().await });
    timeout(PATIENCE, words.called()).await?;
    other.update(id, MemoryPatch::new().set_context(context(r#""and a horse""#))).await?;
    put(&*other, written("n", "a", "a horse")).await?;
    remove_note(&*other, "gone").await?;
    words.release();
    keeping.await??;
    let old = words.vector("a zebra").kept(Precision::Compact);
    for record in [id.into(), note("n"), note("gone")] {
        let vector = vector_of(&*other, &record).await?;
        assert!(vector.is_none_or(|(_, vector)| vector != old), "{record:?} has the vector of its old text");
    }
    keeper(&other, &words).catch_up().await?;
    means(&*provider, &words, &id.into(), 2, "a zebra and a horse").await?;
    means(&*provider, &words, &note("n"), 2, "a horse").await?;
    assert_eq!(have(&*provider, &[note("gone")]).await?, [false]);
    Ok(())
}

/// While the model embeds three records for the keeper, a caller embeds two of them. The caller's vectors stay, and the keeper adds only
/// the third.
async fn a_vector_that_is_given_meanwhile_stays(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.open().await?);
    let words = model();
    let own = words.kept(Precision::Compact);
    provider.set_vector_model(&own).await?;
    let id = provider.store(said("a", 0, "a zebra")).await?;
    put(&*provider, written("n", "a", "a zebra")).await?;
    let last = provider.store(said("a", 1, "a zebra")).await?;
    words.answers(Manner::Hangs);
    let first = keeper(&provider, &words);
    let keeping = tokio::spawn(async move { first.catch_up().await });
    timeout(PATIENCE, words.called()).await?;
    for record in [id.into(), note("n")] {
        embed(&*other, &own, &record, &words.vector("a horse")).await?;
    }
    words.release();
    assert_eq!(keeping.await??.embedded, 1);
    for record in [id.into(), note("n")] {
        means(&*other, &words, &record, 1, "a horse").await?;
    }
    means(&*other, &words, &last.into(), 1, "a zebra").await
}

/// Stores do not wait for the model, and records that were stored meanwhile are embedded once it works again.
async fn a_model_that_fails_loses_nothing(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let words = model();
    words.answers(Manner::Fails);
    let mut ids: Vec<MemoryId> = Vec::new();
    for round in 0..3 {
        for number in 0..40 {
            ids.push(provider.store(said("a", round * 40 + number, &format!("zebra {round} {number}"))).await?);
        }
        put(&*provider, written(&format!("n{round}"), "a", "a zebra")).await?;
        assert_eq!(kind(keeper(&provider, &words).catch_up().await), Some(ErrorKind::Unavailable));
    }
    words.answers(Manner::Soundly);
    assert_eq!(keeper(&provider, &words).catch_up().await?.embedded, ids.len() + 3);
    let names: Vec<_> = ids.into_iter().map(RecordId::from).chain(["n0", "n1", "n2"].map(note)).collect();
    assert_eq!(have(&*provider, &names).await?, vec![true; names.len()]);
    Ok(())
}

/// A model with unusable answers (a wrong number of vectors, a wrong width or wrong numbers) counts as failing, and not as refusing texts:
/// they are embedded as soon as it works.
async fn a_model_that_is_not_what_it_says_refuses_nothing(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let words = model();
    let id = provider.store(said("a", 0, "a zebra")).await?;
    provider.store(said("a", 1, "a horse")).await?;
    for manner in [Manner::OneTooFew, Manner::OneTooMany, Manner::TooWide, Manner::NotFinite, Manner::Zeros] {
        words.answers(manner);
        assert_eq!(kind(keeper(&provider, &words).catch_up().await), Some(ErrorKind::Unexpected), "{manner:?}");
    }
    words.answers(Manner::Soundly);
    let kept = keeper(&provider, &words).catch_up().await?;
    assert_eq!((kept.embedded, kept.refused), (2, 0));
    means(&*provider, &words, &id.into(), 1, "a zebra").await
}

/// A refused text is tried again later, and a recall counts it as missing until then.
async fn what_a_model_refuses_holds_up_no_other(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let words = model();
    words.answers(Manner::Refuses("horse"));
    let mut ids = Vec::new();
    for (number, text) in ["a zebra", "a horse", "stripes", "two horses", "a cat"].into_iter().enumerate() {
        ids.push(RecordId::from(provider.store(said("a", number as i64, text)).await?));
    }
    put(&*provider, written("n", "a", "a horse")).await?;
    put(&*provider, written("m", "a", "a zebra")).await?;
    let clock = Arc::new(ManualClock::new(at(1_000_000)));
    let keeper = keeper(&provider, &words).clock(Arc::<ManualClock>::clone(&clock) as Arc<dyn Clock>);
    let kept = keeper.catch_up().await?;
    assert_eq!((kept.embedded, kept.refused), (4, 3));
    let all: Vec<_> = ids.into_iter().chain([note("n"), note("m")]).collect();
    assert_eq!(have(&*provider, &all).await?, [true, false, true, false, true, false, true]);
    assert_eq!(missing(&*provider, &words).await?, Some(2));
    provider.store(said("a", 9, "a dog")).await?;
    assert_eq!(keeper.catch_up().await?.embedded, 1);
    words.answers(Manner::Soundly);
    clock.set(at(1_000_000 + LATER));
    assert_eq!(keeper.catch_up().await?.embedded, 3);
    assert_eq!(have(&*provider, &all).await?, [true; 7]);
    assert_eq!(missing(&*provider, &words).await?, Some(0));
    Ok(())
}

/// Another model takes over only on request, one vector after the other.
async fn another_model_is_taken_over(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.open().await?);
    let (first, second) = (model(), Arc::new(WordModel::with_width("others", 16)));
    let memories = (0..MANY).map(|number| said(&format!("a{number}-0"), number, &format!("zebra {number}")));
    let ids: Vec<_> = provider.store_many(memories.collect()).await?.into_iter().map(RecordId::from).collect();
    put(&*provider, written("n", "a", "a zebra")).await?;
    keeper(&provider, &first).catch_up().await?;
    assert_eq!(kind(keeper(&provider, &second).catch_up().await), Some(ErrorKind::SchemaMismatch));
    assert_eq!(missing(&*provider, &first).await?, Some(0));
    assert!(second.take_asked().is_empty());
    second.answers(Manner::Refuses("7"));
    let taking = || keeper(&other, &second).taking_over().precision(Precision::Exact);
    let refused = (0..MANY).filter(|number| number.to_string().contains('7')).count();
    let kept = taking().catch_up().await?;
    assert_eq!((kept.embedded, kept.refused), (ids.len() + 1 - refused, refused));
    assert_eq!(provider.vector_model().await?, Some(second.kept(Precision::Exact)));
    assert_eq!(missing(&*provider, &second).await?, Some(refused));
    assert_eq!(kind(keeper(&provider, &first).catch_up().await), Some(ErrorKind::SchemaMismatch));
    second.answers(Manner::Soundly);
    let clock = Arc::new(ManualClock::new(memory_core::SystemClock.now()));
    clock.set(at(clock.now().as_millis() + LATER));
    taking().clock(clock as Arc<dyn Clock>).catch_up().await?;
    assert_eq!(missing(&*provider, &second).await?, Some(0));
    let expected = (Revision::FIRST, second.vector("zebra 3"));
    assert_eq!(vector_of(&*provider, &ids[3]).await?, Some(expected));
    Ok(())
}

/// A caller sets another model, replaces the vectors of two records, and sets the first model again. The keeper embeds the two again,
/// although no watch reports that their vectors were replaced.
async fn what_another_model_has_replaced_is_embedded_anew(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let (first, second) = (model(), WordModel::new("others"));
    let id = provider.store(said("a", 0, "a zebra")).await?;
    put(&*provider, written("n", "a", "a zebra")).await?;
    provider.store(said("a", 1, "a horse")).await?;
    keeper(&provider, &first).catch_up().await?;
    let (own, others) = (first.kept(Precision::Compact), second.kept(Precision::Compact));
    provider.set_vector_model(&others).await?;
    for record in [id.into(), note("n")] {
        embed(&*provider, &others, &record, &second.vector("a zebra")).await?;
    }
    provider.set_vector_model(&own).await?;
    assert_eq!(have(&*provider, &[id.into(), note("n")]).await?, [false; 2]);
    assert_eq!(keeper(&provider, &first).catch_up().await?.embedded, 2);
    for record in [id.into(), note("n")] {
        means(&*provider, &first, &record, 1, "a zebra").await?;
    }
    Ok(())
}

/// After a reset of the feed the keeper looks at every record, and embeds only those without a vector.
async fn a_keeper_begins_anew_where_the_feed_was_cut(stage: Stage) -> CaseResult {
    if !stage.harness().keeps_vectors() {
        return Ok(());
    }
    let provider = stage.open().await?;
    let words = model();
    let early = provider.store(said("a", 0, "a zebra")).await?;
    keeper(&provider, &words).catch_up().await?;
    let lost = provider.store(said("a", 1, "a horse")).await?;
    put(&*provider, written("lost", "a", "a cat")).await?;
    provider.store(said("a", 2, "stripes")).await?;
    words.take_asked();
    stage.harness().drop_changes(stage.namespace()).await?;
    assert_eq!(keeper(&provider, &words).catch_up().await?.embedded, 3);
    assert_eq!(have(&*provider, &[early.into(), lost.into(), note("lost")]).await?, [true; 3]);
    let mut asked = words.take_asked();
    asked.sort();
    assert_eq!(asked, ["a cat", "a horse", "stripes"]);
    Ok(())
}
