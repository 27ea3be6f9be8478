//! Imports tombstones from another namespace (E5).

use std::collections::HashMap;
use std::sync::Arc;

use super::found_records::{Earlier, FoundRecord, Steps, find, tombstones};
use super::living::View;
use super::open::{Shared, after};
use crate::engine::session::{Erasing, ErasingRecord, Writer, no_erasure};
use crate::engine::{Access, Engine};
use crate::{Error, HashKey, MAX_ERASED, Outcome, RecordId, RestoreReport, Result, Timestamp, Tombstone};

/// The tombstones of one step.
struct Buried {
    tombstones: Vec<Tombstone>,
    earlier: Arc<Earlier>,
    hash_key: HashKey,
    /// Whether their hashes were made with that key.
    is_own_key: bool,
}

/// The result of a step.
struct Step {
    /// Number of its tombstones that it has examined.
    count: usize,
    /// Number of tombstones that it has stored.
    written: usize,
    /// Records that can't be read, so that their tombstones were not stored.
    unreadable: Vec<RecordId>,
}

impl<E: Engine> Shared<E> {
    pub(super) async fn restore_tombstones(
        self: &Arc<Self>,
        mut tombstones: Vec<Tombstone>,
        key: &HashKey,
    ) -> Result<RestoreReport> {
        if tombstones.len() > MAX_ERASED {
            return Err(Error::invalid(format!("a call restores at most {MAX_ERASED} tombstones")));
        }
        let open = self.ready().await?;
        let (until, half) = (open.until(), after(self.settings.deadline / 2));
        let hash_key = open.hash_key(Some(key)).await?.ok_or_else(no_erasure)?;
        let given = tombstones.len();
        let places = tombstones.iter().enumerate().map(|(place, tombstone)| (tombstone.record.clone(), place));
        let places: HashMap<_, _> = places.collect();
        // Only the latest tombstone of each record is kept.
        tombstones.sort_by(|one, other| (&one.record, other.at).cmp(&(&other.record, one.at)));
        tombstones.dedup_by(|later, first| later.record == first.record);
        // Known tombstones come last, so that repeated calls don't read their histories first.
        let records: Vec<_> = tombstones.iter().map(|tombstone| tombstone.record.clone()).collect();
        let known = self.with_tombstones(&records).await?;
        tombstones.sort_by_key(|tombstone| known.contains(&tombstone.record));
        let records: Vec<_> = tombstones.iter().map(|tombstone| tombstone.record.clone()).collect();
        let is_own_key = hash_key == *key;
        let (mut report, mut first) = (RestoreReport::default(), 0);
        while first < tombstones.len() {
            let brought = Outcome::unknown_if(report.written > 0);
            let (count, earlier) = open.earlier(&records[first..], half).await.map_err(|error| error.after(brought))?;
            if count == 0 {
                return Err(too_slow().after(brought));
            }
            let (some, earlier) = (&tombstones[first..first + count], Arc::new(earlier));
            let mut steps = Steps::of(count);
            while let Some(range) = steps.next() {
                let brought = Outcome::unknown_if(report.written > 0);
                let (tombstones, earlier) = (some[range].to_vec(), Arc::clone(&earlier));
                let buried = Buried { tombstones, earlier, hash_key: hash_key.clone(), is_own_key };
                let step = open.run_until(until, View::of_all(Access::Write), buried, |writer, given| {
                    Box::pin(bury(writer, given))
                });
                match step.await.map_err(|error| error.after(brought))? {
                    Some(Step { count, written, unreadable }) => {
                        steps.took(count);
                        report.written += written;
                        report.conflicts.extend(unreadable.iter().filter_map(|record| places.get(record)));
                    }
                    None => steps.lost(),
                }
            }
            first += count;
        }
        report.conflicts.sort_unstable();
        report.equal = given - report.written - report.conflicts.len();
        Ok(report)
    }
}

fn too_slow() -> Error {
    let message = "looking up the erased documents took half of the deadline: restore fewer tombstones at once";
    Error::new(crate::ErrorKind::Timeout, message).retryable()
}

/// Imports tombstones in one step. Returns `None`, and stores none, if something has changed meanwhile.
async fn bury<W: Writer>(writer: &mut W, given: &Buried) -> Result<Option<Step>> {
    let records: Vec<_> = given.tombstones.iter().map(|tombstone| tombstone.record.clone()).collect();
    let found = find(writer, &records).await?;
    let present = tombstones(writer, &records[..found.count]).await?;
    let (mut erasings, mut unreadable) = (Vec::new(), Vec::new());
    for tombstone in &given.tombstones[..found.count] {
        let (record, hash_key) = (&tombstone.record, &given.hash_key);
        let (present, earlier) = (present.get(record), given.earlier.get(record));
        let bare = || Tombstone { key: None, places: Vec::new(), ..tombstone.clone() };
        let own = || if given.is_own_key { tombstone.clone() } else { bare() };
        // It expired in the other namespace, and expires later here.
        let is_extended = |expires_at: Option<Timestamp>| {
            tombstone.is_of_expiry() && expires_at.is_some_and(|expires_at| expires_at > tombstone.at)
        };
        let (found, tombstone) = match found.get(record) {
            FoundRecord::Memory(found) if is_extended(found.record.expires_at) => continue,
            FoundRecord::Document(found) if is_extended(found.record.expires_at) => continue,
            FoundRecord::Memory(found) => {
                let tombstone = bare().of_memory(&found.record, hash_key);
                (ErasingRecord::Memory(found), present.into_iter().fold(tombstone, Tombstone::behind))
            }
            FoundRecord::Document(found) if tombstone.keeps_out(&found.record) => {
                let tombstone = bare().of_document(&found.record, hash_key);
                (ErasingRecord::Document(found), present.into_iter().fold(tombstone, Tombstone::behind))
            }
            FoundRecord::Unreadable => {
                unreadable.push(record.clone());
                continue;
            }
            // It was put after the erasure, even if it no longer exists.
            FoundRecord::Document(_) => continue,
            FoundRecord::Nothing if earlier.is_some_and(|earlier| earlier.created_at > Some(tombstone.at)) => continue,
            FoundRecord::Nothing => {
                let merged = match present {
                    Some(present) if present.at >= tombstone.at => present.clone().behind(&own()),
                    Some(present) => own().behind(present),
                    None => own(),
                };
                (ErasingRecord::Absent, merged)
            }
        };
        let spaces = earlier.into_iter().flat_map(|earlier| &earlier.spaces);
        let tombstone = tombstone.with_spaces(spaces, hash_key);
        // If the tombstone is unchanged, the record does not exist.
        if present != Some(&tombstone) {
            erasings.push(Erasing { found, tombstone });
        }
    }
    let step = Step { count: found.count, written: erasings.len(), unreadable };
    Ok(super::erase::erase_all(writer, &mut erasings).await?.then_some(step))
}
