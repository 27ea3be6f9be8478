//! Which calls take a permit, by what the process tells of its load: this file is a process of its own.

use memory_core::engine::load;
use memory_core::{
    Collection, Content, DocumentId, DocumentSelection, DocumentWrite, InMemory, MemoryProvider, MemoryQuery,
    NewMemory, SpaceId, Status, Timestamp, Trigger,
};
use tokio::sync::Mutex;

/// Held by the test that looks at the load.
static LOAD: Mutex<()> = Mutex::const_new(());

/// Open memories of others and closed ones of one's own: neither way to the answer is short (L8).
#[tokio::test]
async fn a_query_that_examines_much_takes_a_permit() {
    let _alone = LOAD.lock().await;
    let before = load().heavy_admitted;
    let provider = InMemory::new();
    provider.init().await.expect("opens");
    let memory = |space: &str, time, status| {
        let space = SpaceId::parse(space).expect("valid");
        let time = Timestamp::from_millis(time).expect("valid");
        NewMemory::new(space, Trigger::parse("1").expect("valid"), time).with_status(status)
    };
    let some = |space, status| (0..3_000).map(|time| memory(space, time, status)).collect();
    provider.store_many(some("elsewhere", Status::Pending)).await.expect("a batch");
    provider.store_many(some("mine", Status::Completed)).await.expect("a batch");
    provider.store(memory("mine", 0, Status::Pending)).await.expect("a store");
    let find = async |space| {
        let query = MemoryQuery::builder().exact(space).status(Status::Pending).limit(1).build().expect("a query");
        provider.query(&query).await.expect("a page").memories.len()
    };
    assert_eq!((find("elsewhere").await, load().heavy_admitted - before), (1, 0), "the page is short");
    assert_eq!((find("mine").await, load().heavy_admitted - before), (1, 1));
}

/// What a removal has found it keeps until its turn to write.
#[tokio::test]
async fn a_removal_of_many_bytes_takes_a_permit() {
    let _alone = LOAD.lock().await;
    let before = load().heavy_admitted;
    let provider = InMemory::new();
    provider.init().await.expect("opens");
    let (documents, notes) = (provider.documents(), Collection::parse("notes").expect("valid"));
    let ids: Vec<_> = (0..24).map(|number| DocumentId::parse(format!("{number}")).expect("valid")).collect();
    for id in &ids {
        let content = Content::parse("a".repeat(1_000_000)).expect("valid");
        let space = SpaceId::parse("mine").expect("valid");
        let time = Timestamp::from_millis(1).expect("valid");
        let write = DocumentWrite::new(notes.clone(), space, content, time).with_id(id.clone());
        documents.put(write).await.expect("a put");
    }
    let remove = async |ids: &[DocumentId]| {
        let selection = DocumentSelection::ids(notes.clone(), ids.to_vec()).expect("a selection");
        documents.remove(&selection, 20).await.expect("a removal").len()
    };
    assert_eq!((remove(&ids[..4]).await, load().heavy_admitted - before), (4, 0));
    assert_eq!((remove(&ids[4..]).await, load().heavy_admitted - before), (20, 1));
}
