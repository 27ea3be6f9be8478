//! Which calls take a permit, checked by the load that the process reports: this file is a process of its own.

use memory_core::engine::load;
use memory_core::{
    Collection, Content, DocumentId, DocumentQuery, DocumentSelection, DocumentWrite, Embedding, InMemory,
    MemoryProvider, MemoryQuery, NewMemory, Precision, Recall, SpaceId, Status, Timestamp, Trigger, Vector,
    VectorModel,
};
use tokio::sync::Mutex;

/// Held by the test that reads the load.
static LOAD: Mutex<()> = Mutex::const_new(());

/// Open memories of others and closed ones of the queried space: neither way to the answer is short (L8).
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

/// A removal keeps the documents that it has found until its turn to write.
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

/// A recall by a vector alone reads only the texts of the hits, whose lengths are unknown before.
#[tokio::test]
async fn a_recall_of_long_hits_takes_a_permit() {
    let _alone = LOAD.lock().await;
    let before = load().heavy_admitted;
    let provider = InMemory::new();
    provider.init().await.expect("opens");
    let model = VectorModel::new("m", 2, Precision::Exact).expect("valid");
    provider.set_vector_model(&model).await.expect("set");
    let (documents, vector) = (provider.documents(), Vector::new(&[1.0, 0.0]).expect("valid"));
    let recall = async |collection: &str, length: usize| {
        let (collection, space) =
            (Collection::parse(collection).expect("valid"), SpaceId::parse("mine").expect("valid"));
        for number in 0..4 {
            let content = Content::parse(number.to_string().repeat(length)).expect("valid");
            let time = Timestamp::from_millis(number).expect("valid");
            let put = documents.put(DocumentWrite::new(collection.clone(), space.clone(), content, time)).await;
            let put = put.expect("a put");
            let (record, revision, texts) = ((&put).into(), put.revision, None);
            let embedding = Embedding { record, revision, texts, vector: vector.clone() };
            assert_eq!(provider.embed(&model, vec![embedding]).await.expect("kept"), [true]);
        }
        let query = DocumentQuery::builder(collection).all().limit(4).build().expect("a query");
        let recall = Recall::new("", query).expect("a question").by_vector(vector.clone());
        let found = documents.recall(&recall).await.expect("an answer");
        assert!(found.complete);
        found.hits.len()
    };
    assert_eq!((recall("short", 10).await, load().heavy_admitted - before), (4, 0));
    assert_eq!((recall("long", 900_000).await, load().heavy_admitted - before), (4, 1));
}
