//! The way of a message, step by step.

use std::convert::Infallible;
use std::future::pending;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use futures::{FutureExt, StreamExt};
use memory_core::{Error, ErrorKind, Memory, Result, Status};
use memory_model::{self as model, Completion, Delta, Model, Prompt, ask};
use memory_runtime::Leases;
use tokio::sync::{RwLock, RwLockReadGuard, watch};
use tokio::time::timeout;

use super::answer::{Mistake, RespondAnswer};
use super::attachments::read_attachments;
use super::dialogue::{Dialogue, Said};
use super::run::TimeLeft;
use super::tap::Tap;
use super::voice::Voice;
use super::{
    AttachmentReader, Claim, Decision, End, Events, Journal, Platform, Received, RespondRules, RoomQueues, Run, Step,
    Ticket, Why, is_own,
};
use crate::records::{Message, NewMessage, OpenMessage, RoomId, Scope, Taken};
use crate::state::{ComposeOptions, Composer, State, Turn};
use crate::template::Template;

/// A message that a platform received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming {
    /// What was said, when, and what the platform calls it: one that comes twice is answered once.
    pub message: NewMessage,
    /// Whether the platform says that the agent is spoken to.
    pub is_addressed: bool,
}

/// How long things may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// To read one attachment; half a minute by default.
    pub attachment: Duration,
    /// One call of a model; a minute by default.
    pub model: Duration,
    /// One call of a tool; a minute by default.
    pub action: Duration,
    /// To say something; ten seconds by default.
    pub say: Duration,
    /// All evaluators; two minutes by default.
    pub evaluators: Duration,
    /// The whole work on a message, from its attachments to its answer; an hour by default. That it waits for other messages of
    /// its room does not count.
    pub run: Duration,
    /// How long a message stays with a process that gives no sign of life; a minute by default. It is renewed each third of it.
    pub lease: Duration,
    /// How often the work on a message is begun; three times by default. One that was begun as often and never came to its end has
    /// failed, so that a message that kills its process does not do it for ever.
    pub runs: u32,
}

impl Default for Limits {
    fn default() -> Self {
        let minute = Duration::from_secs(60);
        Self {
            attachment: minute / 2,
            model: minute,
            action: minute,
            say: minute / 6,
            evaluators: minute * 2,
            run: minute * 60,
            lease: minute,
            runs: 3,
        }
    }
}

/// Answers the messages that an agent receives.
#[derive(Debug)]
pub struct MessageService {
    pub(super) composer: Composer,
    pub(super) platform: Arc<dyn Platform>,
    /// Decides whether to answer.
    small: Arc<dyn Model>,
    /// Answers.
    pub(super) large: Arc<dyn Model>,
    reader: Option<Arc<dyn AttachmentReader>>,
    pub(super) queues: RoomQueues,
    pub(super) leases: Arc<Leases>,
    instance: Option<String>,
    pub(super) events: Events,
    rules: RespondRules,
    pub(super) limits: Limits,
    /// What is composed for an answer.
    pub(super) options: ComposeOptions,
    stopping: watch::Sender<Stopping>,
    /// Held for reading by each run, so that a shutdown waits for it.
    is_open: RwLock<bool>,
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

/// What a shutdown gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stopping {
    Nothing,
    /// The messages whose answer is not decided on.
    Undecided,
    /// All messages.
    Everything,
}

impl MessageService {
    /// A service with the default rules and limits, and one model for everything.
    pub fn new(composer: Composer, model: Arc<dyn Model>, platform: Arc<dyn Platform>, events: Events) -> Self {
        let limits = Limits::default();
        Self {
            leases: leases(&composer, None, limits.lease),
            instance: None,
            composer,
            platform,
            small: Arc::clone(&model),
            large: model,
            reader: None,
            queues: RoomQueues::default(),
            events,
            rules: RespondRules::default(),
            limits,
            options: ComposeOptions::default(),
            stopping: watch::Sender::new(Stopping::Nothing),
            is_open: RwLock::new(true),
        }
    }

    /// Asks another model whether to answer.
    #[must_use]
    pub fn with_small_model(mut self, model: Arc<dyn Model>) -> Self {
        self.small = model;
        self
    }

    /// Has what comes with messages put into words; by default nobody does.
    #[must_use]
    pub fn with_attachment_reader(mut self, reader: Arc<dyn AttachmentReader>) -> Self {
        self.reader = Some(reader);
        self
    }

    /// With other rules.
    #[must_use]
    pub fn with_rules(mut self, rules: RespondRules) -> Self {
        self.rules = rules;
        self
    }

    /// With other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self.leases = leases(&self.composer, self.instance.as_deref(), limits.lease);
        self
    }

    /// Composes answers over other providers, or within a budget. The conversation is read anew in any case, and what the model asks
    /// for is added.
    #[must_use]
    pub fn with_options(mut self, options: ComposeOptions) -> Self {
        self.options = options;
        self
    }

    /// Under a name of its own: a process that has it again after a restart takes up the messages of the one before at once, without
    /// waiting for their leases; so no two that run at the same time may share one. By default it is a new one.
    ///
    /// `InvalidInput` unless it has 1 to 128 bytes without control characters.
    pub fn with_instance(mut self, name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        Leases::check_instance(&name)?;
        self.leases = leases(&self.composer, Some(&name), self.limits.lease);
        self.instance = Some(name);
        Ok(self)
    }

    /// Where to hear what happens in the runs.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Takes a message in at once, so that the order of calls is that of the room, and works on it when the future is awaited.
    ///
    /// # Behavior
    /// - What the agent said itself is ignored without a run.
    /// - The message is stored as open work that this service holds, before it waits for those before it in its room. One that was
    ///   known is ignored where it is worked on or was; where nobody works on it any more, its run goes on.
    /// - A message that is to be answered supersedes the answers in its room that are still being thought about. What is ignored, or
    ///   fails before that is decided, leaves them alone.
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
            let text = incoming.message.content.text.clone();
            let mut known = None;
            let end = run
                .drive(async |run| {
                    let _open = service.enter()?;
                    let work = async {
                        match service.store(run, incoming).await? {
                            Stored::New(task) => Ok(service.work(run, ticket, *task).await),
                            Stored::Known(memory) => {
                                known = service.take(&memory).await?;
                                Ok(End::Ignored(Why::Known))
                            }
                        }
                    };
                    // Whether the vector is there in time or not: the run does not wait for it, and its end ends it.
                    let aside = service.embed(&text).then(|()| pending::<Infallible>());
                    match select(pin!(work), pin!(aside)).await {
                        Either::Left((end, _)) => end,
                        Either::Right((never, _)) => match never {},
                    }
                })
                .await;
            match known {
                Some(left) => service.go_on(left, tap).await,
                None => end,
            }
        }
    }

    /// Supersedes the answers in a room that are still thought about, as a newer message that is to be answered does.
    pub(crate) fn interrupt(&self, room: &RoomId) {
        self.queues.enter(room, self.composer.services().clock().now()).supersede();
    }

    /// Takes nothing in any more, and ends when no run is going on: what was decided is said and done before that, and what was not
    /// is given back, so that another process can go on with it at once. What comes in later fails.
    pub async fn shutdown(&self) {
        self.close(Stopping::Undecided).await;
    }

    /// The same, but gives back what was decided too: another process goes on behind what was done of it.
    pub async fn stop(&self) {
        self.close(Stopping::Everything).await;
    }

    async fn close(&self, stopping: Stopping) {
        self.stopping.send_if_modified(|now| std::mem::replace(now, stopping.max(*now)) != *now);
        *self.is_open.write().await = false;
    }

    /// Keeps a shutdown waiting until it is dropped; `Closed` once one has begun.
    pub(super) fn enter(&self) -> Result<RwLockReadGuard<'_, bool>> {
        let is_open =
            self.is_open.try_read().ok().filter(|is_open| **is_open && *self.stopping.borrow() == Stopping::Nothing);
        is_open.ok_or_else(|| Error::new(ErrorKind::Closed, "the service was shut down"))
    }

    /// Asks for the vector of what was said while that is stored, so that `FACTS` need not wait for it.
    async fn embed(&self, text: &str) {
        if let Err(error) = self.composer.services().records().facts().prepare(text).await {
            tracing::warn!(%error, "there is no vector of a message yet");
        }
    }

    async fn store(&self, run: &Run, incoming: Incoming) -> Result<Stored> {
        let Incoming { message, is_addressed } = incoming;
        let (services, claim) = (self.composer.services(), self.leases.claim(1));
        match services.records().messages().add_task(message.with_run(run.context().id), is_addressed, &claim).await? {
            Taken::Known(memory) => Ok(Stored::Known(memory)),
            Taken::New(message) => {
                run.step(Step::Stored(message.id));
                let lease = self.leases.hold(message.id, claim);
                let open = OpenMessage { message: *message, run: None, is_addressed, journal: Vec::new() };
                let journal = Journal::new(lease, &open);
                Ok(Stored::New(Box::new(Task { journal, open, is_left: false })))
            }
        }
    }

    /// Works on a message for as long as its lease is held, and lets the evaluators look at what was done.
    pub(super) async fn work(&self, run: &Run, ticket: Ticket, task: Task) -> End {
        let mut turn = Turn::new(task.open.message.clone());
        let lease = Arc::clone(task.journal.lease());
        let work = async {
            let mut decided = None;
            let answered = self.respond(run, ticket, &mut turn, &task, &mut decided);
            let answered = async { self.unless_stopped(Stopping::Everything, answered).await.flatten() };
            let end = match AssertUnwindSafe(answered).catch_unwind().await {
                Ok(Ok(())) => End::Completed,
                Ok(Err(end)) => end,
                Err(_) => End::Failed { reason: "the run panicked".to_owned() },
            };
            self.conclude(&task.journal, decided, end).await
        };
        let end = lease.while_held(work).await.unwrap_or_else(left);
        // Whoever waits for the answer does not wait for the evaluators.
        run.tap().end(&end);
        if let End::Completed | End::Ignored(_) = end {
            self.evaluate(run, &turn, end == End::Completed).await;
        }
        end
    }

    /// Works on the answer until it is given, or tells why there is none. The room goes on when it returns.
    async fn respond(
        &self,
        run: &Run,
        ticket: Ticket,
        turn: &mut Turn,
        task: &Task,
        decided: &mut Option<Why>,
    ) -> Result<(), End> {
        let (mut time, begun) = (TimeLeft::new(self.limits.run), task.journal.lease().runs());
        if begun > self.limits.runs {
            let reason = format!("the work on it was begun {} times and never came to its end", self.limits.runs);
            return Err(End::Failed { reason });
        }
        let (_claim, mut dialogue, said) = match Dialogue::decided(&task.journal)? {
            Some(why) => {
                *decided = why;
                let claim = self.unless_stopped(Stopping::Undecided, ticket.claim_again()).await?;
                let mut dialogue = Dialogue::new(self, run, &task.journal, turn);
                let said = time.spend(dialogue.ask()).await??;
                (claim, dialogue, said)
            }
            None => {
                let thought = self.think(run, ticket, turn, task, &mut time, decided);
                self.unless_stopped(Stopping::Undecided, thought).await??
            }
        };
        let end = time.spend(dialogue.go_on(said)).await.flatten();
        *turn = dialogue.into_turn();
        end
    }

    /// What to say and do about a message, with the right to. Until then nothing was.
    async fn think<'a>(
        &'a self,
        run: &'a Run,
        ticket: Ticket,
        turn: &mut Turn,
        task: &'a Task,
        time: &mut TimeLeft,
        decided: &mut Option<Why>,
    ) -> Result<(Claim, Dialogue<'a>, Said), End> {
        if task.is_left && self.composer.services().records().messages().is_overtaken(&turn.message).await? {
            return Err(End::Superseded);
        }
        time.spend(self.read_attachments(turn, &task.journal)).await??;
        ticket.turn().await;
        match time.spend(self.decide(run, turn, task.open.is_addressed)).await?? {
            Decision::Ignore(why) => return Err(End::Ignored(why)),
            Decision::Respond(why) => *decided = Some(why),
            Decision::Ask => {}
        }
        ticket.supersede();
        ticket.unless_superseded(ticket.first()).await.ok_or(End::Superseded)?;
        let mut dialogue = Dialogue::new(self, run, &task.journal, turn);
        let said = ticket.unless_superseded(time.spend(dialogue.ask())).await.ok_or(End::Superseded)???;
        let claim = ticket.claim().await.ok_or(End::Superseded)?;
        dialogue.decided_by(*decided)?;
        Ok((claim, dialogue, said))
    }

    /// Does some work, unless a shutdown gives up what is as far as that: then it is dropped.
    async fn unless_stopped<T>(&self, at: Stopping, work: impl Future<Output = T>) -> Result<T, End> {
        let mut stopping = self.stopping.subscribe();
        let stopped = stopping.wait_for(|stopping| *stopping >= at);
        match select(pin!(work), pin!(stopped)).await {
            Either::Left((done, _)) => Ok(done),
            Either::Right(_) => Err(End::Left { reason: "the service was shut down".to_owned() }),
        }
    }

    /// Keeps how the run ended, and what decided whether to answer. Where that can't be kept, it is over all the same, and its message
    /// stays open.
    async fn conclude(&self, journal: &Journal, decided: Option<Why>, end: End) -> Result<End> {
        let (why, reason) = match &end {
            End::Ignored(why) => (Some(*why), None),
            End::Failed { reason } => (decided, Some(reason.as_str())),
            End::Completed | End::Superseded | End::TimedOut { .. } | End::Left { .. } => (decided, None),
        };
        let mut labels = vec![("end", end.as_str())];
        labels.extend(why.map(|why| ("why", why.as_str())));
        labels.extend(reason.map(|reason| ("reason", reason)));
        let kept = match &end {
            End::Left { .. } => journal.lease().give_back(journal.lease().runs().saturating_sub(1)).await,
            End::Completed => journal.end(Status::Completed, &labels).await,
            End::Ignored(_) | End::Superseded => journal.end(Status::Observed, &labels).await,
            End::Failed { .. } | End::TimedOut { .. } => journal.end(Status::Failed, &labels).await,
        };
        match kept {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Conflict => return Err(error),
            Err(error) => tracing::warn!(%error, "how a run ended can't be kept"),
        }
        Ok(end)
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
                *turn = Turn::new(message);
            }
            Err(error) if error.kind() == ErrorKind::Conflict => return Err(error),
            Err(error) => tracing::warn!(%error, "what was found in attachments can't be kept"),
        }
        Ok(())
    }

    async fn decide(&self, run: &Run, turn: &Turn, is_addressed: bool) -> Result<Decision> {
        let (services, content) = (self.composer.services(), &turn.message.content);
        let scope = Scope::new(content.room.clone(), content.author.clone());
        let agent = services.records().agent().entity();
        let follows = services.records().participants().get(&scope, &agent).await?;
        let received = Received { content, is_addressed, state: follows.and_then(|follows| follows.state) };
        let decision = self.rules.decide(&services.character().name, &received);
        if decision != Decision::Ask {
            return Ok(decision);
        }
        let (template, options) = (&services.templates().should_respond, self.rules.options());
        let answer = self.ask(run, &self.small, template, turn, &options, RespondAnswer::parse).await?;
        let decide = if answer.should_respond() { Decision::Respond } else { Decision::Ignore };
        Ok(decide(Why::Model))
    }

    /// Asks the model that writes, about this turn.
    pub(super) async fn ask_writer<T>(
        &self,
        run: &Run,
        template: &Template,
        turn: &Turn,
        options: &ComposeOptions,
        parse: impl Fn(&str) -> Result<T, Mistake>,
    ) -> Result<T> {
        self.ask(run, &self.large, template, turn, options, parse).await
    }

    async fn ask<T>(
        &self,
        run: &Run,
        model: &Arc<dyn Model>,
        template: &Template,
        turn: &Turn,
        options: &ComposeOptions,
        parse: impl Fn(&str) -> Result<T, Mistake>,
    ) -> Result<T> {
        let state = self.composer.compose_state(turn, options).await;
        let prompt = Prompt { messages: self.messages(template, &state)?, ..Prompt::default() };
        let asked = ask(model.as_ref(), prompt, self.limits.model, parse).await?;
        run.tap().used(asked.usage);
        Ok(asked.value)
    }

    /// What a model is asked over a state: the instructions of the character, then the template.
    pub(super) fn messages(&self, template: &Template, state: &State) -> Result<Vec<model::Message>> {
        let services = self.composer.services();
        let system = &services.character().system;
        let system = (!system.trim().is_empty()).then(|| model::Message::system(system));
        let asked = model::Message::user(template.render(&state.values)?.text);
        Ok(system.into_iter().chain([asked]).collect())
    }

    /// One answer of the model that writes. Where somebody listens, its pieces are passed on as they come.
    pub(super) async fn complete(&self, run: &Run, prompt: &Prompt) -> Result<Completion> {
        let (limit, tap) = (self.limits.model, run.tap());
        let late = |_| {
            let message = format!("the model gave no answer within {} ms", limit.as_millis());
            Error::new(ErrorKind::Timeout, message).retryable()
        };
        let completion = timeout(limit, async {
            if !tap.is_streaming() {
                return self.large.complete(prompt).await;
            }
            tap.completion_begins();
            let mut pieces = self.large.stream(prompt);
            while let Some(piece) = pieces.next().await {
                match piece? {
                    Delta::Text(text) => tap.piece(&text),
                    Delta::Done(completion) => return Ok(completion),
                }
            }
            Err(Error::new(ErrorKind::Unexpected, "the answer of the model has no end"))
        });
        let completion = completion.await.map_err(late)??;
        tap.used(completion.usage);
        Ok(completion)
    }

    pub(super) fn voice(&self) -> Voice<'_> {
        Voice { services: self.composer.services(), platform: &self.platform, limit: self.limits.say }
    }
}

fn leases(composer: &Composer, instance: Option<&str>, length: Duration) -> Arc<Leases> {
    let services = composer.services();
    Leases::new(Arc::clone(services.records().provider()), Arc::clone(services.clock()), instance, length)
}

/// What becomes of a run whose message is worked on by somebody else.
fn left(error: Error) -> End {
    End::Left { reason: error.to_string() }
}
