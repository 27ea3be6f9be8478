//! What the collections hold, and how documents of MongoDB become records.

use std::sync::LazyLock;

use memory_core::{
    Collection, Content, Context, Document, DocumentId, Error, ErrorKind, Head, IdempotencyKey, Memory, MemoryId,
    Metadata, Result, Revision, SpaceId, Status, Timestamp, Trigger, path_hash, words,
};
use mongodb::bson::raw::{CStr, RawArrayBuf, RawDocument, cstr};
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, RawDocumentBuf, doc, rawdoc};

/// The path that every row has. No path of a space holds a control character.
pub(crate) static EVERYTHING: LazyLock<i64> = LazyLock::new(|| path_hash("\0"));

/// The path of all rows with a status that is open.
pub(crate) fn open_path(status: Status) -> i64 {
    path_hash(&format!("\0{status}"))
}

/// The keys of a row in the path index, each once: everything, its status while that is open, and its ancestors.
pub(crate) fn paths_of(space: &SpaceId, status: Status) -> Vec<i64> {
    let mut paths: Vec<_> = space.ancestors().map(path_hash).collect();
    paths.push(*EVERYTHING);
    paths.extend(status.is_open().then(|| open_path(status)));
    paths.sort_unstable();
    paths.dedup();
    paths
}

/// The words of a memory, each once.
pub(crate) fn memory_words(memory: &Memory) -> Vec<String> {
    words::distinct(&words::text_of(&memory.trigger, memory.context.as_ref())).into_iter().collect()
}

/// An id as the server has it.
pub(crate) fn id_to_bson(id: MemoryId) -> Binary {
    Binary { subtype: BinarySubtype::Uuid, bytes: id.as_bytes().to_vec() }
}

/// A revision as the server has it: at most 2^53 - 1.
pub(crate) fn revision_to_bson(revision: Revision) -> i64 {
    revision.get() as i64
}

/// The row of a memory, with its words if they are indexed.
pub(crate) fn memory_row(memory: &Memory, has_words: bool) -> RawDocumentBuf {
    let mut row = rawdoc! {
        "_id": id_to_bson(memory.id),
        "createdAt": memory.created_at.as_millis(),
        "spaceId": memory.space_id.as_str(),
        "paths": array(paths_of(&memory.space_id, memory.status)),
        "status": memory.status.as_str(),
        "revision": revision_to_bson(memory.revision),
        "metadata": memory.metadata.as_str(),
        "trigger": memory.trigger.as_str(),
    };
    append_time(&mut row, memory.updated_at);
    append_text(&mut row, cstr!("context"), memory.context.as_ref().map(Context::as_str));
    append_text(&mut row, cstr!("idempotencyKey"), memory.idempotency_key.as_ref().map(IdempotencyKey::as_str));
    if has_words {
        row.append(cstr!("words"), array(memory_words(memory)));
    }
    row
}

/// What finds a memory by its idempotency key.
pub(crate) fn key_row(key: &IdempotencyKey, id: MemoryId) -> RawDocumentBuf {
    rawdoc! { "_id": key.as_str(), "memory": id_to_bson(id) }
}

/// The row of a document of the contract.
pub(crate) fn document_row(document: &Document) -> RawDocumentBuf {
    let mut row = rawdoc! {
        "_id": { "collection": document.collection.as_str(), "id": document.id.as_str() },
        "createdAt": document.created_at.as_millis(),
        "spaceId": document.space_id.as_str(),
        "revision": revision_to_bson(document.revision),
        "metadata": document.metadata.as_str(),
        "content": document.content.as_str(),
        "words": array(words::distinct(document.content.as_str())),
    };
    append_time(&mut row, document.updated_at);
    row
}

/// The `_id` of a document.
pub(crate) fn document_key(collection: &Collection, id: &DocumentId) -> mongodb::bson::Document {
    doc! { "collection": collection.as_str(), "id": id.as_str() }
}

/// What a row of the ledger tells before the payload is read.
pub(crate) fn memory_head(row: &RawDocument) -> Result<Head<'_>> {
    Ok(Head {
        id: bytes(row, "_id")?,
        created_at: time(number(row, "createdAt")?)?,
        space: text(row, "spaceId")?,
        status: Some(Status::parse(text(row, "status")?).map_err(corrupt)?),
    })
}

/// Where a row of the ledger stands in its order.
pub(crate) fn place(row: &RawDocument) -> Result<(i64, &[u8])> {
    Ok((number(row, "createdAt")?, bytes(row, "_id")?))
}

/// The memory in a row.
pub(crate) fn memory(row: &RawDocument) -> Result<Memory> {
    Ok(Memory {
        id: memory_id(row)?,
        created_at: time(number(row, "createdAt")?)?,
        space_id: SpaceId::parse(text(row, "spaceId")?).map_err(corrupt)?,
        status: Status::parse(text(row, "status")?).map_err(corrupt)?,
        revision: revision(number(row, "revision")?)?,
        updated_at: optional(row, "updatedAt", number)?.map(time).transpose()?,
        metadata: Metadata::from_stored(text(row, "metadata")?)?,
        trigger: Trigger::from_stored(text(row, "trigger")?)?,
        context: optional(row, "context", text)?.map(Context::from_stored).transpose()?,
        idempotency_key: optional(row, "idempotencyKey", text)?
            .map(IdempotencyKey::parse)
            .transpose()
            .map_err(corrupt)?,
    })
}

/// The id of a memory in its row.
pub(crate) fn memory_id(row: &RawDocument) -> Result<MemoryId> {
    binary_id(row, "_id")
}

/// The id of a memory in any row.
pub(crate) fn binary_id(row: &RawDocument, name: &str) -> Result<MemoryId> {
    let id = <[u8; 16]>::try_from(bytes(row, name)?);
    id.map(MemoryId::from_bytes).map_err(|_| impossible(name))
}

/// Whether the words of a row are indexed.
pub(crate) fn has_words(row: &RawDocument) -> bool {
    matches!(row.get("words"), Ok(Some(_)))
}

/// What the row of a document tells before the content is read.
pub(crate) fn document_head(row: &RawDocument) -> Result<Head<'_>> {
    let id = text(key_of(row)?, "id")?.as_bytes();
    let created_at = time(number(row, "createdAt")?)?;
    Ok(Head { id, created_at, space: text(row, "spaceId")?, status: None })
}

/// The document of the contract in a row.
pub(crate) fn document(row: &RawDocument) -> Result<Document> {
    let key = key_of(row)?;
    Ok(Document {
        id: DocumentId::parse(text(key, "id")?).map_err(corrupt)?,
        collection: Collection::parse(text(key, "collection")?).map_err(corrupt)?,
        created_at: time(number(row, "createdAt")?)?,
        space_id: SpaceId::parse(text(row, "spaceId")?).map_err(corrupt)?,
        revision: revision(number(row, "revision")?)?,
        updated_at: optional(row, "updatedAt", number)?.map(time).transpose()?,
        metadata: Metadata::from_stored(text(row, "metadata")?)?,
        content: Content::parse(text(row, "content")?).map_err(corrupt)?,
    })
}

/// A string of a row.
pub(crate) fn text<'r>(row: &'r RawDocument, name: &str) -> Result<&'r str> {
    row.get_str(name).map_err(|_| impossible(name))
}

/// An integer of a row.
pub(crate) fn number(row: &RawDocument, name: &str) -> Result<i64> {
    row.get_i64(name).map_err(|_| impossible(name))
}

/// A value of a row that may be absent.
fn optional<'r, T>(
    row: &'r RawDocument,
    name: &str,
    read: impl Fn(&'r RawDocument, &str) -> Result<T>,
) -> Result<Option<T>> {
    match row.get(name) {
        Ok(None) => Ok(None),
        _ => read(row, name).map(Some),
    }
}

fn key_of(row: &RawDocument) -> Result<&RawDocument> {
    row.get_document("_id").map_err(|_| impossible("_id"))
}

fn bytes<'r>(row: &'r RawDocument, name: &str) -> Result<&'r [u8]> {
    row.get_binary(name).map(|id| id.bytes).map_err(|_| impossible(name))
}

/// A value that no program has stored like this.
pub(crate) fn impossible(name: &str) -> Error {
    Error::corrupt(format!("the stored {name} is missing or has an impossible type"))
}

fn time(millis: i64) -> Result<Timestamp> {
    Timestamp::from_millis(millis).map_err(corrupt)
}

fn revision(number: i64) -> Result<Revision> {
    Revision::new(u64::try_from(number).unwrap_or_default()).map_err(corrupt)
}

/// A stored value that core refuses: its own kind would blame the caller.
fn corrupt(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Corrupt => error,
        _ => Error::corrupt("a stored value breaks a rule of the contract").with_source(error),
    }
}

fn append_time(row: &mut RawDocumentBuf, time: Option<Timestamp>) {
    if let Some(time) = time {
        row.append(cstr!("updatedAt"), time.as_millis());
    }
}

fn append_text(row: &mut RawDocumentBuf, name: &CStr, text: Option<&str>) {
    if let Some(text) = text {
        row.append(name, text);
    }
}

fn array<T>(values: impl IntoIterator<Item = T>) -> RawArrayBuf
where
    T: mongodb::bson::raw::BindRawBsonRef,
{
    let mut array = RawArrayBuf::new();
    values.into_iter().for_each(|value| array.push(value));
    array
}
