//! Helpers that build the values of cases. They panic on invalid input, since that is a mistake in the suite and not in the engine.

use std::sync::Arc;

use futures::future::join_all;
use memory_core::{
    Actor, Collection, Content, Context, Document, DocumentId, DocumentQuery, DocumentSelection, DocumentStore,
    DocumentWrite, Documents, Error, ErrorKind, IdempotencyKey, Ledger, Memory, MemoryId, MemoryPage, MemoryProvider,
    MemoryQuery, Metadata, NewMemory, Order, QueryBuilder, RecordId, Result, SpaceId, Timestamp, Trigger,
};

/// The time `millis` milliseconds after 1970-01-01 UTC.
pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis).expect("a valid time")
}

/// Parses the id of a space.
pub(crate) fn space(id: &str) -> SpaceId {
    SpaceId::parse(id).expect("a valid space")
}

/// Parses a trigger from its JSON.
pub(crate) fn trigger(json: &str) -> Trigger {
    Trigger::parse(json).expect("a valid trigger")
}

/// Parses a context from its JSON.
pub(crate) fn context(json: &str) -> Context {
    Context::parse(json).expect("a valid context")
}

/// Parses metadata from a JSON object.
pub(crate) fn metadata(json: &str) -> Metadata {
    Metadata::parse(json).expect("valid metadata")
}

/// A memory to store in this space, with a small trigger and the createdAt `millis`.
pub(crate) fn new_memory(space_id: &str, millis: i64) -> NewMemory {
    NewMemory::new(space(space_id), trigger(r#"{"text":"hello"}"#), at(millis))
}

/// Stores a memory in each of these spaces, the first with the createdAt 1, and each later than the one before.
pub(crate) async fn store_each<'a>(
    provider: &dyn MemoryProvider,
    ids: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<MemoryId>> {
    provider.store_many((1..).zip(ids).map(|(time, id)| new_memory(id, time)).collect()).await
}

/// Parses the name of a collection.
pub(crate) fn collection(name: &str) -> Collection {
    Collection::parse(name).expect("a valid collection")
}

/// Parses the id of a document.
pub(crate) fn document_id(id: &str) -> DocumentId {
    DocumentId::parse(id).expect("a valid id")
}

/// A put of a document with the createdAt 1,000.
pub(crate) fn new_document(name: &str, id: &str, space_id: &str, content: &str) -> DocumentWrite {
    let content = Content::parse(content).expect("a valid content");
    DocumentWrite::new(collection(name), space(space_id), content, at(1_000)).with_id(document_id(id))
}

/// The collection that most cases use.
pub(crate) const NOTES: &str = "notes";

/// The name of a document of [`NOTES`].
pub(crate) fn note(id: &str) -> RecordId {
    (collection(NOTES), document_id(id)).into()
}

pub(crate) async fn put(provider: &dyn MemoryProvider, write: DocumentWrite) -> Result<Document> {
    provider.documents().put(write).await
}

/// Removes a document of [`NOTES`].
pub(crate) async fn remove_note(provider: &dyn MemoryProvider, id: &str) -> Result<()> {
    let one = DocumentSelection::ids(collection(NOTES), [document_id(id)])?;
    provider.documents().remove(&one, 1).await.map(drop)
}

/// Builds a query of the ledger.
pub(crate) fn query(build: impl FnOnce(QueryBuilder<Ledger>) -> QueryBuilder<Ledger>) -> MemoryQuery {
    build(MemoryQuery::builder()).build().expect("a valid query")
}

/// Collects the memories of all pages of a query.
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

/// Collects the documents of all pages of a query of one collection.
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

/// The ids of these memories, in their order.
pub(crate) fn ids(memories: &[Memory]) -> Vec<MemoryId> {
    memories.iter().map(|memory| memory.id).collect()
}

/// The spaces of these memories, in their order.
pub(crate) fn spaces(memories: &[Memory]) -> Vec<&str> {
    memories.iter().map(|memory| memory.space_id.as_str()).collect()
}

/// Parses an actor, who is recorded as the author of a change (H7).
pub(crate) fn actor(name: &str) -> Actor {
    Actor::parse(name).expect("a valid actor")
}

/// Parses an idempotency key.
pub(crate) fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::parse(text).expect("a valid key")
}

/// Every memory of the ledger, oldest first.
pub(crate) async fn ledger(provider: &dyn MemoryProvider) -> Result<Vec<Memory>> {
    walk(provider, |query| query.all().order(Order::OldestFirst)).await
}

/// The memory with this id. Panics if there is none.
pub(crate) async fn the(provider: &dyn MemoryProvider, id: MemoryId) -> Result<Memory> {
    Ok(provider.get(id).await?.expect("a stored memory is found by its id"))
}

/// The kind of the error if the call failed.
pub(crate) fn kind<T>(result: Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

/// Makes `count` concurrent calls, each in a task of its own and through the next of the handles. Returns their results in order.
pub(crate) async fn race<H, T, F>(handles: &[Arc<H>], count: usize, call: impl Fn(Arc<H>, usize) -> F) -> Vec<Result<T>>
where
    H: ?Sized,
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let task = |number: usize| tokio::spawn(call(Arc::clone(&handles[number % handles.len()]), number));
    let tasks: Vec<_> = (0..count).map(task).collect();
    let panicked = |error| Err(Error::new(ErrorKind::Unexpected, "a call panicked").with_source(error));
    join_all(tasks).await.into_iter().map(|result| result.unwrap_or_else(panicked)).collect()
}
