//! Expiry, and sweeps.

use memory_core::{Collection, Document, DocumentId, DocumentWrite, Expect, Revision, Sweep, Swept, Timestamp};

use super::{Sides, Step};
use crate::fixture::{at, document_id};
use crate::model::op::{Since, Write};

/// More slices than any round has.
const MANY_SLICES: usize = 10_000;

impl Sides {
    /// The time from which expiries are counted: now, if the engine can erase.
    pub(super) fn ends(&self) -> Since {
        self.can_erase().then(|| self.now())
    }

    /// The put. A document with the tombstone of an erasure gets no expiry when it is put again, since either tombstone might stay after
    /// that.
    pub(super) fn write(&self, write: &Write) -> DocumentWrite {
        let mut write = write.to_write(self.ends());
        if write.id.as_ref().is_some_and(|id| self.was_erased(&write.collection, id)) {
            write.expires_at = None;
        }
        write
    }

    /// The document of a put, as one to restore.
    pub(super) fn restored_document(&self, write: &Write) -> Document {
        let new = self.write(write);
        // Here the expectation of the put says whether the document was changed before.
        let is_changed = new.expect != Expect::Any;
        let id = new.id.unwrap_or_else(|| document_id("restored"));
        Document {
            expires_at: new.expires_at.filter(|_| !self.was_erased(&new.collection, &id)),
            id,
            collection: new.collection,
            space_id: new.space_id,
            content: new.content,
            metadata: new.metadata,
            created_at: new.created_at,
            updated_at: is_changed.then(|| at(7)),
            revision: Revision::new(if is_changed { 2 } else { 1 }).expect("a valid revision"),
        }
    }

    fn was_erased(&self, collection: &Collection, id: &DocumentId) -> bool {
        self.model.was_erased(&(collection.clone(), id.clone()).into())
    }

    /// Sets the clock. It goes back only if nothing expires, since expired records that were not swept would show again.
    pub(super) fn set_clock(&mut self, time: Timestamp) {
        let time = if self.model.has_expiry() { time.max(self.now()) } else { time };
        self.stage.namespace().clock.set(time);
        for record in self.model.expire(time, self.stage.harness().keeps_history()) {
            // A watch that delivered a record before its expiry may deliver the sweep, or not.
            for begun in &mut self.watches {
                begun.replica.forget(&record);
            }
        }
    }

    /// Sweeps a slice or a whole round through one handle. Another call may have swept some of the records before.
    pub(super) async fn sweep(&mut self, handle: usize, is_due: bool, to_the_end: bool) -> Step {
        let (mut next, mut taken) = (if is_due { Sweep::due() } else { Sweep::all() }, 0);
        for _ in 0..MANY_SLICES {
            let swept = self.engine(handle).sweep(&next).await;
            let Swept { records, tombstones, next: behind } = swept.map_err(|error| format!("sweep: {error:?}"))?;
            let is_right = records.len() <= 100
                && records.is_sorted_by(|one, next| one < next)
                && records.iter().all(|record| self.model.unswept().contains(record));
            if !is_right {
                let over = self.model.unswept();
                return Err(format!("sweep: a slice is\n  {records:#?}\nand what is over is\n  {over:#?}"));
            }
            records.iter().for_each(|record| self.model.sweep(record));
            taken += tombstones;
            match behind {
                None => return self.end_of_round(is_due, taken),
                // The names of the tombstones that the round has removed so far are unknown.
                Some(_) if is_due && !to_the_end => return Ok(()),
                Some(behind) => next = behind,
            }
        }
        Err("sweep: a round does not come to an end".to_owned())
    }

    /// Checks that no expired record is left, and after a full round no tombstone whose time has passed.
    fn end_of_round(&mut self, is_due: bool, taken: usize) -> Step {
        self.model.sweep_all();
        let expected = if is_due { 0 } else { self.model.forget(self.now()) };
        match taken == expected {
            true => Ok(()),
            false => Err(format!("sweep: a round has taken {taken} tombstones away, and should have {expected}")),
        }
    }
}
