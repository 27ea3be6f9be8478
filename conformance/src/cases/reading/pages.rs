//! Q5: limit, offset, and where a page ends.

use memory_core::{MAX_PAGE_BYTES, Memory, Order, QueryBuilder, Status};

use super::{BOTH_ORDERS, Part, READ_PATHS, Walk, guilds, page};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{at, context, ids, metadata, new_memory, trigger, walk};

chapter!("reading":
    a_page_has_fifty_rows_unless_asked_otherwise ["Q5"],
    a_limit_of_zero_is_an_empty_page ["Q5"],
    a_page_takes_a_thousand_rows ["Q5"],
    a_full_page_has_a_cursor_exactly_when_there_is_more ["Q5"],
    an_offset_skips_rows ["Q5"],
    an_offset_counts_only_what_the_query_finds ["Q5", "Q3"],
    an_offset_is_not_repeated_behind_a_cursor ["Q5", "Q6"],
    the_furthest_offset_works ["Q5"],
    a_page_ends_at_sixteen_mib ["Q5"],
    a_page_has_at_least_one_row_however_large ["Q5"],
    a_match_behind_many_candidates_is_found ["Q5", "Q6", "Q9"],
);

/// Q5: a page has 50 rows by default, and more with a larger limit (an engine's own default of 10).
async fn a_page_has_fifty_rows_unless_asked_otherwise(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let stored = provider.store_many((0..60).map(|time| new_memory("a", time)).collect()).await?;
    let newest: Vec<_> = stored.into_iter().rev().collect();
    let first = page(&*provider, |query| query.exact("a"), None).await?;
    assert_eq!(ids(&first.memories), newest[..50]);
    let rest = page(&*provider, |query| query.exact("a"), first.next.as_ref()).await?;
    assert_eq!(ids(&rest.memories), newest[50..]);
    for limit in [1, 11, 59, 60, 61] {
        let page = page(&*provider, |query| query.exact("a").limit(limit), None).await?;
        assert_eq!(ids(&page.memories), newest[..limit.min(60)], "limit {limit}");
    }
    Ok(())
}

/// Q5: 0 is a limit (0 that was treated as "not set").
async fn a_limit_of_zero_is_an_empty_page(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    provider.store_many(guilds([1, 2])).await?;
    for (name, part) in READ_PATHS {
        let page = page(&*provider, |query| part(query).limit(0), None).await?;
        assert_eq!((page.memories.len(), page.unreadable.len()), (0, 0), "{name}");
    }
    Ok(())
}

/// Q5: the largest limit is served in one page, and a walk with it finds all rows.
async fn a_page_takes_a_thousand_rows(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let mut stored = provider.store_many((0..1_100).map(|time| new_memory("a", time)).collect()).await?;
    stored.reverse();
    let page = page(&*provider, |query| query.under("a").limit(1_000), None).await?;
    assert_eq!(ids(&page.memories), stored[..1_000]);
    assert!(page.next.is_some(), "100 rows are left");
    assert_eq!(ids(&walk(&*provider, |query| query.under("a").limit(1_000)).await?), stored);
    Ok(())
}

/// Q5: when all rows are given the walk ends, also when the last page is exactly full. Rows that do not match don't count towards the
/// question whether there is another page.
async fn a_full_page_has_a_cursor_exactly_when_there_is_more(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    // From the oldest on: six matching rows, each after one with another status, topic or space.
    let rows = (0..12).map(|number| {
        let (space, topic) = match number {
            0 | 6 => ("c", 1),
            number if number % 2 == 1 => ("b-m", 1),
            _ => ("b-a", 0),
        };
        let status = if number % 6 == 4 { Status::Completed } else { Status::Pending };
        new_memory(space, number).with_metadata(metadata(&format!(r#"{{"topic":{topic}}}"#))).with_status(status)
    });
    let stored = provider.store_many(rows.collect()).await?;
    let newest: Vec<_> = [11, 9, 7, 5, 3, 1].map(|number| stored[number]).into();
    let parts: [Part; 4] = [
        |query| query.exact("b-m"),
        |query| query.under("b").filter_text("metadata.topic = 1"),
        |query| query.under("b").filter_text("metadata.topic = 1").status(Status::Pending),
        |query| query.glob("b-?").filter_text("metadata.topic = 1").status(Status::Pending),
    ];
    for (part, order) in parts.into_iter().flat_map(|part| BOTH_ORDERS.map(|order| (part, order))) {
        let mut expected = newest.clone();
        if order == Order::OldestFirst {
            expected.reverse();
        }
        for limit in 1..=7 {
            let (mut rest, mut cursor) = (expected.as_slice(), None);
            loop {
                let page = page(&*provider, |query| part(query).order(order).limit(limit), cursor.as_ref()).await?;
                let (due, others) = rest.split_at(limit.min(rest.len()));
                assert_eq!(ids(&page.memories), due, "{order:?}, limit {limit}");
                assert_eq!(page.next.is_some(), !others.is_empty(), "{order:?}, limit {limit}, {} left", others.len());
                (rest, cursor) = (others, page.next);
                if cursor.is_none() {
                    break;
                }
            }
        }
    }
    Ok(())
}

/// Q5: an offset leaves out that many rows from the front, with and without a limit. An offset of all rows or more leaves an empty page.
async fn an_offset_skips_rows(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    provider.store_many(guilds(1..=5)).await?;
    for (name, part) in READ_PATHS {
        let all = ids(&walk(&*provider, part).await?);
        for offset in [0, 1, 4, 9, 10, 11, 10_000] {
            let rest = page(&*provider, |query| part(query).offset(offset), None).await?;
            assert_eq!(ids(&rest.memories), all[offset.min(10)..], "{name}: offset {offset} without a limit");
            let some = page(&*provider, |query| part(query).offset(offset).limit(3), None).await?;
            let expected = &all[offset.min(10)..(offset + 3).min(10)];
            assert_eq!(ids(&some.memories), expected, "{name}: offset {offset}, limit 3");
        }
    }
    Ok(())
}

/// Q5: an offset skips rows that the query would give, and not candidates.
async fn an_offset_counts_only_what_the_query_finds(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let rows = (0..100).map(|number| {
        let status = if number % 2 == 0 { Status::Completed } else { Status::Pending };
        let metadata = metadata(&format!(r#"{{"fifth":{}}}"#, number % 5 == 0));
        new_memory("a", number).with_status(status).with_metadata(metadata)
    });
    let stored = provider.store_many(rows.collect()).await?;
    let build = |query: memory_core::QueryBuilder<_>| {
        query.exact("a").status(Status::Completed).filter_text("metadata.fifth = true")
    };
    let page = page(&*provider, |query| build(query).offset(3).limit(4), None).await?;
    assert_eq!(ids(&page.memories), [stored[60], stored[50], stored[40], stored[30]]);
    Ok(())
}

/// Q5: a walk that begins with an offset returns all later rows, each once.
async fn an_offset_is_not_repeated_behind_a_cursor(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let stored = provider.store_many((0..40).map(|number| new_memory("a", number / 3)).collect()).await?;
    let newest: Vec<_> = stored.into_iter().rev().collect();
    for (offset, limit) in [(5, 7), (1, 1), (30, 3), (39, 10)] {
        let mut page = page(&*provider, |query| query.under("a").offset(offset).limit(limit), None).await?;
        let mut found = ids(&page.memories);
        while let Some(cursor) = page.next {
            page = super::page(&*provider, |query| query.under("a").limit(limit), Some(&cursor)).await?;
            found.extend(ids(&page.memories));
        }
        assert_eq!(found, newest[offset..], "offset {offset}, limit {limit}");
    }
    Ok(())
}

/// Q5: the largest offset finds the row after it.
async fn the_furthest_offset_works(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let first = provider.store(new_memory("a", -1)).await?;
    provider.store_many((0..10_000).map(|time| new_memory("a", time)).collect()).await?;
    let page = page(&*provider, |query| query.exact("a").offset(10_000), None).await?;
    assert_eq!(ids(&page.memories), [first]);
    Ok(())
}

/// Q5: large rows end a page before 16 MiB, and a walk still gives each once.
async fn a_page_ends_at_sixteen_mib(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let large = trigger(&format!("\"{}\"", "x".repeat(3 << 20)));
    let mut stored = Vec::new();
    for time in 0..8 {
        let row = memory_core::NewMemory::new(crate::fixture::space("a"), large.clone(), at(time));
        stored.push(provider.store(row).await?);
    }
    stored.reverse();
    let mut pages = Walk::new(&*provider, |query| query.exact("a"));
    while let Some(page) = pages.next().await? {
        let bytes: usize = page.memories.iter().map(Memory::size).sum();
        assert!((1..=MAX_PAGE_BYTES).contains(&bytes), "a page of {bytes} bytes");
    }
    assert_eq!(pages.found, stored);
    Ok(())
}

/// Q5: rows with the largest trigger and context, together 12 MiB, come one on a page.
async fn a_page_has_at_least_one_row_however_large(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let text = |bytes: usize| format!("\"{}\"", "y".repeat(bytes - 2));
    let (trigger, context) = (trigger(&text(4 << 20)), context(&text(8 << 20)));
    let mut stored = Vec::new();
    for time in 0..2 {
        let row = memory_core::NewMemory::new(crate::fixture::space("a"), trigger.clone(), at(time));
        stored.push(provider.store(row.with_context(context.clone())).await?);
    }
    let first = page(&*provider, |query| query.exact("a"), None).await?;
    assert_eq!(ids(&first.memories), [stored[1]], "two of these are more than 16 MiB");
    assert_eq!(first.memories[0].trigger, trigger);
    assert_eq!(first.memories[0].context.as_ref(), Some(&context));
    let second = page(&*provider, |query| query.exact("a"), first.next.as_ref()).await?;
    assert_eq!(ids(&second.memories), [stored[0]]);
    Ok(())
}

/// Q5: a single old match after more candidates than a page examines. The first page is empty and has a cursor, and the walk finds the
/// match. A query for open work has no other candidates, so its first page has the match (Q9).
async fn a_match_behind_many_candidates_is_found(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let wanted = new_memory("a-old", -1).with_metadata(metadata(r#"{"score":7}"#));
    let wanted = provider.store(wanted).await?;
    let decoy = metadata(r#"{"score":5}"#);
    for batch in 0..11 {
        let times = batch * 9_200..(batch + 1) * 9_200;
        let done = |time| new_memory("a-b", time).with_status(Status::Completed).with_metadata(decoy.clone());
        provider.store_many(times.map(done).collect()).await?;
    }
    // No engine can narrow by this condition, so each of the 101,201 rows is a candidate.
    let build = |query: QueryBuilder<_>| query.under("a").filter_text("metadata.score > 6").limit(10);
    let first = page(&*provider, build, None).await?;
    assert_eq!((first.memories.len(), first.next.is_some()), (0, true), "a page ends after 100,000 candidates");
    let second = page(&*provider, build, first.next.as_ref()).await?;
    assert_eq!((ids(&second.memories), second.next), (vec![wanted], None));
    let parts: [Part; 4] = [
        |query| query.all(),
        |query| query.under("a"),
        |query| query.prefix("a-"),
        |query| query.exact("a-old").exact("a-b"),
    ];
    for (part, order) in parts.into_iter().flat_map(|part| BOTH_ORDERS.map(|order| (part, order))) {
        let open = page(&*provider, |query| part(query).status(Status::Pending).order(order), None).await?;
        assert_eq!((ids(&open.memories), open.next), (vec![wanted], None), "what is done was examined");
    }
    Ok(())
}
