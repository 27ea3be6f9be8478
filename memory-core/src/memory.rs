//! A memory (one row of the ledger), the input that creates one, and the patch that changes one.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use crate::{Actor, Context, Error, IdempotencyKey, MemoryId, Metadata, Result, SpaceId, Timestamp, Trigger};

/// One row of the ledger: the event that triggered a task, and later the context that the task produced.
///
/// Its JSON has camelCase names and embeds trigger and context as JSON. An absent `context` differs from a `context` of
/// `null`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Memory {
    /// The id. The provider makes it (UUID version 7); a restored memory may have any UUID.
    pub id: MemoryId,
    /// The space in which it happened. Never changes (W6).
    pub space_id: SpaceId,
    /// The event. Never changes (W6).
    pub trigger: Trigger,
    /// The result of the task, as JSON; `None` until it is set.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub context: Option<Context>,
    /// When it happened, as its caller says. Never changes (W6).
    pub created_at: Timestamp,
    /// The time of the last update, by the provider's clock; `None` before the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
    /// A JSON object that filters can search.
    #[serde(default)]
    pub metadata: Metadata,
    /// The state of its task.
    #[serde(default)]
    pub status: Status,
    /// 1 for a new memory; each effective update adds 1.
    #[serde(default)]
    pub revision: Revision,
    /// The key that makes a store repeatable (W3); unique in the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<IdempotencyKey>,
    /// From this time on no call shows it (X1); `None` for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

impl Memory {
    /// Returns about how much the memory weighs in a page: the bytes of its space, trigger, context and metadata.
    pub fn size(&self) -> usize {
        let context = self.context.as_ref().map_or(0, |context| context.as_str().len());
        self.space_id.as_str().len() + self.trigger.as_str().len() + context + self.metadata.as_str().len()
    }

    /// Returns whether trigger and context equal those of another version, so that the vector stays valid (M2).
    pub fn has_texts_of(&self, other: &Self) -> bool {
        (&self.trigger, &self.context) == (&other.trigger, &other.context)
    }
}

/// The input of a store: a memory without an id.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct NewMemory {
    /// The space in which it happened.
    pub space_id: SpaceId,
    /// The event.
    pub trigger: Trigger,
    /// The result of the task, if already known.
    pub context: Option<Context>,
    /// When it happened, as the caller says.
    pub created_at: Timestamp,
    /// A JSON object that filters can search; empty by default.
    pub metadata: Metadata,
    /// The state of its task; `pending` by default.
    pub status: Status,
    /// The key by which a repeated store finds the first one (W3).
    pub idempotency_key: Option<IdempotencyKey>,
    /// From this time on no call shows it (X1); never by default.
    pub expires_at: Option<Timestamp>,
}

impl NewMemory {
    /// Makes a pending memory without context, metadata, key or expiry.
    pub fn new(space_id: SpaceId, trigger: Trigger, created_at: Timestamp) -> Self {
        Self {
            space_id,
            trigger,
            context: None,
            created_at,
            metadata: Metadata::default(),
            status: Status::default(),
            idempotency_key: None,
            expires_at: None,
        }
    }

    /// Sets the context.
    #[must_use]
    pub fn with_context(mut self, context: Context) -> Self {
        self.context = Some(context);
        self
    }

    /// Sets the metadata.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// Sets the status.
    #[must_use]
    pub fn with_status(mut self, status: Status) -> Self {
        self.status = status;
        self
    }

    /// Sets the idempotency key.
    #[must_use]
    pub fn with_idempotency_key(mut self, key: IdempotencyKey) -> Self {
        self.idempotency_key = Some(key);
        self
    }

    /// Sets the time at which it expires (X1).
    #[must_use]
    pub fn expires_at(mut self, time: Timestamp) -> Self {
        self.expires_at = Some(time);
        self
    }

    /// Returns the row that is stored under this id, at the first revision. For engines.
    pub fn into_memory(self, id: MemoryId) -> Memory {
        Memory {
            id,
            space_id: self.space_id,
            trigger: self.trigger,
            context: self.context,
            created_at: self.created_at,
            updated_at: None,
            metadata: self.metadata,
            status: self.status,
            revision: Revision::FIRST,
            idempotency_key: self.idempotency_key,
            expires_at: self.expires_at,
        }
    }
}

/// Decides what a store returns if its idempotency key is taken: `Ok` if trigger and space are equal, else `Conflict`
/// (W3). For engines.
pub fn check_repetition(new: &Memory, space_id: &str, trigger: &str) -> Result<()> {
    if new.space_id.as_str() == space_id && new.trigger.as_str() == trigger {
        Ok(())
    } else {
        Err(Error::conflict("the idempotency key belongs to a memory with another trigger or space"))
    }
}

/// The state of a memory's task (V6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Status {
    /// Waits for work to begin.
    #[default]
    Pending,
    /// Work is under way.
    Running,
    /// The task succeeded.
    Completed,
    /// The task ended with an error.
    Failed,
    /// The event was seen and needs no answer.
    Observed,
}

impl Status {
    /// Every status, in the order of the enum.
    pub const ALL: [Self; 5] = [Self::Pending, Self::Running, Self::Completed, Self::Failed, Self::Observed];

    /// Parses the lower-case name; `InvalidInput` for any other text.
    pub fn parse(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|status| status.as_str() == name);
        found.ok_or_else(|| Error::invalid("the status must be pending, running, completed, failed or observed"))
    }

    /// Returns the lower-case name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Observed => "observed",
        }
    }

    /// Returns whether work is left to do. A query for such memories costs what it returns (Q9).
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for Status {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::parse(name)
    }
}

/// The number of writes of a record: 1 when it is new, plus 1 for each effective change. At most 2^53 - 1, which every
/// JSON reader represents exactly (V7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Revision(u64);

impl Revision {
    /// The revision of a new record: 1.
    pub const FIRST: Self = Self(1);
    /// The highest revision: 2^53 - 1.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// Makes a revision from its number; `InvalidInput` for 0 and beyond [`MAX`](Self::MAX).
    pub fn new(number: u64) -> Result<Self> {
        if (Self::FIRST.0..=Self::MAX.0).contains(&number) {
            Ok(Self(number))
        } else {
            Err(Error::invalid(format!("a revision must lie between 1 and {}", Self::MAX.0)))
        }
    }

    /// Returns the number, 1 or more.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the next revision; `TooLarge` after the highest.
    pub fn next(self) -> Result<Self> {
        Self::new(self.0 + 1).map_err(|_| Error::too_large("the record has reached the highest revision"))
    }
}

impl Default for Revision {
    fn default() -> Self {
        Self::FIRST
    }
}

impl TryFrom<u64> for Revision {
    type Error = Error;

    fn try_from(number: u64) -> Result<Self> {
        Self::new(number)
    }
}

impl From<Revision> for i64 {
    /// For databases that have no unsigned integers.
    fn from(revision: Revision) -> Self {
        // Lossless: a revision is at most 2^53 - 1.
        revision.0 as i64
    }
}

impl From<Revision> for u64 {
    fn from(revision: Revision) -> Self {
        revision.0
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A change to a memory. Each field works alone; a field that is not named stays as it is (W7).
///
/// As JSON: `{"context":"clear"}`, `{"context":{"set":null}}`, `{"metadata":{"merge":{"topic":"rust"}},"ifRevision":3}`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct MemoryPatch {
    /// The change to the context.
    #[serde(skip_serializing_if = "ContextPatch::is_keep")]
    pub context: ContextPatch,
    /// The change to the metadata.
    #[serde(skip_serializing_if = "MetadataPatch::is_keep")]
    pub metadata: MetadataPatch,
    /// The new status; `None` keeps it.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// The change to the time at which the memory expires.
    #[serde(skip_serializing_if = "ExpiryPatch::is_keep")]
    pub expires_at: ExpiryPatch,
    /// The revision that the memory must have, else `Conflict` (W8).
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub if_revision: Option<Revision>,
    /// Who makes the change, for the history (H1). Not part of the JSON: the host names the actor, not the sender of
    /// the patch (H7).
    #[serde(skip)]
    pub actor: Option<Actor>,
}

/// The change that a patch makes to the context.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ContextPatch {
    /// Leaves the context as it is.
    #[default]
    Keep,
    /// Removes the context.
    Clear,
    /// Replaces the context.
    Set(Context),
}

/// The change that a patch makes to the metadata.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MetadataPatch {
    /// Leaves the metadata as it is.
    #[default]
    Keep,
    /// Replaces all metadata.
    Replace(Metadata),
    /// Merges into the metadata, by RFC 7396: a `null` removes a member.
    Merge(Metadata),
}

/// The change that a patch makes to the time at which the memory expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ExpiryPatch {
    /// Leaves the time as it is.
    #[default]
    Keep,
    /// The memory no longer expires by itself.
    Clear,
    /// The memory expires at this time.
    Set(Timestamp),
}

impl ExpiryPatch {
    fn is_keep(&self) -> bool {
        matches!(self, Self::Keep)
    }

    /// Returns the time that it sets, if any.
    pub fn time(&self) -> Option<Timestamp> {
        match self {
            Self::Set(time) => Some(*time),
            Self::Keep | Self::Clear => None,
        }
    }
}

impl ContextPatch {
    fn is_keep(&self) -> bool {
        matches!(self, Self::Keep)
    }
}

impl MetadataPatch {
    fn is_keep(&self) -> bool {
        matches!(self, Self::Keep)
    }
}

impl MemoryPatch {
    /// Makes a patch that changes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the context.
    #[must_use]
    pub fn set_context(mut self, context: Context) -> Self {
        self.context = ContextPatch::Set(context);
        self
    }

    /// Removes the context.
    #[must_use]
    pub fn clear_context(mut self) -> Self {
        self.context = ContextPatch::Clear;
        self
    }

    /// Replaces all metadata.
    #[must_use]
    pub fn replace_metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = MetadataPatch::Replace(metadata);
        self
    }

    /// Merges into the metadata, by RFC 7396.
    #[must_use]
    pub fn merge_metadata(mut self, patch: Metadata) -> Self {
        self.metadata = MetadataPatch::Merge(patch);
        self
    }

    /// Sets the status.
    #[must_use]
    pub fn with_status(mut self, status: Status) -> Self {
        self.status = Some(status);
        self
    }

    /// Sets the time at which the memory expires (X1).
    #[must_use]
    pub fn set_expiry(mut self, time: Timestamp) -> Self {
        self.expires_at = ExpiryPatch::Set(time);
        self
    }

    /// Clears the time at which the memory expires.
    #[must_use]
    pub fn clear_expiry(mut self) -> Self {
        self.expires_at = ExpiryPatch::Clear;
        self
    }

    /// Requires that the memory has this revision, else the update is `Conflict` (W8).
    #[must_use]
    pub fn if_revision(mut self, revision: Revision) -> Self {
        self.if_revision = Some(revision);
        self
    }

    /// Names the actor who makes the change.
    #[must_use]
    pub fn by(mut self, actor: Actor) -> Self {
        self.actor = Some(actor);
        self
    }

    /// Returns whether the patch names no field. Such a patch changes nothing but still checks the revision.
    pub fn is_empty(&self) -> bool {
        self.context.is_keep() && self.metadata.is_keep() && self.status.is_none() && self.expires_at.is_keep()
    }

    /// Returns the memory after this patch, or `None` if nothing is to be written. For engines: this defines an update.
    ///
    /// `Conflict` if the memory is not at the required revision (W8), `TooLarge` if the merged metadata is over its
    /// limit or the memory is at the highest revision (V7).
    pub fn apply(&self, memory: &Memory, now: Timestamp) -> Result<Option<Memory>> {
        if let Some(wanted) = self.if_revision.filter(|wanted| *wanted != memory.revision) {
            return Err(Error::conflict(format!("the revision is {}, not {wanted}", memory.revision)));
        }
        if self.is_empty() {
            return Ok(None);
        }
        let mut patched = memory.clone();
        match &self.context {
            ContextPatch::Keep => {}
            ContextPatch::Clear => patched.context = None,
            ContextPatch::Set(context) => patched.context = Some(context.clone()),
        }
        match &self.metadata {
            MetadataPatch::Keep => {}
            MetadataPatch::Replace(metadata) => patched.metadata = metadata.clone(),
            MetadataPatch::Merge(patch) => patched.metadata = memory.metadata.merge(patch)?,
        }
        patched.status = self.status.unwrap_or(memory.status);
        match self.expires_at {
            ExpiryPatch::Keep => {}
            ExpiryPatch::Clear => patched.expires_at = None,
            ExpiryPatch::Set(time) => patched.expires_at = Some(time),
        }
        patched.revision = memory.revision.next()?;
        patched.updated_at = Some(now);
        Ok(Some(patched))
    }
}

/// Result of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Updated {
    /// The current revision of the memory.
    pub revision: Revision,
    /// When the memory was last changed; `None` if never, which is possible after an empty patch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
}

impl From<&Memory> for Updated {
    fn from(memory: &Memory) -> Self {
        Self { revision: memory.revision, updated_at: memory.updated_at }
    }
}

/// Deserializes a present value, also `null`, as `Some`. Serde does not call it for an absent field.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Memory {
        let trigger = Trigger::parse(r#"{"text":"hi"}"#).expect("valid");
        let space = SpaceId::parse("a-b").expect("valid");
        NewMemory::new(space, trigger, Timestamp::MIN).into_memory(MemoryId::from_bytes([7; 16]))
    }

    #[test]
    fn json_embeds_payloads_and_tells_null_from_absent() {
        let mut memory = memory();
        let text = r#"{"id":"07070707-0707-0707-0707-070707070707","spaceId":"a-b","trigger":{"text":"hi"},"createdAt":-8640000000000,"metadata":{},"status":"pending","revision":1}"#;
        assert_eq!(serde_json::to_string(&memory).expect("serializable"), text);
        assert_eq!(serde_json::from_str::<Memory>(text).expect("readable"), memory);
        memory.context = Some(Context::parse("null").expect("valid"));
        let text = serde_json::to_string(&memory).expect("serializable");
        assert!(text.contains(r#""context":null"#));
        assert_eq!(serde_json::from_str::<Memory>(&text).expect("readable"), memory);
        assert!(serde_json::from_str::<Memory>(&text.replace("status", "state")).is_err());
    }

    #[test]
    fn patches_have_three_states_on_the_wire() {
        let patch = |text: &str| serde_json::from_str::<MemoryPatch>(text);
        let null = Context::parse("null").expect("valid");
        assert_eq!(patch("{}").expect("readable"), MemoryPatch::new());
        assert_eq!(patch(r#"{"context":"clear"}"#).expect("readable"), MemoryPatch::new().clear_context());
        assert_eq!(patch(r#"{"context":{"set":null}}"#).expect("readable"), MemoryPatch::new().set_context(null));
        for text in [
            r#"{"context":null}"#,
            r#"{"status":null}"#,
            r#"{"ifRevision":null}"#,
            r#"{"ifRevision":0}"#,
            r#"{"space":"x"}"#,
        ] {
            assert!(patch(text).is_err(), "{text}");
        }
        for text in
            [r#"{"context":{"set":{"a":1.50}},"metadata":{"merge":{"a":null}},"status":"failed","ifRevision":2}"#, "{}"]
        {
            assert_eq!(serde_json::to_string(&patch(text).expect("readable")).expect("serializable"), text);
        }
    }

    #[test]
    fn an_effective_patch_counts_even_with_equal_values() {
        let (memory, now) = (memory(), Timestamp::MAX);
        let same =
            MemoryPatch::new().with_status(Status::Pending).apply(&memory, now).expect("applies").expect("effective");
        assert_eq!((same.revision.get(), same.updated_at), (2, Some(now)));
        assert_eq!(MemoryPatch::new().apply(&memory, now).expect("applies"), None);
        let stale = MemoryPatch::new().if_revision(Revision::MAX);
        assert_eq!(stale.apply(&memory, now).expect_err("stale").kind(), crate::ErrorKind::Conflict);
    }

    #[test]
    fn revisions_end_where_json_numbers_do() {
        assert_eq!(Revision::MAX.next().expect_err("the last").kind(), crate::ErrorKind::TooLarge);
        assert!(Revision::new(0).is_err());
    }
}
