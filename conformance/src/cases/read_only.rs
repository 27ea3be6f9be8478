//! A namespace that an operator has made read-only: L9.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures::StreamExt as _;
use futures::future::try_join_all;
use memory_core::{
    ChangeKind, Collections, DocumentSelection, Error, ErrorKind, Memory, MemoryId, MemoryPatch, MemoryProvider,
    MemoryQuery, Outcome, Result, Status, Watch, WatchFrom, Watched,
};

use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{NOTES, collection, document_id, key, ledger, new_document, new_memory, the, walk_documents};

chapter!("read_only":
    each_write_is_refused_and_reads_go_on ["L9"] needs ReadOnly,
    every_handle_and_every_restart_is_refused ["L9"] needs ReadOnly,
    nothing_is_committed_behind_the_answer ["L9", "W1"] needs ReadOnly,
    either_call_can_be_repeated ["L9"] needs ReadOnly,
    other_namespaces_are_written ["L9", "L5"] needs ReadOnly,
    changes_from_before_are_told ["L9", "C2"] needs Feed,
);

/// How many callers write concurrently.
const WRITERS: usize = 10;
/// How many kinds of writes they make.
const WAYS: usize = 5;
/// How often the namespace is made read-only meanwhile.
const ROUNDS: usize = 8;

/// Checks that a write was refused: nothing is done, and the same call can succeed later.
fn check_refused<T>(what: &str, result: Result<T>) {
    let Err(error) = result else { panic!("{what} is not refused") };
    let told = (error.kind(), error.outcome(), error.is_retryable());
    assert_eq!(told, (ErrorKind::Unavailable, Outcome::NotDone, true), "{what}: {error}");
}

/// Makes a write of each kind. Returns the kinds, each with its error if it failed.
async fn write_each(
    provider: &dyn MemoryProvider,
    id: MemoryId,
    restored: Memory,
) -> Vec<(&'static str, Option<Error>)> {
    let documents = provider.documents();
    let later = Memory { revision: restored.revision.next().expect("a revision"), ..restored.clone() };
    let note = |id: &str| new_document(NOTES, id, "a-1", "text");
    let one = DocumentSelection::ids(collection(NOTES), [document_id("kept")]).expect("a selection");
    let again =
        documents.get(&collection(NOTES), &document_id("kept")).await.expect("it is read").expect("the note exists");
    let other = memory_core::Document { id: document_id("restored"), ..again };
    vec![
        ("a store", provider.store(new_memory("a-1", 5)).await.err()),
        ("a batch", provider.store_many(vec![new_memory("a-1", 6), new_memory("b", 7)]).await.err()),
        ("an update", provider.update(id, MemoryPatch::new().with_status(Status::Failed)).await.err()),
        ("a restore", provider.restore(vec![restored.clone()]).await.err()),
        ("a restore of a later version", provider.restore_newer(vec![later]).await.err()),
        ("a put", documents.put(note("new")).await.err()),
        ("a put in place", documents.put(note("kept")).await.err()),
        ("puts", documents.put_many(vec![note("x"), note("y")]).await.err()),
        ("a restore of documents", documents.restore(vec![other.clone()]).await.err()),
        ("a restore of later documents", documents.restore_newer(vec![other]).await.err()),
        ("a removal", documents.remove(&one, 1).await.err()),
    ]
}

/// Writes of each kind are refused with the same error, and work again afterwards; reads work all along.
async fn each_write_is_refused_and_reads_go_on(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let documents = provider.documents();
    let id = provider.store(new_memory("a-1", 1)).await?;
    documents.put(new_document(NOTES, "kept", "a-1", "text")).await?;
    let restored = new_memory("a-2", 3).into_memory(MemoryId::from_bytes([9; 16]));
    let before = ledger(&*provider).await?;
    assert!(!provider.is_read_only().await?);
    provider.set_read_only(true).await?;
    assert!(provider.is_read_only().await?);
    for (what, error) in write_each(&*provider, id, restored.clone()).await {
        check_refused(what, error.map_or(Ok(()), Err));
    }
    assert_eq!(ledger(&*provider).await?, before);
    assert_eq!(the(&*provider, id).await?, before[0]);
    assert_eq!(walk_documents(&*documents, NOTES, |query| query.all()).await?.len(), 1);
    provider.check_health().await?;
    // A call that changes nothing is no write.
    provider.update(id, MemoryPatch::new()).await?;
    provider.set_read_only(false).await?;
    for (what, error) in write_each(&*provider, id, restored).await {
        assert!(error.is_none(), "{what} is still refused: {error:?}");
    }
    Ok(())
}

/// The read-only state belongs to the namespace: it holds for handles that were open before, for later ones, and after a restart.
async fn every_handle_and_every_restart_is_refused(stage: Stage) -> CaseResult {
    let (operator, before) = (stage.open().await?, stage.open().await?);
    before.store(new_memory("a", 1)).await?;
    operator.set_read_only(true).await?;
    check_refused("another handle", before.store(new_memory("a", 2)).await);
    operator.shutdown().await?;
    before.shutdown().await?;
    let after = stage.open().await?;
    assert!(after.is_read_only().await?);
    check_refused("a handle after a restart", after.store(new_memory("a", 3)).await);
    assert_eq!(ledger(&*after).await?.len(), 1);
    after.set_read_only(false).await?;
    after.store(new_memory("a", 4)).await?;
    Ok(())
}

/// Writes in flight are committed before `set_read_only` returns, or never: from then on the data does not change, and it has all
/// acknowledged writes. A write that begins later is refused.
async fn nothing_is_committed_behind_the_answer(stage: Stage) -> CaseResult {
    let (operator, handles) = (stage.open().await?, [stage.open().await?, stage.open().await?]);
    let (written, is_answered) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let writers = (0..WRITERS).map(|writer| {
        let (handle, written) = (Arc::clone(&handles[writer % 2]), Arc::clone(&written));
        let is_answered = Arc::clone(&is_answered);
        tokio::spawn(async move {
            let (mut stored, mut is_late) = (Vec::new(), false);
            loop {
                let begins_late = is_answered.load(Ordering::SeqCst);
                let name = format!("{writer}-{}", stored.len());
                let memory = new_memory(&format!("a-{writer}"), stored.len() as i64);
                let result = match writer % WAYS {
                    0 => handle.store(memory).await,
                    1 => handle.store(memory.with_idempotency_key(key(&name))).await,
                    2 => handle.store_many(vec![memory.clone(), memory.clone(), memory]).await.map(|ids| ids[2]),
                    // A store, followed by an update of the same memory.
                    3 => match handle.store(memory).await {
                        Ok(id) => handle.update(id, MemoryPatch::new().with_status(Status::Failed)).await.map(|_| id),
                        Err(error) => Err(error),
                    },
                    _ => {
                        let puts =
                            ["one", "other"].map(|part| new_document(NOTES, &format!("{name}-{part}"), "a", "text"));
                        match handle.documents().put_many(puts.to_vec()).await {
                            Ok(_) => handle.store(memory).await,
                            Err(error) => Err(error),
                        }
                    }
                };
                match result {
                    Ok(id) => stored.push(id),
                    Err(error) => return (stored, is_late, error),
                }
                is_late |= begins_late;
                written.fetch_add(1, Ordering::Relaxed);
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    while written.load(Ordering::Relaxed) < 4 * WRITERS {
        tokio::task::yield_now().await;
    }
    operator.set_read_only(true).await?;
    is_answered.store(true, Ordering::SeqCst);
    let (memories, notes) = (ledger(&*operator).await?, documents(&*operator).await?);
    let mut acknowledged = Vec::new();
    for (stored, is_late, error) in try_join_all(writers).await? {
        assert!(!is_late, "a write that began after the answer was done");
        check_refused::<()>("a write under way", Err(error));
        acknowledged.extend(stored);
    }
    assert_eq!(ledger(&*operator).await?, memories, "a memory was written after the answer");
    assert_eq!(documents(&*operator).await?, notes, "a document was put after the answer");
    for id in acknowledged {
        assert!(memories.iter().any(|memory| memory.id == id), "an acknowledged memory is missing");
    }
    Ok(())
}

async fn documents(provider: &dyn MemoryProvider) -> Result<Vec<memory_core::Document>> {
    walk_documents(&*provider.documents(), NOTES, |query| query.all().limit(1_000)).await
}

/// Making a namespace read-only twice, or writable twice, is the same as once. While the state changes beside writers, each write succeeds
/// or is refused with the usual error.
async fn either_call_can_be_repeated(stage: Stage) -> CaseResult {
    let (one, other) = (stage.open().await?, stage.open().await?);
    one.set_read_only(false).await?;
    one.store(new_memory("a", 1)).await?;
    for handle in [&one, &other, &one] {
        handle.set_read_only(true).await?;
    }
    check_refused("a store", one.store(new_memory("a", 2)).await);
    other.set_read_only(false).await?;
    one.set_read_only(false).await?;
    assert!(!one.is_read_only().await?);
    one.store(new_memory("a", 3)).await?;
    one.set_read_only(true).await?;
    check_refused("a store after the namespace was made read-only again", other.store(new_memory("a", 4)).await);
    one.set_read_only(false).await?;

    // A write that is refused while the namespace becomes writable again gets the same error as any other.
    let is_over = Arc::new(AtomicBool::new(false));
    let writers = (0..WRITERS).map(|writer| {
        let (handle, is_over) = (Arc::clone(&other), Arc::clone(&is_over));
        tokio::spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                if let Err(error) = handle.store(new_memory(&format!("b-{writer}"), 5)).await {
                    check_refused::<()>("a store beside it", Err(error));
                }
                tokio::task::yield_now().await;
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    for _ in 0..ROUNDS {
        one.set_read_only(true).await?;
        one.set_read_only(false).await?;
    }
    is_over.store(true, Ordering::Relaxed);
    try_join_all(writers).await?;
    Ok(())
}

/// Making a namespace read-only leaves other namespaces writable.
async fn other_namespaces_are_written(stage: Stage) -> CaseResult {
    let (here, there) = (stage.open().await?, stage.elsewhere().open().await?);
    here.set_read_only(true).await?;
    there.store(new_memory("a", 1)).await?;
    there.documents().put(new_document(NOTES, "a", "x", "text")).await?;
    assert!(!there.is_read_only().await?);
    Ok(())
}

/// A watch still delivers earlier writes, so that a copy can catch up to the end.
async fn changes_from_before_are_told(stage: Stage) -> CaseResult {
    if !stage.harness().can_be_read_only() {
        return Ok(());
    }
    let provider = stage.open().await?;
    let everything = Watch::new(Watched::Both(Collections::All), MemoryQuery::builder().all())?;
    let mut first = provider.watch(&everything.clone()).await?;
    let reached = first.next().await.expect("a change")?;
    let stored = provider.store(new_memory("a", 1)).await?;
    provider.set_read_only(true).await?;
    for from in [WatchFrom::from(reached.token), WatchFrom::Beginning] {
        let mut changes = provider.watch(&everything.clone().from(from)).await?;
        let mut told = Vec::new();
        loop {
            match changes.next().await.expect("a change")?.kind {
                ChangeKind::Reached => break,
                ChangeKind::Stored(record) => told.push(record.id()),
                _ => {}
            }
        }
        assert_eq!(told, [memory_core::RecordId::Memory(stored)]);
    }
    Ok(())
}
