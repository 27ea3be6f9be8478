//! Restoring documents (W12, W13), listing collections (D5), documents and the ledger (D6), and durability (W1).

use memory_core::{
    Content, Document, DocumentQuery, DocumentSelection, Expect, MemoryPatch, Order, RestoreReport, Revision, Status,
};

use super::{get, ids, note, notes, removed, with_ids};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{
    NOTES, at, collection, document_id, metadata, new_document, new_memory, space, trigger, walk, walk_documents,
};

chapter!("documents":
    restore_writes_counts_and_names_conflicts ["W12"],
    restored_documents_are_ordinary_ones ["W12", "D3"],
    only_later_versions_replace_what_is_there ["W13"],
    replaced_documents_are_found_where_they_are_now ["W13", "D3"],
    documents_that_were_put_again_come_in_behind_their_removal ["W13", "D5"],
    no_document_call_touches_the_ledger ["D6"],
    collections_are_sorted_and_in_use ["D5"],
    documents_survive_reopening ["W1"],
);

/// A note with this revision.
fn version(id: &str, content: &str, revision: u64) -> Document {
    Document {
        id: document_id(id),
        collection: collection(NOTES),
        space_id: space("old-1"),
        content: Content::parse(content).expect("a valid content"),
        metadata: metadata(r#"{"k":[1.5,null]}"#),
        created_at: at(-77),
        updated_at: (revision > 1).then(|| at(12)),
        revision: Revision::new(revision).expect("a valid revision"),
        expires_at: None,
    }
}

fn report(written: usize, equal: usize, conflicts: &[usize]) -> RestoreReport {
    RestoreReport { written, equal, conflicts: conflicts.to_vec(), ..RestoreReport::default() }
}

/// `restore` writes documents exactly as they are, counts the equal ones, and names the places of those that differ.
async fn restore_writes_counts_and_names_conflicts(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    let (a, b) = (version("a", "apple", 9_007_199_254_740_991), version("b", "banana", 1));
    assert_eq!(documents.restore(vec![a.clone(), b.clone()]).await?, report(2, 0, &[]));
    assert_eq!(get(&*documents, "a").await?.as_ref(), Some(&a), "exactly as given");
    assert_eq!(get(&*documents, "b").await?.as_ref(), Some(&b), "exactly as given");

    let some = vec![version("b", "other", 1), a.clone(), version("c", "cherry", 3), version("a", "apple", 4)];
    assert_eq!(documents.restore(some).await?, report(1, 1, &[0, 3]));
    assert_eq!(get(&*documents, "b").await?, Some(b), "a conflict stays as it is");
    let twice = vec![version("d", "x", 1), version("d", "x", 1), version("d", "y", 1)];
    assert_eq!(documents.restore(twice).await?, report(1, 1, &[2]), "within one call");
    assert_eq!(documents.restore(vec![]).await?, RestoreReport::default());
    Ok(())
}

/// What was restored is found by spaces, text and order, counts on from its revision, and can be removed.
async fn restored_documents_are_ordinary_ones(stage: Stage) -> CaseResult {
    let (source, target) = (stage.open().await?.documents(), stage.elsewhere().open().await?.documents());
    for id in ["b", "a", "c"] {
        source.put(note(id, &format!("s-{id}"), &format!("letter {id}"))).await?;
    }
    source.put(note("b", "s-b", "letter again")).await?;
    let copied = walk_documents(&*source, NOTES, |query| query.all()).await?;
    assert_eq!(target.restore(copied.clone()).await?.written, 3);
    assert_eq!(walk_documents(&*target, NOTES, |query| query.under("s").limit(1)).await?, copied);
    assert_eq!(ids(&walk_documents(&*target, NOTES, |query| query.all().text("again")).await?), ["b"]);
    let next = target.put(note("b", "s-b", "third").expect(Expect::Revision(Revision::new(2)?))).await?;
    assert_eq!((next.revision.get(), next.created_at), (3, at(1_000)));
    let all = DocumentSelection::matching(notes().under("s"))?;
    assert_eq!(removed(&target.remove(&all, 3).await?), ["a", "b", "c"]);
    assert_eq!(walk_documents(&*source, NOTES, |query| query.all()).await?, copied, "the source stays as it is");
    Ok(())
}

/// `restore_newer` replaces a document by a later version of the same document, and changes nothing else.
async fn only_later_versions_replace_what_is_there(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    documents.restore(vec![version("a", "apple", 4), version("b", "banana", 4), version("c", "cherry", 4)]).await?;
    let input = vec![
        version("a", "later", 9),
        version("b", "earlier", 3),
        version("c", "same", 4),
        Document { created_at: at(-76), ..version("c", "another", 9) },
        version("d", "new", 2),
        version("d", "newer", 3),
        version("a", "later", 9),
    ];
    assert_eq!(documents.restore_newer(input).await?, report(3, 1, &[1, 2, 3]));
    let found = walk_documents(&*documents, NOTES, |query| query.all().order(Order::OldestFirst)).await?;
    let expected =
        [version("a", "later", 9), version("b", "banana", 4), version("c", "cherry", 4), version("d", "newer", 3)];
    assert_eq!(found, expected);
    let again = documents.restore_newer(vec![version("a", "later", 9), version("d", "newer", 3)]).await?;
    assert_eq!(again, report(0, 2, &[]));
    let next = documents.put(note("a", "x", "next").expect(Expect::Revision(Revision::new(9)?))).await?;
    assert_eq!((next.revision.get(), next.created_at), (10, at(-77)));
    Ok(())
}

/// A later version may lie in another space and have other words.
async fn replaced_documents_are_found_where_they_are_now(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    documents.restore(vec![version("a", "apple", 1)]).await?;
    let moved = Document { space_id: space("new-2"), ..version("a", "banana", 3) };
    documents.restore_newer(vec![moved.clone()]).await?;
    assert!(walk_documents(&*documents, NOTES, |query| query.under("old")).await?.is_empty());
    assert!(walk_documents(&*documents, NOTES, |query| query.all().text("apple")).await?.is_empty());
    assert_eq!(walk_documents(&*documents, NOTES, |query| query.under("new").text("banana")).await?, [moved]);
    Ok(())
}

/// A document that was removed and put again is another one: `restore_newer` takes it only after the removal was repeated here.
async fn documents_that_were_put_again_come_in_behind_their_removal(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    documents.restore(vec![version("a", "apple", 7)]).await?;
    let again = Document { created_at: at(5), ..version("a", "again", 1) };
    assert_eq!(documents.restore_newer(vec![again.clone()]).await?.conflicts, [0]);
    documents.remove(&with_ids(&["a"]), 1).await?;
    assert_eq!(documents.restore_newer(vec![again.clone()]).await?.written, 1);
    assert_eq!(get(&*documents, "a").await?, Some(again));
    Ok(())
}

/// No document call reads or changes the ledger, not even with the same ids, spaces and words.
async fn no_document_call_touches_the_ledger(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let mut first = new_memory("x-1", 5).with_metadata(metadata(r#"{"k":1}"#));
    first.trigger = trigger(r#"{"text":"apple"}"#);
    let id = provider.store(first).await?;
    provider.update(id, MemoryPatch::new().with_status(Status::Completed)).await?;
    provider.store_many(vec![new_memory("x-2", 6), new_memory("y", 7)]).await?;
    let before = walk(&*provider, |query| query.all()).await?;

    let documents = provider.documents();
    let same_id = id.to_string();
    assert_eq!(get(&*documents, &same_id).await?, None, "a memory is no document");
    let put = documents.put(note(&same_id, "x-1", "apple").with_metadata(metadata(r#"{"k":1}"#))).await?;
    documents.put(note(&same_id, "x-2", "apple")).await?;
    documents.restore(vec![Document { id: document_id("r"), ..put }]).await?;
    let found = walk_documents(&*documents, NOTES, |query| query.under("x").text("apple")).await?;
    assert_eq!(found.len(), 2, "documents only");
    assert_eq!(documents.collections().await?, [collection(NOTES)]);
    let removal = DocumentSelection::matching(notes().prefix("x").regex("."))?;
    assert_eq!(documents.remove(&removal, 10).await?.len(), 2);
    assert!(documents.remove(&with_ids(&[&same_id]), 10).await?.is_empty());
    assert_eq!(walk(&*provider, |query| query.all()).await?, before, "the ledger stays byte for byte");
    assert_eq!(provider.get(id).await?.as_ref(), before.iter().find(|memory| memory.id == id));
    Ok(())
}

/// The collections come in ascending order, each once, and only those that hold a document.
async fn collections_are_sorted_and_in_use(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let documents = provider.documents();
    assert!(documents.collections().await?.is_empty(), "a fresh provider has none");
    walk_documents(&*documents, "asked-for", |query| query.all()).await?;
    let refused = new_document("refused", "a", "x", "text").expect(Expect::Revision(Revision::FIRST));
    documents.put(refused).await.expect_err("there is no document");
    for name in ["b", "a-b", "a_b", "ab", "a", "9", "b"] {
        documents.put(new_document(name, "1", "x", "text")).await?;
        documents.put(new_document(name, "2", "x", "text")).await?;
    }
    let one = DocumentSelection::ids(collection("ab"), [document_id("1")])?;
    documents.remove(&one, 1).await?;
    let both = DocumentSelection::matching(DocumentQuery::builder(collection("a")).exact("x"))?;
    documents.remove(&both, 2).await?;
    let names = documents.collections().await?;
    let names: Vec<_> = names.iter().map(|name| name.as_str()).collect();
    assert_eq!(names, ["9", "a-b", "a_b", "ab", "b"], "in the order of their bytes, without those that are empty");
    Ok(())
}

/// Documents are durable: a handle that is opened after a shutdown finds them as they were.
async fn documents_survive_reopening(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    provider.documents().put(note("a", "x-1", "one")).await?;
    let latest = provider.documents().put(note("a", "x-1", "two").with_metadata(metadata(r#"{"k":1}"#))).await?;
    provider.documents().put(note("b", "x-1", "gone")).await?;
    provider.documents().remove(&with_ids(&["b"]), 1).await?;
    provider.shutdown().await?;
    let documents = stage.open().await?.documents();
    assert_eq!(get(&*documents, "a").await?.as_ref(), Some(&latest));
    assert_eq!(
        walk_documents(&*documents, NOTES, |query| query.under("x")).await?.as_slice(),
        std::slice::from_ref(&latest)
    );
    assert_eq!(walk_documents(&*documents, NOTES, |query| query.all().text("two gone one")).await?, [latest]);
    let next = documents.put(note("a", "x-1", "three").expect(Expect::Revision(Revision::new(2)?))).await?;
    assert_eq!(next.revision.get(), 3);
    Ok(())
}
