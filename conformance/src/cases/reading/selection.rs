//! Q1, Q3 and Q7: which rows a query finds.

use memory_core::{MemoryQuery, QueryBuilder, SpaceSelector, Status};

use super::{BOTH_ORDERS, READ_PATHS, guilds, page};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{ids, metadata, new_memory, spaces, walk};

chapter!("reading":
    selectors_are_a_union_without_repetition ["Q1"],
    hundreds_of_selectors_are_one_union ["Q1"],
    the_largest_queries_work ["Q1", "Q7"],
    within_narrows_what_selectors_find ["Q1"],
    within_confines_every_selector ["Q1"],
    filter_applies_before_the_limit ["Q3", "F5"],
    statuses_are_a_union ["Q3"],
    a_sparse_space_fills_its_page_beside_a_dense_one ["Q3"],
    excluded_ids_take_no_room ["Q7"],
    excluding_works_on_every_read_path ["Q7"],
);

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
    // The times do not ascend with the numbers of the spaces, so that the rows of a selector are not adjacent.
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

/// Q1, Q7: 1,000 selectors within 1,000 others, 32 patterns, and 10,000 excluded ids are queries like any other.
async fn the_largest_queries_work(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let stored = provider.store_many(["a-1", "a-999", "a-1000", "b"].map(|id| new_memory(id, 1)).to_vec()).await?;
    let exact = |number| SpaceSelector::exact(format!("a-{number}"));
    let others = (500..1_500).map(exact).collect::<Result<Vec<_>, _>>()?;
    let union = (0..1_000).map(exact).collect::<Result<Vec<_>, _>>()?;
    let union = union.into_iter().fold(MemoryQuery::builder(), QueryBuilder::selector).within(others);
    let patterns =
        (969..999).fold(MemoryQuery::builder().regex("nothing"), |query, number| query.glob(format!("?-{number}")));
    let patterns = patterns.glob("?-999");
    let strangers = (1..9_998).map(super::scattered_id).chain([stored[0], stored[2], stored[3]]);
    let excluding = strangers.fold(MemoryQuery::builder().all(), QueryBuilder::exclude);
    for (what, largest) in [("selectors", union), ("patterns", patterns), ("excluded ids", excluding)] {
        let page = provider.query(&largest.build()?).await?;
        assert_eq!(ids(&page.memories), [stored[1]], "{what}");
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
    let below = || vec![under("g-1")];
    let either = vec![SpaceSelector::exact("g-2")?, SpaceSelector::glob("g-1-[b-z]")?];
    for (asked, within, expected) in [
        (under("g"), below(), vec!["g-1-b", "g-1-a-x", "g-1-a", "g-1"]),
        (under("g-1-a"), below(), vec!["g-1-a-x", "g-1-a"]),
        (under("g-1"), below(), vec!["g-1-b", "g-1-a-x", "g-1-a", "g-1"]),
        (under("g-2"), below(), vec![]),
        (under("g-12"), below(), vec![]),
        (SpaceSelector::prefix("g-1")?, below(), vec!["g-1-b", "g-1-a-x", "g-1-a", "g-1"]),
        (SpaceSelector::exact("g-12")?, below(), vec![]),
        (SpaceSelector::exact("g-1-a")?, vec![SpaceSelector::glob("*-a")?], vec!["g-1-a"]),
        (SpaceSelector::regex("a")?, vec![SpaceSelector::exact("g-1-a-x")?], vec!["g-1-a-x"]),
        (
            SpaceSelector::glob("*")?,
            vec![SpaceSelector::prefix("g-1")?],
            vec!["g-12", "g-1-b", "g-1-a-x", "g-1-a", "g-1"],
        ),
        (under("g"), either, vec!["g-2", "g-1-b"]),
    ] {
        let found = walk(&*provider, |query| query.selector(asked.clone()).within(within.clone()).limit(2)).await?;
        assert_eq!(spaces(&found), expected, "{asked} within {within:?}");
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

/// Q3: rows of another status, and rows that the filter excludes, don't use up the limit, however many are newer (filter after top-k).
async fn filter_applies_before_the_limit(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let wanted = new_memory("guild-1-a", 0).with_metadata(metadata(r#"{"topic":"rust","score":7}"#));
    let wanted = provider.store(wanted.with_status(Status::Failed)).await?;
    let decoy = metadata(r#"{"topic":"go","score":5}"#);
    let decoys = (1..=1_000).map(|time| new_memory("guild-1-a", time).with_metadata(decoy.clone()));
    provider.store_many(decoys.map(|decoy| decoy.with_status(Status::Observed)).collect()).await?;
    let conditions: [super::Part; 4] = [
        |query| query.status(Status::Failed),
        |query| query.filter_text("metadata.topic = 'rust'"),
        |query| query.filter_text("metadata.score > 6"),
        |query| query.filter_text("metadata.topic LIKE 'r%'"),
    ];
    for (number, condition) in conditions.into_iter().enumerate() {
        for (name, part) in READ_PATHS {
            let page = page(&*provider, |query| condition(part(query)).limit(1), None).await?;
            let what = format!("{name}, condition {number}: the first page lacks the match behind 1,000 candidates");
            assert_eq!(ids(&page.memories), [wanted], "{what}");
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
