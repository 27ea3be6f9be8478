//! Q8: a row that can't be read.

use memory_core::ErrorKind;

use super::{READ_PATHS, guilds, page};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{ids, new_memory, walk};

chapter!("reading":
    a_damaged_row_is_reported_and_does_not_count ["Q8"] needs Damage,
    a_damaged_row_hides_no_other ["Q8"] needs Damage,
    getting_a_damaged_row_is_corrupt ["Q8"] needs Damage,
    a_damaged_row_outside_the_query_is_no_concern ["Q8"] needs Damage,
);

/// Q8: the page names the damaged row and is filled with others (a corrupt row that spent the caller's limit).
async fn a_damaged_row_is_reported_and_does_not_count(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let stored = provider.store_many((1..=5).map(|time| new_memory("a", time)).collect()).await?;
    assert!(stage.harness().damage(stage.namespace(), stored[3]).await?);
    let page = page(&*provider, |query| query.exact("a").limit(3), None).await?;
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

/// Q8: `get` says that the row is `Corrupt`, and others are read as before.
async fn getting_a_damaged_row_is_corrupt(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let stored = provider.store_many(vec![new_memory("a", 1), new_memory("a", 2)]).await?;
    assert!(stage.harness().damage(stage.namespace(), stored[0]).await?);
    assert_eq!(provider.get(stored[0]).await.expect_err("a damaged row").kind(), ErrorKind::Corrupt);
    assert_eq!(provider.get(stored[1]).await?.map(|memory| memory.id), Some(stored[1]));
    Ok(())
}

/// Q8: a query does not report damaged rows that it does not ask for.
async fn a_damaged_row_outside_the_query_is_no_concern(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let stored = provider.store_many(vec![new_memory("a-b", 1), new_memory("ab", 2)]).await?;
    assert!(stage.harness().damage(stage.namespace(), stored[1]).await?);
    let page = page(&*provider, |query| query.under("a"), None).await?;
    assert_eq!((ids(&page.memories), page.unreadable.len()), (vec![stored[0]], 0));
    Ok(())
}
