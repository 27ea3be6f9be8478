//! Finding documents: D3.

use std::collections::BTreeSet;

use futures::future::join_all;
use memory_core::{
    Content, Document, DocumentQuery, DocumentSelection, DocumentStore, DocumentWrite, Documents, ErrorKind, Order,
    QueryBuilder, Result, Revision, SpaceSelector,
};

use super::{all_notes, ids, note, note_at, notes, removed};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{NOTES, at, collection, document_id, metadata, space, walk_documents};

chapter!("documents":
    every_selector_finds_its_documents ["D3"],
    within_confines_the_query ["D3"],
    filter_comes_before_the_limit ["D3"],
    pages_join_to_the_whole ["D3"],
    offset_and_limit_count_documents ["D3"],
    walk_is_exact_while_others_write ["D3"],
    cursor_survives_and_belongs_to_its_query ["D3"],
    what_lies_elsewhere_changes_no_answer ["D3", "D4"],
    large_documents_of_many_places_come_in_order ["D3", "Q5"],
);

/// A query of documents takes every selector of spaces, and their union, as one of the ledger does.
async fn every_selector_finds_its_documents(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    let spaces = ["g-1", "g-1-a", "g-12", "g-1/b", "g:1", "G-1", "h%", "h_", "hx", "g"];
    for id in spaces {
        documents.put(note(id, id, "text")).await?;
    }
    let cases: [(Vec<SpaceSelector>, &[&str]); 9] = [
        (vec![SpaceSelector::exact("g-1")?], &["g-1"]),
        (vec![SpaceSelector::under("g-1")?], &["g-1", "g-1-a", "g-1/b"]),
        (vec![SpaceSelector::under("g-")?], &["g-1", "g-1-a", "g-1/b", "g-12"]),
        (vec![SpaceSelector::prefix("g-1")?], &["g-1", "g-1-a", "g-1/b", "g-12"]),
        (vec![SpaceSelector::prefix("h%")?], &["h%"]),
        (vec![SpaceSelector::glob("g[:-]1")?], &["g-1", "g:1"]),
        (vec![SpaceSelector::regex("^h.$")?], &["h%", "h_", "hx"]),
        (vec![SpaceSelector::exact("hx")?, SpaceSelector::under("g:1")?, SpaceSelector::exact("hx")?], &["g:1", "hx"]),
        (vec![SpaceSelector::exact("nowhere")?], &[]),
    ];
    for (selectors, expected) in cases {
        let found = walk_documents(&*documents, NOTES, |query| {
            selectors.iter().fold(query, |query, selector| query.selector(selector.clone())).order(Order::OldestFirst)
        })
        .await?;
        assert_eq!(ids(&found), expected, "{selectors:?}");
    }
    assert_eq!(all_notes(&*documents).await?.len(), spaces.len());
    Ok(())
}

/// `within` confines a caller: nothing that the query names widens it, neither for reads nor for removals.
async fn within_confines_the_query(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    for id in ["me-1", "me-2", "me", "mean", "you-1"] {
        documents.put(note(id, id, "text")).await?;
    }
    let mine = || SpaceSelector::under("me");
    let within = mine()?;
    let found = walk_documents(&*documents, NOTES, |query| query.all().within(within.clone())).await?;
    assert_eq!(ids(&found), ["me-2", "me-1", "me"]);
    let found =
        walk_documents(&*documents, NOTES, |query| query.exact("you-1").exact("me-1").within(within.clone())).await?;
    assert_eq!(ids(&found), ["me-1"]);
    let found = walk_documents(&*documents, NOTES, |query| query.prefix("mean").within(within.clone())).await?;
    assert!(found.is_empty(), "within holds for every selector");

    let confined = DocumentSelection::matching(notes().prefix("me").within(mine()?))?;
    assert_eq!(removed(&documents.remove(&confined, 10).await?), ["me", "me-1", "me-2"]);
    let ids = ["you-1", "mean"].map(document_id);
    let confined = DocumentSelection::ids_where(ids, notes().all().within(mine()?))?;
    assert!(documents.remove(&confined, 10).await?.is_empty(), "within holds for named ids");
    assert_eq!(all_notes(&*documents).await?, ["mean", "you-1"].map(str::to_owned).into());
    Ok(())
}

/// A filter is applied before the limit: decoys that come first in the order do not use it up.
async fn filter_comes_before_the_limit(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    for place in 0..60 {
        documents
            .put(note_at(&format!("decoy-{place}"), 2_000 + place).with_metadata(metadata(r#"{"n":"1"}"#)))
            .await?;
    }
    documents.put(note_at("wanted", 1).with_metadata(metadata(r#"{"n":1,"tags":["x"]}"#))).await?;
    for predicate in [
        "metadata.n = 1",
        "metadata.n < 2 AND content = 'dated'",
        "'x' = ANY(metadata.tags)",
        "id = 'wanted'",
        "createdAt < 2000",
        "metadata.tags IS NOT NULL",
        "id IN ('wanted', 'other') AND spaceId LIKE 'dated%'",
    ] {
        let found = walk_documents(&*documents, NOTES, |query| query.all().filter_text(predicate).limit(5));
        assert_eq!(ids(&found.await?), ["wanted"], "{predicate}");
    }
    Ok(())
}

/// Walking in pages of any size gives each document once, by time and then by the bytes of its id, newest first unless the query says
/// otherwise.
async fn pages_join_to_the_whole(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    let mut expected = vec![(-1, "first".to_owned()), (8, "last".to_owned())];
    expected.extend((0..61).map(|place| (place / 20, format!("{:02}", (place * 37) % 61))));
    let odd = ["b", "é", "a", "Z", "100", "9", "a-", "_", "\u{1F600}", "\u{FFFD}", "aa"];
    expected.extend(odd.map(|id| (7, id.to_owned())));
    for (time, id) in &expected {
        documents.put(note_at(id, *time)).await?;
    }
    expected.sort();
    for order in [Some(Order::OldestFirst), Some(Order::NewestFirst), None] {
        let mut expected: Vec<_> = expected.iter().map(|(_, id)| id.as_str()).collect();
        if order != Some(Order::OldestFirst) {
            expected.reverse();
        }
        for limit in [1, 7, 20, expected.len(), 1_000] {
            let ask =
                |query: QueryBuilder<_>| order.into_iter().fold(query.under("dated").limit(limit), QueryBuilder::order);
            assert_eq!(ids(&walk_documents(&*documents, NOTES, ask).await?), expected, "{order:?}, {limit} a page");
        }
    }
    Ok(())
}

/// A limit of 0 is an empty page, and an offset skips that many matching documents.
async fn offset_and_limit_count_documents(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    for place in 0..30 {
        documents.put(note_at(&format!("{place:02}"), place)).await?;
    }
    let page = documents.query(&notes().all().limit(0).build()?).await?;
    assert!(page.documents.is_empty(), "a limit of 0 asks for nothing");
    let ascending = |offset: usize, limit: usize| notes().all().order(Order::OldestFirst).offset(offset).limit(limit);
    let page = documents.query(&ascending(28, 10).build()?).await?;
    assert_eq!(ids(&page.documents), ["28", "29"]);
    let page = documents.query(&ascending(3, 2).build()?).await?;
    assert_eq!(ids(&page.documents), ["03", "04"]);
    let page = documents.query(&ascending(30, 10).build()?).await?;
    assert!(page.documents.is_empty(), "an offset beyond the end");
    Ok(())
}

/// A walk gives each document that is there throughout exactly once, while others are put before and behind it, and while
/// those on the way are replaced. An engine whose cursor is an offset or a row number fails here.
async fn walk_is_exact_while_others_write(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    for order in [Order::NewestFirst, Order::OldestFirst] {
        let name = if order == Order::NewestFirst { "newest" } else { "oldest" };
        let write = |id: String, millis| {
            let content = Content::parse("dated").expect("a valid content");
            DocumentWrite::new(collection(name), space("dated-1"), content, at(millis)).with_id(document_id(&id))
        };
        for place in 0..40 {
            documents.put(write(format!("old-{place:02}"), place / 10)).await?;
        }
        let query = || DocumentQuery::builder(collection(name)).under("dated").order(order).limit(3);
        let mut seen = Vec::new();
        let mut next = documents.query(&query().build()?).await?;
        for round in 0.. {
            assert!(round < 1_000, "the walk does not end");
            seen.extend(ids(&next.documents).into_iter().map(str::to_owned));
            let Some(cursor) = next.next else { break };
            documents.put(write(format!("new-{round:03}-early"), -1_000)).await?;
            documents.put(write(format!("new-{round:03}-late"), 1_000)).await?;
            documents.put(write(format!("new-{round:03}-tie"), 2)).await?;
            documents.put(write(format!("old-{:02}", round % 40), 77)).await?;
            next = documents.query(&query().cursor(&cursor).build()?).await?;
        }
        let mut stable: Vec<_> = seen.iter().filter(|id| id.starts_with("old-")).cloned().collect();
        stable.sort();
        assert_eq!(stable, (0..40).map(|place| format!("old-{place:02}")).collect::<Vec<_>>(), "{order:?}");
        let distinct: BTreeSet<_> = seen.iter().collect();
        assert_eq!(distinct.len(), seen.len(), "no document comes twice");
    }
    Ok(())
}

/// A cursor goes on through another handle, and with another collection, order or selector it is `InvalidInput`.
async fn cursor_survives_and_belongs_to_its_query(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    for place in 0..9 {
        provider.documents().put(note_at(&place.to_string(), place)).await?;
    }
    let page = provider.documents().query(&notes().all().limit(4).build()?).await?;
    provider.shutdown().await?;
    let cursor = page.next.expect("there are more");
    let documents = stage.open().await?.documents();
    let mut found = page.documents;
    let mut next = Some(cursor.clone());
    while let Some(cursor) = next {
        let page = documents.query(&notes().all().limit(4).cursor(&cursor).build()?).await?;
        found.extend(page.documents);
        next = page.next;
    }
    assert_eq!(ids(&found), ["8", "7", "6", "5", "4", "3", "2", "1", "0"]);
    for other in [
        notes().all().order(Order::OldestFirst),
        notes().under("dated"),
        notes().all().within(SpaceSelector::under("dated")?),
        DocumentQuery::builder(collection("other")).all(),
    ] {
        let refused = documents.query(&other.cursor(&cursor).build()?).await.expect_err("another query");
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    }
    Ok(())
}

/// A scope gives the same answers beside 10,000 documents of its collection as it gives alone: the same pages, dry run and removal.
async fn what_lies_elsewhere_changes_no_answer(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    // More spaces than an engine merges at the same time, and several documents with the same createdAt, inside and outside of the scope.
    let scope = (0..900).map(|place| lying(place, format!("me-{}{}", place % 150, ["", "-a", "/b:c"][place / 7 % 3])));
    for some in scope.collect::<Vec<_>>().chunks(200) {
        restore(&*documents, some.to_vec()).await?;
    }
    let within = SpaceSelector::under("me")?;
    let questions: [(&str, Ask<'_>); 10] = [
        ("under", &|query| query.under("me").limit(40)),
        ("under, oldest first", &|query| query.under("me").order(Order::OldestFirst).limit(40)),
        ("under, with a filter", &|query| query.under("me").filter_text("metadata.n = 7").limit(3)),
        ("under, with a text", &|query| query.under("me").text("N7 n8").limit(3)),
        ("exact", &|query| query.exact("me-9").exact("me-9-a").exact("nowhere")),
        ("many exact", &|query| (0..150).fold(query, |query, place| query.exact(format!("me-{place}")).limit(90))),
        ("prefix", &|query| query.prefix("me-1").limit(40)),
        ("glob and regex", &|query| query.glob("me-*[13]/b:c").regex("^me-2[0-9]-").limit(7)),
        ("within", &|query| query.all().within(within.clone()).limit(40)),
        ("prefix within", &|query| query.prefix("m").exact("other-1").within(within.clone()).limit(40)),
    ];
    let selection = DocumentSelection::matching(notes().under("me").filter_text("metadata.n < 7"))?;
    let mut alone = Vec::new();
    for (_, ask) in questions {
        alone.push(pages(&*documents, ask).await?);
    }
    let dry_run = selection.preview(&*documents, 1_000).await?;
    assert!(alone.iter().all(|pages| pages.iter().any(|page| !page.is_empty())) && !dry_run.is_empty());

    let elsewhere = (0..10_000).map(|place| {
        let path = ["other", "mean", "m", "me2-a", "ME-1", "me_"][place % 6];
        lying(1_000 + place, format!("{path}-{}", place % 700))
    });
    let elsewhere: Vec<_> = elsewhere.collect();
    for some in elsewhere.chunks(1_000) {
        for done in join_all(some.chunks(250).map(|some| restore(&*documents, some.to_vec()))).await {
            done?;
        }
    }
    for (question, alone) in questions.into_iter().zip(alone) {
        assert!(pages(&*documents, question.1).await? == alone, "the pages of {}", question.0);
    }
    assert_eq!(selection.preview(&*documents, 1_000).await?, dry_run);
    assert_eq!(documents.remove(&selection, 1_000).await?, dry_run);
    assert!(selection.preview(&*documents, 0).await?.is_empty());
    assert_eq!(all_notes(&*documents).await?.len(), 10_900 - dry_run.len());
    Ok(())
}

/// Part of a query of notes.
type Ask<'a> = &'a (dyn Fn(QueryBuilder<Documents>) -> QueryBuilder<Documents> + Sync);

/// More bytes than a page may have, in more spaces than an engine walks at the same time: each document comes once, in its place.
async fn large_documents_of_many_places_come_in_order(stage: Stage) -> CaseResult {
    const SPACES: usize = 150;
    let documents = stage.open().await?.documents();
    let content = Content::parse("x".repeat(150_000))?;
    let large = |place| Document { content: content.clone(), ..lying(place, format!("me-{place}")) };
    let mut expected: Vec<_> = (0..SPACES).map(large).collect();
    for some in expected.chunks(25) {
        restore(&*documents, some.to_vec()).await?;
    }
    expected.sort_by_key(|document| (document.created_at, document.id.clone()));
    let found = walk_documents(&*documents, NOTES, |query| {
        let query = (0..SPACES).fold(query, |query, place| query.exact(format!("me-{place}")));
        query.order(Order::OldestFirst).limit(1_000)
    })
    .await?;
    assert_eq!(ids(&found), ids(&expected));
    assert!(found == expected, "a document is not the one that was put");
    Ok(())
}

/// A note in a space, with one of 300 times.
fn lying(place: usize, space_id: String) -> Document {
    Document {
        id: document_id(&format!("{place:05}")),
        collection: collection(NOTES),
        space_id: space(&space_id),
        content: Content::parse(format!("text n{}", place % 30)).expect("a valid content"),
        metadata: metadata(&format!(r#"{{"n":{}}}"#, place % 30)),
        created_at: at((place * 7 % 300) as i64),
        updated_at: None,
        revision: Revision::FIRST,
        expires_at: None,
    }
}

async fn restore(documents: &dyn DocumentStore, some: Vec<Document>) -> CaseResult {
    let count = some.len();
    assert_eq!(documents.restore(some).await?.written, count);
    Ok(())
}

/// The documents of each page of a walk.
async fn pages(documents: &dyn DocumentStore, ask: Ask<'_>) -> Result<Vec<Vec<Document>>> {
    let mut pages = Vec::new();
    let mut page = documents.query(&ask(notes()).build()?).await?;
    loop {
        pages.push(page.documents);
        let Some(cursor) = page.next else { return Ok(pages) };
        page = documents.query(&ask(notes()).cursor(&cursor).build()?).await?;
    }
}
