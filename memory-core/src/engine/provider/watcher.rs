//! One watch: a snapshot, if it begins with one, and then the feed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep_until};

use super::progress::{Part, Progress};
use super::tail::{Entries, PAGE, Tail};
use super::tell::{self, Noted, Told};
use super::{Open, Shared};
use crate::cursor::{CursorKey, Position};
use crate::engine::session::{Reader, Work};
use crate::engine::{Access, Engine, FeedPage, FeedPosition};
use crate::{
    Change, ChangeKind, Changes, Collection, Collections, Cursor, Document, Memory, Result, Unreadable, Watch,
    WatchFrom,
};

/// After how long without a change a watch tells how far it is, once it has told of all that was there when it began (C2).
pub const HEARTBEAT: Duration = Duration::from_secs(15);

/// The state of a watch. Its changes are made when the stream is polled.
pub(super) struct Watcher<E: Engine> {
    shared: Arc<Shared<E>>,
    key: CursorKey,
    watch: Arc<Watch>,
    /// How far it is with everything that is due.
    progress: Progress,
    /// Changes that are due, each with how far the watch is when it was told.
    due: VecDeque<(Progress, ChangeKind)>,
    /// When a change was told last.
    told: Instant,
    /// Whether it has told of all that was there when it began.
    is_caught_up: bool,
    news: Receiver<()>,
}

impl<E: Engine> Watcher<E> {
    /// Begins where the watch says. `FeedReset` where the feed does not go back so far.
    pub(super) async fn begin(shared: &Arc<Shared<E>>, watch: &Watch) -> Result<Self> {
        let open = shared.ready().await?;
        let mut due = VecDeque::new();
        let progress = match watch.begins() {
            WatchFrom::Now => {
                let progress = Progress::Feed(open.newest_change().await?);
                due.push_back((progress.clone(), ChangeKind::Reached));
                progress
            }
            // What is written from here on is in the feed behind that place, and what was written before is in the snapshot.
            WatchFrom::Beginning => {
                Progress::Snapshot { feed: open.newest_change().await?, part: Part::Memories, behind: None }
            }
            WatchFrom::Token(token) => {
                let progress = Progress::open(token, &open.key, &watch.fingerprint)?;
                let behind = progress.feed().clone();
                let check: Work<E::Session, _, _> = |reader, behind| Box::pin(reader.changes(behind, 1));
                open.run(Access::ReadLatest, behind, check).await?;
                progress
            }
        };
        let (key, news) = (open.key.clone(), shared.tail.subscribe());
        let (shared, watch, is_caught_up) = (Arc::clone(shared), Arc::new(watch.clone()), !due.is_empty());
        Ok(Self { shared, key, watch, progress, due, told: Instant::now(), is_caught_up, news })
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
        loop {
            if let Some((progress, kind)) = self.due.pop_front() {
                return self.told(&progress, kind);
            }
            if self.is_caught_up && self.told.elapsed() >= HEARTBEAT {
                return self.told(&self.progress.clone(), ChangeKind::Reached);
            }
            let shared = Arc::clone(&self.shared);
            match self.progress.clone() {
                Progress::Snapshot { feed, part, behind } => {
                    shared.gate.read("watch", self.take_snapshot(feed, part, behind)).await?;
                }
                Progress::Feed(behind) => self.take_feed(behind).await?,
            }
        }
    }

    fn told(&mut self, progress: &Progress, kind: ChangeKind) -> Result<Change> {
        self.told = Instant::now();
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
    async fn part_behind(&self, part: &Part) -> Result<Option<Part>> {
        let is_behind = |name: &Collection| match part {
            Part::Memories => true,
            Part::Documents(last) => name > last,
        };
        let next = match self.watch.of().documents() {
            None => None,
            Some(Collections::Named(names)) => names.iter().find(|name| is_behind(name)).cloned(),
            Some(Collections::All) => {
                let names: Work<E::Session, _, _> = |reader, ()| Box::pin(reader.collections());
                self.shared.open()?.run(Access::ReadLatest, (), names).await?.into_iter().find(is_behind)
            }
        };
        Ok(next.map(Part::Documents))
    }

    /// Takes the next page of the feed, or waits until there may be one.
    async fn take_feed(&mut self, behind: FeedPosition) -> Result<()> {
        // What comes from here on wakes the watch.
        self.news.mark_unchanged();
        // The tail may be a little behind, so it does not tell whether that was all.
        let tail = self.is_caught_up.then(|| self.shared.tail.entries(&behind)).flatten();
        let (Entries { mut entries, reached }, mut is_end) = match tail {
            Some(page) if page.reached == behind => return self.wait().await,
            Some(page) => (page, false),
            None => {
                let FeedPage { entries, reached, is_end } = self.shared.changes(&behind, PAGE).await?;
                if reached == behind {
                    Tail::follow(&self.shared, &behind);
                    // What is held back wakes the watch when it comes.
                    return if is_end { self.catch_up(behind) } else { self.wait().await };
                }
                (Entries { entries: entries.into_iter().map(Arc::new).collect(), reached }, is_end)
            }
        };
        entries.retain(|entry| tell::concerns(&self.watch, &entry.write));
        let mut end = reached;
        if !entries.is_empty() {
            let noted = Noted { watch: Arc::clone(&self.watch), entries };
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

    /// Waits until there may be something new, or until it is time to tell how far it is. Whichever it was, the watch looks again.
    async fn wait(&mut self) -> Result<()> {
        let since = if self.is_caught_up { self.told } else { Instant::now() };
        tokio::select! {
            _ = self.news.changed() => {}
            () = sleep_until(since + HEARTBEAT) => {}
        }
        Ok(())
    }
}

impl<E: Engine> Open<E> {
    async fn newest_change(&self) -> Result<FeedPosition> {
        let newest: Work<E::Session, _, _> = |reader, ()| Box::pin(reader.newest_change());
        self.run(Access::ReadLatest, (), newest).await
    }
}

fn position(memory: &Memory) -> Position {
    Position { created_at: memory.created_at, id: memory.id.as_bytes().to_vec() }
}

fn position_of(document: &Document) -> Position {
    Position { created_at: document.created_at, id: document.id.as_str().as_bytes().to_vec() }
}

#[cfg(test)]
mod tests {
    use tokio::task::yield_now;
    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::{
        ErrorKind, InMemory, MemoryProvider, MemoryQuery, NewMemory, Record, SpaceId, Timestamp, Trigger, Watched,
    };

    async fn opened() -> (InMemory, Watch) {
        let provider = InMemory::new();
        provider.init().await.expect("opens");
        (provider, Watch::new(Watched::Memories, MemoryQuery::builder().under("a")).expect("valid"))
    }

    async fn store(provider: &InMemory, space: &str) {
        let (space, trigger) = (SpaceId::parse(space).expect("valid"), Trigger::parse("1").expect("valid"));
        provider.store(NewMemory::new(space, trigger, Timestamp::MIN)).await.expect("stored");
    }

    async fn next(changes: &mut Changes) -> Change {
        changes.next().await.expect("goes on").expect("a change")
    }

    #[tokio::test(start_paused = true)]
    async fn who_hears_nothing_has_a_token_that_is_recent() {
        let (provider, watch) = opened().await;
        let mut changes = provider.watch(&watch).await.expect("begins");
        let first = next(&mut changes).await;
        for _ in 0..3 {
            store(&provider, "b").await;
        }
        let begun = Instant::now();
        let second = next(&mut changes).await;
        assert_eq!((first.kind, second.kind), (ChangeKind::Reached, ChangeKind::Reached));
        assert!(begun.elapsed() >= HEARTBEAT);
        provider.drop_changes();
        let lost = provider.watch(&watch.clone().from(first.token.into())).await;
        assert_eq!(lost.err().map(|error| error.kind()), Some(ErrorKind::FeedReset));
        let mut changes = provider.watch(&watch.from(second.token.into())).await.expect("goes on");
        store(&provider, "a").await;
        assert!(matches!(next(&mut changes).await.kind, ChangeKind::Stored(_)));
    }

    /// However slow its consumer is: the clock says nothing before.
    #[tokio::test(start_paused = true)]
    async fn it_is_reached_when_all_was_told_that_was_there() {
        let (provider, watch) = opened().await;
        let token = next(&mut provider.watch(&watch).await.expect("begins")).await.token;
        let count = 2 * PAGE + 50;
        for _ in 0..count {
            store(&provider, "a").await;
            // A page that has nothing for the watch is not the end.
            store(&provider, "b").await;
        }
        for from in [WatchFrom::Beginning, token.into()] {
            let mut changes = provider.watch(&watch.clone().from(from.clone())).await.expect("begins");
            for number in 0..count {
                let kind = next(&mut changes).await.kind;
                assert!(matches!(kind, ChangeKind::Stored(_)), "{kind:?} behind {number} from {from:?}");
                sleep(HEARTBEAT).await;
            }
            assert_eq!(next(&mut changes).await.kind, ChangeKind::Reached);
        }
    }

    #[tokio::test]
    async fn nobody_reads_the_feed_when_nobody_watches() {
        let (provider, watch) = opened().await;
        let is_followed = || provider.shared.tail.entries(&FeedPosition::of(vec![u8::MAX; 16])).is_some();
        let until = async |wanted: bool| {
            let settled = async {
                while is_followed() != wanted {
                    yield_now().await;
                }
            };
            timeout(Duration::from_secs(60), settled).await.expect("in good time");
        };
        assert!(!is_followed());
        for _ in 0..2 {
            let mut begun = Vec::new();
            for _ in 0..3 {
                let mut changes = provider.watch(&watch).await.expect("begins");
                next(&mut changes).await;
                begun.push(tokio::spawn(async move { next(&mut changes).await }));
            }
            until(true).await;
            store(&provider, "a").await;
            for watch in begun {
                assert!(matches!(watch.await.expect("ends").kind, ChangeKind::Stored(_)));
            }
            until(false).await;
        }
    }

    /// What one page leaves of a feed comes on the next, also where the records are large.
    #[tokio::test]
    async fn a_page_is_cut_at_its_bytes() {
        let (provider, watch) = opened().await;
        let mut changes = provider.watch(&watch).await.expect("begins");
        next(&mut changes).await;
        let large = Trigger::parse(&format!("\"{}\"", "x".repeat(1 << 20))).expect("valid");
        for number in 0..40 {
            let space = SpaceId::parse(format!("a-{number}")).expect("valid");
            provider.store(NewMemory::new(space, large.clone(), Timestamp::MIN)).await.expect("stored");
        }
        for number in 0..40 {
            let ChangeKind::Stored(Record::Memory(memory)) = next(&mut changes).await.kind else { panic!("a memory") };
            assert_eq!(memory.space_id.as_str(), format!("a-{number}"));
        }
    }
}
