//! Expiry: what has expired is as if it was erased in that millisecond, whether the engine has swept it or not (X2).

use std::collections::BTreeSet;

use memory_core::{IdempotencyKey, Memory, RecordId, Timestamp};

use super::{Naive, Stone, name_of};
use crate::model::op::Why;

/// Why what has expired is gone.
pub(super) const EXPIRED: Why = Why { reason: "expired", actor: None };
/// How long its tombstones are kept, in milliseconds.
const KEPT: i64 = 90 * 24 * 60 * 60 * 1_000;

impl Naive {
    /// Erases what has expired by now, each in its millisecond, and gives the names (X2). What an engine has swept of these nobody knows.
    pub(crate) fn expire(&mut self, now: Timestamp, keeps_history: bool) -> Vec<RecordId> {
        let memories = self.memories.iter().map(|memory| (memory.expires_at, RecordId::Memory(memory.id)));
        let documents = self.documents.iter().map(|document| (document.expires_at, name_of(document)));
        let over = memories.chain(documents).filter_map(|(end, record)| Some((end.filter(|end| *end <= now)?, record)));
        let over: Vec<_> = over.collect();
        for (end, record) in &over {
            self.erase(record, EXPIRED, *end, keeps_history);
            self.unswept.insert(record.clone());
        }
        over.into_iter().map(|(_, record)| record).collect()
    }

    /// Whether something is there that would show again if the clock went back, or that is to expire.
    pub(crate) fn has_expiry(&self) -> bool {
        !self.unswept.is_empty()
            || self.memories.iter().any(|memory| memory.expires_at.is_some())
            || self.documents.iter().any(|document| document.expires_at.is_some())
    }

    /// What has expired, and may be there still.
    pub(crate) fn unswept(&self) -> &BTreeSet<RecordId> {
        &self.unswept
    }

    /// Whether a key is that of a memory that has expired, and may be there still.
    pub(crate) fn is_unswept_key(&self, key: &IdempotencyKey) -> bool {
        let is_unswept = |memory: &&Memory| self.unswept.contains(&RecordId::Memory(memory.id));
        self.erased_memories().filter(is_unswept).any(|memory| memory.idempotency_key.as_ref() == Some(key))
    }

    /// Takes to be swept what an engine has swept, with its history.
    pub(crate) fn sweep(&mut self, record: &RecordId) {
        if self.unswept.remove(record) {
            self.created.remove(record);
        }
    }

    /// Takes all of it to be swept.
    pub(crate) fn sweep_all(&mut self) {
        for record in std::mem::take(&mut self.unswept) {
            self.created.remove(&record);
        }
    }

    /// Takes the tombstones away whose time is over, and tells how many (X4).
    pub(crate) fn forget(&mut self, now: Timestamp) -> usize {
        let before = self.tombstones.len();
        self.tombstones.retain(|_, stone| !stone.is_of_expiry() || stone.at + KEPT > now.as_millis());
        before - self.tombstones.len()
    }

    /// Whether an erasure has left a tombstone of a document: which of two stays when it expires, too, is up to an engine.
    pub(crate) fn was_erased(&self, record: &RecordId) -> bool {
        self.tombstones.get(record).is_some_and(|stone| !stone.is_of_expiry())
    }
}

impl Stone {
    /// Whether it is of what has expired.
    pub(super) fn is_of_expiry(&self) -> bool {
        self.reason == EXPIRED.reason
    }
}

/// Whether a record that comes with this time has expired already.
pub(super) fn is_over(expires_at: Option<Timestamp>, now: Timestamp) -> bool {
    expires_at.is_some_and(|end| end <= now)
}
