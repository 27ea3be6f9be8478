//! The histories of documents, which a removal ends.

use memory_core::{DocumentSelection, ErrorKind, Expect, History, Record, Revision};

use super::{BEGIN, records, set_clock, shown, versions_of, walk};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{NOTES, actor, at, collection, document_id, kind, metadata, new_document, note, remove_note};

chapter!("history":
    each_put_is_a_version ["H1"] needs History,
    a_put_many_leaves_all_versions_or_none ["H1", "D7"] needs History,
    a_removal_ends_a_history ["H5"] needs History,
    a_new_put_shows_nothing_of_what_was_removed ["H5"] needs History,
    operators_read_what_was_before_a_removal ["H5"] needs History,
    a_removal_that_is_refused_ends_no_history ["H5", "D4"] needs History,
    restored_documents_begin_their_history ["H1"] needs History,
);

/// Each version has content, metadata and space as they were.
async fn each_put_is_a_version(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let documents = provider.documents();
    let mut expected = Vec::new();
    for (number, (space, content, meta)) in
        (0..).zip([("a", "red", "{}"), ("a", "red, blue", r#"{"n":1}"#), ("b-c", "", r#"{"n":1}"#), ("a", "é", "{}")])
    {
        set_clock(&stage, number);
        let write = new_document(NOTES, "n", space, content).with_metadata(metadata(meta));
        let put = documents.put(write.by(actor(&format!("writer {number}")))).await?;
        expected.insert(0, Some(Record::Document(put)));
    }
    documents.put(new_document("others", "n", "a", "of another collection")).await?;
    let versions = versions_of(&*provider, note("n")).await?;
    assert_eq!(records(&versions), expected);
    let due = [(4, Some(3), Some("writer 3")), (3, Some(2), Some("writer 2")), (2, Some(1), Some("writer 1"))];
    assert_eq!(shown(&versions)[..3], due);
    assert_eq!(shown(&versions)[3], (1, Some(0), Some("writer 0")));
    Ok(())
}

/// A refused batch leaves no versions.
async fn a_put_many_leaves_all_versions_or_none(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let documents = provider.documents();
    let write = |id: &str, content: &str| new_document(NOTES, id, "a", content);
    documents.put_many(vec![write("a", "1").by(actor("ana")), write("b", "1")]).await?;
    let refused = vec![write("a", "2"), write("c", "1"), write("b", "2").expect(Expect::Absent)];
    assert_eq!(kind(documents.put_many(refused).await), Some(ErrorKind::Conflict));
    documents.put_many(vec![write("b", "3"), write("c", "3"), write("a", "3")]).await?;
    let counts = [("a", 2), ("b", 2), ("c", 1)];
    for (id, count) in counts {
        let versions = versions_of(&*provider, note(id)).await?;
        assert_eq!(versions.len(), count, "{id}");
        let first = versions.last().and_then(|first| first.actor.as_ref());
        assert_eq!(first.map(|actor| actor.as_str()), (id == "a").then_some("ana"));
    }
    Ok(())
}

/// From its removal on, the versions of a document are gone, for reads of an earlier time too.
async fn a_removal_ends_a_history(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let documents = provider.documents();
    for content in ["one", "two"] {
        documents.put(new_document(NOTES, "n", "a", content)).await?;
        documents.put(new_document(NOTES, "other", "a", content)).await?;
    }
    set_clock(&stage, 10);
    assert!(provider.get_as_of(&note("n"), at(BEGIN + 5)).await?.is_some());
    remove_note(&*provider, "n").await?;
    assert!(versions_of(&*provider, note("n")).await?.is_empty());
    for millis in [0, 5, 10] {
        assert_eq!(provider.get_as_of(&note("n"), at(BEGIN + millis)).await?, None);
    }
    assert_eq!(versions_of(&*provider, note("other")).await?.len(), 2);
    Ok(())
}

/// Another document put under the id has a history of its own.
async fn a_new_put_shows_nothing_of_what_was_removed(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let documents = provider.documents();
    documents.put(new_document(NOTES, "n", "secret", "hidden")).await?;
    documents.put(new_document(NOTES, "n", "secret", "hidden too")).await?;
    set_clock(&stage, 10);
    remove_note(&*provider, "n").await?;
    set_clock(&stage, 20);
    let put = documents.put(new_document(NOTES, "n", "a", "new").by(actor("ana"))).await?;
    set_clock(&stage, 30);
    let versions = versions_of(&*provider, note("n")).await?;
    assert_eq!(shown(&versions), [(1, Some(20), Some("ana"))]);
    assert_eq!(records(&versions), [Some(Record::Document(put.clone()))]);
    let again = documents.put(new_document(NOTES, "n", "a", "newer")).await?;
    assert_eq!(
        records(&versions_of(&*provider, note("n")).await?),
        [again, put].map(|one| Some(Record::Document(one)))
    );
    for millis in [0, 9, 10, 19] {
        assert_eq!(provider.get_as_of(&note("n"), at(BEGIN + millis)).await?, None, "{millis}");
    }
    assert!(provider.get_as_of(&note("n"), at(BEGIN + 20)).await?.is_some());
    Ok(())
}

/// Operators who ask for it by name get the versions from before a removal, and the removal itself.
async fn operators_read_what_was_before_a_removal(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let documents = provider.documents();
    let mut expected = Vec::new();
    for (number, life) in (0..).zip(["first", "second"]) {
        set_clock(&stage, 10 * number);
        for content in ["one", "two"] {
            let write = new_document(NOTES, "n", life, &format!("{life} {content}"));
            expected.insert(0, Some(Record::Document(documents.put(write).await?)));
        }
        set_clock(&stage, 10 * number + 5);
        let one = DocumentSelection::ids(collection(NOTES), [document_id("n")])?;
        documents.remove(&one.by(actor("operator")), 1).await?;
        expected.insert(0, None);
    }
    for limit in [1, 2, 50] {
        let all = walk(&*provider, &History::of(note("n")).limit(limit)?.with_removed()).await?;
        assert_eq!(records(&all), expected, "{limit}");
        let due = [
            (2, Some(15), Some("operator")),
            (2, Some(10), None),
            (1, Some(10), None),
            (2, Some(5), Some("operator")),
            (2, Some(0), None),
            (1, Some(0), None),
        ];
        assert_eq!(shown(&all), due);
    }
    assert!(versions_of(&*provider, note("n")).await?.is_empty());
    Ok(())
}

/// A removal over its limit removes nothing, and ends no history.
async fn a_removal_that_is_refused_ends_no_history(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let documents = provider.documents();
    for id in ["a", "b"] {
        documents.put(new_document(NOTES, id, "a", "text")).await?;
    }
    let both = DocumentSelection::ids(collection(NOTES), ["a", "b"].map(document_id))?;
    assert_eq!(kind(documents.remove(&both, 1).await), Some(ErrorKind::LimitExceeded));
    for id in ["a", "b"] {
        let all = walk(&*provider, &History::of(note(id)).with_removed()).await?;
        assert_eq!(shown(&all), [(1, Some(0), None)], "{id}");
    }
    Ok(())
}

/// A restored document has a history from then on.
async fn restored_documents_begin_their_history(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let documents = provider.documents();
    let mut restored = documents.put(new_document(NOTES, "n", "a", "text")).await?;
    remove_note(&*provider, "n").await?;
    restored.revision = Revision::new(7)?;
    restored.updated_at = Some(at(7));
    set_clock(&stage, 10);
    documents.restore(vec![restored.clone()]).await?;
    set_clock(&stage, 20);
    documents.put(new_document(NOTES, "n", "a", "another text").by(actor("ana"))).await?;
    let versions = versions_of(&*provider, note("n")).await?;
    assert_eq!(shown(&versions), [(8, Some(20), Some("ana")), (7, Some(10), None)]);
    assert_eq!(versions[1].record, Some(Record::Document(restored)));
    Ok(())
}
