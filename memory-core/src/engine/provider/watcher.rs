//! A watch: the snapshot, if it begins with one, and then the feed.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::watch::Receiver;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::Instrument;

use super::held::{self, LetGo};
use super::living::LivingWork;
use super::open::Shared;
use super::progress::{FeedProgress, Part, Progress};
use super::running::ended;
use super::tail::Entries;
use super::tell;
use crate::engine::session::Reader;
use crate::engine::{Access, Engine, FeedEnd, Timeline};
use crate::{Change, ChangeKind, Changes, Result, Watch, WatchFrom};
use steps::{Listed, Page, Step, Steps};

mod steps;

/// Interval at which a watch without changes sends a token (C2).
pub const HEARTBEAT: Duration = Duration::from_secs(15);
/// How long a new watch waits at most for writes that are held back, which it would otherwise deliver although they
/// were visible before.
const SETTLING: Duration = Duration::from_secs(2);
/// Pause before it checks again; it doubles each time.
const UNSETTLED: Duration = Duration::from_millis(10);

/// Pause before a step is repeated because another timeline has begun, for storage whose timeline alternates.
const REPLACED: Duration = Duration::from_millis(10);

/// The state of a watch. It advances when the stream is polled.
pub(super) struct Watcher<E: Engine> {
    steps: Arc<Steps<E>>,
    /// The progress once everything that is due is delivered.
    progress: Progress,
    /// The changes to deliver next.
    due: Arc<held::Page>,
    /// The progress without them.
    behind: Progress,
    /// The timeline on which the storage had everything that was delivered.
    on: Timeline,
    /// The collections that the snapshot has not reached. Those created later are in the feed.
    listed: Listed,
    /// Whether it has delivered everything that was there when it began.
    is_caught_up: bool,
    /// The step in progress, if any. It continues while nobody polls the stream, so that it returns the session that it
    /// has taken; it ends with the stream.
    step: JoinSet<Result<(Page, Arc<held::Page>)>>,
    news: Receiver<()>,
    _counted: OwnedSemaphorePermit,
}

impl<E: Engine> Watcher<E> {
    /// Begins a watch. Fails with `FeedReset` if the feed does not go back to its token, and with `LimitExceeded` if
    /// too many watches are open.
    pub(super) async fn begin(shared: &Arc<Shared<E>>, watch: &Watch) -> Result<Self> {
        let begun = async {
            let (counted, open) = (shared.tail.count()?, shared.ready().await?);
            let key = open.key.clone();
            let behind = match watch.begins() {
                WatchFrom::Token(token) => Some(Progress::open(token, &key, &watch.fingerprint)?),
                WatchFrom::Beginning | WatchFrom::Now => None,
            };
            Ok((counted, key, behind))
        };
        let (_counted, key, behind) = shared.gate.read("watch", begun).await?;
        let mut due = Vec::new();
        let (progress, on) = match (watch.begins(), behind) {
            (_, Some(progress)) => {
                let _turn = shared.tail.turn().await;
                let on = shared.has(progress.feed()).await?;
                (progress, on)
            }
            // Later writes are in the feed after this position, earlier ones in the snapshot.
            (WatchFrom::Beginning, None) => {
                let (feed, on) = shared.newest_change().await?;
                (Progress::Snapshot { feed, part: Part::Memories, behind: None }, on)
            }
            (_, None) => {
                let (feed, on) = shared.newest_change().await?;
                due.push((Progress::Feed(feed.clone()), ChangeKind::Reached));
                (Progress::Feed(feed), on)
            }
        };
        let news = shared.tail.subscribe();
        let (due, behind) = (shared.tail.held.page(due), progress.clone());
        let steps = Arc::new(Steps { shared: Arc::clone(shared), key, watch: Arc::new(watch.clone()) });
        let (listed, is_caught_up, step) = (Listed::default(), false, JoinSet::new());
        Ok(Self { steps, progress, due, behind, on, listed, is_caught_up, step, news, _counted })
    }

    /// Converts to the stream, which ends with the first error.
    pub(super) fn into_changes(self) -> Changes {
        let next = |watcher: Option<Self>| async {
            let mut watcher = watcher?;
            match watcher.next().await {
                Ok(change) => Some((Ok(change), Some(watcher))),
                Err(error) => Some((Err(error), None)),
            }
        };
        stream::unfold(Some(self), next).boxed()
    }

    async fn next(&mut self) -> Result<Change> {
        let heartbeat = Instant::now() + HEARTBEAT;
        loop {
            match self.due.pop() {
                Ok(Some((progress, kind))) => {
                    self.is_caught_up |= kind == ChangeKind::Reached;
                    let told = self.told(&progress, kind);
                    self.behind = progress;
                    return told;
                }
                Ok(None) => {}
                // The dropped changes are read again.
                Err(LetGo) => {
                    (self.progress, self.listed) = (self.behind.clone(), Listed::default());
                    self.due = self.steps.shared.tail.held.page(Vec::new());
                }
            }
            if Instant::now() >= heartbeat {
                let kind = if self.is_caught_up { ChangeKind::Reached } else { ChangeKind::Progress };
                return self.told(&self.progress, kind);
            }
            if self.step.is_empty() {
                // A change from here on wakes the watch.
                self.news.mark_unchanged();
                let Some(step) = self.next_step() else {
                    self.wait(heartbeat).await;
                    continue;
                };
                let step = Arc::clone(&self.steps).take(self.progress.clone(), self.on.clone(), step);
                self.step.spawn(step.in_current_span());
            }
            tokio::select! {
                Some(page) = self.step.join_next() => {
                    if !self.add(ended(page)?) {
                        // A write that is held back wakes the watch when it is delivered.
                        self.wait(heartbeat).await;
                    }
                }
                () = sleep_until(heartbeat) => {}
            }
        }
    }

    fn told(&self, progress: &Progress, kind: ChangeKind) -> Result<Change> {
        let Steps { key, watch, .. } = &*self.steps;
        Ok(Change { token: progress.seal(key, &watch.fingerprint)?, kind })
    }

    /// Returns the next step; `None` if there is nothing new. Entries that don't concern the watch are skipped here.
    fn next_step(&mut self) -> Option<Step> {
        let Progress::Feed(feed) = &mut self.progress else { return Some(Step::Snapshot(self.listed.take())) };
        let Steps { shared, watch, .. } = &*self.steps;
        // The tail may be a little behind, so it can't confirm the end of the feed.
        while self.is_caught_up
            && let Some(Entries { mut entries, reached, seen }) = shared.tail.entries(&feed.after, &self.on)
        {
            if reached == feed.after {
                return None;
            }
            let hash_key = shared.known_hash_key();
            // A step reads the key.
            if hash_key.is_none() && entries.iter().any(|entry| entry.write.is_erasure()) {
                return Some(Step::Feed);
            }
            entries.retain(|entry| tell::concerns(watch, &entry.write, hash_key.as_ref()));
            if !entries.is_empty() {
                return Some(Step::Tell(entries, reached));
            }
            feed.skip_to(reached, seen);
        }
        Some(Step::Feed)
    }

    /// Adds what a step has read; returns `false` if that was nothing.
    fn add(&mut self, (page, due): (Page, Arc<held::Page>)) -> bool {
        let Page { progress, on, listed, is_end, .. } = page;
        // What was seen moves with every write of others, also while nothing can be delivered.
        let mut known = self.progress.clone();
        known.see(&progress.feed().seen);
        let is_new = progress != known;
        self.behind = mem::replace(&mut self.progress, progress);
        (self.on, self.listed, self.due) = (on, listed, due);
        if is_end && !self.is_caught_up {
            self.due.push((self.progress.clone(), ChangeKind::Reached));
        }
        is_new || !self.due.is_empty()
    }

    /// Waits until there may be something new, or until the heartbeat. The watch then checks again.
    async fn wait(&mut self, heartbeat: Instant) {
        tokio::select! {
            _ = self.news.changed() => {}
            () = sleep_until(heartbeat) => {}
        }
    }
}

impl<E: Engine> Shared<E> {
    /// Returns where a watch from now on begins, after a short wait for visible writes that are held back, and the
    /// timeline. Holds no session while it waits.
    async fn newest_change(&self) -> Result<(FeedProgress, Timeline)> {
        let give_up = Instant::now() + SETTLING.min(self.settings.deadline / 2);
        let newest = async || {
            let _turn = self.tail.turn().await;
            self.feed_end().await
        };
        let (FeedEnd { mut position, held_back_to }, mut on) = newest().await?;
        let mut pause = UNSETTLED;
        while held_back_to.as_ref().is_some_and(|due| position < *due) && Instant::now() < give_up {
            sleep(pause).await;
            pause *= 2;
            let (end, now) = newest().await?;
            (position, on) = (end.position, now);
        }
        Ok((position.into(), on))
    }

    /// Returns the end of the feed, and the timeline after that.
    pub(super) async fn feed_end(&self) -> Result<(FeedEnd, Timeline)> {
        let newest: LivingWork<E::Session, (), _> =
            |reader, ()| Box::pin(async move { Ok((reader.newest_change().await?, reader.timeline().await?)) });
        self.gate.read("watch", async { self.open()?.run(Access::ReadLatest, (), newest).await }).await
    }

    /// Fails with `FeedReset` unless the feed has all that a watch needs to continue. Returns the timeline on which it
    /// has.
    async fn has(&self, feed: &FeedProgress) -> Result<Timeline> {
        let look: LivingWork<E::Session, FeedProgress, _> = |reader, feed| {
            Box::pin(async move {
                let before = reader.timeline().await?;
                reader.changes(&feed.after, 1).await?;
                feed.check_seen(reader).await?;
                Ok((before, reader.timeline().await?))
            })
        };
        let work = async {
            loop {
                let (before, on) = self.ready().await?.run(Access::ReadLatest, feed.clone(), look).await?;
                if on == before {
                    return Ok(on);
                }
                sleep(REPLACED).await;
            }
        };
        self.gate.read("watch", work).await
    }
}

#[cfg(test)]
mod tests;
