//! The end of the feed, shared by all watches of a provider: one task reads it and waits for the engine, as long as a
//! watch is open.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, SemaphorePermit, watch};
use tokio::time::{sleep, timeout};

use super::held::Held;
use super::{Shared, after};
use crate::engine::session::Reader;
use crate::engine::{Access, Engine, FeedEntry, FeedPage, FeedPosition};
use crate::{Error, ErrorKind, MAX_WATCHES, Result};

/// Number of sessions that all watches use at once, so that other calls find one however many watches a change wakes;
/// and how many of these read a snapshot, which examines many records and may wait for a permit (L8), so that live
/// watches find one.
const SESSIONS: usize = 4;
const OF_SNAPSHOTS: usize = 2;
/// Number of entries that a watch takes at once.
pub(super) const PAGE: usize = 256;
/// Number of entries kept for watches that are a little behind.
const RECENT: usize = 1_024;
/// How long the task rests after each page, so that rapid changes wake the watches less often.
const REST: Duration = Duration::from_millis(10);
/// Maximum time that the task waits for the engine before it reads again, and the extra time for an engine that has not
/// returned by then: the server that it listens to may be silent while another one serves reads.
const LONGEST_WAIT: Duration = Duration::from_secs(8);
const OVERDUE: Duration = Duration::from_secs(2);
/// How long it waits after the engine failed to wait.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// The entries that the task has read last, and the state that watches share.
#[derive(Debug)]
pub(super) struct Tail {
    /// `None` while no task runs.
    recent: Mutex<Option<Recent>>,
    /// Has a receiver for each watch. Notifies of new entries, and of the end of the task.
    news: watch::Sender<()>,
    closing: Notify,
    /// The changes that watches have read and not delivered.
    pub(super) held: Arc<Held>,
    /// Permits for watches, for sessions, and for sessions of snapshots.
    watches: Arc<Semaphore>,
    sessions: Semaphore,
    of_snapshots: Semaphore,
}

/// The entries after one position and up to another.
#[derive(Debug)]
struct Recent {
    behind: FeedPosition,
    entries: VecDeque<Arc<FeedEntry>>,
    reached: FeedPosition,
}

/// Some entries, and the position that they reach.
#[derive(Debug)]
pub(super) struct Entries {
    pub(super) entries: Vec<Arc<FeedEntry>>,
    pub(super) reached: FeedPosition,
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

    /// Returns the next entries after a position; none at the end. `None` if the kept entries don't go back so far.
    pub(super) fn entries(&self, behind: &FeedPosition) -> Option<Entries> {
        let recent = self.recent();
        let recent = recent.as_ref().filter(|recent| recent.behind <= *behind)?;
        // A watch that has read the feed itself may be ahead.
        let end = (&recent.reached).max(behind);
        let begin = recent.entries.partition_point(|entry| entry.position <= *behind);
        let entries: Vec<_> = recent.entries.range(begin..).take(PAGE).cloned().collect();
        let reached = match entries.last() {
            Some(last) if begin + entries.len() < recent.entries.len() => &last.position,
            _ => end,
        };
        Some(Entries { reached: reached.clone(), entries })
    }

    /// Ends the task, so that each watch checks again and finds the provider closed.
    pub(super) fn close(&self) {
        self.closing.notify_one();
        self.news.send_replace(());
    }

    /// Starts the task at the end of the feed, unless it runs already.
    pub(super) fn follow<E: Engine>(shared: &Arc<Shared<E>>, end: &FeedPosition) {
        let mut recent = shared.tail.recent();
        if recent.is_none() {
            *recent = Some(Recent { behind: end.clone(), entries: VecDeque::new(), reached: end.clone() });
            tokio::spawn(follow(Following(Arc::clone(shared)), end.clone()));
        }
    }

    fn add(&self, page: FeedPage) {
        if let Some(recent) = &mut *self.recent() {
            recent.entries.extend(page.entries.into_iter().map(Arc::new));
            recent.reached = page.reached;
            while recent.entries.len() > RECENT
                && let Some(oldest) = recent.entries.pop_front()
            {
                recent.behind = oldest.position.clone();
            }
        }
        self.news.send_replace(());
    }

    fn recent(&self) -> MutexGuard<'_, Option<Recent>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: Engine> Shared<E> {
    /// Reads the next entries of the feed.
    pub(super) async fn changes(&self, behind: &FeedPosition, most: usize) -> Result<FeedPage> {
        let asked = (behind.clone(), most);
        let work = async {
            let open = self.ready().await?;
            open.run(Access::ReadLatest, asked, |reader, (behind, most)| Box::pin(reader.changes(behind, *most))).await
        };
        self.gate.read("watch", work).await
    }
}

/// Held by the task. When the task ends, each watch reads the feed itself, and the first that finds nothing new starts
/// another task.
struct Following<E: Engine>(Arc<Shared<E>>);

impl<E: Engine> Drop for Following<E> {
    fn drop(&mut self) {
        *self.0.tail.recent() = None;
        if let Ok(open) = self.0.open() {
            open.engine.unwatched();
        }
        self.0.tail.news.send_replace(());
    }
}

/// Reads the end of the feed until no watch is open, the provider is closed, or the engine fails, which each watch then
/// finds out itself.
async fn follow<E: Engine>(following: Following<E>, mut end: FeedPosition) {
    let shared = &following.0;
    loop {
        let Ok(page) = shared.changes(&end, RECENT).await else { return };
        if page.reached > end {
            end = page.reached.clone();
            shared.tail.add(page);
            sleep(REST).await;
            continue;
        }
        let Ok(open) = shared.open() else { return };
        let changed = async {
            let changed = open.engine.changed(&end, after(LONGEST_WAIT));
            if let Ok(Err(_)) = timeout(LONGEST_WAIT + OVERDUE, changed).await {
                sleep(AFTER_FAILURE).await;
            }
        };
        tokio::select! {
            () = shared.tail.news.closed() => return,
            () = shared.tail.closing.notified() => return,
            () = changed => {}
        }
    }
}
