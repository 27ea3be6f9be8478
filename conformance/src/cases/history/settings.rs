//! Whether a namespace keeps a history (H6), and transient members of metadata (H8).

use memory_core::{ErrorKind, History, HistorySettings, Memory, MemoryPatch, Record, Status};

use super::{BEGIN, set_clock, shown, updated, versions_of};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{NOTES, at, context, metadata, new_document, new_memory, note, remove_note, the};

chapter!("history":
    who_opens_a_namespace_first_decides_for_all ["H6"] needs History,
    where_none_is_kept_no_version_is_left ["H6"] needs History,
    transient_members_alone_make_no_version ["H8"] needs History,
    no_version_has_transient_members ["H8"] needs History,
    an_earlier_time_knows_no_transient_members ["H3", "H8"] needs History,
    programs_may_differ_in_what_is_transient ["H8"] needs History,
);

fn keeps(is_kept: Option<bool>) -> HistorySettings {
    HistorySettings { is_kept, ..HistorySettings::default() }
}

fn transient(keys: &str) -> HistorySettings {
    HistorySettings { is_kept: None, transient: keys.parse().expect("keys") }
}

fn lease(until: i64) -> MemoryPatch {
    MemoryPatch::new().merge_metadata(metadata(&format!(r#"{{"task":{{"leaseUntil":{until}}}}}"#)))
}

async fn who_opens_a_namespace_first_decides_for_all(stage: Stage) -> CaseResult {
    for (first, is_kept) in [(None, true), (Some(true), true), (Some(false), false)] {
        let stage = stage.elsewhere();
        let provider = stage.clone().with_history(keeps(first)).open().await?;
        let id = provider.store(new_memory("a", 0)).await?;
        for later in [None, Some(is_kept)] {
            let provider = stage.clone().with_history(keeps(later)).open().await?;
            assert_eq!(provider.history(&History::of(id)).await.is_ok(), is_kept, "{first:?}, {later:?}");
        }
        let other = stage.clone().with_history(keeps(Some(!is_kept))).open_uninitialised().await?;
        let error = other.init().await.expect_err("something else was decided");
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{first:?}");
        provider.update(id, MemoryPatch::new().with_status(Status::Running)).await?;
    }
    Ok(())
}

async fn where_none_is_kept_no_version_is_left(stage: Stage) -> CaseResult {
    let provider = stage.with_history(keeps(Some(false))).open().await?;
    let id = provider.store(new_memory("a", 0)).await?;
    provider.update(id, MemoryPatch::new().set_context(context("1"))).await?;
    let documents = provider.documents();
    documents.put(new_document(NOTES, "n", "a", "one")).await?;
    documents.put(new_document(NOTES, "n", "a", "two")).await?;
    remove_note(&*provider, "n").await?;
    for record in [id.into(), note("n")] {
        let pages = provider.history(&History::of(record.clone()).with_removed()).await;
        let then = provider.get_as_of(&record, at(BEGIN)).await;
        for error in [pages.expect_err("no history"), then.expect_err("no history")] {
            assert_eq!(error.kind(), ErrorKind::Unsupported);
        }
    }
    Ok(())
}

async fn transient_members_alone_make_no_version(stage: Stage) -> CaseResult {
    let stage = stage.with_history(transient("task.leaseUntil,seen"));
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a", 0)).await?;
    set_clock(&stage, 1);
    provider.update(id, MemoryPatch::new().set_context(context("[1]"))).await?;
    for millis in 2..6 {
        set_clock(&stage, millis);
        let updated = provider.update(id, lease(millis)).await?;
        assert_eq!(updated.revision.get(), u64::try_from(millis)? + 1, "it is an effective update all the same");
    }
    provider.update(id, MemoryPatch::new().merge_metadata(metadata(r#"{"seen":true}"#))).await?;
    let versions = versions_of(&*provider, id).await?;
    assert_eq!(shown(&versions), [(7, Some(1), None), (1, Some(0), None)]);
    // Together with another change, they are part of an update that makes a version.
    set_clock(&stage, 9);
    let both = lease(9).with_status(Status::Running);
    provider.update(id, both).await?;
    let versions = versions_of(&*provider, id).await?;
    assert_eq!(shown(&versions), [(8, Some(9), None), (7, Some(1), None), (1, Some(0), None)]);
    Ok(())
}

/// The versions around an update of transient members lack them, and are otherwise unchanged.
async fn no_version_has_transient_members(stage: Stage) -> CaseResult {
    let stage = stage.with_history(transient("task.leaseUntil"));
    let provider = stage.open().await?;
    let labels = metadata(r#"{"a":1.0,"task":{"holder":"h","leaseUntil":1}}"#);
    let id = provider.store(new_memory("a", 0).with_metadata(labels)).await?;
    let mut expected = vec![without_lease(the(&*provider, id).await?)];
    for (number, text) in ["[1]", "[1,2]", "null", "[1,2,3]"].into_iter().enumerate() {
        let newest = updated(&*provider, id, MemoryPatch::new().set_context(context(text))).await?;
        assert!(newest.metadata.as_str().contains("leaseUntil"), "the record itself has its transient members");
        expected.push(without_lease(newest));
        for until in 0..number {
            let newest = updated(&*provider, id, lease((10 * number + until).try_into()?)).await?;
            *expected.last_mut().expect("a version") = without_lease(newest);
        }
    }
    let newest = updated(&*provider, id, MemoryPatch::new().merge_metadata(metadata(r#"{"task":null}"#))).await?;
    expected.push(newest);
    let versions = versions_of(&*provider, id).await?;
    let records: Vec<_> = versions.into_iter().rev().map(|version| version.record).collect();
    assert_eq!(records, expected.into_iter().map(|memory| Some(Record::Memory(memory))).collect::<Vec<_>>());
    Ok(())
}

fn without_lease(mut memory: Memory) -> Memory {
    let none = metadata(r#"{"task":{"leaseUntil":null}}"#);
    memory.metadata = memory.metadata.merge(&none).expect("metadata");
    memory
}

async fn an_earlier_time_knows_no_transient_members(stage: Stage) -> CaseResult {
    let stage = stage.with_history(transient("task.leaseUntil"));
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a", 0)).await?;
    let stored = the(&*provider, id).await?;
    for millis in [10, 20] {
        set_clock(&stage, millis);
        provider.update(id, lease(millis)).await?;
    }
    set_clock(&stage, 30);
    provider.update(id, MemoryPatch::new().with_status(Status::Running)).await?;
    for (millis, status) in [(0, stored.status), (15, stored.status), (29, stored.status), (30, Status::Running)] {
        let then = provider.get_as_of(&id.into(), at(BEGIN + millis)).await?;
        let Some(Record::Memory(then)) = then else { panic!("{millis}: {then:?}") };
        assert_eq!((then.status, then.metadata.as_str()), (status, "{}"), "{millis}");
    }
    Ok(())
}

/// A program that names no transient members leaves versions for their changes, and reads those of others.
async fn programs_may_differ_in_what_is_transient(stage: Stage) -> CaseResult {
    let (naming, other) = (stage.clone().with_history(transient("task.leaseUntil")).open().await?, stage.open().await?);
    let id = naming.store(new_memory("a", 0)).await?;
    for (number, provider) in [&naming, &other, &naming, &other].into_iter().enumerate() {
        provider.update(id, lease(number.try_into()?)).await?;
        provider.update(id, MemoryPatch::new().set_context(context(&format!("[{number}]")))).await?;
    }
    let contexts = async |provider| -> memory_core::Result<Vec<Option<String>>> {
        let record = |version: memory_core::Version| match version.record {
            Some(Record::Memory(memory)) => memory.context.map(|context| context.as_str().to_owned()),
            other => panic!("{other:?}"),
        };
        Ok(versions_of(provider, id).await?.into_iter().map(record).collect())
    };
    let text = |number: i32| Some(format!("[{number}]"));
    let expected = [text(3), text(2), text(2), text(1), text(0), text(0), None];
    assert_eq!(contexts(&*naming).await?, expected);
    assert_eq!(contexts(&*other).await?, expected);
    Ok(())
}
