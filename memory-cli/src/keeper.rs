//! Makes vectors in the background of a server.

use std::sync::Arc;
use std::time::Duration;

use memory_context::embedding::keeper;
use memory_core::{Embedder, Error, ErrorKind, MemoryProvider, VectorKeeper};
use prometheus::IntCounter;
use tokio::time::sleep;

use crate::observed::observed;

/// The metrics of the vectors that were made.
#[derive(Debug, Clone)]
pub(crate) struct MadeVectors {
    pub(crate) made: IntCounter,
    pub(crate) failed: IntCounter,
}

/// The least time between two log lines about the vectors that were made.
const TELLING: Duration = Duration::from_secs(60);
/// The pause after an error that is not retryable: an operator may grant a right, or change the model back.
const PAUSE: Duration = Duration::from_secs(60);

impl MadeVectors {
    pub(crate) fn new() -> prometheus::Result<Self> {
        Ok(Self {
            made: IntCounter::new("agent_memory_vectors_made_total", "Texts that the model has embedded.")?,
            failed: IntCounter::new("agent_memory_vectors_failed_total", "Calls of the embedding model that failed.")?,
        })
    }
}

/// Embeds all records without vectors, and then each new record. Runs forever, unless the engine does not support vectors.
pub(crate) async fn keep(provider: Arc<dyn MemoryProvider>, embedder: Arc<dyn Embedder>, counts: MadeVectors) {
    let MadeVectors { made, failed } = counts.clone();
    let counted = observed(embedder, move |texts| match texts {
        Some(texts) => made.inc_by(texts as u64),
        None => failed.inc(),
    });
    let keeper = keeper(provider, counted);
    tokio::select! {
        () = run(&keeper) => {}
        () = tell(&counts) => {}
    }
}

async fn run(keeper: &VectorKeeper) {
    let mut told: Option<String> = None;
    loop {
        let Err(error) = keeper.run().await;
        // The same error is logged once, however long it lasts.
        if told.as_deref() != Some(error.message()) {
            warn(&error);
            told = Some(error.message().to_owned());
        }
        if error.kind() == ErrorKind::Unsupported {
            return;
        }
        sleep(PAUSE).await;
    }
}

fn warn(error: &Error) {
    match error.kind() {
        ErrorKind::SchemaMismatch | ErrorKind::Unauthorized | ErrorKind::Unsupported => {
            tracing::warn!("this server embeds no records: {}", error.message());
        }
        _ => tracing::error!("the embedding failed, and is tried again: {error}"),
    }
}

/// Logs from time to time how many vectors were made since the last line.
async fn tell(MadeVectors { made, failed }: &MadeVectors) {
    let (mut told, mut told_failed) = (made.get(), failed.get());
    loop {
        sleep(TELLING).await;
        let (made, failed) = (made.get(), failed.get());
        if (made, failed) != (told, told_failed) {
            tracing::info!(embedded = made - told, failed = failed - told_failed, "made vectors");
            (told, told_failed) = (made, failed);
        }
    }
}
