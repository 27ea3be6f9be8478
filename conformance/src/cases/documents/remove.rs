//! Removing documents: D4 and D5.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::join_all;
use memory_core::plugin::{Arguments, Scope};
use memory_core::{DocumentSelection, ErrorKind, Expect, MAX_REMOVED_BYTES, Revision, SpaceSelector, Spaces};

use super::{all_notes, get, note, notes, removed, with_ids};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{
    NOTES, at, collection, document_id, kind, metadata, new_document, new_memory, race, space, walk_documents,
};

chapter!("documents":
    remove_by_ids_reports_what_was_there ["D4"],
    remove_by_spaces_leaves_the_siblings ["D4"],
    remove_by_filter_and_text_takes_what_matches ["D4"],
    remove_over_max_removes_nothing ["D4"],
    remove_takes_a_bounded_number_of_bytes ["D4"],
    remove_is_complete_beyond_a_page ["D4", "D5"],
    remove_is_exact_about_ids ["D4", "D5"],
    concurrent_removals_report_each_id_once ["D4"],
    removal_spares_what_changed_meanwhile ["D4"],
    a_removal_that_looks_into_much_holds_up_no_store ["D4", "L8"],
    removed_documents_are_gone_everywhere ["D5"],
    put_after_removal_starts_anew ["D5", "D1"],
);

/// Other stores finish long before a removal has matched all the texts that it selects (an engine with one writer that matched within its
/// transaction).
async fn a_removal_that_looks_into_much_holds_up_no_store(stage: Stage) -> CaseResult {
    const NOTES: usize = 40;
    let provider = stage.open().await?;
    let documents = provider.documents();
    let text = "ab".repeat(100_000);
    let names: Vec<_> = (0..NOTES).map(|number| number.to_string()).collect();
    for name in &names {
        documents.put(note(name, "x", &text)).await?;
    }
    let filter: Vec<_> = (0..100).map(|number| format!("text LIKE '%a_a{number}b%'")).collect();
    let ids = names.iter().map(|name| document_id(name));
    let selection = DocumentSelection::ids_where(ids, notes().all().filter_text(&filter.join(" OR ")))?;
    let removal = tokio::spawn(async move { documents.remove(&selection, NOTES).await });
    for time in 0..20 {
        provider.store(new_memory("a", time)).await?;
    }
    assert!(!removal.is_finished(), "the stores came after the removal: {:?}", removal.await?);
    removal.abort();
    Ok(())
}

/// A removal by ids takes those that are there, and reports them once and in ascending order.
async fn remove_by_ids_reports_what_was_there(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    for id in ["c", "a", "b"] {
        documents.put(note(id, "x", "text")).await?;
        documents.put(new_document("other", id, "x", "text")).await?;
    }
    let gone = documents.remove(&with_ids(&["c", "missing", "a", "c"]), 10).await?;
    assert_eq!(removed(&gone), ["a", "c"]);
    assert_eq!(all_notes(&*documents).await?, ["b".to_owned()].into());
    assert!(documents.remove(&with_ids(&["a", "c"]), 10).await?.is_empty(), "they are gone already");
    assert_eq!(walk_documents(&*documents, "other", |query| query.all()).await?.len(), 3, "another collection stays");
    let nowhere = DocumentSelection::ids(collection("never-used"), [document_id("a")])?;
    assert!(documents.remove(&nowhere, 10).await?.is_empty(), "an unknown collection holds nothing");
    Ok(())
}

/// A removal by spaces takes just those: erasing `u-1` leaves `u-10` alone.
async fn remove_by_spaces_leaves_the_siblings(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    for id in ["u-1", "u-1-a", "u-10", "u-1*", "u-[1]", "U-1", "u", "v"] {
        documents.put(note(id, id, "text")).await?;
    }
    let selection = DocumentSelection::matching(notes().under("u-1").exact("v").limit(1))?;
    let gone = documents.remove(&selection, 3).await?;
    assert_eq!(removed(&gone), ["u-1", "u-1-a", "v"], "the limit of the query means nothing for a removal");
    let left = ["u-10", "u-1*", "u-[1]", "U-1", "u"].map(str::to_owned);
    assert_eq!(all_notes(&*documents).await?, left.into());
    Ok(())
}

/// A removal by ids, spaces, filter and text takes the documents that satisfy all of these; by a text without a word it takes none.
async fn remove_by_filter_and_text_takes_what_matches(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    for (id, space_id, content, topic) in [
        ("a", "x-1", "red apple", "1"),
        ("b", "x-1", "green pear", "1"),
        ("c", "y-1", "red herring", "2"),
        ("d", "x-2", "reddish", "\"1\""),
        ("e", "x-2", "red", "2"),
    ] {
        let topic = metadata(&format!(r#"{{"topic":{topic}}}"#));
        documents.put(note(id, space_id, content).with_metadata(topic)).await?;
    }
    let named = ["a", "b", "c", "missing"].map(document_id);
    let steps: [(_, _, &[_]); 4] = [
        ("a text without words", DocumentSelection::matching(notes().under("x").text("!?"))?, &[]),
        ("ids, a path and a text", DocumentSelection::ids_where(named, notes().under("x").text("red"))?, &["a"]),
        ("a text", DocumentSelection::matching(notes().all().text("RED, of course!"))?, &["c", "e"]),
        ("a filter", DocumentSelection::matching(notes().all().filter_text("metadata.topic = 1"))?, &["b"]),
    ];
    for (what, selection, taken) in steps {
        assert_eq!(removed(&documents.remove(&selection, 2).await?), taken, "{what}");
    }
    assert_eq!(all_notes(&*documents).await?, ["d".to_owned()].into());
    Ok(())
}

/// A removal that finds more than `max` is `LimitExceeded` and removes nothing; exactly `max` is fine.
async fn remove_over_max_removes_nothing(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    let names: Vec<_> = (0..12).map(|place| format!("{place:02}")).collect();
    for id in &names {
        documents.put(note(id, &format!("s-{id}"), "same words")).await?;
    }
    let all: Vec<_> = names.iter().map(String::as_str).collect();
    let selections = [
        with_ids(&all),
        DocumentSelection::matching(notes().under("s"))?,
        DocumentSelection::matching(notes().all().text("words"))?,
    ];
    for selection in &selections {
        for max in [0, 1, 11] {
            let refused = documents.remove(selection, max).await.expect_err("12 documents are over the max");
            assert_eq!(refused.kind(), ErrorKind::LimitExceeded, "max {max}");
        }
    }
    assert_eq!(all_notes(&*documents).await?.len(), 12, "a refused removal takes nothing");
    assert_eq!(removed(&documents.remove(&selections[1], 12).await?), all, "exactly max is fine");
    assert!(documents.remove(&selections[1], 0).await?.is_empty(), "no document is not more than 0");
    Ok(())
}

/// A removal takes at most 64 MiB of texts, however many documents the caller allows; its dry run has the same limit.
async fn remove_takes_a_bounded_number_of_bytes(stage: Stage) -> CaseResult {
    const LARGE: usize = 1_000_000;
    let provider = stage.open().await?;
    let documents = provider.documents();
    let names: Vec<_> = (0..=MAX_REMOVED_BYTES / LARGE).map(|place| format!("{place:02}")).collect();
    for id in &names {
        documents.put(note(id, "s", &"x".repeat(LARGE))).await?;
    }
    let all: Vec<_> = names.iter().map(String::as_str).collect();
    for selection in [with_ids(&all), DocumentSelection::matching(notes().under("s"))?] {
        let refused =
            [documents.remove(&selection, usize::MAX).await, selection.preview(&*documents, usize::MAX).await];
        for refused in refused {
            assert_eq!(kind(refused), Some(ErrorKind::LimitExceeded));
        }
    }
    let plugin = provider.plugin();
    let scope = Scope::new(Spaces::All).with_writable(space("s")).with_collections([collection(NOTES)]);
    let arguments = Arguments::parse(r#"{"where": "createdAt > 0", "max": 100}"#)?;
    let removal = plugin.executor("memory:remove_document").expect("a standard verb").call(&scope, &arguments).await;
    let refused = removal.expect_err("a model asks for too many bytes");
    assert!(refused.message().contains("bytes"), "the sentence says what is over its bound: {refused}");
    assert!(!refused.message().contains("raise max"), "a higher max does not help: {refused}");
    assert_eq!(removed(&documents.remove(&with_ids(&all[1..]), usize::MAX).await?), all[1..], "these are just below");
    assert_eq!(all_notes(&*documents).await?, [all[0].to_owned()].into());
    Ok(())
}

/// A removal is complete however many it takes: search engines that answer ten at a time leave the rest behind.
async fn remove_is_complete_beyond_a_page(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    let puts = (0..1_234).map(|place| {
        let space_id = if place % 2 == 0 { "even-1" } else { "odd-1" };
        note(&format!("{place:04}"), space_id, "many words")
    });
    for put in join_all(puts.map(|write| documents.put(write))).await {
        put?;
    }
    let evens = DocumentSelection::matching(notes().under("even").text("many"))?;
    assert_eq!(
        documents.remove(&evens, 616).await.expect_err("617 documents are over the max").kind(),
        ErrorKind::LimitExceeded
    );
    let gone = documents.remove(&evens, 617).await?;
    assert_eq!(gone.len(), 617);
    assert!(gone.is_sorted(), "ids are reported in ascending order");
    assert_eq!(all_notes(&*documents).await?.len(), 617);
    let named = (0..1_000).map(|place| document_id(&format!("{place:04}")));
    let named = DocumentSelection::ids(collection(NOTES), named)?;
    assert_eq!(documents.remove(&named, 1_000).await?.len(), 500, "a thousand ids, of which half are there");
    let rest = DocumentSelection::matching(notes().prefix("o"))?;
    assert_eq!(documents.remove(&rest, 10_000).await?.len(), 117);
    assert!(all_notes(&*documents).await?.is_empty());
    Ok(())
}

/// A removal takes the ids that it names and no others: none that begin with a named id, and none that match it as a pattern.
async fn remove_is_exact_about_ids(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    let odd = [
        "u1", "u10", "u1:x", "u", "*", "u*", "u?", "u[1]", "[u]1", "%", "u%", "u_", "_", "U1", "u1 ", "\\", "u\\1", "'",
    ];
    for id in odd {
        documents.put(note(id, id, "same")).await?;
    }
    let mut left: BTreeSet<_> = odd.map(str::to_owned).into();
    for id in ["u*", "*", "%", "_", "[u]1", "u1", "?", "u?", "\\", "u_", "'", "U1"] {
        let gone = documents.remove(&with_ids(&[id]), 1).await?;
        let was_there = left.remove(id);
        assert_eq!(removed(&gone), if was_there { vec![id] } else { vec![] }, "removing {id:?}");
        assert_eq!(all_notes(&*documents).await?, left, "after removing {id:?}");
        let found = walk_documents(&*documents, NOTES, |query| query.prefix("u").glob("*").text("same")).await?;
        assert_eq!(found.len(), left.len(), "by text after removing {id:?}");
    }
    Ok(())
}

/// Of removals at the same time each takes what the others left: every id is reported once.
async fn concurrent_removals_report_each_id_once(stage: Stage) -> CaseResult {
    let handles = [stage.open().await?.documents(), stage.open().await?.documents()];
    let names: Vec<_> = (0..40).map(|place| format!("{place:02}")).collect();
    for id in &names {
        handles[0].put(note(id, "x-1", "text")).await?;
    }
    let selections = [
        DocumentSelection::matching(notes().under("x"))?,
        with_ids(&names[..25].iter().map(String::as_str).collect::<Vec<_>>()),
        DocumentSelection::matching(notes().all().text("text"))?,
    ];
    let removals = race(&handles, 12, |documents, place| {
        let selection = selections[place % 3].clone();
        async move { documents.remove(&selection, 100).await }
    });
    let mut reported = Vec::new();
    for removal in removals.await {
        reported.extend(removal?.iter().map(|id| id.as_str().to_owned()));
    }
    reported.sort();
    assert_eq!(reported, names, "each document is removed, and reported, once");
    assert!(all_notes(&*handles[1]).await?.is_empty());
    Ok(())
}

/// A document that moves out of a selection is removed before its move or not at all: then the mover finds it gone, or else
/// it stays.
async fn removal_spares_what_changed_meanwhile(stage: Stage) -> CaseResult {
    let handles = [stage.open().await?.documents(), stage.open().await?.documents()];
    for place in 0..40 {
        handles[0].put(note(&format!("{place:02}"), "from-1", "text")).await?;
    }
    let movers = (0..40).map(|place| {
        let documents = Arc::clone(&handles[0]);
        let write = note(&format!("{place:02}"), "to-1", "text").expect(Expect::Revision(Revision::FIRST));
        tokio::spawn(async move { documents.put(write).await })
    });
    let (movers, documents) = (movers.collect::<Vec<_>>(), Arc::clone(&handles[1]));
    let selection = DocumentSelection::matching(notes().under("from"))?;
    let remover = tokio::spawn(async move { documents.remove(&selection, 100).await });
    let mut moved = BTreeSet::new();
    for mover in join_all(movers).await {
        match mover? {
            Ok(document) => drop(moved.insert(document.id.as_str().to_owned())),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "the document was removed: {error}"),
        }
    }
    let gone = remover.await??;
    assert_eq!(all_notes(&*handles[0]).await?, moved, "what was moved stays, and nothing else does");
    assert_eq!(gone.len() + moved.len(), 40, "each document was either moved or removed");
    Ok(())
}

/// A removed document is gone from every read path, and from the list of collections with the last one.
async fn removed_documents_are_gone_everywhere(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let (documents, other) = (provider.documents(), stage.open().await?.documents());
    documents.put(note("a", "x-1", "apple").with_metadata(metadata(r#"{"k":"v"}"#))).await?;
    documents.put(note("a", "x-2", "apple pie")).await?;
    documents.remove(&with_ids(&["a"]), 1).await?;
    for documents in [&documents, &other, &stage.open().await?.documents()] {
        assert_eq!(get(&**documents, "a").await?, None, "by id");
        assert!(all_notes(&**documents).await?.is_empty(), "by all spaces");
        for selector in [
            SpaceSelector::exact("x-2")?,
            SpaceSelector::exact("x-1")?,
            SpaceSelector::under("x")?,
            SpaceSelector::prefix("x")?,
            SpaceSelector::glob("x*")?,
            SpaceSelector::regex("x")?,
        ] {
            let found = walk_documents(&**documents, NOTES, |query| query.selector(selector.clone())).await?;
            assert!(found.is_empty(), "by {selector}");
        }
        let found = walk_documents(&**documents, NOTES, |query| query.all().text("apple pie")).await?;
        assert!(found.is_empty(), "by text");
        assert!(documents.collections().await?.is_empty(), "in the list of collections");
    }
    Ok(())
}

/// After its removal an id is free: `Absent` holds, a revision does not, and the next document starts at revision 1.
async fn put_after_removal_starts_anew(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    documents.put(note("a", "x-1", "apple")).await?;
    documents.put(note("a", "x-1", "banana")).await?;
    documents.remove(&with_ids(&["a"]), 1).await?;
    let stale = note("a", "x-1", "cherry").expect(Expect::Revision(Revision::new(2)?));
    assert_eq!(documents.put(stale).await.expect_err("it is gone").kind(), ErrorKind::Conflict);
    let mut write = note("a", "y-1", "date").expect(Expect::Absent);
    write.created_at = at(5);
    let again = documents.put(write).await?;
    assert_eq!((again.revision.get(), again.created_at, again.updated_at), (1, at(5), None));
    let found = walk_documents(&*documents, NOTES, |query| query.all().text("apple banana cherry")).await?;
    assert!(found.is_empty(), "the words of the removed document are gone");
    assert_eq!(walk_documents(&*documents, NOTES, |query| query.under("y").text("date")).await?, [again]);
    Ok(())
}
