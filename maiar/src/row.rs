//! Converts the rows of MAIAR to records.

use memory_core::{
    Collection, Content, Document, DocumentId, ErrorKind, IdempotencyKey, JsonText, Memory, MemoryId, Metadata,
    NewMemory, Result, Revision, SpaceId, Status, Timestamp,
};

use crate::record::Record;

/// How many records the reader may be ahead of the consumer of the stream.
pub(crate) const AHEAD: usize = 64;

/// The columns of the table `memories`: id, space, trigger, context, created_at, updated_at, metadata.
pub(crate) type MemoryRow = (String, String, String, Option<String>, i64, Option<i64>, Option<String>);
/// The columns of the table `sandbox`: id, space, content, created_at.
pub(crate) type DocumentRow = (String, Option<String>, String, i64);

/// The query of the table `sandbox`. The table has the column `space_id` in SQLite only.
pub(crate) fn documents(columns: &[String]) -> &'static str {
    if columns.iter().any(|column| column == "space_id") {
        "SELECT id, space_id, content, created_at FROM sandbox ORDER BY created_at, id"
    } else {
        "SELECT id, CAST(NULL AS TEXT), content, created_at FROM sandbox ORDER BY created_at, id"
    }
}

impl Record {
    pub(crate) fn from_memory(row: MemoryRow) -> Result<Self> {
        let id = row.0.clone();
        memory(row).map_err(|error| {
            let message = format!("the memory {id}: {}", error.message());
            error.with_message(message)
        })
    }

    pub(crate) fn from_document(row: DocumentRow) -> Result<Self> {
        let id = row.0.clone();
        document(row).map_err(|error| {
            let message = format!("the document {id}: {}", error.message());
            error.with_message(message)
        })
    }
}

fn memory((id, space, trigger, context, created_at, updated_at, metadata): MemoryRow) -> Result<Record> {
    let (space_id, trigger) = (SpaceId::parse(space)?, json(&trigger)?);
    // MAIAR may write a missing context as an empty text.
    let context = context.filter(|context| !context.is_empty()).map(|context| json(&context)).transpose()?;
    let created_at = Timestamp::from_millis(created_at)?;
    let metadata = self::metadata(metadata.as_deref())?;
    let status = if context.is_some() { Status::Completed } else { Status::Observed };
    let Ok(known) = MemoryId::parse(&id) else {
        let memory = NewMemory::new(space_id, trigger, created_at).with_metadata(metadata).with_status(status);
        let mut memory = memory.with_idempotency_key(IdempotencyKey::parse(format!("maiar:{id}"))?);
        memory.context = context;
        return Ok(Record::New(memory));
    };
    Ok(Record::Memory(Memory {
        id: known,
        space_id,
        trigger,
        context,
        created_at,
        updated_at: updated_at.map(Timestamp::from_millis).transpose()?,
        metadata,
        status,
        revision: Revision::default(),
        idempotency_key: None,
        expires_at: None,
    }))
}

fn document((id, space, content, created_at): DocumentRow) -> Result<Record> {
    Ok(Record::Document(Document {
        id: DocumentId::parse(id)?,
        collection: Collection::parse("sandbox")?,
        space_id: SpaceId::parse(space.unwrap_or_else(|| "maiar".to_owned()))?,
        content: Content::parse(content)?,
        metadata: Metadata::default(),
        created_at: Timestamp::from_millis(created_at)?,
        updated_at: None,
        revision: Revision::default(),
        expires_at: None,
    }))
}

/// Parses a text column as JSON. Text that is not valid JSON becomes a JSON string.
fn json<const MAX: usize>(text: &str) -> Result<JsonText<MAX>> {
    match JsonText::parse(text) {
        Err(error) if error.kind() == ErrorKind::InvalidInput => JsonText::from_value(text),
        result => result,
    }
}

/// Parses the metadata. JSON that is not an object is wrapped in an object, as the member `value`.
fn metadata(text: Option<&str>) -> Result<Metadata> {
    match text.map(str::trim) {
        None | Some("" | "null") => Ok(Metadata::default()),
        Some(text) if text.starts_with('{') => Metadata::parse(text),
        Some(text) => Metadata::parse(&format!("{{\"value\":{text}}}")),
    }
}
