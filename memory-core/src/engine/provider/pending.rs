//! What waits for backfills that are pending (L7).

use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Open;
use crate::engine::Engine;
use crate::{Backfill, Blocks, Error, ErrorKind, Outcome, Result};

/// A backfill that has at most so many records left to go over is completed by the call that needs it (L7). An engine that estimates how
/// many are left counts up to here.
pub const SHORT_BACKFILL: u64 = 2_000;
/// How long it is not tried again to look for documents by place, where that can't be.
const NO_PLACES: Duration = Duration::from_secs(1);

impl<E: Engine> Open<E> {
    /// The backfills that are pending.
    pub(super) async fn pending(&self) -> Result<Vec<Backfill>> {
        let pending = self.retry().run(|error| self.engine.is_temporary(error), |_| self.engine.pending()).await?;
        *self.blocked() = pending.iter().map(|backfill| backfill.blocks).collect();
        Ok(pending)
    }

    /// Takes the next slice of the first of them.
    pub(super) async fn backfill(&self) -> Result<()> {
        *self.no_places() = None;
        self.retry().run(|error| self.engine.is_temporary(error), |_| self.engine.backfill()).await
    }

    /// Completes a short backfill that this waits for. `Unavailable`, with its progress, while another one is pending (L7).
    pub(super) async fn check_backfill(&self, wanted: Blocks) -> Result<()> {
        // Whatever became of a slice, the call that waits for it has done nothing.
        let left = self.complete(wanted).await.map_err(|error| error.with_outcome(Outcome::NotDone))?;
        let Some(backfill) = left else { return Ok(()) };
        let message = format!("not yet: {backfill}; agent-memory migrate does the rest");
        Err(Error::new(ErrorKind::Unavailable, message).retryable())
    }

    /// Whether documents can be looked for by place. Completes a short backfill of their places; while a longer one is pending, or where
    /// this fails, as with a program that may only read, the caller does without, and for a while it is not tried again.
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

    /// Completes the backfill that this waits for if it is short together with those that come before it. Otherwise gives it.
    pub(super) async fn complete(&self, wanted: Blocks) -> Result<Option<Backfill>> {
        while self.is_blocked(wanted) {
            let mut pending = self.pending().await?;
            let Some(last) = pending.iter().rposition(|backfill| backfill.blocks.stops(wanted)) else { break };
            pending.truncate(last + 1);
            // What blocks nothing may take long, however little of it is left.
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
