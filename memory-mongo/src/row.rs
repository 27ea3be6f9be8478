//! The rows of the collections, and how they become records.

use std::sync::LazyLock;

use memory_core::engine::{Found, Mark, Row, StoredDocument, StoredMemory, corrupt, shown_id};
use memory_core::{
    Collection, Context, Document, DocumentId, Documents, Error, Head, IdempotencyKey, KeyedHash, Ledger, Memory,
    MemoryId, Result, Revision, Selects, SpaceId, Status, Timestamp, path_hash,
};
use migrations::WRITER;
use mongodb::bson::raw::{BindRawBsonRef, CStr, RawArrayBuf, RawBsonRef, RawDocument, cstr};
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{self, Binary, Bson, RawDocumentBuf, doc, rawdoc};

/// How many documents, and about how many bytes of them, one command changes or removes: a command has at most 16 MiB.
pub(crate) const AT_ONCE: (usize, usize) = (1_000, 8 << 20);
/// The path that the row of every memory has. No path of a space contains a control character.
pub(crate) static EVERYTHING: LazyLock<i64> = LazyLock::new(|| path_hash("\0"));

/// The path of all rows that have this open status.
pub(crate) fn open_path(status: Status) -> i64 {
    path_hash(&format!("\0{status}"))
}

/// The keys of a memory's row in the path index, without duplicates: everything, its status if that is open, and its
/// ancestors.
pub(crate) fn paths_of(space: &SpaceId, status: Status) -> Vec<i64> {
    let mut paths: Vec<_> = space.ancestors().map(path_hash).collect();
    paths.push(*EVERYTHING);
    paths.extend(status.is_open().then(|| open_path(status)));
    paths.sort_unstable();
    paths.dedup();
    paths
}

/// The keys of a document's row: its space and its ancestors.
pub(crate) fn document_paths(space: &SpaceId) -> Vec<i64> {
    let mut paths: Vec<_> = space.ancestors().map(path_hash).collect();
    paths.push(space_path(space.as_str()));
    paths
}

/// The path of the documents in exactly this space.
pub(crate) fn space_path(space: &str) -> i64 {
    path_hash(&format!("\0={space}"))
}

pub(crate) fn binary(bytes: Vec<u8>) -> Binary {
    Binary { subtype: BinarySubtype::Generic, bytes }
}

pub(crate) fn uuid(id: &[u8]) -> Binary {
    Binary { subtype: BinarySubtype::Uuid, bytes: id.to_vec() }
}

/// The value that the server compares with the lowest program version that may write. It combines this program's
/// version with the revision, because an older program's update leaves this field unchanged while the revision grows.
pub(crate) fn written(revision: Revision) -> i64 {
    i64::from(revision) * 256 + i64::from(WRITER)
}

/// The field that holds the vector of a record.
pub(crate) const VECTOR: &str = "vector";
/// The first program version that removes a vector together with the texts it belongs to.
const KNOWS_VECTORS: i64 = 9;

/// The least value of `written` in a row of this revision whose last writer knew about vectors.
pub(crate) fn knows_vectors(revision: i64) -> i64 {
    revision.saturating_mul(256).saturating_add(KNOWS_VECTORS)
}

/// The vector of a row, if it has one that belongs to its texts: an older program that wrote later may have changed
/// them.
pub(crate) fn vector(row: &RawDocument) -> Option<&[u8]> {
    let [vector, revision, written] = values(row, [VECTOR, "revision", "written"]);
    (written?.as_i64()? >= knows_vectors(revision?.as_i64()?)).then_some(vector?.as_binary()?.bytes)
}

/// The row of a memory that is appended at this time.
pub(crate) fn memory_row(memory: &Memory, at: Option<Timestamp>) -> RawDocumentBuf {
    let mut row = rawdoc! {
        "_id": uuid(memory.id.as_bytes()),
        "createdAt": memory.created_at.as_millis(),
        "spaceId": memory.space_id.as_str(),
        "paths": paths_of(&memory.space_id, memory.status).into_iter().collect::<RawArrayBuf>(),
        "status": memory.status.as_str(),
        "revision": i64::from(memory.revision),
        "written": written(memory.revision),
        "metadata": memory.metadata.as_str(),
        "trigger": memory.trigger.as_str(),
    };
    append(&mut row, cstr!("updatedAt"), memory.updated_at.map(Timestamp::as_millis));
    append(&mut row, cstr!("context"), memory.context.as_ref().map(Context::as_str));
    append(&mut row, cstr!("idempotencyKey"), memory.idempotency_key.as_ref().map(IdempotencyKey::as_str));
    append(&mut row, cstr!("storedAt"), at.map(Timestamp::as_millis));
    append(&mut row, cstr!("expiresAt"), memory.expires_at.map(Timestamp::as_millis));
    row
}

/// The field that marks the row of an erased memory, or the mark of an erased key.
pub(crate) const ERASED: &str = "erased";

/// The row that remains of an erased memory. No list contains it, no memory has its revision, and it satisfies the
/// rules of its collection.
pub(crate) fn erased_row() -> bson::Document {
    doc! { ERASED: true, "revision": 0_i64, "written": i64::from(WRITER) }
}

/// Whether a row is such a row.
pub(crate) fn is_erased(row: &RawDocument) -> bool {
    matches!(row.get(ERASED), Ok(Some(_)))
}

pub(crate) fn key_row(key: &IdempotencyKey, id: MemoryId) -> RawDocumentBuf {
    rawdoc! { "_id": key.as_str(), "memory": uuid(id.as_bytes()) }
}

/// The mark of a key, written together with the key. Once the key is erased, it keeps out every store under the key.
pub(crate) fn mark_row(key: KeyedHash) -> RawDocumentBuf {
    rawdoc! { "_id": key_mark(key) }
}

/// The `_id` of a mark. The `_id` of a key is a text.
pub(crate) fn key_mark(key: KeyedHash) -> Binary {
    binary(key.0.to_vec())
}

/// The row of a document whose newest history entry has this place.
pub(crate) fn document_row(document: &Document, entry: i64) -> RawDocumentBuf {
    let mut row = rawdoc! {
        "_id": { "collection": document.collection.as_str(), "id": document.id.as_str() },
        "createdAt": document.created_at.as_millis(),
        "spaceId": document.space_id.as_str(),
        "paths": document_paths(&document.space_id).into_iter().collect::<RawArrayBuf>(),
        "revision": i64::from(document.revision),
        "written": written(document.revision),
        "entry": entry,
        "metadata": document.metadata.as_str(),
        "content": document.content.as_str(),
    };
    append(&mut row, cstr!("updatedAt"), document.updated_at.map(Timestamp::as_millis));
    append(&mut row, cstr!("expiresAt"), document.expires_at.map(Timestamp::as_millis));
    let key = document.expires_at.map(|_| expiry_key(&document.collection, &document.id));
    append(&mut row, cstr!("expiryKey"), key.as_deref());
    row
}

/// Orders the documents that expire at the same time as their keys in the core do ([`memory_core::RecordId::to_key`]).
/// Their `_id`s would not: there `a` comes before `a-b`, but among the keys, where a `/` follows each collection,
/// `a-b/` comes before `a/`.
pub(crate) fn expiry_key(collection: &Collection, id: &DocumentId) -> String {
    format!("{collection}/{id}")
}

/// The row that replaces another one, with the vector that stays. From it the feed learns where the document was
/// before, if it has moved.
pub(crate) fn next_row(before: &Document, after: &Document, entry: i64, vector: Option<&[u8]>) -> RawDocumentBuf {
    let mut row = document_row(after, entry);
    let before = (before.space_id != after.space_id).then_some(before.space_id.as_str());
    append(&mut row, cstr!("before"), before);
    append(&mut row, cstr!("vector"), vector.map(|vector| binary(vector.to_vec())));
    row
}

/// The kinds of rows: memories or documents.
pub(crate) trait Stored: Selects {
    /// The field that orders rows of the same millisecond.
    const ID: &'static str;

    fn id_to_bson(id: &[u8]) -> Bson;
    fn id(row: &RawDocument) -> Result<&[u8]>;
    fn read(row: &RawDocument, head: &Head<'_>) -> Result<Self::Record>;
}

impl Stored for Ledger {
    const ID: &'static str = "_id";

    fn id_to_bson(id: &[u8]) -> Bson {
        uuid(id).into()
    }

    fn id(row: &RawDocument) -> Result<&[u8]> {
        bytes(row, "_id")
    }

    fn read(row: &RawDocument, head: &Head<'_>) -> Result<Memory> {
        let stored = StoredMemory {
            id: head.id,
            created_at: head.created_at.as_millis(),
            updated_at: optional(row, "updatedAt", number)?,
            revision: number(row, "revision")?,
            status: text(row, "status")?,
            space_id: head.space,
            idempotency_key: optional(row, "idempotencyKey", text)?,
            metadata: text(row, "metadata")?,
            trigger: text(row, "trigger")?,
            context: optional(row, "context", text)?,
            expires_at: optional(row, "expiresAt", number)?,
        };
        stored.read()
    }
}

impl Stored for Documents {
    const ID: &'static str = "_id.id";

    fn id_to_bson(id: &[u8]) -> Bson {
        String::from_utf8_lossy(id).into_owned().into()
    }

    fn id(row: &RawDocument) -> Result<&[u8]> {
        text(key_of(row)?, "id").map(str::as_bytes)
    }

    fn read(row: &RawDocument, head: &Head<'_>) -> Result<Document> {
        let key = key_of(row)?;
        let stored = StoredDocument {
            id: text(key, "id")?,
            collection: text(key, "collection")?,
            created_at: head.created_at.as_millis(),
            updated_at: optional(row, "updatedAt", number)?,
            revision: number(row, "revision")?,
            space_id: head.space,
            metadata: text(row, "metadata")?,
            content: text(row, "content")?,
            expires_at: optional(row, "expiresAt", number)?,
        };
        stored.read()
    }
}

pub(crate) struct StoredRow<'r>(pub(crate) &'r RawDocument);

impl<K: Stored> Row<K> for StoredRow<'_> {
    fn head(&self) -> Result<Head<'_>> {
        let [created_at, space, status, updated_at, expires_at] =
            values(self.0, ["createdAt", "spaceId", "status", "updatedAt", "expiresAt"]);
        let millis = |value: Option<RawBsonRef<'_>>| value.and_then(|value| value.as_i64());
        let created_at = millis(created_at).ok_or_else(|| impossible("createdAt"))?;
        let created_at = Timestamp::from_millis(created_at).map_err(corrupt)?;
        // A status that can't be read must not prevent the rest from being judged.
        let status = status.and_then(|status| Status::parse(status.as_str()?).ok());
        let time = |value| millis(value).and_then(|millis| Timestamp::from_millis(millis).ok());
        let (updated_at, expires_at) = (time(updated_at), time(expires_at));
        let space = space.and_then(|space| space.as_str()).ok_or_else(|| impossible("spaceId"))?;
        let id = K::id(self.0)?;
        Ok(Head { id, space, created_at, updated_at, status, expires_at, is_over: false })
    }

    fn read(&self, head: &Head<'_>) -> Result<K::Record> {
        K::read(self.0, head)
    }

    fn id(&self) -> String {
        shown_id::<K>(K::id(self.0))
    }

    fn vector(&self) -> Result<Option<&[u8]>> {
        Ok(vector(self.0))
    }
}

pub(crate) fn found<K: Stored>(row: &RawDocument) -> Result<Found<K::Record, i64>> {
    let stored = StoredRow(row);
    let version = optional(row, "entry", number)?.unwrap_or_default();
    Ok(Found { record: K::read(row, &Row::<K>::head(&stored)?)?, version })
}

/// The position of a row in the order, even if the row is damaged.
pub(crate) fn mark<K: Stored>(row: &RawDocument) -> Mark {
    // A damaged row may have a number of another type, which the server sorts all the same, or an id of another type.
    let millis = bson(row, "createdAt").ok().and_then(|millis| any_number(&millis));
    Mark { millis: millis.unwrap_or_default(), id: K::id(row).unwrap_or_default().to_vec() }
}

/// A number of any type.
pub(crate) fn any_number(number: &Bson) -> Option<i64> {
    number.as_i64().or(number.as_i32().map(i64::from)).or(number.as_f64().map(|number| number as i64))
}

pub(crate) fn memory_id(row: &RawDocument, name: &str) -> Result<MemoryId> {
    let id = <[u8; 16]>::try_from(bytes(row, name)?);
    id.map(MemoryId::from_bytes).map_err(|_| impossible(name))
}

/// The id of the memory whose row has this `_id`.
pub(crate) fn memory_id_of(id: &Bson) -> Option<MemoryId> {
    let Bson::Binary(id) = id else { return None };
    id.bytes.as_slice().try_into().ok().map(MemoryId::from_bytes)
}

/// A hash from its bytes.
pub(crate) fn hash(bytes: &[u8]) -> Option<KeyedHash> {
    bytes.try_into().ok().map(KeyedHash)
}

/// The values of these fields, if the row has them, found in one pass.
fn values<'r, const N: usize>(row: &'r RawDocument, names: [&str; N]) -> [Option<RawBsonRef<'r>>; N] {
    let mut values = [None; N];
    for element in row.iter_elements().map_while(std::result::Result::ok) {
        if let Some(place) = names.iter().position(|name| *name == element.key().as_str()) {
            values[place] = element.value().ok();
        }
    }
    values
}

pub(crate) fn text<'r>(row: &'r RawDocument, name: &str) -> Result<&'r str> {
    row.get_str(name).map_err(|_| impossible(name))
}

pub(crate) fn bson(row: &RawDocument, name: &str) -> Result<Bson> {
    row.get(name).ok().flatten().and_then(|value| value.try_into().ok()).ok_or_else(|| impossible(name))
}

pub(crate) fn number(row: &RawDocument, name: &str) -> Result<i64> {
    row.get_i64(name).map_err(|_| impossible(name))
}

pub(crate) fn optional<'r, T>(
    row: &'r RawDocument,
    name: &str,
    get: fn(&'r RawDocument, &str) -> Result<T>,
) -> Result<Option<T>> {
    if matches!(row.get(name), Ok(None)) { Ok(None) } else { get(row, name).map(Some) }
}

pub(crate) fn key_of(row: &RawDocument) -> Result<&RawDocument> {
    row.get_document("_id").map_err(|_| impossible("_id"))
}

pub(crate) fn bytes<'r>(row: &'r RawDocument, name: &str) -> Result<&'r [u8]> {
    row.get_binary(name).map(|id| id.bytes).map_err(|_| impossible(name))
}

/// The error for a value that no program has stored like this.
pub(crate) fn impossible(name: &str) -> Error {
    Error::corrupt(format!("the stored {name} is missing or has an impossible type"))
}

pub(crate) fn append(row: &mut RawDocumentBuf, name: &CStr, value: Option<impl BindRawBsonRef>) {
    if let Some(value) = value {
        row.append(name, value);
    }
}

/// How many of the first documents, with these sizes, fit in one command; at least one.
pub(crate) fn at_once(sizes: impl Iterator<Item = usize>) -> usize {
    let mut bytes = 0;
    let fits = |size: &usize| {
        bytes += size;
        bytes <= AT_ONCE.1
    };
    sizes.take(AT_ONCE.0).take_while(fits).count().max(1)
}
