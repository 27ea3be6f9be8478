//! Erases slice by slice.

use std::collections::BTreeSet;
use std::pin::pin;

use futures::FutureExt as _;
use memory_core::{Actor, Erasure, MemoryProvider, Reason, RecordId};

use super::selection::Part;
use crate::progress::Progress;

/// What erases, and what it has erased.
pub(super) struct Eraser<'a> {
    provider: &'a dyn MemoryProvider,
    reason: &'a Reason,
    actor: Option<&'a Actor>,
    /// How many records it may erase.
    at_most: u64,
    erased: BTreeSet<RecordId>,
}

/// How an erasure came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Nothing was left.
    Complete,
    /// The process was asked to.
    Asked,
    /// As much was erased as may be.
    Limit,
}

/// How many records one call erases: few enough that a signal is soon answered.
const SLICE: usize = 200;

impl<'a> Eraser<'a> {
    pub(super) fn new(
        provider: &'a dyn MemoryProvider,
        reason: &'a Reason,
        actor: Option<&'a Actor>,
        at_most: Option<u64>,
    ) -> Self {
        Self { provider, reason, actor, at_most: at_most.unwrap_or(u64::MAX), erased: BTreeSet::new() }
    }

    /// What it has erased, also where it came to no good end.
    pub(super) fn erased(&self) -> &BTreeSet<RecordId> {
        &self.erased
    }

    pub(super) fn count(&self) -> u64 {
        self.erased.len() as u64
    }

    /// Erases part by part. A signal is looked for between two slices, each of which is one step.
    pub(super) async fn run(
        &mut self,
        parts: &[Part],
        progress: &Progress,
        asked: impl Future<Output = ()>,
    ) -> anyhow::Result<End> {
        let mut asked = pin!(asked);
        for part in parts {
            let mut slices = Slices::of(part, self.reason)?;
            loop {
                if asked.as_mut().now_or_never().is_some() {
                    return Ok(End::Asked);
                }
                if slices.are_over() {
                    break;
                }
                let left = usize::try_from(self.at_most - self.count()).unwrap_or(usize::MAX);
                if left == 0 {
                    return Ok(End::Limit);
                }
                let erasure = slices.next(left.min(SLICE))?;
                let erasure = self.actor.cloned().into_iter().fold(erasure, Erasure::by);
                let erased = self.provider.erase(&erasure).await?;
                self.erased.extend(erased.records);
                progress.done(self.count(), 0);
                slices.ended(erased.is_complete);
            }
        }
        Ok(End::Complete)
    }
}

/// The slices of one part.
enum Slices<'p> {
    /// The same erasure takes the next one until nothing is left.
    Query { erasure: Erasure, is_complete: bool },
    /// Each names its own records.
    Records { left: &'p [RecordId], reason: &'p Reason },
}

impl<'p> Slices<'p> {
    fn of(part: &'p Part, reason: &'p Reason) -> anyhow::Result<Self> {
        Ok(match part {
            Part::Records(records) => Self::Records { left: records, reason },
            Part::Memories(query) => {
                Self::Query { erasure: Erasure::memories(query.clone(), reason.as_str())?, is_complete: false }
            }
            Part::Documents(query) => {
                Self::Query { erasure: Erasure::documents(query.clone(), reason.as_str())?, is_complete: false }
            }
        })
    }

    fn are_over(&self) -> bool {
        match self {
            Self::Query { is_complete, .. } => *is_complete,
            Self::Records { left, .. } => left.is_empty(),
        }
    }

    /// The next one, of so many records at most.
    fn next(&mut self, limit: usize) -> memory_core::Result<Erasure> {
        match self {
            Self::Query { erasure, .. } => erasure.clone().limit(limit),
            Self::Records { left, reason } => {
                let (some, others) = left.split_at(limit.min(left.len()));
                *left = others;
                Erasure::records(some.iter().cloned(), reason.as_str())
            }
        }
    }

    /// Says whether the last one has left nothing of its query.
    fn ended(&mut self, nothing_is_left: bool) {
        if let Self::Query { is_complete, .. } = self {
            *is_complete = nothing_is_left;
        }
    }
}
