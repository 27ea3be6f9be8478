//! Vectors beside records, and when they are removed (M2).

use memory_core::{RecordId, Revision};

use super::Naive;

impl Naive {
    /// The revision of a record; `None` if it does not exist.
    pub(crate) fn revision_of(&self, record: &RecordId) -> Option<Revision> {
        match record {
            RecordId::Memory(id) => self.get(*id).map(|memory| memory.revision),
            RecordId::Document { collection, id } => self.document(collection, id).map(|document| document.revision),
        }
    }

    /// Stores the bytes of a vector beside a record if it has this revision, and returns whether it has.
    pub(crate) fn embed(&mut self, record: &RecordId, revision: Revision, vector: Vec<u8>) -> bool {
        let is_present = self.revision_of(record) == Some(revision);
        if is_present {
            self.vectors.insert(record.clone(), vector);
        }
        is_present
    }

    /// The revision of a record, and the bytes of its vector; `None` if it has no vector.
    pub(crate) fn vector(&self, record: &RecordId) -> Option<(Revision, Vec<u8>)> {
        Some((self.revision_of(record)?, self.vectors.get(record)?.clone()))
    }
}
