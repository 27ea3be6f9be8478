//! Restoring a record with what it was before (H9).

use std::ops::Range;
use std::sync::Arc;

use super::Open;
use super::restore::{Restored, is_later, slices};
use crate::engine::history::{VersionEntry, no_history};
use crate::engine::session::{Append, Appended, Atomicity, Found, Put, Reader, Writer};
use crate::engine::{Access, Engine};
use crate::{Document, Error, MAX_LIMIT, Memory, Outcome, Record, RecordId, RestoreReport, Result, Version};

/// Some of the versions of one record.
struct Given {
    versions: Arc<Versions>,
    /// Which of them are written now.
    range: Range<usize>,
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
        for (start, some) in slices::<E, _>(&versions.all, |(_, record)| record.size()) {
            let until = self.until();
            let given = Given { versions: Arc::clone(&versions), range: start..start + some.len() };
            let given = Arc::new(given);
            let attempt = |_| {
                self.engine
                    .run(Access::Write, until, Arc::clone(&given), |writer, given| Box::pin(restore(writer, given)))
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
        report.count(
            place - given.range.start,
            restore_one(writer, given, place).await.map_err(|error| error.after(earlier))?,
        );
    }
    Ok(report)
}

async fn restore_one<W: Writer>(writer: &mut W, given: &Given, place: usize) -> Result<Restored> {
    let Versions { id, all } = &*given.versions;
    let (version, record) = &all[place];
    // What was read may change meanwhile.
    loop {
        let present = Present::read(writer, id).await?;
        let present_record = present.record();
        if present_record.is_some() && all[place..].iter().any(|(_, later)| Some(later) == present_record.as_ref()) {
            return Ok(Restored::Equal);
        }
        if present_record.as_ref() != place.checked_sub(1).map(|before| &all[before].1) {
            return Ok(Restored::Conflict);
        }
        let (at, actor) = (version.committed_at, version.actor.clone());
        let is_written = match (&present, record) {
            (Present::Memory(found), Record::Memory(after)) => {
                let entry = at.map(|at| VersionEntry::of_update(&found.record, after, at, actor));
                writer.replace(found, after, entry.as_ref()).await?
            }
            (Present::Document(found), Record::Document(after)) => {
                let entry = at.map(|at| VersionEntry::of_put(Some(&found.record), after, at, actor));
                writer.put(&[Put { before: Some(found), after, entry }]).await?
            }
            (_, Record::Document(after)) => {
                let entry = at.map(|at| VersionEntry::of_put(None, after, at, actor));
                writer.put(&[Put { before: None, after, entry }]).await?
            }
            (_, Record::Memory(memory)) => {
                let append = Append { memories: &[memory], atomicity: Atomicity::Each, is_repeated: true, at };
                match writer.append(append).await?.first() {
                    Some(Appended::Written) => true,
                    // Another memory has its key.
                    Some(Appended::Taken(owner)) if *owner != memory.id => return Ok(Restored::Conflict),
                    _ => false,
                }
            }
        };
        if is_written {
            return Ok(Restored::Written);
        }
    }
}
