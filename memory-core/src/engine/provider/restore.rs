//! Restores records exactly as given (W12, W13).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use super::by_id::tombstone;
use super::living::View;
use super::open::Open;
use crate::engine::gate::record_rows;
use crate::engine::history::VersionEntry;
use crate::engine::session::{Append, Appended, Atomicity, Found, MemoriesFound, Put, Reader, Writer};
use crate::engine::{Access, Engine};
use crate::expiry::Lifetimes;
use crate::{
    Collection, Document, DocumentId, ErrorKind, HashKey, Memory, Outcome, Record, RestoreReport, Result, Timestamp,
};

/// What happens to a stored record that differs from the given one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Present {
    /// It stays (W12).
    Stays,
    /// It is replaced by a later version (W13).
    GivesWay,
}

/// Records to restore, with the values that a restore needs.
struct Given<T> {
    records: Vec<T>,
    present: Present,
    /// The time of the restore, for history entries.
    at: Option<Timestamp>,
    /// Makes the hashes of idempotency keys, if some memories have one and the engine can erase.
    hash_key: Option<HashKey>,
    lifetimes: Lifetimes,
}

/// The result of restoring one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Restored {
    Written,
    Equal,
    Conflict,
    /// The record stays erased (E3), or has expired (X2).
    Erased,
    /// An expired document blocks it, and must be swept first.
    BehindSweep,
}

impl<E: Engine> Open<E> {
    pub(super) async fn restore(&self, memories: Vec<Memory>, present: Present) -> Result<RestoreReport> {
        self.check_erases(memories.iter().map(|memory| memory.expires_at))?;
        let (mut report, hash_key) = (RestoreReport::default(), self.hash_key_of(&memories).await?);
        let lifetimes = self.lifetimes().await?;
        for (start, some) in slices::<E, _>(&memories, Memory::size) {
            let until = self.until();
            let argument = Arc::new(Given {
                records: some.to_vec(),
                present,
                at: self.written_at().await?,
                hash_key: hash_key.clone(),
                lifetimes: lifetimes.clone(),
            });
            let attempt = |_| {
                self.in_session(View::of_all(Access::Write), until, Arc::clone(&argument), |writer, given| {
                    Box::pin(restore_memories(writer, given))
                })
            };
            let restored = self.retry().repeatable().run(|error| self.engine.is_temporary(error), attempt).await;
            report.extend(start, restored)?;
        }
        record_rows(report.written);
        Ok(report)
    }

    pub(super) async fn restore_documents(&self, documents: Vec<Document>, present: Present) -> Result<RestoreReport> {
        self.check_erases(documents.iter().map(|document| document.expires_at))?;
        let (mut report, lifetimes) = (RestoreReport::default(), self.lifetimes().await?);
        for (start, some) in slices::<E, _>(&documents, Document::size) {
            let until = self.until();
            let at = self.written_at().await?;
            let mut places: Vec<_> = (start..start + some.len()).collect();
            loop {
                let records = places.iter().map(|place| documents[*place].clone()).collect();
                let given = Given { records, present, at, hash_key: None, lifetimes: lifetimes.clone() };
                let mut behind = Vec::new();
                let restored = self.restore_slice(given, until).await.map(|(restored, over)| {
                    behind = over;
                    restored.of_places(&places)
                });
                report.extend(0, restored)?;
                if behind.is_empty() {
                    break;
                }
                places = behind.into_iter().map(|place| places[place]).collect();
                let in_the_way = places.iter().map(|place| (&documents[*place]).into()).collect();
                let swept = self.expire(in_the_way, until).await.map(|_| RestoreReport::default());
                report.extend(0, swept)?;
            }
        }
        report.conflicts.sort_unstable();
        report.erased.sort_unstable();
        record_rows(report.written);
        Ok(report)
    }

    /// Restores documents. Returns the places of those that an expired document blocks; the report does not count
    /// these.
    async fn restore_slice(&self, given: Given<Document>, until: Instant) -> Result<(RestoreReport, Vec<usize>)> {
        let given = Arc::new(given);
        let attempt = |_| {
            self.in_session(View::of_all(Access::Write), until, Arc::clone(&given), |writer, given| {
                Box::pin(restore_documents(writer, given))
            })
        };
        // Never retried after an unknown outcome: a document that was put and removed since would come back (W11).
        self.retry().run(|error| self.engine.is_temporary(error), attempt).await
    }
}

impl RestoreReport {
    /// Adds the result of a slice that starts at a place. If an earlier slice may have been written, also by an attempt
    /// whose answer was lost, a failure has an unknown outcome (W11).
    pub(super) fn extend(&mut self, start: usize, slice: Result<Self>) -> Result<()> {
        let earlier = Outcome::unknown_if(self.written + self.equal > 0);
        let slice = slice.map_err(|error| error.after(earlier))?;
        self.written += slice.written;
        self.equal += slice.equal;
        self.conflicts.extend(slice.conflicts.iter().map(|place| start + place));
        self.erased.extend(slice.erased.iter().map(|place| start + place));
        Ok(())
    }

    /// Maps the places of the report to these places.
    fn of_places(mut self, places: &[usize]) -> Self {
        for place in self.conflicts.iter_mut().chain(&mut self.erased) {
            *place = places[*place];
        }
        self
    }

    pub(super) fn count(&mut self, place: usize, restored: Restored) {
        match restored {
            Restored::Written => self.written += 1,
            Restored::Equal => self.equal += 1,
            Restored::Conflict => self.conflicts.push(place),
            Restored::Erased => self.erased.push(place),
            // It is restored again, and counted then.
            Restored::BehindSweep => {}
        }
    }
}

/// Splits records into slices that one step can restore, each with the place of its first record.
pub(super) fn slices<E: Engine, T>(records: &[T], size: impl Fn(&T) -> usize) -> Vec<(usize, &[T])> {
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

async fn restore_memories(writer: &mut impl Writer, given: &Given<Memory>) -> Result<RestoreReport> {
    let (memories, mut report) = (&given.records, RestoreReport::default());
    let is_over = |place: &usize| given.lifetimes.end_of_memory(&memories[*place]).is_some();
    let (over, mut places): (Vec<_>, Vec<_>) = (0..memories.len()).partition(is_over);
    report.erased = over;
    // A record with the same id or key as another one of the slice waits for a later round, when the other one is
    // decided.
    while !places.is_empty() {
        let (mut ids, mut keys) = (HashSet::new(), HashSet::new());
        let is_first = |place: &usize| {
            let memory = &memories[*place];
            let has_own_key = memory.idempotency_key.as_ref().is_none_or(|key| keys.insert(key));
            ids.insert(memory.id) && has_own_key
        };
        let (round, later): (Vec<_>, Vec<_>) = places.into_iter().partition(is_first);
        places = later;
        let some: Vec<_> = round.iter().map(|place| &memories[*place]).collect();
        let (at, hash_key) = (given.at, given.hash_key.as_ref());
        let append = Append { memories: &some, atomicity: Atomicity::Each, is_repeated: true, at, hash_key };
        // An earlier round may have written some.
        let earlier = Outcome::unknown_if(report.written > 0);
        let appended = writer.append(append).await.map_err(|error| error.after(earlier))?;
        let present = present(writer, &appended).await.map_err(|error| error.after(Outcome::Unknown))?;
        for ((place, memory), appended) in round.into_iter().zip(&some).zip(appended) {
            let restored = match appended {
                Appended::Written => Some(Restored::Written),
                Appended::Erased => Some(Restored::Erased),
                Appended::NotWritten => None,
                Appended::Taken(owner) => match present.get(&owner) {
                    // After a sweep, its tombstone would have the key (X2).
                    Some(Ok(found)) if owner != memory.id => match given.lifetimes.end_of_memory(&found.record) {
                        Some(_) => Some(Restored::Erased),
                        None => Some(Restored::Conflict),
                    },
                    Some(Ok(found)) => {
                        let met = given.meets(writer, found, memory);
                        met.await.map_err(|error| error.after(Outcome::Unknown))?
                    }
                    // It was erased in between; the next round finds that out.
                    None if owner == memory.id => None,
                    // Another memory has its key, or the stored memory can't be read.
                    _ => Some(Restored::Conflict),
                },
            };
            match restored {
                Some(restored) => report.count(place, restored),
                None => places.push(place),
            }
        }
        places.sort_unstable();
    }
    report.conflicts.sort_unstable();
    report.erased.sort_unstable();
    Ok(report)
}

/// Reads the memories that block those that were not written.
async fn present<R: Reader>(reader: &mut R, appended: &[Appended]) -> Result<MemoriesFound<R::Version>> {
    let owners = appended.iter().filter_map(|appended| match appended {
        Appended::Taken(owner) => Some(*owner),
        Appended::Written | Appended::NotWritten | Appended::Erased => None,
    });
    let owners: Vec<_> = owners.collect();
    if owners.is_empty() { Ok(HashMap::new()) } else { reader.memories(&owners).await }
}

/// Also returns the places of documents that an expired one blocks.
async fn restore_documents<W: Writer>(writer: &mut W, given: &Given<Document>) -> Result<(RestoreReport, Vec<usize>)> {
    let is_over = |place: &usize| given.lifetimes.end_of_document(&given.records[*place]).is_some();
    let (over, places): (Vec<_>, Vec<_>) = (0..given.records.len()).partition(is_over);
    let documents: Vec<_> = places.iter().map(|place| &given.records[*place]).collect();
    let puts: Vec<_> = documents.iter().map(|document| given.put(None, document)).collect();
    let put = writer.put_new(&puts).await?;
    // Before the first write a failure is known to have done nothing, so the restore is repeated (W11).
    let mut earlier = Outcome::unknown_if(put.contains(&true));
    let mut taken = BTreeMap::<&Collection, Vec<DocumentId>>::new();
    for (document, _) in documents.iter().zip(&put).filter(|(_, is_put)| !**is_put) {
        taken.entry(&document.collection).or_default().push(document.id.clone());
    }
    let mut present = HashMap::new();
    for (collection, mut ids) in taken {
        ids.sort_unstable();
        ids.dedup();
        let found = writer.documents(collection, &ids).await.map_err(|error| error.after(earlier))?;
        // A document that can't be read differs from the given one.
        let readable = found.into_iter().filter_map(Result::ok);
        present.extend(readable.map(|found| ((collection, found.record.id.clone()), found)));
    }
    let (mut report, mut behind) = (RestoreReport { erased: over, ..RestoreReport::default() }, Vec::new());
    for (place, (document, is_put)) in places.into_iter().zip(documents.iter().zip(put)) {
        let restored = match is_put {
            true => Restored::Written,
            false => {
                let found = present.remove(&(&document.collection, document.id.clone()));
                given.meets(writer, found, document).await.map_err(|error| error.after(earlier))?
            }
        };
        if restored == Restored::Written {
            earlier = Outcome::Unknown;
        }
        match restored {
            Restored::BehindSweep => behind.push(place),
            restored => report.count(place, restored),
        }
    }
    Ok((report, behind))
}

impl Given<Memory> {
    /// Decides about a memory whose id is stored; `None` if the stored one has changed since it was read.
    async fn meets<W: Writer>(
        &self,
        writer: &mut W,
        found: &Found<Memory, W::Version>,
        memory: &Memory,
    ) -> Result<Option<Restored>> {
        match self.present {
            _ if found.record == *memory => Ok(Some(Restored::Equal)),
            Present::GivesWay if is_later_memory(memory, &found.record) => {
                let entry = self.at.map(|at| VersionEntry::of_update(&found.record, memory, at, None));
                Ok(writer.replace(found, memory, entry.as_ref()).await?.then_some(Restored::Written))
            }
            _ if self.lifetimes.end_of_memory(&found.record).is_some() => Ok(Some(Restored::Erased)),
            _ => Ok(Some(Restored::Conflict)),
        }
    }
}

impl Given<Document> {
    /// Makes the put of a document over the stored one, with its history entry.
    fn put<'a, V>(&self, before: Option<&'a Found<Document, V>>, after: &'a Document) -> Put<'a, V> {
        let entry = |at| VersionEntry::of_put(before.map(|found| &found.record), after, at, None);
        Put { before, after, entry: self.at.map(entry), is_guarded: true }
    }

    /// Decides about a document whose id was taken. Reads the stored one again if it has changed, or if another
    /// document of the slice was already compared with it.
    async fn meets<W: Writer>(
        &self,
        writer: &mut W,
        mut found: Option<Found<Document, W::Version>>,
        document: &Document,
    ) -> Result<Restored> {
        loop {
            let before = match found.take() {
                Some(found) => Some(found),
                None => match read_document(writer, document).await? {
                    Some(Err(_)) => return Ok(Restored::Conflict),
                    found => found.and_then(Result::ok),
                },
            };
            match before.as_ref().map(|found| &found.record) {
                Some(present) if present == document => return Ok(Restored::Equal),
                Some(present) if self.present == Present::Stays || !is_later_document(document, present) => {
                    return Ok(match self.lifetimes.end_of_document(present) {
                        None => Restored::Conflict,
                        // As its tombstone would keep it out, or not (E3).
                        Some(end) if document.created_at <= end => Restored::Erased,
                        Some(_) => Restored::BehindSweep,
                    });
                }
                // The stored document was removed since.
                None if is_erased(writer, document).await? => return Ok(Restored::Erased),
                None if self.present == Present::Stays => return Ok(Restored::Conflict),
                _ => {}
            }
            if writer.put(&[self.put(before.as_ref(), document)]).await? {
                return Ok(Restored::Written);
            }
            // A document that was put after an erasure is not replaced by a version from before it.
            if is_erased(writer, document).await? {
                return Ok(Restored::Erased);
            }
        }
    }
}

/// Returns whether a tombstone keeps a document out (E3).
pub(super) async fn is_erased(reader: &mut impl Reader, document: &Document) -> Result<bool> {
    let record = document.into();
    Ok(tombstone(reader, &record).await?.is_some_and(|tombstone| tombstone.keeps_out(document)))
}

/// Reads the stored document with the same id; an inner error if it can't be read.
async fn read_document<R: Reader>(
    reader: &mut R,
    document: &Document,
) -> Result<Option<Result<Found<Document, R::Version>>>> {
    let found = reader.documents(&document.collection, std::slice::from_ref(&document.id)).await?.pop();
    match found {
        Some(Err(error)) if error.kind() != ErrorKind::Corrupt => Err(error),
        found => Ok(found),
    }
}

/// Returns whether a record is a later version of the stored one.
pub(super) fn is_later(record: &Record, present: &Record) -> bool {
    match (record, present) {
        (Record::Memory(memory), Record::Memory(present)) => {
            memory.id == present.id && is_later_memory(memory, present)
        }
        (Record::Document(document), Record::Document(present)) => {
            (&document.collection, &document.id) == (&present.collection, &present.id)
                && is_later_document(document, present)
        }
        _ => false,
    }
}

/// Returns whether a memory is a later version of the stored one: the immutable fields are equal (W6).
fn is_later_memory(memory: &Memory, present: &Memory) -> bool {
    memory.revision > present.revision
        && memory.space_id == present.space_id
        && memory.trigger == present.trigger
        && memory.created_at == present.created_at
        && memory.idempotency_key == present.idempotency_key
}

/// Returns whether a document is a later version of the stored one. A document that was removed and put again is
/// another one, unless it has the same createdAt.
fn is_later_document(document: &Document, present: &Document) -> bool {
    document.revision > present.revision && document.created_at == present.created_at
}

#[cfg(test)]
mod tests {
    use super::super::store::tests::Blind;
    use super::*;
    use crate::{Content, Error, ErrorKind, Metadata, Revision, SpaceId};

    fn document(id: &str) -> Document {
        Document {
            id: DocumentId::parse(id).expect("valid"),
            collection: Collection::parse("notes").expect("valid"),
            space_id: SpaceId::parse("a").expect("valid"),
            content: Content::parse("text").expect("valid"),
            metadata: Metadata::default(),
            created_at: Timestamp::MIN,
            updated_at: None,
            expires_at: None,
            revision: Revision::FIRST,
        }
    }

    /// What has written nothing is repeated.
    #[tokio::test]
    async fn a_restore_that_fails_is_unknown_once_it_has_written() {
        let mut writer = Blind::default();
        let mut restore = async |ids: &[&str]| {
            let records = ids.iter().map(|id| document(id)).collect();
            let lifetimes = Lifetimes { now: Timestamp::MIN, rules: Arc::default() };
            let given = Given { records, present: Present::Stays, at: None, hash_key: None, lifetimes };
            restore_documents(&mut writer, &given).await.map_err(|error| error.outcome())
        };
        assert_eq!(restore(&["a"]).await.expect("nothing is in the way").0.written, 1);
        assert_eq!(restore(&["a"]).await, Err(Outcome::NotDone));
        assert_eq!(restore(&["b", "a"]).await, Err(Outcome::Unknown));
    }

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
