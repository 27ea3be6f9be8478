//! What has expired is erased beside a program that goes on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use memory_core::{Error, ErrorKind, MemoryProvider, Result, Sweep};

/// Sweeps again and again.
#[derive(Debug)]
pub(crate) struct Sweeper {
    provider: Arc<dyn MemoryProvider>,
    /// How long it rests between two rounds, each of which sweeps what says itself when it expires.
    due: Duration,
    /// How often a round sweeps all that has expired, and the tombstones whose time is over.
    all: Duration,
}

impl Sweeper {
    pub(crate) fn new(provider: Arc<dyn MemoryProvider>) -> Self {
        Self { provider, due: Duration::from_secs(60), all: Duration::from_secs(60 * 60) }
    }

    /// Goes on for ever, unless the engine can't erase. The first round sweeps all.
    pub(crate) async fn run(self) {
        let mut swept_all: Option<Instant> = None;
        loop {
            let (begun, is_all) = (Instant::now(), swept_all.is_none_or(|swept| swept.elapsed() >= self.all));
            let ended = self.round(if is_all { Sweep::all() } else { Sweep::due() }).await;
            if let Err(error) = &ended {
                if self.is_forbidden(error).await {
                    tracing::warn!("what has expired is not erased from here: {}", error.message());
                    if error.kind() == ErrorKind::Unsupported {
                        return;
                    }
                    // A fence may be lifted, and a right be given.
                    tokio::time::sleep(self.all).await;
                    continue;
                }
                tracing::error!("a sweep has ended: {error}");
            }
            // To begin anew each time would cost too much where an error lasts.
            if is_all && !ended.is_err_and(|error| error.is_retryable()) {
                swept_all = Some(begun);
            }
            tokio::time::sleep(self.due).await;
        }
    }

    /// After each slice it rests as long as that took, so that the calls of others come through.
    async fn round(&self, from: Sweep) -> Result<()> {
        let (mut next, mut records, mut tombstones) = (Some(from), 0, 0);
        while let Some(sweep) = next {
            let begun = Instant::now();
            let swept = self.provider.sweep(&sweep).await?;
            records += swept.records.len();
            tombstones += swept.tombstones;
            next = swept.next;
            if next.is_some() {
                tokio::time::sleep(begun.elapsed()).await;
            }
        }
        if records > 0 || tombstones > 0 {
            tracing::info!(records, tombstones, "swept");
        }
        Ok(())
    }

    /// Whether an error tells that nothing can be erased by this program, however soon it tries again.
    async fn is_forbidden(&self, error: &Error) -> bool {
        match error.kind() {
            ErrorKind::Unsupported | ErrorKind::Unauthorized => true,
            // The ledger may be read-only, which lasts.
            ErrorKind::Unavailable => matches!(self.provider.is_read_only().await, Ok(true)),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use memory_core::{InMemory, ManualClock, MemoryId, NewMemory, SpaceId, Timestamp, Trigger};

    use super::*;

    const SOON: Duration = Duration::from_millis(1);
    /// Well above what anything takes; it ends a test that hangs.
    const TIME_LIMIT: Duration = Duration::from_secs(60);

    async fn store(provider: &InMemory, expires_at: i64) -> Result<MemoryId> {
        let memory = NewMemory::new(SpaceId::parse("a")?, Trigger::parse("1")?, Timestamp::from_millis(0)?);
        provider.store(memory.expires_at(Timestamp::from_millis(expires_at)?)).await
    }

    /// Waits until the tombstones of these memories are there, and not only told.
    async fn until_swept(provider: &InMemory, ids: &[MemoryId]) {
        let are_swept = async {
            loop {
                let page = provider.tombstones(None).await.expect("read");
                if ids
                    .iter()
                    .all(|id| page.tombstones.iter().any(|one| one.record == (*id).into() && one.is_of_expiry()))
                {
                    return;
                }
                tokio::time::sleep(SOON).await;
            }
        };
        tokio::time::timeout(TIME_LIMIT, are_swept).await.expect("they are swept");
    }

    #[tokio::test]
    async fn what_expires_is_erased_round_after_round_also_behind_a_fence() -> Result<()> {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(0)?));
        let provider = Arc::new(InMemory::with(Arc::<ManualClock>::clone(&clock), memory_core::DEFAULT_DEADLINE));
        provider.init().await?;
        let ids = [store(&provider, 1).await?, store(&provider, 2).await?, store(&provider, 3).await?];
        let sweeper = Sweeper { provider: Arc::<InMemory>::clone(&provider), due: SOON, all: SOON };
        let sweeping = tokio::spawn(sweeper.run());
        for (swept, now) in (1..=2).zip(1..) {
            clock.set(Timestamp::from_millis(now)?);
            until_swept(&provider, &ids[..swept]).await;
        }
        provider.set_read_only(true).await?;
        clock.set(Timestamp::from_millis(3)?);
        assert_eq!(provider.sweep(&Sweep::due()).await.expect_err("a fence").kind(), ErrorKind::Unavailable);
        assert!(!sweeping.is_finished());
        provider.set_read_only(false).await?;
        until_swept(&provider, &ids).await;
        sweeping.abort();
        Ok(())
    }
}
