//! Q2: createdAfter and createdBefore.

use std::collections::{BTreeMap, BTreeSet};

use memory_core::{Status, Timestamp};

use super::{BOTH_ORDERS, READ_PATHS, guilds};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{at, ids, metadata, new_memory, walk};
use crate::golden;

chapter!("reading":
    time_bounds_follow_the_table ["Q2"],
    time_bounds_hold_on_every_read_path ["Q2"],
    time_bounds_hold_with_filter_status_and_within ["Q2"],
    time_bounds_hold_behind_a_cursor ["Q2", "Q6"],
    zero_is_a_bound ["Q2"],
    the_latest_before_a_time_come_first ["Q2", "Q4"],
    the_ends_of_time_come_back ["Q2"],
);

/// Q2: bounds are exclusive, to the millisecond, as `golden/time_bounds.json` has it (inclusive here, exclusive there).
async fn time_bounds_follow_the_table(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let table = golden::time_bounds();
    let times: Vec<_> = BTreeSet::from_iter(table.iter().map(|line| line.created_at)).into_iter().collect();
    let stored = provider.store_many(times.iter().map(|time| new_memory("a", *time)).collect()).await?;
    let stored = BTreeMap::from_iter(times.into_iter().zip(stored));
    let mut failures = Vec::new();
    for line in &table {
        let found = walk(&*provider, |mut query| {
            if let Some(after) = line.after {
                query = query.created_after(at(after));
            }
            if let Some(before) = line.before {
                query = query.created_before(at(before));
            }
            query.exact("a")
        });
        if ids(&found.await?).contains(&stored[&line.created_at]) != line.matches {
            failures.push(&line.id);
        }
    }
    assert!(failures.is_empty(), "lines of time_bounds.json that fail: {failures:?}");
    Ok(())
}

/// Q2: the bounds hold for every selector (a time filter that was lost in one of two query paths).
async fn time_bounds_hold_on_every_read_path(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    provider.store_many(guilds([1, 2, 3, 4, 5])).await?;
    let times =
        |found: &[memory_core::Memory]| Vec::from_iter(found.iter().map(|memory| memory.created_at.as_millis()));
    for (name, part) in READ_PATHS {
        let between = walk(&*provider, |query| part(query).created_after(at(2)).created_before(at(5))).await?;
        assert_eq!(times(&between), [4, 4, 3, 3], "{name}: between");
        let after = walk(&*provider, |query| part(query).created_after(at(3)).limit(3)).await?;
        assert_eq!(times(&after), [5, 5, 4, 4], "{name}: after");
        let before = walk(&*provider, |query| part(query).created_before(at(3)).limit(3)).await?;
        assert_eq!(times(&before), [2, 2, 1, 1], "{name}: before");
        let none = walk(&*provider, |query| part(query).created_after(at(3)).created_before(at(3))).await?;
        assert_eq!(times(&none), [0; 0], "{name}: between equal bounds");
    }
    Ok(())
}

/// Q2: bounds hold together with a status, a filter and a confinement.
async fn time_bounds_hold_with_filter_status_and_within(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let rows = guilds(1..=9)
        .into_iter()
        .map(|row| row.with_status(Status::Running).with_metadata(metadata(r#"{"topic":"rust"}"#)));
    provider.store_many(rows.collect()).await?;
    let within = memory_core::SpaceSelector::exact("guild-1-a")?;
    for status in [None, Some(Status::Running)] {
        for filter in [None, Some("metadata.topic = 'rust'"), Some("createdAt > 5"), Some("metadata.topic LIKE 'r%'")] {
            let found = walk(&*provider, |mut query| {
                query = query.under("guild-1").within(within.clone()).created_after(at(5)).created_before(at(8));
                query = status.into_iter().fold(query, |query, status| query.status(status));
                filter.into_iter().fold(query, |query, filter| query.filter_text(filter))
            });
            let times: Vec<_> = found.await?.iter().map(|memory| memory.created_at.as_millis()).collect();
            assert_eq!(times, [7, 6], "{status:?} {filter:?}");
        }
    }
    Ok(())
}

/// Q2: later pages keep the bounds, in both orders.
async fn time_bounds_hold_behind_a_cursor(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let rows = [1, 2, 2, 2, 3, 4, 4, 5].map(|time| new_memory("a", time));
    let stored = provider.store_many(rows.to_vec()).await?;
    for order in BOTH_ORDERS {
        let found =
            walk(&*provider, |query| query.under("a").created_after(at(1)).created_before(at(5)).order(order).limit(1));
        let mut expected = stored[1..7].to_vec();
        if order == memory_core::Order::NewestFirst {
            expected.reverse();
        }
        assert_eq!(ids(&found.await?), expected, "{order:?}");
    }
    Ok(())
}

/// Q2: a bound of 0 is a bound (0 that was treated as "not set").
async fn zero_is_a_bound(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let stored = provider.store_many([-1, 0, 1].map(|time| new_memory("a", time)).to_vec()).await?;
    assert_eq!(ids(&walk(&*provider, |query| query.all().created_after(at(0))).await?), [stored[2]]);
    assert_eq!(ids(&walk(&*provider, |query| query.all().created_before(at(0))).await?), [stored[0]]);
    Ok(())
}

/// Q2: with an upper bound the newest rows below it come first, not the oldest ("before" that reversed the order).
async fn the_latest_before_a_time_come_first(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let stored = provider.store_many((0..20).map(|time| new_memory("a", time)).collect()).await?;
    let page = super::page(&*provider, |query| query.exact("a").created_before(at(10)).limit(2), None).await?;
    assert_eq!(ids(&page.memories), [stored[9], stored[8]]);
    let oldest = memory_core::Order::OldestFirst;
    let page =
        super::page(&*provider, |query| query.exact("a").created_before(at(10)).limit(2).order(oldest), None).await?;
    assert_eq!(ids(&page.memories), [stored[0], stored[1]]);
    Ok(())
}

/// Q2: the earliest and the latest time, 0 and negative times are stored, ordered and read as they are.
async fn the_ends_of_time_come_back(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let times = [Timestamp::MAX, at(0), Timestamp::MIN, at(-1), at(1), at(1_700_000_000_123), at(-62_135_596_800)];
    for time in times {
        let id = provider.store(new_memory("a", time.as_millis())).await?;
        let back = provider.get(id).await?.expect("it was stored");
        assert_eq!(back.created_at, time);
    }
    let found = walk(&*provider, |query| query.exact("a").limit(1)).await?;
    let mut expected = times.to_vec();
    expected.sort_unstable_by(|left, right| right.cmp(left));
    assert_eq!(Vec::from_iter(found.iter().map(|memory| memory.created_at)), expected);
    Ok(())
}
