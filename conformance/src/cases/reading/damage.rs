//! Q8: a row that can't be read.

use memory_core::ErrorKind;

use super::{READ_PATHS, guilds, page};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{ids, kind, new_memory, walk};

chapter!("reading":
    a_damaged_row_is_reported_and_does_not_count ["Q8"] needs Damage,
    a_damaged_row_hides_no_other ["Q8"] needs Damage,
);

/// Q8: a page names the damaged row, is filled with others (a corrupt row that spent the caller's limit), and names none that it was not
/// asked for. `get` says that the row is `Corrupt`, and reads the others as before.
async fn a_damaged_row_is_reported_and_does_not_count(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let stored = provider.store_many((1..=5).map(|time| new_memory("a-b", time)).collect()).await?;
    let beside = provider.store(new_memory("ab", 6)).await?;
    for id in [stored[3], beside] {
        assert!(stage.harness().damage(stage.namespace(), id).await?);
        assert_eq!(kind(provider.get(id).await), Some(ErrorKind::Corrupt));
    }
    assert_eq!(provider.get(stored[1]).await?.map(|memory| memory.id), Some(stored[1]));
    let page = page(&*provider, |query| query.under("a").limit(3), None).await?;
    assert_eq!(ids(&page.memories), [stored[4], stored[2], stored[1]]);
    let reported: Vec<_> = page.unreadable.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(reported, [stored[3].to_string()]);
    assert!(!page.unreadable[0].reason.is_empty(), "the report says why");
    Ok(())
}

/// Q8: every other row is found on every read path, and the call does not fail.
async fn a_damaged_row_hides_no_other(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let stored = provider.store_many(guilds([1, 2, 3])).await?;
    for id in [stored[0], stored[6]] {
        assert!(stage.harness().damage(stage.namespace(), id).await?);
    }
    for (name, part) in READ_PATHS {
        for limit in [1, 50] {
            let found = walk(&*provider, |query| part(query).limit(limit)).await?;
            assert_eq!(ids(&found), [stored[10], stored[8], stored[4], stored[2]], "{name}, {limit} a page");
        }
    }
    Ok(())
}
