//! Putting many documents at once: D7.

use memory_core::{
    Content, Document, DocumentWrite, ErrorKind, Expect, MAX_BATCH, MAX_BATCH_BYTES, Outcome, Result, Revision,
};

use super::{all_notes, get, ids, note};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{NOTES, at, collection, kind, new_document, race, space, walk_documents};

chapter!("documents":
    put_many_answers_as_put_does_in_the_order_of_the_input ["D7", "D1"],
    put_many_with_a_conflict_in_its_last_document_puts_none ["D7", "D1"],
    put_many_takes_an_id_once ["D7"],
    put_many_moves_documents_on_every_path ["D7", "D3"],
    put_manys_that_race_all_count ["D7", "D1"],
    of_put_manys_with_one_revision_one_wins ["D7", "D1"],
    put_many_of_10_000_is_taken_and_one_more_is_not ["D7"],
    put_many_of_64_mib_is_taken_and_one_byte_more_is_not ["D7"],
    put_many_replaces_64_mib_at_most ["D7"],
);

/// New documents, replaced ones, and ones without an id, in two collections: each gets the answer that a put of it alone would get.
async fn put_many_answers_as_put_does_in_the_order_of_the_input(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    assert_eq!(documents.put_many(Vec::new()).await?, [], "an empty batch");
    assert_eq!(documents.collections().await?, []);
    documents.put(note("b", "x-1", "old")).await?;
    stage.namespace().clock.set(at(-5));
    let mut replacing = note("b", "y", "new").expect(Expect::Revision(Revision::FIRST));
    replacing.created_at = at(9_999);
    let mut nameless = note("none", "x", "nameless");
    nameless.id = None;
    let other = new_document("other", "b", "x", "other").expect(Expect::Absent);
    let writes = vec![note("c", "x", "first"), replacing, nameless.clone(), other, nameless, note("a", "x", "last")];
    let put = documents.put_many(writes).await?;

    let contents: Vec<_> = put.iter().map(|document| document.content.as_str()).collect();
    assert_eq!(contents, ["first", "new", "nameless", "other", "nameless", "last"], "the order of the input");
    assert_ne!(put[2].id, put[4].id, "each made id is new");
    let times: Vec<_> = put.iter().map(|put| (put.revision.get(), put.created_at, put.updated_at)).collect();
    let new = (1, at(1_000), None);
    assert_eq!(times, [new, (2, at(1_000), Some(at(-5))), new, new, new, new]);
    for document in put {
        let found = documents.get(&document.collection, &document.id).await?;
        assert_eq!(found, Some(document), "get answers what put_many answered");
    }
    Ok(())
}

/// A conflict in the last document refuses the whole batch, whether that document exists and must not, is missing, or has another revision.
async fn put_many_with_a_conflict_in_its_last_document_puts_none(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    let known = documents.put_many(vec![note("d007", "x", "old"), note("z", "x", "old")]).await?;
    for (id, expect) in
        [("z", Expect::Absent), ("z", Expect::Revision(Revision::new(2)?)), ("y", Expect::Revision(Revision::FIRST))]
    {
        let mut writes = many(300, "new");
        writes.push(note(id, "x", "new").expect(expect));
        let error = documents.put_many(writes).await.expect_err("the last does not find what it expects");
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Conflict, Outcome::NotDone), "{id} {expect:?}");
        assert!(error.message().contains("300"), "the message does not name the document: {error}");
        let left = walk_documents(&*documents, NOTES, |query| query.all()).await?;
        assert_eq!(left.len(), known.len(), "a refused call put something");
        assert!(known.iter().all(|known| left.contains(known)), "a refused call changed something");
    }
    // Without the refused document, the others can be put.
    documents.put_many(many(300, "new")).await?;
    assert_eq!(get(&*documents, "d007").await?.map(|document| document.revision.get()), Some(2));
    Ok(())
}

/// Two documents of one batch and collection can't have the same id; two of different collections can.
async fn put_many_takes_an_id_once(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    let same = || note("a", "x", "one");
    for writes in [vec![same(), same()], vec![same(), note("b", "x", "two"), same().expect(Expect::Absent)]] {
        let error = documents.put_many(writes).await.expect_err("an id comes twice");
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::InvalidInput, Outcome::NotDone));
        assert!(all_notes(&*documents).await?.is_empty(), "a refused call put something");
    }
    let put = documents.put_many(vec![same(), new_document("other", "a", "x", "two")]).await?;
    assert_eq!(ids(&put), ["a", "a"]);
    Ok(())
}

/// Documents that change their spaces, or swap them, are found where they are now and nowhere else.
async fn put_many_moves_documents_on_every_path(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    let put = |places: [&str; 3]| {
        let writes = ["a", "b", "c"].into_iter().zip(places).map(|(id, place)| note(id, place, "text"));
        documents.put_many(writes.collect())
    };
    put(["old-1-x", "old-1-y", "new"]).await?;
    put(["new", "old-1-x", "other-2/z"]).await?;
    for (path, found) in
        [("old", &["b"][..]), ("old-1", &["b"]), ("new", &["a"]), ("other", &["c"]), ("other-2", &["c"])]
    {
        let under = walk_documents(&*documents, NOTES, |query| query.under(path)).await?;
        assert_eq!(ids(&under), found, "below {path}");
    }
    for (id, found) in [("old-1-x", &["b"][..]), ("old-1-y", &[]), ("new", &["a"]), ("other-2/z", &["c"])] {
        let exact = walk_documents(&*documents, NOTES, |query| query.exact(id)).await?;
        assert_eq!(ids(&exact), found, "in {id}");
    }
    assert_eq!(documents.collections().await?, [collection(NOTES)]);
    Ok(())
}

/// Batches that race for the same documents, in both orders, all count, and there is no deadlock.
async fn put_manys_that_race_all_count(stage: Stage) -> CaseResult {
    for result in put_the_same(&stage, Expect::Any).await? {
        result?;
    }
    let documents = stage.open().await?.documents();
    let found = walk_documents(&*documents, NOTES, |query| query.all()).await?;
    let revisions: Vec<_> = found.iter().map(|document| document.revision.get()).collect();
    assert_eq!(revisions, [9; 40], "each call makes a revision of each document");
    assert_same_writer(&found);
    Ok(())
}

/// Of batches that expect the same revisions one wins, with all of its documents.
async fn of_put_manys_with_one_revision_one_wins(stage: Stage) -> CaseResult {
    let results = put_the_same(&stage, Expect::Revision(Revision::FIRST)).await?;
    let (won, lost): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 7));
    for error in lost.into_iter().filter_map(Result::err) {
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
    }
    let documents = stage.open().await?.documents();
    let found = walk_documents(&*documents, NOTES, |query| query.all()).await?;
    assert!(found.iter().all(|document| document.revision.get() == 2));
    assert_same_writer(&found);
    Ok(())
}

async fn put_many_of_10_000_is_taken_and_one_more_is_not(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    let over = documents.put_many(many(MAX_BATCH + 1, "text")).await;
    assert_eq!(kind(over), Some(ErrorKind::TooLarge));
    assert!(all_notes(&*documents).await?.is_empty(), "a refused call put something");
    documents.put_many(many(MAX_BATCH, "text")).await?;
    let again = documents.put_many(many(MAX_BATCH, "again")).await?;
    let found = walk_documents(&*documents, NOTES, |query| query.all().limit(1_000)).await?;
    assert_eq!(found.len(), MAX_BATCH);
    assert!(again.iter().chain(&found).all(|document| document.revision.get() == 2));
    Ok(())
}

/// A batch of the full size is taken in one call, whatever the engine's own limit for a message or a row.
async fn put_many_of_64_mib_is_taken_and_one_byte_more_is_not(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    // With its space and its metadata `{}`, each weighs 512 KiB.
    let text = "x".repeat((512 << 10) - "x".len() - "{}".len());
    let writes = many(128, &text);
    assert_eq!(writes.iter().map(DocumentWrite::size).sum::<usize>(), MAX_BATCH_BYTES, "the very limit");
    let mut heavier = writes.clone();
    heavier[3].space_id = space("xy");
    assert_eq!(kind(documents.put_many(heavier).await), Some(ErrorKind::TooLarge));
    assert!(all_notes(&*documents).await?.is_empty(), "a refused call put something");
    for revision in 1..=2 {
        let put = documents.put_many(writes.clone()).await?;
        assert!(put.iter().all(|document| document.revision.get() == revision && document.content.as_str() == text));
    }
    let found = get(&*documents, "d127").await?.expect("it was put");
    assert!(found.content.as_str() == text, "a large content was changed");
    Ok(())
}

/// Replaced documents have to be read, so their total size has a limit too: otherwise a call with small documents could read any amount.
async fn put_many_replaces_64_mib_at_most(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    let text = "x".repeat(Content::MAX_BYTES);
    for writes in many(65, &text).chunks(33) {
        documents.put_many(writes.to_vec()).await?;
    }
    let error = documents.put_many(many(65, "small")).await.expect_err("65 MiB would be replaced");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::LimitExceeded, Outcome::NotDone));
    assert_eq!(get(&*documents, "d000").await?.map(|document| document.revision), Some(Revision::FIRST));
    let put = documents.put_many(many(63, "small")).await?;
    assert!(put.iter().all(|document| document.revision.get() == 2));
    Ok(())
}

/// Notes `d000` and so on.
fn many(count: usize, content: &str) -> Vec<DocumentWrite> {
    (0..count).map(|number| note(&format!("d{number:03}"), "x", content)).collect()
}

/// Puts the same 40 existing documents eight times concurrently, through two handles and in both orders.
async fn put_the_same(stage: &Stage, expect: Expect) -> Result<Vec<Result<Vec<Document>>>> {
    let handles = [stage.open().await?.documents(), stage.open().await?.documents()];
    handles[0].put_many(many(40, "before")).await?;
    let calls = race(&handles, 8, move |documents, number| async move {
        let mut writes = many(40, &format!("by {number}"));
        writes.iter_mut().for_each(|write| write.expect = expect);
        if number % 4 > 1 {
            writes.reverse();
        }
        documents.put_many(writes).await
    });
    Ok(calls.await)
}

fn assert_same_writer(documents: &[Document]) {
    let contents: Vec<_> = documents.iter().map(|document| document.content.as_str()).collect();
    assert!(contents.iter().all(|content| *content == contents[0]), "documents of several calls: {contents:?}");
}
