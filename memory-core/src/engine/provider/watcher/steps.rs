//! The steps in which a watch reads.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use tokio::time::sleep;

use super::super::following::follow;
use super::super::held::{self, Due};
use super::super::living::LivingWork;
use super::super::open::{NAMES, Shared, after};
use super::super::progress::{FeedProgress, Part, Progress};
use super::super::tail::PAGE;
use super::super::tell::{self, Noted, Told};
use super::REPLACED;
use crate::cursor::{CursorKey, Position};
use crate::engine::session::Reader;
use crate::engine::{Access, Engine, FeedEntry, FeedPosition, Timeline};
use crate::{ChangeKind, Collection, Collections, Cursor, Record, Result, Unreadable, Watch};

/// State shared by all steps of a watch.
pub(super) struct Steps<E: Engine> {
    pub(super) shared: Arc<Shared<E>>,
    pub(super) key: CursorKey,
    pub(super) watch: Arc<Watch>,
}

/// The next step.
pub(super) enum Step {
    /// The next page of the snapshot.
    Snapshot(Listed),
    /// The next page of the feed.
    Feed,
    /// The records of entries that concern the watch, and the position that they reach.
    Tell(Vec<Arc<FeedEntry>>, FeedPosition),
}

/// What a step has read.
#[derive(Debug)]
pub(super) struct Page {
    /// The progress of the watch after this page.
    pub(super) progress: Progress,
    /// The end of the feed after it was read, and the timeline then.
    pub(super) end: FeedPosition,
    pub(super) on: Timeline,
    pub(super) due: Vec<Due>,
    pub(super) listed: Listed,
    /// Whether the feed had nothing more.
    pub(super) is_end: bool,
}

/// The next collections of a snapshot of all, as far as listed.
#[derive(Debug, Default)]
pub(super) struct Listed {
    names: VecDeque<Collection>,
    /// Whether no more follow.
    is_all: bool,
}

impl Listed {
    /// Takes the listed names, leaving none.
    pub(super) fn take(&mut self) -> Self {
        mem::take(self)
    }
}

impl Page {
    fn at(progress: Progress, on: Timeline) -> Self {
        let end = progress.feed().after.clone();
        Self { progress, end, on, due: Vec::new(), listed: Listed::default(), is_end: false }
    }

    /// Adds records that can't be read. They have no position, so the progress stays.
    fn report(&mut self, unreadable: Vec<Unreadable>) {
        let progress = &self.progress;
        self.due.extend(unreadable.into_iter().map(|one| (progress.clone(), ChangeKind::Unreadable(one))));
    }
}

impl<E: Engine> Steps<E> {
    /// Executes a step. From here on its changes count as held, whoever polls the watch.
    pub(super) async fn take(
        self: Arc<Self>,
        progress: Progress,
        on: Timeline,
        step: Step,
    ) -> Result<(Page, Arc<held::Page>)> {
        let mut page = self.read_on(on, progress, step).await?;
        let due = self.shared.tail.held.page(mem::take(&mut page.due));
        Ok((page, due))
    }

    /// Executes a step on one timeline. If another one begins meanwhile, the step starts over there, provided that this
    /// timeline has everything that was delivered.
    async fn read_on(&self, mut on: Timeline, progress: Progress, mut step: Step) -> Result<Page> {
        loop {
            let mut page = self.read(progress.clone(), step, &on).await?;
            if page.on == on {
                let end = page.end.clone().max(progress.feed().seen.clone());
                let all = page.due.iter_mut().map(|(progress, _)| progress).chain([&mut page.progress]);
                all.for_each(|progress| progress.see(&end));
                return Ok(page);
            }
            sleep(REPLACED).await;
            let _turn = self.shared.tail.turn().await;
            on = self.shared.has(progress.feed()).await?;
            step = match &progress {
                Progress::Snapshot { .. } => Step::Snapshot(Listed::default()),
                Progress::Feed(_) => Step::Feed,
            };
        }
    }

    async fn read(&self, progress: Progress, step: Step, on: &Timeline) -> Result<Page> {
        let tail = &self.shared.tail;
        match (progress, step) {
            (Progress::Snapshot { feed, part, behind }, Step::Snapshot(listed)) => {
                let _turn = tail.turn_of_snapshot().await;
                let page = self.shared.gate.read("watch", self.snapshot(feed, part, behind, listed, on)).await?;
                let (end, on) = self.shared.feed_end().await?;
                Ok(Page { end: end.visible(), on, ..page })
            }
            (Progress::Feed(feed), Step::Tell(entries, reached)) => {
                let _turn = tail.turn().await;
                self.tell(feed, entries, reached, false).await
            }
            (progress, _) => {
                let _turn = tail.turn().await;
                self.feed(progress.feed(), on).await
            }
        }
    }

    /// Reads the next page of the snapshot, with the latest state, because the feed position that the watch continues
    /// from is the latest too.
    async fn snapshot(
        &self,
        feed: FeedProgress,
        part: Part,
        behind: Option<Position>,
        mut listed: Listed,
        on: &Timeline,
    ) -> Result<Page> {
        let cursor = behind.as_ref().map(|behind| self.key.seal(&self.watch.fingerprint, behind, 0)).transpose()?;
        let cursor = cursor.map(|cursor| cursor.to_string());
        let at = |behind| Progress::Snapshot { feed: feed.clone(), part: part.clone(), behind };
        let mut page = Page::at(at(behind), on.clone());
        let (records, next): (Vec<_>, _) = match &part {
            Part::Memories if !self.watch.of().has_memories() => (Vec::new(), None),
            Part::Memories => {
                let found = self.shared.memories(Access::ReadLatest, &self.watch.snapshot(cursor)).await?;
                page.report(found.unreadable);
                (found.memories.into_iter().map(Record::Memory).collect(), found.next)
            }
            Part::Documents(collection) => {
                let query = self.watch.snapshot_of(collection, cursor);
                let found = self.shared.documents(Access::ReadLatest, &query).await?;
                page.report(found.unreadable);
                (found.documents.into_iter().map(Record::Document).collect(), found.next)
            }
        };
        let told = records.into_iter().map(|record| (at(Some(position(&record))), tell::of_record(record)));
        page.due.extend(told);
        page.progress = match next {
            Some(cursor) => at(Some(self.opened(&cursor)?)),
            None => match self.part_behind(&part, &mut listed).await? {
                Some(part) => Progress::Snapshot { feed, part, behind: None },
                None => Progress::Feed(feed),
            },
        };
        page.listed = listed;
        Ok(page)
    }

    fn opened(&self, cursor: &Cursor) -> Result<Position> {
        Ok(self.key.open(cursor.as_str(), &self.watch.fingerprint)?.after)
    }

    /// Returns the next part of the snapshot.
    async fn part_behind(&self, part: &Part, listed: &mut Listed) -> Result<Option<Part>> {
        let last = match part {
            Part::Memories => None,
            Part::Documents(last) => Some(last),
        };
        let next = match self.watch.of().documents() {
            None => None,
            Some(Collections::Named(names)) => names.iter().find(|name| Some(*name) > last).cloned(),
            Some(Collections::All) => {
                if listed.names.is_empty() && !listed.is_all {
                    let names: LivingWork<E::Session, Option<Collection>, _> =
                        |reader, behind| Box::pin(reader.collections(behind.as_ref(), NAMES));
                    let names = self.shared.open()?.run(Access::ReadLatest, last.cloned(), names).await?;
                    *listed = Listed { is_all: names.len() < NAMES, names: names.into() };
                }
                listed.names.pop_front()
            }
        };
        Ok(next.map(Part::Documents))
    }

    /// Reads the next page of the feed.
    async fn feed(&self, feed: &FeedProgress, on: &Timeline) -> Result<Page> {
        let (mut page, now) = self.shared.changes(feed, PAGE).await?;
        if page.reached == feed.after {
            follow(&self.shared, &page.reached, on);
        }
        let hash_key = match page.entries.iter().any(|entry| entry.write.is_erasure()) {
            true => self.shared.gate.read("watch", self.shared.hash_key()).await?,
            false => None,
        };
        page.entries.retain(|entry| tell::concerns(&self.watch, &entry.write, hash_key.as_ref()));
        if !page.entries.is_empty() {
            let entries = page.entries.into_iter().map(Arc::new).collect();
            return self.tell(feed.clone(), entries, page.reached, page.is_end).await;
        }
        let (end, on) = self.shared.end_behind(&page, now).await?;
        Ok(Page { end, is_end: page.is_end, ..Page::at(Progress::Feed(page.reached.into()), on) })
    }

    /// Reads the changes for entries that concern the watch, unless the feed has lost what was seen.
    async fn tell(
        &self,
        feed: FeedProgress,
        entries: Vec<Arc<FeedEntry>>,
        reached: FeedPosition,
        is_end: bool,
    ) -> Result<Page> {
        let at = |position: FeedPosition| Progress::Feed(position.into());
        let until = after(self.shared.settings.deadline / 2);
        let noted = Noted { watch: Arc::clone(&self.watch), entries, until };
        let work = async {
            let (open, tell): (_, LivingWork<E::Session, _, _>) =
                (self.shared.ready().await?, |reader, (feed, noted)| {
                    Box::pin(async move {
                        FeedProgress::check_seen(feed, reader).await?;
                        let told = tell::tell(reader, noted).await?;
                        Ok((told, reader.newest_change().await?.visible(), reader.timeline().await?))
                    })
                });
            open.run_apart(open.until(), Access::ReadLatest, (feed, noted), tell).await
        };
        let (Told { changes, cut }, end, on) = self.shared.gate.read("watch", work).await?;
        let due = changes.into_iter().map(|(position, kind)| (at(position), kind)).collect();
        let is_end = is_end && cut.is_none();
        Ok(Page { end, due, is_end, ..Page::at(at(cut.unwrap_or(reached)), on) })
    }
}

fn position(record: &Record) -> Position {
    let (created_at, id) = match record {
        Record::Memory(memory) => (memory.created_at, memory.id.as_bytes().as_slice()),
        Record::Document(document) => (document.created_at, document.id.as_str().as_bytes()),
    };
    Position { created_at, id: id.to_vec() }
}
