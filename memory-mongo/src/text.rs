//! The words of the ledger, which are indexed once a configuration asks for that.

use std::sync::atomic::Ordering;

use memory_core::{Result, TextIndex};
use mongodb::IndexModel;
use mongodb::bson::{Document, RawDocument, doc};
use mongodb::options::IndexOptions;

use crate::connection::Call;
use crate::error::{check, native};
use crate::provider::by_id;
use crate::statements::{self, memory_words, number};

/// The index on the words; it is there when every row has its words.
const INDEX: &str = "words";
/// How many rows get their words by one command.
const SLICE: usize = 64;

/// Learns whether the words of the ledger are indexed, and indexes those of the whole ledger if that is wanted and nobody
/// did it before.
pub(crate) async fn set_up_ledger(call: &Call, text_index: TextIndex) -> Result<()> {
    let begun = call.retry(|| is_begun(call)).await?;
    if begun {
        call.on.has_ledger_text.store(true, Ordering::Relaxed);
    }
    if text_index != TextIndex::All {
        return Ok(());
    }
    if !begun {
        call.retry_repeatable(|| begin(call)).await?;
        call.on.has_ledger_text.store(true, Ordering::Relaxed);
    }
    let names = async || call.on.primary.memories.list_index_names().await.map_err(native);
    if call.retry(names).await?.iter().any(|name| name == INDEX) {
        return Ok(());
    }
    while call.retry_repeatable(|| index_old_rows(call)).await? {}
    let options = IndexOptions::builder().name(INDEX.to_owned()).build();
    let index = || IndexModel::builder().keys(doc! { "words": 1 }).options(options.clone()).build();
    let create = async || call.on.primary.memories.create_index(index()).await.map_err(native);
    call.retry_repeatable(create).await.map(drop)
}

/// Whether the server refuses rows without words.
async fn is_begun(call: &Call) -> Result<bool> {
    let list = call.on.database.list_collections().filter(doc! { "name": call.on.primary.memories.name() });
    let mut collections = list.await.map_err(native)?;
    let is_there = collections.advance().await.map_err(native)?;
    let options = is_there.then(|| collections.current().get_document("options").ok()).flatten();
    Ok(options.is_some_and(|options| matches!(options.get("validator"), Ok(Some(_)))))
}

/// Makes the server refuse rows without words, so that those who don't know of the index learn of it. Waits for the stores
/// that are on their way.
async fn begin(call: &Call) -> Result<()> {
    let command = doc! {
        "collMod": call.on.primary.memories.name(),
        "validator": { "words": { "$exists": true } },
        // Rows that have none yet can still be updated.
        "validationLevel": "moderate",
        "writeConcern": { "w": "majority" },
    };
    call.on.database.run_command(command).await.map(drop).map_err(native)
}

/// Gives words to the rows without, and tells whether there were any.
async fn index_old_rows(call: &Call) -> Result<bool> {
    let mut rows = call.on.primary.memories.find(doc! { "words": { "$exists": false } }).await.map_err(native)?;
    let (mut found, mut updates) = (false, Vec::with_capacity(SLICE));
    while rows.advance().await.map_err(native)? {
        found = true;
        updates.push(update_of(rows.current())?);
        if updates.len() == SLICE {
            write(call, &mut updates).await?;
        }
    }
    write(call, &mut updates).await.map(|()| found)
}

fn update_of(row: &RawDocument) -> Result<Document> {
    // A row that can't be read has no words.
    let words = statements::memory(row).map(|memory| memory_words(&memory)).unwrap_or_default();
    let mut unchanged = by_id(statements::memory_id(row)?);
    unchanged.insert("words", doc! { "$exists": false });
    if let Ok(revision) = number(row, "revision") {
        unchanged.insert("revision", revision);
    }
    Ok(doc! { "q": unchanged, "u": { "$set": { "words": words } } })
}

async fn write(call: &Call, updates: &mut Vec<Document>) -> Result<()> {
    if updates.is_empty() {
        return Ok(());
    }
    let command = doc! {
        "update": call.on.primary.memories.name(),
        "updates": std::mem::take(updates),
        "ordered": false,
        "writeConcern": { "w": "majority", "j": true },
    };
    check(&call.on.database.run_command(command).await.map_err(native)?)
}
