//! Writes records as lines.

use std::io::{self, Write};

use memory_core::{
    self as core, Actor, Document, HashKey, KeyedHash, Memory, RecordId, Tombstone, Vector, VectorModel, Version,
};
use serde::Serialize;

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
