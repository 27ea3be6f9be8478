//! A PostgreSQL database of MAIAR, read in one snapshot.

use futures::channel::mpsc::{self, Sender};
use futures::{SinkExt as _, StreamExt as _, TryStreamExt as _, stream};
use memory_core::{Error, ErrorKind, Result};
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;

use crate::record::{Record, Records};
use crate::row::{self, AHEAD, DocumentRow, MemoryRow};

/// Casts `metadata` to text, since MAIAR's column is JSONB.
const MEMORIES: &str = "SELECT id::text, space_id, trigger, context, created_at, updated_at, metadata::text FROM memories \
    ORDER BY created_at, id";
const COLUMNS: &str = "SELECT column_name::text FROM information_schema.columns \
    WHERE table_schema = current_schema() AND table_name = 'sandbox'";

/// Reads the database of a URL. Errors are items of the stream.
pub(crate) fn read(url: &str) -> Records {
    let (url, (mut sender, records)) = (url.to_owned(), mpsc::channel(AHEAD));
    let reading = async move {
        if let Err(error) = send(&url, &mut sender).await {
            put(&mut sender, Err(error)).await;
        }
    };
    // The reader is part of the stream, so that polling the stream drives it, and dropping the stream ends it.
    stream::select(records, stream::once(reading).filter_map(async |()| None)).boxed()
}

/// Sends all records of the database.
async fn send(url: &str, sender: &mut Sender<Result<Record>>) -> Result<()> {
    // The driver's own message may quote the URL.
    let connected = PgConnection::connect(url).await;
    let mut connection = connected.map_err(|_| Error::new(ErrorKind::Unavailable, "can't be reached"))?;
    let begun = connection.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await;
    let mut snapshot = begun.map_err(unreadable)?;
    let mut memories = sqlx::query_as::<_, MemoryRow>(MEMORIES).fetch(&mut *snapshot);
    while let Some(row) = memories.try_next().await.map_err(unreadable)? {
        put(sender, Ok(Record::from_memory(row)?)).await;
    }
    drop(memories);
    let columns: Vec<String> = sqlx::query_scalar(COLUMNS).fetch_all(&mut *snapshot).await.map_err(unreadable)?;
    if columns.is_empty() {
        return Ok(());
    }
    let mut documents = sqlx::query_as::<_, DocumentRow>(row::documents(&columns)).fetch(&mut *snapshot);
    while let Some(row) = documents.try_next().await.map_err(unreadable)? {
        put(sender, Ok(Record::from_document(row)?)).await;
    }
    Ok(())
}

async fn put(sender: &mut Sender<Result<Record>>, record: Result<Record>) {
    // Cannot fail: the stream owns both the sender and the receiver.
    let _ = sender.send(record).await;
}

fn unreadable(error: sqlx::Error) -> Error {
    Error::new(ErrorKind::Corrupt, "can't be read as a PostgreSQL database of MAIAR").with_source(error)
}
