//! Expiry: an expired record counts as erased from its millisecond on, whether or not the engine has swept it (X2).

use std::collections::BTreeSet;

use memory_core::{IdempotencyKey, Memory, RecordId, Timestamp};

use super::{Naive, Stone};
use crate::model::op::Why;

/// The reason in the tombstones of expired records.
pub(super) const EXPIRED: Why = Why { reason: "expired", actor: None };
/// How long these tombstones are kept, in milliseconds (X4).
pub(super) const KEPT: i64 = 90 * 24 * 60 * 60 * 1_000;

impl Naive {
    /// Erases every record that has expired by now, each at its own time, and returns their names (X2). The engine may have swept them or
    /// not.
    pub(crate) fn expire(&mut self, now: Timestamp, keeps_history: bool) -> Vec<RecordId> {
        let memories = self.memories.iter().map(|memory| (memory.expires_at, RecordId::Memory(memory.id)));
        let documents = self.documents.iter().map(|document| (document.expires_at, RecordId::from(document)));
        let over = memories.chain(documents).filter_map(|(end, record)| Some((end.filter(|end| *end <= now)?, record)));
        let over: Vec<_> = over.collect();
        for (end, record) in &over {
            self.erase(record, EXPIRED, *end, keeps_history);
            self.unswept.insert(record.clone());
        }
        over.into_iter().map(|(_, record)| record).collect()
    }

    /// Whether a record would show again if the clock went back, or is still to expire.
    pub(crate) fn has_expiry(&self) -> bool {
        !self.unswept.is_empty()
            || self.memories.iter().any(|memory| memory.expires_at.is_some())
            || self.documents.iter().any(|document| document.expires_at.is_some())
    }

    /// Expired records that the engine may still hold.
    pub(crate) fn unswept(&self) -> &BTreeSet<RecordId> {
        &self.unswept
    }

    /// Whether a key belongs to an expired memory that the engine may still hold.
    pub(crate) fn is_unswept_key(&self, key: &IdempotencyKey) -> bool {
        let is_unswept = |memory: &&Memory| self.unswept.contains(&RecordId::Memory(memory.id));
        self.erased_memories().filter(is_unswept).any(|memory| memory.idempotency_key.as_ref() == Some(key))
    }

    /// Notes that the engine has swept a record, with its history.
    pub(crate) fn sweep(&mut self, record: &RecordId) {
        if self.unswept.remove(record) {
            self.created.remove(record);
        }
    }

    /// Notes that the engine has swept every expired record.
    pub(crate) fn sweep_all(&mut self) {
        for record in std::mem::take(&mut self.unswept) {
            self.created.remove(&record);
        }
    }

    /// Removes the tombstones whose time is over, and returns how many (X4).
    pub(crate) fn forget(&mut self, now: Timestamp) -> usize {
        let before = self.tombstones.len();
        self.tombstones.retain(|_, stone| !stone.is_of_expiry() || stone.at + KEPT > now.as_millis());
        before - self.tombstones.len()
    }

    /// Whether a document has the tombstone of an erasure. If it expires as well, an engine may keep either tombstone.
    pub(crate) fn was_erased(&self, record: &RecordId) -> bool {
        self.tombstones.get(record).is_some_and(|stone| !stone.is_of_expiry())
    }
}

impl Stone {
    /// Whether it is the tombstone of an expired record.
    pub(super) fn is_of_expiry(&self) -> bool {
        self.reason == EXPIRED.reason
    }
}

/// Whether a record with this expiry has already expired.
pub(super) fn is_over(expires_at: Option<Timestamp>, now: Timestamp) -> bool {
    expires_at.is_some_and(|end| end <= now)
}
