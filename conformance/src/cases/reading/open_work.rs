//! Q9: pending and running rows are found wherever they lie. In `pages`, `a_match_behind_many_candidates_is_found` checks that no other
//! rows are examined for them, since it stores enough rows.

use memory_core::{MemoryPatch, Order, Status};

use super::{BOTH_ORDERS, READ_PATHS, guilds, scattered_id, sorted_ids};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{ids, metadata, new_memory, walk};

chapter!("reading":
    open_work_is_found_among_much_that_is_done ["Q9"],
    open_work_follows_updates ["Q9", "W1"],
    open_work_is_found_on_every_read_path ["Q9", "Q6", "W12"],
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

/// Q9: as its status changes, a row becomes open work, and stops being open work; other patches change nothing about that.
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

/// Q9: selectors, bounds, filters and exclusions narrow open work as they narrow everything, in pages of both orders, also if the rows were
/// restored.
async fn open_work_is_found_on_every_read_path(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let rows = guilds(1..=30).into_iter().enumerate().map(|(number, row)| match number % 5 {
        0 => row.with_metadata(metadata(r#"{"kind":"open"}"#)),
        1 => row.with_status(Status::Running),
        _ => row.with_status(Status::Completed),
    });
    let (stored, restored): (Vec<_>, Vec<_>) = rows.partition(|row| row.created_at < crate::fixture::at(15));
    provider.store_many(stored).await?;
    provider.restore((0..).zip(restored).map(|(number, row)| row.into_memory(scattered_id(number))).collect()).await?;
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
