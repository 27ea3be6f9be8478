//! The way of a message, from its receipt to its end.
//!
//! Its longer parts are boxed: they would fill the stack of a thread that has to hold them all.

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
use crate::records::{Audience, Message, NewMessage, OpenMessage, Taken, WHY};
use crate::state::{Turn, cut};

/// The longest text of a message that is taken in, in bytes.
pub const MAX_RECEIVED: usize = 64 << 10;

/// A message that a platform received. One whose text is longer than [`MAX_RECEIVED`] is `TooLarge`, and nothing is kept of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming {
    /// What was said, when, and what the platform calls it: one that comes twice is answered once.
    pub message: NewMessage,
    /// Whether the platform says that the agent is spoken to.
    pub is_addressed: bool,
}

impl Incoming {
    /// `TooLarge` for a text that is not taken in.
    pub(crate) fn check(&self) -> Result<()> {
        match self.message.content.text.len() {
            0..=MAX_RECEIVED => Ok(()),
            size => Err(Error::too_large(format!("a message of {size} bytes; at most {MAX_RECEIVED} are taken in"))),
        }
    }
}

/// A message that is worked on.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) open: OpenMessage,
    pub(super) journal: Journal,
    /// Whether somebody has begun with it before.
    pub(super) is_left: bool,
}

/// What became of a message that came in.
enum Stored {
    New(Box<Task>),
    Known(Box<Memory>),
}

/// How a run ended, and whether its message says so: else that is still open.
struct Concluded {
    end: End,
    is_kept: bool,
}

/// How much is kept of the reason of a failure, in bytes.
const MAX_REASON: usize = 1 << 10;
/// How many of the newest messages of a room tell who says much there.
const SAID_LAST: usize = 8;
/// How many are read for that, since some are results of tools.
const RECENT: usize = 4 * SAID_LAST;

impl MessageService {
    /// Takes a message in at once, so that the order of calls is that of the room, and works on it when the future is awaited.
    ///
    /// # Behavior
    /// - What the agent said itself is ignored without a run.
    /// - The message is stored as open work that this service holds, before it waits for those before it in its room. One that was
    ///   known is ignored where it is worked on or was; where nobody works on it any more, its run goes on.
    /// - A message that is to be answered supersedes the answers in its room that are still being thought about; one that is answered because
    ///   the agent follows the room, those alone that are answered for that reason. What is ignored, or fails before that is decided, leaves
    ///   them alone.
    /// - What was decided is kept before it is said or done, so that it is neither lost nor done twice when the process ends;
    ///   [`MessageService::recover`] goes on with it.
    /// - The messages of the room don't wait for the evaluators.
    /// - Dropping the future leaves the message open.
    pub fn receive(self: &Arc<Self>, incoming: Incoming) -> impl Future<Output = End> + Send + use<> {
        self.receive_for(incoming, Tap::default())
    }

    /// The same, and gives the answer to whoever waits for it.
    pub(crate) fn receive_for(
        self: &Arc<Self>,
        incoming: Incoming,
        tap: Tap,
    ) -> impl Future<Output = End> + Send + use<> {
        let (service, content) = (Arc::clone(self), &incoming.message.content);
        let is_own = is_own(self.composer.services().records().agent(), content);
        let ticket = (!is_own).then(|| self.queues.enter(&content.room, incoming.message.created_at));
        let start = || self.events.start(content.room.clone(), content.author.clone()).with_tap(tap.clone());
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
                            // One who has left the room comes back with what they say, and not with what is brought once more.
                            let (services, said) = (service.composer.services(), &task.open.message.content);
                            let participants = services.records().participants();
                            service.in_time(participants.join(&said.room, &said.author)).await?;
                            Ok(Box::pin(service.work(run, ticket, *task)).await)
                        }
                        Stored::Known(memory) => {
                            known = service.in_time(service.take(&memory)).await?;
                            Ok(End::Ignored(Why::Known))
                        }
                    }
                })
                .await;
            match known {
                Some(left) => Box::pin(service.go_on(left, tap)).await,
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
                Ok(Stored::New(Box::new(Task { journal, open, is_left: false })))
            }
        }
    }

    /// Works on a message for as long as its lease is held, and lets the evaluators look at what was done.
    pub(super) async fn work(&self, run: &Run, ticket: Ticket, task: Task) -> End {
        let mut turn = Turn::new(task.open.message.clone()).with_flow(self.flow_of(run));
        let lease = Arc::clone(task.journal.lease());
        let work = async {
            let mut decided = None;
            let answered = Box::pin(self.respond(run, ticket, &mut turn, &task, &mut decided));
            let answered = async { self.door.unless(Stopping::Everything, answered).await.flatten() };
            let end = match AssertUnwindSafe(answered).catch_unwind().await {
                Ok(Ok(())) => End::Completed,
                Ok(Err(end)) => end,
                Err(_) => End::Failed { reason: "the run panicked".to_owned() },
            };
            self.conclude(&task.journal, decided, end).await
        };
        // Whether the vector is there in time or not: the run does not wait for it, and its answer ends it.
        let aside = self.embed(&task.open.message.content.text).then(|()| pending::<Infallible>());
        let Concluded { end, is_kept } = match select(pin!(lease.while_held(work)), pin!(aside)).await {
            Either::Left((concluded, _)) => concluded.map_err(lost).unwrap_or_else(left),
            Either::Right((never, _)) => match never {},
        };
        // Whoever goes on with a message that is still open comes here again.
        if is_kept && matches!(end, End::Completed | End::Ignored(_)) {
            Box::pin(self.evaluate(run, &turn, &end)).await;
        }
        end
    }

    /// Asks for the vector of what was said, so that `FACTS` need not wait for it.
    async fn embed(&self, text: &str) {
        let services = self.composer.services();
        let facts = services.records().facts();
        match AssertUnwindSafe(facts.prepare(text)).catch_unwind().await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "there is no vector of a message yet"),
            // Caught here: it must not take the run with it.
            Err(_) => tracing::error!("the embedder panicked"),
        }
    }

    /// Works on the answer until it is given, or tells why there is none. The room goes on when it returns.
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
            let reason = format!("the work on it was begun {} times and never came to its end", self.limits.runs);
            return Err(End::Failed { reason });
        }
        let (_claim, mut dialogue, said) = match known {
            Some(why) => {
                stand(&mut ticket, why);
                let claim = self.door.unless(Stopping::Undecided, ticket.claim_again()).await?;
                let mut dialogue = Dialogue::new(self, run, &task.journal, turn);
                let said = time.spend(Box::pin(dialogue.ask())).await??;
                (claim, dialogue, said)
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

    /// What to say and do about a message, with the right to. Until then nothing was.
    async fn think<'a>(
        &'a self,
        run: &'a Run,
        mut ticket: Ticket,
        turn: &mut Turn,
        task: &'a Task,
        time: &mut TimeLeft,
        decided: &mut Option<Why>,
    ) -> Result<(Claim, Dialogue<'a>, Said), End> {
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
        Ok((claim, dialogue, said))
    }

    /// Without what can't be read, the message is answered all the same, and so it is without what is too large to be kept.
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
            // Two agents that follow one room would answer each other without an end.
            Decision::Respond(Why::Followed) if self.says_much(&turn.message).await? => {}
            decision => return Ok(decision),
        }
        let (template, options) = (&services.templates().should_respond, self.rules.options());
        let answer = self.ask(run, &self.small, template, turn, &options, RespondAnswer::parse).await?;
        let decide = if answer.should_respond() { Decision::Respond } else { Decision::Ignore };
        Ok(decide(Why::Model))
    }

    /// Whether a quarter of what was said last in the room is the agent's own, or most of what is kept is what its tools gave.
    async fn says_much(&self, message: &Message) -> Result<bool> {
        let services = self.composer.services();
        let records = services.records();
        let (recent, agent) = (records.messages().until(message, RECENT).await?, records.agent().entity());
        // What its tools gave was not said. Where little else is left, it works much.
        let said: Vec<_> = recent.iter().filter(|one| one.content.action_result.is_none()).take(SAID_LAST).collect();
        let is_busy = recent.len() == RECENT && said.len() < SAID_LAST;
        Ok(is_busy || 4 * said.iter().filter(|one| one.content.author == agent).count() >= SAID_LAST)
    }

    /// Keeps how the run ended, and what decided whether to answer. Where that can't be kept, it is over all the same, and its message
    /// stays open.
    ///
    /// A run that failed because the ledger did not keep what it did is left as it is: when the lease has run out, somebody goes on
    /// behind the journal.
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
        // What metadata take: an error may quote more than that, and U+0000.
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

/// Says for what reason the message is answered.
fn stand(ticket: &mut Ticket, why: Option<Why>) {
    match why {
        Some(Why::Followed) => ticket.follow(),
        _ => ticket.supersede(),
    }
}

/// What becomes of a run whose message is worked on by somebody else, or is there no more.
fn left(error: Error) -> Concluded {
    Concluded { end: End::Left { reason: error.to_string() }, is_kept: false }
}
