//! The backfill: the part of a migration that runs beside other programs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use memory_core::{MemoryProvider, Result};

/// How often progress is reported.
const TELLING: Duration = Duration::from_secs(1);
/// The pause before a retry after a failure.
const PAUSE: Duration = Duration::from_secs(5);

/// Runs slices of the backfill until nothing is left, and reports progress with `tell`. After each slice it pauses for as long as the slice
/// took, so that other calls are served. Retryable errors are retried.
pub(crate) async fn complete(provider: &dyn MemoryProvider, mut tell: impl FnMut(String)) -> Result<()> {
    let mut told: Option<Instant> = None;
    loop {
        let start = Instant::now();
        match provider.backfill().await {
            Ok(None) => return Ok(()),
            Ok(Some(backfill)) => {
                if told.is_none_or(|told| told.elapsed() >= TELLING) {
                    tell(backfill.to_string());
                    told = Some(Instant::now());
                }
                tokio::time::sleep(start.elapsed()).await;
            }
            Err(error) if error.is_retryable() => {
                tell(format!("the backfill waits: {}", error.message()));
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Like [`complete`], in the background of a server, with the progress in the log.
pub(crate) async fn complete_behind(provider: Arc<dyn MemoryProvider>) {
    match complete(&*provider, |progress| tracing::info!("backfill: {progress}")).await {
        Ok(()) => tracing::info!("no backfill is pending"),
        Err(error) => tracing::error!("the backfill failed: {error}"),
    }
}
