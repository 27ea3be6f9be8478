//! Q9: pending and running rows are found wherever they lie. The chapter's cases in `pages` check that no other rows are examined for them,
//! since those have enough rows.

use memory_core::{MemoryPatch, Order, Status};

use super::{BOTH_ORDERS, READ_PATHS, guilds, scattered_id, sorted_ids};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{ids, metadata, new_memory, walk};

chapter!("reading":
    open_work_is_found_among_much_that_is_done ["Q9"],
    open_work_follows_updates ["Q9", "W1"],
    open_work_is_found_on_every_read_path ["Q9"],
    open_work_has_pages_in_both_orders ["Q9", "Q6"],
    restored_open_work_is_found ["Q9", "W12"],
    open_work_beside_other_statuses ["Q9", "Q3"],
);

/// Q9: three open rows, the oldest, one in the middle and the newest, among 3,000 completed ones.
async fn open_work_is_found_among_much_that_is_done(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let status = |number| match number {
        0 | 2_999 => Status::Pending,
        1_500 => Status::Running,
        _ => Status::Completed,
    };
    let rows = (0..3_000).map(|number| new_memory(&format!("room-{number}"), number).with_status(status(number)));
    let stored = provider.store_many(rows.collect()).await?;
    let open = |query: memory_core::QueryBuilder<_>| query.all().status(Status::Pending).status(Status::Running);
    assert_eq!(ids(&walk(&*provider, open).await?), [stored[2_999], stored[1_500], stored[0]]);
    let pending = walk(&*provider, |query| query.all().status(Status::Pending).order(Order::OldestFirst)).await?;
    assert_eq!(ids(&pending), [stored[0], stored[2_999]]);
    assert_eq!(ids(&walk(&*provider, |query| query.all().status(Status::Running)).await?), [stored[1_500]]);
    Ok(())
}

/// Q9: a row enters and leaves as its status changes, and other patches leave it where it is.
async fn open_work_follows_updates(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let stored = provider.store_many((1..=3).map(|time| new_memory("guild-1-a", time)).collect()).await?;
    let (moving, first, last) = (stored[1], stored[0], stored[2]);
    for (status, pending, running) in [
        (None, vec![last, moving, first], vec![]),
        (Some(Status::Running), vec![last, first], vec![moving]),
        (Some(Status::Running), vec![last, first], vec![moving]),
        (Some(Status::Completed), vec![last, first], vec![]),
        (Some(Status::Pending), vec![last, moving, first], vec![]),
        (Some(Status::Failed), vec![last, first], vec![]),
        (Some(Status::Observed), vec![last, first], vec![]),
    ] {
        let patch = MemoryPatch::new().merge_metadata(metadata(r#"{"seen":true}"#));
        provider.update(moving, status.into_iter().fold(patch, MemoryPatch::with_status)).await?;
        for (name, part) in READ_PATHS {
            let found = walk(&*provider, |query| part(query).status(Status::Pending)).await?;
            assert_eq!(ids(&found), pending, "{name}: pending after {status:?}");
            let found = walk(&*provider, |query| part(query).status(Status::Running)).await?;
            assert_eq!(ids(&found), running, "{name}: running after {status:?}");
        }
    }
    Ok(())
}

/// Q9: selectors, bounds, filters and exclusions narrow open work as they narrow everything.
async fn open_work_is_found_on_every_read_path(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let rows = guilds(1..=30).into_iter().enumerate().map(|(number, row)| match number % 5 {
        0 => row.with_metadata(metadata(r#"{"kind":"open"}"#)),
        1 => row.with_status(Status::Running),
        _ => row.with_status(Status::Completed),
    });
    provider.store_many(rows.collect()).await?;
    let rows = walk(&*provider, |query| query.all()).await?;
    let inside = |memory: &&memory_core::Memory| memory.space_id.as_str().starts_with("guild-1-");
    for (name, part) in READ_PATHS {
        for order in BOTH_ORDERS {
            let open = rows.iter().filter(inside).filter(|memory| memory.status.is_open());
            let found = walk(&*provider, |query| {
                part(query).status(Status::Pending).status(Status::Running).order(order).limit(3)
            });
            assert_eq!(ids(&found.await?), sorted_ids(open, order), "{name}, {order:?}");
            let narrowed = rows.iter().filter(inside).filter(|memory| {
                memory.status == Status::Pending && (11..=24).contains(&memory.created_at.as_millis())
            });
            let found = walk(&*provider, |query| {
                let query = part(query).status(Status::Pending).filter_text("metadata.kind = 'open'").order(order);
                query.created_after(crate::fixture::at(10)).created_before(crate::fixture::at(25)).limit(3)
            });
            assert_eq!(ids(&found.await?), sorted_ids(narrowed, order), "{name} narrowed, {order:?}");
        }
    }
    Ok(())
}

/// Q9: walking over open work yields each row once, in both orders and with ties.
async fn open_work_has_pages_in_both_orders(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let status =
        |number: i64| [Status::Pending, Status::Completed, Status::Running, Status::Failed][number as usize % 4];
    let rows = (0..240).map(|number| new_memory(&format!("r-{number}"), number / 10).with_status(status(number)));
    provider.store_many(rows.collect()).await?;
    let rows = walk(&*provider, |query| query.all()).await?;
    for order in BOTH_ORDERS {
        for limit in [1, 7, 120] {
            let found = walk(&*provider, |query| {
                query.all().status(Status::Running).status(Status::Pending).order(order).limit(limit)
            });
            let open = rows.iter().filter(|memory| memory.status.is_open());
            assert_eq!(ids(&found.await?), sorted_ids(open, order), "{order:?}, {limit} a page");
        }
    }
    Ok(())
}

/// Q9: restored rows that are open are open work too.
async fn restored_open_work_is_found(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let row = |number: u64| {
        let status = Status::ALL[number as usize % Status::ALL.len()];
        new_memory("a", 5).with_status(status).into_memory(scattered_id(number))
    };
    let rows: Vec<_> = (0..50).map(row).collect();
    provider.restore(rows.clone()).await?;
    for status in Status::ALL {
        let found = walk(&*provider, |query| query.under("a").status(status).limit(4)).await?;
        let expected = rows.iter().filter(|memory| memory.status == status);
        assert_eq!(ids(&found), sorted_ids(expected, Order::NewestFirst), "{status}");
    }
    Ok(())
}

/// Q9: a query for open and for done rows together finds both (a fast path that was taken too early).
async fn open_work_beside_other_statuses(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let rows = (1..).zip(Status::ALL).map(|(time, status)| new_memory("a", time).with_status(status));
    let stored = provider.store_many(rows.collect()).await?;
    let found = walk(&*provider, |query| query.all().status(Status::Pending).status(Status::Failed).limit(1)).await?;
    assert_eq!(ids(&found), [stored[3], stored[0]]);
    Ok(())
}
