//! What a migration leaves to be done beside running programs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use memory_core::{MemoryProvider, Result};

/// How often progress is told.
const TELLING: Duration = Duration::from_secs(1);
/// How long to wait before going on after a failure.
const PAUSE: Duration = Duration::from_secs(5);

/// Takes slices until nothing is left, and tells now and then how far it is. After each slice it rests as long as that took, so that the
/// calls of others come through. What is temporary is waited for.
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

/// The same behind a program that goes on, with its progress in the log.
pub(crate) async fn complete_behind(provider: Arc<dyn MemoryProvider>) {
    match complete(&*provider, |progress| tracing::info!("backfill: {progress}")).await {
        Ok(()) => tracing::info!("no backfill is pending"),
        Err(error) => tracing::error!("the backfill has ended: {error}"),
    }
}
