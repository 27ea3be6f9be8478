//! What a watch may learn (C4).

use memory_core::{ChangeKind, MemoryPatch, MemoryQuery, RecordId, SpaceSelector, Status, Watch, WatchFrom, Watched};

use super::{Reader, all_shown, next, next_kind, shown, until_reached, watch};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{NOTES, at, context, metadata, new_document, new_memory, remove_note};

chapter!("watch":
    nothing_outside_of_within_shows ["C4"] needs Feed,
    what_has_left_is_told_by_its_id ["C4"] needs Feed,
    documents_that_move_arrive_and_leave ["C4"] needs Feed,
    what_moves_and_goes_before_it_is_told_has_left ["C4", "C3"] needs Feed,
);

/// Changes outside of `within` appear nowhere, and do not change the length of a token.
async fn nothing_outside_of_within_shows(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let within = || SpaceSelector::under("guild-1").expect("valid");
    let confined = [
        watch(|query| query.all().within(within())),
        watch(|query| query.prefix("guild-1").within(within())),
        watch(|query| query.under("guild-1")),
    ];
    let mut readers = Vec::new();
    for watch in &confined {
        readers.push(Reader::begin(&*provider, watch.clone()).await?);
    }
    for (number, space) in ["guild-12", "guild-2", "guild", "guild-1x-y"].into_iter().enumerate() {
        let id = provider.store(new_memory(space, 1)).await?;
        provider.update(id, MemoryPatch::new().set_context(context("1"))).await?;
        let note = format!("n{number}");
        provider.documents().put(new_document(NOTES, &note, space, "x")).await?;
        provider.documents().put(new_document(NOTES, &note, "elsewhere", "x")).await?;
        remove_note(&*provider, &note).await?;
        provider.documents().put(new_document(NOTES, &note, space, "x")).await?;
    }
    provider.store(new_memory("guild-1-a", 1)).await?;
    for (reader, watch) in readers.iter_mut().zip(&confined) {
        let token = |reader: &Reader| match reader.watch.begins() {
            WatchFrom::Token(token) => token.clone(),
            _ => String::new(),
        };
        let before = token(reader);
        assert_eq!(reader.since(&*provider).await?, ["stored guild-1-a"]);
        assert_eq!(token(reader).len(), before.len(), "a token tells nothing by its length");
        let snapshot = watch.clone().from(WatchFrom::Beginning);
        let told = until_reached(&mut provider.watch(&snapshot).await?).await?;
        assert_eq!(all_shown(&told), ["stored guild-1-a"]);
    }
    Ok(())
}

/// A record that no longer satisfies the query, or never did, comes as *left*.
async fn what_has_left_is_told_by_its_id(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let documents = provider.documents();
    let open = watch(|query| query.under("a").filter_text("metadata.n = 1"));
    let mut reader = Reader::begin(&*provider, open.clone()).await?;
    let one = || metadata(r#"{"n":1}"#);
    let id = provider.store(new_memory("a", 1).with_metadata(one())).await?;
    assert_eq!(reader.since(&*provider).await?, ["stored a"]);
    provider.update(id, MemoryPatch::new().merge_metadata(metadata(r#"{"n":2}"#))).await?;
    assert_eq!(reader.since(&*provider).await?, ["left a memory"]);
    // It comes again, since nobody knows what a watch has delivered before.
    provider.update(id, MemoryPatch::new().set_context(context("1"))).await?;
    assert_eq!(reader.since(&*provider).await?, ["left a memory"]);
    provider.update(id, MemoryPatch::new().merge_metadata(one())).await?;
    assert_eq!(reader.since(&*provider).await?, ["updated a"]);
    let never = provider.store(new_memory("a-never", 1)).await?;
    assert_eq!(reader.since(&*provider).await?, ["left a memory"]);
    documents.put(new_document(NOTES, "n", "a", "x").with_metadata(one())).await?;
    assert_eq!(reader.since(&*provider).await?, ["stored a"]);
    documents.put(new_document(NOTES, "n", "a", "x")).await?;
    assert_eq!(reader.since(&*provider).await?, ["left n"]);
    remove_note(&*provider, "n").await?;
    assert_eq!(reader.since(&*provider).await?, ["removed n"]);
    // With a status and a time, conditions that only a watch of memories takes.
    let closed = MemoryQuery::builder().under("a").status(Status::Completed).created_after(at(0));
    let closed = Watch::new(Watched::Memories, closed)?;
    let mut changes = provider.watch(&closed).await?;
    next(&mut changes).await?;
    provider.update(never, MemoryPatch::new().with_status(Status::Completed)).await?;
    assert_eq!(shown(&next_kind(&mut changes).await?), "updated a-never");
    provider.update(never, MemoryPatch::new().with_status(Status::Failed)).await?;
    assert_eq!(next_kind(&mut changes).await?, ChangeKind::Left(RecordId::Memory(never)));
    provider.store(new_memory("a", 0).with_status(Status::Completed)).await?;
    assert_eq!(shown(&next_kind(&mut changes).await?), "left a memory");
    Ok(())
}

async fn documents_that_move_arrive_and_leave(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let mut reader = Reader::begin(&*provider, watch(|query| query.under("a"))).await?;
    let moves =
        [("a", &["stored a"][..]), ("a-b", &["updated a-b"]), ("ab", &["left n"]), ("b", &[]), ("a", &["updated a"])];
    for (space, told) in moves.into_iter().chain([("b", &["left n"][..])]) {
        provider.documents().put(new_document(NOTES, "n", space, "x")).await?;
        assert_eq!(reader.since(&*provider).await?, told, "to {space}");
    }
    // Its later changes elsewhere are not delivered.
    remove_note(&*provider, "n").await?;
    assert_eq!(reader.since(&*provider).await?, [""; 0]);
    Ok(())
}

/// A watch that reads late finds a document elsewhere, removed, or replaced by another one, and learns only that it has left.
async fn what_moves_and_goes_before_it_is_told_has_left(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let documents = provider.documents();
    for id in ["moved", "gone", "again"] {
        documents.put(new_document(NOTES, id, "a", "x")).await?;
    }
    let mut reader = Reader::begin(&*provider, watch(|query| query.under("a"))).await?;
    for id in ["moved", "gone", "again"] {
        documents.put(new_document(NOTES, id, "b", "x")).await?;
        documents.put(new_document(NOTES, id, "c", "x")).await?;
    }
    remove_note(&*provider, "gone").await?;
    remove_note(&*provider, "again").await?;
    documents.put(new_document(NOTES, "again", "a-b", "x")).await?;
    assert_eq!(reader.since(&*provider).await?, ["left moved", "left gone", "left again", "stored a-b"]);
    Ok(())
}
