//! One watch: a snapshot, if it begins with one, and then the feed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use std::vec;

use futures::StreamExt;
use futures::stream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep, sleep_until};

use super::progress::{Part, Progress};
use super::tail::{Entries, PAGE, Tail};
use super::tell::{self, Noted, Told};
use super::{Shared, after};
use crate::cursor::{CursorKey, Position};
use crate::engine::session::{Reader, Work};
use crate::engine::{Access, Engine, FeedEnd, FeedPage, FeedPosition};
use crate::{
    Change, ChangeKind, Changes, Collection, Collections, Cursor, Document, Memory, Result, Unreadable, Watch,
    WatchFrom,
};

/// After how long without a change a watch tells how far it is (C2).
pub const HEARTBEAT: Duration = Duration::from_secs(15);
/// How long a watch that begins waits at most for what is held back, which would otherwise come although it was there before.
const SETTLING: Duration = Duration::from_secs(2);
/// How long it waits before it asks again, which doubles.
const UNSETTLED: Duration = Duration::from_millis(10);

/// The state of a watch. Its changes are made when the stream is polled.
pub(super) struct Watcher<E: Engine> {
    shared: Arc<Shared<E>>,
    key: CursorKey,
    watch: Arc<Watch>,
    /// How far it is with everything that is due.
    progress: Progress,
    /// Changes that are due, each with how far the watch is when it was told.
    due: VecDeque<(Progress, ChangeKind)>,
    /// The collections that the snapshot has not come to, once they were listed. Those that come later are in the feed.
    collections: Option<vec::IntoIter<Collection>>,
    /// Whether it has told of all that was there when it began.
    is_caught_up: bool,
    news: Receiver<()>,
    _counted: OwnedSemaphorePermit,
}

impl<E: Engine> Watcher<E> {
    /// Begins where the watch says. `FeedReset` where the feed does not go back so far, `LimitExceeded` where there are too many watches.
    pub(super) async fn begin(shared: &Arc<Shared<E>>, watch: &Watch) -> Result<Self> {
        let begun = async {
            let (counted, key) = (shared.tail.count()?, shared.ready().await?.key.clone());
            let behind = match watch.begins() {
                WatchFrom::Token(token) => Some(Progress::open(token, &key, &watch.fingerprint)?),
                WatchFrom::Beginning | WatchFrom::Now => None,
            };
            Ok((counted, key, behind))
        };
        let (_counted, key, behind) = shared.gate.read("watch", begun).await?;
        let mut due = VecDeque::new();
        let progress = match (watch.begins(), behind) {
            (_, Some(progress)) => {
                let _turn = shared.tail.turn().await;
                shared.changes(progress.feed(), 1).await?;
                progress
            }
            // What is written from here on is in the feed behind that place, and what was written before is in the snapshot.
            (WatchFrom::Beginning, None) => {
                Progress::Snapshot { feed: shared.newest_change().await?, part: Part::Memories, behind: None }
            }
            (_, None) => {
                let progress = Progress::Feed(shared.newest_change().await?);
                due.push_back((progress.clone(), ChangeKind::Reached));
                progress
            }
        };
        let news = shared.tail.subscribe();
        let (shared, watch, is_caught_up) = (Arc::clone(shared), Arc::new(watch.clone()), !due.is_empty());
        Ok(Self { shared, key, watch, progress, due, collections: None, is_caught_up, news, _counted })
    }

    /// The stream, which ends with the first error.
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
            if let Some((progress, kind)) = self.due.pop_front() {
                return self.told(&progress, kind);
            }
            if Instant::now() >= heartbeat {
                let kind = if self.is_caught_up { ChangeKind::Reached } else { ChangeKind::Progress };
                return self.told(&self.progress, kind);
            }
            let shared = Arc::clone(&self.shared);
            match self.progress.clone() {
                Progress::Snapshot { feed, part, behind } => {
                    let _turn = shared.tail.turn().await;
                    shared.gate.read("watch", self.take_snapshot(feed, part, behind)).await?;
                }
                Progress::Feed(behind) => self.take_feed(behind, heartbeat).await?,
            }
        }
    }

    fn told(&self, progress: &Progress, kind: ChangeKind) -> Result<Change> {
        Ok(Change { token: progress.seal(&self.key, &self.watch.fingerprint)?, kind })
    }

    /// Takes the next page of the snapshot. It is read as the latest, as the end of the feed was, from which the watch goes on.
    async fn take_snapshot(&mut self, feed: FeedPosition, part: Part, behind: Option<Position>) -> Result<()> {
        let cursor = behind.map(|behind| self.key.seal(&self.watch.fingerprint, &behind, 0)).transpose()?;
        let cursor = cursor.map(|cursor| cursor.to_string());
        let at = |behind| Progress::Snapshot { feed: feed.clone(), part: part.clone(), behind };
        let next = match &part {
            Part::Memories if !self.watch.of().has_memories() => None,
            Part::Memories => {
                let page = self.shared.memories(Access::ReadLatest, &self.watch.snapshot(cursor)).await?;
                self.report(page.unreadable);
                let told =
                    page.memories.into_iter().map(|memory| (at(Some(position(&memory))), tell::of_memory(memory)));
                self.due.extend(told);
                page.next
            }
            Part::Documents(collection) => {
                let query = self.watch.snapshot_of(collection, cursor);
                let page = self.shared.documents(Access::ReadLatest, &query).await?;
                self.report(page.unreadable);
                let told = page.documents.into_iter();
                let told = told.map(|document| (at(Some(position_of(&document))), tell::of_document(document)));
                self.due.extend(told);
                page.next
            }
        };
        self.progress = match next {
            Some(cursor) => at(Some(self.opened(&cursor)?)),
            None => match self.part_behind(&part).await? {
                Some(part) => Progress::Snapshot { feed, part, behind: None },
                None => Progress::Feed(feed),
            },
        };
        Ok(())
    }

    /// Records of the page that is taken that can't be read, which have no place of their own.
    fn report(&mut self, unreadable: Vec<Unreadable>) {
        let progress = self.progress.clone();
        self.due.extend(unreadable.into_iter().map(|one| (progress.clone(), ChangeKind::Unreadable(one))));
    }

    fn opened(&self, cursor: &Cursor) -> Result<Position> {
        Ok(self.key.open(cursor.as_str(), &self.watch.fingerprint)?.0)
    }

    /// The part of the snapshot that comes next.
    async fn part_behind(&mut self, part: &Part) -> Result<Option<Part>> {
        let is_behind = |name: &Collection| match part {
            Part::Memories => true,
            Part::Documents(last) => name > last,
        };
        let next = match self.watch.of().documents() {
            None => None,
            Some(Collections::Named(names)) => names.iter().find(|name| is_behind(name)).cloned(),
            Some(Collections::All) => {
                if self.collections.is_none() {
                    let names: Work<E::Session, _, _> = |reader, ()| Box::pin(reader.collections());
                    let names = self.shared.open()?.run(Access::ReadLatest, (), names).await?;
                    self.collections = Some(names.into_iter());
                }
                self.collections.iter_mut().flatten().find(is_behind)
            }
        };
        Ok(next.map(Part::Documents))
    }

    /// Takes the next page of the feed, or waits until there may be one, or until it is time to tell how far the watch is.
    async fn take_feed(&mut self, behind: FeedPosition, heartbeat: Instant) -> Result<()> {
        // What comes from here on wakes the watch.
        self.news.mark_unchanged();
        // The tail may be a little behind, so it does not tell whether that was all.
        let tail = self.is_caught_up.then(|| self.shared.tail.entries(&behind)).flatten();
        let (Entries { mut entries, reached }, mut is_end) = match tail {
            Some(page) if page.reached == behind => return self.wait(heartbeat).await,
            Some(page) => (page, false),
            None => {
                let turn = self.shared.tail.turn().await;
                let FeedPage { entries, reached, is_end } = self.shared.changes(&behind, PAGE).await?;
                drop(turn);
                if reached == behind {
                    Tail::follow(&self.shared, &behind);
                    // What is held back wakes the watch when it comes.
                    return if is_end { self.catch_up(behind) } else { self.wait(heartbeat).await };
                }
                (Entries { entries: entries.into_iter().map(Arc::new).collect(), reached }, is_end)
            }
        };
        entries.retain(|entry| tell::concerns(&self.watch, &entry.write));
        let mut end = reached;
        if !entries.is_empty() {
            let _turn = self.shared.tail.turn().await;
            let until = after(self.shared.settings.deadline / 2);
            let noted = Noted { watch: Arc::clone(&self.watch), entries, until };
            let work = async {
                let open = self.shared.ready().await?;
                open.run(Access::ReadLatest, noted, |reader, noted| Box::pin(tell::tell(reader, noted))).await
            };
            let Told { changes, cut } = self.shared.gate.read("watch", work).await?;
            self.due.extend(changes.into_iter().map(|(position, kind)| (Progress::Feed(position), kind)));
            is_end &= cut.is_none();
            end = cut.unwrap_or(end);
        }
        self.progress = Progress::Feed(end.clone());
        if is_end { self.catch_up(end) } else { Ok(()) }
    }

    /// Tells that all was told that was there when the watch began, once.
    fn catch_up(&mut self, end: FeedPosition) -> Result<()> {
        if !std::mem::replace(&mut self.is_caught_up, true) {
            self.due.push_back((Progress::Feed(end), ChangeKind::Reached));
        }
        Ok(())
    }

    /// Waits until there may be something new, or until then. Whichever it was, the watch looks again.
    async fn wait(&mut self, heartbeat: Instant) -> Result<()> {
        tokio::select! {
            _ = self.news.changed() => {}
            () = sleep_until(heartbeat) => {}
        }
        Ok(())
    }
}

impl<E: Engine> Shared<E> {
    /// The end of the feed, once it has come up to all that is there now, if that is soon. Keeps no session while it waits.
    async fn newest_change(&self) -> Result<FeedPosition> {
        let give_up = Instant::now() + SETTLING.min(self.settings.deadline / 2);
        let FeedEnd { mut position, held_back_to } = self.feed_end().await?;
        let mut pause = UNSETTLED;
        while held_back_to.as_ref().is_some_and(|due| position < *due) && Instant::now() < give_up {
            sleep(pause).await;
            pause *= 2;
            position = self.feed_end().await?.position;
        }
        Ok(position)
    }

    async fn feed_end(&self) -> Result<FeedEnd> {
        let newest: Work<E::Session, _, _> = |reader, ()| Box::pin(reader.newest_change());
        let _turn = self.tail.turn().await;
        self.gate.read("watch", async { self.open()?.run(Access::ReadLatest, (), newest).await }).await
    }
}

fn position(memory: &Memory) -> Position {
    Position { created_at: memory.created_at, id: memory.id.as_bytes().to_vec() }
}

fn position_of(document: &Document) -> Position {
    Position { created_at: document.created_at, id: document.id.as_str().as_bytes().to_vec() }
}

#[cfg(test)]
mod tests;
