//! The bodies of requests and responses. Payloads keep their bytes.

use std::fmt;
use std::marker::PhantomData;

use memory_core::{Clock as _, Collection, Spaces};
use memory_core::{
    Content, Context, Cursor, Document, DocumentId, DocumentWrite, Expect, IdempotencyKey, Memory, MemoryId,
    MemoryPatch, Metadata, NewMemory, Revision, SpaceId, Status, SystemClock, Timestamp, Trigger, Unreadable, Vector,
};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::vectors::VectorBody;
use crate::serve::access::Access;

/// A memory to store.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewMemoryBody {
    /// Where it happened.
    #[schema(value_type = String, min_length = 1, max_length = 512, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")]
    pub(crate) space_id: SpaceId,
    /// What happened: any JSON, kept byte for byte.
    #[schema(value_type = serde_json::Value)]
    pub(crate) trigger: Trigger,
    /// What came of it, if that is known already: any JSON.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub(crate) context: Option<Context>,
    /// When it happened, in milliseconds since 1970 UTC; now by default.
    #[serde(default, deserialize_with = "time")]
    #[schema(value_type = Option<i64>, minimum = -8_640_000_000_000_i64, maximum = 8_640_000_000_000_i64)]
    pub(crate) created_at: Option<Timestamp>,
    /// What filters can look into.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub(crate) metadata: Metadata,
    /// How far its task is; `pending` by default.
    #[serde(default)]
    pub(crate) status: StatusName,
    /// Makes a repetition find the first store.
    #[serde(default)]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 256)]
    pub(crate) idempotency_key: Option<IdempotencyKey>,
    /// When it expires, in milliseconds since 1970 UTC; never by default.
    #[serde(default, deserialize_with = "time")]
    #[schema(value_type = Option<i64>, minimum = -8_640_000_000_000_i64, maximum = 8_640_000_000_000_i64)]
    pub(crate) expires_at: Option<Timestamp>,
    /// What it means, by the model of the database: the base64 of a vector, or its numbers.
    #[serde(default)]
    #[schema(value_type = Option<VectorBody>)]
    pub(crate) vector: Option<Vector>,
}

impl NewMemoryBody {
    pub(crate) fn into_memory(self) -> NewMemory {
        let created_at = self.created_at.unwrap_or_else(|| SystemClock.now());
        let mut memory = NewMemory::new(self.space_id, self.trigger, created_at);
        memory.context = self.context;
        memory.metadata = self.metadata;
        memory.status = self.status.into();
        memory.idempotency_key = self.idempotency_key;
        memory.expires_at = self.expires_at;
        memory
    }
}

/// How far the task of a memory is.
#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum StatusName {
    #[default]
    Pending,
    Running,
    Completed,
    Failed,
    /// Seen, never answered.
    Observed,
}

impl From<StatusName> for Status {
    fn from(status: StatusName) -> Self {
        match status {
            StatusName::Pending => Self::Pending,
            StatusName::Running => Self::Running,
            StatusName::Completed => Self::Completed,
            StatusName::Failed => Self::Failed,
            StatusName::Observed => Self::Observed,
        }
    }
}

/// Memories to store, all or none.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchBody {
    /// At most 10,000.
    #[serde(deserialize_with = "objects")]
    #[schema(max_items = 10_000)]
    pub(crate) memories: Vec<NewMemoryBody>,
}

/// The id of a stored memory.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Stored {
    #[schema(value_type = String, format = "uuid")]
    pub(crate) id: MemoryId,
}

/// The ids of stored memories, in the order of the request.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StoredMany {
    #[schema(value_type = Vec<String>)]
    pub(crate) ids: Vec<MemoryId>,
}

/// A memory of the ledger.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Memory)]
pub(crate) struct MemoryBody {
    #[schema(value_type = String, format = "uuid")]
    id: MemoryId,
    #[schema(value_type = String)]
    space_id: SpaceId,
    #[schema(value_type = serde_json::Value)]
    trigger: Trigger,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    context: Option<Context>,
    #[schema(value_type = i64)]
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    updated_at: Option<Timestamp>,
    #[schema(value_type = Object)]
    metadata: Metadata,
    #[schema(value_type = StatusName)]
    status: Status,
    #[schema(value_type = u64)]
    revision: Revision,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    idempotency_key: Option<IdempotencyKey>,
    /// From when on it is in no answer any more; never when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    expires_at: Option<Timestamp>,
}

impl From<Memory> for MemoryBody {
    fn from(memory: Memory) -> Self {
        Self {
            id: memory.id,
            space_id: memory.space_id,
            trigger: memory.trigger,
            context: memory.context,
            created_at: memory.created_at,
            updated_at: memory.updated_at,
            metadata: memory.metadata,
            status: memory.status,
            revision: memory.revision,
            idempotency_key: memory.idempotency_key,
            expires_at: memory.expires_at,
        }
    }
}

/// A change of a memory: what is not named stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = MemoryPatch)]
pub(crate) struct PatchBody {
    /// Takes the context away, or sets it.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    context: Option<ContextChange>,
    /// Replaces the metadata, or merges into them (RFC 7396).
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    metadata: Option<MetadataChange>,
    /// The new status.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    status: Option<StatusName>,
    /// Takes the time of its expiry away, or sets it, in milliseconds since 1970 UTC.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    expires_at: Option<ExpiryChange>,
    /// The revision that the memory must have; as the header `If-Match`.
    #[serde(default, deserialize_with = "revision")]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 9_007_199_254_740_991_i64)]
    if_revision: Option<Revision>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
enum ContextChange {
    Clear,
    /// Any JSON.
    Set(AnyJson),
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
enum MetadataChange {
    Replace(AnyObject),
    Merge(AnyObject),
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
enum ExpiryChange {
    Clear,
    Set(AnyTime),
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = i64)]
struct AnyTime(#[serde(deserialize_with = "some_time")] Timestamp);

#[derive(Debug, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = serde_json::Value)]
struct AnyJson(Context);

#[derive(Debug, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = Object)]
struct AnyObject(Metadata);

impl PatchBody {
    pub(crate) fn into_patch(self) -> MemoryPatch {
        let mut patch = MemoryPatch::new();
        patch = match self.context {
            None => patch,
            Some(ContextChange::Clear) => patch.clear_context(),
            Some(ContextChange::Set(AnyJson(context))) => patch.set_context(context),
        };
        patch = match self.metadata {
            None => patch,
            Some(MetadataChange::Replace(AnyObject(metadata))) => patch.replace_metadata(metadata),
            Some(MetadataChange::Merge(AnyObject(metadata))) => patch.merge_metadata(metadata),
        };
        patch.status = self.status.map(Status::from);
        patch = match self.expires_at {
            None => patch,
            Some(ExpiryChange::Clear) => patch.clear_expiry(),
            Some(ExpiryChange::Set(AnyTime(time))) => patch.set_expiry(time),
        };
        patch.if_revision = self.if_revision;
        patch
    }
}

/// What an update left behind.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UpdatedBody {
    #[schema(value_type = u64)]
    pub(crate) revision: Revision,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub(crate) updated_at: Option<Timestamp>,
}

/// A document to put.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewDocumentBody {
    /// The space it is about.
    #[schema(value_type = String, min_length = 1, max_length = 512, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")]
    pub(crate) space_id: SpaceId,
    /// The text, of at most 1 MiB.
    #[schema(value_type = String)]
    pub(crate) content: Content,
    /// What filters can look into.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub(crate) metadata: Metadata,
    /// When it is made, in milliseconds since 1970 UTC; now by default.
    #[serde(default, deserialize_with = "time")]
    #[schema(value_type = Option<i64>, minimum = -8_640_000_000_000_i64, maximum = 8_640_000_000_000_i64)]
    pub(crate) created_at: Option<Timestamp>,
    /// When it expires, in milliseconds since 1970 UTC; never by default.
    #[serde(default, deserialize_with = "time")]
    #[schema(value_type = Option<i64>, minimum = -8_640_000_000_000_i64, maximum = 8_640_000_000_000_i64)]
    pub(crate) expires_at: Option<Timestamp>,
    /// What it means, by the model of the database: the base64 of a vector, or its numbers.
    #[serde(default)]
    #[schema(value_type = Option<VectorBody>)]
    pub(crate) vector: Option<Vector>,
}

/// Documents to put, all or none.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutsBody {
    /// At most 10,000; no two of one collection with the same id.
    #[serde(deserialize_with = "objects")]
    #[schema(max_items = 10_000)]
    pub(crate) documents: Vec<PutBody>,
}

/// A document to put, with its place and what must be there.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PutBody {
    /// The set it belongs to.
    #[schema(value_type = String, pattern = "^[a-z0-9_-]{1,64}$")]
    pub(crate) collection: Collection,
    /// Its id; a new one is made when absent.
    #[serde(default)]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 256)]
    id: Option<DocumentId>,
    /// The space it is about.
    #[schema(value_type = String, min_length = 1, max_length = 512, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")]
    space_id: SpaceId,
    /// The text, of at most 1 MiB.
    #[schema(value_type = String)]
    content: Content,
    /// What filters can look into.
    #[serde(default)]
    #[schema(value_type = Object)]
    metadata: Metadata,
    /// When it is made, in milliseconds since 1970 UTC; now by default. A replacement keeps the first time.
    #[serde(default, deserialize_with = "time")]
    #[schema(value_type = Option<i64>, minimum = -8_640_000_000_000_i64, maximum = 8_640_000_000_000_i64)]
    created_at: Option<Timestamp>,
    /// When it expires, in milliseconds since 1970 UTC; never by default.
    #[serde(default, deserialize_with = "time")]
    #[schema(value_type = Option<i64>, minimum = -8_640_000_000_000_i64, maximum = 8_640_000_000_000_i64)]
    expires_at: Option<Timestamp>,
    /// What must be in place; anything by default.
    #[serde(default)]
    expect: ExpectBody,
    /// What it means, by the model of the database: the base64 of a vector, or its numbers.
    #[serde(default)]
    #[schema(value_type = Option<VectorBody>)]
    pub(crate) vector: Option<Vector>,
}

impl PutBody {
    pub(crate) fn into_write(self) -> DocumentWrite {
        let created_at = self.created_at.unwrap_or_else(|| SystemClock.now());
        let mut write = DocumentWrite::new(self.collection, self.space_id, self.content, created_at);
        write.id = self.id;
        write.expires_at = self.expires_at;
        write.with_metadata(self.metadata).expect(self.expect.into())
    }
}

/// What a put finds in place, or else nothing is put.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
enum ExpectBody {
    /// Anything or nothing.
    #[default]
    Any,
    /// No document with this id.
    Absent,
    /// A document at this revision.
    Revision(AnyRevision),
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = u64)]
struct AnyRevision(#[serde(deserialize_with = "some_revision")] Revision);

impl From<ExpectBody> for Expect {
    fn from(expect: ExpectBody) -> Self {
        match expect {
            ExpectBody::Any => Self::Any,
            ExpectBody::Absent => Self::Absent,
            ExpectBody::Revision(AnyRevision(revision)) => Self::Revision(revision),
        }
    }
}

/// What was put, in the order of the request.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PutManyBody {
    pub(crate) documents: Vec<PutDocumentBody>,
}

/// What a put has made of a document beside what it was given.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PutDocumentBody {
    #[schema(value_type = String)]
    collection: Collection,
    #[schema(value_type = String)]
    id: DocumentId,
    #[schema(value_type = i64)]
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    updated_at: Option<Timestamp>,
    #[schema(value_type = u64)]
    revision: Revision,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    expires_at: Option<Timestamp>,
}

impl From<Document> for PutDocumentBody {
    fn from(document: Document) -> Self {
        let Document { collection, id, created_at, updated_at, revision, expires_at, .. } = document;
        Self { collection, id, created_at, updated_at, revision, expires_at }
    }
}

/// A text that an agent saved.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Document)]
pub(crate) struct DocumentBody {
    #[schema(value_type = String)]
    pub(crate) id: DocumentId,
    #[schema(value_type = String)]
    pub(crate) collection: Collection,
    #[schema(value_type = String)]
    space_id: SpaceId,
    #[schema(value_type = String)]
    content: Content,
    #[schema(value_type = Object)]
    metadata: Metadata,
    #[schema(value_type = i64)]
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    updated_at: Option<Timestamp>,
    #[schema(value_type = u64)]
    pub(crate) revision: Revision,
    /// From when on it is in no answer any more; never when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    expires_at: Option<Timestamp>,
}

impl From<Document> for DocumentBody {
    fn from(document: Document) -> Self {
        Self {
            id: document.id,
            collection: document.collection,
            space_id: document.space_id,
            content: document.content,
            metadata: document.metadata,
            created_at: document.created_at,
            updated_at: document.updated_at,
            revision: document.revision,
            expires_at: document.expires_at,
        }
    }
}

/// A page of memories.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MemoryPageBody {
    pub(crate) memories: Vec<MemoryBody>,
    /// Rows that match as far as can be told, and can't be read.
    pub(crate) unreadable: Vec<UnreadableBody>,
    /// Where the next page begins; absent at the end. A short page may have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

/// A page of documents.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DocumentPageBody {
    pub(crate) documents: Vec<DocumentBody>,
    /// Documents that match as far as can be told, and can't be read.
    pub(crate) unreadable: Vec<UnreadableBody>,
    /// Where the next page begins; absent at the end. A short page may have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

/// A row that is no valid record.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UnreadableBody {
    /// Only for who may read every space, since nobody can vouch for the space of such a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    reason: String,
}

/// What is said of rows that can't be read.
pub(crate) fn unreadable(rows: Vec<Unreadable>, access: &Access) -> Vec<UnreadableBody> {
    let shows_ids = access.readable == Spaces::All;
    rows.into_iter().map(|row| UnreadableBody { id: shows_ids.then_some(row.id), reason: row.reason }).collect()
}

pub(crate) fn next(cursor: Option<Cursor>) -> Option<String> {
    cursor.map(|cursor| cursor.to_string())
}

/// What was removed, or would be.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RemovedBody {
    #[schema(value_type = Vec<String>)]
    pub(crate) ids: Vec<DocumentId>,
    pub(crate) dry_run: bool,
}

/// The collections that hold a document, as far as they may be used.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CollectionsBody {
    #[schema(value_type = Vec<String>)]
    pub(crate) collections: Vec<Collection>,
}

/// How the engine is.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HealthBody {
    pub(crate) engine: &'static str,
    pub(crate) server_version: String,
    pub(crate) schema_version: u32,
    pub(crate) latency_ms: f64,
    /// `durable`, or why it is at risk or unknown what an acknowledged write survives.
    pub(crate) durability: String,
}

/// Reads a value that is there, `null` included, as `Some`.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Objects; serde alone would take an array for one, field by field.
pub(super) fn objects<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let objects = Vec::<Object<T>>::deserialize(deserializer)?;
    Ok(objects.into_iter().map(|Object(value)| value).collect())
}

/// An object, or none.
pub(super) fn object<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Option<T>, D::Error> {
    Ok(Option::<Object<T>>::deserialize(deserializer)?.map(|Object(value)| value))
}

struct Object<T>(T);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OfObject(PhantomData)).map(Self)
    }
}

struct OfObject<T>(PhantomData<T>);

impl<'de, T: DeserializeOwned> Visitor<'de> for OfObject<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

/// A time; JSON Schema takes 1.0 for an integer.
pub(super) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let millis = whole(deserializer)?.map(|number| Timestamp::from_millis(number as i64));
    millis.transpose().map_err(D::Error::custom)
}

/// A time that is there.
fn some_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    time(deserializer)?.ok_or_else(|| D::Error::custom("a time must be a number"))
}

/// A revision; 1.0 as well.
fn revision<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Revision>, D::Error> {
    let revision = whole(deserializer)?.map(|number| Revision::new(number as u64));
    revision.transpose().map_err(D::Error::custom)
}

/// A revision that is there.
pub(super) fn some_revision<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Revision, D::Error> {
    revision(deserializer)?.ok_or_else(|| D::Error::custom("a revision must be a number"))
}

/// How many; 1.0 as well.
pub(super) fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    // What is less than none becomes none, which is refused too.
    Ok(whole(deserializer)?.map(|number| number as usize))
}

/// A whole number that a float holds exactly, as all times and revisions are.
fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let number = Option::<f64>::deserialize(deserializer)?;
    match number {
        Some(number) if number.fract() != 0.0 => Err(D::Error::custom("a number must be whole")),
        number => Ok(number),
    }
}
