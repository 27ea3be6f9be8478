//! The end of the feed, shared by all watches of a provider.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, SemaphorePermit, watch};

use super::held::Held;
use crate::engine::{FeedEntry, FeedPage, FeedPosition, Timeline};
use crate::{Error, ErrorKind, MAX_WATCHES, Result};

/// Number of sessions that all watches use at once, so that other calls find one however many watches a change wakes;
/// and how many of these read a snapshot, which examines many records and may wait for a permit (L8), so that live
/// watches find one.
const SESSIONS: usize = 4;
const OF_SNAPSHOTS: usize = 2;
/// Number of entries that a watch takes at once.
pub(super) const PAGE: usize = 256;
/// Number of entries kept for watches that are a little behind.
pub(super) const RECENT: usize = 1_024;

/// The entries that the task has read last, and the state that watches share.
#[derive(Debug)]
pub(super) struct Tail {
    /// `None` while no task runs.
    recent: Mutex<Option<Recent>>,
    /// Has a receiver for each watch. Notifies of new entries, and of the end of the task.
    pub(super) news: watch::Sender<()>,
    pub(super) closing: Notify,
    /// The changes that watches have read and not delivered.
    pub(super) held: Arc<Held>,
    /// Permits for watches, for sessions, and for sessions of snapshots.
    watches: Arc<Semaphore>,
    sessions: Semaphore,
    of_snapshots: Semaphore,
}

/// The entries after one position and up to another, read on one timeline.
#[derive(Debug)]
struct Recent {
    on: Timeline,
    behind: FeedPosition,
    entries: VecDeque<Arc<FeedEntry>>,
    reached: FeedPosition,
    seen: FeedPosition,
}

/// Some entries, and the position that they reach.
#[derive(Debug)]
pub(super) struct Entries {
    pub(super) entries: Vec<Arc<FeedEntry>>,
    pub(super) reached: FeedPosition,
    /// The end of the feed after they were read.
    pub(super) seen: FeedPosition,
}

impl Default for Tail {
    fn default() -> Self {
        let (recent, news, closing, held) = Default::default();
        let watches = Arc::new(Semaphore::new(MAX_WATCHES));
        let (sessions, of_snapshots) = (Semaphore::new(SESSIONS), Semaphore::new(OF_SNAPSHOTS));
        Self { recent, news, closing, held, watches, sessions, of_snapshots }
    }
}

impl Tail {
    /// Counts a watch until the permit is dropped. Fails with `LimitExceeded` if [`MAX_WATCHES`] are open.
    pub(super) fn count(&self) -> Result<OwnedSemaphorePermit> {
        Arc::clone(&self.watches).try_acquire_owned().map_err(|_| {
            let message = format!("{MAX_WATCHES} watches are open; no more are allowed at once");
            Error::new(ErrorKind::LimitExceeded, message)
        })
    }

    /// Waits for a session of a watch, first come, first served. Taken before the gate: a shutdown blocks new calls at
    /// the gate until earlier ones have ended, and these must not wait for a session of a blocked one.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.sessions.acquire().await.ok()
    }

    /// Like [`turn`](Self::turn), for a page of a snapshot.
    pub(super) async fn turn_of_snapshot(&self) -> [Option<SemaphorePermit<'_>>; 2] {
        [self.of_snapshots.acquire().await.ok(), self.turn().await]
    }

    /// Returns the receiver that tells a watch to check again.
    pub(super) fn subscribe(&self) -> watch::Receiver<()> {
        self.news.subscribe()
    }

    /// Returns the next entries after a position on a timeline; none at the end. `None` if the kept entries don't go
    /// back so far, or were read on another timeline.
    pub(super) fn entries(&self, behind: &FeedPosition, on: &Timeline) -> Option<Entries> {
        let recent = self.recent();
        let recent = recent.as_ref().filter(|recent| recent.behind <= *behind && recent.on == *on)?;
        // A watch that has read the feed itself may be ahead.
        let end = (&recent.reached).max(behind);
        let begin = recent.entries.partition_point(|entry| entry.position <= *behind);
        let entries: Vec<_> = recent.entries.range(begin..).take(PAGE).cloned().collect();
        let reached = match entries.last() {
            Some(last) if begin + entries.len() < recent.entries.len() => &last.position,
            _ => end,
        };
        Some(Entries { reached: reached.clone(), entries, seen: recent.seen.clone() })
    }

    /// Ends the task, so that each watch checks again and finds the provider closed.
    pub(super) fn close(&self) {
        self.closing.notify_one();
        self.wake();
    }

    /// Adds the next page, and the end of the feed after it was read.
    pub(super) fn add(&self, page: FeedPage, seen: FeedPosition) {
        if let Some(recent) = &mut *self.recent() {
            recent.entries.extend(page.entries.into_iter().map(Arc::new));
            (recent.reached, recent.seen) = (page.reached, seen);
            while recent.entries.len() > RECENT
                && let Some(oldest) = recent.entries.pop_front()
            {
                recent.behind = oldest.position.clone();
            }
        }
        self.wake();
    }

    /// Begins to keep entries from a position on; `false` if they are kept already.
    pub(super) fn begin(&self, end: &FeedPosition, on: &Timeline) -> bool {
        let mut recent = self.recent();
        let begins = recent.is_none();
        if begins {
            let (on, entries) = (on.clone(), VecDeque::new());
            let [behind, reached, seen] = [(); 3].map(|()| end.clone());
            *recent = Some(Recent { on, behind, entries, reached, seen });
        }
        begins
    }

    /// Drops the entries, so that each watch reads the feed itself.
    pub(super) fn forget(&self) {
        *self.recent() = None;
    }

    /// Wakes all watches.
    pub(super) fn wake(&self) {
        self.news.send_replace(());
    }

    fn recent(&self) -> MutexGuard<'_, Option<Recent>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
