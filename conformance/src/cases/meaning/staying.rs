//! How long a vector stays beside its record (M2).

use memory_core::{
    Document, DocumentSelection, Erasure, Memory, MemoryId, MemoryPatch, Precision, RecordId, Revision, Status, Sweep,
};

use super::{answer, embed, have, like, model_of, notes_like, vector_of, written};
use crate::case::{CaseResult, Stage, chapter};
use crate::cases::recall::{asked, asked_notes, said};
use crate::fixture::{NOTES, at, collection, context, document_id, metadata, note, put, remove_note, the};

chapter!("meaning":
    a_vector_stays_while_the_texts_of_its_memory_do ["M2"] needs Vectors,
    a_vector_stays_while_the_text_of_its_document_does ["M2"] needs Vectors,
    a_vector_goes_with_the_texts_of_its_memory ["M2"] needs Vectors,
    a_vector_goes_with_the_text_of_its_document ["M2"] needs Vectors,
    a_vector_is_that_of_the_version_that_is_there ["M2", "W13"] needs Vectors,
    what_was_removed_begins_without_a_vector ["M2", "D5"] needs Vectors,
    what_was_restored_has_no_vector ["M2", "W12"] needs Vectors,
    a_vector_goes_with_what_is_erased ["M2", "E1"] needs VectorsAndErasure,
    a_vector_goes_with_what_expires ["M2", "X2"] needs VectorsAndErasure,
);

const REASON: &str = "somebody asked for it";
/// When the records of these cases expire. The clock of a namespace begins at half of it.
const END: i64 = 2_000_000;

/// Updates of status, metadata and expiry keep the vector, and so does setting an equal context.
async fn a_vector_stays_while_the_texts_of_its_memory_do(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.open().await?);
    let (words, model) = model_of(&*provider).await?;
    let id = provider.store(said("a", 0, "a zebra").with_context(context(r#"{"seen":"twice"}"#))).await?;
    embed(&*provider, &model, &id.into(), &words.vector("a zebra")).await?;
    let kept = words.vector("a zebra").kept(Precision::Compact);
    let mut patches = vec![
        MemoryPatch::new(),
        MemoryPatch::new().with_status(Status::Completed),
        MemoryPatch::new().replace_metadata(metadata(r#"{"text":"a horse"}"#)),
        MemoryPatch::new().merge_metadata(metadata(r#"{"n":1,"text":null}"#)).with_status(Status::Failed),
        MemoryPatch::new().set_context(context(r#"{"seen":"twice"}"#)),
    ];
    if stage.harness().can_erase() {
        patches.extend([MemoryPatch::new().set_expiry(at(9_000_000)), MemoryPatch::new().clear_expiry()]);
    }
    for (number, patch) in patches.into_iter().enumerate() {
        let updated = other.update(id, patch).await?;
        for handle in [&provider, &other] {
            assert_eq!(vector_of(&**handle, &id.into()).await?, Some((updated.revision, kept.clone())), "{number}");
        }
    }
    assert!(the(&*provider, id).await?.revision > Revision::FIRST);
    assert_eq!(answer(&*provider, &like(&words, "zebra")).await?, (vec!["a zebra".to_owned()], Some(0)));
    Ok(())
}

/// Puts of the same content keep the vector, also with another space or other metadata, one by one or in a batch.
async fn a_vector_stays_while_the_text_of_its_document_does(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.open().await?);
    let (words, model) = model_of(&*provider).await?;
    put(&*provider, written("n", "a", "a zebra")).await?;
    embed(&*provider, &model, &note("n"), &words.vector("a zebra")).await?;
    let kept = words.vector("a zebra").kept(Precision::Compact);
    let writes = [
        written("n", "a", "a zebra"),
        written("n", "b-1", "a zebra"),
        written("n", "b-1", "a zebra").with_metadata(metadata(r#"{"text":"a horse"}"#)),
        written("n", "c", "a zebra"),
    ];
    for (number, write) in writes.into_iter().enumerate() {
        let documents = match number % 2 {
            0 => vec![put(&*other, write).await?],
            _ => other.documents().put_many(vec![write, written(&format!("beside{number}"), "z", "a cat")]).await?,
        };
        let expected = Some((documents[0].revision, kept.clone()));
        for handle in [&provider, &other] {
            assert_eq!(vector_of(&**handle, &note("n")).await?, expected, "{number}");
        }
    }
    for (space, expected) in [("a", (0, Some(0))), ("b-1", (0, Some(0))), ("c", (1, Some(0)))] {
        let recall = asked_notes("", |query| query.exact(space)).by_vector(words.vector("zebra"));
        let recalled = provider.documents().recall(&recall).await?;
        assert_eq!((recalled.hits.len(), recalled.unembedded), expected, "{space}");
    }
    Ok(())
}

/// A change of the context removes the vector, even if no string changes: the second and the last patch change contexts without strings.
async fn a_vector_goes_with_the_texts_of_its_memory(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.open().await?);
    let (words, model) = model_of(&*provider).await?;
    let patches = [
        (None, MemoryPatch::new().set_context(context(r#""a horse""#))),
        (Some("null"), MemoryPatch::new().clear_context()),
        (Some(r#""one""#), MemoryPatch::new().set_context(context(r#""two""#)).with_status(Status::Running)),
        (Some(r#"{"a":1}"#), MemoryPatch::new().set_context(context(r#"{"a":2}"#))),
    ];
    for (number, (before, patch)) in patches.into_iter().enumerate() {
        let mut memory = said(&format!("a{number}"), 0, "a zebra");
        memory.context = before.map(context);
        let id = provider.store(memory).await?;
        embed(&*provider, &model, &id.into(), &words.vector("a zebra")).await?;
        other.update(id, patch).await?;
        for handle in [&provider, &other] {
            assert_eq!(have(&**handle, &[id.into()]).await?, [false], "{number}");
        }
        let recall = asked("", |query| query.exact(format!("a{number}"))).by_vector(words.vector("zebra"));
        assert_eq!(answer(&*provider, &recall).await?, (vec![], Some(1)), "{number}");
        // Setting the earlier context again does not bring the vector back.
        let again = match before {
            Some(before) => MemoryPatch::new().set_context(context(before)),
            None => MemoryPatch::new().clear_context(),
        };
        provider.update(id, again).await?;
        assert_eq!(have(&*other, &[id.into()]).await?, [false], "{number}");
        embed(&*other, &model, &id.into(), &words.vector("a zebra")).await?;
        assert_eq!(answer(&*provider, &recall).await?, (vec!["a zebra".to_owned()], Some(0)), "{number}");
    }
    Ok(())
}

async fn a_vector_goes_with_the_text_of_its_document(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.open().await?);
    let (words, model) = model_of(&*provider).await?;
    for (number, text) in ["a horse", "a zebra ", "", "A zebra"].into_iter().enumerate() {
        let id = format!("n{number}");
        put(&*provider, written(&id, "a", "a zebra")).await?;
        embed(&*provider, &model, &note(&id), &words.vector("a zebra")).await?;
        match number % 2 {
            0 => drop(put(&*other, written(&id, "a", text)).await?),
            _ => drop(other.documents().put_many(vec![written(&id, "b", text)]).await?),
        }
        assert_eq!(have(&*provider, &[note(&id)]).await?, [false], "{text:?}");
        put(&*provider, written(&id, "a", "a zebra")).await?;
        assert_eq!(have(&*other, &[note(&id)]).await?, [false], "{text:?}");
    }
    let recalled = provider.documents().recall(&notes_like(&words, "zebra")).await?;
    assert_eq!((recalled.hits.len(), recalled.unembedded), (0, Some(4)));
    Ok(())
}

/// `restore_newer` keeps a vector if the texts of the later version are the same, and removes it otherwise.
async fn a_vector_is_that_of_the_version_that_is_there(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let (words, model) = model_of(&*provider).await?;
    let mut ids = Vec::new();
    for number in 0..2 {
        ids.push(provider.store(said(&format!("a{number}"), 0, "a zebra")).await?);
        put(&*provider, written(&format!("n{number}"), "a", "a zebra")).await?;
    }
    let records = [ids[0].into(), ids[1].into(), note("n0"), note("n1")];
    for record in &records {
        embed(&*provider, &model, record, &words.vector("a zebra")).await?;
    }
    let (mut memories, mut documents) = (Vec::new(), Vec::new());
    for (number, id) in ids.iter().enumerate() {
        let memory = the(&*provider, *id).await?;
        let context = (number == 1).then(|| context(r#""a horse""#));
        let (revision, updated_at) = (memory.revision.next()?, Some(at(7)));
        memories.push(Memory { context, revision, updated_at, status: Status::Failed, ..memory });
        let found = provider.documents().get(&collection(NOTES), &document_id(&format!("n{number}"))).await?;
        let document = found.ok_or("a document")?;
        let content = if number == 1 { written("n", "a", "a horse").content } else { document.content.clone() };
        let revision = document.revision.next()?;
        documents.push(Document { content, revision, updated_at: Some(at(7)), ..document });
    }
    // `restore` of a version that equals the one in place, or is a conflict with it, changes nothing.
    let (present, present_note) = (the(&*provider, ids[0]).await?, documents[0].clone());
    provider.restore(vec![present.clone(), Memory { status: Status::Running, ..present }]).await?;
    provider.documents().restore(vec![present_note]).await?;
    assert_eq!(have(&*provider, &records).await?, [true; 4]);
    assert_eq!(provider.restore_newer(memories).await?.written, 2);
    assert_eq!(provider.documents().restore_newer(documents).await?.written, 2);
    assert_eq!(have(&*provider, &records).await?, [true, false, true, false]);
    Ok(())
}

async fn what_was_removed_begins_without_a_vector(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.open().await?);
    let (words, model) = model_of(&*provider).await?;
    for id in ["named", "found", "kept"] {
        put(&*provider, written(id, if id == "found" { "b" } else { "a" }, "a zebra")).await?;
        embed(&*provider, &model, &note(id), &words.vector("a zebra")).await?;
    }
    let records = ["named", "found", "kept"].map(note);
    remove_note(&*other, "named").await?;
    let in_b = memory_core::DocumentQuery::builder(collection(NOTES)).exact("b");
    other.documents().remove(&DocumentSelection::matching(in_b)?, 1).await?;
    assert_eq!(have(&*provider, &records).await?, [false, false, true]);
    for id in ["named", "found"] {
        put(&*provider, written(id, "a", "a zebra")).await?;
    }
    for handle in [&provider, &other] {
        assert_eq!(have(&**handle, &records).await?, [false, false, true]);
        let recalled = handle.documents().recall(&notes_like(&words, "zebra")).await?;
        assert_eq!((recalled.hits.len(), recalled.unembedded), (1, Some(2)));
    }
    Ok(())
}

async fn what_was_restored_has_no_vector(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let (words, model) = model_of(&*provider).await?;
    let id = MemoryId::from_bytes([7; 16]);
    let memory = said("a", 0, "a zebra").into_memory(id);
    assert_eq!(provider.restore(vec![memory]).await?.written, 1);
    let document = put(&*provider, written("n", "a", "a zebra")).await?;
    embed(&*provider, &model, &note("n"), &words.vector("a zebra")).await?;
    remove_note(&*provider, "n").await?;
    assert_eq!(provider.documents().restore(vec![document]).await?.written, 1);
    assert_eq!(have(&*provider, &[id.into(), note("n")]).await?, [false, false]);
    embed(&*provider, &model, &id.into(), &words.vector("a zebra")).await?;
    assert_eq!(answer(&*provider, &like(&words, "zebra")).await?, (vec!["a zebra".to_owned()], Some(0)));
    Ok(())
}

/// An erasure by name or by query removes the vector; a document that is put again begins without one.
async fn a_vector_goes_with_what_is_erased(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.open().await?);
    let (words, model) = model_of(&*provider).await?;
    let mut ids = Vec::new();
    for space in ["a", "b", "c"] {
        ids.push(provider.store(said(space, 0, &format!("a zebra of {space}"))).await?);
        put(&*provider, written(space, space, "a zebra")).await?;
    }
    let records: Vec<RecordId> = ids.iter().map(|id| RecordId::from(*id)).chain(["a", "b", "c"].map(note)).collect();
    for record in &records {
        embed(&*provider, &model, record, &words.vector("a zebra")).await?;
    }
    other.erase(&Erasure::records([ids[0].into(), note("a")], REASON)?).await?;
    other.erase(&Erasure::memories(memory_core::MemoryQuery::builder().exact("b"), REASON)?).await?;
    let notes = memory_core::DocumentQuery::builder(collection(NOTES)).exact("b");
    other.erase(&Erasure::documents(notes, REASON)?).await?;
    for handle in [&provider, &other, &stage.open().await?] {
        assert_eq!(have(&**handle, &records).await?, [false, false, true, false, false, true]);
        assert_eq!(answer(&**handle, &like(&words, "zebra")).await?, (vec!["a zebra of c".to_owned()], Some(0)));
    }
    for id in ["a", "b"] {
        put(&*provider, written(id, id, "a zebra")).await?;
    }
    assert_eq!(have(&*other, &records[3..]).await?, [false, false, true]);
    Ok(())
}

/// The vector is gone in the millisecond of the expiry, whether or not the record is swept.
async fn a_vector_goes_with_what_expires(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let (words, model) = model_of(&*provider).await?;
    let id = provider.store(said("a", 0, "a zebra").expires_at(at(END))).await?;
    let kept = provider.store(said("b", 1, "two zebras")).await?;
    for name in ["swept", "put"] {
        put(&*provider, written(name, "a", "a zebra").expires_at(at(END))).await?;
    }
    let records = [id.into(), kept.into(), note("swept"), note("put")];
    for record in &records {
        embed(&*provider, &model, record, &words.vector("a zebra")).await?;
    }
    stage.namespace().clock.set(at(END - 1));
    assert_eq!(have(&*provider, &records).await?, [true; 4]);
    assert_eq!(answer(&*provider, &like(&words, "zebra")).await?.0.len(), 2);
    stage.namespace().clock.set(at(END));
    for is_swept in [false, true] {
        if is_swept {
            put(&*provider, written("put", "a", "a zebra")).await?;
            let mut next = Some(Sweep::due());
            while let Some(from) = next {
                next = provider.sweep(&from).await?.next;
            }
        }
        for handle in [&provider, &stage.open().await?] {
            assert_eq!(have(&**handle, &records).await?, [false, true, false, false], "swept: {is_swept}");
            let found = answer(&**handle, &like(&words, "zebra")).await?;
            assert_eq!(found, (vec!["two zebras".to_owned()], Some(0)), "swept: {is_swept}");
        }
    }
    // A later record under the same id has no vector.
    let late = memory_core::Embedding {
        record: id.into(),
        revision: Revision::FIRST,
        vector: words.vector("zebra"),
        texts: None,
    };
    assert_eq!(provider.embed(&model, vec![late]).await?, [false]);
    put(&*provider, written("swept", "a", "a zebra")).await?;
    assert_eq!(have(&*provider, &records).await?, [false, true, false, false]);
    Ok(())
}
