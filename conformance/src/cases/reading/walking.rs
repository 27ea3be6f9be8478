//! Q6: cursors.

use std::collections::BTreeSet;

use memory_core::{Cursor, ErrorKind, MemoryPatch, MemoryQuery, Order, QueryBuilder, SpaceSelector, Status};

use super::{BOTH_ORDERS, READ_PATHS, Walk, guilds, page, scattered_id, sorted_ids};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{at, ids, metadata, new_memory, query, walk};

chapter!("reading":
    a_walk_yields_each_row_once_on_every_read_path ["Q6", "Q1"],
    a_walk_with_every_condition_yields_each_row_once ["Q6", "Q3", "Q2"],
    a_walk_survives_appends ["Q6"],
    a_walk_survives_appends_into_its_millisecond ["Q6"],
    a_walk_survives_updates ["Q6", "Q4", "W6"],
    a_walk_survives_rows_that_leave_it ["Q6"],
    a_walk_survives_that_its_last_row_leaves ["Q6"],
    a_long_walk_yields_each_row_once_however_it_was_written ["Q6", "W12"],
    rows_that_arrive_late_are_found_among_many ["Q6"],
    a_cursor_survives_a_restart ["Q6"],
    a_cursor_works_through_another_handle ["Q6"],
    a_cursor_belongs_to_its_query ["Q6"],
    a_cursor_belongs_to_its_namespace ["Q6"],
);

/// Q6: pages of any size add up to the whole, on every read path, in both orders, with ties: a page that ends between rows of equal time
/// loses and repeats none (paging by timestamp).
async fn a_walk_yields_each_row_once_on_every_read_path(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    for (name, part) in READ_PATHS {
        assert_eq!(walk(&*provider, part).await?, [], "{name}, in an empty ledger");
    }
    provider.store_many(guilds([5, 1, 1, 1, 3, 3, 2, 5, 9, 9])).await?;
    let rows = walk(&*provider, |query| query.under("guild-1").limit(1_000)).await?;
    assert_eq!(rows.len(), 20);
    for (name, part) in READ_PATHS {
        for order in BOTH_ORDERS {
            for limit in [1, 3, 19, 20, 21] {
                let found = walk(&*provider, |query| part(query).order(order).limit(limit)).await?;
                assert_eq!(ids(&found), sorted_ids(&rows, order), "{name}, {order:?}, {limit} a page");
            }
        }
    }
    Ok(())
}

/// Q6: bounds, status, filter, exclusion and confinement hold on every page.
async fn a_walk_with_every_condition_yields_each_row_once(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let rows = guilds((0..60).map(|number| number / 2)).into_iter().enumerate().map(|(number, row)| {
        row.with_status(Status::ALL[number % 3]).with_metadata(metadata(&format!(r#"{{"n":{}}}"#, number % 4)))
    });
    let stored = provider.store_many(rows.collect()).await?;
    let excluded = stored[80];
    let rows = walk(&*provider, |query| query.all().limit(1_000)).await?;
    let within = SpaceSelector::glob("*-[ab]")?;
    for (name, part) in READ_PATHS.into_iter().filter(|(name, _)| *name != "all, confined") {
        for order in BOTH_ORDERS {
            let build = |query| {
                let query = part(query).within(within.clone()).status(Status::Pending).status(Status::Completed);
                let query = query.created_after(at(3)).created_before(at(27)).exclude(excluded);
                query.filter_text("metadata.n >= 1").order(order).limit(2)
            };
            let expected = rows.iter().filter(|memory| {
                memory.space_id.as_str().starts_with("guild-1-")
                    && memory.status != Status::Running
                    && (4..27).contains(&memory.created_at.as_millis())
                    && memory.metadata.as_str() != r#"{"n":0}"#
                    && memory.id != excluded
            });
            assert_eq!(ids(&walk(&*provider, build).await?), sorted_ids(expected, order), "{name}, {order:?}");
        }
    }
    Ok(())
}

/// Q6: rows that arrive during a walk move none of the others (an offset window that moved).
async fn a_walk_survives_appends(stage: Stage) -> CaseResult {
    for order in BOTH_ORDERS {
        let stage = stage.elsewhere();
        let provider = stage.open().await?;
        let before = provider.store_many((0..20).map(|time| new_memory("a-b", time)).collect()).await?;
        // One at each end of the order, and one in the middle. Only five times, so that the walk ends.
        let mut times = 0..5;
        let mut pages = Walk::new(&*provider, |query| query.under("a").order(order).limit(3));
        while pages.next().await?.is_some() {
            if let Some(time) = times.next() {
                provider.store_many([-9 - time, 10, 50 + time].map(|time| new_memory("a-c", time)).to_vec()).await?;
            }
        }
        let found = pages.found;
        check_once(&found, &before, &format!("{order:?}"));
        let rows = walk(&*provider, |query| query.all()).await?;
        let in_order = sorted_ids(rows.iter().filter(|memory| found.contains(&memory.id)), order);
        assert_eq!(found, in_order, "{order:?}: the walk is in order");
    }
    Ok(())
}

/// Q6: rows that arrive in the very millisecond at which a page ended repeat and hide none.
async fn a_walk_survives_appends_into_its_millisecond(stage: Stage) -> CaseResult {
    for order in BOTH_ORDERS {
        let stage = stage.elsewhere();
        let provider = stage.open().await?;
        let before = provider.store_many(vec![new_memory("a-b", 7); 12]).await?;
        let mut rounds = 0..3;
        let mut pages = Walk::new(&*provider, |query| query.prefix("a").order(order).limit(5));
        while pages.next().await?.is_some() {
            if let Some(round) = rounds.next() {
                provider.store(new_memory("a-b", 7)).await?;
                provider.restore(vec![new_memory("a-c", 7).into_memory(scattered_id(round))]).await?;
            }
        }
        check_once(&pages.found, &before, &format!("{order:?}"));
    }
    Ok(())
}

/// Q6: updates between pages repeat and hide no row (205 in, 204 out), and move none.
async fn a_walk_survives_updates(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let stored = provider.store_many((0..30).map(|number| new_memory("a-b", number / 4)).collect()).await?;
    for order in BOTH_ORDERS {
        let mut now = 2_000_000;
        let mut pages = Walk::new(&*provider, |query| query.under("a").order(order).limit(4));
        while let Some(page) = pages.next().await? {
            now += 1;
            stage.namespace().clock.set(at(now));
            let last = page.memories.last().map(|memory| memory.id);
            for id in [stored[0], stored[29], stored[15]].into_iter().chain(last) {
                let patch = MemoryPatch::new().merge_metadata(metadata(&format!(r#"{{"n":{now}}}"#)));
                provider.update(id, patch.with_status(Status::Running)).await?;
            }
        }
        if order == Order::NewestFirst {
            pages.found.reverse();
        }
        assert_eq!(pages.found, stored, "{order:?}");
    }
    Ok(())
}

/// Q6: while rows stop matching the query, those that stay come exactly once.
async fn a_walk_survives_rows_that_leave_it(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let stored = provider.store_many((0..40).map(|number| new_memory("a", number / 5)).collect()).await?;
    let stays = |place: usize| place.is_multiple_of(3);
    let mut leaving: Vec<_> = (0..40).filter(|place| !stays(*place)).map(|place| stored[place]).collect();
    let mut pages = Walk::new(&*provider, |query| query.all().status(Status::Pending).limit(4));
    while pages.next().await?.is_some() {
        for _ in 0..3 {
            // From both sides of the walk's position.
            let places = [0, leaving.len().saturating_sub(1)];
            for id in places.map(|place| leaving.get(place).copied()).into_iter().flatten() {
                provider.update(id, MemoryPatch::new().with_status(Status::Completed)).await?;
                leaving.retain(|other| *other != id);
            }
        }
    }
    let staying: Vec<_> = (0..40).filter(|place| stays(*place)).map(|place| stored[place]).collect();
    check_once(&pages.found, &staying, "rows that stay");
    Ok(())
}

/// Q6: the last row of a page stops matching, and the walk still continues after its position.
async fn a_walk_survives_that_its_last_row_leaves(stage: Stage) -> CaseResult {
    for order in BOTH_ORDERS {
        let stage = stage.elsewhere();
        let provider = stage.open().await?;
        let stored = provider.store_many((0..9).map(|number| new_memory("a", number / 4)).collect()).await?;
        let build = |query: memory_core::QueryBuilder<_>| {
            query.under("a").status(Status::Pending).filter_text("metadata.gone IS NULL").order(order).limit(2)
        };
        let mut pages = Walk::new(&*provider, build);
        while let Some(page) = pages.next().await? {
            if let Some(last) = page.memories.last() {
                let patch = MemoryPatch::new().merge_metadata(metadata(r#"{"gone":true}"#));
                provider.update(last.id, patch.with_status(Status::Completed)).await?;
            }
        }
        let expected: Vec<_> = match order {
            Order::OldestFirst => stored,
            Order::NewestFirst => stored.into_iter().rev().collect(),
        };
        assert_eq!(pages.found, expected, "{order:?}");
    }
    Ok(())
}

/// Q6: hundreds of rows below one path, which an engine may keep in several parts, come in order, whether they were written oldest first,
/// newest first or at random.
async fn a_long_walk_yields_each_row_once_however_it_was_written(stage: Stage) -> CaseResult {
    const ROWS: u64 = 700;
    let row = |number: u64| {
        let space = if number.is_multiple_of(2) { "guild-1-a" } else { "guild-1-b" };
        new_memory(space, number as i64 / 3).into_memory(scattered_id(number))
    };
    let rows: Vec<_> = (0..ROWS).map(row).collect();
    // A step that has no common factor with the number of rows visits each once.
    let orders = [
        ("as it happened", Vec::from_iter(0..ROWS)),
        ("newest first", Vec::from_iter((0..ROWS).rev())),
        ("at random", Vec::from_iter((0..ROWS).map(|place| place * 263 % ROWS))),
    ];
    for (written, places) in orders {
        let stage = stage.elsewhere();
        let provider = stage.open().await?;
        for some in places.chunks(35) {
            provider.restore(some.iter().copied().map(row).collect()).await?;
        }
        for (name, part) in READ_PATHS {
            for order in BOTH_ORDERS {
                let what = format!("written {written}, {name}, {order:?}");
                let found = walk(&*provider, |query| part(query).order(order).limit(60)).await?;
                assert_eq!(ids(&found), sorted_ids(&rows, order), "{what}");
                let bounded = |query| part(query).created_after(at(51)).created_before(at(201)).order(order).limit(170);
                let between = rows.iter().filter(|memory| (52..201).contains(&memory.created_at.as_millis()));
                let found = walk(&*provider, bounded).await?;
                assert_eq!(ids(&found), sorted_ids(between, order), "{what}, between two times");
            }
        }
    }
    Ok(())
}

/// Q6: old rows that are stored one by one after many newer ones have their position, and newer ones theirs.
async fn rows_that_arrive_late_are_found_among_many(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let mut rows = Vec::new();
    provider.store_many((0..400).map(|time| new_memory("a-b", 10 * time)).collect()).await?;
    for number in 0..150 {
        let time = if number % 3 == 2 { 4_000 + number } else { number * 2_654_435 % 4_000 };
        provider.store(new_memory("a-b", time)).await?;
        if number % 50 == 49 {
            rows = walk(&*provider, |query| query.all().limit(1_000)).await?;
            for order in BOTH_ORDERS {
                let first = page(&*provider, |query| query.under("a").order(order), None).await?;
                assert_eq!(ids(&first.memories), sorted_ids(&rows, order)[..50], "the first page, {order:?}");
                let found = walk(&*provider, |query| query.under("a").order(order).limit(64)).await?;
                assert_eq!(ids(&found), sorted_ids(&rows, order), "{order:?}");
            }
        }
    }
    assert_eq!(rows.len(), 550);
    Ok(())
}

/// Q6: a cursor continues after the provider was shut down and opened again.
async fn a_cursor_survives_a_restart(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let stored = provider.store_many((0..10).map(|number| new_memory("a", number / 4)).collect()).await?;
    let build = |query: memory_core::QueryBuilder<_>| query.exact("a").limit(6);
    let first = page(&*provider, build, None).await?;
    provider.shutdown().await?;
    drop(provider);
    // As text, as a client would store it.
    let cursor = first.next.expect("rows are left").to_string();
    let query = build(MemoryQuery::builder()).cursor(cursor).build()?;
    let second = stage.open().await?.query(&query).await?;
    let found: Vec<_> = ids(&first.memories).into_iter().chain(ids(&second.memories)).collect();
    assert_eq!(found, Vec::from_iter(stored.into_iter().rev()));
    Ok(())
}

/// Q6: each page of a walk may come from another handle on the same data and have another limit, and each cursor can be used again.
async fn a_cursor_works_through_another_handle(stage: Stage) -> CaseResult {
    let handles = [stage.open().await?, stage.open().await?];
    let stored = handles[0].store_many((0..30).map(|number| new_memory("a", number / 7)).collect()).await?;
    let mut found = Vec::new();
    let mut cursor: Option<Cursor> = None;
    for (handle, limit) in handles.iter().cycle().zip([1, 5, 2, 9, 1_000].into_iter().cycle()) {
        let first = page(&**handle, |query| query.prefix("a").limit(limit), cursor.as_ref()).await?;
        let again = page(&**handle, |query| query.prefix("a").limit(limit), cursor.as_ref()).await?;
        assert_eq!(first.memories, again.memories, "a cursor that is used again");
        found.extend(ids(&first.memories));
        let Some(next) = first.next else { break };
        cursor = Some(next);
    }
    assert_eq!(found, Vec::from_iter(stored.into_iter().rev()));
    Ok(())
}

/// Q6: a query that differs in anything but limit and offset does not take the cursor; an equal one does, however it was built.
async fn a_cursor_belongs_to_its_query(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let stored = provider.store_many((0..5).map(|time| new_memory("a-b", time)).collect()).await?;
    let under = |path| SpaceSelector::under(path).expect("a valid path");
    let with_rest = |query: QueryBuilder<_>| {
        let query = query.within(under("a")).status(Status::Pending).status(Status::Running).limit(1);
        let query = query.created_after(at(-5)).created_before(at(500)).exclude(stored[0]);
        query.filter_text("metadata.x IS NULL").order(Order::NewestFirst)
    };
    let base = || with_rest(MemoryQuery::builder().under("a"));
    let cursor = provider.query(&base().build()?).await?.next.expect("rows are left");
    let equal = MemoryQuery::builder().status(Status::Running).selector(under("a")).exclude(stored[0]);
    let rest = provider.query(&with_rest(equal).limit(50).cursor(&cursor).build()?).await?;
    assert_eq!(ids(&rest.memories), [stored[3], stored[2], stored[1]]);
    for (what, other) in [
        ("another path", with_rest(MemoryQuery::builder().under("b"))),
        ("another kind of selector", with_rest(MemoryQuery::builder().prefix("a"))),
        ("all spaces", with_rest(MemoryQuery::builder().all())),
        ("one more selector", base().exact("c")),
        ("another confinement", base().within(under("a-b"))),
        ("another status", base().status(Status::Failed)),
        ("another lower bound", base().created_after(at(-6))),
        ("another upper bound", base().created_before(at(501))),
        ("another exclusion", base().exclude(stored[1])),
        ("another filter", base().filter_text("metadata.y IS NULL")),
        ("another order", base().order(Order::OldestFirst)),
        ("no conditions", MemoryQuery::builder().under("a")),
    ] {
        let refused = provider.query(&other.cursor(&cursor).build()?).await.expect_err(what);
        assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{what}");
    }
    Ok(())
}

/// Q6: in another namespace the same query refuses the cursor. What is no cursor is refused, too: odd texts, half a cursor, one with
/// swapped halves, and one of version 1 of the ledger. (memory-core tests each byte of a cursor, and each condition of a query.)
async fn a_cursor_belongs_to_its_namespace(stage: Stage) -> CaseResult {
    let (mine, other) = (stage.open().await?, stage.elsewhere().open().await?);
    for provider in [&mine, &other] {
        provider.store_many((0..3).map(|time| new_memory("a", time)).collect()).await?;
    }
    let cursor = mine.query(&query(|query| query.all().limit(1))).await?.next.expect("rows are left").to_string();
    assert_eq!(mine.query(&query(|query| query.all().limit(1).cursor(&cursor))).await?.memories.len(), 1);
    let half = &cursor[..cursor.len() / 2];
    let swapped = format!("{}{half}", &cursor[cursor.len() / 2..]);
    let old = "AVoKCDYQQSMBY3Y-FsE4dG4AAwAAB9uoIYAABwcHBwcHBwcHBwcHBwcHBw";
    let no_cursors = ["", "0", "null", "é😀", "' OR 1=1 --", "{\"$gt\":\"\"}", half, &swapped, old];
    for (provider, texts) in [(&mine, &no_cursors[..]), (&other, &[&cursor])] {
        for text in texts {
            let refused =
                provider.query(&query(|query| query.all().limit(1).cursor(text))).await.expect_err("no cursor");
            assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{text}");
            assert!(text.len() < 3 || !refused.to_string().contains(text), "the error repeats the text");
        }
    }
    Ok(())
}

/// Checks that `found` has each of `expected` exactly once, and no other id twice.
fn check_once(found: &[memory_core::MemoryId], expected: &[memory_core::MemoryId], what: &str) {
    let distinct = BTreeSet::from_iter(found);
    assert_eq!(distinct.len(), found.len(), "{what}: a row came twice");
    let missing = expected.iter().filter(|id| !distinct.contains(id)).count();
    assert_eq!(missing, 0, "{what}: rows that matched throughout the walk are missing");
}
