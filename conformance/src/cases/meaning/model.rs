//! The vector model of a namespace (M1).

use std::sync::Arc;

use memory_core::{Embedder, Embedding, ErrorKind, MAX_WIDTH, Outcome, Precision, Revision, Vector, VectorModel};

use super::{answer, embed, have, like, model_of, notes_like, vector_of, written};
use crate::case::{CaseResult, Stage, chapter};
use crate::cases::recall::{asked, asked_notes, said};
use crate::embedder::WordModel;
use crate::fixture::{kind, note, put};

chapter!("meaning":
    vectors_are_kept_or_that_is_refused_plainly ["M1"],
    a_namespace_has_no_model_at_first ["M1", "M2"] needs Vectors,
    a_model_is_seen_by_each_call_from_then_on ["M1"] needs Vectors,
    vectors_of_another_model_count_no_more ["M1", "M3"] needs Vectors,
    a_model_of_another_width_is_another_one ["M1", "M2"] needs Vectors,
    how_vectors_are_kept_may_change ["M1", "M2"] needs Vectors,
    the_widest_vector_is_kept ["M1", "M2"] needs Vectors,
);

/// An engine keeps vectors, or answers `Unsupported`.
async fn vectors_are_kept_or_that_is_refused_plainly(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = provider.store(said("a", 0, "a zebra")).await?;
    put(&*provider, written("n", "a", "a zebra")).await?;
    let (words, records) = (Arc::new(WordModel::new("words")), [id.into(), note("n")]);
    let model = words.kept(Precision::Compact);
    assert_eq!(provider.vector_model().await?, None);
    assert_eq!(provider.vectors(&records).await?, [None, None]);
    let embedding =
        |record| Embedding { record, revision: Revision::FIRST, vector: words.vector("a zebra"), texts: None };
    let embedder = || Arc::clone(&words) as Arc<dyn Embedder>;
    let notes = || asked_notes("zebra", |query| query.all());
    let calls = [
        provider.set_vector_model(&model).await,
        provider.embed(&model, records.clone().map(embedding).to_vec()).await.map(drop),
        provider.recall(&like(&words, "zebra")).await.map(drop),
        provider.recall(&asked("zebra", |query| query.all()).by_meaning(embedder())).await.map(drop),
        provider.documents().recall(&notes_like(&words, "zebra")).await.map(drop),
        provider.documents().recall(&notes().by_meaning(embedder())).await.map(drop),
    ];
    if stage.harness().keeps_vectors() {
        assert_eq!(have(&*provider, &records).await?, [true, true]);
        return calls.into_iter().collect::<Result<_, _>>().map_err(Into::into);
    }
    for (number, call) in calls.into_iter().enumerate() {
        let refused = call.err().ok_or("a call succeeds although the engine keeps no vectors")?;
        assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Unsupported, Outcome::NotDone), "{number}");
    }
    assert_eq!(provider.vector_model().await?, None);
    assert_eq!(provider.vectors(&records).await?, [None, None]);
    // Words still answer.
    let recalled = provider.recall(&asked("zebra", |query| query.all())).await?;
    assert_eq!((recalled.hits.len(), recalled.unembedded), (1, None));
    Ok(())
}

async fn a_namespace_has_no_model_at_first(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = provider.store(said("a", 0, "a zebra")).await?;
    let words = Arc::new(WordModel::new("words"));
    assert_eq!(provider.vector_model().await?, None);
    let embedding =
        Embedding { record: id.into(), revision: Revision::FIRST, vector: words.vector("a zebra"), texts: None };
    let refused = provider.embed(&words.kept(Precision::Compact), vec![embedding]).await.expect_err("no model");
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::SchemaMismatch, Outcome::NotDone));
    assert_eq!(provider.vector_model().await?, None);
    assert_eq!(kind(provider.recall(&like(&words, "zebra")).await), Some(ErrorKind::SchemaMismatch));
    // No record has a vector, and words still find.
    let embedder = Arc::clone(&words) as Arc<dyn Embedder>;
    let recall = asked("zebra", |query| query.all()).by_meaning(embedder);
    assert_eq!(answer(&*provider, &recall).await?, (vec!["a zebra".to_owned()], Some(1)));
    Ok(())
}

/// A model is seen by handles that were open before and by later ones, and in no other namespace.
async fn a_model_is_seen_by_each_call_from_then_on(stage: Stage) -> CaseResult {
    let (operator, before) = (stage.open().await?, stage.open().await?);
    let id = before.store(said("a", 0, "a zebra")).await?;
    assert_eq!(before.vector_model().await?, None);
    let name = "é \"quoted\" / 模型";
    let first = VectorModel::new(name, 32, Precision::Exact)?;
    operator.set_vector_model(&first).await?;
    assert_eq!(before.vector_model().await?, Some(first.clone()));
    let vector = WordModel::new("words").vector("a zebra");
    embed(&*before, &first, &id.into(), &vector).await?;
    // Setting the same model again changes nothing.
    before.set_vector_model(&first).await?;
    assert_eq!(vector_of(&*operator, &id.into()).await?, Some((Revision::FIRST, vector)));
    operator.shutdown().await?;
    before.shutdown().await?;
    let after = stage.open().await?;
    assert_eq!(after.vector_model().await?, Some(first));
    let second = VectorModel::new("second", 1, Precision::Compact)?;
    after.set_vector_model(&second).await?;
    assert_eq!(stage.open().await?.vector_model().await?, Some(second));
    assert_eq!(stage.elsewhere().open().await?.vector_model().await?, None);
    Ok(())
}

/// While the namespace has another model, the vectors of the first one count as absent.
async fn vectors_of_another_model_count_no_more(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.open().await?);
    let (words, first) = model_of(&*provider).await?;
    let id = provider.store(said("a", 0, "a zebra")).await?;
    put(&*provider, written("n", "a", "a zebra")).await?;
    let records = [id.into(), note("n")];
    for record in &records {
        embed(&*provider, &first, record, &words.vector("a zebra")).await?;
    }
    let (kept, found) = (provider.vectors(&records).await?, provider.recall(&like(&words, "zebra")).await?);
    assert!(kept.iter().all(Option::is_some) && found.hits.len() == 1 && found.unembedded == Some(0), "{found:?}");
    let second = WordModel::new("others").kept(Precision::Compact);
    other.set_vector_model(&second).await?;
    for handle in [&provider, &other, &stage.open().await?] {
        assert_eq!(handle.vectors(&records).await?, [None, None]);
        assert_eq!(answer(&**handle, &like(&words, "zebra")).await?, (vec![], Some(1)));
        let notes = handle.documents().recall(&notes_like(&words, "zebra")).await?;
        assert_eq!((notes.hits.len(), notes.unembedded), (0, Some(1)));
        let revision = Revision::FIRST;
        let late = Embedding { record: id.into(), revision, vector: words.vector("a zebra"), texts: None };
        let refused = handle.embed(&first, vec![late]).await.expect_err("the model of before");
        assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::SchemaMismatch, Outcome::NotDone));
    }
    provider.set_vector_model(&first).await?;
    for handle in [&provider, &other] {
        assert_eq!(handle.vectors(&records).await?, kept);
        assert_eq!(handle.recall(&like(&words, "zebra")).await?, found);
    }
    Ok(())
}

/// A model of the same name and another width is another model, and a vector of another width is refused.
async fn a_model_of_another_width_is_another_one(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let (words, first) = model_of(&*provider).await?;
    let id = provider.store(said("a", 0, "a zebra")).await?;
    embed(&*provider, &first, &id.into(), &words.vector("a zebra")).await?;
    let wide = WordModel::with_width("words", 33);
    let second = wide.kept(Precision::Compact);
    provider.set_vector_model(&second).await?;
    assert_eq!(have(&*provider, &[id.into()]).await?, [false]);
    for (recall, expected) in [(like(&words, "zebra"), Some(ErrorKind::InvalidInput)), (like(&wide, "zebra"), None)] {
        assert_eq!(kind(provider.recall(&recall).await), expected);
    }
    embed(&*provider, &second, &id.into(), &wide.vector("a zebra")).await?;
    assert_eq!(answer(&*provider, &like(&wide, "zebra")).await?, (vec!["a zebra".to_owned()], Some(0)));
    Ok(())
}

/// After a change of the precision, existing vectors keep theirs, and a recall finds them beside new ones.
async fn how_vectors_are_kept_may_change(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let (words, compact) = model_of(&*provider).await?;
    let mut ids = Vec::new();
    for (number, text) in ["a zebra", "two zebras"].into_iter().enumerate() {
        ids.push(provider.store(said(&format!("a{number}-1"), 0, text)).await?);
    }
    embed(&*provider, &compact, &ids[0].into(), &words.vector("a zebra")).await?;
    let exact = words.kept(Precision::Exact);
    provider.set_vector_model(&exact).await?;
    // The precision that the caller names does not matter.
    embed(&*provider, &compact, &ids[1].into(), &words.vector("two zebras")).await?;
    let vectors = [words.vector("a zebra").kept(Precision::Compact), words.vector("two zebras")];
    for (id, vector) in ids.iter().zip(vectors) {
        assert_eq!(vector_of(&*provider, &(*id).into()).await?, Some((Revision::FIRST, vector)));
    }
    let (found, unembedded) = answer(&*provider, &like(&words, "two zebras")).await?;
    assert_eq!((found, unembedded), (vec!["two zebras".to_owned(), "a zebra".to_owned()], Some(0)));
    Ok(())
}

async fn the_widest_vector_is_kept(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let wide = WordModel::with_width("wide", MAX_WIDTH);
    let id = provider.store(said("a", 0, "a zebra")).await?;
    for precision in [Precision::Compact, Precision::Exact] {
        provider.set_vector_model(&wide.kept(precision)).await?;
        embed(&*provider, &wide.kept(precision), &id.into(), &wide.vector("a zebra")).await?;
        let expected = wide.vector("a zebra").kept(precision);
        assert_eq!(vector_of(&*provider, &id.into()).await?, Some((Revision::FIRST, expected)));
        assert_eq!(answer(&*provider, &like(&wide, "zebra")).await?, (vec!["a zebra".to_owned()], Some(0)));
    }
    let narrow = VectorModel::new("narrow", 1, Precision::Compact)?;
    provider.set_vector_model(&narrow).await?;
    embed(&*provider, &narrow, &id.into(), &Vector::new(&[-2.0])?).await?;
    let expected = Vector::new(&[-1.0])?.kept(Precision::Compact);
    assert_eq!(vector_of(&*provider, &id.into()).await?, Some((Revision::FIRST, expected)));
    for (name, width) in [("", 1), (" ", 1), ("a\nb", 1), ("a", 0), ("a", MAX_WIDTH + 1)] {
        assert_eq!(kind(VectorModel::new(name, width, Precision::Compact)), Some(ErrorKind::InvalidInput));
    }
    Ok(())
}
