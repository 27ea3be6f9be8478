//! The bodies of memories in requests and responses.

use memory_core::{
    Clock as _, Context, IdempotencyKey, Memory, MemoryId, MemoryPatch, Metadata, NewMemory, Revision, SpaceId, Status,
    SystemClock, Timestamp, Trigger, Vector,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::page::UnreadableBody;
use super::reading::{objects, present, revision, some_time, time};
use super::vector::VectorBody;

/// A memory to store.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewMemoryBody {
    /// Where it happened, from broad to narrow.
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
    /// Data for use in conditions.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub(crate) metadata: Metadata,
    /// The state of its task; `pending` by default.
    #[serde(default)]
    pub(crate) status: StatusName,
    /// A second store with the same key, trigger and space stores nothing and returns the first id; another trigger or space is refused.
    #[serde(default)]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 256)]
    pub(crate) idempotency_key: Option<IdempotencyKey>,
    /// When it expires, in milliseconds since 1970 UTC; never by default.
    #[serde(default, deserialize_with = "time")]
    #[schema(value_type = Option<i64>, minimum = -8_640_000_000_000_i64, maximum = 8_640_000_000_000_i64)]
    pub(crate) expires_at: Option<Timestamp>,
    /// Its vector, by the model of the database: the base64 of its bytes, or its numbers.
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

/// The state of a memory's task.
#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum StatusName {
    #[default]
    Pending,
    Running,
    Completed,
    Failed,
    /// It was seen and is never answered.
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
    /// When it expires: from then on it is in no answer. It never expires if this is absent.
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

/// A change of a memory. Fields that are not given stay as they are.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = MemoryPatch)]
pub(crate) struct PatchBody {
    /// Clears or sets the context.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    context: Option<ContextChange>,
    /// Replaces the metadata, or merges into it (RFC 7396).
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    metadata: Option<MetadataChange>,
    /// The new status.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    status: Option<StatusName>,
    /// Clears or sets the expiry, in milliseconds since 1970 UTC.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    expires_at: Option<ExpiryChange>,
    /// The revision that the memory must have; the same as the header `If-Match`.
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

/// The state of a memory after an update.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UpdatedBody {
    #[schema(value_type = u64)]
    pub(crate) revision: Revision,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub(crate) updated_at: Option<Timestamp>,
}

/// A page of memories.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MemoryPageBody {
    pub(crate) memories: Vec<MemoryBody>,
    /// Rows that can't be read, and that match as far as can be told.
    pub(crate) unreadable: Vec<UnreadableBody>,
    /// The `cursor` of the next page; absent on the last page. A short page may have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}
