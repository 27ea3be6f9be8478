//! `copy --follow`: applies each change of the source to the target, and with `--finish` switches over to the target.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use futures::{FutureExt as _, StreamExt as _};
use memory_core::{Changes, DocumentStore, ErrorKind, MemoryProvider, RecordId, Spaces};
use tokio::time::{Instant, sleep, sleep_until};

use super::batch::Batch;
use super::claim;
use super::copied::Copied;
use super::mark::{Mark, SAME_PLACE, is_one_place};
use super::rules;
use super::strays::{replace, strays};
use super::transfer::carry_vectors;
use super::verify::verify_all;
use crate::progress::Progress;
use crate::usage::Usage;
use crate::vectors::VectorWriter;
use crate::{backfill, output, tombstones};

/// The pause after a failure that may pass and that followed progress. Without progress each pause is twice as long, up to the longest.
const PAUSE: Duration = Duration::from_millis(250);
const MOST_PAUSE: Duration = Duration::from_secs(15);
/// How long the source stays read-only without progress before the fence is lifted.
const FENCED: Duration = Duration::from_secs(60);
/// The most attempts to take over a target from another run.
const TURNS: usize = 20;

/// Follows a source and applies its changes to a target.
pub(super) struct Follower<'a> {
    source: &'a dyn MemoryProvider,
    target: &'a dyn MemoryProvider,
    progress: &'a Progress,
    mark: Mark,
    /// Whether the source is or may be read-only on behalf of this target.
    is_fencing: bool,
    /// The number of records that were applied.
    pub(super) taken: u64,
    /// The time of the last progress.
    waits_since: Instant,
    /// The value of `taken` in the last "up to date" line.
    told: Option<u64>,
    /// The records that differ in the target, at the same revision or a later one.
    pub(super) conflicts: BTreeSet<RecordId>,
    told_conflicts: BTreeSet<RecordId>,
    /// The records that were erased in the target, but not at the source.
    pub(super) erased: BTreeSet<RecordId>,
    /// The number of them in the last report.
    told_erased: usize,
    /// The records that can't be read at the source.
    pub(super) unreadable: BTreeSet<String>,
    /// Writes the vectors of records.
    pub(super) vectors: VectorWriter,
}

/// How far to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// Until the process is asked to end.
    Asked,
    /// Until everything was applied that existed when it began.
    Reached,
}

/// Why following has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The process was asked to end.
    Asked,
    /// The target has everything.
    Reached,
}

impl<'a> Follower<'a> {
    /// Reads the mark of the target, and takes over the target from any other run. Fails, as a mistake in the arguments, if the target has
    /// already replaced the source, holds documents of its own, or is the source.
    pub(super) async fn new(
        source: &'a dyn MemoryProvider,
        target: &'a dyn MemoryProvider,
        progress: &'a Progress,
    ) -> anyhow::Result<Self> {
        let documents = target.documents();
        let present = Mark::read(&*documents).await?;
        if present.as_ref().is_some_and(|mark| mark.is_finished) {
            let message = "--to: the target has taken over already, and follows no more; to begin again, lift the fence \
                           with copy --unfence";
            return Err(Usage(message.to_owned()).into());
        }
        if is_one_place(&*source.documents(), &*documents).await? {
            return Err(Usage(SAME_PLACE.to_owned()).into());
        }
        if present.is_none() {
            let own = strays(&*source.documents(), &*documents).await?.len();
            if own > 0 {
                let message = format!(
                    "--to: {own} documents of the target are not those of the source, and would be removed: name another database"
                );
                return Err(Usage(message).into());
            }
        }
        Ok(Self {
            source,
            target,
            progress,
            // The mark is put before anything is applied. A run that finds a mark does not count documents that only the target has as its
            // own, since they may have been removed at the source.
            mark: begin(present, &*documents).await?,
            is_fencing: false,
            taken: 0,
            waits_since: Instant::now(),
            told: None,
            conflicts: BTreeSet::new(),
            told_conflicts: BTreeSet::new(),
            erased: BTreeSet::new(),
            told_erased: 0,
            unreadable: BTreeSet::new(),
            vectors: VectorWriter::default(),
        })
    }

    /// Applies each change until the process is asked to end.
    pub(super) async fn follow(&mut self, asked: impl Future<Output = ()>) -> anyhow::Result<()> {
        if claim::holds(self.source, &self.mark.r#move).await? {
            let left =
                "a run with --finish has left the source read-only: --finish goes on there, and --unfence lifts it";
            self.progress.note(left);
        }
        self.go_on(Until::Asked, asked).await.map(drop)
    }

    /// Switches over to the target: applies the present changes, makes the source read-only, applies the rest, and compares. Returns `None`
    /// if the process was asked to end before. Then, and after a failure, the source takes writes again.
    pub(super) async fn finish(&mut self, asked: impl Future<Output = ()>) -> anyhow::Result<Option<Copied>> {
        let moved = self.take_over(asked).await;
        let has_moved = matches!(&moved, Ok(Some(copied)) if copied.is_verified());
        if has_moved || !self.is_fencing {
            return moved;
        }
        if let Err(left) = self.lift().await {
            if let Err(error) = &moved {
                self.progress.note(&format!("error: {}", output::describe(error)));
            }
            return Err(left);
        }
        moved
    }

    async fn take_over(&mut self, asked: impl Future<Output = ()>) -> anyhow::Result<Option<Copied>> {
        let mut asked = pin!(asked);
        if self.source.is_read_only().await? {
            ensure_held(self.source, &self.mark).await?;
            self.is_fencing = true;
        }
        // Most changes are applied while the source still takes writes.
        if self.go_on(Until::Reached, asked.as_mut()).await? == End::Asked {
            return Ok(None);
        }
        if !self.is_fencing {
            // Reads that wait for a backfill run a slice of it, which is a write and would fail on a read-only source.
            let completed = backfill::complete(self.source, |told| self.progress.note(&told));
            tokio::select! {
                () = asked.as_mut() => return Ok(None),
                completed = completed => completed?,
            }
            // Most vectors are carried while the source still takes writes, too.
            tokio::select! {
                () = asked.as_mut() => return Ok(None),
                carried = self.carry_vectors() => carried?,
            }
            self.fence().await?;
        }
        self.progress.note("the source is read-only now");
        if self.go_on(Until::Reached, asked.as_mut()).await? == End::Asked {
            return Ok(None);
        }
        tokio::select! {
            () = asked.as_mut() => return Ok(None),
            carried = self.carry_vectors() => carried?,
        }
        let compare = async {
            // The target gets the same rules, so that records that they hide at the source are hidden there, too.
            rules::carry(self.source, self.target, self.progress).await?;
            let mut copied = verify_all(self.source, self.target, self.progress).await?;
            let own = strays(&*self.source.documents(), &*self.target.documents()).await?.len();
            if own > 0 {
                self.progress.note(&format!("error: {own} documents of the target are not those of the source"));
            }
            copied.conflicts = self.conflicts.len() as u64 + own as u64;
            copied.erased = self.erased_in_target(&copied.missing).await?;
            anyhow::Ok(copied)
        };
        let copied = tokio::select! {
            () = asked => return Ok(None),
            copied = compare => copied?,
        };
        if !copied.is_verified() {
            self.mark.begin_anew();
            return Ok(Some(copied));
        }
        self.check_fence().await?;
        self.mark.is_finished = true;
        self.put_mark().await?;
        self.check_fence().await?;
        Ok(Some(copied))
    }

    /// Sets the model of the source at the target, which has no vectors of its own.
    async fn begin_vectors(&mut self) -> anyhow::Result<()> {
        if let Some(model) = self.source.vector_model().await?
            && self.vectors.model() != Some(&model)
        {
            // If another run has taken over the target, this one must not write to it.
            self.put_mark().await?;
            self.vectors.begin(self.target, model, true).await?;
        }
        Ok(())
    }

    /// Carries the vectors that were made after their records were applied.
    async fn carry_vectors(&mut self) -> anyhow::Result<()> {
        self.begin_vectors().await?;
        carry_vectors(self.source, self.target, &mut self.vectors, &self.conflicts).await
    }

    /// Makes the source read-only on behalf of this target.
    async fn fence(&mut self) -> anyhow::Result<()> {
        // If another run has taken over the target, this one must not change the source.
        self.put_mark().await?;
        let fails = "the source can't be made read-only";
        claim::put(&*self.source.documents(), &self.mark.r#move).await.context(fails)?;
        self.is_fencing = true;
        self.source.set_read_only(true).await.context(fails)?;
        // Another move may have claimed the fence meanwhile.
        ensure_held(self.source, &self.mark).await
    }

    /// Fails if the source is no longer read-only on behalf of this target.
    async fn check_fence(&self) -> anyhow::Result<()> {
        ensure!(
            claim::holds(self.source, &self.mark.r#move).await?,
            "somebody has let the source take writes again meanwhile, so the target does not replace it: repeat the command"
        );
        Ok(())
    }

    /// Lifts the fence of the source, unless it belongs to another run or another move.
    async fn lift(&mut self) -> anyhow::Result<()> {
        let may_be_finished = std::mem::take(&mut self.mark.is_finished);
        match self.mark.put(&*self.target.documents()).await {
            Err(error) if error.kind() == ErrorKind::Conflict => {
                self.progress.note("the fence of the source is left to the other run: copy --unfence lifts it");
                return Ok(());
            }
            Err(error) if may_be_finished => {
                let left = "the source is still read-only, since the target may have taken over: repeat the \
                            command, or lift that with copy --unfence";
                return Err(anyhow::Error::from(error).context(left));
            }
            // Even if the target can't be written, the writers of the source must not wait.
            _ => {}
        }
        let still = "the source is still read-only: copy --unfence lifts that";
        if claim::is_of(self.source, &self.mark.r#move).await.context(still)? {
            // Lifted even if there is no fence yet, since an abandoned call may still set it.
            let lifted = self.source.set_read_only(false).await;
            if lifted.is_err() && self.source.is_read_only().await.unwrap_or(true) {
                return lifted.context(still);
            }
        } else if self.source.is_read_only().await.context(still)? {
            self.progress.note("the fence of the source belongs to another move, and stays");
            return Ok(());
        }
        self.progress.note("the source takes writes again");
        self.is_fencing = false;
        Ok(())
    }

    async fn go_on(&mut self, until: Until, asked: impl Future<Output = ()>) -> anyhow::Result<End> {
        let mut asked = pin!(asked);
        let mut pause = PAUSE;
        // Earlier work, such as a walk along both sides, does not count as waiting.
        self.waits_since = Instant::now();
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
                    self.mark.begin_anew();
                    continue;
                }
                // Another run has taken over the mark.
                Some((ErrorKind::Conflict, _)) => return Err(error),
                Some((ErrorKind::Unavailable | ErrorKind::Timeout, _) | (_, true)) => {}
                _ => return Err(error),
            }
            if self.lifts_at().is_some_and(|at| at <= Instant::now() + pause) {
                let waited = format!("the source was read-only for {} s without a record taken over", FENCED.as_secs());
                return Err(error.context(waited));
            }
            pause = if self.taken > before { PAUSE } else { (pause * 2).min(MOST_PAUSE) };
            self.progress.note(&format!("waiting: {}", output::describe(&error)));
            tokio::select! {
                () = asked.as_mut() => return Ok(End::Asked),
                () = sleep(pause) => {}
            }
        }
    }

    /// Follows from the mark on, until the first failure.
    async fn attempt(&mut self, until: Until, asked: impl Future<Output = ()>) -> anyhow::Result<End> {
        let mut asked = pin!(asked);
        let mut changes = self.mark.watch(self.source).await?;
        self.begin_vectors().await?;
        if self.mark.token.is_none() {
            // Tombstones first, so that a new target takes over the hash key of the source. Later ones come by the watch.
            self.put_mark().await?;
            let carried = tokio::select! {
                biased;
                () = asked.as_mut() => return Ok(End::Asked),
                carried = tombstones::carry(self.source, self.target, &Spaces::All) => carried?,
            };
            if carried.conflicts > 0 {
                self.progress.note(&tombstones::unreadable(carried.conflicts));
            }
        }
        loop {
            let pulled = tokio::select! {
                biased;
                () = asked.as_mut() => {
                    // If this fails, some changes are applied once more.
                    let _ = self.put_mark().await;
                    return Ok(End::Asked);
                }
                pulled = pull(&mut changes) => pulled,
                () = sleep_until_some(self.lifts_at()) => {
                    let waited = FENCED.as_secs();
                    bail!("the source was read-only for {waited} s, and its feed did not end: see agent-memory doctor");
                }
            };
            let Pulled { batch, failure } = pulled;
            let is_reached = batch.is_reached;
            if batch.count > 0 {
                // If another run has taken over the target, this one ends here, before it writes more.
                self.put_mark().await?;
            }
            self.take(batch).await?;
            if let Some(failure) = failure {
                return Err(failure.into());
            }
            if is_reached {
                self.reached().await?;
                if until == Until::Reached {
                    return Ok(End::Reached);
                }
            }
        }
    }

    async fn take(&mut self, mut batch: Batch) -> anyhow::Result<()> {
        for record in std::mem::take(&mut batch.unreadable) {
            output::report_unreadable("record", std::slice::from_ref(&record));
            self.unreadable.insert(record.id);
        }
        let (count, token) = (batch.count, batch.token.take());
        let taken = batch.apply(self.source, self.target, &mut self.vectors).await?;
        for id in taken.same {
            self.conflicts.remove(&id);
            self.erased.remove(&id);
        }
        for id in taken.erased {
            self.conflicts.remove(&id);
            self.erased.insert(id);
        }
        self.conflicts.extend(taken.conflicts);
        self.mark.token = token.or(self.mark.token.take());
        if count > 0 {
            self.taken += count;
            self.waits_since = Instant::now();
            self.progress.done(self.taken, 0);
        }
        Ok(())
    }

    /// Called when everything was applied that existed when the watch began, and all changes since. Removes strays after a gap, stores the
    /// mark, and reports conflicts.
    async fn reached(&mut self) -> anyhow::Result<()> {
        if self.mark.has_gap {
            let (source, target) = (self.source.documents(), self.target.documents());
            let strays = strays(&*source, &*target).await?;
            for (collection, id) in strays {
                // If another run has taken over the target, this one removes nothing.
                self.put_mark().await?;
                replace(&*source, &*target, collection.clone(), id.clone()).await?;
                // The document that was in conflict is gone.
                self.conflicts.remove(&RecordId::Document { collection, id });
            }
            self.mark.has_gap = false;
        }
        self.put_mark().await?;
        // A document that was removed and put again conflicts with itself until its removal is applied, so conflicts are reported here.
        for id in self.conflicts.difference(&self.told_conflicts) {
            let name = match id {
                RecordId::Memory(id) => format!("memory {id}"),
                RecordId::Document { id, .. } => format!("document {}", output::printable(id.as_str())),
            };
            self.progress.note(&format!("error: the {name} is there and differs; it stays as it is"));
        }
        self.told_conflicts.clone_from(&self.conflicts);
        let erased = self.erased.len();
        if erased > 0 && std::mem::replace(&mut self.told_erased, erased) != erased {
            self.progress.note(&erased_there(erased as u64));
        }
        if self.told.replace(self.taken) != Some(self.taken) {
            self.progress.note(&format!("up to date: {} records taken over", self.taken));
        }
        Ok(())
    }

    /// How many records of the source were erased in the target: those that this run has met, and those among the missing ones.
    async fn erased_in_target(&self, missing: &[RecordId]) -> anyhow::Result<u64> {
        let mut erased = self.erased.clone();
        for id in missing {
            if self.target.tombstone(id).await?.is_some() {
                erased.insert(id.clone());
            }
        }
        Ok(erased.len() as u64)
    }

    /// The time at which the fence is lifted if there is no progress before.
    fn lifts_at(&self) -> Option<Instant> {
        self.is_fencing.then(|| self.waits_since + FENCED)
    }

    async fn put_mark(&mut self) -> anyhow::Result<()> {
        Ok(self.mark.put(&*self.target.documents()).await?)
    }
}

/// The message for records that were erased in the target only, with what to do.
pub(super) fn erased_there(count: u64) -> String {
    format!("{count} records are erased in the target: erase them at the source as well")
}

/// Takes over a target from any other run, by putting a new mark.
async fn begin(mut present: Option<Mark>, target: &dyn DocumentStore) -> anyhow::Result<Mark> {
    for _ in 0..TURNS {
        let mut mark = present.map_or_else(Mark::of_new_move, Mark::of_new_run);
        match mark.put(target).await {
            // The other run has put its own mark meanwhile.
            Err(error) if error.kind() == ErrorKind::Conflict => present = Mark::read(target).await?,
            put => return Ok(put.map(|()| mark)?),
        }
        if present.as_ref().is_some_and(|mark| mark.is_finished) {
            break;
        }
    }
    bail!("another run of copy works on this target: end it, or repeat the command")
}

/// Fails if the source is read-only on behalf of another target.
pub(super) async fn ensure_held(source: &dyn MemoryProvider, mark: &Mark) -> anyhow::Result<()> {
    ensure!(
        claim::holds(source, &mark.r#move).await?,
        "the source is read-only already, but not for this target: it moves to another database, or has moved"
    );
    Ok(())
}

async fn sleep_until_some(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// The changes that were pulled from a watch.
struct Pulled {
    batch: Batch,
    /// The error that ended the watch after these changes.
    failure: Option<memory_core::Error>,
}

/// Waits for the next change, and takes all that are ready.
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
