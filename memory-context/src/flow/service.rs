//! The way of a message, step by step.

use std::convert::Infallible;
use std::future::pending;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{Either, select};
use memory_core::{Error, ErrorKind, Memory, Result, Status};
use memory_model::{Model, Prompt, ask};
use memory_runtime::Leases;
use serde::{Deserialize, Serialize};
use tokio::sync::{RwLock, RwLockReadGuard, watch};

use super::answer::{MessageAnswer, Mistake, Mode, RespondAnswer};
use super::attachments::read_attachments;
use super::run::TimeLeft;
use super::voice::{self, Voice};
use super::{
    AttachmentReader, Claim, Decision, End, Events, Journal, Platform, RESPOND_PROVIDERS, Received, Recorded,
    RespondRules, RoomQueues, Run, Step, Templates, Ticket, Why, is_own,
};
use crate::records::{Message, NewMessage, OpenMessage, Scope, Taken};
use crate::state::{ComposeOptions, Composer, Turn};
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
    /// One action; a minute by default.
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
    large: Arc<dyn Model>,
    reader: Option<Arc<dyn AttachmentReader>>,
    pub(super) queues: RoomQueues,
    pub(super) leases: Arc<Leases>,
    instance: Option<String>,
    pub(super) events: Events,
    rules: RespondRules,
    pub(super) templates: Templates,
    pub(super) limits: Limits,
    is_stopping: watch::Sender<bool>,
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

/// What is to be said and done about a message.
#[derive(Serialize, Deserialize)]
struct Decided {
    why: Option<Why>,
    answer: MessageAnswer,
}

/// The step in which a model says what to do.
const ANSWER: &str = "answer";
/// The step in which the text of an answer without other actions is said.
const ANSWER_TEXT: &str = "answer.text";

impl MessageService {
    /// A service with the default rules, templates and limits, and one model for everything.
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
            templates: Templates::default(),
            limits,
            is_stopping: watch::Sender::new(false),
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

    /// With other templates.
    #[must_use]
    pub fn with_templates(mut self, templates: Templates) -> Self {
        self.templates = templates;
        self
    }

    /// With other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self.leases = leases(&self.composer, self.instance.as_deref(), limits.lease);
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
        let (service, content) = (Arc::clone(self), &incoming.message.content);
        let is_own = is_own(self.composer.services().records().agent(), content);
        let ticket = (!is_own).then(|| self.queues.enter(&content.room, incoming.message.created_at));
        let run = ticket.is_some().then(|| self.events.start(content.room.clone(), content.author.clone()));
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
                Some(left) => service.go_on(left).await,
                None => end,
            }
        }
    }

    /// Takes nothing in any more, and ends when no run is going on: what was decided is said and done before that, and what was not
    /// is given back, so that another process can go on with it at once. What comes in later fails.
    pub async fn shutdown(&self) {
        self.is_stopping.send_replace(true);
        *self.is_open.write().await = false;
    }

    /// Keeps a shutdown waiting until it is dropped; `Closed` once one has begun.
    pub(super) fn enter(&self) -> Result<RwLockReadGuard<'_, bool>> {
        let is_open = self.is_open.try_read().ok().filter(|is_open| **is_open && !*self.is_stopping.borrow());
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
        let (records, claim) = (self.composer.services().records(), self.leases.claim(1));
        match records.messages().add_task(message.with_run(run.context().id), is_addressed, &claim).await? {
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
            let end = match AssertUnwindSafe(answered).catch_unwind().await {
                Ok(Ok(())) => End::Completed,
                Ok(Err(end)) => end,
                Err(_) => End::Failed { reason: "the run panicked".to_owned() },
            };
            self.conclude(&task.journal, decided, end).await
        };
        let end = lease.while_held(work).await.unwrap_or_else(left);
        if let End::Completed | End::Ignored(_) = end {
            self.evaluate(&turn, end == End::Completed).await;
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
        let known = task.journal.recorded(ANSWER)?;
        let (_claim, Decided { why, answer }) = match known {
            Recorded::Done(known) => (self.unless_stopped(ticket.claim_again()).await?, known),
            Recorded::Nothing | Recorded::Begun => {
                let thought = self.think(ticket, turn, task, &mut time, decided);
                self.unless_stopped(thought).await??
            }
        };
        *decided = why;
        let journal = &task.journal;
        match answer.mode() {
            Mode::Ignore => Err(End::Ignored(Why::Model)),
            Mode::Simple => {
                journal.note(ANSWER, &Decided { why, answer: answer.clone() })?;
                time.spend(self.say(run, journal, ANSWER_TEXT, turn, &answer, &answer.text)).await?.map_err(End::from)
            }
            Mode::Actions => {
                time.spend(journal.done(ANSWER, &Decided { why, answer: answer.clone() })).await??;
                *turn = time.spend(self.run_actions(run, journal, turn, &answer)).await??;
                Ok(())
            }
        }
    }

    /// What to say and do about a message, with the right to. Until then nothing was.
    async fn think(
        &self,
        ticket: Ticket,
        turn: &mut Turn,
        task: &Task,
        time: &mut TimeLeft,
        decided: &mut Option<Why>,
    ) -> Result<(Claim, Decided), End> {
        if task.is_left && self.composer.services().records().messages().is_overtaken(&turn.message).await? {
            return Err(End::Superseded);
        }
        time.spend(self.read_attachments(turn, &task.journal)).await??;
        ticket.turn().await;
        match time.spend(self.decide(turn, task.open.is_addressed)).await?? {
            Decision::Ignore(why) => return Err(End::Ignored(why)),
            Decision::Respond(why) => *decided = Some(why),
            Decision::Ask => {}
        }
        ticket.supersede();
        ticket.unless_superseded(ticket.first()).await.ok_or(End::Superseded)?;
        let answer = ticket.unless_superseded(time.spend(self.answer(turn))).await.ok_or(End::Superseded)???;
        let claim = ticket.claim().await.ok_or(End::Superseded)?;
        Ok((claim, Decided { why: *decided, answer }))
    }

    /// Does some work, which a shutdown drops.
    async fn unless_stopped<T>(&self, work: impl Future<Output = T>) -> Result<T, End> {
        let mut is_stopping = self.is_stopping.subscribe();
        let stopped = is_stopping.wait_for(|is_stopping| *is_stopping);
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

    async fn decide(&self, turn: &Turn, is_addressed: bool) -> Result<Decision> {
        let (services, content) = (self.composer.services(), &turn.message.content);
        let scope = Scope::new(content.room.clone(), content.author.clone());
        let agent = services.records().agent().entity();
        let follows = services.records().participants().get(&scope, &agent).await?;
        let received = Received { content, is_addressed, state: follows.and_then(|follows| follows.state) };
        let decision = self.rules.decide(&services.character().name, &received);
        if decision != Decision::Ask {
            return Ok(decision);
        }
        let options = ComposeOptions::only(RESPOND_PROVIDERS);
        let answer =
            self.ask(&self.small, &self.templates.should_respond, turn, &options, RespondAnswer::parse).await?;
        let decide = if answer.should_respond() { Decision::Respond } else { Decision::Ignore };
        Ok(decide(Why::Model))
    }

    /// The conversation is read anew: while the message waited, those before it were answered.
    async fn answer(&self, turn: &Turn) -> Result<MessageAnswer> {
        self.ask_for_answer(turn, &ComposeOptions::default().refresh(["RECENT_MESSAGES"])).await
    }

    /// Only providers count that the model may name: those that are there, and not private.
    pub(super) async fn ask_for_answer(&self, turn: &Turn, options: &ComposeOptions) -> Result<MessageAnswer> {
        let template = &self.templates.message_handler;
        let mut answer = self.ask(&self.large, template, turn, options, MessageAnswer::parse).await?;
        let offered = self.composer.providers().iter().map(|provider| provider.info()).filter(|info| !info.private);
        let is_named = |name: &str| answer.providers.iter().any(|named| named.eq_ignore_ascii_case(name));
        answer.providers = offered.filter(|info| is_named(&info.name)).map(|info| info.name.to_string()).collect();
        Ok(answer)
    }

    /// Asks the model that writes, about this turn.
    pub(super) async fn ask_writer<T>(
        &self,
        template: &Template,
        turn: &Turn,
        options: &ComposeOptions,
        parse: impl Fn(&str) -> Result<T, Mistake>,
    ) -> Result<T> {
        self.ask(&self.large, template, turn, options, parse).await
    }

    async fn ask<T>(
        &self,
        model: &Arc<dyn Model>,
        template: &Template,
        turn: &Turn,
        options: &ComposeOptions,
        parse: impl Fn(&str) -> Result<T, Mistake>,
    ) -> Result<T> {
        let state = self.composer.compose_state(turn, options).await;
        let prompt =
            Prompt { messages: vec![memory_model::Message::user(template.render(&state.values)?.text)], schema: None };
        ask(model.as_ref(), prompt, self.limits.model, parse).await
    }

    /// Says a text as an answer, as a step of a run.
    pub(super) async fn say(
        &self,
        run: &Run,
        journal: &Journal,
        step: &str,
        turn: &Turn,
        answer: &MessageAnswer,
        text: &str,
    ) -> Result<()> {
        let mut new = voice::reply(self.composer.services(), &turn.message, text);
        new.content.thought = Some(answer.thought.clone());
        new.content.actions = answer.actions.clone();
        new.content.providers = answer.providers.clone();
        let message = self.voice().say_once(journal, step, run.context(), new).await?;
        run.step(Step::Answered(message.id));
        Ok(())
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
