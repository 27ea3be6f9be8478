//! Q1, Q3 and Q7: which rows a query finds.

use std::collections::BTreeSet;

use memory_core::{ErrorKind, MemoryQuery, SpaceSelector, Status};

use super::{BOTH_ORDERS, READ_PATHS, guilds, page};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{ids, metadata, new_memory, spaces, walk};

chapter!("reading":
    exact_finds_one_space ["Q1", "S1"],
    all_finds_every_space ["Q1"],
    selectors_are_a_union_without_repetition ["Q1"],
    hundreds_of_selectors_are_one_union ["Q1"],
    selectors_have_a_limit ["Q1"],
    patterns_have_a_limit ["Q1"],
    every_read_path_finds_the_same ["Q1"],
    within_narrows_what_selectors_find ["Q1"],
    within_confines_every_selector ["Q1"],
    within_is_a_union_too ["Q1"],
    a_query_that_finds_nothing_is_an_empty_page ["Q1"],
    status_applies_before_the_limit ["Q3"],
    filter_applies_before_the_limit ["Q3", "F5"],
    statuses_are_a_union ["Q3"],
    a_sparse_space_fills_its_page_beside_a_dense_one ["Q3"],
    excluded_ids_take_no_room ["Q7"],
    excluding_works_on_every_read_path ["Q7"],
    excluded_ids_have_a_limit ["Q7"],
);

/// Q1: an exact selector finds the space with equal bytes, and neither what is below it nor beside it.
async fn exact_finds_one_space(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let rows = ["a", "a-b", "a-b-c", "a-bc", "A-b", "b"].map(|id| new_memory(id, 1));
    let stored = provider.store_many(rows.to_vec()).await?;
    let found = walk(&*provider, |query| query.exact("a-b")).await?;
    assert_eq!(ids(&found), [stored[1]]);
    Ok(())
}

/// Q1: `All` finds the rows of every space.
async fn all_finds_every_space(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let stored = provider.store_many(guilds(1..=5)).await?;
    let found = walk(&*provider, |query| query.all()).await?;
    assert_eq!(BTreeSet::from_iter(ids(&found)), BTreeSet::from_iter(stored));
    Ok(())
}

/// Q1: selectors that overlap give each row once, and none is silently left out (two selectors, one ignored).
async fn selectors_are_a_union_without_repetition(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    for (time, id) in (1..).zip(["a", "a-b", "a-b-c", "ab", "b", "b-a", "c"]) {
        provider.store(new_memory(id, time)).await?;
    }
    let found = walk(&*provider, |query| {
        query.exact("a-b").exact("a-b").under("a").prefix("a").glob("a*").regex("^a").exact("b-a").under("c").limit(2)
    })
    .await?;
    assert_eq!(spaces(&found), ["c", "b-a", "ab", "a-b-c", "a-b", "a"]);
    Ok(())
}

/// Q1: 300 exact selectors, with some that overlap them, are one union in one order.
async fn hundreds_of_selectors_are_one_union(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = |number: usize| format!("room-{number:03}");
    // The times alternate between the spaces, so that the rows of a selector are not adjacent.
    let rows = (0..400).map(|number| new_memory(&id(number), (number as i64 * 7) % 401));
    provider.store_many(rows.collect()).await?;
    let many = |query| (0..300).fold(query, |query: memory_core::QueryBuilder<_>, number| query.exact(id(number)));
    for order in BOTH_ORDERS {
        let found = walk(&*provider, |query| many(query).under("room-010").prefix("room-29").order(order)).await?;
        let mut expected: Vec<_> = (0..300).map(|number| ((number as i64 * 7) % 401, id(number))).collect();
        expected.sort();
        if order == memory_core::Order::NewestFirst {
            expected.reverse();
        }
        let expected: Vec<_> = expected.iter().map(|(_, id)| id.as_str()).collect();
        assert_eq!(spaces(&found), expected, "{order:?}");
    }
    Ok(())
}

/// Q1: 1,000 selectors, within 1,000 others, are a query like any other; one more in either list is `TooLarge`.
async fn selectors_have_a_limit(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let stored = provider.store_many(["a-1", "a-999", "a-1000", "b"].map(|id| new_memory(id, 1)).to_vec()).await?;
    let selectors = |numbers: std::ops::Range<usize>| -> Result<Vec<_>, memory_core::Error> {
        numbers.map(|number| SpaceSelector::exact(format!("a-{number}"))).collect()
    };
    let (most, others, over) = (selectors(0..1_000)?, selectors(500..1_500)?, selectors(0..1_001)?);
    let union = |selectors: &[SpaceSelector]| {
        selectors.iter().cloned().fold(MemoryQuery::builder(), memory_core::QueryBuilder::selector)
    };
    let page = provider.query(&union(&most).within(others).build()?).await?;
    assert_eq!(ids(&page.memories), [stored[1]]);
    for refused in [union(&over), MemoryQuery::builder().all().within(over.clone())] {
        assert_eq!(refused.build().expect_err("1,001 selectors").kind(), ErrorKind::TooLarge);
    }
    Ok(())
}

/// Q1: 32 globs and regexes are a query like any other; one more is `TooLarge`, even if it is invalid as a pattern.
async fn patterns_have_a_limit(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let wanted = provider.store(new_memory("a-31", 1)).await?;
    provider.store(new_memory("a-32", 2)).await?;
    let glob = |query: memory_core::QueryBuilder<_>, number: usize| query.glob(format!("?-{number}"));
    let most = (1..32).fold(MemoryQuery::builder().regex("nothing"), glob);
    assert_eq!(ids(&provider.query(&most.clone().build()?).await?.memories), [wanted]);
    for one_more in [most.clone().glob("?-32"), most.clone().regex("2$"), most.regex("(")] {
        assert_eq!(one_more.build().expect_err("33 patterns").kind(), ErrorKind::TooLarge);
    }
    Ok(())
}

/// Q1: different selectors for the same spaces give the same rows in the same order.
async fn every_read_path_finds_the_same(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    provider.store_many(guilds([3, 1, 2, 2])).await?;
    for order in BOTH_ORDERS {
        let expected = walk(&*provider, |query| query.under("guild-1").order(order)).await?;
        assert_eq!(expected.len(), 8);
        for (name, part) in READ_PATHS {
            let found = walk(&*provider, |query| part(query).order(order)).await?;
            assert_eq!(ids(&found), ids(&expected), "{name}, {order:?}");
        }
    }
    Ok(())
}

/// Q1: a row has to satisfy a selector and `within`: narrower, wider, equal and disjoint ones.
async fn within_narrows_what_selectors_find(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    for (time, id) in (1..).zip(["g", "g-1", "g-1-a", "g-1-a-x", "g-1-b", "g-12", "g-2"]) {
        provider.store(new_memory(id, time)).await?;
    }
    let under = |path: &str| SpaceSelector::under(path).expect("a valid path");
    for (asked, within, expected) in [
        (under("g"), under("g-1"), vec!["g-1-b", "g-1-a-x", "g-1-a", "g-1"]),
        (under("g-1-a"), under("g-1"), vec!["g-1-a-x", "g-1-a"]),
        (under("g-1"), under("g-1"), vec!["g-1-b", "g-1-a-x", "g-1-a", "g-1"]),
        (under("g-2"), under("g-1"), vec![]),
        (under("g-12"), under("g-1"), vec![]),
        (SpaceSelector::prefix("g-1")?, under("g-1"), vec!["g-1-b", "g-1-a-x", "g-1-a", "g-1"]),
        (SpaceSelector::exact("g-12")?, under("g-1"), vec![]),
        (SpaceSelector::exact("g-1-a")?, SpaceSelector::glob("*-a")?, vec!["g-1-a"]),
        (SpaceSelector::regex("a")?, SpaceSelector::exact("g-1-a-x")?, vec!["g-1-a-x"]),
        (SpaceSelector::glob("*")?, SpaceSelector::prefix("g-1")?, vec!["g-12", "g-1-b", "g-1-a-x", "g-1-a", "g-1"]),
    ] {
        let found = walk(&*provider, |query| query.selector(asked.clone()).within(within.clone()).limit(2)).await?;
        assert_eq!(spaces(&found), expected, "{asked} within {within}");
    }
    Ok(())
}

/// Q1: whatever the query names, nothing outside `within` comes back: this is how a host confines a caller.
async fn within_confines_every_selector(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    provider.store_many(guilds(1..=3)).await?;
    let asks: [super::Part; 6] = [
        |query| query.all(),
        |query| query.under("guild-2").under("guild-12").under("guild-1"),
        |query| query.prefix("g"),
        |query| query.glob("*"),
        |query| query.regex("."),
        |query| query.exact("guild-12-a").exact("guild-2").exact("guild-1-a").exact("guild-1-b"),
    ];
    for (number, ask) in asks.into_iter().enumerate() {
        let within = SpaceSelector::under("guild-1")?;
        let found = walk(&*provider, |query| ask(query).within(within.clone()).limit(4)).await?;
        assert_eq!(found.len(), 6, "query {number} misses rows inside");
        assert!(found.iter().all(|memory| memory.space_id.as_str().starts_with("guild-1-")), "query {number} leaks");
    }
    Ok(())
}

/// Q1: `within` may name several sets; a row has to be in one of them.
async fn within_is_a_union_too(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    provider.store_many(guilds([1])).await?;
    let within = vec![SpaceSelector::exact("guild-2")?, SpaceSelector::glob("guild-1-[b-z]")?];
    let found = walk(&*provider, |query| query.all().within(within.clone())).await?;
    assert_eq!(BTreeSet::from_iter(spaces(&found)), BTreeSet::from(["guild-2", "guild-1-b"]));
    Ok(())
}

/// Q1: an empty result is an answer, in an empty ledger and beside other rows.
async fn a_query_that_finds_nothing_is_an_empty_page(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    for _ in 0..2 {
        let parts: [super::Part; 3] =
            [|query| query.exact("x"), |query| query.under("x"), |query| query.prefix("xx").glob("x?").regex("x$")];
        for part in parts {
            assert_eq!(walk(&*provider, part).await?, []);
        }
        provider.store_many(guilds([1])).await?;
    }
    Ok(())
}

/// Q3: rows of another status don't use up the limit, however many are newer (filter after top-k).
async fn status_applies_before_the_limit(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let wanted = provider.store(new_memory("guild-1-a", 0).with_status(Status::Failed)).await?;
    let decoys = (1..=1_000).map(|time| new_memory("guild-1-a", time).with_status(Status::Observed));
    provider.store_many(decoys.collect()).await?;
    for (name, part) in READ_PATHS {
        let page = page(&*provider, |query| part(query).status(Status::Failed).limit(1), None).await?;
        assert_eq!(ids(&page.memories), [wanted], "{name}: 1,001 candidates are below every bound of a page");
    }
    Ok(())
}

/// Q3: rows that the filter excludes don't use up the limit, however many are newer (filter after top-k).
async fn filter_applies_before_the_limit(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let wanted = new_memory("guild-1-a", 0).with_metadata(metadata(r#"{"topic":"rust","score":7}"#));
    let wanted = provider.store(wanted).await?;
    let decoys =
        (1..=1_000).map(|time| new_memory("guild-1-a", time).with_metadata(metadata(r#"{"topic":"go","score":5}"#)));
    provider.store_many(decoys.collect()).await?;
    for predicate in ["metadata.topic = 'rust'", "metadata.score > 6", "metadata.topic LIKE 'r%'"] {
        for (name, part) in READ_PATHS {
            let page = page(&*provider, |query| part(query).filter_text(predicate).limit(1), None).await?;
            assert_eq!(ids(&page.memories), [wanted], "{name}: 1,001 candidates are below every bound of a page");
        }
    }
    Ok(())
}

/// Q3: a query names any number of statuses; naming none takes all.
async fn statuses_are_a_union(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let mut stored = Vec::new();
    for (time, status) in (1..).zip(Status::ALL) {
        stored.push(provider.store(new_memory("a", time).with_status(status)).await?);
    }
    for chosen in 0..1 << Status::ALL.len() {
        let is_chosen = |place: usize| chosen & 1 << place != 0;
        let statuses = || Status::ALL.into_iter().enumerate().filter(|(place, _)| is_chosen(*place));
        let found = walk(&*provider, |query| {
            statuses().fold(query.exact("a").order(memory_core::Order::OldestFirst), |query, (_, status)| {
                query.status(status)
            })
        });
        let expected: Vec<_> =
            (0..stored.len()).filter(|place| chosen == 0 || is_chosen(*place)).map(|place| stored[place]).collect();
        assert_eq!(ids(&found.await?), expected, "statuses {chosen:b}");
    }
    Ok(())
}

/// Q3: few rows of one space, older than very many of its neighbors, are found with status and filter.
async fn a_sparse_space_fills_its_page_beside_a_dense_one(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let tagged = |space: &str, time| {
        new_memory(space, time).with_metadata(metadata(r#"{"tags":["x"]}"#)).with_status(Status::Completed)
    };
    let sparse = provider.store_many((1..=5).map(|time| tagged("guild-1-quiet", time)).collect()).await?;
    provider.store_many((6..=2_000).map(|time| tagged("guild-1-loud", time)).collect()).await?;
    for space in ["guild-1-quiet", "guild-1-loud"] {
        let build = |query: memory_core::QueryBuilder<_>| {
            query.under(space).status(Status::Completed).filter_text("'x' = ANY(metadata.tags)").limit(4)
        };
        let page = page(&*provider, build, None).await?;
        assert_eq!(page.memories.len(), 4, "{space}");
        assert!(page.memories.iter().all(|memory| memory.space_id.as_str() == space), "{space}");
    }
    let found = walk(&*provider, |query| query.exact("guild-1-quiet").filter_text("'x' = ANY(metadata.tags)")).await?;
    assert_eq!(ids(&found), Vec::from_iter(sparse.into_iter().rev()));
    Ok(())
}

/// Q7: excluded rows are left out and the page is filled with others (a task that recalls itself).
async fn excluded_ids_take_no_room(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let stored = provider.store_many((1..=6).map(|time| new_memory("a", time)).collect()).await?;
    let stranger = memory_core::MemoryId::generate();
    let build = |query: memory_core::QueryBuilder<_>| {
        query.exact("a").exclude(stored[5]).exclude(stored[3]).exclude(stranger).limit(2)
    };
    let first = page(&*provider, build, None).await?;
    assert_eq!(ids(&first.memories), [stored[4], stored[2]]);
    assert_eq!(ids(&walk(&*provider, build).await?), [stored[4], stored[2], stored[1], stored[0]]);
    Ok(())
}

/// Q7: an excluded row is left out whichever way the spaces are named, and with status and filter.
async fn excluding_works_on_every_read_path(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let stored = provider.store_many(guilds([1, 2])).await?;
    for (name, part) in READ_PATHS {
        let found = walk(&*provider, |query| {
            part(query).exclude(stored[0]).status(Status::Pending).filter_text("metadata.x IS NULL")
        });
        assert_eq!(ids(&found.await?), [stored[6], stored[4], stored[2]], "{name}");
    }
    Ok(())
}

/// Q7: 10,000 excluded ids are a query like any other; one more is `TooLarge`.
async fn excluded_ids_have_a_limit(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let stored = provider.store_many(vec![new_memory("a", 1), new_memory("a", 2)]).await?;
    let strangers = (1..10_000).map(super::scattered_id);
    let most = strangers.fold(MemoryQuery::builder().exact("a"), memory_core::QueryBuilder::exclude).exclude(stored[1]);
    let page = provider.query(&most.clone().build()?).await?;
    assert_eq!(ids(&page.memories), [stored[0]]);
    assert_eq!(most.exclude(stored[0]).build().expect_err("10,001 ids").kind(), ErrorKind::TooLarge);
    Ok(())
}
