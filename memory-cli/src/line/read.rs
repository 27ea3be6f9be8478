//! Parses lines as records.

use memory_core::{
    self as core, Actor, Collection, Content, Context, Document, DocumentId, HashKey, IdempotencyKey, Memory, MemoryId,
    Metadata, NewMemory, Reason, SpaceId, Status, Tombstone, Trigger, VectorModel, Version,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::field::{checked, optional, parse_hash, present, required, revision, string, timestamp};
use super::record::{Parsed, Record};

pub(super) const NO_VECTOR_MODEL: &str =
    "name, width and precision belong to an embedding model, which says \"kind\":\"vectorModel\"";
pub(super) const NO_TOMBSTONE: &str =
    "erasedAt, reason, keyHash, places and hashKey belong to a tombstone, which says \"kind\":\"tombstone\"";

/// Parses a line. The error names the field and never shows its value.
pub(crate) fn parse(line: &[u8]) -> Result<Parsed, String> {
    let text = std::str::from_utf8(line).map_err(|_| "not UTF-8")?;
    let mut fields = Fields::of(text)?;
    let vector = fields.vector.take().map(|raw| serde_json::from_str(raw.get()));
    let vector = vector.transpose().map_err(|_| "vector: must be the base64 of a vector, or its numbers".to_owned())?;
    let record = match optional(fields.kind, "kind", string)?.as_deref() {
        Some("vectorModel") => vector_model(text),
        kind => {
            fields.is_no_vector_model()?;
            match kind {
                None | Some("memory") => fields.into_memory(),
                Some("document") => fields.into_document(),
                Some("version") => fields.into_version(),
                Some("tombstone") => fields.into_tombstone(),
                Some(_) => Err("kind is memory, document, version, tombstone or vectorModel".into()),
            }
        }
    }?;
    if vector.is_some() && matches!(record, Record::New(_) | Record::Tombstone(..) | Record::VectorModel(_)) {
        return Err("vector belongs to a memory with an id, a document or a version".into());
    }
    Ok(Parsed { record, vector })
}

/// The unparsed fields of all kinds. `null` is a value, except for `updatedAt`, `expiresAt`, `idempotencyKey`, `committedAt`, `actor` and
/// `keyHash`, where it means absent.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[derive(Default)]
struct Fields<'a> {
    #[serde(borrow, deserialize_with = "present")]
    kind: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    space_id: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    created_at: Option<&'a RawValue>,
    #[serde(borrow)]
    updated_at: Option<&'a RawValue>,
    #[serde(borrow)]
    expires_at: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    metadata: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    revision: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    trigger: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    context: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    status: Option<&'a RawValue>,
    #[serde(borrow)]
    idempotency_key: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    collection: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    committed_at: Option<&'a RawValue>,
    #[serde(borrow)]
    actor: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    memory: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    document: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    erased_at: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    reason: Option<&'a RawValue>,
    #[serde(borrow)]
    key_hash: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    places: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    hash_key: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    vector: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    name: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    width: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    precision: Option<&'a RawValue>,
}

impl<'a> Fields<'a> {
    /// Parses the fields of a JSON object.
    fn of(text: &'a str) -> Result<Self, String> {
        if text.trim_start().starts_with('[') {
            // Serde would also accept an array of the fields in their order.
            return Err("not a JSON object".into());
        }
        serde_json::from_str(text).map_err(|error| reason(&error))
    }

    /// Parses the fields of a record within a line.
    fn within(raw: &'a RawValue) -> Result<Self, String> {
        let fields = Self::of(raw.get())?;
        fields.is_no_vector_model()?;
        match fields.vector {
            Some(_) => Err("vector belongs to the line, beside the record".into()),
            None => Ok(fields),
        }
    }

    /// Refuses fields that only a tombstone has.
    fn is_no_tombstone(&self) -> Result<(), String> {
        let of_tombstones = [self.erased_at, self.reason, self.key_hash, self.places, self.hash_key];
        match of_tombstones.iter().any(Option::is_some) {
            true => Err(NO_TOMBSTONE.into()),
            false => Ok(()),
        }
    }

    /// Refuses fields that only an embedding model has.
    fn is_no_vector_model(&self) -> Result<(), String> {
        match [self.name, self.width, self.precision].iter().any(Option::is_some) {
            true => Err(NO_VECTOR_MODEL.into()),
            false => Ok(()),
        }
    }

    fn into_tombstone(self) -> Result<Record, String> {
        let at = required(self.erased_at, "erasedAt", timestamp)?;
        let reason = required(self.reason, "reason", |raw| checked(Reason::parse(string(raw)?)))?;
        let actor = optional(self.actor, "actor", |raw| checked(Actor::parse(string(raw)?)))?;
        let key = optional(self.key_hash, "keyHash", |raw| parse_hash(&string(raw)?))?;
        let hashes = |raw: &str| {
            let texts = serde_json::from_str::<Vec<String>>(raw).map_err(|_| "must be a list of strings".to_owned())?;
            texts.iter().map(|text| parse_hash(text)).collect::<Result<Vec<_>, _>>()
        };
        let places = required(self.places, "places", hashes)?;
        let hash_key = required(self.hash_key, "hashKey", |raw| checked(HashKey::parse(&string(raw)?)))?;
        let collection = optional(self.collection, "collection", |raw| checked(Collection::parse(string(raw)?)))?;
        let record = match collection {
            None => required(self.id, "id", |raw| checked(MemoryId::parse(&string(raw)?)))?.into(),
            Some(collection) => {
                (collection, required(self.id, "id", |raw| checked(DocumentId::parse(string(raw)?)))?).into()
            }
        };
        Ok(Record::Tombstone(Tombstone { record, at, reason, actor, key, places }, hash_key))
    }

    /// Refuses fields that only a version has.
    fn is_no_version(&self) -> Result<(), String> {
        let of_versions = [self.committed_at, self.actor, self.memory, self.document];
        match of_versions.iter().any(Option::is_some) {
            true => {
                Err("committedAt, actor, memory and document belong to a version, which says \"kind\":\"version\""
                    .into())
            }
            false => Ok(()),
        }
    }

    fn into_version(self) -> Result<Record, String> {
        let committed_at = optional(self.committed_at, "committedAt", timestamp)?;
        let actor = optional(self.actor, "actor", |raw| checked(Actor::parse(string(raw)?)))?;
        let Fields { memory, document, .. } = self;
        let record = match (memory, document) {
            (Some(memory), None) => match Fields::within(memory)?.into_memory()? {
                Record::Memory(memory) => core::Record::Memory(memory),
                _ => return Err("memory: id is missing".into()),
            },
            (None, Some(document)) => match Fields::within(document)?.into_document()? {
                Record::Document(document) => core::Record::Document(document),
                _ => return Err("document: is none".into()),
            },
            _ => return Err("a version has a memory or a document".into()),
        };
        Ok(Record::Version(Version::new(record, committed_at, actor)))
    }

    fn into_memory(self) -> Result<Record, String> {
        self.is_no_version()?;
        self.is_no_tombstone()?;
        if self.collection.is_some() || self.content.is_some() {
            return Err("a memory has neither collection nor content; a document says \"kind\":\"document\"".into());
        }
        let space_id = required(self.space_id, "spaceId", |raw| checked(SpaceId::parse(string(raw)?)))?;
        let trigger = required(self.trigger, "trigger", |raw| checked(Trigger::parse(raw)))?;
        let context = optional(self.context, "context", |raw| checked(Context::parse(raw)))?;
        let created_at = required(self.created_at, "createdAt", timestamp)?;
        let updated_at = optional(self.updated_at, "updatedAt", timestamp)?;
        let metadata = optional(self.metadata, "metadata", |raw| checked(Metadata::parse(raw)))?.unwrap_or_default();
        let status = optional(self.status, "status", |raw| checked(Status::parse(&string(raw)?)))?.unwrap_or_default();
        let revision = optional(self.revision, "revision", revision)?;
        let expires_at = optional(self.expires_at, "expiresAt", timestamp)?;
        let key = optional(self.idempotency_key, "idempotencyKey", |raw| checked(IdempotencyKey::parse(string(raw)?)))?;

        if let Some(id) = optional(self.id, "id", |raw| checked(MemoryId::parse(&string(raw)?)))? {
            return Ok(Record::Memory(Memory {
                id,
                space_id,
                trigger,
                context,
                created_at,
                updated_at,
                metadata,
                status,
                revision: revision.unwrap_or_default(),
                idempotency_key: key,
                expires_at,
            }));
        }
        if updated_at.is_some() || revision.is_some() {
            return Err("updatedAt and revision belong to a memory with an id".into());
        }
        let mut memory = NewMemory::new(space_id, trigger, created_at).with_metadata(metadata).with_status(status);
        memory.context = context;
        memory.expires_at = expires_at;
        let key = key.map_or_else(|| checked(IdempotencyKey::parse(key_of(&memory))), Ok)?;
        Ok(Record::New(memory.with_idempotency_key(key)))
    }

    fn into_document(self) -> Result<Record, String> {
        self.is_no_version()?;
        self.is_no_tombstone()?;
        if self.trigger.is_some() || self.context.is_some() || self.status.is_some() || self.idempotency_key.is_some() {
            return Err("a document has no trigger, context, status or idempotencyKey".into());
        }
        let collection = required(self.collection, "collection", |raw| checked(Collection::parse(string(raw)?)))?;
        let space_id = required(self.space_id, "spaceId", |raw| checked(SpaceId::parse(string(raw)?)))?;
        let content = required(self.content, "content", |raw| checked(Content::parse(string(raw)?)))?;
        let created_at = required(self.created_at, "createdAt", timestamp)?;
        let updated_at = optional(self.updated_at, "updatedAt", timestamp)?;
        let metadata = optional(self.metadata, "metadata", |raw| checked(Metadata::parse(raw)))?.unwrap_or_default();
        let revision = optional(self.revision, "revision", revision)?.unwrap_or_default();
        let expires_at = optional(self.expires_at, "expiresAt", timestamp)?;
        let id = optional(self.id, "id", |raw| checked(DocumentId::parse(string(raw)?)))?;
        let made = || {
            let time = created_at.to_string();
            let parts = [collection.as_str(), space_id.as_str(), content.as_str(), &time, metadata.as_str()];
            checked(DocumentId::parse(hash(parts)))
        };
        let id = id.map_or_else(made, Ok)?;
        Ok(Record::Document(Document {
            id,
            collection,
            space_id,
            content,
            metadata,
            created_at,
            updated_at,
            revision,
            expires_at,
        }))
    }
}

/// The idempotency key of a memory's content. The formula must never change, so that a later import finds the same memory. The expiry is
/// not part of the content.
fn key_of(memory: &NewMemory) -> String {
    // Contexts are JSON, and the empty text is not JSON, so an absent context differs from every other.
    let context = memory.context.as_ref().map_or("", Context::as_str);
    hash([
        memory.space_id.as_str(),
        memory.trigger.as_str(),
        context,
        &memory.created_at.to_string(),
        memory.metadata.as_str(),
        memory.status.as_str(),
    ])
}

fn hash<const N: usize>(parts: [&str; N]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let digits: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("import-{digits}")
}

/// The fields of an embedding model, which has no others.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelLine<'a> {
    #[serde(rename = "kind")]
    _kind: IgnoredAny,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    width: Option<&'a RawValue>,
    #[serde(borrow)]
    precision: Option<&'a RawValue>,
}

/// Parses a line with an embedding model.
fn vector_model(text: &str) -> Result<Record, String> {
    let line: ModelLine<'_> = serde_json::from_str(text).map_err(|error| reason(&error))?;
    let whole = |raw: &str| serde_json::from_str(raw).map_err(|_| "must be a whole number".to_owned());
    let kept = |raw: &str| serde_json::from_str(raw).map_err(|_| "is compact or exact".to_owned());
    let (name, width) = (required(line.name, "name", string)?, required(line.width, "width", whole)?);
    let precision = required(line.precision, "precision", kept)?;
    Ok(Record::VectorModel(checked(VectorModel::new(name, width, precision))?))
}

/// Describes what is wrong with a whole line in one line, without any value of it. A name that a terminal would not show as text is left
/// out.
fn reason(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let names_a_field = message.starts_with("unknown field `") || message.starts_with("duplicate field `");
    match message.split(", expected").next().and_then(|start| start.split(" at line ").next()) {
        Some(start) if names_a_field && start.len() < 100 && !start.contains(char::is_control) => start.to_owned(),
        _ if names_a_field => "an unknown field".into(),
        _ if error.is_data() => "not a JSON object".into(),
        _ => format!("not valid JSON at column {}", error.column()),
    }
}
