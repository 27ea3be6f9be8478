//! The format of import and export: one memory, document, version or tombstone a line, in the JSON of the core.

use std::io::{self, Write};

use memory_core::{
    self as core, Actor, Collection, Content, Context, Document, DocumentId, HashKey, IdempotencyKey, KeyedHash,
    Memory, MemoryId, Metadata, NewMemory, Reason, RecordId, Revision, SpaceId, Status, Timestamp, Tombstone, Trigger,
    Vector, VectorModel, Version,
};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

const NO_VECTOR_MODEL: &str =
    "name, width and precision belong to an embedding model, which says \"kind\":\"vectorModel\"";
const NO_TOMBSTONE: &str =
    "erasedAt, reason, keyHash, places and hashKey belong to a tombstone, which says \"kind\":\"tombstone\"";

/// The record in a line.
#[derive(Debug)]
pub(crate) enum Record {
    /// A memory without an id, which is stored once, however often it is imported.
    New(NewMemory),
    /// A memory with an id, which is restored unchanged.
    Memory(Memory),
    /// A document; if it had no id, the id is made from its content.
    Document(Document),
    /// A version of a memory or document. The versions of a record are consecutive lines, the oldest first.
    Version(Version),
    /// The tombstone of an erased record, with the key of its hashes.
    Tombstone(Tombstone, HashKey),
    /// The embedding model of the vectors in the following lines.
    VectorModel(VectorModel),
}

/// A parsed line.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) record: Record,
    /// The vector of a memory with an id, of a document, or of the last version of a record.
    pub(crate) vector: Option<Vector>,
}

impl Record {
    /// The size of its texts in bytes.
    pub(crate) fn size(&self) -> usize {
        let of_memory = |trigger: &Trigger, context: &Option<Context>, metadata: &Metadata| {
            trigger.as_str().len()
                + context.as_ref().map_or(0, |context| context.as_str().len())
                + metadata.as_str().len()
        };
        match self {
            Self::New(memory) => of_memory(&memory.trigger, &memory.context, &memory.metadata),
            Self::Memory(memory) => of_memory(&memory.trigger, &memory.context, &memory.metadata),
            Self::Document(document) => document.content.as_str().len() + document.metadata.as_str().len(),
            Self::Version(version) => version.record.as_ref().map_or(0, core::Record::size),
            Self::Tombstone(tombstone, _) => tombstone.reason.as_str().len(),
            Self::VectorModel(model) => model.name().len(),
        }
    }
}

impl From<maiar::Record> for Record {
    fn from(record: maiar::Record) -> Self {
        match record {
            maiar::Record::New(memory) => Self::New(memory),
            maiar::Record::Memory(memory) => Self::Memory(memory),
            maiar::Record::Document(document) => Self::Document(document),
        }
    }
}

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

/// Writes the embedding model as a line, which precedes the first vector.
pub(crate) fn write_vector_model(out: &mut impl Write, model: &VectorModel) -> io::Result<()> {
    let object = serde_json::to_string(model)?;
    writeln!(out, "{{\"kind\":\"vectorModel\",{}", object.strip_prefix('{').unwrap_or(&object))
}

/// Adds a vector to a line, as the last field.
pub(crate) fn add_vector(line: &mut Vec<u8>, vector: &Vector) -> io::Result<()> {
    let object = line.strip_suffix(b"}\n").ok_or_else(|| io::Error::other("a line that is no object"))?.len();
    line.truncate(object);
    // Base64 needs no JSON escapes.
    writeln!(line, ",\"vector\":\"{vector}\"}}")
}

/// Writes a memory as a line.
pub(crate) fn write_memory(out: &mut impl Write, memory: &Memory) -> io::Result<()> {
    serde_json::to_writer(&mut *out, memory)?;
    out.write_all(b"\n")
}

/// Writes a document as a line, with its kind first.
pub(crate) fn write_document(out: &mut impl Write, document: &Document) -> io::Result<()> {
    let object = serde_json::to_string(document)?;
    // Inserted as text, since serde's flatten would not keep the metadata byte for byte.
    writeln!(out, "{{\"kind\":\"document\",{}", object.strip_prefix('{').unwrap_or(&object))
}

/// Writes a version as a line.
pub(crate) fn write_version(out: &mut impl Write, version: &Version) -> io::Result<()> {
    let committed_at = serde_json::to_string(&version.committed_at)?;
    let actor = serde_json::to_string(&version.actor.as_ref().map(Actor::as_str))?;
    let (kind, record) = match &version.record {
        Some(core::Record::Memory(memory)) => ("memory", serde_json::to_string(memory)?),
        Some(core::Record::Document(document)) => ("document", serde_json::to_string(document)?),
        None => return Err(io::Error::other("a removal has no line")),
    };
    writeln!(out, r#"{{"kind":"version","committedAt":{committed_at},"actor":{actor},"{kind}":{record}}}"#)
}

/// Writes a tombstone as a line.
pub(crate) fn write_tombstone(out: &mut impl Write, tombstone: &Tombstone, key: &HashKey) -> io::Result<()> {
    let Tombstone { record, at, reason, actor, key: key_hash, places } = tombstone;
    let (collection, id) = match record {
        RecordId::Memory(id) => (None, id.to_string()),
        RecordId::Document { collection, id } => (Some(collection.as_str()), id.to_string()),
    };
    let line = TombstoneLine {
        kind: "tombstone",
        collection,
        id: &id,
        erased_at: at.as_millis(),
        reason: reason.as_str(),
        actor: actor.as_ref().map(Actor::as_str),
        key_hash: key_hash.map(hash_text),
        places: places.iter().copied().map(hash_text).collect(),
        hash_key: &key.to_text(),
    };
    serde_json::to_writer(&mut *out, &line)?;
    out.write_all(b"\n")
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TombstoneLine<'a> {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    collection: Option<&'a str>,
    id: &'a str,
    erased_at: i64,
    reason: &'a str,
    actor: Option<&'a str>,
    key_hash: Option<String>,
    places: Vec<String>,
    hash_key: &'a str,
}

/// Writes a hash in hexadecimal digits.
fn hash_text(hash: KeyedHash) -> String {
    format!("{:032x}", u128::from_be_bytes(hash.0))
}

fn parse_hash(text: &str) -> Result<KeyedHash, String> {
    match text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => u128::from_str_radix(text, 16).map(|number| KeyedHash(number.to_be_bytes())).map_err(|_| not_a_hash()),
        false => Err(not_a_hash()),
    }
}

fn not_a_hash() -> String {
    "a hash has 32 hexadecimal digits".into()
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

fn required<T>(raw: Option<&RawValue>, name: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Result<T, String> {
    optional(raw, name, parse)?.ok_or_else(|| format!("{name} is missing"))
}

fn optional<T>(
    raw: Option<&RawValue>,
    name: &str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    raw.map(|raw| parse(raw.get()).map_err(|reason| format!("{name}: {reason}"))).transpose()
}

fn checked<T>(result: memory_core::Result<T>) -> Result<T, String> {
    result.map_err(|error| error.message().to_owned())
}

fn string(raw: &str) -> Result<String, String> {
    serde_json::from_str(raw).map_err(|_| "must be a string".into())
}

fn timestamp(raw: &str) -> Result<Timestamp, String> {
    let millis = serde_json::from_str(raw).map_err(|_| "must be a whole number of milliseconds")?;
    checked(Timestamp::from_millis(millis))
}

fn revision(raw: &str) -> Result<Revision, String> {
    let number = serde_json::from_str(raw).map_err(|_| "must be a whole number")?;
    checked(Revision::new(number))
}

/// Describes what is wrong with a whole line, without any value of it.
fn reason(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let names_a_field = message.starts_with("unknown field `") || message.starts_with("duplicate field `");
    match message.split(", expected").next().and_then(|start| start.split(" at line ").next()) {
        Some(start) if names_a_field && start.len() < 100 => start.to_owned(),
        _ if names_a_field => "an unknown field".into(),
        _ if error.is_data() => "not a JSON object".into(),
        _ => format!("not valid JSON at column {}", error.column()),
    }
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

/// Distinguishes `null` from an absent field.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&'a RawValue>::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &str = r#"{"spaceId":"a-b","trigger":{"price":1.50,"text":"caf\u00e9"},"createdAt":7}"#;

    fn key(line: &str) -> String {
        match parse(line.as_bytes()) {
            Ok(Parsed { record: Record::New(memory), .. }) => memory.idempotency_key.expect("a key").to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_key_is_that_of_the_content() {
        // A fixed value: another formula would duplicate what was imported before.
        assert_eq!(key(NEW), "import-22aef1e2b3a8b430538e91be63c7f120e181190bb61a090142b7cb6bf911d101");
        let spaced = NEW.replace(':', " : ").replace("{\"spaceId\"", "{\"metadata\":{}, \"spaceId\"");
        assert_eq!(key(&spaced), key(NEW));
        for (from, to) in [("a-b", "a-c"), ("1.50", "1.5"), ("\":7", "\":8"), ("{\"s", "{\"context\":null,\"s")] {
            assert_ne!(key(&NEW.replace(from, to)), key(NEW), "{to}");
        }
        assert_eq!(key(&NEW.replace("{\"s", "{\"idempotencyKey\":\"mine\",\"s")), "mine");
        assert_eq!(key(&NEW.replace("{\"s", "{\"expiresAt\":9,\"s")), key(NEW));
    }

    #[test]
    fn records_come_back_byte_for_byte() {
        let lines = [
            r#"{"id":"0190a0b0-0000-7000-8000-000000000001","spaceId":"a","trigger":{"n":1.50,"e":"\u00e9"},"context":null,"createdAt":-1,"metadata":{},"status":"pending","revision":1}"#,
            r#"{"kind":"document","id":"x","collection":"notes","spaceId":"a","content":"b\n","metadata":{"a":1.0},"createdAt":0,"updatedAt":5,"revision":3}"#,
            r#"{"id":"0190a0b0-0000-7000-8000-000000000001","spaceId":"a","trigger":1,"createdAt":-1,"metadata":{},"status":"pending","revision":1,"expiresAt":7}"#,
            r#"{"kind":"document","id":"x","collection":"notes","spaceId":"a","content":"b","metadata":{},"createdAt":0,"revision":1,"expiresAt":7}"#,
            r#"{"kind":"version","committedAt":5,"actor":null,"document":{"id":"x","collection":"notes","spaceId":"a","content":"b","metadata":{},"createdAt":0,"revision":1,"expiresAt":7}}"#,
            r#"{"kind":"version","committedAt":null,"actor":null,"memory":{"id":"0190a0b0-0000-7000-8000-000000000001","spaceId":"a","trigger":{"n":1.50},"createdAt":-1,"metadata":{},"status":"pending","revision":1}}"#,
            r#"{"kind":"tombstone","id":"0190a0b0-0000-7000-8000-000000000001","erasedAt":5,"reason":"asked","actor":null,"keyHash":"000102030405060708090a0b0c0d0e0f","places":["ff0102030405060708090a0b0c0d0e0f"],"hashKey":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}"#,
            r#"{"kind":"tombstone","collection":"notes","id":"x","erasedAt":5,"reason":"asked","actor":"ana","keyHash":null,"places":[],"hashKey":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}"#,
            r#"{"kind":"vectorModel","name":"a \"b\"","width":3,"precision":"exact"}"#,
            r#"{"id":"0190a0b0-0000-7000-8000-000000000001","spaceId":"a","trigger":1,"createdAt":-1,"metadata":{},"status":"pending","revision":1,"vector":"ARQHAjwBgg=="}"#,
            r#"{"kind":"document","id":"x","collection":"notes","spaceId":"a","content":"b","metadata":{},"createdAt":0,"revision":1,"vector":"ARQHAjwBgg=="}"#,
            r#"{"kind":"version","committedAt":5,"actor":"run \"7\"","document":{"id":"x","collection":"notes","spaceId":"a","content":"b","metadata":{"a":1.0},"createdAt":0,"updatedAt":5,"revision":3}}"#,
        ];
        for line in lines {
            let mut out = Vec::new();
            let Parsed { record, vector } = parse(line.as_bytes()).expect("valid");
            match record {
                Record::Memory(memory) => write_memory(&mut out, &memory),
                Record::Document(document) => write_document(&mut out, &document),
                Record::Version(version) => write_version(&mut out, &version),
                Record::Tombstone(tombstone, key) => write_tombstone(&mut out, &tombstone, &key),
                Record::VectorModel(model) => write_vector_model(&mut out, &model),
                Record::New(_) => panic!("it has an id"),
            }
            .expect("memory can be written");
            if let Some(vector) = vector {
                add_vector(&mut out, &vector).expect("memory can be written");
            }
            assert_eq!(String::from_utf8(out).expect("UTF-8"), format!("{line}\n"));
        }
    }

    const VECTOR: &str = "vector: must be the base64 of a vector, or its numbers";

    #[test]
    fn refusals_name_the_field_and_never_the_value() {
        let cases = [
            ("secret", "not valid JSON at column 1"),
            ("\"secret\"", "not a JSON object"),
            ("[\"memory\",\"secret\"]", "not a JSON object"),
            (r#"{"spaceId":"a"}"#, "trigger is missing"),
            (r#"{"spaceId":["secret"],"trigger":1,"createdAt":1}"#, "spaceId: must be a string"),
            (
                r#"{"spaceId":"a","trigger":1,"createdAt":"secret"}"#,
                "createdAt: must be a whole number of milliseconds",
            ),
            (
                r#"{"spaceId":"a","trigger":1,"createdAt":1,"expiresAt":"secret"}"#,
                "expiresAt: must be a whole number of milliseconds",
            ),
            (r#"{"spaceId":"a","trigger":1,"createdAt":1,"tags":"secret"}"#, "unknown field `tags`"),
            (r#"{"spaceId":"a","spaceId":"secret"}"#, "duplicate field `spaceId`"),
            (r#"{"kind":"secret"}"#, "kind is memory, document, version, tombstone or vectorModel"),
            (r#"{"kind":"document","width":3}"#, NO_VECTOR_MODEL),
            (r#"{"kind":"vectorModel","name":"a","width":3,"precision":"secret"}"#, "precision: is compact or exact"),
            (r#"{"kind":"vectorModel","name":"a","width":3,"vector":"secret"}"#, VECTOR),
            (r#"{"kind":"vectorModel","name":"a","width":3,"id":"secret"}"#, "unknown field `id`"),
            (r#"{"spaceId":"a","trigger":1,"createdAt":1,"vector":"secret"}"#, VECTOR),
            (
                r#"{"spaceId":"a","trigger":1,"createdAt":1,"vector":[1]}"#,
                "vector belongs to a memory with an id, a document or a version",
            ),
            (
                r#"{"kind":"version","document":{"id":"x","vector":[1]}}"#,
                "vector belongs to the line, beside the record",
            ),
            (r#"{"kind":"tombstone","erasedAt":1,"reason":"a\nb"}"#, "reason: an erasure has a reason, in one line"),
            (r#"{"kind":"document","places":["secret"]}"#, NO_TOMBSTONE),
            (r#"{"kind":"version","memory":["secret"]}"#, "not a JSON object"),
            (r#"{"kind":"version","actor":"secret"}"#, "a version has a memory or a document"),
            (r#"{"kind":"version","memory":{"spaceId":"a","trigger":1,"createdAt":1}}"#, "memory: id is missing"),
            (
                r#"{"spaceId":"a","trigger":1,"createdAt":1,"actor":"secret"}"#,
                "committedAt, actor, memory and document belong to a version, which says \"kind\":\"version\"",
            ),
            (
                r#"{"kind":"document","trigger":"secret"}"#,
                "a document has no trigger, context, status or idempotencyKey",
            ),
        ];
        for (line, reason) in cases {
            assert_eq!(parse(line.as_bytes()).expect_err(line), reason);
        }
    }
}
