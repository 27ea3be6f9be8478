//! The journal of a run, which is stored in the message that the run answers.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memory_core::{Context, Error, ErrorKind, MemoryId, MemoryPatch, Outcome, Result, Status};
use memory_runtime::Lease;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::records::{
    Attachment, Delivery, Described, Entry, EntryState, NewMessage, OpenMessage, Said, may_be_repeated,
    metadata as labels_of,
};

/// The journal of a run. An interrupted run continues from it, in this process or another. Cloning is cheap.
///
/// A run is a list of steps with deterministic names. A step whose result is in the journal does not run again; the result is taken from
/// the journal.
///
/// # Behavior
/// - Each write goes through the lease of the message. If the lease is lost or the message was erased, the write fails with `Conflict`.
/// - A write is completed even if its future is dropped. Writes are made in order.
/// - All entries together have at most [`MAX_BYTES`]; an entry over that fails with `TooLarge` and is not kept.
/// - The end of the run removes the journal. The messages of the run stay, and the versions of its message if the ledger keeps a
///   history.
#[derive(Clone)]
pub(crate) struct Journal {
    lease: Arc<Lease>,
    state: Arc<Mutex<State>>,
    /// Locked while the state is written, so that writes are made in order.
    order: Arc<tokio::sync::Mutex<()>>,
}

struct State {
    attachments: Vec<Attachment>,
    entries: Vec<Entry>,
    /// The size of the entries in bytes.
    size: usize,
    /// Whether the context of the message's memory may hold entries, which the end of the run must remove.
    is_written: bool,
    /// Whether a write failed for a reason that may pass; see [`Journal::is_stuck`].
    is_stuck: bool,
}

/// The state of a step in the journal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Recorded<T> {
    /// The step was not begun.
    Nothing,
    /// The step was begun, so it may have had its effect; its result is unknown.
    Begun,
    /// The step is done, with this result.
    Done(T),
}

/// The most bytes of the entries of a run.
pub(crate) const MAX_BYTES: usize = 4 << 20;
/// The bytes that [`Journal::begun`] leaves free for the failures of steps.
const RESERVE: usize = 64 << 10;
/// The longest name of a step, in bytes.
const MAX_STEP: usize = 64;

impl Journal {
    pub(super) fn new(lease: Arc<Lease>, open: &OpenMessage) -> Self {
        let entries = open.journal.clone();
        let size = entries.iter().map(|entry| size_of(entry).unwrap_or(MAX_BYTES)).sum();
        let is_written = !entries.is_empty();
        let state =
            State { attachments: open.message.content.attachments.clone(), entries, size, is_written, is_stuck: false };
        Self { lease, state: Arc::new(Mutex::new(state)), order: Arc::default() }
    }

    pub(super) fn lease(&self) -> &Arc<Lease> {
        &self.lease
    }

    /// The message that the run answers. Together with the name of a step it is the idempotency key of what the step writes.
    pub(crate) fn message(&self) -> MemoryId {
        self.lease.id()
    }

    /// Whether the journal has an entry for a step.
    pub(super) fn has(&self, step: &str) -> bool {
        self.state().entries.iter().any(|entry| entry.step == step)
    }

    /// Returns the state of a step. Fails with `Corrupt` if its result has another type.
    pub(crate) fn recorded<T: DeserializeOwned>(&self, step: &str) -> Result<Recorded<T>> {
        match self.state().entries.iter().find(|entry| entry.step == step).map(|entry| &entry.state) {
            None => Ok(Recorded::Nothing),
            Some(EntryState::Begun) => Ok(Recorded::Begun),
            Some(EntryState::Done(result)) => T::deserialize(result).map(Recorded::Done).map_err(|error| {
                Error::corrupt("the journal of a run has another result of a step").with_source(error)
            }),
            Some(EntryState::Said(_)) => Err(Error::corrupt("the journal of a run has something said for a step")),
        }
    }

    /// Records that a step is about to begin. After a crash, [`Recorded::Begun`] then says that the step may have had its effect. An
    /// idempotent step need not record that.
    pub(crate) async fn begun(&self, step: &str) -> Result<()> {
        if self.state().size > MAX_BYTES - RESERVE {
            return Err(Error::too_large("the run has done as much as its journal takes"));
        }
        self.put(step, EntryState::Begun)?;
        self.write().await
    }

    /// Records the result of a step, so that it does not run again.
    pub(crate) async fn done(&self, step: &str, result: &impl Serialize) -> Result<()> {
        self.note(step, result)?;
        self.write().await
    }

    /// Like [`done`](Self::done), but the result is stored only with the next write.
    pub(crate) fn note(&self, step: &str, result: &impl Serialize) -> Result<()> {
        let result = serde_json::to_value(result)
            .map_err(|error| Error::invalid("the result of a step has no JSON form").with_source(error))?;
        self.put(step, EntryState::Done(result))
    }

    /// The message that a step says, if the journal has it.
    pub(super) fn said(&self, step: &str) -> Option<Said> {
        let state = self.state();
        let entry = state.entries.iter().find(|entry| entry.step == step)?;
        if let EntryState::Said(said) = &entry.state { Some(Said::clone(said)) } else { None }
    }

    /// Records the message that a step says, before it is stored and said.
    pub(super) async fn say(&self, step: &str, new: &NewMessage) -> Result<Said> {
        let said = Said { at: new.created_at, content: new.content.clone(), delivery: Delivery::Pending };
        self.put(step, EntryState::Said(Box::new(said.clone())))?;
        self.write().await?;
        Ok(said)
    }

    /// Records that the message was delivered, with the next write.
    pub(super) fn delivered(&self, step: &str) {
        self.deliver(step, Delivery::Delivered);
    }

    /// Records that the message may have been delivered, with the next write, unless its delivery is known.
    pub(super) fn unclear(&self, step: &str) {
        if self.said(step).is_some_and(|said| said.delivery == Delivery::Pending) {
            self.deliver(step, Delivery::Unclear);
        }
    }

    /// Records that the message was not delivered, or that this is unknown.
    pub(super) async fn settle(&self, step: &str, delivery: Delivery) -> Result<()> {
        self.deliver(step, delivery);
        self.write().await
    }

    /// Records the descriptions of the message's attachments. After an error the earlier descriptions stay.
    pub(super) async fn describe(&self, attachments: Vec<Attachment>) -> Result<()> {
        let before = std::mem::replace(&mut self.state().attachments, attachments);
        let written = self.write().await;
        if written.is_err() {
            self.state().attachments = before;
        }
        written
    }

    /// Ends the run: sets the status and the labels of the message, and ends the lease.
    pub(super) async fn end(&self, status: Status, labels: &[(&str, &str)]) -> Result<()> {
        let (this, labels) = (self.clone(), labels_of(labels.iter().copied())?);
        run_to_the_end(async move {
            let _order = this.order.lock().await;
            let patch = MemoryPatch::new().with_status(status).merge_metadata(labels);
            let patch = match this.state().last_context()? {
                Some(context) => patch.set_context(context),
                None => patch,
            };
            this.lease.end(patch).await
        })
        .await
        .map_err(lost)
    }

    /// Releases the message to others; `runs` says how often it counts as started.
    pub(super) async fn give_back(&self, runs: u32) -> Result<()> {
        self.lease.give_back(runs).await.map_err(lost)
    }

    /// Marks the run as stuck if the error of a write may pass; see [`is_stuck`](Self::is_stuck).
    pub(super) fn note_failure(&self, error: &Error) {
        self.state().is_stuck |= may_be_repeated(error);
    }

    /// Whether a write failed for a reason that may pass. If the run fails after that, its message stays open, so that a later run can
    /// continue from the journal.
    pub(super) fn is_stuck(&self) -> bool {
        self.state().is_stuck
    }

    async fn write(&self) -> Result<()> {
        let this = self.clone();
        let written = run_to_the_end(async move {
            let _order = this.order.lock().await;
            let context = this.state().context()?;
            this.lease.write(MemoryPatch::new().set_context(context).with_status(Status::Running)).await
        })
        .await;
        written.map_err(lost).inspect_err(|error| self.note_failure(error))
    }

    fn put(&self, step: &str, new: EntryState) -> Result<()> {
        if step.len() > MAX_STEP {
            return Err(Error::too_large(format!("the name of a step must have at most {MAX_STEP} bytes")));
        }
        let entry = Entry { step: step.to_owned(), state: new };
        let mut state = self.state();
        let at = state.entries.iter().position(|known| known.step == step);
        let before = at.map(|at| size_of(&state.entries[at])).transpose()?.unwrap_or_default();
        let size = state.size - before.min(state.size) + size_of(&entry)?;
        if size > MAX_BYTES {
            return Err(Error::too_large(format!("the journal of a run takes {MAX_BYTES} bytes at most")));
        }
        state.size = size;
        match at {
            Some(at) => state.entries[at] = entry,
            None => state.entries.push(entry),
        }
        Ok(())
    }

    fn deliver(&self, step: &str, delivery: Delivery) {
        let mut state = self.state();
        let entry = state.entries.iter_mut().find(|entry| entry.step == step);
        if let Some(Entry { state: EntryState::Said(said), .. }) = entry {
            said.delivery = delivery;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code under the lock can panic in the middle of a change, so a poisoned value is consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn context(&mut self) -> Result<Context> {
        self.is_written = true;
        Context::from_value(&Described { attachments: self.attachments.clone(), journal: self.entries.clone() })
    }

    /// The context of the memory after the end of the run, if it must change.
    fn last_context(&self) -> Result<Option<Context>> {
        let described = || Described { attachments: self.attachments.clone(), journal: Vec::new() };
        self.is_written.then(|| Context::from_value(&described())).transpose()
    }
}

/// Turns `NotFound` and `Erased` into `Conflict`, since an erasure must not show in the end of a run, which any subscriber sees.
pub(super) fn lost(error: Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::Erased => Error::conflict("the message no longer exists"),
        _ => error,
    }
}

fn size_of(entry: &Entry) -> Result<usize> {
    serde_json::to_string(entry)
        .map(|text| text.len())
        .map_err(|error| Error::invalid("a step has no JSON form").with_source(error))
}

/// Runs a write to its end, even if the caller's future is dropped.
async fn run_to_the_end(work: impl Future<Output = Result<()>> + Send + 'static) -> Result<()> {
    let done = tokio::spawn(work).await;
    done.unwrap_or_else(|_| {
        Err(Error::new(ErrorKind::Unexpected, "a write of a run was cut off").with_outcome(Outcome::Unknown))
    })
}

impl fmt::Debug for Journal {
    /// Shows only the message and the number of steps, so that payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Journal({}, {} steps)", self.message(), self.state().entries.len())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use memory_core::{Clock, Erasure, InMemory, ManualClock, MemoryProvider, Timestamp};
    use memory_runtime::{Claim, Leases};

    use super::*;
    use crate::records::{AgentId, EntityId, MessageContent, Records, RoomId, Taken};

    struct Stage {
        provider: Arc<dyn MemoryProvider>,
        clock: Arc<ManualClock>,
        records: Records,
        id: MemoryId,
    }

    impl Stage {
        /// A message, and the journal of its run.
        async fn new() -> (Self, Journal) {
            let provider: Arc<dyn MemoryProvider> = Arc::new(InMemory::new());
            provider.init().await.expect("opens");
            let clock = Arc::new(ManualClock::new(Timestamp::MIN));
            let records = Records::new(Arc::clone(&provider), AgentId::parse("agent").expect("valid"));
            let leases = leases(&provider, &clock);
            let (room, author) = (RoomId::parse("r").expect("valid"), EntityId::parse("ana").expect("valid"));
            let (new, claim) =
                (NewMessage::new(MessageContent::new(room, author, "hello"), Timestamp::MIN), leases.claim(1));
            let taken = records.messages().add_task(new, false, &claim).await.expect("stored");
            let Taken::New(message) = taken else { panic!("it is new") };
            let (id, open) =
                (message.id, OpenMessage { message: *message, run: None, is_addressed: false, journal: Vec::new() });
            (Self { provider, clock, records, id }, Journal::new(leases.hold(id, claim), &open))
        }

        /// The journal as another process finds it when the lease has run out.
        async fn left(&self) -> Journal {
            self.clock.set(Timestamp::from_millis(self.clock.now().as_millis() + 1_000).expect("in range"));
            let memory = self.provider.get(self.id).await.expect("answers").expect("stored");
            let leases = leases(&self.provider, &self.clock);
            assert!(leases.is_free(&memory));
            let claim = leases.claim(Claim::read(&memory).expect("a claim").runs());
            let lease = leases.take(&memory, claim).await.expect("answers").expect("it is free");
            Journal::new(lease, &self.records.messages().open(&memory).expect("a message"))
        }
    }

    fn leases(provider: &Arc<dyn MemoryProvider>, clock: &Arc<ManualClock>) -> Arc<Leases> {
        Leases::new(Arc::clone(provider), Arc::clone(clock) as _, None, Duration::from_secs(1))
    }

    #[tokio::test]
    async fn another_process_finds_what_was_done() {
        let (stage, journal) = Stage::new().await;
        journal.note("model", &"go").expect("kept");
        journal.begun("one").await.expect("written");
        journal.done("one", &1).await.expect("written");
        journal.begun("two").await.expect("written");
        journal.note("three", &3).expect("kept");
        let other = stage.left().await;
        assert_eq!(other.recorded("model").expect("read"), Recorded::Done("go".to_owned()));
        assert_eq!(other.recorded("one").expect("read"), Recorded::Done(1));
        assert_eq!(other.recorded::<i32>("two").expect("read"), Recorded::Begun);
        assert_eq!(
            other.recorded::<i32>("three").expect("read"),
            Recorded::Nothing,
            "a note comes with the next write"
        );
        assert_eq!(other.recorded::<String>("one").expect_err("a number").kind(), ErrorKind::Corrupt);
        let late = journal.done("two", &2).await.expect_err("the message is another's");
        assert_eq!(late.kind(), ErrorKind::Conflict);
        assert_eq!(stage.left().await.recorded::<i32>("two").expect("read"), Recorded::Begun);
    }

    #[tokio::test]
    async fn the_end_takes_it_away_and_nothing_comes_after_it() {
        let (stage, journal) = Stage::new().await;
        journal.done("one", &"secret").await.expect("written");
        journal.end(Status::Completed, &[("end", "completed")]).await.expect("written");
        assert_eq!(journal.done("two", &2).await.expect_err("it is over").kind(), ErrorKind::Conflict);
        let memory = stage.provider.get(stage.id).await.expect("answers").expect("stored");
        let context = memory.context.expect("attachments");
        assert_eq!((memory.status, context.as_str()), (Status::Completed, r#"{"attachments":[]}"#));
    }

    #[tokio::test]
    async fn a_message_that_was_erased_is_lost() {
        let (stage, journal) = Stage::new().await;
        journal.begun("one").await.expect("written");
        let erasure = Erasure::records([stage.id.into()], "a test").expect("valid");
        assert_eq!(stage.provider.erase(&erasure).await.expect("erased").records.len(), 1);
        for failed in [
            journal.done("one", &1).await,
            journal.describe(Vec::new()).await,
            journal.give_back(0).await,
            journal.end(Status::Completed, &[("end", "completed")]).await,
        ] {
            let error = failed.expect_err("nothing is there");
            assert_eq!((error.kind(), error.message()), (ErrorKind::Conflict, "the message no longer exists"));
        }
        assert!(!journal.is_stuck(), "nobody goes on with it");
    }

    #[tokio::test]
    async fn attachments_that_are_too_large_leave_the_journal_as_it_was() {
        let (stage, journal) = Stage::new().await;
        let text = Some("x".repeat(Context::MAX_BYTES));
        let large = Attachment { text, ..Attachment::default() };
        assert_eq!(journal.describe(vec![large]).await.expect_err("too large").kind(), ErrorKind::TooLarge);
        journal.done("one", &1).await.expect("written");
        journal.end(Status::Completed, &[("end", "completed")]).await.expect("written");
        let memory = stage.provider.get(stage.id).await.expect("answers").expect("stored");
        assert_eq!(memory.context.expect("attachments").as_str(), r#"{"attachments":[]}"#);
    }

    #[tokio::test]
    async fn what_is_too_large_is_not_kept_and_leaves_room_for_the_failure() {
        let (stage, journal) = Stage::new().await;
        journal.begun("one").await.expect("written");
        assert_eq!(
            journal.begun(&"x".repeat(MAX_STEP + 1)).await.expect_err("a long name").kind(),
            ErrorKind::TooLarge
        );
        let large = journal.done("one", &"x".repeat(MAX_BYTES)).await.expect_err("too large");
        assert_eq!(large.kind(), ErrorKind::TooLarge);
        journal.done("one", &"x".repeat(MAX_BYTES - RESERVE)).await.expect("written");
        assert_eq!(journal.begun("two").await.expect_err("full").kind(), ErrorKind::TooLarge);
        journal.done("two", &"no").await.expect("written");
        assert_eq!(stage.left().await.recorded("two").expect("read"), Recorded::Done("no".to_owned()));
    }
}
