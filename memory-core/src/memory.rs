//! The ledger's row, what makes one, and what changes one.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use crate::{Actor, Context, Error, IdempotencyKey, MemoryId, Metadata, Result, SpaceId, Timestamp, Trigger};

/// One row of the ledger: what triggered a task, and later the context chain that came of it.
///
/// Its JSON has camelCase names and embeds trigger and context as JSON. An absent `context` and a context of `null` are
/// two different things.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Memory {
    /// Made by the provider; any UUID when restored.
    pub id: MemoryId,
    /// Where it happened. Never changes (W6).
    pub space_id: SpaceId,
    /// What happened. Never changes (W6).
    pub trigger: Trigger,
    /// What came of it, if anything did.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub context: Option<Context>,
    /// When it happened, as its caller says. Never changes (W6).
    pub created_at: Timestamp,
    /// When the last update was, by the provider's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
    /// What filters can look into.
    #[serde(default)]
    pub metadata: Metadata,
    /// How far its task is.
    #[serde(default)]
    pub status: Status,
    /// Counts the effective updates.
    #[serde(default)]
    pub revision: Revision,
    /// Unique in the namespace, kept for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<IdempotencyKey>,
    /// From when on no call shows it (X1); never when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

impl Memory {
    /// About how much the memory weighs in a page: the bytes of its texts.
    pub fn size(&self) -> usize {
        let context = self.context.as_ref().map_or(0, |context| context.as_str().len());
        self.space_id.as_str().len() + self.trigger.as_str().len() + context + self.metadata.as_str().len()
    }

    /// Whether it has the same texts as another version of it, and so the same vector (M2).
    pub fn has_texts_of(&self, other: &Self) -> bool {
        (&self.trigger, &self.context) == (&other.trigger, &other.context)
    }
}

/// A memory that is not stored yet.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct NewMemory {
    /// Where it happened.
    pub space_id: SpaceId,
    /// What happened.
    pub trigger: Trigger,
    /// What came of it, if that is known already.
    pub context: Option<Context>,
    /// When it happened.
    pub created_at: Timestamp,
    /// What filters can look into; empty by default.
    pub metadata: Metadata,
    /// How far its task is; `pending` by default.
    pub status: Status,
    /// Makes a repetition find the first store (W3).
    pub idempotency_key: Option<IdempotencyKey>,
    /// From when on no call shows it (X1); never by default.
    pub expires_at: Option<Timestamp>,
}

impl NewMemory {
    /// A pending memory without context and metadata.
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

    /// With a context.
    #[must_use]
    pub fn with_context(mut self, context: Context) -> Self {
        self.context = Some(context);
        self
    }

    /// With metadata.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// With a status.
    #[must_use]
    pub fn with_status(mut self, status: Status) -> Self {
        self.status = status;
        self
    }

    /// With an idempotency key.
    #[must_use]
    pub fn with_idempotency_key(mut self, key: IdempotencyKey) -> Self {
        self.idempotency_key = Some(key);
        self
    }

    /// That expires then (X1).
    #[must_use]
    pub fn expires_at(mut self, time: Timestamp) -> Self {
        self.expires_at = Some(time);
        self
    }

    /// The row that this becomes under its id. For engines.
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

/// Decides what a store finds behind its idempotency key: `Ok` when it repeats that memory, else `Conflict` (W3). For
/// engines.
pub fn check_repetition(new: &Memory, space_id: &str, trigger: &str) -> Result<()> {
    if new.space_id.as_str() == space_id && new.trigger.as_str() == trigger {
        Ok(())
    } else {
        Err(Error::conflict("the idempotency key belongs to a memory with another trigger or space"))
    }
}

/// How far the task of a memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Status {
    /// Waiting to be worked on.
    #[default]
    Pending,
    /// Being worked on.
    Running,
    /// Done.
    Completed,
    /// Ended with an error.
    Failed,
    /// Seen, never answered.
    Observed,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 5] = [Self::Pending, Self::Running, Self::Completed, Self::Failed, Self::Observed];

    /// Reads the name; `InvalidInput` for any other.
    pub fn parse(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|status| status.as_str() == name);
        found.ok_or_else(|| Error::invalid("a status is pending, running, completed, failed or observed"))
    }

    /// The name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Observed => "observed",
        }
    }

    /// Whether work is left to do: what Q9 promises to find at once.
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

/// How often a record was written: 1 when it is new, one more for each effective change, at most 2^53 - 1, so that every
/// JSON reader gets it exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Revision(u64);

impl Revision {
    /// The revision of a new record.
    pub const FIRST: Self = Self(1);
    /// The highest revision.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// A revision from its number; `InvalidInput` for 0 and beyond the highest.
    pub fn new(number: u64) -> Result<Self> {
        if (Self::FIRST.0..=Self::MAX.0).contains(&number) {
            Ok(Self(number))
        } else {
            Err(Error::invalid(format!("a revision lies between 1 and {}", Self::MAX.0)))
        }
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The revision after this one; `TooLarge` after the highest.
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
    /// For databases without unsigned numbers.
    fn from(revision: Revision) -> Self {
        // At most 2^53 - 1.
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

/// A change of a memory. Each field works alone, and what is not named stays (W7).
///
/// As JSON: `{"context":"clear"}`, `{"context":{"set":null}}`, `{"metadata":{"merge":{"topic":"rust"}},"ifRevision":3}`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct MemoryPatch {
    /// What happens to the context.
    #[serde(skip_serializing_if = "ContextPatch::is_keep")]
    pub context: ContextPatch,
    /// What happens to the metadata.
    #[serde(skip_serializing_if = "MetadataPatch::is_keep")]
    pub metadata: MetadataPatch,
    /// The new status.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// What happens to the time of its expiry.
    #[serde(skip_serializing_if = "ExpiryPatch::is_keep")]
    pub expires_at: ExpiryPatch,
    /// The revision that the memory must have, else `Conflict` (W8).
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub if_revision: Option<Revision>,
    /// Who makes the change, for the history (H1). No part of the JSON, since the host says it and not who sends a patch (H7).
    #[serde(skip)]
    pub actor: Option<Actor>,
}

/// What a patch does to the context.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ContextPatch {
    /// Nothing.
    #[default]
    Keep,
    /// Takes it away.
    Clear,
    /// Puts this in its place.
    Set(Context),
}

/// What a patch does to the metadata.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MetadataPatch {
    /// Nothing.
    #[default]
    Keep,
    /// Puts these in their place.
    Replace(Metadata),
    /// Merges these into them (RFC 7396).
    Merge(Metadata),
}

/// What a patch does to the time when the memory expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ExpiryPatch {
    /// Nothing.
    #[default]
    Keep,
    /// It does not expire any more.
    Clear,
    /// It expires then.
    Set(Timestamp),
}

impl ExpiryPatch {
    fn is_keep(&self) -> bool {
        matches!(self, Self::Keep)
    }

    /// The time that it sets, if it does.
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
    /// A patch that names nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the context.
    #[must_use]
    pub fn set_context(mut self, context: Context) -> Self {
        self.context = ContextPatch::Set(context);
        self
    }

    /// Takes the context away.
    #[must_use]
    pub fn clear_context(mut self) -> Self {
        self.context = ContextPatch::Clear;
        self
    }

    /// Replaces the metadata.
    #[must_use]
    pub fn replace_metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = MetadataPatch::Replace(metadata);
        self
    }

    /// Merges into the metadata.
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

    /// Lets it expire then (X1).
    #[must_use]
    pub fn set_expiry(mut self, time: Timestamp) -> Self {
        self.expires_at = ExpiryPatch::Set(time);
        self
    }

    /// Lets it expire no more.
    #[must_use]
    pub fn clear_expiry(mut self) -> Self {
        self.expires_at = ExpiryPatch::Clear;
        self
    }

    /// Demands a revision.
    #[must_use]
    pub fn if_revision(mut self, revision: Revision) -> Self {
        self.if_revision = Some(revision);
        self
    }

    /// Says who makes the change.
    #[must_use]
    pub fn by(mut self, actor: Actor) -> Self {
        self.actor = Some(actor);
        self
    }

    /// Whether the patch names no field; such a patch changes nothing, though it still checks the revision.
    pub fn is_empty(&self) -> bool {
        self.context.is_keep() && self.metadata.is_keep() && self.status.is_none() && self.expires_at.is_keep()
    }

    /// The memory after this patch, or `None` when there is nothing to write. For engines: this is what an update means.
    ///
    /// `Conflict` when the memory has another revision than demanded (W8), `TooLarge` when merged metadata are too large.
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

/// What an update left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Updated {
    /// The revision of the memory now.
    pub revision: Revision,
    /// When it was last changed; `None` when it never was, which an empty patch can find.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
}

impl From<&Memory> for Updated {
    fn from(memory: &Memory) -> Self {
        Self { revision: memory.revision, updated_at: memory.updated_at }
    }
}

/// Reads a value that is there, `null` included, as `Some`: an absent field never comes here.
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
