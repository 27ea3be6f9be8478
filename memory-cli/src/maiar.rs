//! The tables of MAIAR as lines of an import.
//!
//! Its memories keep their ids where these are UUIDs, and else get a key made of them. One with a context is `completed`, one
//! without was seen and never answered: `observed`. What its plugin saved becomes documents of the collection `sandbox`.

use std::io::Write;
use std::path::Path;

use anyhow::{Context as _, bail};
use memory_core::{Context, ErrorKind, JsonText, MemoryId, Metadata, Status, Trigger};
use rusqlite::{Connection, OpenFlags};
use serde::Serialize;
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;

use crate::input;

/// The columns of the table `memories`, in the order of [`Memory`].
type MemoryRow = (String, String, String, Option<String>, i64, Option<i64>, Option<String>);
/// The columns of the table `sandbox`, in the order of [`Document`].
type DocumentRow = (String, Option<String>, String, i64);

/// A row of the table `memories`.
struct Memory {
    id: String,
    space_id: String,
    trigger: String,
    context: Option<String>,
    created_at: i64,
    updated_at: Option<i64>,
    metadata: Option<String>,
}

/// A row of the table `sandbox`, in which the plugin kept documents.
struct Document {
    id: String,
    space_id: Option<String>,
    content: String,
    created_at: i64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MemoryLine {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<MemoryId>,
    space_id: String,
    trigger: Trigger,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<Context>,
    created_at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_at: Option<i64>,
    metadata: Metadata,
    status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DocumentLine {
    kind: &'static str,
    id: String,
    collection: &'static str,
    space_id: String,
    content: String,
    created_at: i64,
}

const MEMORIES: &str =
    "SELECT id, space_id, trigger, context, created_at, updated_at, metadata FROM memories ORDER BY created_at, id";
/// The type of `metadata` is JSONB there.
const POSTGRES_MEMORIES: &str = "SELECT id::text, space_id, trigger, context, created_at, updated_at, metadata::text FROM memories \
    ORDER BY created_at, id";

/// Writes what a SQLite file holds.
pub(crate) fn write_sqlite(file: &Path, out: &mut impl Write) -> anyhow::Result<()> {
    // The engine's own message about a file that can't be opened would quote its name.
    input::open(file)?;
    let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .with_context(|| format!("can't open {}", input::name(file)))?;
    let columns = |table: &str| -> anyhow::Result<Vec<String>> {
        let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
        Ok(statement.query_map([table], |row| row.get(0))?.collect::<Result<_, _>>()?)
    };
    if columns("memories")?.is_empty() {
        bail!("{} has no table memories", input::name(file));
    }
    let mut statement = connection.prepare(MEMORIES)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        Memory::from(MemoryRow::try_from(row)?).write(out)?;
    }
    let of_sandbox = columns("sandbox")?;
    if of_sandbox.is_empty() {
        return Ok(());
    }
    let mut statement = connection.prepare(sandbox(&of_sandbox))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        Document::from(DocumentRow::try_from(row)?).write(out)?;
    }
    Ok(())
}

/// Writes what a PostgreSQL database holds, in one snapshot of it.
pub(crate) async fn write_postgres(url: &str, out: &mut impl Write) -> anyhow::Result<()> {
    use futures::TryStreamExt as _;
    // The driver's own message may quote the URL.
    let mut connection =
        PgConnection::connect(url).await.map_err(|_| anyhow::anyhow!("the PostgreSQL of the URL can't be reached"))?;
    let mut snapshot = connection.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
    let columns = "SELECT column_name::text FROM information_schema.columns \
        WHERE table_schema = current_schema() AND table_name = 'sandbox'";
    let of_sandbox: Vec<String> = sqlx::query_scalar(columns).fetch_all(&mut *snapshot).await?;
    let mut memories = sqlx::query_as::<_, MemoryRow>(POSTGRES_MEMORIES).fetch(&mut *snapshot);
    while let Some(row) = memories.try_next().await? {
        Memory::from(row).write(out)?;
    }
    drop(memories);
    if !of_sandbox.is_empty() {
        let mut documents = sqlx::query_as::<_, DocumentRow>(sandbox(&of_sandbox)).fetch(&mut *snapshot);
        while let Some(row) = documents.try_next().await? {
            Document::from(row).write(out)?;
        }
    }
    Ok(())
}

/// The query of the sandbox, which has spaces in SQLite only.
fn sandbox(columns: &[String]) -> &'static str {
    if columns.iter().any(|column| column == "space_id") {
        "SELECT id, space_id, content, created_at FROM sandbox ORDER BY created_at, id"
    } else {
        "SELECT id, CAST(NULL AS TEXT), content, created_at FROM sandbox ORDER BY created_at, id"
    }
}

impl From<MemoryRow> for Memory {
    fn from((id, space_id, trigger, context, created_at, updated_at, metadata): MemoryRow) -> Self {
        Self { id, space_id, trigger, context, created_at, updated_at, metadata }
    }
}

impl From<DocumentRow> for Document {
    fn from((id, space_id, content, created_at): DocumentRow) -> Self {
        Self { id, space_id, content, created_at }
    }
}

impl Memory {
    fn write(self, out: &mut impl Write) -> anyhow::Result<()> {
        let id = MemoryId::parse(&self.id).ok();
        // It wrote what was not there as an empty text.
        let context = self.context.filter(|context| !context.is_empty());
        let line = MemoryLine {
            idempotency_key: id.is_none().then(|| format!("maiar:{}", self.id)),
            space_id: self.space_id,
            trigger: json(&self.trigger).with_context(|| format!("the trigger of {}", self.id))?,
            status: if context.is_some() { Status::Completed } else { Status::Observed },
            context: context
                .map(|context| json(&context))
                .transpose()
                .with_context(|| format!("the context of {}", self.id))?,
            created_at: self.created_at,
            // Only a record with an id is restored as it was.
            updated_at: id.and(self.updated_at),
            metadata: metadata(self.metadata.as_deref()).with_context(|| format!("the metadata of {}", self.id))?,
            id,
        };
        serde_json::to_writer(&mut *out, &line)?;
        Ok(out.write_all(b"\n")?)
    }
}

impl Document {
    fn write(self, out: &mut impl Write) -> anyhow::Result<()> {
        let line = DocumentLine {
            kind: "document",
            id: self.id,
            collection: "sandbox",
            space_id: self.space_id.unwrap_or_else(|| "maiar".to_owned()),
            content: self.content,
            created_at: self.created_at,
        };
        serde_json::to_writer(&mut *out, &line)?;
        Ok(out.write_all(b"\n")?)
    }
}

/// The JSON of a text column, or the text as a JSON string where it holds none.
fn json<const MAX: usize>(text: &str) -> memory_core::Result<JsonText<MAX>> {
    match JsonText::parse(text) {
        Err(error) if error.kind() == ErrorKind::InvalidInput => JsonText::from_value(text),
        result => result,
    }
}

/// What is no object stands under `value`.
fn metadata(text: Option<&str>) -> memory_core::Result<Metadata> {
    match text.map(str::trim) {
        None | Some("" | "null") => Ok(Metadata::default()),
        Some(text) if text.starts_with('{') => Metadata::parse(text),
        Some(text) => Metadata::parse(&format!("{{\"value\":{text}}}")),
    }
}
