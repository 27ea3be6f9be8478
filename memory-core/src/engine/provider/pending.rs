//! Calls that wait for pending backfills (L7).

use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::open::Open;
use crate::engine::Engine;
use crate::{Backfill, Blocks, Error, ErrorKind, Outcome, Result};

/// A call completes a backfill that it needs if at most this many records are left (L7). An engine that estimates the
/// remaining number need not count beyond this.
pub const SHORT_BACKFILL: u64 = 2_000;
/// How long to wait before checking again whether documents are indexed by place.
const NO_PLACES: Duration = Duration::from_secs(1);

impl<E: Engine> Open<E> {
    /// Returns the pending backfills.
    pub(super) async fn pending(&self) -> Result<Vec<Backfill>> {
        let pending = self.retry().run(|error| self.engine.is_temporary(error), |_| self.engine.pending()).await?;
        *self.blocked() = pending.iter().map(|backfill| backfill.blocks).collect();
        Ok(pending)
    }

    /// Runs the next slice of the first pending backfill.
    pub(super) async fn backfill(&self) -> Result<()> {
        *self.no_places() = None;
        self.retry().run(|error| self.engine.is_temporary(error), |_| self.engine.backfill()).await
    }

    /// Completes a short backfill that blocks `wanted`. Fails with `Unavailable` and the progress if a longer one is
    /// pending (L7).
    pub(super) async fn check_backfill(&self, wanted: Blocks) -> Result<()> {
        // Whatever a slice has done, the waiting call itself has done nothing.
        let left = self.complete(wanted).await.map_err(|error| error.with_outcome(Outcome::NotDone))?;
        let Some(backfill) = left else { return Ok(()) };
        let message =
            format!("the schema change is not complete yet: {backfill}; run agent-memory migrate to complete it");
        Err(Error::new(ErrorKind::Unavailable, message).retryable())
    }

    /// Returns whether documents are indexed by place. Completes a short backfill of the places. If a longer one is
    /// pending, or this fails, for example without write access, the caller scans instead, and the check is not
    /// repeated for a while.
    pub(super) async fn has_document_places(&self) -> bool {
        if !self.is_blocked(Blocks::DocumentPlaces) {
            return true;
        }
        if self.no_places().is_some_and(|since| since.elapsed() < NO_PLACES) {
            return false;
        }
        let has_places = matches!(self.complete(Blocks::DocumentPlaces).await, Ok(None));
        *self.no_places() = (!has_places).then(Instant::now);
        has_places
    }

    /// Completes the backfill that blocks `wanted` if it is short, counting those before it; otherwise returns it.
    pub(super) async fn complete(&self, wanted: Blocks) -> Result<Option<Backfill>> {
        while self.is_blocked(wanted) {
            let mut pending = self.pending().await?;
            let Some(last) = pending.iter().rposition(|backfill| backfill.blocks.stops(wanted)) else { break };
            pending.truncate(last + 1);
            // A backfill that blocks nothing may take long, however few records are left.
            let is_short = pending.iter().all(|backfill| backfill.blocks != Blocks::Nothing)
                && pending.iter().map(Backfill::left).sum::<u64>() <= SHORT_BACKFILL;
            if !is_short {
                return Ok(pending.pop());
            }
            self.backfill().await?;
        }
        Ok(None)
    }

    pub(super) fn is_blocked(&self, wanted: Blocks) -> bool {
        self.blocked().iter().any(|blocks| blocks.stops(wanted))
    }

    pub(super) fn no_places(&self) -> MutexGuard<'_, Option<Instant>> {
        self.no_places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn blocked(&self) -> MutexGuard<'_, Vec<Blocks>> {
        self.blocked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
