//! The words of documents: T1 and T2.

use std::collections::BTreeSet;

use memory_core::{Content, Document, DocumentQuery, ErrorKind, MAX_PAGE_BYTES, Order, SpaceSelector};

use super::{found, places, put_all};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{NOTES, at, collection, document_id, kind, metadata, new_document, walk_documents};

chapter!("text":
    words_are_runs_of_letters_and_digits ["T1", "T2"],
    any_word_is_enough ["T2"],
    text_comes_in_the_order_of_the_query ["T2", "Q4"],
    text_goes_with_spaces_filter_and_limit ["T2", "D3"],
    collections_do_not_share_words ["T2", "D3"],
    replaced_content_is_found_by_its_new_words ["T2", "T3"],
    long_and_many_words_are_found ["T1", "T2"],
    hundreds_of_hits_are_found ["T2"],
    a_page_of_text_ends_at_sixteen_mib ["Q5", "T2"],
    a_cursor_belongs_to_its_text ["T2", "Q6"],
    backslashes_in_a_content_hurt_no_search ["T2", "V9"],
);

/// The core decides what a word is, and has its own tests; here are a few examples of each kind that an engine might read differently.
async fn words_are_runs_of_letters_and_digits(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    let long = "x".repeat(128);
    let contents =
        ["foo_bar-baz's", "foobar", "v1.2-rc4 x²", "abc漢字def", "Café", "cafe", "not running", "--- !", &long];
    put_all(&*documents, &contents).await?;
    let table: [(&str, &[usize]); 20] = [
        ("foo, BAR", &[0]),
        ("fo", &[]),
        ("foobar", &[1]),
        ("rc4", &[2]),
        ("x2", &[]),
        ("字", &[3]),
        ("ab", &[]),
        ("CAFÉ", &[4]),
        ("cafe", &[5]),
        ("run", &[]),
        ("runs", &[]),
        ("NOT", &[6]),
        ("foobar NOT v1", &[1, 2, 6]),
        ("\"foo bar", &[0]),
        ("foob*", &[]),
        ("content:cafe~2", &[2, 5]),
        ("(('%_\\\"\0", &[]),
        ("", &[]),
        ("-!?", &[]),
        (&format!("{long}y"), &[8]),
    ];
    for (text, expected) in table {
        assert_eq!(found(&*documents, text).await?, places(expected), "{text:?}");
    }
    Ok(())
}

/// A document that holds one word of the query is found, whatever the other words are, and none that holds no word.
async fn any_word_is_enough(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    put_all(&*documents, &["the quick brown fox", "a lazy dog", "the end", ""]).await?;
    assert_eq!(found(&*documents, "fox dog").await?, places(&[0, 1]));
    assert_eq!(found(&*documents, "fox unicorn").await?, places(&[0]));
    assert_eq!(found(&*documents, "the").await?, places(&[0, 2]), "frequent words are words too");
    assert_eq!(found(&*documents, "a").await?, places(&[1]), "and so are short ones");
    assert!(found(&*documents, "unicorn").await?.is_empty());
    Ok(())
}

/// Hits come by time, whichever has more of the words or has them more often: on one page, over pages, and after an offset.
async fn text_comes_in_the_order_of_the_query(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    let contents =
        ["kilo alpha", "alpha bravo gamma", "kilo lima", "gamma gamma gamma gamma", "alpha bravo", "bravo mike"];
    for (place, content) in contents.iter().enumerate() {
        let mut write = new_document(NOTES, &place.to_string(), "x", content);
        // An order other than that of the ids and of the writes.
        write.created_at = at([3, 1, 4, 2, 6, 5][place]);
        documents.put(write).await?;
    }
    for (order, expected) in
        [(Order::NewestFirst, ["4", "5", "0", "3", "1"]), (Order::OldestFirst, ["1", "3", "0", "5", "4"])]
    {
        for limit in [1, 2, 50] {
            let ask = |query: memory_core::QueryBuilder<_>| query.all().text("gamma, Alpha! bravo?").order(order);
            let found = walk_documents(&*documents, NOTES, |query| ask(query).limit(limit)).await?;
            assert_eq!(ids(&found), expected, "{order:?}, {limit} a page");
            let behind = DocumentQuery::builder(collection(NOTES));
            let page = documents.query(&ask(behind).limit(limit).offset(3).build()?).await?;
            assert_eq!(ids(&page.documents), expected[3..(3 + limit).min(5)], "{order:?}, the fourth and more");
        }
    }
    Ok(())
}

fn ids(documents: &[Document]) -> Vec<&str> {
    documents.iter().map(|document| document.id.as_str()).collect()
}

/// Text is one more condition: selectors, `within`, filter and limit hold as without it.
async fn text_goes_with_spaces_filter_and_limit(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    for place in 0..60 {
        documents.put(new_document(NOTES, &format!("decoy-{place}"), "you-1", "red red red")).await?;
    }
    for (id, space_id, topic) in [("a", "me-1", "x"), ("b", "me-2", "y"), ("c", "mean", "x"), ("d", "me-1-z", "x")] {
        let topic = metadata(&format!(r#"{{"topic":"{topic}"}}"#));
        documents.put(new_document(NOTES, id, space_id, "a red word among others").with_metadata(topic)).await?;
    }
    documents.put(new_document(NOTES, "e", "me-1", "blue")).await?;
    let red = || DocumentQuery::builder(collection(NOTES)).text("red");
    let table: [(_, &[_], _); 6] = [
        (red().under("me").limit(3), &["d", "b", "a"], false),
        (red().under("me").limit(2), &["d", "b"], true),
        (red().under("me").limit(0), &[], false),
        (red().all().within(SpaceSelector::under("me-1")?), &["d", "a"], false),
        (red().exact("mean").exact("me-2"), &["c", "b"], false),
        (red().all().filter_text("metadata.topic = 'x'").limit(3), &["d", "c", "a"], false),
    ];
    for (number, (query, expected, has_next)) in table.into_iter().enumerate() {
        let page = documents.query(&query.build()?).await?;
        assert_eq!((ids(&page.documents).as_slice(), page.next.is_some()), (expected, has_next), "query {number}");
    }
    Ok(())
}

/// A text query looks at the words of its own collection only.
async fn collections_do_not_share_words(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    documents.put(new_document(NOTES, "a", "x", "apple")).await?;
    documents.put(new_document("notes-2", "a", "x", "banana")).await?;
    assert_eq!(found(&*documents, "apple banana notes").await?, ["a".to_owned()].into());
    assert!(found(&*documents, "banana").await?.is_empty());
    let other = walk_documents(&*documents, "notes-2", |query| query.all().text("apple banana")).await?;
    assert_eq!(other[0].content.as_str(), "banana");
    Ok(())
}

/// After a put the old words no longer find the document and the new ones do; a refused put leaves the words unchanged.
/// Search indexes that lag behind or keep removed words are known bugs.
async fn replaced_content_is_found_by_its_new_words(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    for round in 0..20 {
        documents.put(new_document(NOTES, "a", "x", &format!("always word{round}"))).await?;
        assert_eq!(found(&*documents, &format!("word{round}")).await?.len(), 1, "found at once, round {round}");
        let before = (0..round).map(|round| format!("word{round} ")).collect::<String>();
        assert!(found(&*documents, &before).await?.is_empty(), "the old words are gone, round {round}");
        assert_eq!(found(&*documents, "always").await?.len(), 1, "a word that stays");
    }
    let refused = new_document(NOTES, "a", "x", "refused").expect(memory_core::Expect::Absent);
    documents.put(refused).await.expect_err("it exists");
    assert!(found(&*documents, "refused").await?.is_empty());
    assert_eq!(documents.get(&collection(NOTES), &document_id("a")).await?.map(|a| a.revision.get()), Some(20));
    assert_eq!(found(&*stage.open().await?.documents(), "word19").await?.len(), 1, "through another handle");
    Ok(())
}

/// Every word of a long content is found, and so is a query with as many words as are allowed.
async fn long_and_many_words_are_found(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    let long: String = (0..20_000).map(|place| format!("w{place} ")).collect();
    put_all(&*documents, &[&long, "short"]).await?;
    for text in ["w0", "w9999", "w19999"] {
        assert_eq!(found(&*documents, text).await?, places(&[0]), "{text}");
    }
    let others = |count: usize| (0..count).map(|place| format!("n{place} ")).collect::<String>();
    assert_eq!(found(&*documents, &(others(255) + "short")).await?, places(&[1]), "256 words");
    assert_eq!(found(&*documents, &"short ".repeat(2_000)).await?, places(&[1]));
    Ok(())
}

/// Every hit is found, on pages of any size (langgraph-redis#30: a search index that returns ten, whatever the limit).
async fn hundreds_of_hits_are_found(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    put_all(&*documents, &["apple and pear"; 120]).await?;
    for limit in [10, 11, 119, 120, 1_000] {
        let query = DocumentQuery::builder(collection(NOTES)).all().text("apple").limit(limit);
        let page = documents.query(&query.build()?).await?;
        assert_eq!((page.documents.len(), page.next.is_some()), (limit.min(120), limit < 120), "a limit of {limit}");
        let walked = walk_documents(&*documents, NOTES, |query| query.all().text("apple").limit(limit)).await?;
        let walked: BTreeSet<_> = ids(&walked).into_iter().collect();
        assert_eq!(walked.len(), 120, "{limit} a page");
    }
    Ok(())
}

/// A page of large documents ends at 16 MiB, whatever the limit; its cursor continues with the rest.
async fn a_page_of_text_ends_at_sixteen_mib(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    let content = "apple".to_owned() + &" ".repeat(Content::MAX_BYTES - 5);
    put_all(&*documents, &[content.as_str(); 18]).await?;
    let query = DocumentQuery::builder(collection(NOTES)).all().text("apple").limit(1_000).build()?;
    let page = documents.query(&query).await?;
    let bytes: usize = page.documents.iter().map(Document::size).sum();
    let is_full = MAX_PAGE_BYTES - Content::MAX_BYTES..=MAX_PAGE_BYTES;
    assert!(is_full.contains(&bytes), "a page of {bytes} bytes");
    assert!(page.next.is_some(), "there are more");
    assert_eq!(found(&*documents, "apple").await?.len(), 18);
    Ok(())
}

/// A cursor belongs to its text: the same query with no text, or with one word more or less, refuses it.
async fn a_cursor_belongs_to_its_text(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    put_all(&*documents, &["apple pear", "apple", "pear", "apple"]).await?;
    let all = || DocumentQuery::builder(collection(NOTES)).all().limit(1);
    let asked = || all().text("apple plum");
    let cursor = documents.query(&asked().build()?).await?.next.ok_or("there is more")?;
    let next = documents.query(&asked().cursor(&cursor).build()?).await?;
    assert_eq!(ids(&next.documents), ["1"]);
    for (what, other) in [
        ("no text", all()),
        ("a text without words", all().text("?!")),
        ("one word less", all().text("apple")),
        ("one word more", all().text("apple plum pear")),
        ("other words", all().text("pear plum")),
        ("the letters of both words", all().text("appleplum")),
        ("the text as a filter", all().filter_text("content = 'apple plum'")),
        ("another order", asked().order(Order::OldestFirst)),
    ] {
        let refused = documents.query(&other.cursor(&cursor).build()?).await;
        assert_eq!(kind(refused), Some(ErrorKind::InvalidInput), "{what}");
    }
    let plain = documents.query(&all().build()?).await?.next.ok_or("there is more")?;
    assert_eq!(kind(documents.query(&asked().cursor(&plain).build()?).await), Some(ErrorKind::InvalidInput));
    Ok(())
}

/// Paths and escapes in a content break no later search (graphiti#1173).
async fn backslashes_in_a_content_hurt_no_search(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    let contents = [r"C:\new\table\users\ana", r"\server\share\", r"ends with \", r"\u00e9 \' \x00 \n", "plain ana"];
    put_all(&*documents, &contents).await?;
    for (text, finds) in [
        (r"C:\new\table", &[0][..]),
        (r"\server\share", &[1]),
        ("ana", &[0, 4]),
        (r"\ana\", &[0, 4]),
        (r"with \", &[2]),
        ("u00e9", &[3]),
    ] {
        assert_eq!(found(&*documents, text).await?, places(finds), "{text}");
    }
    Ok(())
}
