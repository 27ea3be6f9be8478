//! Restoring a record with what it was before (H9).

use std::ops::Range;
use std::sync::Arc;

use super::living::View;
use super::restore::{Restored, is_erased, is_later, slices};
use super::{Open, tombstone};
use crate::engine::history::{VersionEntry, no_history};
use crate::engine::session::{Append, Appended, Atomicity, Found, Put, Reader, Writer};
use crate::engine::{Access, Engine};
use crate::{
    Actor, Document, Error, HashKey, MAX_LIMIT, Memory, Outcome, Record, RecordId, RestoreReport, Result, Timestamp,
    TransientKeys, Version,
};

/// Some of the versions of one record.
struct Given {
    versions: Arc<Versions>,
    /// Which of them are written now.
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

/// What is there.
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
            // They are of one record.
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
            // A memory is stored once under its id, however often that is tried; a document that was put and removed since would come back
            // (W11).
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
    /// `InvalidInput` unless they are versions of one record, each later than the one before. `None` where there are none.
    fn check(versions: Vec<Version>) -> Result<Option<Self>> {
        if versions.len() > MAX_LIMIT {
            let count = versions.len();
            return Err(Error::invalid(format!("{count} versions; at most {MAX_LIMIT} are restored in one call")));
        }
        let mut all = Vec::<(Version, Record)>::with_capacity(versions.len());
        for mut version in versions {
            let Some(record) = version.record.take() else {
                return Err(Error::invalid("a removal is no version that can be restored"));
            };
            if version.revision != record.revision() {
                return Err(Error::invalid("a version has another revision than its record"));
            }
            if let Some((_, before)) = all.last() {
                if !is_later(&record, before) {
                    return Err(Error::invalid(
                        "versions to restore are of one record, and each later than the one before",
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
    /// The first of them, where they are of a memory: all have its idempotency key.
    fn first_memory(&self) -> Option<&Memory> {
        match self.all.first() {
            Some((_, Record::Memory(memory))) => Some(memory),
            _ => None,
        }
    }

    /// Which of the versions a record is as a whole.
    fn equal_to(&self, present: &Record) -> Option<usize> {
        self.all.iter().position(|(_, record)| record == present)
    }

    /// Which of the versions a record is but for what is transient, and whether it has all that this one has: of a memory in which transient
    /// members alone have changed, an earlier revision has not (H8). `None` where it is none of them, or has gone another way since.
    fn place_of(&self, present: &Record, commit: &Commit, transient: &TransientKeys) -> Option<(usize, bool)> {
        let is_same = |(_, record): &(Version, Record)| is_same_version(present, record, transient);
        let has_commit =
            |(version, _): &(Version, Record)| version.committed_at == commit.at && version.actor == commit.actor;
        // An update to equal values is a version too, told by its commit. A record that was restored without its versions has that of the
        // restore, which is none of theirs.
        let place = self.all.iter().rposition(|version| is_same(version) && has_commit(version));
        let place = place.or_else(|| self.all.iter().position(is_same).filter(|_| commit.is_first))?;
        let is_behind = |(_, record): &(Version, Record)| record.revision() > present.revision();
        self.all.get(place + 1).is_none_or(is_behind).then(|| (place, !is_behind(&self.all[place])))
    }
}

/// When and by whom the newest version of a record was made, as far as that is known.
#[derive(Default)]
struct Commit {
    at: Option<Timestamp>,
    actor: Option<Actor>,
    /// Whether it made the record, as far as this ledger has it.
    is_first: bool,
}

impl Commit {
    /// That of a record as it was read; `None` where it has changed meanwhile.
    async fn of<R: Reader>(reader: &mut R, present: &Record) -> Result<Option<Self>> {
        let Record::Memory(memory) = present else { return Ok(Some(Self::default())) };
        let Some(newest) = reader.history(&memory.id.into(), u64::MAX, 1).await?.pop() else {
            return Ok(Some(Self { at: reader.stored_at(memory.id).await?, actor: None, is_first: true }));
        };
        let VersionEntry { revision, at, actor, .. } = newest.entry;
        Ok((revision <= memory.revision).then_some(Self { at: Some(at), actor, is_first: false }))
    }
}

/// Whether two records are one memory, and differ in transient members and the revision alone.
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
        let earlier = if report.written > 0 { Outcome::Unknown } else { Outcome::NotDone };
        // They are of one record.
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
    // What was read may change meanwhile.
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
                // One that is another only in what is transient is the same version.
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
                // A document has no other place for the time of its first version than an entry.
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

/// Whether a tombstone has the id of a memory, or keeps a document out (E3).
async fn is_kept_out(reader: &mut impl Reader, record: &Record) -> Result<bool> {
    match record {
        Record::Memory(memory) => Ok(tombstone(reader, &memory.id.into()).await?.is_some()),
        Record::Document(document) => is_erased(reader, document).await,
    }
}
