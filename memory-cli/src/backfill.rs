//! What a migration leaves to be done beside running programs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use memory_core::{Backfill, MemoryProvider, Result};

/// How often progress is told.
const TELLING: Duration = Duration::from_secs(1);
/// How long the server waits before it goes on after a failure.
const PAUSE: Duration = Duration::from_secs(5);

/// Takes slices until nothing is left, and tells now and then how far it is.
pub(crate) async fn complete(provider: &dyn MemoryProvider, mut tell: impl FnMut(&Backfill)) -> Result<()> {
    let mut told: Option<Instant> = None;
    while let Some(backfill) = provider.backfill().await? {
        if told.is_none_or(|told| told.elapsed() >= TELLING) {
            tell(&backfill);
            told = Some(Instant::now());
        }
    }
    Ok(())
}

/// The same in the background of a server, whatever happens, with its progress in the log. After each slice it rests as long as that
/// took, so that the calls of others come through.
pub(crate) async fn complete_slowly(provider: Arc<dyn MemoryProvider>) {
    let (mut begun, mut told) = (None, None::<Instant>);
    loop {
        let start = Instant::now();
        match provider.backfill().await {
            Ok(Some(backfill)) => {
                if told.is_none_or(|told| told.elapsed() >= TELLING) {
                    tracing::info!("backfill: {backfill}");
                    told = Some(Instant::now());
                }
                begun.get_or_insert(start);
                tokio::time::sleep(start.elapsed()).await;
            }
            Ok(None) => {
                if let Some(begun) = begun {
                    tracing::info!("the backfill is complete after {} s", begun.elapsed().as_secs());
                }
                return;
            }
            Err(error) => {
                tracing::warn!("the backfill waits: {error}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
