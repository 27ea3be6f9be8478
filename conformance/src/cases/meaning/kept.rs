//! What `embed` keeps, and what it leaves unchanged (M2).

use futures::StreamExt as _;
use memory_core::{
    ChangeKind, Collections, Document, Embedding, Error, ErrorKind, History, MAX_VECTORS, MemoryId, MemoryPatch,
    MemoryQuery, Outcome, Precision, Record, RecordId, Revision, Status, Vector, VectorModel, Watch, WatchFrom,
    Watched,
};
use tokio::time::timeout;

use super::{PATIENCE, answer, embed, have, like, model_of, vector_of, written};
use crate::case::{CaseResult, Stage, chapter};
use crate::cases::recall::said;
use crate::embedder::WordModel;
use crate::fixture::{NOTES, at, context, kind, ledger, note, put, remove_note, the, walk_documents};
use crate::random::Random;

chapter!("meaning":
    vectors_come_back_bit_by_bit ["M2"] needs Vectors,
    a_later_vector_takes_the_place_of_an_earlier ["M2"] needs Vectors,
    a_document_that_came_again_takes_no_vector_of_its_earlier_text ["M2"] needs Vectors,
    only_vectors_of_the_present_revision_are_kept ["M2"] needs Vectors,
    an_update_beside_leaves_no_old_vector ["M2"] needs Vectors,
    what_cant_be_kept_is_refused_before ["M2"] needs Vectors,
    a_thousand_vectors_are_kept_at_once ["M2"] needs Vectors,
    a_vector_is_no_change_of_its_record ["M2"] needs Vectors,
    no_watch_tells_of_a_vector ["M2", "C1"] needs VectorsAndFeed,
    a_read_only_namespace_keeps_no_new_vector ["M2", "L9"] needs Vectors,
    a_closed_handle_keeps_no_vector ["M2", "L2"] needs Vectors,
);

/// How many records get a vector.
const RECORDS: usize = 40;
/// How often an update races with a vector.
const ROUNDS: i64 = 20;

/// `vectors` returns the vectors of memories and documents in the order in which it names them, bit by bit, also through a handle that was
/// open before, and through one that is opened later.
async fn vectors_come_back_bit_by_bit(stage: Stage) -> CaseResult {
    for precision in [Precision::Compact, Precision::Exact] {
        let stage = stage.elsewhere();
        let (provider, other) = (stage.open().await?, stage.open().await?);
        let model = VectorModel::new("random", 17, precision)?;
        provider.set_vector_model(&model).await?;
        let mut random = Random::new(stage.settings().seed);
        let mut embeddings = Vec::new();
        for number in 0..RECORDS {
            let record = match number % 2 {
                0 => provider.store(said("a", number as i64, "a zebra")).await?.into(),
                _ => {
                    put(&*provider, written(&number.to_string(), "a", "a zebra")).await?;
                    note(&number.to_string())
                }
            };
            let numbers: Vec<_> = (0..17).map(|_| random.below(200_001) as f32 / 7.0 - 14_285.0).collect();
            embeddings.push(Embedding {
                record,
                revision: Revision::FIRST,
                vector: Vector::new(&numbers)?,
                texts: None,
            });
        }
        assert_eq!(provider.embed(&model, embeddings.clone()).await?, [true; RECORDS]);
        let mut expected: Vec<_> = embeddings
            .into_iter()
            .map(|embedding| Some(Embedding { vector: embedding.vector.kept(precision), ..embedding }))
            .collect();
        let shown = |found: Vec<Option<Embedding>>| -> Vec<_> {
            found.into_iter().map(|one| one.map(|one| Embedding { texts: None, ..one })).collect()
        };
        let mut names: Vec<_> = expected.iter().flatten().map(|embedding| embedding.record.clone()).collect();
        names.reverse();
        expected.reverse();
        // Names of records that don't exist, and one name again.
        names.extend([MemoryId::generate().into(), note("none"), names[0].clone()]);
        expected.extend([None, None, expected[0].clone()]);
        for handle in [&provider, &other, &stage.open().await?] {
            assert_eq!(shown(handle.vectors(&names).await?), expected, "{precision:?}");
        }
        assert_eq!(provider.vectors(&[]).await?, []);
        assert_eq!(provider.embed(&model, vec![]).await?, [false; 0]);
        // Stored bytes can be embedded again as they are.
        let again: Vec<_> = provider.vectors(&names[..RECORDS]).await?.into_iter().flatten().collect();
        assert!(again.len() == RECORDS && again.iter().all(|embedding| embedding.texts.is_some()));
        assert_eq!(other.embed(&model, again.clone()).await?, [true; RECORDS]);
        assert_eq!(provider.vectors(&names[..RECORDS]).await?.into_iter().flatten().collect::<Vec<_>>(), again);
    }
    Ok(())
}

async fn a_later_vector_takes_the_place_of_an_earlier(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.open().await?);
    let (words, model) = model_of(&*provider).await?;
    let id = provider.store(said("a", 0, "a zebra")).await?;
    put(&*provider, written("n", "a", "a zebra")).await?;
    for text in ["zebra", "horse", "horse", "zebra"] {
        for record in [id.into(), note("n")] {
            embed(&*provider, &model, &record, &words.vector(text)).await?;
            let expected = words.vector(text).kept(Precision::Compact);
            assert_eq!(vector_of(&*other, &record).await?, Some((Revision::FIRST, expected)));
        }
    }
    // The last vector of a record also wins within one call.
    let records = [id.into(), note("n")];
    let given = ["horse", "cat", "dog"].into_iter().flat_map(|text| {
        let embedding =
            |record| Embedding { record, revision: Revision::FIRST, vector: words.vector(text), texts: None };
        records.clone().map(embedding)
    });
    assert_eq!(provider.embed(&model, given.collect()).await?, [true; 6]);
    for record in &records {
        let expected = words.vector("dog").kept(Precision::Compact);
        assert_eq!(vector_of(&*other, record).await?, Some((Revision::FIRST, expected)));
    }
    Ok(())
}

/// The new document has the revision of the earlier one, whose vector arrives late.
async fn a_document_that_came_again_takes_no_vector_of_its_earlier_text(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.open().await?);
    let (words, model) = model_of(&*provider).await?;
    let embedding = |document: &Document, text: &str| Embedding {
        record: document.into(),
        revision: document.revision,
        texts: Some(document.into()),
        vector: words.vector(text),
    };
    let first = put(&*provider, written("n", "a", "a zebra")).await?;
    remove_note(&*other, "n").await?;
    let second = put(&*other, written("n", "a", "a horse")).await?;
    assert_eq!(first.revision, second.revision);
    let late = embedding(&first, "a zebra");
    assert_eq!(provider.embed(&model, vec![late.clone()]).await?, [false]);
    assert_eq!(vector_of(&*provider, &note("n")).await?, None);
    assert_eq!(provider.embed(&model, vec![embedding(&second, "a horse"), late]).await?, [true, false]);
    let kept = words.vector("a horse").kept(Precision::Compact);
    let expected = Embedding { vector: kept, ..embedding(&second, "a horse") };
    assert_eq!(other.vectors(&[note("n")]).await?, [Some(expected)]);
    Ok(())
}

/// Each vector is kept or not by itself: those that are not kept do not affect the others.
async fn only_vectors_of_the_present_revision_are_kept(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let (words, model) = model_of(&*provider).await?;
    let (changed, same) = (provider.store(said("a", 0, "a zebra")).await?, provider.store(said("a", 1, "one")).await?);
    for (id, text) in [("changed", "a zebra"), ("same", "one")] {
        put(&*provider, written(id, "a", text)).await?;
    }
    provider.update(changed, MemoryPatch::new().with_status(Status::Running)).await?;
    put(&*provider, written("changed", "b", "a zebra")).await?;
    let embedding = |(record, revision): (RecordId, u64)| {
        let revision = Revision::new(revision).expect("a revision");
        Embedding { record, revision, vector: words.vector("a zebra"), texts: None }
    };
    let given = [
        (changed.into(), 1),
        (same.into(), 1),
        (MemoryId::generate().into(), 1),
        (note("changed"), 1),
        (note("same"), 1),
        (note("none"), 1),
        (same.into(), 2),
        (note("same"), 7),
    ];
    let kept = provider.embed(&model, given.clone().map(embedding).to_vec()).await?;
    assert_eq!(kept, [false, true, false, false, true, false, false, false]);
    let records = given.map(|(record, _)| record);
    assert_eq!(have(&*provider, &records[..6]).await?, [false, true, false, false, true, false]);
    let now = [(changed.into(), 2), (note("changed"), 2)].map(embedding).to_vec();
    assert_eq!(provider.embed(&model, now).await?, [true, true]);
    Ok(())
}

/// Whichever comes first, no vector of the old text is left in the end.
async fn an_update_beside_leaves_no_old_vector(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.open().await?);
    let (words, model) = model_of(&*provider).await?;
    for round in 0..ROUNDS {
        let (id, name) = (provider.store(said("a", round, "a zebra")).await?, format!("n{round}"));
        put(&*provider, written(&name, "a", "a zebra")).await?;
        let embedding =
            |record| Embedding { record, revision: Revision::FIRST, vector: words.vector("a zebra"), texts: None };
        let embeddings = vec![embedding(id.into()), embedding(note(&name))];
        let (kept, updated, written) = futures::join!(
            other.embed(&model, embeddings),
            provider.update(id, MemoryPatch::new().set_context(context(r#""a horse""#))),
            put(&*provider, written(&name, "a", "a horse")),
        );
        let (_, _, _) = (kept?, updated?, written?);
        for handle in [&provider, &other] {
            assert_eq!(have(&**handle, &[id.into(), note(&name)]).await?, [false, false], "round {round}");
        }
    }
    assert_eq!(answer(&*other, &like(&words, "a zebra")).await?, (vec![], Some(ROUNDS as usize)));
    Ok(())
}

/// One invalid vector refuses the whole call, and none is kept.
async fn what_cant_be_kept_is_refused_before(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let (words, model) = model_of(&*provider).await?;
    let id = provider.store(said("a", 0, "a zebra")).await?;
    put(&*provider, written("n", "a", "a zebra")).await?;
    let vector = words.vector("a zebra");
    let embedding = |record: RecordId, vector: &Vector| Embedding {
        record,
        revision: Revision::FIRST,
        vector: vector.clone(),
        texts: None,
    };
    let (narrow, wide) = (Vector::new(&[1.0])?, Vector::new(&[1.0; 33])?);
    let others = WordModel::new("others").kept(Precision::Compact);
    let too_many = vec![embedding(id.into(), &vector); MAX_VECTORS + 1];
    for (model, embeddings, expected) in [
        (&model, vec![embedding(id.into(), &vector), embedding(note("n"), &narrow)], ErrorKind::InvalidInput),
        (&model, vec![embedding(note("n"), &wide), embedding(id.into(), &vector)], ErrorKind::InvalidInput),
        (&others, vec![embedding(id.into(), &vector)], ErrorKind::SchemaMismatch),
        (
            &VectorModel::new("words", 33, Precision::Compact)?,
            vec![embedding(id.into(), &wide)],
            ErrorKind::SchemaMismatch,
        ),
        (&model, too_many, ErrorKind::TooLarge),
    ] {
        let refused = provider.embed(model, embeddings).await.expect_err("it can't be kept");
        assert_eq!((refused.kind(), refused.outcome()), (expected, Outcome::NotDone));
        assert_eq!(have(&*provider, &[id.into(), note("n")]).await?, [false, false]);
    }
    assert_eq!(kind(provider.vectors(&vec![id.into(); MAX_VECTORS + 1]).await), Some(ErrorKind::TooLarge));
    // None of these is a vector.
    for numbers in [&[][..], &[0.0; 32], &[f32::NAN], &[f32::INFINITY, 1.0]] {
        assert_eq!(kind(Vector::new(numbers)), Some(ErrorKind::InvalidInput));
    }
    Ok(())
}

async fn a_thousand_vectors_are_kept_at_once(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let (words, model) = model_of(&*provider).await?;
    let memories = (0..MAX_VECTORS as i64 / 2).map(|number| said(&format!("a{number}"), number, "a zebra"));
    let mut records: Vec<RecordId> =
        provider.store_many(memories.collect()).await?.into_iter().map(Into::into).collect();
    let writes = (0..MAX_VECTORS / 2).map(|number| written(&format!("n{number}"), "a", "a zebra"));
    records.extend(provider.documents().put_many(writes.collect()).await?.iter().map(RecordId::from));
    let embedding = |(number, record): (usize, &RecordId)| Embedding {
        record: record.clone(),
        revision: Revision::FIRST,
        texts: None,
        vector: words.vector(&format!("zebra number {number}")),
    };
    let embeddings: Vec<_> = records.iter().enumerate().map(embedding).collect();
    assert_eq!(provider.embed(&model, embeddings.clone()).await?, vec![true; MAX_VECTORS]);
    let kept = |embedding: Embedding| Embedding { vector: embedding.vector.kept(Precision::Compact), ..embedding };
    let expected: Vec<_> = embeddings.into_iter().map(|embedding| Some(kept(embedding))).collect();
    let found = stage.open().await?.vectors(&records).await?;
    let found = found.into_iter().map(|found| found.map(|found| Embedding { texts: None, ..found }));
    assert_eq!(found.collect::<Vec<_>>(), expected);
    Ok(())
}

/// A vector changes neither the revision of its record, nor its times, its history or its place in a query.
async fn a_vector_is_no_change_of_its_record(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let (words, model) = model_of(&*provider).await?;
    let updated = provider.store(said("a", 0, "a zebra")).await?;
    let id = provider.store(said("a", 1, "a zebra")).await?;
    provider.update(updated, MemoryPatch::new().with_status(Status::Failed)).await?;
    put(&*provider, written("n", "a", "a zebra")).await?;
    let records = [id.into(), updated.into(), note("n")];
    let everything = async || {
        let (memories, mut versions) = (ledger(&*provider).await?, Vec::new());
        let notes = walk_documents(&*provider.documents(), NOTES, |query| query.all()).await?;
        if stage.harness().keeps_history() {
            for record in &records {
                versions.extend(provider.history(&History::of(record.clone()).limit(10)?).await?.versions);
            }
        }
        Ok::<_, Error>((memories, notes, versions))
    };
    let before = everything().await?;
    stage.namespace().clock.set(at(3_000_000));
    for text in ["a zebra", "a horse"] {
        for record in &records {
            embed(&*provider, &model, record, &words.vector(text)).await?;
        }
        assert_eq!(everything().await?, before);
    }
    // A caller who has read the record before can still update it.
    let memory = the(&*provider, id).await?;
    provider.update(id, MemoryPatch::new().with_status(Status::Running).if_revision(memory.revision)).await?;
    Ok(())
}

/// After a vector was kept, the next change that a watch tells is the next store.
async fn no_watch_tells_of_a_vector(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.open().await?);
    let (words, model) = model_of(&*provider).await?;
    let id = provider.store(said("a", 0, "a zebra")).await?;
    put(&*provider, written("n", "a", "a zebra")).await?;
    let watch = Watch::new(Watched::Both(Collections::All), MemoryQuery::builder().all())?.from(WatchFrom::Now);
    let mut changes = provider.watch(&watch).await?;
    let mut next = async || loop {
        let change = timeout(PATIENCE, changes.next()).await.expect("a change comes").expect("the watch continues")?;
        if change.kind != ChangeKind::Progress {
            return Ok::<_, Error>(change.kind);
        }
    };
    assert_eq!(next().await?, ChangeKind::Reached);
    for round in 0..3 {
        for record in [id.into(), note("n")] {
            embed(&*other, &model, &record, &words.vector(&format!("zebra {round}"))).await?;
        }
        other.set_vector_model(&model).await?;
        let marker = other.store(said("a", 10 + round, "a marker")).await?;
        let told = match next().await? {
            // A waiting watch may report *reached* again.
            ChangeKind::Reached => next().await?,
            told => told,
        };
        assert_eq!(told, ChangeKind::Stored(Record::Memory(the(&*other, marker).await?)));
    }
    Ok(())
}

async fn a_read_only_namespace_keeps_no_new_vector(stage: Stage) -> CaseResult {
    if !stage.harness().can_be_read_only() {
        return Ok(());
    }
    let provider = stage.open().await?;
    let (words, model) = model_of(&*provider).await?;
    let id = provider.store(said("a", 0, "a zebra")).await?;
    embed(&*provider, &model, &id.into(), &words.vector("a zebra")).await?;
    provider.set_read_only(true).await?;
    let vector = words.vector("a horse");
    let late = || vec![Embedding { record: id.into(), revision: Revision::FIRST, vector: vector.clone(), texts: None }];
    let refused = provider.embed(&model, late()).await.expect_err("it is read-only");
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Unavailable, Outcome::NotDone));
    let expected = words.vector("a zebra").kept(Precision::Compact);
    assert_eq!(vector_of(&*provider, &id.into()).await?, Some((Revision::FIRST, expected)));
    assert_eq!(answer(&*provider, &like(&words, "zebra")).await?, (vec!["a zebra".to_owned()], Some(0)));
    provider.set_read_only(false).await?;
    assert_eq!(provider.embed(&model, late()).await?, [true]);
    Ok(())
}

async fn a_closed_handle_keeps_no_vector(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.open().await?);
    let (words, model) = model_of(&*provider).await?;
    let id = provider.store(said("a", 0, "a zebra")).await?;
    provider.shutdown().await?;
    let embedding =
        Embedding { record: id.into(), revision: Revision::FIRST, vector: words.vector("a zebra"), texts: None };
    let calls = [
        kind(provider.vector_model().await),
        kind(provider.set_vector_model(&model).await),
        kind(provider.embed(&model, vec![embedding]).await),
        kind(provider.vectors(&[id.into()]).await),
        kind(provider.recall(&like(&words, "zebra")).await),
    ];
    assert_eq!(calls, [Some(ErrorKind::Closed); 5]);
    assert_eq!(have(&*other, &[id.into()]).await?, [false]);
    Ok(())
}
