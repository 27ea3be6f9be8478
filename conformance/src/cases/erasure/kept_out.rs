//! Erased records can't come back (E3).

use std::sync::Arc;

use futures::future::join_all;
use memory_core::{ErrorKind, History, MemoryId, Outcome, QueryBuilder, Record};

use super::erase;
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{
    NOTES, at, collection, document_id, key, kind, ledger, new_document, new_memory, note, put, remove_note, the,
    walk_documents,
};

chapter!("erasure":
    a_key_that_was_erased_is_not_stored_again ["E3"] needs Erasure,
    a_backup_brings_nothing_back ["E3"] needs Erasure,
    a_document_that_is_put_anew_is_another_one ["E3"] needs Erasure,
    a_tombstone_keeps_out_all_that_had_its_name ["E3"] needs Erasure,
    nothing_comes_behind_the_end_of_time ["E3"] needs Erasure,
);

async fn a_key_that_was_erased_is_not_stored_again(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let keyed = |name: &str| new_memory("a", 1).with_idempotency_key(key(name));
    let erased = provider.store(keyed("k")).await?;
    erase(&*provider, [erased.into()]).await?;
    for handle in [&provider, &stage.open().await?] {
        let again = handle.store(keyed("k")).await.expect_err("it was erased");
        assert_eq!((again.kind(), again.outcome()), (ErrorKind::Erased, Outcome::NotDone));
        let batch = handle.store_many(vec![keyed("l"), keyed("k")]).await;
        assert_eq!(kind(batch), Some(ErrorKind::Erased));
        assert_eq!(ledger(&**handle).await?, [], "all or none");
    }
    // Concurrent stores, which an engine may write in one batch: a refused one makes no other one fail.
    let stores = join_all((0..20).map(|number| {
        let (provider, memory) = (Arc::clone(&provider), keyed(if number % 2 == 0 { "k" } else { "m" }));
        async move { provider.store(memory).await }
    }));
    for (number, stored) in stores.await.into_iter().enumerate() {
        let expected = (number % 2 == 0).then_some(ErrorKind::Erased);
        assert_eq!(kind(stored), expected, "{number}");
    }
    assert_eq!(ledger(&*provider).await?.len(), 1);
    Ok(())
}

async fn a_backup_brings_nothing_back(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let mut backup = Vec::new();
    for number in 0..3 {
        let memory = new_memory("a", number).with_idempotency_key(key(&format!("k{number}")));
        backup.push(the(&*provider, provider.store(memory).await?).await?);
        put(&*provider, new_document(NOTES, &format!("n{number}"), "a", "text")).await?;
    }
    let documents = walk_documents(&*provider.documents(), NOTES, QueryBuilder::all).await?;
    stage.namespace().clock.set(at(5_000_000));
    erase(&*provider, [backup[1].id.into(), note("n1")]).await?;
    let place = documents.iter().position(|document| document.id.as_str() == "n1").ok_or("a document")?;
    // Its key keeps it out under another id, too.
    let other = memory_core::Memory { id: MemoryId::generate(), ..backup[1].clone() };
    let mut memories = backup.clone();
    memories.push(other);
    for report in [provider.restore(memories.clone()).await?, provider.restore_newer(memories).await?] {
        assert_eq!((report.written, report.equal, report.erased, report.conflicts), (0, 2, vec![1, 3], vec![]));
    }
    let store = provider.documents();
    for report in [store.restore(documents.clone()).await?, store.restore_newer(documents.clone()).await?] {
        assert_eq!((report.written, report.equal, report.erased, report.conflicts), (0, 2, vec![place], vec![]));
    }
    assert_eq!(kind(provider.get(backup[1].id).await), Some(ErrorKind::Erased));
    Ok(())
}

async fn a_document_that_is_put_anew_is_another_one(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let before = put(&*provider, new_document(NOTES, "n", "a", "before")).await?;
    stage.namespace().clock.set(at(5_000_000));
    erase(&*provider, [note("n")]).await?;
    let mut write = new_document(NOTES, "n", "a", "after");
    write.created_at = at(7);
    let after = put(&*provider, write).await?;
    assert_eq!((after.revision, after.created_at), (memory_core::Revision::FIRST, at(5_000_001)));
    if stage.harness().keeps_history() {
        let history = provider.history(&History::of(note("n")).with_removed()).await?;
        let records: Vec<_> = history.versions.into_iter().map(|version| version.record).collect();
        assert_eq!(records, [Some(Record::Document(after.clone()))]);
    }
    let store = provider.documents();
    assert_eq!(store.restore(vec![before]).await?.conflicts, [0], "what is there stays");
    remove_note(&*provider, "n").await?;
    let report = store.restore(vec![after.clone()]).await?;
    assert_eq!((report.written, report.erased), (1, vec![]), "it was put after the erasure");
    assert!(provider.tombstone(&note("n")).await?.is_some());
    Ok(())
}

/// A tombstone keeps out every earlier document of its name, however late its createdAt, even one that was removed before the erasure.
async fn a_tombstone_keeps_out_all_that_had_its_name(stage: Stage) -> CaseResult {
    if !stage.harness().keeps_history() {
        return Ok(());
    }
    let provider = stage.open().await?;
    let mut late = new_document(NOTES, "n", "a", "text");
    late.created_at = at(9_000_000);
    let late = put(&*provider, late).await?;
    remove_note(&*provider, "n").await?;
    stage.namespace().clock.set(at(5_000_000));
    assert_eq!(erase(&*provider, [note("n")]).await?, [note("n")]);
    assert_eq!(provider.documents().restore(vec![late]).await?.erased, [0]);
    Ok(())
}

/// A document at the end of time leaves no later createdAt, so a put after its erasure is refused: a restore would
/// leave out the new document.
async fn nothing_comes_behind_the_end_of_time(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let last = |content: &str| {
        let mut write = new_document(NOTES, "n", "a", content);
        write.created_at = memory_core::Timestamp::MAX;
        write
    };
    put(&*provider, last("text")).await?;
    assert_eq!(erase(&*provider, [note("n")]).await?, [note("n")]);
    for write in [last("again"), new_document(NOTES, "n", "a", "again")] {
        let refused = put(&*provider, write).await.expect_err("nothing comes after it");
        assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Conflict, Outcome::NotDone));
    }
    assert_eq!(provider.documents().get(&collection(NOTES), &document_id("n")).await?, None);
    Ok(())
}
