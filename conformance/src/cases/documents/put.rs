//! Putting documents: D1 and D2.

use std::collections::BTreeSet;

use memory_core::{Content, DocumentWrite, ErrorKind, Expect, Result, Revision, SpaceSelector};

use super::{all_notes, get, ids, note};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{NOTES, at, collection, kind, metadata, new_document, race, space, walk_documents};

chapter!("documents":
    first_put_creates_and_next_put_replaces ["D1"],
    absent_expectation_refuses_what_exists ["D1"],
    revision_expectation_takes_that_revision_only ["D1"],
    a_confined_put_replaces_nothing_elsewhere ["D1", "D7"],
    selectors_follow_a_new_space ["D1", "D3"],
    of_racing_writers_one_wins ["D1"],
    racing_puts_without_expectation_all_count ["D1"],
    content_and_metadata_fill_their_limits ["V9", "V4", "D1"],
    missing_ids_are_made_by_the_provider ["D2"],
    odd_ids_stay_apart ["D2"],
    same_id_in_two_collections_is_two_documents ["D2", "D3"],
);

/// A document is made by its first put and replaced by the next; createdAt stays, updatedAt is the provider's clock, and
/// the revision counts. Upserts that overwrite the time of creation are a known bug.
async fn first_put_creates_and_next_put_replaces(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    let first = documents.put(note("a", "x-1", "one").with_metadata(metadata(r#"{"k":1,"old":true}"#))).await?;
    assert_eq!((first.revision.get(), first.created_at, first.updated_at), (1, at(1_000), None), "a first put");
    assert_eq!(get(&*documents, "a").await?.as_ref(), Some(&first), "get answers what put answered");

    stage.namespace().clock.set(at(-5));
    let mut write = note("a", "x-1", "two").with_metadata(metadata(r#"{"k":2}"#));
    write.created_at = at(9_999);
    let second = documents.put(write).await?;
    assert_eq!(second.created_at, at(1_000), "createdAt stays that of the first put");
    assert_eq!((second.revision.get(), second.updated_at), (2, Some(at(-5))), "updatedAt is the provider's clock");
    assert_eq!(second.content.as_str(), "two");
    assert_eq!(second.metadata.as_str(), r#"{"k":2}"#, "a put replaces metadata and merges nothing");
    assert_eq!(get(&*documents, "a").await?, Some(second.clone()));
    assert_eq!(walk_documents(&*documents, NOTES, |query| query.all()).await?, [second], "there is one document");
    Ok(())
}

/// `Absent` makes a document once; the second such put is `Conflict` and changes nothing.
async fn absent_expectation_refuses_what_exists(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    let first = documents.put(note("a", "x", "one").expect(Expect::Absent)).await?;
    let refused =
        documents.put(note("a", "y", "two").expect(Expect::Absent)).await.expect_err("the document exists already");
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert_eq!(get(&*documents, "a").await?, Some(first), "a refused put changes nothing");
    Ok(())
}

/// `Revision` takes the document at just this revision: not an older one, not a newer one, and not a missing document.
async fn revision_expectation_takes_that_revision_only(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    let at_revision = |revision| note("a", "x", "new").expect(Expect::Revision(revision));
    let missing = documents.put(at_revision(Revision::FIRST)).await.expect_err("there is no document");
    assert_eq!(missing.kind(), ErrorKind::Conflict);
    assert_eq!(get(&*documents, "a").await?, None, "a refused put makes nothing");

    documents.put(note("a", "x", "one")).await?;
    let second = documents.put(at_revision(Revision::FIRST)).await?;
    assert_eq!(second.revision.get(), 2, "the revision that was just made is not stale");
    for wrong in [1, 3, Revision::MAX.get()] {
        let refused = documents.put(at_revision(Revision::new(wrong)?)).await.expect_err("another revision");
        assert_eq!(refused.kind(), ErrorKind::Conflict, "revision {wrong}");
    }
    assert_eq!(get(&*documents, "a").await?, Some(second), "refused puts change nothing");
    Ok(())
}

/// A caller confined to one path, or excluded from one, neither puts a document elsewhere nor takes one away from there, in a single put or
/// in a batch.
async fn a_confined_put_replaces_nothing_elsewhere(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    let theirs = documents.put(note("theirs", "guild-12", "secret")).await?;
    let within: fn(DocumentWrite) -> Result<DocumentWrite> = |write| write.within(SpaceSelector::under("guild-1")?);
    let outside: fn(DocumentWrite) -> Result<DocumentWrite> = |write| write.outside(SpaceSelector::under("guild-12")?);
    for (mine, confined) in [("one", within), ("other", outside)] {
        assert_eq!(kind(confined(note("a", "guild-12", "one"))), Some(ErrorKind::Unauthorized));
        for expect in [Expect::Any, Expect::Absent, Expect::Revision(Revision::FIRST)] {
            let taking = confined(note("theirs", "guild-1", "mine").expect(expect))?;
            let alone = documents.put(taking.clone()).await.expect_err("it lies elsewhere");
            let among = documents.put_many(vec![confined(note("a", "guild-1", "one"))?, taking]).await;
            let among = among.expect_err("one of them lies elsewhere");
            for error in [alone, among] {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{expect:?}");
                assert!(error.message().ends_with("another document has this id"), "{error}");
            }
            assert_eq!(get(&*documents, "theirs").await?.as_ref(), Some(&theirs), "what lies elsewhere stays");
            assert_eq!(get(&*documents, "a").await?, None, "a refused call put something");
        }
        documents.put(confined(note(mine, "guild-1", "one"))?).await?;
        let moved = documents.put(confined(note(mine, "guild-1-a", "two"))?).await?;
        assert_eq!(moved.revision.get(), 2, "what lies within can be replaced");
    }
    Ok(())
}

/// A put may move a document to another space; every selector then finds it there and no longer where it was.
async fn selectors_follow_a_new_space(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    documents.put(note("a", "old-1-x", "text")).await?;
    documents.put(note("a", "new/2/y", "text")).await?;
    for (old, new) in [
        (SpaceSelector::exact("old-1-x")?, SpaceSelector::exact("new/2/y")?),
        (SpaceSelector::under("old-1")?, SpaceSelector::under("new/2")?),
        (SpaceSelector::under("old")?, SpaceSelector::under("new")?),
        (SpaceSelector::prefix("ol")?, SpaceSelector::prefix("ne")?),
        (SpaceSelector::glob("old*")?, SpaceSelector::glob("new*y")?),
        (SpaceSelector::regex("^old")?, SpaceSelector::regex("^new")?),
    ] {
        let gone = walk_documents(&*documents, NOTES, |query| query.selector(old.clone())).await?;
        assert!(gone.is_empty(), "{old} still finds the document in its former space");
        let found = walk_documents(&*documents, NOTES, |query| query.selector(new.clone())).await?;
        assert_eq!(ids(&found), ["a"], "{new} must find the document in its new space");
    }
    Ok(())
}

/// Of 32 writers with the same expectation one wins, and the others get `Conflict`, through any handle.
async fn of_racing_writers_one_wins(stage: Stage) -> CaseResult {
    let handles = [stage.open().await?.documents(), stage.open().await?.documents()];
    for expect in [Expect::Absent, Expect::Revision(Revision::FIRST), Expect::Revision(Revision::new(2)?)] {
        let puts = race(&handles, 32, move |documents, writer| async move {
            documents.put(note("a", "x", &format!("by {writer}")).expect(expect)).await
        });
        let (won, lost): (Vec<_>, Vec<_>) = puts.await.into_iter().partition(Result::is_ok);
        let lost: Vec<_> = lost.into_iter().filter_map(kind).collect();
        assert_eq!((won.len(), lost), (1, vec![ErrorKind::Conflict; 31]), "one writer wins with {expect:?}");
        let winner = won.into_iter().find_map(Result::ok);
        assert_eq!(get(&*handles[0], "a").await?, winner, "the winner's document stays");
    }
    Ok(())
}

/// Racing puts that expect nothing all succeed, and each counts in the revision.
async fn racing_puts_without_expectation_all_count(stage: Stage) -> CaseResult {
    let handles = [stage.open().await?.documents(), stage.open().await?.documents()];
    let puts =
        race(
            &handles,
            32,
            |documents, writer| async move { documents.put(note("a", "x", &format!("by {writer}"))).await },
        );
    let mut revisions = BTreeSet::new();
    for put in puts.await {
        revisions.insert(put?.revision.get());
    }
    assert_eq!(revisions, (1..=32).collect(), "each put makes a revision of its own");
    assert_eq!(get(&*handles[0], "a").await?.map(|document| document.revision.get()), Some(32));
    Ok(())
}

/// A content of 1 MiB and metadata of 64 KiB go in and come out whole, also when they replace small ones.
async fn content_and_metadata_fill_their_limits(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    let large = "é".repeat(Content::MAX_BYTES / 2);
    let value = "x".repeat(memory_core::Metadata::MAX_BYTES - r#"{"k":""}"#.len());
    let full = metadata(&format!(r#"{{"k":"{value}"}}"#));
    let odd = metadata(r#"{"":0,"$set":{"a.b":[1,18446744073709551615,-0.0,1e-7]},"é":"\\ud800 C:\\x"}"#);
    let small = documents.put(note("a", "x", "small").with_metadata(odd.clone())).await?;
    assert_eq!(small.metadata, odd);
    assert_eq!(get(&*documents, "a").await?, Some(small));
    documents.put(note("a", "x", &large).with_metadata(full.clone())).await?;
    let found = get(&*documents, "a").await?.expect("it was put");
    assert!(found.content.as_str() == large, "a content of 1 MiB comes back whole");
    assert!(found.metadata == full, "metadata of 64 KiB come back whole");
    Ok(())
}

/// A put without an id makes a new document each time, under an id of its own.
async fn missing_ids_are_made_by_the_provider(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    let mut made = BTreeSet::new();
    for expect in [Expect::Any, Expect::Absent].repeat(10) {
        let content = Content::parse("same")?;
        let write = DocumentWrite::new(collection(NOTES), space("x"), content, at(1)).expect(expect);
        let document = documents.put(write).await?;
        assert_eq!(document.revision.get(), 1);
        assert_eq!(documents.get(&document.collection, &document.id).await?.as_ref(), Some(&document));
        made.insert(document.id.as_str().to_owned());
    }
    assert_eq!(made.len(), 20, "each put made an id that nobody has");
    assert_eq!(all_notes(&*documents).await?, made);
    Ok(())
}

/// Ids are compared byte for byte, whatever they hold: no two of these are the same document.
async fn odd_ids_stay_apart(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    let mut odd: Vec<String> = (' '..='~').map(String::from).collect();
    odd.extend(
        ["a ", " a", "A", "é", "e\u{301}", "ﬁ", "fi", "％", "a:b", "a-b", "a/b", "\u{1F600}", "../x"]
            .map(str::to_owned),
    );
    odd.extend(["x".repeat(256), "x".repeat(255), "é".repeat(128)]);
    let odd: BTreeSet<_> = odd.into_iter().collect();
    for id in &odd {
        documents.put(note(id, "x", id).expect(Expect::Absent)).await?;
    }
    for id in &odd {
        let found = get(&*documents, id).await?.expect("it was put");
        assert_eq!((found.id.as_str(), found.content.as_str()), (id.as_str(), id.as_str()));
    }
    assert_eq!(all_notes(&*documents).await?, odd);
    assert_eq!(get(&*documents, "never put").await?, None);
    Ok(())
}

/// An id is unique in its collection only, and a query sees one collection, also if the name of another begins with its name.
async fn same_id_in_two_collections_is_two_documents(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    let names = ["n", "n_1", "n-1", "n-1_", "0", &"z".repeat(64)];
    for name in names {
        documents.put(new_document(name, "a", "x", name).expect(Expect::Absent)).await?;
    }
    documents.put(new_document("n", "a", "x", "again")).await?;
    for name in names {
        let found = walk_documents(&*documents, name, |query| query.all()).await?;
        let (content, revision) = if name == "n" { ("again", 2) } else { (name, 1) };
        assert_eq!(ids(&found), ["a"], "collection {name}");
        assert_eq!((found[0].content.as_str(), found[0].revision.get()), (content, revision), "collection {name}");
        assert_eq!(found[0].collection.as_str(), name);
    }
    Ok(())
}
