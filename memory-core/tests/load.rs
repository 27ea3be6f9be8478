//! Which calls take a permit, by what the process tells of its load: this file is a process of its own.

use memory_core::engine::load;
use memory_core::{InMemory, MemoryProvider, MemoryQuery, NewMemory, SpaceId, Status, Timestamp, Trigger};

/// Open memories of others and closed ones of one's own: neither way to the answer is short (L8).
#[tokio::test]
async fn a_query_that_examines_much_takes_a_permit() {
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
    assert_eq!((find("elsewhere").await, load().heavy_admitted), (1, 0), "the page is short");
    assert_eq!((find("mine").await, load().heavy_admitted), (1, 1));
}
