//! Erases records slice by slice.

use std::pin::pin;

use futures::FutureExt as _;
use memory_core::{Actor, Cursor, Erasure, MAX_ERASED, MemoryProvider, Outcome, Reason, RecordId};

use super::certificate::Certified;
use super::presence::is_there;
use super::selection::Part;
use crate::progress::Progress;

/// Erases records and certifies that.
pub(super) struct Eraser<'a> {
    provider: &'a dyn MemoryProvider,
    reason: &'a Reason,
    actor: Option<&'a Actor>,
    /// The most records to erase.
    at_most: u64,
    certified: &'a mut Certified,
    /// The number of erased records.
    count: u64,
    /// The number of erased records in the last written certificate.
    saved: u64,
}

/// Why an erasure ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Nothing was left.
    Complete,
    /// The process was asked to end.
    Asked,
    /// The limit was reached.
    Limit,
}

/// The size of a slice: the most that a call may erase, since an engine may have to search its feed in each call.
const SLICE: usize = MAX_ERASED;
/// The most passes of a query. If records keep coming, the verification reports it.
const PASSES: usize = 2;

impl<'a> Eraser<'a> {
    pub(super) fn new(
        provider: &'a dyn MemoryProvider,
        reason: &'a Reason,
        actor: Option<&'a Actor>,
        at_most: Option<u64>,
        certified: &'a mut Certified,
    ) -> Self {
        Self { provider, reason, actor, at_most: at_most.unwrap_or(u64::MAX), certified, count: 0, saved: 0 }
    }

    /// The number of erased records, also after a failure.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Erases part by part. A signal is checked between two slices; each slice is atomic.
    pub(super) async fn run(
        &mut self,
        parts: &[Part],
        progress: &Progress,
        asked: impl Future<Output = ()>,
    ) -> anyhow::Result<End> {
        let mut asked = pin!(asked);
        // The records whose state an earlier run of the same erasure did not learn.
        let unknown = self.certified.certificate.take_unknown();
        let unknown = self.settle(&unknown).await;
        self.certified.certificate.add_unknown(&unknown);
        for part in parts {
            let mut slices = Slices::of(part);
            loop {
                if asked.as_mut().now_or_never().is_some() {
                    return Ok(End::Asked);
                }
                if slices.is_over {
                    break;
                }
                let left = usize::try_from(self.at_most.saturating_sub(self.count)).unwrap_or(usize::MAX);
                if left == 0 {
                    return Ok(End::Limit);
                }
                let records = slices.next(self.provider, left.min(SLICE)).await?;
                let count = self.erase(part, &records, progress).await?;
                slices.ended(count);
            }
        }
        // A call of that run may have continued until now. Records that still exist were not erased by it.
        let unknown = self.certified.certificate.take_unknown();
        self.settle(&unknown).await;
        Ok(End::Complete)
    }

    /// Erases these records of a part, except those that no longer belong to it, and returns how many were erased.
    async fn erase(&mut self, part: &Part, records: &[RecordId], progress: &Progress) -> anyhow::Result<u64> {
        if records.is_empty() {
            return Ok(0);
        }
        let (reason, among) = (self.reason.as_str(), records.iter().cloned());
        let erasure = match part {
            Part::Memories(query) => Erasure::memories(query.clone(), reason)?.among(among)?,
            Part::Documents(query) => Erasure::documents(query.clone(), reason)?.among(among)?,
            Part::Records(_) => Erasure::records(among, reason)?,
        };
        let erasure = self.actor.cloned().into_iter().fold(erasure, Erasure::by);
        let before = self.count;
        loop {
            let erased = match self.provider.erase(&erasure).await {
                Ok(erased) => erased,
                Err(error) => {
                    if error.outcome() == Outcome::Unknown {
                        // The call may continue at the engine.
                        let unknown = self.settle(records).await;
                        self.certified.certificate.add_unknown(&unknown);
                    }
                    return Err(error.into());
                }
            };
            self.add(&erased.records);
            progress.done(self.count, 0);
            // A call ends early if its records are large or change; repeating it takes the next of them.
            if erased.is_complete || erased.records.is_empty() {
                break;
            }
        }
        // The time of a write grows with the certificate, so it is written at growing intervals.
        if self.count > self.saved + self.saved / 4 {
            self.certified.save()?;
            self.saved = self.count;
        }
        Ok(self.count - before)
    }

    /// After a call with unknown outcome, certifies those records that are gone, and returns those that exist. Records that can't be
    /// looked up are left to the next run.
    async fn settle(&mut self, records: &[RecordId]) -> Vec<RecordId> {
        let mut there = Vec::new();
        for (place, record) in records.iter().enumerate() {
            match self.is_gone(record).await {
                Ok(true) => self.add(std::slice::from_ref(record)),
                Ok(false) => there.push(record.clone()),
                // Looking up each of the others would take as long again.
                Err(_) => {
                    self.certified.certificate.add_unknown(&records[place..]);
                    break;
                }
            }
        }
        there
    }

    /// Whether this erasure has erased a record.
    async fn is_gone(&self, record: &RecordId) -> memory_core::Result<bool> {
        let Some(tombstone) = self.provider.tombstone(record).await? else { return Ok(false) };
        let is_own = tombstone.reason == *self.reason && tombstone.actor.as_ref() == self.actor;
        Ok(is_own && !is_there(self.provider, record).await?)
    }

    fn add(&mut self, erased: &[RecordId]) {
        self.certified.certificate.add(erased);
        self.count += erased.len() as u64;
    }
}

/// The slices of one part, as names of records, so that it is known what a call with unknown outcome may have erased.
struct Slices<'p> {
    part: &'p Part,
    /// The cursor of the next page of a query.
    cursor: Option<Cursor>,
    /// How many of the individually named records were returned.
    given: usize,
    /// Whether this pass of a query has erased something.
    has_erased: bool,
    passes: usize,
    is_over: bool,
}

impl<'p> Slices<'p> {
    fn of(part: &'p Part) -> Self {
        let is_over = matches!(part, Part::Records(records) if records.is_empty());
        Self { part, cursor: None, given: 0, has_erased: false, passes: 0, is_over }
    }

    /// Returns the records of the next slice, at most `limit`; empty if a page has no readable record.
    async fn next(&mut self, provider: &dyn MemoryProvider, limit: usize) -> anyhow::Result<Vec<RecordId>> {
        if let Part::Records(records) = self.part {
            let some: Vec<_> = records.iter().skip(self.given).take(limit).cloned().collect();
            self.given += some.len();
            return Ok(some);
        }
        let page = self.part.page(provider, limit, self.cursor.as_ref()).await?;
        self.cursor = page.next;
        Ok(page.records)
    }

    /// Reports how many records of the last slice were erased.
    fn ended(&mut self, count: u64) {
        if let Part::Records(records) = self.part {
            self.is_over = self.given >= records.len();
            return;
        }
        self.has_erased |= count > 0;
        if self.cursor.is_none() {
            // Records that came meanwhile may lie before the last page, so one more pass looks for them.
            self.passes += 1;
            self.is_over = !std::mem::take(&mut self.has_erased) || self.passes == PASSES;
        }
    }
}

#[cfg(test)]
mod tests {
    use memory_core::{InMemory, NewMemory, SpaceId, Timestamp, Trigger};
    use serde_json::json;

    use super::super::certificate::Certificate;
    use super::*;

    #[tokio::test]
    async fn what_a_call_without_an_answer_has_erased_is_certified() -> anyhow::Result<()> {
        let provider = InMemory::new();
        provider.init().await?;
        let mut records = Vec::new();
        for number in ["1", "2", "3"] {
            let memory = NewMemory::new(SpaceId::parse("a")?, Trigger::parse(number)?, Timestamp::from_millis(0)?);
            records.push(RecordId::from(provider.store(memory).await?));
        }
        let erased = records[0].clone();
        provider.erase(&Erasure::records([erased.clone()], "why")?).await?;
        provider.erase(&Erasure::records([records[1].clone()], "another one")?).await?;
        let reason = Reason::parse("why")?;
        let certificate = Certificate::new(&reason, None, json!({}), Timestamp::MIN, String::new());
        let mut certified = Certified::open(certificate, None)?;
        let mut eraser = Eraser::new(&provider, &reason, None, None, &mut certified);
        assert_eq!(eraser.settle(&records).await, records[1..]);
        assert_eq!(eraser.count(), 1);
        // Nobody answers any more.
        provider.shutdown().await?;
        assert_eq!(eraser.settle(&records[2..]).await, []);
        let certificate = &mut certified.certificate;
        let certified: Vec<_> = certificate.memories.iter().copied().map(RecordId::from).collect();
        assert_eq!((certified, certificate.take_unknown()), (vec![erased], vec![records[2].clone()]));
        Ok(())
    }
}
