//! The history of a store, and the way back.

use memory_context::prompt::MemoryStore::{Memory, User};
use memory_context::prompt::{MemoryLoadContext, MemoryUpdate};
use memory_core::{ErrorKind, IdempotencyKey};

use crate::stage::{CaseResult, Stage, add, cases};

cases! {
    history_tells_what_changed_and_where_it_came_from,
    undo_takes_the_newest_change_back,
    an_undo_of_what_was_seen_takes_nothing_else_back,
    an_emptied_store_comes_back,
    the_oldest_changes_are_forgotten,
    racing_undos_each_take_one_change_back,
}

async fn history_tells_what_changed_and_where_it_came_from(stage: Stage) -> CaseResult {
    let (memory, context) = (stage.memory(), stage.context());
    let elsewhere = MemoryLoadContext::new("s2", context.session_key.clone(), "telegram");
    assert!(memory.history(&context, Memory).await?.is_empty());
    add(&memory, &context, Memory, "one\ntwo").await;
    let key = IdempotencyKey::parse("turn 2")?;
    memory
        .sync_once(&elsewhere, &key, &[MemoryUpdate::remove(Memory, "one"), MemoryUpdate::add(Memory, "three")])
        .await?;
    let history = memory.history(&context, Memory).await?;
    let [second, first] = &history[..] else { panic!("{} changes", history.len()) };
    assert_eq!((second.revision.get(), second.session_id.as_str(), second.platform.as_str()), (2, "s2", "telegram"));
    assert_eq!((first.revision.get(), first.session_id.as_str(), first.platform.as_str()), (1, "s1", "cli"));
    assert_eq!((&second.batch, &first.batch), (&Some(key), &None));
    assert!(first.at <= second.at);
    let diff = second.diff.as_ref().expect("what changed");
    assert_eq!(
        (diff.line, &diff.removed[..], &diff.added[..]),
        (0, &["one", "two"].map(String::from)[..], &["two", "", "three"].map(String::from)[..])
    );
    assert!(memory.history(&context, User).await?.is_empty());
    Ok(())
}

async fn undo_takes_the_newest_change_back(stage: Stage) -> CaseResult {
    let (memory, context) = (stage.memory(), stage.context());
    assert_eq!(memory.undo(&context, Memory).await?, None);
    for text in ["a", "b", "c"] {
        add(&memory, &context, Memory, text).await;
    }
    add(&memory, &context, User, "u").await;
    for (undid, revision, text) in [(3, 4, "a\n\nb"), (2, 5, "a")] {
        let undone = stage.elsewhere().undo(&context, Memory).await?.expect("something to undo");
        assert_eq!((undone.undid.get(), undone.revision.get()), (undid, revision));
        assert_eq!(memory.read(&context, Memory).await?.as_deref(), Some(text));
    }
    add(&memory, &context, Memory, "d").await;
    for text in ["a", ""] {
        memory.undo(&context, Memory).await?.expect("something to undo");
        assert_eq!(memory.read(&context, Memory).await?.unwrap_or_default(), text);
    }
    assert_eq!(memory.undo(&context, Memory).await?, None, "nothing is left");
    assert_eq!(memory.read(&context, User).await?.as_deref(), Some("u"), "the other store stays as it is");
    let undoes: Vec<_> =
        memory.history(&context, Memory).await?.iter().filter_map(|change| change.undoes).map(|it| it.get()).collect();
    assert_eq!(undoes, [1, 6, 2, 3]);
    Ok(())
}

async fn an_undo_of_what_was_seen_takes_nothing_else_back(stage: Stage) -> CaseResult {
    let (memory, elsewhere, context) = (stage.memory(), stage.elsewhere(), stage.context());
    for text in ["a", "b"] {
        add(&memory, &context, Memory, text).await;
    }
    let seen = memory.history(&context, Memory).await?[0].revision;
    let (one, other) =
        tokio::join!(memory.undo_seen(&context, Memory, seen), elsewhere.undo_seen(&context, Memory, seen));
    let (undone, refused) = if one.is_ok() { (one, other) } else { (other, one) };
    assert_eq!(undone?.expect("something to undo").undid, seen);
    assert_eq!(refused.expect_err("it was undone before").kind(), ErrorKind::Conflict);
    assert_eq!(memory.read(&context, Memory).await?.as_deref(), Some("a"));
    Ok(())
}

async fn an_emptied_store_comes_back(stage: Stage) -> CaseResult {
    let (memory, context) = (stage.memory(), stage.context());
    add(&memory, &context, Memory, "one\n\ntwo").await;
    memory.sync(&context, &[MemoryUpdate::remove(Memory, "o")]).await?;
    assert_eq!(memory.prefetch(&context).await?, None);
    memory.undo(&context, Memory).await?.expect("something to undo");
    assert_eq!(memory.read(&context, Memory).await?.as_deref(), Some("one\n\ntwo"));
    Ok(())
}

async fn the_oldest_changes_are_forgotten(stage: Stage) -> CaseResult {
    let (memory, context) = (stage.memory(), stage.context());
    for number in 0..102 {
        memory.sync(&context, &[MemoryUpdate::replace(Memory, format!("{number}"))]).await?;
    }
    let history = memory.history(&context, Memory).await?;
    let revisions: Vec<_> = history.iter().map(|change| change.revision.get()).collect();
    assert_eq!(revisions, (3..=102).rev().collect::<Vec<_>>());
    memory.undo(&context, Memory).await?.expect("something to undo");
    assert_eq!(memory.read(&context, Memory).await?.as_deref(), Some("100"));
    Ok(())
}

async fn racing_undos_each_take_one_change_back(stage: Stage) -> CaseResult {
    let (memory, elsewhere, context) = (stage.memory(), stage.elsewhere(), stage.context());
    for text in ["a", "b", "c"] {
        add(&memory, &context, Memory, text).await;
    }
    let undone = tokio::try_join!(memory.undo(&context, Memory), elsewhere.undo(&context, Memory))?;
    let mut undid = [undone.0, undone.1].map(|undone| undone.map(|undone| undone.undid.get()));
    undid.sort_unstable();
    assert_eq!(undid, [Some(2), Some(3)]);
    assert_eq!(memory.read(&context, Memory).await?.as_deref(), Some("a"));
    Ok(())
}
