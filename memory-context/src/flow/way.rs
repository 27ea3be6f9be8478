//! The processing of a message, from its receipt to its end.
//!
//! Large futures are boxed, since together they would overflow the stack of a thread.

use std::convert::Infallible;
use std::future::pending;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{Either, select};
use memory_core::{Error, ErrorKind, Memory, Result, Status};

use super::answer::RespondAnswer;
use super::attachments::read_attachments;
use super::dialogue::{Dialogue, Said};
use super::door::Stopping;
use super::journal::lost;
use super::queue::{Claim, Ticket};
use super::respond::{Decision, Received};
use super::run::TimeLeft;
use super::tap::Tap;
use super::{End, FlowStep, Journal, MessageService, Run, Why, is_own};
use crate::records::{Audience, Entity, EntityId, Message, NewMessage, OpenMessage, RoomId, Taken, WHY, repeated};
use crate::state::{Turn, cut};

/// The longest text of a received message, in bytes.
pub const MAX_RECEIVED: usize = 64 << 10;

/// A message that a platform received. A message whose text is longer than [`MAX_RECEIVED`] is refused with `TooLarge` and not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming {
    /// The message with its time and the platform's own id. A message that is delivered twice under one id is answered once.
    pub message: NewMessage,
    /// Whether the platform says that the message addresses the agent.
    pub is_addressed: bool,
}

impl Incoming {
    /// Fails with `TooLarge` if the text is too long.
    pub(crate) fn check(&self) -> Result<()> {
        match self.message.content.text.len() {
            0..=MAX_RECEIVED => Ok(()),
            size => Err(Error::too_large(format!("a message of {size} bytes; at most {MAX_RECEIVED} are allowed"))),
        }
    }
}

/// A message in progress.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) open: OpenMessage,
    pub(super) journal: Journal,
    /// The record of its author, to be stored unless it exists.
    pub(super) author: Option<Entity>,
    /// Whether it was started before and is recovered.
    pub(super) is_left: bool,
}

/// The result of storing a received message.
enum Stored {
    New(Box<Task>),
    Known(Box<Memory>),
}

/// The first answer of the model to a message, and what is needed to give it.
struct Thought<'a> {
    /// Held until the dialogue has ended.
    claim: Claim,
    dialogue: Dialogue<'a>,
    said: Said,
}

/// The end of a run, and whether it was stored; if not, the message is still open.
struct Concluded {
    end: End,
    is_kept: bool,
}

/// The most bytes of a failure's reason that are stored.
const MAX_REASON: usize = 1 << 10;
/// How many of the newest messages of a room show whether the agent says too much there.
const SAID_LAST: usize = 8;
/// How many messages are read for that, since some are results of tools.
const RECENT: usize = 4 * SAID_LAST;

impl MessageService {
    /// Enters a message into its room's queue at once, so that the order of calls is the order of the room, and processes it when the
    /// future is awaited.
    ///
    /// # Behavior
    /// - The agent's own messages are ignored without a run.
    /// - The message is stored as open work that this service holds, before it waits for earlier messages of its room. A message that was
    ///   delivered before is ignored if it is in progress or has ended; otherwise its run continues.
    /// - A message that is to be answered supersedes the undecided answers in its room. A message that is answered because the agent
    ///   follows the room supersedes only others of this kind. A message that is ignored, or fails before the decision, supersedes
    ///   nothing.
    /// - A decision is stored before it is said or done, so that a crash neither loses nor repeats it; [`MessageService::recover`]
    ///   continues from there.
    /// - Other messages of the room don't wait for the evaluators.
    /// - Dropping the future leaves the message open.
    pub fn receive(self: &Arc<Self>, incoming: Incoming) -> impl Future<Output = End> + Send + use<> {
        self.receive_for(incoming, None, Tap::default())
    }

    /// Like [`receive`](Self::receive), and stores the author of a new message unless it exists, and sends the answer to the tap.
    pub(crate) fn receive_for(
        self: &Arc<Self>,
        incoming: Incoming,
        mut author: Option<Entity>,
        tap: Tap,
    ) -> impl Future<Output = End> + Send + use<> {
        let (service, content) = (Arc::clone(self), &incoming.message.content);
        let is_own = is_own(self.composer.services().records().agent(), content);
        let ticket = (!is_own).then(|| self.queues.enter(&content.room, incoming.message.created_at));
        let start = || Run::start(&self.events, content.room.clone(), content.author.clone()).with_tap(tap.clone());
        let run = ticket.is_some().then(start);
        async move {
            let Some((ticket, run)) = ticket.zip(run) else { return End::Ignored(Why::Own) };
            let mut known = None;
            let end = run
                .drive(async |run| {
                    let _open = service.door.enter()?;
                    incoming.check()?;
                    match service.in_time(service.store(run, incoming)).await? {
                        Stored::New(task) => {
                            let task = Task { author: author.take(), ..*task };
                            Ok(Box::pin(service.work(run, ticket, task)).await)
                        }
                        Stored::Known(memory) => {
                            known = service.in_time(service.take(&memory)).await?;
                            // The run that goes on with a message admits its author.
                            if known.is_none() && author.is_some() {
                                service.try_admit(run, author.as_ref(), false).await;
                            }
                            Ok(End::Ignored(Why::Known))
                        }
                    }
                })
                .await;
            match known {
                Some(left) => Box::pin(service.go_on(left, author, tap)).await,
                None => end,
            }
        }
    }

    async fn store(&self, run: &Run, incoming: Incoming) -> Result<Stored> {
        let Incoming { message, is_addressed } = incoming;
        let (services, claim) = (self.composer.services(), self.leases.claim(1));
        match services.records().messages().add_task(message.with_run(run.context().id), is_addressed, &claim).await? {
            Taken::Known(memory) => {
                run.tap().stored(memory.id);
                Ok(Stored::Known(memory))
            }
            Taken::New(message) => {
                run.tap().stored(message.id);
                run.step(FlowStep::Stored(message.id));
                let lease = self.leases.hold(message.id, claim);
                let open = OpenMessage { message: *message, run: None, is_addressed, journal: Vec::new() };
                let journal = Journal::new(lease, &open);
                Ok(Stored::New(Box::new(Task { journal, open, author: None, is_left: false })))
            }
        }
    }

    /// Adds the author of a message to its room, and then stores the author unless it exists. It is repeated after errors that may pass.
    ///
    /// If the message is not new, the call that stored it may have been cut off before this. Then an author is not added to a room that they
    /// have joined before, since they may have left it, and not stored again if they are known.
    pub(crate) async fn admit(
        &self,
        room: &RoomId,
        author: &EntityId,
        entity: Option<&Entity>,
        is_new: bool,
    ) -> Result<()> {
        let services = self.composer.services();
        let (participants, entities) = (services.records().participants(), services.records().entities());
        let admitted = repeated(|| async {
            let is_known = !is_new && entities.is_known(author).await?;
            if is_new || !participants.has_joined(room, author).await? {
                participants.join(room, author).await?;
            }
            match entity.filter(|_| !is_known) {
                Some(entity) => entities.ensure(entity).await.map(drop),
                None => Ok(()),
            }
        });
        self.in_time(admitted).await
    }

    /// Admits the author of a run's message. Returns whether that succeeded; the message is answered even if not.
    async fn try_admit(&self, run: &Run, entity: Option<&Entity>, is_new: bool) -> bool {
        let said = run.context();
        let admitted = self.admit(&said.room, &said.author, entity, is_new).await;
        admitted.inspect_err(|error| tracing::warn!(%error, "the author of a message may not be in its room")).is_ok()
    }

    /// Processes a message while its lease is held, and then runs the evaluators. Its author is admitted before the answer, or, if the
    /// ledger failed, after its end is stored.
    pub(super) async fn work(&self, run: &Run, ticket: Ticket, task: Task) -> End {
        let mut turn = Turn::new(task.open.message.clone()).with_flow(self.flow_of(run));
        let lease = Arc::clone(task.journal.lease());
        let work = async {
            let (mut decided, mut is_admitted) = (None, false);
            let answered = async {
                is_admitted = self.try_admit(run, task.author.as_ref(), !task.is_left).await;
                Box::pin(self.respond(run, ticket, &mut turn, &task, &mut decided)).await
            };
            let answered = async { self.door.unless(Stopping::Everything, answered).await.flatten() };
            let end = match AssertUnwindSafe(answered).catch_unwind().await {
                Ok(Ok(())) => End::Completed,
                Ok(Err(end)) => end,
                Err(_) => End::Failed { reason: "the run panicked".to_owned() },
            };
            let concluded = self.conclude(&task.journal, decided, end).await?;
            // The message is not new any more: its author may have left meanwhile. The author of a message that was given back is admitted by
            // the run that continues it, and that of an erased one by nobody.
            if !is_admitted && !matches!(concluded.end, End::Left { .. }) {
                self.try_admit(run, task.author.as_ref(), false).await;
            }
            Ok(concluded)
        };
        // The run does not wait for the vector; the end of the answer drops the request.
        let aside = self.embed(&task.open.message.content.text).then(|()| pending::<Infallible>());
        let Concluded { end, is_kept } = match select(pin!(lease.while_held(work)), pin!(aside)).await {
            Either::Left((concluded, _)) => concluded.map_err(lost).unwrap_or_else(left),
            Either::Right((never, _)) => match never {},
        };
        // If the message is still open, the run that continues it evaluates it.
        if is_kept && matches!(end, End::Completed | End::Ignored(_)) {
            Box::pin(self.evaluate(run, &turn, &end)).await;
        }
        end
    }

    /// Requests the vector of the message, so that `FACTS` need not wait for it.
    async fn embed(&self, text: &str) {
        let services = self.composer.services();
        let facts = services.records().facts();
        match AssertUnwindSafe(facts.prepare(text)).catch_unwind().await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "there is no vector of a message yet"),
            // Caught here, so that the panic does not end the run.
            Err(_) => tracing::error!("the embedder panicked"),
        }
    }

    /// Answers a message, or returns why it is not answered. When it returns, its place in the queue is free for the next message.
    async fn respond(
        &self,
        run: &Run,
        mut ticket: Ticket,
        turn: &mut Turn,
        task: &Task,
        decided: &mut Option<Why>,
    ) -> Result<(), End> {
        let (mut time, begun) = (TimeLeft::new(self.limits.run), task.journal.lease().runs());
        let known = Dialogue::decided(&task.journal)?;
        *decided = known.flatten();
        if begun > self.limits.runs {
            let reason = format!("the work on it was begun {} times and never ended", self.limits.runs);
            return Err(End::Failed { reason });
        }
        let Thought { claim: _claim, mut dialogue, said } = match known {
            Some(why) => {
                stand(&mut ticket, why);
                let claim = self.door.unless(Stopping::Undecided, ticket.claim_again()).await?;
                let mut dialogue = Dialogue::new(self, run, &task.journal, turn);
                let said = time.spend(Box::pin(dialogue.ask())).await??;
                Thought { claim, dialogue, said }
            }
            None => {
                let thought = Box::pin(self.think(run, ticket, turn, task, &mut time, decided));
                self.door.unless(Stopping::Undecided, thought).await??
            }
        };
        let end = time.spend(Box::pin(dialogue.go_on(said))).await.flatten();
        *turn = dialogue.into_turn();
        end
    }

    /// Decides whether to answer a message, asks the model for the first answer, and claims the right to give it. Nothing is said or done
    /// before.
    async fn think<'a>(
        &'a self,
        run: &'a Run,
        mut ticket: Ticket,
        turn: &mut Turn,
        task: &'a Task,
        time: &mut TimeLeft,
        decided: &mut Option<Why>,
    ) -> Result<Thought<'a>, End> {
        let services = self.composer.services();
        let messages = services.records().messages();
        let not_followed = |why: Option<&str>| why != Some(Why::Followed.as_str());
        if task.is_left && time.spend(messages.is_overtaken(&turn.message, not_followed)).await?? {
            return Err(End::Superseded);
        }
        time.spend(self.read_attachments(turn, &task.journal)).await??;
        ticket.turn().await;
        match time.spend(Box::pin(self.decide(run, turn, task.open.is_addressed))).await?? {
            Decision::Ignore(why) => return Err(End::Ignored(why)),
            Decision::Respond(why) => *decided = Some(why),
            Decision::Ask => {}
        }
        let is_followed = *decided == Some(Why::Followed);
        if task.is_left && is_followed && time.spend(messages.is_overtaken(&turn.message, |_| true)).await?? {
            return Err(End::Superseded);
        }
        stand(&mut ticket, *decided);
        ticket.unless_superseded(ticket.first()).await.ok_or(End::Superseded)?;
        let mut dialogue = Dialogue::new(self, run, &task.journal, turn);
        let said = ticket.unless_superseded(time.spend(Box::pin(dialogue.ask()))).await.ok_or(End::Superseded)???;
        let claim = ticket.claim().await.ok_or(End::Superseded)?;
        dialogue.decided_by(*decided)?;
        Ok(Thought { claim, dialogue, said })
    }

    /// Reads the attachments. The message is answered even if they can't be read, or if their descriptions are too large to be stored.
    async fn read_attachments(&self, turn: &mut Turn, journal: &Journal) -> Result<()> {
        let Some(reader) = &self.reader else { return Ok(()) };
        let read = read_attachments(reader.as_ref(), &turn.message, self.limits.attachment).await;
        let Some(attachments) = read else { return Ok(()) };
        match journal.describe(attachments.clone()).await {
            Ok(()) => {
                let mut message = Message::clone(&turn.message);
                message.content.attachments = attachments;
                *turn = turn.clone().with_message(message);
            }
            Err(error) if error.kind() == ErrorKind::Conflict => return Err(error),
            Err(error) => tracing::warn!(%error, "what was found in attachments can't be kept"),
        }
        Ok(())
    }

    async fn decide(&self, run: &Run, turn: &Turn, is_addressed: bool) -> Result<Decision> {
        let (services, content) = (self.composer.services(), &turn.message.content);
        let audience = Audience::new(content.room.clone(), content.author.clone());
        let agent = services.records().agent().entity();
        let follows = services.records().participants().get(&audience, &agent).await?;
        let received = Received { content, is_addressed, state: follows.and_then(|follows| follows.state) };
        match self.rules.decide(&services.character().name, &received) {
            Decision::Ask => {}
            // Two agents that follow one room would answer each other forever.
            Decision::Respond(Why::Followed) if self.says_much(&turn.message).await? => {}
            decision => return Ok(decision),
        }
        let (template, options) = (&services.templates().should_respond, self.rules.options());
        let answer = self.ask(run, &self.small, template, turn, &options, RespondAnswer::parse).await?;
        let decide = if answer.should_respond() { Decision::Respond } else { Decision::Ignore };
        Ok(decide(Why::Model))
    }

    /// Whether at least two of the room's eight newest messages are the agent's own, or more than three quarters of the 32 newest are
    /// results of tools.
    async fn says_much(&self, message: &Message) -> Result<bool> {
        let services = self.composer.services();
        let records = services.records();
        let (recent, agent) = (records.messages().until(message, RECENT).await?, records.agent().entity());
        // Results of tools don't count as said. If they leave fewer than eight other messages, the agent has been busy.
        let said: Vec<_> = recent.iter().filter(|one| one.content.action_result.is_none()).take(SAID_LAST).collect();
        let is_busy = recent.len() == RECENT && said.len() < SAID_LAST;
        Ok(is_busy || 4 * said.iter().filter(|one| one.content.author == agent).count() >= SAID_LAST)
    }

    /// Stores the end of the run and the reason for answering. If that fails, the run ends nevertheless, and its message stays open.
    ///
    /// If a run failed because the ledger could not store its journal, its message stays open: after the lease has expired, another run
    /// continues from the journal.
    async fn conclude(&self, journal: &Journal, decided: Option<Why>, end: End) -> Result<Concluded> {
        if let End::Failed { reason } = &end
            && journal.is_stuck()
        {
            return Ok(Concluded { end: End::Left { reason: reason.clone() }, is_kept: false });
        }
        let (why, reason) = match &end {
            End::Ignored(why) => (Some(*why), None),
            End::Failed { reason } => (decided, Some(reason.as_str())),
            End::Completed | End::Superseded | End::TimedOut { .. } | End::Left { .. } => (decided, None),
        };
        let mut labels = vec![("end", end.as_str())];
        labels.extend(why.map(|why| (WHY, why.as_str())));
        // Metadata take neither long texts nor U+0000, which an error may hold.
        let reason = reason.map(|reason| cut(reason, MAX_REASON).replace('\0', "\u{fffd}"));
        labels.extend(reason.as_deref().map(|reason| ("reason", reason)));
        let kept = async {
            match &end {
                End::Left { .. } => journal.give_back(journal.lease().runs().saturating_sub(1)).await,
                End::Completed => journal.end(Status::Completed, &labels).await,
                End::Ignored(_) | End::Superseded => journal.end(Status::Observed, &labels).await,
                End::Failed { .. } | End::TimedOut { .. } => journal.end(Status::Failed, &labels).await,
            }
        };
        let kept = self.in_time(kept).await;
        let is_kept = kept.is_ok();
        match kept {
            Err(error) if error.kind() == ErrorKind::Conflict => return Err(error),
            Err(error) => tracing::warn!(%error, "how a run ended can't be kept"),
            Ok(()) => {}
        }
        Ok(Concluded { end, is_kept })
    }
}

/// Tells the queue for what reason the message is answered.
fn stand(ticket: &mut Ticket, why: Option<Why>) {
    match why {
        Some(Why::Followed) => ticket.follow(),
        _ => ticket.supersede(),
    }
}

/// The end of a run whose message was taken by another process or erased.
fn left(error: Error) -> Concluded {
    Concluded { end: End::Left { reason: error.to_string() }, is_kept: false }
}
