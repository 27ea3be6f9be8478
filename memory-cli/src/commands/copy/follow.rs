//! `copy --follow`: a target that takes over each change of its source, and with `--finish` the place of it.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::{FutureExt as _, StreamExt as _};
use memory_core::{Changes, Collections, ErrorKind, MemoryProvider, MemoryQuery, RecordId, Watch, Watched};

use super::batch::Batch;
use super::mark::Mark;
use super::strays::{replace, strays};
use super::{Copied, verify_all};
use crate::output;
use crate::progress::Progress;
use crate::usage::Usage;

/// How long the mark of the target lags behind at most while changes come.
const MARKING: Duration = Duration::from_secs(1);
/// How long to wait behind a failure that may pass, the first time and at most.
const PAUSE: Duration = Duration::from_millis(250);
const MOST_PAUSE: Duration = Duration::from_secs(15);

/// A target on its way behind a source.
pub(super) struct Follower<'a> {
    source: &'a dyn MemoryProvider,
    target: &'a dyn MemoryProvider,
    progress: &'a Progress,
    mark: Mark,
    /// When the mark was written last.
    marked: Instant,
    /// How many records were taken over.
    pub(super) taken: u64,
    /// How many of them were told when the target was last up to date.
    told: Option<u64>,
    /// What the target has otherwise, at the same revision or a later one.
    pub(super) conflicts: BTreeSet<RecordId>,
    told_conflicts: BTreeSet<RecordId>,
    /// How many of them can't be read at the source.
    pub(super) unreadable: BTreeSet<String>,
}

/// How far to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// Until the process is asked to end.
    Asked,
    /// Until everything was taken over that was there when it began.
    Reached,
}

/// Why it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The process was asked to.
    Asked,
    /// The target has everything.
    Reached,
}

impl<'a> Follower<'a> {
    /// Finds out how far the target is. A mistake of the caller where the target has taken over already, or holds documents of its own.
    pub(super) async fn new(
        source: &'a dyn MemoryProvider,
        target: &'a dyn MemoryProvider,
        progress: &'a Progress,
    ) -> anyhow::Result<Self> {
        let documents = target.documents();
        let mark = match Mark::read(&*documents).await? {
            Some(mark) if mark.is_finished => {
                let message = "--to: what is there has taken over already, so it follows no more; to begin again, lift the fence \
                               with copy --unfence";
                return Err(Usage(message.to_owned()).into());
            }
            Some(mark) => mark,
            None => {
                let own = strays(&*source.documents(), &*documents).await?.len();
                if own > 0 {
                    let message = format!(
                        "--to: {own} documents there are not the source's, and would be removed: name another place"
                    );
                    return Err(Usage(message).into());
                }
                // Before anything is taken over, since what is removed at the source from then on is no document of the target's own.
                let mark = Mark::default();
                mark.write(&*documents).await?;
                mark
            }
        };
        Ok(Self {
            source,
            target,
            progress,
            mark,
            marked: Instant::now(),
            taken: 0,
            told: None,
            conflicts: BTreeSet::new(),
            told_conflicts: BTreeSet::new(),
            unreadable: BTreeSet::new(),
        })
    }

    /// Takes over each change until the process is asked to end.
    pub(super) async fn follow(&mut self, asked: impl Future<Output = ()>) -> anyhow::Result<()> {
        self.go_on(Until::Asked, asked).await.map(drop)
    }

    /// Lets the target take the place of the source: takes over what there is, makes the source read-only, takes over the rest, and
    /// compares. `None` when the process was asked to end before; then, and behind a failure, the source takes writes again.
    pub(super) async fn finish(&mut self, asked: impl Future<Output = ()>) -> anyhow::Result<Option<Copied>> {
        let mut asked = pin!(asked);
        // Most of it while the source still takes writes.
        if self.go_on(Until::Reached, asked.as_mut()).await? == End::Asked {
            return Ok(None);
        }
        self.source.set_read_only(true).await.context("the source can't be made read-only")?;
        self.progress.note("the source is read-only now");
        let moved = self.take_over(asked).await;
        if !matches!(&moved, Ok(Some(copied)) if copied.is_verified()) {
            self.source
                .set_read_only(false)
                .await
                .context("the source is still read-only: copy --unfence lifts that")?;
            self.progress.note("the source takes writes again");
        }
        moved
    }

    async fn take_over(&mut self, mut asked: impl Future<Output = ()> + Unpin) -> anyhow::Result<Option<Copied>> {
        if self.go_on(Until::Reached, &mut asked).await? == End::Asked {
            return Ok(None);
        }
        let compare = async {
            let mut copied = verify_all(self.source, self.target, self.progress).await?;
            let own = strays(&*self.source.documents(), &*self.target.documents()).await?.len();
            if own > 0 {
                self.progress.note(&format!("error: {own} documents of the target are not the source's"));
            }
            copied.conflicts = self.conflicts.len() as u64 + own as u64;
            anyhow::Ok(copied)
        };
        let copied = tokio::select! {
            () = asked => return Ok(None),
            copied = compare => copied?,
        };
        if copied.is_verified() {
            Mark { is_finished: true, ..Mark::default() }.write(&*self.target.documents()).await?;
        }
        Ok(Some(copied))
    }

    async fn go_on(&mut self, until: Until, asked: impl Future<Output = ()>) -> anyhow::Result<End> {
        let mut asked = pin!(asked);
        let mut pause = PAUSE;
        loop {
            let before = self.taken;
            let error = match self.attempt(until, asked.as_mut()).await {
                Ok(end) => return Ok(end),
                Err(error) => error,
            };
            let of_core = error.downcast_ref::<memory_core::Error>();
            match of_core.map(|error| (error.kind(), error.is_retryable())) {
                Some((ErrorKind::FeedReset, _)) => {
                    let lost = "the feed of the source has lost changes that were not taken over: everything is compared again";
                    self.progress.note(lost);
                    self.mark = Mark { has_gap: true, ..Mark::default() };
                    self.write_mark().await?;
                    continue;
                }
                Some((ErrorKind::InvalidInput, _)) if self.mark.token.is_some() => {
                    let message = "--to: what is there follows another source; to begin again, use copy --unfence";
                    return Err(Usage(message.to_owned()).into());
                }
                Some((ErrorKind::Unavailable | ErrorKind::Timeout, _) | (_, true)) => {}
                _ => return Err(error),
            }
            pause = if self.taken > before { PAUSE } else { (pause * 2).min(MOST_PAUSE) };
            self.progress.note(&format!("waiting: {}", output::describe(&error)));
            tokio::select! {
                () = asked.as_mut() => return Ok(End::Asked),
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Follows from the mark on, to the first failure.
    async fn attempt(&mut self, until: Until, asked: impl Future<Output = ()>) -> anyhow::Result<End> {
        let mut asked = pin!(asked);
        let everything = Watch::new(Watched::Both(Collections::All), MemoryQuery::builder().all())?;
        let mut changes = self.source.watch(&everything.from(self.mark.from())).await?;
        loop {
            let pulled = tokio::select! {
                biased;
                () = asked.as_mut() => {
                    self.write_mark().await?;
                    return Ok(End::Asked);
                }
                pulled = pull(&mut changes) => pulled,
            };
            let Pulled { batch, failure } = pulled;
            let is_reached = batch.is_reached;
            self.take(batch).await?;
            if let Some(failure) = failure {
                return Err(failure.into());
            }
            if is_reached {
                self.reached().await?;
                if until == Until::Reached {
                    return Ok(End::Reached);
                }
            } else if self.marked.elapsed() >= MARKING {
                self.write_mark().await?;
            }
        }
    }

    async fn take(&mut self, mut batch: Batch) -> anyhow::Result<()> {
        for record in std::mem::take(&mut batch.unreadable) {
            output::report_unreadable("record", std::slice::from_ref(&record));
            self.unreadable.insert(record.id);
        }
        let (count, token) = (batch.count, batch.token.take());
        let taken = batch.apply(self.target).await?;
        for id in taken.same {
            self.conflicts.remove(&id);
        }
        self.conflicts.extend(taken.conflicts);
        self.mark.token = token.or(self.mark.token.take());
        if count > 0 {
            self.taken += count;
            self.progress.done(self.taken, 0);
        }
        Ok(())
    }

    /// Everything was taken over that was there when the watch began, or came since.
    async fn reached(&mut self) -> anyhow::Result<()> {
        if self.mark.has_gap {
            let (source, target) = (self.source.documents(), self.target.documents());
            let strays = strays(&*source, &*target).await?;
            for (collection, id) in strays.iter().cloned() {
                // What stood in the way of the source's own is gone.
                self.conflicts.remove(&RecordId::Document { collection, id });
            }
            replace(&*source, &*target, strays).await?;
            self.mark.has_gap = false;
        }
        self.write_mark().await?;
        // A document that was put again stands in its own way until its removal is taken over, so nothing is told before.
        for id in self.conflicts.difference(&self.told_conflicts) {
            let name = match id {
                RecordId::Memory(id) => format!("memory {id}"),
                RecordId::Document { id, .. } => format!("document {}", output::printable(id.as_str())),
            };
            self.progress.note(&format!("error: the {name} is there and differs; it stays as it is"));
        }
        self.told_conflicts.clone_from(&self.conflicts);
        if self.told.replace(self.taken) != Some(self.taken) {
            self.progress.note(&format!("up to date: {} records taken over", self.taken));
        }
        Ok(())
    }

    async fn write_mark(&mut self) -> anyhow::Result<()> {
        self.mark.write(&*self.target.documents()).await?;
        self.marked = Instant::now();
        Ok(())
    }
}

/// What a watch has told.
struct Pulled {
    batch: Batch,
    /// What it has ended with, behind that.
    failure: Option<memory_core::Error>,
}

/// Waits for changes, and takes those that come with them.
async fn pull(changes: &mut Changes) -> Pulled {
    let mut batch = Batch::default();
    let mut next = changes.next().await;
    loop {
        let failure = match next {
            Some(Ok(change)) => {
                batch.add(change);
                None
            }
            Some(Err(error)) => Some(error),
            None => Some(memory_core::Error::new(ErrorKind::Unavailable, "the watch of the source has ended")),
        };
        if failure.is_some() || batch.is_full() || batch.is_reached {
            return Pulled { batch, failure };
        }
        match changes.next().now_or_never() {
            Some(more) => next = more,
            None => return Pulled { batch, failure: None },
        }
    }
}
