//! Short ways to what cases are made of. All of them panic on a mistake: it would be one in the suite.

use memory_core::{
    Actor, Collection, Content, Context, Document, DocumentId, DocumentQuery, DocumentStore, DocumentWrite, Documents,
    ErrorKind, IdempotencyKey, Ledger, Memory, MemoryId, MemoryPage, MemoryProvider, MemoryQuery, Metadata, NewMemory,
    Order, QueryBuilder, Result, SpaceId, Timestamp, Trigger,
};

/// A point in time.
pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis).expect("a valid time")
}

/// A space.
pub(crate) fn space(id: &str) -> SpaceId {
    SpaceId::parse(id).expect("a valid space")
}

/// A trigger.
pub(crate) fn trigger(json: &str) -> Trigger {
    Trigger::parse(json).expect("a valid trigger")
}

/// A context.
pub(crate) fn context(json: &str) -> Context {
    Context::parse(json).expect("a valid context")
}

/// Metadata.
pub(crate) fn metadata(json: &str) -> Metadata {
    Metadata::parse(json).expect("valid metadata")
}

/// A memory to store, with a small trigger.
pub(crate) fn new_memory(space_id: &str, millis: i64) -> NewMemory {
    NewMemory::new(space(space_id), trigger(r#"{"text":"hello"}"#), at(millis))
}

/// A collection.
pub(crate) fn collection(name: &str) -> Collection {
    Collection::parse(name).expect("a valid collection")
}

/// The id of a document.
pub(crate) fn document_id(id: &str) -> DocumentId {
    DocumentId::parse(id).expect("a valid id")
}

/// A document to put, at the time 1,000.
pub(crate) fn new_document(name: &str, id: &str, space_id: &str, content: &str) -> DocumentWrite {
    let content = Content::parse(content).expect("a valid content");
    DocumentWrite::new(collection(name), space(space_id), content, at(1_000)).with_id(document_id(id))
}

/// A query of the ledger.
pub(crate) fn query(build: impl FnOnce(QueryBuilder<Ledger>) -> QueryBuilder<Ledger>) -> MemoryQuery {
    build(MemoryQuery::builder()).build().expect("a valid query")
}

/// Every memory that a query finds, over all its pages.
pub(crate) async fn walk(
    provider: &dyn MemoryProvider,
    build: impl Fn(QueryBuilder<Ledger>) -> QueryBuilder<Ledger>,
) -> Result<Vec<Memory>> {
    let mut memories = Vec::new();
    let mut page: MemoryPage = provider.query(&query(&build)).await?;
    loop {
        memories.append(&mut page.memories);
        let Some(cursor) = page.next else { return Ok(memories) };
        page = provider.query(&query(|builder| build(builder).cursor(&cursor))).await?;
    }
}

/// Every document of a collection that a query finds, over all its pages.
pub(crate) async fn walk_documents(
    documents: &dyn DocumentStore,
    name: &str,
    build: impl Fn(QueryBuilder<Documents>) -> QueryBuilder<Documents>,
) -> Result<Vec<Document>> {
    let builder = || build(DocumentQuery::builder(collection(name)));
    let mut found = Vec::new();
    let mut page = documents.query(&builder().build()?).await?;
    loop {
        found.append(&mut page.documents);
        let Some(cursor) = page.next else { return Ok(found) };
        page = documents.query(&builder().cursor(&cursor).build()?).await?;
    }
}

/// The ids of memories.
pub(crate) fn ids(memories: &[Memory]) -> Vec<MemoryId> {
    memories.iter().map(|memory| memory.id).collect()
}

/// The spaces of memories.
pub(crate) fn spaces(memories: &[Memory]) -> Vec<&str> {
    memories.iter().map(|memory| memory.space_id.as_str()).collect()
}

/// Who makes a change.
pub(crate) fn actor(name: &str) -> Actor {
    Actor::parse(name).expect("a valid actor")
}

/// An idempotency key.
pub(crate) fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::parse(text).expect("a valid key")
}

/// The whole ledger, oldest first.
pub(crate) async fn ledger(provider: &dyn MemoryProvider) -> Result<Vec<Memory>> {
    walk(provider, |query| query.all().order(Order::OldestFirst)).await
}

/// The memory with this id, which must be there.
pub(crate) async fn the(provider: &dyn MemoryProvider, id: MemoryId) -> Result<Memory> {
    Ok(provider.get(id).await?.expect("a stored memory is found by its id"))
}

/// How a call failed; `None` when it succeeded.
pub(crate) fn kind<T>(result: Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}
