//! S8 to S10: which spaces are listed, and what is told of them.

use memory_core::{
    BOUNDARIES, Count, DocumentSelection, ErrorKind, MemoryProvider, Result, SpaceLevel, SpaceQuery, SpaceQueryBuilder,
    SpaceSelector, SpaceSummary,
};

use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{at, collection, document_id, kind, new_document, new_memory, store_each, walk};

chapter!("spaces":
    a_listing_parts_what_lies_below_by_segments ["S8"],
    a_listing_counts_to_a_thousand ["S9"],
    a_listing_shows_nothing_outside_of_within ["S9"],
    a_listing_tells_the_newest_among_many_places ["S9"],
    a_listing_is_walked_in_the_order_of_bytes ["S10"],
    a_listing_goes_down_to_its_depth ["S10"],
    a_listing_goes_down_to_the_deepest_space ["S8", "V2"],
    a_cursor_of_a_listing_belongs_to_it ["S10", "Q6"],
    a_listing_of_documents_follows_them ["S8", "S9", "S10"],
    a_listing_of_many_spaces_begins_at_once ["S10", "L8"],
    a_damaged_row_hides_no_space ["S9"] needs Damage,
);

/// S8: ids with all boundaries, empty segments, and boundaries at both ends. Each belongs to exactly one listed space, and the selector of
/// that space (under, or exact if it ends with a boundary) finds as many records as the listing counts.
async fn a_listing_parts_what_lies_below_by_segments(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let ids = [
        "a", "a-b", "a-b-c", "a-b/d", "a-b.x", "a/b", "a:c-", "a--x", "a--x:y", "a-/x", "a-", "ab-c", "A", "-q",
        "--q-r", "b-",
    ];
    store_each(&*provider, ids).await?;
    let top = [("--q", 1), ("-q", 1), ("A", 1), ("a", 11), ("ab", 1), ("b", 1)];
    assert_eq!(listed(&*provider, None).await?, owned(&top));
    let below = [("a-", 1), ("a--x", 2), ("a-/x", 1), ("a-b", 3), ("a-b.x", 1), ("a/b", 1), ("a:c", 1)];
    assert_eq!(listed(&*provider, Some("a")).await?, owned(&below));
    for (name, count) in top.iter().chain(&below) {
        let selector = match name.ends_with(BOUNDARIES) {
            true => SpaceSelector::exact(name)?,
            false => SpaceSelector::under(name)?,
        };
        let found = walk(&*provider, |query| query.selector(selector.clone())).await?;
        assert_eq!(found.len(), *count, "{selector}");
    }
    for (under, below) in [
        ("a-", vec![("a--x", 2), ("a-/x", 1), ("a-b", 3), ("a-b.x", 1)]),
        ("a-b", vec![("a-b-c", 1), ("a-b/d", 1)]),
        ("a:c", vec![("a:c-", 1)]),
        ("-", vec![("--q", 1), ("-q", 1)]),
        ("A", vec![]),
        ("b-", vec![]),
        ("nowhere", vec![]),
    ] {
        assert_eq!(listed(&*provider, Some(under)).await?, owned(&below), "below {under}");
    }
    Ok(())
}

/// S9: the count is exact up to 1,000, and the createdAt of the newest record is right wherever that record lies.
async fn a_listing_counts_to_a_thousand(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let spaces = ["x-a", "x-b", "x-b-deep"];
    for (space, count) in spaces.into_iter().zip([1_000, 500, 501]) {
        provider.store_many((0..count).map(|time| new_memory(space, time)).collect()).await?;
    }
    provider.store(new_memory("y", -7)).await?;
    let found = level(&*provider, SpaceQuery::builder().under("x")).await?.spaces;
    let found: Vec<_> = found.into_iter().map(|space| (space.id.to_string(), space.count, space.newest)).collect();
    let expected = [("x-a", Count::Exactly(1_000), at(999)), ("x-b", Count::MoreThan(1_000), at(500))];
    assert_eq!(found, expected.map(|(id, count, newest)| (id.to_owned(), count, newest)));
    let top = level(&*provider, SpaceQuery::builder()).await?.spaces;
    assert_eq!((top[0].count, top[0].newest), (Count::MoreThan(1_000), at(999)));
    assert_eq!((top[1].count, top[1].newest), (Count::Exactly(1), at(-7)));
    Ok(())
}

/// S9: for every kind of selector in `within`, records outside of it are neither listed nor counted, nor the newest.
async fn a_listing_shows_nothing_outside_of_within(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    store_each(&*provider, ["t-1-a", "t-1-b", "t-1-b-x", "t-1", "t-12-a", "t-2-a", "t", "s-1-a"]).await?;
    for (within, top, below) in [
        (SpaceSelector::under("t-1")?, vec![("t", 4)], vec![("t-1", 4)]),
        (SpaceSelector::exact("t-1-b")?, vec![("t", 1)], vec![("t-1", 1)]),
        (SpaceSelector::prefix("t-1")?, vec![("t", 5)], vec![("t-1", 4), ("t-12", 1)]),
        (SpaceSelector::glob("*-a")?, vec![("s", 1), ("t", 3)], vec![("t-1", 1), ("t-12", 1), ("t-2", 1)]),
        (SpaceSelector::regex("x$")?, vec![("t", 1)], vec![("t-1", 1)]),
        (SpaceSelector::under("nowhere")?, vec![], vec![]),
    ] {
        for (under, expected) in [(None, top), (Some("t"), below)] {
            let query = || under.into_iter().fold(SpaceQuery::builder(), SpaceQueryBuilder::under);
            let found = all(&*provider, || query().within(within.clone()).limit(1)).await?;
            assert_eq!(counted(&found), owned(&expected), "below {under:?} within {within}");
        }
    }
    // The records that are newer than the fourth lie outside of `within`.
    let within = || SpaceQuery::builder().within(SpaceSelector::under("t-1").expect("a valid path"));
    assert_eq!(level(&*provider, within()).await?.spaces[0].newest, at(4));
    Ok(())
}

/// S9: more places than an engine walks at the same time. The first one alone holds more records than are counted, the last one holds the
/// newest, and a newer record lies outside of `within`.
async fn a_listing_tells_the_newest_among_many_places(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let places: Vec<_> = (0..300).map(|number| format!("t-{number:03}")).collect();
    let many = (0..1_100).map(|time| new_memory(&places[0], time));
    let each = places.iter().zip(2_000..).map(|(place, time)| new_memory(place, time));
    provider.store_many(many.chain(each).chain([new_memory("t-others", 9_000)]).collect()).await?;
    let within: Vec<_> = places.iter().map(SpaceSelector::under).collect::<Result<_>>()?;
    let top = level(&*provider, SpaceQuery::builder().within(within)).await?.spaces;
    let told: Vec<_> = top.iter().map(|space| (space.id.as_str(), space.count, space.newest)).collect();
    assert_eq!(told, [("t", Count::MoreThan(1_000), at(2_299))]);
    Ok(())
}

/// S10: ids that are prefixes of others, where a boundary sorts after the next character of a sibling; upper case, and characters of all
/// planes. In pages of any size, each space comes once, in the byte order of the ids.
async fn a_listing_is_walked_in_the_order_of_bytes(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    #[rustfmt::skip]
    let segments = [
        "1", "10", "1.5", "1$", "1 x", "11", "2", "A", "AB", "Z", "_", "`", "a", "a!", "ab", "aé", "z", "~", "é", "東",
        "\u{1f600}",
    ];
    let mut ids = Vec::new();
    for segment in segments {
        ids.extend([format!("g-{segment}:x"), format!("g-{segment}")]);
    }
    ids.extend(["g/1-x", "g/1", "g-1/x", "g-a-x", "g--1", "g-!"].map(str::to_owned));
    store_each(&*provider, ids.iter().map(String::as_str)).await?;
    let mut names: Vec<_> = segments.iter().map(|segment| format!("g-{segment}")).collect();
    names.extend(["g/1", "g--1", "g-!"].map(str::to_owned));
    names.sort_unstable();
    for limit in [1, 2, 3, 7, 1_000] {
        let found = all(&*provider, || SpaceQuery::builder().under("g").limit(limit)).await?;
        let found: Vec<_> = counted(&found).into_iter().map(|(name, _)| name).collect();
        assert_eq!(found, names, "{limit} at a time");
    }
    Ok(())
}

/// S10: levels come from the top down, each below a space that was listed before, and a truncated level goes on by its own cursor.
async fn a_listing_goes_down_to_its_depth(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    store_each(&*provider, ["a-b-c-d", "a-b-e", "a-f", "a-g", "h", "i/j", "i/j/k"]).await?;
    /// The parent of a level, its spaces, and whether it goes on.
    type Told = (Option<String>, Vec<String>, bool);
    let told = async |depth, limit| -> Result<Vec<Told>> {
        let levels = provider.spaces(&SpaceQuery::builder().depth(depth).limit(limit).build()?).await?;
        let names = |level: &SpaceLevel| level.spaces.iter().map(|space| space.id.to_string()).collect();
        Ok(levels.iter().map(|level| (level.under.clone(), names(level), level.next.is_some())).collect())
    };
    let expect = |under: Option<&str>, names: &[&str], goes_on| {
        (under.map(str::to_owned), names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), goes_on)
    };
    assert_eq!(told(1, 50).await?, [expect(None, &["a", "h", "i"], false)]);
    let levels = [
        expect(None, &["a", "h", "i"], false),
        expect(Some("a"), &["a-b", "a-f", "a-g"], false),
        expect(Some("i"), &["i/j"], false),
        expect(Some("a-b"), &["a-b-c", "a-b-e"], false),
        expect(Some("i/j"), &["i/j/k"], false),
    ];
    assert_eq!(told(3, 50).await?, levels);
    let cut = [
        expect(None, &["a", "h"], true),
        expect(Some("a"), &["a-b", "a-f"], true),
        expect(Some("a-b"), &["a-b-c", "a-b-e"], false),
    ];
    assert_eq!(told(3, 2).await?, cut);
    let first = provider.spaces(&SpaceQuery::builder().depth(2).limit(2).build()?).await?;
    let cursor = first[1].next.clone().expect("the level is cut");
    let rest = level(&*provider, SpaceQuery::builder().under("a").cursor(&cursor)).await?;
    assert_eq!((counted(&rest.spaces), rest.next), (owned(&[("a-g", 1)]), None));
    Ok(())
}

/// S10, Q6: a cursor works on another handle and with another limit, but not for another path, another `within` or documents. A text that
/// is no cursor is refused too.
async fn a_cursor_of_a_listing_belongs_to_it(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.open().await?);
    store_each(&*provider, ["a-b", "a-c", "a-d"]).await?;
    let first = level(&*provider, SpaceQuery::builder().under("a").limit(2)).await?;
    let cursor = first.next.expect("there is another");
    let rest = level(&*other, SpaceQuery::builder().under("a").limit(50).cursor(&cursor)).await?;
    assert_eq!(counted(&rest.spaces), owned(&[("a-d", 1)]));
    let within = SpaceSelector::under("a")?;
    for wrong in [
        SpaceQuery::builder().cursor(&cursor),
        SpaceQuery::builder().under("a-").cursor(&cursor),
        SpaceQuery::builder().under("a").within(within).cursor(&cursor),
        SpaceQuery::builder().under("a").cursor("a-c"),
    ] {
        assert_eq!(kind(provider.spaces(&wrong.clone().build()?).await), Some(ErrorKind::InvalidInput), "{wrong:?}");
    }
    let query = SpaceQuery::builder().under("a").cursor(&cursor).build()?;
    let refused = provider.documents().spaces(&collection("notes"), &query).await;
    assert_eq!(kind(refused), Some(ErrorKind::InvalidInput));
    Ok(())
}

/// S8 to S10 for documents: those of one collection, in the spaces where they are now.
async fn a_listing_of_documents_follows_them(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let documents = provider.documents();
    provider.store(new_memory("a-memory", 1)).await?;
    for (name, id, space) in [
        ("notes", "1", "a-b"),
        ("notes", "2", "a-b:x"),
        ("notes", "3", "a-b10"),
        ("notes", "4", "c"),
        ("others", "1", "a-z"),
    ] {
        documents.put(new_document(name, id, space, "text")).await?;
    }
    let listed = async |under: Option<&str>, limit: usize| -> Result<Vec<(String, usize)>> {
        let (mut found, mut next) = (Vec::new(), None);
        loop {
            let query = under.into_iter().fold(SpaceQuery::builder().limit(limit), SpaceQueryBuilder::under);
            let query = next.iter().fold(query, |query, cursor| query.cursor(cursor));
            let level = documents.spaces(&collection("notes"), &query.build()?).await?.swap_remove(0);
            found.extend(counted(&level.spaces));
            next = level.next;
            if next.is_none() {
                return Ok(found);
            }
        }
    };
    for limit in [1, 50] {
        assert_eq!(listed(None, limit).await?, owned(&[("a", 3), ("c", 1)]));
        assert_eq!(listed(Some("a"), limit).await?, owned(&[("a-b", 2), ("a-b10", 1)]));
    }
    documents.put(new_document("notes", "2", "d-e", "text")).await?;
    let ids = [document_id("3"), document_id("4")];
    documents.remove(&DocumentSelection::ids(collection("notes"), ids)?, 2).await?;
    assert_eq!(listed(None, 50).await?, owned(&[("a", 1), ("d", 1)]));
    assert_eq!(listed(Some("a"), 1).await?, owned(&[("a-b", 1)]));
    Ok(())
}

/// S10, L8: a walk over thousands of spaces, in pages of 200, which need no permit, lists each of them once and in order.
async fn a_listing_of_many_spaces_begins_at_once(stage: Stage) -> CaseResult {
    const SPACES: usize = 3_000;
    let provider = stage.open().await?;
    let names: Vec<_> = (0..SPACES).map(|number| format!("m-{number:05}")).collect();
    store_each(&*provider, names.iter().map(String::as_str)).await?;
    let found = all(&*provider, || SpaceQuery::builder().under("m").limit(200)).await?;
    assert!(counted(&found).iter().map(|(name, _)| name).eq(&names));
    Ok(())
}

/// S9: a row that can't be read may be missing from the count of its space, and hides no other record and no space.
async fn a_damaged_row_hides_no_space(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let stored = provider.store_many(["a-b", "a-b", "a-c", "d"].map(|space| new_memory(space, 1)).to_vec()).await?;
    assert!(stage.harness().damage(stage.namespace(), stored[1]).await?);
    let found = listed(&*provider, Some("a")).await?;
    assert!(matches!(found.as_slice(), [(b, 1 | 2), (c, 1)] if b == "a-b" && c == "a-c"), "{found:?}");
    let found = listed(&*provider, None).await?;
    assert!(matches!(found.as_slice(), [(a, 2 | 3), (d, 1)] if a == "a" && d == "d"), "{found:?}");
    Ok(())
}

/// The single level of a listing.
async fn level(provider: &dyn MemoryProvider, query: SpaceQueryBuilder) -> Result<SpaceLevel> {
    let mut levels = provider.spaces(&query.build()?).await?;
    assert_eq!(levels.len(), 1, "a listing of one level has one: {levels:?}");
    Ok(levels.swap_remove(0))
}

/// S8, V2: an id of 33 levels, below which no other can lie.
async fn a_listing_goes_down_to_the_deepest_space(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let path = |levels: usize| (0..levels).map(|level| format!("l{level}")).collect::<Vec<_>>().join("-");
    let deepest = path(33);
    provider.store(new_memory(&deepest, 1)).await?;
    let documents = provider.documents();
    documents.put(new_document("notes", "1", &deepest, "text")).await?;
    for under in [30, 31, 32, 33] {
        let query = SpaceQuery::builder().under(path(under)).depth(3).build()?;
        let expected: Vec<_> = (under + 1..=33).map(|levels| (path(levels), 1)).collect();
        for levels in [provider.spaces(&query).await?, documents.spaces(&collection("notes"), &query).await?] {
            let found: Vec<_> = levels.iter().flat_map(|level| counted(&level.spaces)).collect();
            assert_eq!(found, expected, "below {under} levels");
        }
    }
    Ok(())
}

/// The spaces of all pages of a level.
async fn all(provider: &dyn MemoryProvider, query: impl Fn() -> SpaceQueryBuilder) -> Result<Vec<SpaceSummary>> {
    let (mut spaces, mut page) = (Vec::new(), level(provider, query()).await?);
    loop {
        assert!(page.spaces.len() <= query().build()?.limit(), "a page over its limit: {page:?}");
        spaces.append(&mut page.spaces);
        let Some(cursor) = page.next else { return Ok(spaces) };
        page = level(provider, query().cursor(&cursor)).await?;
    }
}

/// The spaces below a path, or the top-level ones, with their counts.
async fn listed(provider: &dyn MemoryProvider, under: Option<&str>) -> Result<Vec<(String, usize)>> {
    let query = || under.into_iter().fold(SpaceQuery::builder(), SpaceQueryBuilder::under);
    Ok(counted(&all(provider, query).await?))
}

/// Ids with their exact counts.
fn counted(spaces: &[SpaceSummary]) -> Vec<(String, usize)> {
    let count = |count| match count {
        Count::Exactly(count) => count,
        Count::MoreThan(_) => usize::MAX,
    };
    spaces.iter().map(|space| (space.id.to_string(), count(space.count))).collect()
}

fn owned(expected: &[(&str, usize)]) -> Vec<(String, usize)> {
    expected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}
