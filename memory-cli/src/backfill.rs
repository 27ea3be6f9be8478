//! What a migration leaves to be done beside running programs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use memory_core::{Backfill, MemoryProvider, Result};

/// How often progress is told.
const TELLING: Duration = Duration::from_secs(1);
/// How long a server waits before it goes on after a failure.
const PAUSE: Duration = Duration::from_secs(5);

/// Takes slices until nothing is left, and tells now and then how far it is. After each slice it rests as long as that took, so that the
/// calls of others come through.
pub(crate) async fn complete(provider: &dyn MemoryProvider, mut tell: impl FnMut(&Backfill)) -> Result<()> {
    let (mut told, mut start) = (None::<Instant>, Instant::now());
    while let Some(backfill) = provider.backfill().await? {
        if told.is_none_or(|told| told.elapsed() >= TELLING) {
            tell(&backfill);
            told = Some(Instant::now());
        }
        tokio::time::sleep(start.elapsed()).await;
        start = Instant::now();
    }
    Ok(())
}

/// The same behind a server, whatever happens, with its progress in the log.
pub(crate) async fn complete_behind(provider: Arc<dyn MemoryProvider>) {
    while let Err(error) = complete(&*provider, |backfill| tracing::info!("backfill: {backfill}")).await {
        tracing::warn!("the backfill waits: {error}");
        tokio::time::sleep(PAUSE).await;
    }
    tracing::info!("no backfill is pending");
}
