//! Sweeps expired records in the background of a server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use memory_core::{Error, ErrorKind, MemoryProvider, Result, Sweep};

/// Sweeps at regular intervals.
#[derive(Debug)]
pub(crate) struct Sweeper {
    provider: Arc<dyn MemoryProvider>,
    /// The pause between two rounds, each of which sweeps the records with an expired `expiresAt`.
    due: Duration,
    /// The interval of rounds that sweep all expired records and old tombstones.
    all: Duration,
}

impl Sweeper {
    pub(crate) fn new(provider: Arc<dyn MemoryProvider>) -> Self {
        Self { provider, due: Duration::from_secs(60), all: Duration::from_secs(60 * 60) }
    }

    /// Runs forever, unless the engine can't erase. The first round sweeps everything.
    pub(crate) async fn run(self) {
        let mut swept_all: Option<Instant> = None;
        loop {
            let (begun, is_all) = (Instant::now(), swept_all.is_none_or(|swept| swept.elapsed() >= self.all));
            let ended = self.round(if is_all { Sweep::all() } else { Sweep::due() }).await;
            if let Err(error) = &ended {
                if self.is_forbidden(error).await {
                    tracing::warn!("this server erases no expired records: {}", error.message());
                    if error.kind() == ErrorKind::Unsupported {
                        return;
                    }
                    // An operator may lift the fence or grant the right.
                    tokio::time::sleep(self.all).await;
                    continue;
                }
                tracing::error!("a sweep failed, and is tried again: {error}");
            }
            // While an error lasts, starting again each time would cost too much.
            if is_all && !ended.is_err_and(|error| error.is_retryable()) {
                swept_all = Some(begun);
            }
            tokio::time::sleep(self.due).await;
        }
    }

    /// Sweeps in slices. After each slice it pauses for as long as the slice took, so that other calls are served.
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

    /// Whether an error means that this program can't erase for now, so that an early retry is useless.
    async fn is_forbidden(&self, error: &Error) -> bool {
        match error.kind() {
            ErrorKind::Unsupported | ErrorKind::Unauthorized => true,
            // The ledger may be read-only, which is not a transient error.
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
