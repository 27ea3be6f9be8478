//! Restores a record together with its earlier versions (H9).

use std::ops::Range;
use std::sync::Arc;

use super::by_id::tombstone;
use super::living::View;
use super::open::Open;
use super::restore::{Restored, is_erased, is_later, slices};
use crate::engine::history::{VersionEntry, no_history};
use crate::engine::session::{Append, Appended, Atomicity, Found, Put, Reader, Writer};
use crate::engine::{Access, Engine};
use crate::{
    Actor, Document, Error, HashKey, MAX_LIMIT, Memory, Outcome, Record, RecordId, RestoreReport, Result, Timestamp,
    TransientKeys, Version,
};

/// A slice of the versions of one record.
struct Given {
    versions: Arc<Versions>,
    /// The places of the versions that this step writes.
    range: Range<usize>,
    transient: TransientKeys,
    now: Timestamp,
    /// Makes the hashes of idempotency keys, if the engine can erase.
    hash_key: Option<HashKey>,
}

/// Versions of one record, oldest first.
struct Versions {
    id: RecordId,
    all: Vec<(Version, Record)>,
}

/// What is stored under the id of the versions.
enum Present<V> {
    Nothing,
    Memory(Found<Memory, V>),
    Document(Found<Document, V>),
}

impl<E: Engine> Open<E> {
    pub(super) async fn restore_versions(&self, versions: Vec<Version>) -> Result<RestoreReport> {
        let mut report = RestoreReport::default();
        let Some(versions) = Versions::check(versions)?.map(Arc::new) else { return Ok(report) };
        self.history_since().await?.ok_or_else(no_history)?;
        self.check_erases(versions.all.iter().map(|(_, record)| record.expires_at()))?;
        let hash_key = self.hash_key_of(versions.first_memory().as_slice()).await?;
        for (start, some) in slices::<E, _>(&versions.all, |(_, record)| record.size()) {
            // All versions are of one record, so all stay erased.
            if !report.erased.is_empty() {
                report.erased.extend(start..start + some.len());
                continue;
            }
            let until = self.until();
            let (range, now) = (start..start + some.len(), self.settings.clock.now());
            let transient = self.settings.history.transient.clone();
            let given =
                Arc::new(Given { versions: Arc::clone(&versions), range, transient, now, hash_key: hash_key.clone() });
            let attempt = |_| {
                self.in_session(View::of_all(Access::Write), until, Arc::clone(&given), |writer, given| {
                    Box::pin(restore(writer, given))
                })
            };
            // Its id makes repeated attempts store a memory once; a document that was put and removed since would come
            // back (W11).
            let retry = match versions.id {
                RecordId::Memory(_) => self.retry().repeatable(),
                RecordId::Document { .. } => self.retry(),
            };
            let restored = retry.run(|error| self.engine.is_temporary(error), attempt).await;
            report.extend(start, restored)?;
        }
        Ok(report)
    }
}

impl Versions {
    /// Checks that they are versions of one record, each later than the one before; else `InvalidInput`. `None` if
    /// there are none.
    fn check(versions: Vec<Version>) -> Result<Option<Self>> {
        if versions.len() > MAX_LIMIT {
            let count = versions.len();
            return Err(Error::invalid(format!("{count} versions; at most {MAX_LIMIT} are restored in one call")));
        }
        let mut all = Vec::<(Version, Record)>::with_capacity(versions.len());
        for mut version in versions {
            let Some(record) = version.record.take() else {
                return Err(Error::invalid("a removal can't be restored as a version"));
            };
            if version.revision != record.revision() {
                return Err(Error::invalid("the revision of a version differs from that of its record"));
            }
            if let Some((_, before)) = all.last() {
                if !is_later(&record, before) {
                    return Err(Error::invalid(
                        "versions to restore must belong to one record, each later than the one before",
                    ));
                }
                if version.committed_at.is_none() {
                    return Err(Error::invalid("only the first version may lack the time of its commit"));
                }
            }
            all.push((version, record));
        }
        Ok(all.first().map(|(_, first)| first.id()).map(|id| Self { id, all }))
    }
}

impl Versions {
    /// Returns the first version if it is of a memory; all versions have its idempotency key.
    fn first_memory(&self) -> Option<&Memory> {
        match self.all.first() {
            Some((_, Record::Memory(memory))) => Some(memory),
            _ => None,
        }
    }

    /// Returns the place of the version that equals a record.
    fn equal_to(&self, present: &Record) -> Option<usize> {
        self.all.iter().position(|(_, record)| record == present)
    }

    /// Returns the place of the version that equals a record except for transient members, and whether the record is at
    /// that version's revision or later: updates of transient members alone raise the revision without a version (H8).
    /// `None` if it equals none of them, or has been changed otherwise since.
    fn place_of(&self, present: &Record, commit: &Commit, transient: &TransientKeys) -> Option<(usize, bool)> {
        let is_same = |(_, record): &(Version, Record)| is_same_version(present, record, transient);
        let has_commit =
            |(version, _): &(Version, Record)| version.committed_at == commit.at && version.actor == commit.actor;
        // An update that sets equal values is a version too, identified by its commit. A record that was restored
        // without versions has the commit of the restore, which none of them has.
        let place = self.all.iter().rposition(|version| is_same(version) && has_commit(version));
        let place = place.or_else(|| self.all.iter().position(is_same).filter(|_| commit.is_first))?;
        let is_behind = |(_, record): &(Version, Record)| record.revision() > present.revision();
        self.all.get(place + 1).is_none_or(is_behind).then(|| (place, !is_behind(&self.all[place])))
    }
}

/// The commit of a record's newest version, as far as known.
#[derive(Default)]
struct Commit {
    at: Option<Timestamp>,
    actor: Option<Actor>,
    /// Whether this is the first version that this ledger has of the record.
    is_first: bool,
}

impl Commit {
    /// Returns the commit of a record as it was read; `None` if the record has changed meanwhile.
    async fn of<R: Reader>(reader: &mut R, present: &Record) -> Result<Option<Self>> {
        let Record::Memory(memory) = present else { return Ok(Some(Self::default())) };
        let Some(newest) = reader.history(&memory.id.into(), u64::MAX, 1).await?.pop() else {
            return Ok(Some(Self { at: reader.stored_at(memory.id).await?, actor: None, is_first: true }));
        };
        let VersionEntry { revision, at, actor, .. } = newest.entry;
        Ok((revision <= memory.revision).then_some(Self { at: Some(at), actor, is_first: false }))
    }
}

/// Returns whether two records are the same memory and differ only in transient members and the revision.
fn is_same_version(one: &Record, other: &Record, transient: &TransientKeys) -> bool {
    let (Record::Memory(one), Record::Memory(other)) = (one, other) else { return false };
    let lasting = |memory: &Memory| transient.strip(&memory.metadata).ok();
    let Memory { metadata, revision, updated_at, .. } = other.clone();
    lasting(one) == lasting(other) && Memory { metadata, revision, updated_at, ..one.clone() } == *other
}

impl<V> Present<V> {
    async fn read<R: Reader<Version = V>>(reader: &mut R, id: &RecordId) -> Result<Self> {
        match id {
            RecordId::Memory(id) => {
                let found = reader.memories(&[*id]).await?.remove(id).transpose()?;
                Ok(found.map_or(Self::Nothing, Self::Memory))
            }
            RecordId::Document { collection, id } => {
                let found = reader.documents(collection, std::slice::from_ref(id)).await?.pop().transpose()?;
                Ok(found.map_or(Self::Nothing, Self::Document))
            }
        }
    }

    fn record(&self) -> Option<Record> {
        match self {
            Self::Nothing => None,
            Self::Memory(found) => Some(Record::Memory(found.record.clone())),
            Self::Document(found) => Some(Record::Document(found.record.clone())),
        }
    }
}

async fn restore<W: Writer>(writer: &mut W, given: &Given) -> Result<RestoreReport> {
    let mut report = RestoreReport::default();
    for place in given.range.clone() {
        let earlier = Outcome::unknown_if(report.written > 0);
        // All versions are of one record, so all stay erased.
        let restored = match report.erased.is_empty() {
            true => restore_one(writer, given, place).await.map_err(|error| error.after(earlier))?,
            false => Restored::Erased,
        };
        report.count(place - given.range.start, restored);
    }
    Ok(report)
}

async fn restore_one<W: Writer>(writer: &mut W, given: &Given, place: usize) -> Result<Restored> {
    let (versions, now) = (&*given.versions, given.now);
    let (version, record) = &versions.all[place];
    let (at, actor) = (version.committed_at, version.actor.clone());
    // The stored record may change after it was read, so this repeats.
    loop {
        let present = Present::read(writer, &versions.id).await?;
        let found = match present.record() {
            None => None,
            Some(record) => match versions.equal_to(&record) {
                Some(there) => Some(Some((there, true))),
                None => {
                    let Some(commit) = Commit::of(writer, &record).await? else { continue };
                    Some(versions.place_of(&record, &commit, &given.transient))
                }
            },
        };
        let stands = match found {
            None if place == 0 => None,
            Some(Some((there, _))) if place < there => return Ok(Restored::Equal),
            Some(Some((there, true))) if place == there => return Ok(Restored::Equal),
            Some(Some((there, _))) if place <= there + 1 => Some(there),
            None if is_kept_out(writer, record).await? => return Ok(Restored::Erased),
            _ => return Ok(Restored::Conflict),
        };
        let is_written = match (&present, record) {
            (Present::Memory(found), Record::Memory(after)) => {
                // If only transient members differ, it is the same version and gets no entry.
                let at = at.filter(|_| stands != Some(place));
                let entry = at.map(|at| VersionEntry::of_update(&found.record, after, at, actor.clone()));
                writer.replace(found, after, entry.as_ref()).await?
            }
            (_, Record::Memory(memory)) => {
                let append = Append {
                    memories: &[memory],
                    atomicity: Atomicity::Each,
                    is_repeated: true,
                    at,
                    hash_key: given.hash_key.as_ref(),
                };
                match writer.append(append).await?.first() {
                    Some(Appended::Written) => true,
                    Some(Appended::Erased) => return Ok(Restored::Erased),
                    // Another memory has its key.
                    Some(Appended::Taken(owner)) if *owner != memory.id => return Ok(Restored::Conflict),
                    _ => false,
                }
            }
            (present, Record::Document(after)) => {
                let before = if let Present::Document(found) = present { Some(found) } else { None };
                // The commit time of a document's first version can only be stored in an entry.
                let (found, at) = (before.map(|found| &found.record), at.unwrap_or(now));
                let entry = Some(VersionEntry::of_put(found, after, at, actor.clone()));
                let is_put = writer.put(&[Put { before, after, entry, is_guarded: true }]).await?;
                if !is_put && is_erased(writer, after).await? {
                    return Ok(Restored::Erased);
                }
                is_put
            }
        };
        if is_written {
            return Ok(Restored::Written);
        }
    }
}

/// Returns whether a tombstone has a memory's id, or keeps a document out (E3).
async fn is_kept_out(reader: &mut impl Reader, record: &Record) -> Result<bool> {
    match record {
        Record::Memory(memory) => Ok(tombstone(reader, &memory.id.into()).await?.is_some()),
        Record::Document(document) => is_erased(reader, document).await,
    }
}
