//! The pages of a history give each version once.

use memory_core::{ErrorKind, History, MAX_LIMIT, MAX_PAGE_BYTES, MemoryId, MemoryPatch, Status};

use super::{shown, versions_of, walk};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{context, kind, metadata, new_memory, note, trigger};

chapter!("history":
    a_walk_gives_each_version_once ["H2"] needs History,
    limits_and_cursors_are_checked ["H2"] needs History,
    large_versions_end_a_page ["H2"] needs History,
    what_is_not_there_has_no_history ["H2"] needs History,
);

/// Each page begins after the last version of the one before, even while new versions are written.
async fn a_walk_gives_each_version_once(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a", 0)).await?;
    let update = |number: u64| {
        let patch = MemoryPatch::new().replace_metadata(metadata(&format!(r#"{{"n":{number}}}"#)));
        provider.update(id, patch)
    };
    for number in 2..=23 {
        update(number).await?;
    }
    let there = versions_of(&*provider, id).await?;
    for limit in [1, 5, 22, 23, 24] {
        let history = History::of(id).limit(limit)?;
        let (mut found, mut page) = (Vec::new(), provider.history(&history).await?);
        while let Some(next) = page.next {
            assert_eq!(page.versions.len(), limit);
            found.append(&mut page.versions);
            update(found.len() as u64).await?;
            page = provider.history(&history.clone().cursor(&next)).await?;
        }
        found.append(&mut page.versions);
        let all = versions_of(&*provider, id).await?;
        assert!(all.ends_with(&found) && found.len() >= there.len(), "{limit}: {:?}", shown(&found));
    }
    assert_eq!(walk(&*provider, &History::of(id).limit(7)?).await?, versions_of(&*provider, id).await?);
    Ok(())
}

/// A cursor belongs to its record, and to whether removals are asked for.
async fn limits_and_cursors_are_checked(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let mut ids = Vec::<MemoryId>::new();
    for _ in 0..2 {
        let id = provider.store(new_memory("a", 0)).await?;
        provider.update(id, MemoryPatch::new().set_context(context("1"))).await?;
        ids.push(id);
    }
    let of = |id: MemoryId| History::of(id).limit(1);
    assert_eq!(kind(History::of(ids[0]).limit(MAX_LIMIT + 1)), Some(ErrorKind::InvalidInput));
    let none = provider.history(&History::of(ids[0]).limit(0)?).await?;
    assert!(none.versions.is_empty() && none.next.is_none());
    let cursor = provider.history(&of(ids[0])?).await?.next.expect("a second page");
    let page = stage.open().await?.history(&of(ids[0])?.limit(9)?.cursor(&cursor)).await?;
    assert_eq!((page.versions.len(), page.versions[0].revision.get()), (1, 1));
    for other in [of(ids[1])?.cursor(&cursor), of(ids[0])?.with_removed().cursor(&cursor), of(ids[0])?.cursor("AAAA")] {
        assert_eq!(kind(provider.history(&other).await), Some(ErrorKind::InvalidInput));
    }
    Ok(())
}

/// A page ends at its byte limit, but has at least one version.
async fn large_versions_end_a_page(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a", 0)).await?;
    for letter in ["a", "b", "c"] {
        let text = format!("\"{}\"", letter.repeat(MAX_PAGE_BYTES / 5 * 2));
        provider.update(id, MemoryPatch::new().set_context(context(&text))).await?;
    }
    let page = provider.history(&History::of(id)).await?;
    assert_eq!(shown(&page.versions).len(), 2);
    let rest = provider.history(&History::of(id).cursor(page.next.expect("more"))).await?;
    assert_eq!(rest.versions.iter().map(|version| version.revision.get()).collect::<Vec<_>>(), [2, 1]);
    // A large part that never changes is in each version, too.
    let mut large = new_memory("a", 0);
    large.trigger = trigger(&format!("\"{}\"", "t".repeat(MAX_PAGE_BYTES / 5)));
    let id = provider.store(large).await?;
    for status in [Status::Running, Status::Failed, Status::Running, Status::Failed, Status::Completed] {
        provider.update(id, MemoryPatch::new().with_status(status)).await?;
    }
    let page = provider.history(&History::of(id)).await?;
    assert_eq!((page.versions.len(), versions_of(&*provider, id).await?.len()), (4, 6));
    Ok(())
}

/// An id that does not exist has no history.
async fn what_is_not_there_has_no_history(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let page = provider.history(&History::of(MemoryId::from_bytes([9; 16]))).await?;
    assert!(page.versions.is_empty() && page.next.is_none());
    assert!(versions_of(&*provider, note("n")).await?.is_empty());
    Ok(())
}
