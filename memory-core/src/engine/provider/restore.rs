//! Restoring records exactly as they are given (W12).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::Open;
use crate::engine::history::VersionEntry;
use crate::engine::session::{Append, Appended, Atomicity, Put, Writer};
use crate::engine::{Access, Engine};
use crate::{Collection, Document, DocumentId, Memory, MemoryId, Outcome, RestoreReport, Result, Timestamp};

impl<E: Engine> Open<E> {
    pub(super) async fn restore(&self, memories: Vec<Memory>) -> Result<RestoreReport> {
        let mut report = RestoreReport::default();
        for (start, some) in slices::<E, _>(&memories, Memory::size) {
            let until = self.until();
            let argument = Arc::new((some.to_vec(), self.written_at()));
            let attempt = |_| {
                self.engine.run(Access::Write, until, Arc::clone(&argument), |writer, (some, at)| {
                    Box::pin(restore_memories(writer, some, *at))
                })
            };
            let restored = self.retry().repeatable().run(|error| self.engine.is_temporary(error), attempt).await;
            report.extend(start, restored)?;
        }
        Ok(report)
    }

    pub(super) async fn restore_documents(&self, documents: Vec<Document>) -> Result<RestoreReport> {
        let mut report = RestoreReport::default();
        for (start, some) in slices::<E, _>(&documents, Document::size) {
            let until = self.until();
            let argument = Arc::new((some.to_vec(), self.written_at()));
            let attempt = |_| {
                self.engine.run(Access::Write, until, Arc::clone(&argument), |writer, (some, at)| {
                    Box::pin(restore_documents(writer, some, *at))
                })
            };
            // Never after an unknown outcome: a document that was put and removed since would come back (W11).
            let restored = self.retry().run(|error| self.engine.is_temporary(error), attempt).await;
            report.extend(start, restored)?;
        }
        Ok(report)
    }
}

impl RestoreReport {
    /// Adds what became of the records from a place on. A failure behind a slice that may have been written, also by an attempt whose
    /// answer was lost, leaves the outcome unknown (W11).
    fn extend(&mut self, start: usize, slice: Result<Self>) -> Result<()> {
        let earlier = if self.written + self.equal > 0 { Outcome::Unknown } else { Outcome::NotDone };
        let slice = slice.map_err(|error| error.after(earlier))?;
        self.written += slice.written;
        self.equal += slice.equal;
        self.conflicts.extend(slice.conflicts.iter().map(|place| start + place));
        Ok(())
    }
}

/// The records in slices that one step can restore, each with the place of its first.
fn slices<E: Engine, T>(records: &[T], size: impl Fn(&T) -> usize) -> Vec<(usize, &[T])> {
    let (most, most_bytes) = E::RESTORE;
    let (mut slices, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (place, record) in records.iter().enumerate() {
        bytes += size(record);
        if place > start && (place - start == most || bytes > most_bytes) {
            slices.push((start, &records[start..place]));
            (start, bytes) = (place, size(record));
        }
    }
    if start < records.len() {
        slices.push((start, &records[start..]));
    }
    slices
}

async fn restore_memories(
    writer: &mut impl Writer,
    memories: &[Memory],
    at: Option<Timestamp>,
) -> Result<RestoreReport> {
    let mut report = RestoreReport::default();
    let mut places: Vec<_> = (0..memories.len()).collect();
    // A record whose id or key another one of the slice has comes in a later round, when that one is there or not.
    while !places.is_empty() {
        let (mut ids, mut keys) = (HashSet::new(), HashSet::new());
        let is_first = |place: &usize| {
            let memory = &memories[*place];
            let has_own_key = memory.idempotency_key.as_ref().is_none_or(|key| keys.insert(key));
            ids.insert(memory.id) && has_own_key
        };
        let (round, later): (Vec<_>, Vec<_>) = places.into_iter().partition(is_first);
        places = later;
        let given: Vec<_> = round.iter().map(|place| &memories[*place]).collect();
        let append = Append { memories: &given, atomicity: Atomicity::Each, is_repeated: true, at };
        // An earlier round may have written some.
        let earlier = if report.written > 0 { Outcome::Unknown } else { Outcome::NotDone };
        let appended = writer.append(append).await.map_err(|error| error.after(earlier))?;
        let present = present(writer, &given, &appended).await.map_err(|error| error.after(Outcome::Unknown))?;
        for ((place, memory), appended) in round.into_iter().zip(&given).zip(appended) {
            match appended {
                Appended::Written => report.written += 1,
                Appended::Taken(_) if present.get(&memory.id) == Some(memory) => report.equal += 1,
                Appended::Taken(_) => report.conflicts.push(place),
                Appended::NotWritten => places.push(place),
            }
        }
        places.sort_unstable();
    }
    report.conflicts.sort_unstable();
    Ok(report)
}

/// What is there under the ids of the memories that were not written. What can't be read differs from what is given.
async fn present(
    writer: &mut impl Writer,
    memories: &[&Memory],
    appended: &[Appended],
) -> Result<HashMap<MemoryId, Memory>> {
    let own = memories.iter().zip(appended).filter(|(memory, appended)| **appended == Appended::Taken(memory.id));
    let own: Vec<_> = own.map(|(memory, _)| memory.id).collect();
    let found = if own.is_empty() { HashMap::new() } else { writer.memories(&own).await? };
    Ok(found.into_iter().filter_map(|(id, found)| Some((id, found.ok()?.record))).collect())
}

async fn restore_documents(
    writer: &mut impl Writer,
    documents: &[Document],
    at: Option<Timestamp>,
) -> Result<RestoreReport> {
    let put = |after| Put { before: None, after, entry: at.map(|at| VersionEntry::of_put(None, after, at, None)) };
    let puts: Vec<_> = documents.iter().map(put).collect();
    let put = writer.put_new(&puts).await?;
    let mut taken = BTreeMap::<&Collection, Vec<DocumentId>>::new();
    for (document, _) in documents.iter().zip(&put).filter(|(_, is_put)| !**is_put) {
        taken.entry(&document.collection).or_default().push(document.id.clone());
    }
    let mut present = HashMap::new();
    for (collection, mut ids) in taken {
        ids.sort_unstable();
        ids.dedup();
        let found = writer.documents(collection, &ids).await.map_err(|error| error.after(Outcome::Unknown))?;
        // What can't be read differs from what is given.
        let readable = found.into_iter().filter_map(Result::ok).map(|found| found.record);
        present.extend(readable.map(|document| ((document.collection.clone(), document.id.clone()), document)));
    }
    let mut report = RestoreReport::default();
    for (place, (document, is_put)) in documents.iter().zip(put).enumerate() {
        match present.get(&(document.collection.clone(), document.id.clone())) {
            _ if is_put => report.written += 1,
            Some(present) if present == document => report.equal += 1,
            _ => report.conflicts.push(place),
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, ErrorKind};

    /// An attempt whose answer is lost has written what the next one finds.
    #[test]
    fn a_failure_behind_a_slice_that_is_there_is_unknown() {
        let failure = || Err(Error::new(ErrorKind::Unavailable, "the server is gone"));
        let mut report = RestoreReport::default();
        assert_eq!(report.extend(0, failure()).expect_err("a failure").outcome(), Outcome::NotDone);
        report.extend(0, Ok(RestoreReport { equal: 1, ..RestoreReport::default() })).expect("a slice");
        assert_eq!(report.extend(1, failure()).expect_err("a failure").outcome(), Outcome::Unknown);
    }
}
