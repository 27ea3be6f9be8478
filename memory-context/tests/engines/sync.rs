//! Updates: their order, their reports, and their races.

use std::sync::Arc;

use futures::future::try_join_all;
use memory_context::prompt::MemoryStore::{Memory, User};
use memory_context::prompt::{MAX_UPDATES, MemoryUpdate, PromptConfig, PromptMemory};
use memory_core::{ErrorKind, IdempotencyKey};

use crate::stage::{CaseResult, Stage, add, cases};

cases! {
    add_creates_and_then_appends,
    replace_takes_the_place_of_everything,
    remove_takes_the_lines_that_hold_a_text,
    updates_apply_in_their_order,
    an_empty_batch_writes_nothing,
    what_changes_nothing_is_not_written,
    each_update_is_reported,
    sixty_four_racing_adds_all_survive,
    a_batch_is_never_seen_by_halves,
    a_repeated_batch_is_applied_once,
    racing_repetitions_of_a_batch_are_one,
    other_updates_under_the_same_key_are_a_conflict,
    what_is_too_large_is_refused_before_anything_is_written,
}

fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::parse(text).expect("a valid key")
}

async fn add_creates_and_then_appends(stage: Stage) -> CaseResult {
    let (memory, context) = (stage.memory(), stage.context());
    for text in ["a  ", "\nb\nc\n", " "] {
        add(&memory, &context, Memory, text).await;
    }
    assert_eq!(memory.read(&context, Memory).await?.as_deref(), Some("a\n\nb\nc"));
    Ok(())
}

async fn replace_takes_the_place_of_everything(stage: Stage) -> CaseResult {
    let (memory, context) = (stage.memory(), stage.context());
    memory.sync(&context, &[MemoryUpdate::replace(Memory, "a\nb")]).await?;
    memory.sync(&context, &[MemoryUpdate::replace(Memory, "\n c ")]).await?;
    assert_eq!(memory.read(&context, Memory).await?.as_deref(), Some("c"));
    Ok(())
}

async fn remove_takes_the_lines_that_hold_a_text(stage: Stage) -> CaseResult {
    let (memory, context) = (stage.memory(), stage.context());
    add(&memory, &context, Memory, "one %\ntwo _\nThree\nfour").await;
    for (needle, left) in [
        ("", "one %\ntwo _\nThree\nfour"),
        ("three", "one %\ntwo _\nThree\nfour"),
        ("_", "one %\nThree\nfour"),
        ("%", "Three\nfour"),
        ("r", ""),
    ] {
        memory.sync(&context, &[MemoryUpdate::remove(Memory, needle)]).await?;
        assert_eq!(memory.read(&context, Memory).await?.unwrap_or_default(), left, "without {needle:?}");
    }
    Ok(())
}

async fn updates_apply_in_their_order(stage: Stage) -> CaseResult {
    let (memory, context) = (stage.memory(), stage.context());
    let updates = [
        MemoryUpdate::add(Memory, "gone"),
        MemoryUpdate::add(User, "one"),
        MemoryUpdate::replace(Memory, "two"),
        MemoryUpdate::add(Memory, "three"),
        MemoryUpdate::remove(Memory, "two"),
        MemoryUpdate::add(User, "four"),
    ];
    memory.sync(&context, &updates).await?;
    assert_eq!(memory.read(&context, Memory).await?.as_deref(), Some("three"));
    assert_eq!(memory.read(&context, User).await?.as_deref(), Some("one\n\nfour"));
    assert_eq!(memory.history(&context, Memory).await?.len(), 1, "a batch is one change");
    Ok(())
}

async fn an_empty_batch_writes_nothing(stage: Stage) -> CaseResult {
    let (memory, context) = (stage.memory(), stage.context());
    assert_eq!(memory.sync(&context, &[]).await?.updates, []);
    assert_eq!(memory.sync_once(&context, &key("k"), &[]).await?.updates, []);
    assert!(memory.history(&context, Memory).await?.is_empty());
    Ok(())
}

async fn what_changes_nothing_is_not_written(stage: Stage) -> CaseResult {
    let (memory, context) = (stage.memory(), stage.context());
    add(&memory, &context, Memory, "a").await;
    let updates = [
        MemoryUpdate::remove(Memory, "b"),
        MemoryUpdate::replace(Memory, " a "),
        MemoryUpdate::add(Memory, ""),
        MemoryUpdate::remove(User, "x"),
    ];
    let report = memory.sync(&context, &updates).await?;
    let revisions: Vec<_> =
        report.updates.iter().map(|update| update.revision.map(|revision| revision.get())).collect();
    assert_eq!(revisions, [Some(1), Some(1), Some(1), None]);
    assert!(report.updates.iter().all(|update| !update.changed));
    assert_eq!(memory.history(&context, Memory).await?.len(), 1);
    Ok(())
}

async fn each_update_is_reported(stage: Stage) -> CaseResult {
    let (memory, context) = (stage.memory(), stage.context());
    add(&memory, &context, Memory, "one\ntwo\nthree").await;
    let updates = [
        MemoryUpdate::remove(Memory, "t"),
        MemoryUpdate::add(User, "profile"),
        MemoryUpdate::remove(Memory, "t"),
        MemoryUpdate::add(Memory, "four"),
    ];
    let report = memory.sync(&context, &updates).await?;
    let told: Vec<_> = report
        .updates
        .iter()
        .map(|update| {
            (update.store, update.matched_lines, update.changed, update.revision.map(|revision| revision.get()))
        })
        .collect();
    let expected =
        [(Memory, 2, true, Some(2)), (User, 0, true, Some(1)), (Memory, 0, false, Some(2)), (Memory, 0, true, Some(2))];
    assert_eq!(told, expected);
    Ok(())
}

async fn sixty_four_racing_adds_all_survive(stage: Stage) -> CaseResult {
    let context = stage.context();
    let handles = [stage.memory(), stage.elsewhere()];
    let adds = (0..64).map(|number| {
        let (memory, context) = (handles[number % 2].clone(), context.clone());
        tokio::spawn(async move { memory.sync(&context, &[MemoryUpdate::add(Memory, format!("fact {number}"))]).await })
    });
    for report in try_join_all(adds).await? {
        assert!(report?.updates[0].changed);
    }
    let text = handles[0].read(&context, Memory).await?.unwrap_or_default();
    let mut lines: Vec<_> = text.split("\n\n").map(str::to_owned).collect();
    lines.sort_unstable();
    let mut expected: Vec<_> = (0..64).map(|number| format!("fact {number}")).collect();
    expected.sort_unstable();
    assert_eq!(lines, expected);
    let revisions: Vec<_> =
        handles[1].history(&context, Memory).await?.iter().map(|change| change.revision.get()).collect();
    assert_eq!(revisions, (1..=64).rev().collect::<Vec<_>>(), "each is a change of its own");
    Ok(())
}

async fn a_batch_is_never_seen_by_halves(stage: Stage) -> CaseResult {
    let (memory, reader, context) = (Arc::new(stage.memory()), stage.elsewhere(), stage.context());
    let writing = {
        let (memory, context) = (Arc::clone(&memory), context.clone());
        tokio::spawn(async move {
            for number in 0..10 {
                let halves = [
                    MemoryUpdate::replace(Memory, format!("{number}")),
                    MemoryUpdate::add(Memory, format!("{number}")),
                ];
                memory.sync(&context, &halves).await?;
            }
            Ok::<_, memory_core::Error>(())
        })
    };
    while !writing.is_finished() {
        if let Some(text) = reader.read(&context, Memory).await? {
            let (first, second) = text.split_once("\n\n").expect("both halves");
            assert_eq!(first, second);
        }
    }
    writing.await??;
    Ok(())
}

async fn a_repeated_batch_is_applied_once(stage: Stage) -> CaseResult {
    let (memory, context) = (stage.memory(), stage.context());
    let batch = [MemoryUpdate::add(Memory, "a"), MemoryUpdate::add(User, "b")];
    memory.sync_once(&context, &key("turn 1"), &batch).await?;
    memory.sync(&context, &[MemoryUpdate::replace(Memory, "")]).await?;
    let report = stage.elsewhere().sync_once(&context, &key("turn 1"), &batch).await?;
    for update in &report.updates {
        assert!(update.repeated && !update.changed);
        assert_eq!(update.revision.map(|revision| revision.get()), Some(1), "when it was applied");
    }
    assert_eq!(memory.read(&context, Memory).await?, None, "what was removed since does not come back");
    memory.sync_once(&context, &key("turn 2"), &batch).await?;
    assert_eq!(memory.read(&context, Memory).await?.as_deref(), Some("a"));
    assert_eq!(memory.read(&context, User).await?.as_deref(), Some("b\n\nb"));
    Ok(())
}

async fn racing_repetitions_of_a_batch_are_one(stage: Stage) -> CaseResult {
    let context = stage.context();
    let handles = [stage.memory(), stage.elsewhere()];
    let batch = [MemoryUpdate::add(Memory, "a"), MemoryUpdate::add(User, "b")];
    let turn = key("turn 1");
    let calls = (0..16).map(|number| handles[number % 2].sync_once(&context, &turn, &batch));
    let reports = try_join_all(calls).await?;
    let applied = reports.iter().filter(|report| report.updates[0].changed).count();
    assert_eq!(applied, 1);
    assert_eq!(handles[0].read(&context, Memory).await?.as_deref(), Some("a"));
    assert_eq!(handles[0].read(&context, User).await?.as_deref(), Some("b"));
    Ok(())
}

async fn other_updates_under_the_same_key_are_a_conflict(stage: Stage) -> CaseResult {
    let (memory, context) = (stage.memory(), stage.context());
    memory.sync_once(&context, &key("k"), &[MemoryUpdate::add(Memory, "a")]).await?;
    let other = [MemoryUpdate::add(User, "b"), MemoryUpdate::add(Memory, "c")];
    let error = memory.sync_once(&context, &key("k"), &other).await.expect_err("another batch");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(memory.read(&context, User).await?, None, "nothing of it is written");
    Ok(())
}

async fn what_is_too_large_is_refused_before_anything_is_written(stage: Stage) -> CaseResult {
    let context = stage.context();
    let mut config = PromptConfig::default();
    (config.max_entry_bytes, config.max_store_bytes) = (10, 15);
    let memory = PromptMemory::with(stage.provider().documents(), config)?;
    add(&memory, &context, Memory, "0123456789").await;
    let refused: [(Vec<MemoryUpdate>, ErrorKind); 4] = [
        (vec![MemoryUpdate::add(User, "x"), MemoryUpdate::add(Memory, "01234567890")], ErrorKind::TooLarge),
        (vec![MemoryUpdate::add(User, "x"), MemoryUpdate::add(Memory, "0123")], ErrorKind::TooLarge),
        (vec![MemoryUpdate::add(User, "x"), MemoryUpdate::add(Memory, "a\0")], ErrorKind::InvalidInput),
        (vec![MemoryUpdate::add(User, "x"); MAX_UPDATES + 1], ErrorKind::TooLarge),
    ];
    for (updates, kind) in refused {
        assert_eq!(memory.sync(&context, &updates).await.expect_err("refused").kind(), kind);
    }
    assert_eq!(memory.read(&context, User).await?, None);
    let fits = add(&memory, &context, Memory, "012").await;
    assert!(fits.updates[0].changed, "exactly the most");
    Ok(())
}
