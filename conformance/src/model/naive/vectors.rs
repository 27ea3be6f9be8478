//! Vectors beside records: which stay, and which go (M2).

use memory_core::{RecordId, Revision};

use super::Naive;

impl Naive {
    /// The revision of a record that is there.
    pub(crate) fn revision_of(&self, record: &RecordId) -> Option<Revision> {
        match record {
            RecordId::Memory(id) => self.get(*id).map(|memory| memory.revision),
            RecordId::Document { collection, id } => self.document(collection, id).map(|document| document.revision),
        }
    }

    /// Keeps the bytes of a vector beside a record while it has this revision, and tells whether it has.
    pub(crate) fn embed(&mut self, record: &RecordId, revision: Revision, vector: Vec<u8>) -> bool {
        let is_present = self.revision_of(record) == Some(revision);
        if is_present {
            self.vectors.insert(record.clone(), vector);
        }
        is_present
    }

    /// What lies beside a record, and of which revision that is by now.
    pub(crate) fn vector(&self, record: &RecordId) -> Option<(Revision, Vec<u8>)> {
        Some((self.revision_of(record)?, self.vectors.get(record)?.clone()))
    }
}
