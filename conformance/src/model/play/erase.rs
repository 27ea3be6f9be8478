//! Erasures, and what remains.

use std::collections::BTreeSet;

use memory_core::{
    Actor, DocumentQuery, ErasedSlice, Erasure, ErrorKind, Memory, MemoryId, Record, RecordId, Result, Tombstone,
};

use super::{Asked, EVERYTHING, PAGES, Sides, Step, UNKNOWN, same};
use crate::fixture::collection;
use crate::model::naive::{Answer, Stone};
use crate::model::op::{Slices, Whose, Why};

impl Sides {
    pub(super) fn can_erase(&self) -> bool {
        self.stage.harness().can_erase()
    }

    /// Erases records by name: those that exist, removed documents with their history, and expired records. The others
    /// are skipped.
    pub(super) async fn erase_records(&mut self, handle: usize, whose: &[Whose], has_unknown: bool, why: Why) -> Step {
        let named = whose.iter().filter_map(|whose| self.record_id(whose));
        let records: Vec<_> = named.chain(has_unknown.then_some(RecordId::Memory(UNKNOWN))).collect();
        let model = match records.is_empty() {
            true => Err(ErrorKind::InvalidInput),
            false => Ok(self.model.to_erase(&records, self.keeps_history())),
        };
        let engine = match Erasure::records(records, why.reason) {
            Ok(erasure) => self.engine(handle).erase(&why.told_of(erasure)).await,
            Err(error) => Err(error),
        };
        let gone = model.clone().unwrap_or_default();
        // A single slice, in ascending order.
        let model = model.map(|records: BTreeSet<_>| (records.into_iter().collect::<Vec<_>>(), true));
        same("erase", engine.map(|slice| (slice.records, slice.is_complete)), model)?;
        self.bury(gone, why);
        Ok(())
    }

    /// Erases what a query finds, slice after slice, through the handles in turn. Which records a slice takes is up to the engine.
    pub(super) async fn erase_found(&mut self, handle: usize, asked: &Asked<'_>, slices: Slices, why: Why) -> Step {
        let model = self.to_erase(asked);
        // Large enough that the slices come to an end soon.
        let limit = slices.limit.max(model.iter().flatten().count() / PAGES + 1);
        let erasure = match (erasure(asked, limit, why), model) {
            (Ok(erasure), Ok(_)) => erasure,
            (engine, model) => return same("erase", engine.map(|_| BTreeSet::new()), model),
        };
        for number in handle.. {
            let left = self.to_erase(asked).unwrap_or_default();
            let slice = self.engine(number).erase(&erasure).await;
            let mut slice = slice.map_err(|error| format!("erase: {error:?}"))?;
            let may_be_more = !self.model.unswept().is_empty();
            let over = self.take_over(&mut slice);
            check(&slice, &over, may_be_more, &left, limit)?;
            self.bury(slice.records.into_iter().chain(over), why);
            if slice.is_complete || !slices.to_the_end {
                break;
            }
        }
        Ok(())
    }

    /// Takes the expired records out of a slice: an erasure may find them as well.
    fn take_over(&self, slice: &mut ErasedSlice) -> Vec<RecordId> {
        let is_over = |record: &RecordId| self.model.unswept().contains(record);
        let (over, records) = std::mem::take(&mut slice.records).into_iter().partition(is_over);
        slice.records = records;
        over
    }

    /// Restores an erased record, which must be left out: under its own id, and for a memory with a key also under another id.
    pub(super) async fn restore_erased(&mut self, handle: usize, slot: usize, has_new_id: bool) -> Step {
        let erased = self.model.erased();
        let Some(place) = slot.checked_rem(erased.len()) else { return Ok(()) };
        match erased[place].clone() {
            Record::Memory(memory) => {
                let id = if has_new_id { MemoryId::generate() } else { memory.id };
                self.restore(handle, vec![Memory { id, ..memory }], false).await
            }
            Record::Document(document) => self.restore_documents(handle, vec![document]).await,
        }
    }

    /// Compares the tombstone of a record, or its absence.
    pub(super) async fn tombstone(&self, handle: usize, record: &RecordId) -> Step {
        let engine = self.engine(handle).tombstone(record).await;
        let model = self.model.tombstones().get(record).cloned();
        if self.model.unswept().contains(record) {
            // While an expired record is not swept, the engine may have no tombstone of it; of one that it has, only the reason is compared.
            let reason = |stone: Option<Stone>| stone.map(|stone| stone.reason);
            let engine = engine.map(|tombstone| reason(tombstone.as_ref().map(stone)).or(reason(model.clone())));
            return same("tombstone", engine, Ok(reason(model)));
        }
        same("tombstone", engine.map(|tombstone| tombstone.as_ref().map(stone)), Ok(model))
    }

    /// Compares the tombstones of everything erased.
    pub(super) async fn compare_erased(&self) -> Step {
        if !self.can_erase() {
            return Ok(());
        }
        let (mut found, mut behind) = (BTreeSet::<RecordId>::new(), None::<String>);
        loop {
            let page = self.engine(0).tombstones(behind.as_deref()).await;
            let page = page.map_err(|error| format!("tombstones: {error:?}"))?;
            found.extend(page.tombstones.into_iter().map(|tombstone| tombstone.record));
            behind = page.next;
            if behind.is_none() {
                break;
            }
        }
        // Expired records that were not swept may have no tombstone yet.
        found.extend(self.model.unswept().iter().cloned());
        same("tombstones", Ok(found), Ok(self.model.tombstones().keys().cloned().collect()))?;
        for (number, record) in self.model.tombstones().keys().take(EVERYTHING).enumerate() {
            self.tombstone(number, record).await?;
            self.history(number, record, 3, true).await?;
            if let RecordId::Memory(id) = record {
                self.get(number, *id).await?;
            }
        }
        Ok(())
    }

    fn keeps_history(&self) -> bool {
        self.stage.harness().keeps_history()
    }

    /// The records that an erasure by a query takes.
    fn to_erase(&self, asked: &Asked<'_>) -> Answer<BTreeSet<RecordId>> {
        match asked {
            Asked::Ledger { question, excluded } => self.model.memories_to_erase(question, excluded),
            Asked::Documents { name, ask } => self.model.documents_to_erase(&collection(name), ask),
        }
    }

    /// Erases in the model what the engine has erased, and in the replicas of watches that do not deliver it.
    fn bury(&mut self, records: impl IntoIterator<Item = RecordId>, why: Why) {
        let (now, keeps_history) = (self.now(), self.keeps_history());
        for record in records {
            // Only its history shows where a document was before.
            let is_told = keeps_history || matches!(record, RecordId::Memory(_));
            for begun in &mut self.watches {
                if !is_told || !self.model.hears_of_erasure(&record, &begun.watching) {
                    begun.replica.forget(&record);
                }
            }
            self.model.erase(&record, why, now, keeps_history);
        }
    }
}

fn erasure(asked: &Asked<'_>, limit: usize, why: Why) -> Result<Erasure> {
    let erasure = match asked {
        Asked::Ledger { question, excluded } => Erasure::memories(question.build(excluded), why.reason),
        Asked::Documents { name, ask } => {
            Erasure::documents(ask.build(DocumentQuery::builder(collection(name))), why.reason)
        }
    };
    Ok(why.told_of(erasure?.limit(limit)?))
}

/// Checks that a slice holds some of the remaining records, and that `is_complete` says whether these are all. It may
/// hold expired records, too, or leave them.
fn check(slice: &ErasedSlice, over: &[RecordId], may_be_more: bool, left: &BTreeSet<RecordId>, limit: usize) -> Step {
    let ErasedSlice { records, is_complete } = slice;
    let is_some = records.len() + over.len() <= limit
        && records.is_sorted_by(|one, next| one < next)
        && records.iter().all(|record| left.contains(record));
    let is_all = records.len() == left.len();
    let is_right = if *is_complete { is_all } else { !is_all || may_be_more };
    let has_any = *is_complete || !records.is_empty() || !over.is_empty();
    if is_some && is_right && has_any {
        return Ok(());
    }
    Err(format!("erase: a slice of at most {limit} is\n  {slice:#?}\nand {over:#?}\nof what is left\n  {left:#?}"))
}

fn stone(tombstone: &Tombstone) -> Stone {
    Stone {
        at: tombstone.at.as_millis(),
        reason: tombstone.reason.as_str().to_owned(),
        actor: tombstone.actor.as_ref().map(Actor::as_str).map(str::to_owned),
        has_key: tombstone.key.is_some(),
    }
}
