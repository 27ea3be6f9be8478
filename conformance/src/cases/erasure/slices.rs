//! Erasures by a query, a slice at a time (E1).

use memory_core::{DocumentQuery, Erasure, MemoryId, MemoryPatch, MemoryQuery, RecordId};

use super::REASON;
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{NOTES, collection, document_id, ledger, new_document, new_memory, note, put};

chapter!("erasure":
    slices_are_taken_until_nothing_is_left ["E1"] needs Erasure,
    what_is_selected_goes_and_nothing_else ["E1"] needs Erasure,
    names_limit_what_a_query_takes ["E1"] needs Erasure,
);

async fn slices_are_taken_until_nothing_is_left(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    for number in 0..25 {
        provider.store(new_memory("a-b", number)).await?;
        put(&*provider, new_document(NOTES, &format!("n{number}"), "a-b", "text")).await?;
    }
    let others = [new_memory("a-bc", 1), new_memory("a", 2)];
    let others = provider.store_many(others.to_vec()).await?;
    let memories = Erasure::memories(MemoryQuery::builder().under("a-b"), REASON)?.limit(10)?;
    let documents = Erasure::documents(DocumentQuery::builder(collection(NOTES)).under("a-b"), REASON)?.limit(10)?;
    for erasure in [memories, documents] {
        let mut counts = Vec::new();
        loop {
            let slice = provider.erase(&erasure).await?;
            counts.push(slice.records.len());
            for record in &slice.records {
                assert!(provider.tombstone(record).await?.is_some());
            }
            if slice.is_complete {
                break;
            }
        }
        assert_eq!(counts.iter().sum::<usize>(), 25);
        assert!(counts.iter().all(|count| *count <= 10), "{counts:?}");
        assert_eq!(provider.erase(&erasure).await?.records, [], "nothing is left");
    }
    let mut left = ledger(&*provider).await?.iter().map(|memory| memory.id).collect::<Vec<_>>();
    left.sort_unstable();
    let mut expected = others;
    expected.sort_unstable();
    assert_eq!(left, expected);
    Ok(())
}

async fn what_is_selected_goes_and_nothing_else(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    for (id, user) in [("ana", "ana"), ("bo", "bo")] {
        let mut memory = new_memory("a", 1);
        memory.metadata = crate::fixture::metadata(&format!(r#"{{"user":"{user}"}}"#));
        provider.store(memory).await?;
        put(&*provider, new_document(NOTES, id, "a", &format!("{user} likes tea"))).await?;
    }
    let of_ana = Erasure::memories(MemoryQuery::builder().all().filter_text("metadata.user = 'ana'"), REASON)?;
    assert_eq!(provider.erase(&of_ana).await?.records.len(), 1);
    let left = ledger(&*provider).await?;
    assert_eq!(left.iter().map(|memory| memory.metadata.as_str()).collect::<Vec<_>>(), [r#"{"user":"bo"}"#]);
    let of_bo = DocumentQuery::builder(collection(NOTES)).all().text("bo");
    assert_eq!(provider.erase(&Erasure::documents(of_bo, REASON)?).await?.records, [note("bo")]);
    Ok(())
}

/// An erasure by a query that also names records takes only those that it names and that the query still finds.
async fn names_limit_what_a_query_takes(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let ids = provider.store_many((0..3).map(|number| new_memory("a", number)).collect()).await?;
    provider.update(ids[1], MemoryPatch::new().with_status(memory_core::Status::Failed)).await?;
    let pending = || MemoryQuery::builder().exact("a").status(memory_core::Status::Pending);
    let among = |some: &[MemoryId]| {
        Erasure::memories(pending(), REASON)?.among(some.iter().copied().map(RecordId::from).collect::<Vec<_>>())
    };
    let slice = provider.erase(&among(&[ids[0], ids[1], MemoryId::generate()])?).await?;
    assert_eq!((slice.records, slice.is_complete), (vec![ids[0].into()], true));
    for id in ["n", "o"] {
        put(&*provider, new_document(NOTES, id, "a", "text")).await?;
    }
    put(&*provider, new_document(NOTES, "n", "b", "text")).await?;
    let in_a = Erasure::documents(DocumentQuery::builder(collection(NOTES)).exact("a"), REASON)?;
    let slice = provider.erase(&in_a.among([note("n"), note("o"), note("never")])?).await?;
    assert_eq!((slice.records, slice.is_complete), (vec![note("o")], true));
    // Names of records that such a query never finds.
    let of_memories = Erasure::memories(MemoryQuery::builder().exact("b"), REASON)?.among([note("n")])?;
    let drafts = Erasure::documents(DocumentQuery::builder(collection("drafts")).exact("b"), REASON)?;
    let of_documents = Erasure::documents(DocumentQuery::builder(collection(NOTES)).exact("a"), REASON)?;
    for erasure in [of_memories, drafts.among([note("n")])?, of_documents.among([ids[2].into()])?] {
        let slice = provider.erase(&erasure).await?;
        assert_eq!((slice.records, slice.is_complete), (vec![], true));
    }
    assert_eq!(ledger(&*provider).await?.len(), 2);
    assert!(provider.documents().get(&collection(NOTES), &document_id("n")).await?.is_some());
    Ok(())
}
