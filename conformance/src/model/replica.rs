//! The state that a consumer builds from the changes of a watch.

use std::collections::{BTreeMap, BTreeSet};

use memory_core::{ChangeKind, Record, RecordId};

use super::naive::json;

/// The records that a watch has delivered and that still exist.
#[derive(Debug, Clone, Default)]
pub(crate) struct Replica {
    records: BTreeMap<RecordId, Held>,
    /// Every record that the watch has delivered.
    told: BTreeSet<RecordId>,
    /// The records that the watch has delivered as erased.
    erased: BTreeSet<RecordId>,
}

#[derive(Debug, Clone)]
struct Held {
    revision: u64,
    json: String,
}

impl Replica {
    /// Adds a record that was there before the watch began.
    pub(crate) fn hold(&mut self, record: &Record) {
        let (revision, json) = match record {
            Record::Memory(memory) => (memory.revision.get(), json(memory)),
            Record::Document(document) => (document.revision.get(), json(document)),
        };
        self.records.insert(record.id(), Held { revision, json });
    }

    /// Applies the next change. `Err` says how it breaks C1 or C3.
    pub(crate) fn apply(&mut self, kind: &ChangeKind) -> Result<(), String> {
        match kind {
            ChangeKind::Stored(record) | ChangeKind::Updated(record) => {
                let id = record.id();
                let last = self.records.get(&id).map(|held| held.revision);
                self.hold(record);
                let now = self.records[&id].revision;
                if matches!(kind, ChangeKind::Stored(_)) != (now == 1) {
                    return Err(format!("at revision {now} it is told as {kind:?}"));
                }
                if last.is_some_and(|last| last > now) {
                    return Err(format!("revision {now} of {id:?} comes behind {last:?}"));
                }
                self.told.insert(id);
            }
            ChangeKind::Removed(id) | ChangeKind::Left(id) => {
                self.records.remove(id);
                self.told.insert(id.clone());
            }
            ChangeKind::Erased(id) => {
                self.records.remove(id);
                self.erased.insert(id.clone());
            }
            ChangeKind::Reached | ChangeKind::Progress => {}
            kind => return Err(format!("a sound record is told as {kind:?}")),
        }
        Ok(())
    }

    /// Removes a record whose erasure the watch does not deliver.
    pub(crate) fn forget(&mut self, record: &RecordId) {
        self.records.remove(record);
    }

    /// The records as JSON, in byte order.
    pub(crate) fn records(&self) -> Vec<&str> {
        let mut records: Vec<_> = self.records.values().map(|held| held.json.as_str()).collect();
        records.sort_unstable();
        records
    }

    /// Every record that the watch has delivered since it began.
    pub(crate) fn told(&self) -> impl Iterator<Item = &RecordId> {
        self.told.iter()
    }

    /// Every record that the watch has delivered as erased.
    pub(crate) fn erased(&self) -> impl Iterator<Item = &RecordId> {
        self.erased.iter()
    }
}
