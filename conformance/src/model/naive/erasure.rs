//! Erasure: the records that it removes, what stays of them, and what can't come back (E1 to E3).

use std::collections::{BTreeMap, BTreeSet};

use memory_core::{Collection, Document, ErrorKind, IdempotencyKey, Memory, MemoryId, Record, RecordId, Timestamp};

use super::expiry::EXPIRED;
use super::{Answer, Naive, Stone};
use crate::model::op::{Ask, Question, Why};

impl Naive {
    /// The records that an erasure by name takes: those that exist, removed documents that still have a history, and expired records that
    /// still have a tombstone (E1).
    pub(crate) fn to_erase(&self, records: &[RecordId], keeps_history: bool) -> BTreeSet<RecordId> {
        let is_there = |record: &RecordId| match record {
            RecordId::Memory(id) => self.get(*id).is_some(),
            RecordId::Document { collection, id } => {
                self.document(collection, id).is_some() || keeps_history && self.history.contains_key(record)
            }
        };
        let has_expired = |record: &RecordId| self.tombstones.get(record).is_some_and(Stone::is_of_expiry);
        records.iter().filter(|record| is_there(record) || has_expired(record)).cloned().collect()
    }

    /// The memories that an erasure by a query takes (E1).
    pub(crate) fn memories_to_erase(&self, question: &Question, excluded: &[MemoryId]) -> Answer<BTreeSet<RecordId>> {
        if question.statuses.is_empty() {
            refuse_everything(&question.ask)?;
        }
        let found = self.found_memories(question, excluded)?;
        Ok(found.into_iter().map(|memory| RecordId::Memory(memory.id)).collect())
    }

    /// The documents that an erasure by a query takes (E1).
    pub(crate) fn documents_to_erase(&self, collection: &Collection, ask: &Ask) -> Answer<BTreeSet<RecordId>> {
        refuse_everything(ask)?;
        Ok(self.found_documents(collection, ask)?.into_iter().map(RecordId::from).collect())
    }

    /// Erases a record with its history, and leaves a tombstone (E1, E2).
    pub(crate) fn erase(&mut self, record: &RecordId, why: Why, now: Timestamp, keeps_history: bool) {
        let memory = self.memories.iter().position(|memory| RecordId::Memory(memory.id) == *record);
        let document = self.documents.iter().position(|document| RecordId::from(document) == *record);
        let memory = memory.map(|place| self.memories.remove(place));
        let document = document.map(|place| self.documents.remove(place));
        self.history.remove(record);
        self.vectors.remove(record);
        let has_key = memory.as_ref().is_some_and(|memory| memory.idempotency_key.is_some())
            || self.tombstones.get(record).is_some_and(|stone| stone.has_key);
        // The tombstone of an expired record keeps out no put (X4).
        let created_at = match why.reason == EXPIRED.reason {
            true => None,
            false => self.latest_of(record, document.as_ref(), keeps_history),
        };
        self.unswept.remove(record);
        let earlier = self.tombstones.get(record).map(|stone| stone.at);
        let at = [created_at, earlier].into_iter().flatten().fold(now.as_millis(), i64::max);
        let (reason, actor) = (why.reason.to_owned(), why.actor.map(str::to_owned));
        self.tombstones.insert(record.clone(), Stone { at, reason, actor, has_key });
        self.erased.extend(memory.map(Record::Memory));
        self.erased.extend(document.map(Record::Document));
    }

    /// The latest createdAt that an erasure must keep out under a name, even if it is after the clock (E3): that of the
    /// document itself, expired or not, of those in its history, and of one that was erased before.
    fn latest_of(&mut self, record: &RecordId, document: Option<&Document>, keeps_history: bool) -> Option<i64> {
        let is_over = |other: &&Record| self.unswept.contains(record) && other.id() == *record;
        let over = self.erased.iter().rev().find(is_over).and_then(|record| match record {
            Record::Document(document) => Some(document),
            Record::Memory(_) => None,
        });
        let created_at = document.or(over).map(|document| document.created_at.as_millis());
        created_at.max(self.created.remove(record).filter(|_| keeps_history))
    }

    /// The tombstone of each erased record.
    pub(crate) fn tombstones(&self) -> &BTreeMap<RecordId, Stone> {
        &self.tombstones
    }

    /// The erased records, as they were.
    pub(crate) fn erased(&self) -> &[Record] {
        &self.erased
    }

    pub(super) fn erased_memories(&self) -> impl Iterator<Item = &Memory> {
        self.erased.iter().filter_map(|record| match record {
            Record::Memory(memory) => Some(memory),
            Record::Document(_) => None,
        })
    }

    pub(super) fn has_erased_key(&self, key: Option<&IdempotencyKey>) -> bool {
        // Once its tombstone is gone, an id may come again with another key: the last memory with the id counts.
        let last =
            |record: &RecordId| self.erased_memories().filter(|memory| RecordId::Memory(memory.id) == *record).last();
        let is_its_key = |record| last(record).is_some_and(|memory| memory.idempotency_key.as_ref() == key);
        key.is_some() && self.tombstones.iter().any(|(record, stone)| stone.has_key && is_its_key(record))
    }

    /// Whether the document was created before the erasure that its tombstone records.
    pub(super) fn keeps_out(&self, document: &Document) -> bool {
        let stone = self.tombstones.get(&RecordId::from(document));
        stone.is_some_and(|stone| document.created_at.as_millis() <= stone.at)
    }
}

/// Refuses to erase all spaces without a condition (E1).
fn refuse_everything(ask: &Ask) -> Answer<()> {
    let is_everything = ask.spaces.is_empty() && ask.filter.is_none() && ask.text.is_none();
    if is_everything { Err(ErrorKind::InvalidInput) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use memory_core::{NewMemory, SpaceId, Trigger};

    use super::*;
    use crate::model::naive::expiry::KEPT;

    #[test]
    fn a_key_is_free_once_its_tombstone_is_gone() {
        let (mut model, key) = (Naive::default(), IdempotencyKey::parse("k").expect("valid"));
        let (space, trigger) = (SpaceId::parse("a").expect("valid"), Trigger::parse("1").expect("valid"));
        let now = |millis| Timestamp::from_millis(millis).expect("valid");
        let new = NewMemory::new(space, trigger, now(0)).with_idempotency_key(key.clone());
        model.store_many(vec![new], &[], now(0)).expect("stored");
        let memory = model.memories()[0].clone();
        let record = RecordId::Memory(memory.id);
        model.erase(&record, EXPIRED, now(0), true);
        assert!(model.has_erased_key(Some(&key)));
        assert_eq!(model.forget(now(KEPT)), 1);
        assert!(!model.has_erased_key(Some(&key)));
        // The id comes again without the key, and is erased again.
        model.restore(vec![Memory { idempotency_key: None, ..memory }], now(KEPT));
        model.erase(&record, EXPIRED, now(KEPT), true);
        assert!(!model.has_erased_key(Some(&key)));
    }
}
