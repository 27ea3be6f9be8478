//! Which writes leave a version, and what a version holds (H1).

use std::sync::Arc;

use futures::future::try_join_all;
use memory_core::{Actor, Clock as _, ErrorKind, History, MemoryPatch, Record, Revision, Status};

use super::{records, set_clock, shown, updated, versions_of};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{
    NOTES, actor, at, collection, context, document_id, kind, metadata, new_document, new_memory, note, the, trigger,
};

chapter!("history":
    a_history_is_kept_or_refused_plainly ["H6"],
    each_update_is_a_version ["H1"] needs History,
    what_changes_nothing_is_no_version ["H1"] needs History,
    equal_values_are_a_version ["H1", "W7"] needs History,
    each_version_names_its_actor ["H1", "H7"] needs History,
    an_actor_is_in_no_record_and_in_no_patch ["H7"],
    a_chain_comes_back_as_it_was_at_each_step ["H1"] needs History,
    racing_updates_are_all_versions ["H1", "W9"] needs History,
    restored_memories_begin_their_history ["H1"] needs History,
    a_history_survives_a_restart ["H1", "W1"] needs History,
);

/// An engine keeps a history, or answers `Unsupported`.
async fn a_history_is_kept_or_refused_plainly(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a", 0)).await?;
    provider.documents().put(new_document(NOTES, "n", "a", "text")).await?;
    for record in [id.into(), note("n")] {
        let page = provider.history(&History::of(record.clone())).await;
        let then = provider.get_as_of(&record, stage.namespace().clock.now()).await;
        if stage.harness().keeps_history() {
            assert_eq!(page?.versions.len(), 1);
            assert_eq!(then?.map(|record| record.id()), Some(record));
            continue;
        }
        for error in [page.expect_err("no history"), then.expect_err("no history")] {
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.message().contains("history"), "{error}");
        }
    }
    Ok(())
}

/// The version before an update has each changed field as it was.
async fn each_update_is_a_version(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a-b", 5)).await?;
    let mut expected = vec![Some(Record::Memory(the(&*provider, id).await?))];
    let patches = [
        MemoryPatch::new().set_context(context(r#"{"b":1E2,"a":"caf\u00e9"}"#)),
        MemoryPatch::new().set_context(context("null")),
        MemoryPatch::new().clear_context(),
        MemoryPatch::new().set_context(context(r#""""#)),
        MemoryPatch::new().merge_metadata(metadata(r#"{"n":1,"o":{"p":"é"}}"#)),
        MemoryPatch::new().merge_metadata(metadata(r#"{"o":{"p":null}}"#)),
        MemoryPatch::new().with_status(Status::Running),
        MemoryPatch::new().with_status(Status::Failed).clear_context().replace_metadata(metadata("{}")),
    ];
    for (number, patch) in (1..).zip(patches) {
        set_clock(&stage, 10 * number);
        expected.insert(0, Some(Record::Memory(updated(&*provider, id, patch).await?)));
    }
    let versions = versions_of(&*provider, id).await?;
    assert_eq!(records(&versions), expected);
    let times: Vec<_> = (0..9).rev().map(|number| (number as u64 + 1, Some(10 * number), None)).collect();
    assert_eq!(shown(&versions), times);
    Ok(())
}

/// An empty patch and a refused patch leave no version.
async fn what_changes_nothing_is_no_version(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a", 0)).await?;
    provider.update(id, MemoryPatch::new().by(actor("ana"))).await?;
    let wrong = MemoryPatch::new().with_status(Status::Failed).if_revision(Revision::new(7)?);
    assert_eq!(kind(provider.update(id, wrong).await), Some(ErrorKind::Conflict));
    assert_eq!(shown(&versions_of(&*provider, id).await?), [(1, Some(0), None)]);
    Ok(())
}

/// A patch that names a field is effective, even with the same value.
async fn equal_values_are_a_version(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a", 0).with_context(context("1"))).await?;
    set_clock(&stage, 1);
    provider.update(id, MemoryPatch::new().set_context(context("1"))).await?;
    assert_eq!(shown(&versions_of(&*provider, id).await?), [(2, Some(1), None), (1, Some(0), None)]);
    Ok(())
}

/// Each write has its own actor, or none.
async fn each_version_names_its_actor(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a", 0)).await?;
    let longest = "é".repeat(128);
    for name in [Some("ana"), None, Some("run 7"), Some(longest.as_str())] {
        let patch = MemoryPatch::new().with_status(Status::Running);
        provider.update(id, name.into_iter().fold(patch, |patch, name| patch.by(actor(name)))).await?;
    }
    let versions = versions_of(&*provider, id).await?;
    let actors: Vec<_> = shown(&versions).into_iter().map(|(.., actor)| actor).collect();
    assert_eq!(actors, [Some(longest.as_str()), Some("run 7"), None, Some("ana"), None]);
    Ok(())
}

/// No patch can name its actor, and no record shows it.
async fn an_actor_is_in_no_record_and_in_no_patch(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a", 0)).await?;
    let patch = MemoryPatch::new().with_status(Status::Running).by(actor("ana"));
    assert!(!serde_json::to_string(&patch)?.contains("ana"));
    assert!(serde_json::from_str::<MemoryPatch>(r#"{"status":"running","actor":"ana"}"#).is_err());
    let memory = updated(&*provider, id, patch).await?;
    let document = provider.documents().put(new_document(NOTES, "n", "a", "text").by(actor("ana"))).await?;
    assert!(!serde_json::to_string(&(memory, document))?.contains("ana"));
    for (name, expected) in [
        ("", ErrorKind::InvalidInput),
        ("a\nb", ErrorKind::InvalidInput),
        ("a\0", ErrorKind::InvalidInput),
        (&*"x".repeat(257), ErrorKind::TooLarge),
    ] {
        assert_eq!(kind(Actor::parse(name)), Some(expected), "{} bytes", name.len());
    }
    Ok(())
}

/// The context is a list. Each of 40 steps appends an item, except one that changes an item, and one that cuts the list to three.
async fn a_chain_comes_back_as_it_was_at_each_step(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a", 0)).await?;
    let mut expected = vec![Some(Record::Memory(the(&*provider, id).await?))];
    let mut items: Vec<String> = Vec::new();
    for number in 0..40 {
        match number {
            20 => items[7] = r#"{"step":"changed, and longer than it was"}"#.to_owned(),
            30 => items.truncate(3),
            _ => items.push(format!(r#"{{"step":{number},"output":"é{number}"}}"#)),
        }
        let patch = MemoryPatch::new().set_context(context(&format!("[{}]", items.join(","))));
        expected.insert(0, Some(Record::Memory(updated(&*provider, id, patch).await?)));
    }
    assert_eq!(records(&versions_of(&*provider, id).await?), expected);
    Ok(())
}

/// Each of several racing updates leaves its version.
async fn racing_updates_are_all_versions(stage: Stage) -> CaseResult {
    const WRITERS: usize = 8;
    const UPDATES: usize = 5;
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a", 0)).await?;
    let writer = |writer: usize| {
        let provider = Arc::clone(&provider);
        async move {
            for number in 0..UPDATES {
                let patch = metadata(&format!(r#"{{"w{writer}":{number}}}"#));
                let by = actor(&format!("writer {writer}"));
                provider.update(id, MemoryPatch::new().merge_metadata(patch).by(by)).await?;
            }
            Ok::<_, memory_core::Error>(())
        }
    };
    try_join_all((0..WRITERS).map(writer)).await?;
    let versions = versions_of(&*provider, id).await?;
    let revisions: Vec<_> = versions.iter().map(|version| version.revision.get()).collect();
    assert_eq!(revisions, (1..=(WRITERS * UPDATES) as u64 + 1).rev().collect::<Vec<_>>());
    for pair in versions.windows(2) {
        let [Some(Record::Memory(after)), Some(Record::Memory(before))] = [&pair[0].record, &pair[1].record] else {
            panic!("a version is no memory");
        };
        let name = pair[0].actor.as_ref().expect("an actor").as_str().replace("riter ", "");
        let (after, before) = (after.metadata.to_object(), before.metadata.to_object());
        let changed: Vec<_> = after.iter().filter(|(key, value)| before.get(*key) != Some(value)).collect();
        assert!(matches!(changed[..], [(key, _)] if *key == name), "{name} has changed {} keys", changed.len());
    }
    Ok(())
}

/// A restored memory has a history from then on, even at a later revision.
async fn restored_memories_begin_their_history(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let stored = provider.store(new_memory("a", 0)).await?;
    let mut memory = the(&*provider, stored).await?;
    memory.id = "00000000-0000-7000-8000-000000000001".parse()?;
    memory.trigger = trigger(r#"{"text":"restored"}"#);
    memory.revision = Revision::new(5)?;
    memory.updated_at = Some(at(7));
    set_clock(&stage, 10);
    provider.restore(vec![memory.clone()]).await?;
    set_clock(&stage, 20);
    updated(&*provider, memory.id, MemoryPatch::new().with_status(Status::Failed)).await?;
    let versions = versions_of(&*provider, memory.id).await?;
    assert_eq!(shown(&versions), [(6, Some(20), None), (5, Some(10), None)]);
    assert_eq!(versions[1].record, Some(Record::Memory(memory)));
    Ok(())
}

/// Another handle, and one after a restart, has the same versions.
async fn a_history_survives_a_restart(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a", 0)).await?;
    let patch = MemoryPatch::new().set_context(context("[1]")).by(actor("ana"));
    provider.update(id, patch).await?;
    let documents = provider.documents();
    documents.put(new_document(NOTES, "n", "a", "text").by(actor("ana"))).await?;
    documents.put(new_document(NOTES, "n", "b", "another text")).await?;
    let (of_memory, of_note) = (versions_of(&*provider, id).await?, versions_of(&*provider, note("n")).await?);
    assert_eq!((of_memory.len(), of_note.len()), (2, 2));
    let other = stage.open().await?;
    assert_eq!(versions_of(&*other, id).await?, of_memory);
    provider.shutdown().await?;
    other.shutdown().await?;
    let later = stage.open().await?;
    assert_eq!(versions_of(&*later, id).await?, of_memory);
    assert_eq!(versions_of(&*later, note("n")).await?, of_note);
    assert!(later.documents().get(&collection(NOTES), &document_id("n")).await?.is_some());
    Ok(())
}
