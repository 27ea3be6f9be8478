//! Changes that watches have read and not delivered. If all of them exceed the limit, those held longest are dropped;
//! their watches read them again.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::progress::Progress;
use crate::ChangeKind;
use crate::watch::{MAX_HELD_BYTES, MAX_WATCHES};

/// Approximate memory of a change besides its record, in bytes.
const BYTES_OF_CHANGE: usize = 256;

/// A change, with the watch's progress after its delivery.
pub(super) type Due = (Progress, ChangeKind);

/// The undelivered changes of all watches of a provider.
#[derive(Debug, Default)]
pub(super) struct Held(Mutex<Pages>);

#[derive(Debug, Default)]
struct Pages {
    bytes: usize,
    /// Oldest first. Pages that were delivered are gone.
    pages: VecDeque<Weak<Page>>,
}

/// The undelivered changes of one page. They count towards the limit until all are delivered, or dropped.
pub(super) struct Page {
    held: Arc<Held>,
    /// How many of its bytes count towards the limit.
    bytes: AtomicUsize,
    /// `None` once the changes were dropped.
    due: Mutex<Option<VecDeque<Due>>>,
}

/// The error of a page whose changes were dropped.
#[derive(Debug)]
pub(super) struct LetGo;

impl Held {
    /// Adds the changes of a page, and drops older pages to make room.
    pub(super) fn page(self: &Arc<Self>, due: Vec<Due>) -> Arc<Page> {
        let bytes: usize = due.iter().map(|(_, kind)| bytes_of(kind)).sum();
        let page = Page { held: Arc::clone(self), bytes: bytes.into(), due: Mutex::new(Some(due.into())) };
        let page = Arc::new(page);
        if bytes == 0 {
            return page;
        }
        // Freed after the lock is released, because dropping the last owner of a page takes the lock.
        let mut gone = Vec::new();
        let mut pages = lock(&self.0);
        pages.bytes += bytes;
        while pages.bytes > MAX_HELD_BYTES
            && let Some(oldest) = pages.pages.pop_front()
        {
            if let Some(oldest) = oldest.upgrade() {
                pages.bytes -= oldest.bytes.swap(0, Ordering::Relaxed);
                gone.push((oldest.let_go(), oldest));
            }
        }
        // Each watch has one page, and may be reading another.
        if pages.pages.len() > 4 * MAX_WATCHES {
            pages.pages.retain(|page| page.strong_count() > 0);
        }
        pages.pages.push_back(Arc::downgrade(&page));
        drop(pages);
        page
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        lock(&self.0).bytes
    }
}

impl Page {
    /// Takes the next change, if one is left.
    pub(super) fn pop(&self) -> Result<Option<Due>, LetGo> {
        let (next, is_last) = {
            let mut due = lock(&self.due);
            let due = due.as_mut().ok_or(LetGo)?;
            (due.pop_front(), due.is_empty())
        };
        if is_last {
            self.release();
        }
        Ok(next)
    }

    /// Adds the last change of the page.
    pub(super) fn push(&self, last: Due) {
        if let Some(due) = &mut *lock(&self.due) {
            due.push_back(last);
        }
    }

    /// Returns whether there is nothing to deliver.
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.due).as_ref().is_some_and(VecDeque::is_empty)
    }

    /// Takes all changes, unless all were delivered.
    fn let_go(&self) -> Option<VecDeque<Due>> {
        lock(&self.due).take_if(|due| !due.is_empty())
    }

    fn release(&self) {
        let bytes = self.bytes.swap(0, Ordering::Relaxed);
        if bytes > 0 {
            lock(&self.held.0).bytes -= bytes;
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.release();
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

fn bytes_of(kind: &ChangeKind) -> usize {
    let of_record = match kind {
        ChangeKind::Stored(record) | ChangeKind::Updated(record) => record.size(),
        _ => 0,
    };
    BYTES_OF_CHANGE + of_record
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
