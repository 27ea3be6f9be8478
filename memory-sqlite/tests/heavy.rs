//! Calls that examine much, checked by the load that the process reports: this file is a process of its own.

use std::time::Duration;

use memory_core::engine::load;
use memory_core::{
    Collection, Content, Document, DocumentId, DocumentQuery, DocumentSelection, DocumentWrite, MemoryProvider,
    MemoryQuery, Metadata, NewMemory, Revision, SpaceId, Timestamp, Trigger,
};
use memory_sqlite::{SqliteConfig, SqliteMemory};
use tempfile::TempDir;
use tokio::sync::Mutex;

mod older;

/// Held by the test that reads the load.
static LOAD: Mutex<()> = Mutex::const_new(());

#[tokio::test]
async fn a_call_keeps_its_permit_until_its_work_ends_also_when_it_was_given_up() {
    let _alone = LOAD.lock().await;
    let folder = TempDir::new().expect("a temporary folder");
    let provider = open(SqliteConfig::new(folder.path().join("memory.db"))).await;
    // One record is matched as a whole.
    provider.store(event(1, &"ab".repeat(500_000))).await.expect("a store");
    let filter: Vec<_> = (0..200).map(|number| format!("text LIKE '%a_a{number}b%'")).collect();
    let query = MemoryQuery::builder().all().filter_text(&filter.join(" OR ")).build().expect("a query");
    // No event shows when the matching begins, so each attempt gives it more time than the one before.
    for millis in [1, 10, 100, 1_000] {
        let (provider, query) = (provider.clone(), query.clone());
        let asked = tokio::spawn(async move { provider.query(&query).await });
        tokio::time::sleep(Duration::from_millis(millis)).await;
        asked.abort();
        assert!(asked.await.is_err(), "the look has ended");
        if load().heavy > 0 {
            return;
        }
    }
    panic!("the permit was given back while the work went on");
}

#[tokio::test]
async fn documents_are_looked_for_by_place_while_words_are_removed() {
    let _alone = LOAD.lock().await;
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("memory.db");
    // More than two slices of the removal take away.
    older::ledger(&path, 8_000, Some(8_000));
    let provider = open(SqliteConfig::new(&path)).await;
    let document = |number: usize| Document {
        id: DocumentId::parse(format!("new{number:05}")).expect("valid"),
        collection: notes(),
        space_id: SpaceId::parse(if number == 0 { "mine" } else { "elsewhere" }).expect("valid"),
        content: Content::parse("text").expect("valid"),
        metadata: Metadata::default(),
        created_at: Timestamp::from_millis(number as i64).expect("valid"),
        updated_at: None,
        revision: Revision::FIRST,
        expires_at: None,
    };
    provider.documents().restore((0..3_000).map(document).collect()).await.expect("a restore");

    let query = DocumentQuery::builder(notes()).under("mine").filter_text("text = 'text'").build().expect("a query");
    let before = load().examined;
    assert_eq!(provider.documents().query(&query).await.expect("a page").documents.len(), 1);
    let examined = load().examined - before;
    assert!(examined < 100, "{examined} records were examined");
    assert!(provider.backfill().await.expect("a slice").is_some(), "words are left");
}

#[tokio::test]
async fn a_removal_comes_to_its_end_while_what_it_takes_goes_on_to_change() {
    let _alone = LOAD.lock().await;
    let folder = TempDir::new().expect("a temporary folder");
    let provider = open(SqliteConfig::new(folder.path().join("memory.db"))).await;
    let documents = provider.documents();
    let write = |number: usize, text: &str| {
        let space = SpaceId::parse("mine").expect("valid");
        let (content, time) = (Content::parse(text).expect("valid"), Timestamp::from_millis(1).expect("valid"));
        let id = DocumentId::parse(format!("{number}")).expect("valid");
        DocumentWrite::new(notes(), space, content, time).with_id(id)
    };
    // Reading one takes longer than changing one.
    let text = "ab".repeat(10_000);
    for number in 0..20 {
        documents.put(write(number, &text)).await.expect("a put");
    }
    let changing = tokio::spawn({
        let (documents, write) = (provider.documents(), write(0, &text));
        async move {
            loop {
                documents.put(write.clone()).await.expect("a put");
            }
        }
    });
    let filter = (0..5).map(|number| format!("text LIKE '%a_a{number}b%'")).collect::<Vec<_>>().join(" OR ");
    let query = DocumentQuery::builder(notes()).under("mine").filter_text(&format!("NOT ({filter})"));
    let selection = DocumentSelection::matching(query).expect("a selection");
    assert_eq!(documents.remove(&selection, 20).await.expect("its end").len(), 20);
    changing.abort();
}

async fn open(config: SqliteConfig) -> SqliteMemory {
    let provider = SqliteMemory::open(config).expect("valid");
    provider.init().await.expect("opens");
    provider
}

fn notes() -> Collection {
    Collection::parse("notes").expect("valid")
}

fn event(time: i64, text: &str) -> NewMemory {
    let trigger = Trigger::parse(&format!("\"{text}\"")).expect("valid");
    NewMemory::new(SpaceId::parse("a-b").expect("valid"), trigger, Timestamp::from_millis(time).expect("valid"))
}
