//! Reads right after a write.

use std::sync::Arc;

use futures::future::join_all;
use memory_core::{MemoryProvider, Result};

use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{ids, metadata, new_document, new_memory, walk, walk_documents};

chapter!("store":
    eight_writers_find_at_once_what_they_wrote ["W1"],
);

/// How many memories and documents each writer writes.
const ROUNDS: usize = 12;

/// While others write, each read finds the latest acknowledged write, through its own handle and through another
/// (redis-vl-python#662: an index that lagged behind the data hid 17 of 480 writes).
async fn eight_writers_find_at_once_what_they_wrote(stage: Stage) -> CaseResult {
    let handles = [stage.open().await?, stage.open().await?];
    let writers = (0..8).map(|writer: usize| {
        let (own, other) = (Arc::clone(&handles[writer % 2]), Arc::clone(&handles[(writer + 1) % 2]));
        tokio::spawn(async move { write_and_read(writer, &*own, &*other).await })
    });
    let mut missed = Vec::new();
    for writer in join_all(writers).await {
        missed.extend(writer??);
    }
    assert!(missed.is_empty(), "reads that missed what was acknowledged: {missed:?}");
    Ok(())
}

/// Writes, and returns the reads that have missed the write.
async fn write_and_read(writer: usize, own: &dyn MemoryProvider, other: &dyn MemoryProvider) -> Result<Vec<String>> {
    let mut missed = Vec::new();
    for round in 0..ROUNDS {
        let name = format!("w{writer}r{round}");
        let space = format!("fresh-w{writer}-{name}");
        let memory = new_memory(&space, 1).with_metadata(metadata(&format!(r#"{{"name":"{name}"}}"#)));
        let id = own.store(memory).await?;
        own.documents().put(new_document("fresh", &name, &space, &format!("about {name}"))).await?;
        for (handle, reader) in [("its own handle", own), ("another handle", other)] {
            let documents = reader.documents();
            let predicate = format!("metadata.name = '{name}'");
            let reads = [
                ("get", reader.get(id).await?.is_some()),
                ("exact", ids(&walk(reader, |query| query.exact(&space)).await?) == [id]),
                ("under", ids(&walk(reader, |query| query.under(&space)).await?) == [id]),
                ("filter", ids(&walk(reader, |query| query.under("fresh").filter_text(&predicate)).await?) == [id]),
                ("text", walk_documents(&*documents, "fresh", |query| query.all().text(&name)).await?.len() == 1),
            ];
            missed.extend(reads.iter().filter(|read| !read.1).map(|read| format!("{} of {name} by {handle}", read.0)));
        }
    }
    Ok(missed)
}
