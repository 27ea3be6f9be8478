//! What is there of the collections, how much they take and what time it is at the server, for operators.

use memory_core::{Inspection, Result, Timestamp};
use mongodb::bson::{Bson, Document, doc};

use crate::config::MongoConfig;
use crate::connection::Call;
use crate::error::native;
use crate::migrate::{commands, with_connections};

/// Tells which collections and indexes are missing, how many bytes they take in their files (which follow within a minute), and
/// what time it is at the server; changes nothing.
pub async fn inspect(config: &MongoConfig) -> Result<Inspection> {
    with_connections(config, async |call| call.retry(|| look(&call)).await).await
}

async fn look(call: &Call) -> Result<Inspection> {
    let database = &call.on.database;
    let answer = database.run_command(doc! { "hello": 1 }).await.map_err(native)?;
    let server_time = answer.get_datetime("localTime").ok().map(|time| Timestamp::from_millis(time.timestamp_millis()));
    let present = database.list_collection_names().await.map_err(native)?;
    let mut missing = Vec::new();
    let steps = migrations::mongo().iter().map(commands).collect::<Result<Vec<_>>>()?;
    for command in steps.concat() {
        let name = command.get_str("create").or_else(|_| command.get_str("createIndexes")).unwrap_or_default();
        if !present.iter().any(|present| present == name) {
            // Its indexes are missing with it.
            if command.contains_key("create") {
                missing.push(name.to_owned());
            }
            continue;
        }
        let Ok(indexes) = command.get_array("indexes") else { continue };
        let present = database.collection::<Document>(name).list_index_names().await.map_err(native)?;
        let names = indexes.iter().filter_map(|index| index.as_document()?.get_str("name").ok());
        let absent = names.filter(|index| !present.iter().any(|present| present == index));
        missing.extend(absent.map(|index| format!("{name}.{index}")));
    }
    let stats = database.run_command(doc! { "dbStats": 1 }).await.map_err(native)?;
    Ok(Inspection::new(missing, server_time.transpose()?, stats.get("totalSize").and_then(whole)))
}

/// Counts come in whichever type has room for them.
fn whole(count: &Bson) -> Option<u64> {
    match count {
        Bson::Int32(count) => u64::try_from(*count).ok(),
        Bson::Int64(count) => u64::try_from(*count).ok(),
        Bson::Double(count) => Some(*count as u64),
        _ => None,
    }
}
