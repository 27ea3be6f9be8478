//! Reads all rows that a query finds.

use memory_core::Result;
use mongodb::ClientSession;
use mongodb::action::Find;
use mongodb::bson::{Bson, RawDocument, RawDocumentBuf, doc};

use crate::connection::{MongoSession, Rows};
use crate::error::native;
use crate::row::VECTOR;

/// How many ids one search looks for: a command has at most 16 MiB, and a document id at most 400 bytes.
const IDS: usize = 10_000;

/// Reads each row with one of these `_id`s, without its vector, which has a separate query.
pub(crate) async fn each<T: Send>(
    session: &MongoSession,
    on: &Rows,
    ids: Vec<Bson>,
    read: impl Fn(&RawDocument) -> Result<T> + Send + Sync,
) -> Result<Vec<T>> {
    if let [id] = ids.as_slice() {
        let find = on.find_one(doc! { "_id": id }).projection(doc! { VECTOR: 0 });
        let row = find.max_time(session.left()?).await.map_err(native)?;
        return row.iter().map(|row| read(row)).collect();
    }
    let mut found = Vec::with_capacity(ids.len());
    for ids in ids.chunks(IDS) {
        let find = on.find(doc! { "_id": { "$in": ids } }).projection(doc! { VECTOR: 0 });
        found.append(&mut all(session, find, &read).await?);
    }
    Ok(found)
}

/// Reads each row with one of these `_id`s, with all of its fields, as a transaction sees it.
pub(crate) async fn each_in<T: Send>(
    session: &MongoSession,
    on: &Rows,
    ids: Vec<Bson>,
    transaction: &mut ClientSession,
    read: impl Fn(&RawDocument) -> Result<T> + Send,
) -> Result<Vec<T>> {
    all_in(session, on.find(doc! { "_id": { "$in": ids } }), transaction, read).await
}

/// Reads all rows that are found.
pub(crate) async fn all<T: Send>(
    session: &MongoSession,
    find: Find<'_, RawDocumentBuf>,
    read: impl Fn(&RawDocument) -> Result<T> + Send,
) -> Result<Vec<T>> {
    let (mut rows, mut all) = (find.max_time(session.left()?).await.map_err(native)?, Vec::new());
    while rows.advance().await.map_err(native)? {
        all.push(read(rows.current())?);
    }
    Ok(all)
}

/// The same, as a transaction sees the rows.
pub(crate) async fn all_in<T: Send>(
    session: &MongoSession,
    find: Find<'_, RawDocumentBuf>,
    transaction: &mut ClientSession,
    read: impl Fn(&RawDocument) -> Result<T> + Send,
) -> Result<Vec<T>> {
    let find = find.max_time(session.left()?).session(&mut *transaction);
    let (mut rows, mut all) = (find.await.map_err(native)?, Vec::new());
    while rows.advance(transaction).await.map_err(native)? {
        all.push(read(rows.current())?);
    }
    Ok(all)
}
