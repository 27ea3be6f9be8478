//! The way of a message, step by step.

use std::convert::Infallible;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use futures::{FutureExt, StreamExt};
use memory_core::{Error, ErrorKind, Result};
use memory_model::{self as model, Completion, Delta, Model, Prompt, ask};
use tokio::time::timeout;

use super::answer::{Mistake, RespondAnswer};
use super::dialogue::Dialogue;
use super::run::TimeLeft;
use super::tap::Tap;
use super::{
    AttachmentReader, Decision, End, Events, Platform, Received, RespondRules, RoomQueues, Run, Step, Ticket, Why,
    is_own, read_attachments,
};
use crate::records::{Message, NewMessage, Scope};
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
    queues: RoomQueues,
    pub(super) events: Events,
    rules: RespondRules,
    pub(super) limits: Limits,
    /// What is composed for an answer.
    pub(super) options: ComposeOptions,
}

impl MessageService {
    /// A service with the default rules and limits, and one model for everything.
    pub fn new(composer: Composer, model: Arc<dyn Model>, platform: Arc<dyn Platform>, events: Events) -> Self {
        Self {
            composer,
            platform,
            small: Arc::clone(&model),
            large: model,
            reader: None,
            queues: RoomQueues::default(),
            events,
            rules: RespondRules::default(),
            limits: Limits::default(),
            options: ComposeOptions::default(),
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
        self
    }

    /// Composes answers over other providers, or within a budget. The conversation is read anew in any case, and what the model asks
    /// for is added.
    #[must_use]
    pub fn with_options(mut self, options: ComposeOptions) -> Self {
        self.options = options;
        self
    }

    /// Where to hear what happens in the runs.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Takes a message in at once, so that the order of calls is that of the room, and works on it when the future is awaited.
    ///
    /// # Behavior
    /// - What the agent said itself is ignored without a run.
    /// - The message is stored before it waits for those before it in its room. One that was known is ignored: whoever stored it
    ///   first answers it.
    /// - A message that is to be answered supersedes the answers in its room that are still being thought about. What is ignored, or
    ///   fails before that is decided, leaves them alone.
    /// - The messages of the room don't wait for the evaluators.
    /// - Dropping the future ends the run as failed.
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
        let ticket = (!is_own).then(|| self.queues.enter(&content.room));
        let start = || self.events.start(content.room.clone(), content.author.clone()).with_tap(tap);
        let run = ticket.is_some().then(start);
        async move {
            let Some((ticket, run)) = ticket.zip(run) else { return End::Ignored(Why::Own) };
            let text = incoming.message.content.text.clone();
            run.drive(async move |run| {
                let work = service.work(run, ticket, incoming);
                // Whether the vector is there in time or not: the run does not wait for it, and its end ends it.
                let aside = service.embed(&text).then(|()| pending::<Infallible>());
                match select(pin!(work), pin!(aside)).await {
                    Either::Left((end, _)) => end,
                    Either::Right((never, _)) => match never {},
                }
            })
            .await
        }
    }

    /// Asks for the vector of what was said while that is stored, so that `FACTS` need not wait for it.
    async fn embed(&self, text: &str) {
        if let Err(error) = self.composer.services().records().facts().prepare(text).await {
            tracing::warn!(%error, "there is no vector of a message yet");
        }
    }

    async fn work(&self, run: &Run, ticket: Ticket, incoming: Incoming) -> Result<End> {
        let Incoming { message, is_addressed } = incoming;
        let Some(message) = self.store(run, message).await? else { return Ok(End::Ignored(Why::Known)) };
        let (mut turn, mut decided) = (Turn::new(message), None);
        let end = match self.respond(run, ticket, &mut turn, is_addressed, &mut decided).await {
            Ok(()) => End::Completed,
            Err(end) => end,
        };
        self.conclude(&turn, decided, &end).await;
        // Whoever waits for the answer does not wait for the evaluators.
        run.tap().end(&end);
        if let End::Completed | End::Ignored(_) = end {
            self.evaluate(run, &turn, end == End::Completed).await;
        }
        Ok(end)
    }

    /// `None` for a message that was known.
    async fn store(&self, run: &Run, message: NewMessage) -> Result<Option<Message>> {
        let added = self.composer.services().records().messages().add_once(message.with_run(run.context().id)).await?;
        if added.is_new {
            run.step(Step::Stored(added.message.id));
        }
        Ok(added.is_new.then_some(added.message))
    }

    /// Works on the answer until it is given, or tells why there is none. The room goes on when it returns.
    async fn respond(
        &self,
        run: &Run,
        ticket: Ticket,
        turn: &mut Turn,
        is_addressed: bool,
        decided: &mut Option<Why>,
    ) -> Result<(), End> {
        let mut time = TimeLeft::new(self.limits.run);
        time.spend(self.read_attachments(turn)).await?;
        ticket.turn().await;
        match time.spend(self.decide(run, turn, is_addressed)).await?? {
            Decision::Ignore(why) => return Err(End::Ignored(why)),
            Decision::Respond(why) => *decided = Some(why),
            Decision::Ask => {}
        }
        ticket.supersede();
        ticket.unless_superseded(ticket.first()).await.ok_or(End::Superseded)?;
        let mut dialogue = Dialogue::new(self, run, turn);
        let said = ticket.unless_superseded(time.spend(dialogue.ask())).await.ok_or(End::Superseded)???;
        let _claim = ticket.claim().await.ok_or(End::Superseded)?;
        let end = time.spend(dialogue.go_on(said)).await.flatten();
        *turn = dialogue.into_turn();
        end
    }

    /// Keeps how the run ended, and what decided whether to answer. Where that can't be kept, it is over all the same.
    async fn conclude(&self, turn: &Turn, decided: Option<Why>, end: &End) {
        let (why, reason) = match end {
            End::Ignored(why) => (Some(*why), None),
            End::Failed { reason } => (decided, Some(reason.as_str())),
            End::Completed | End::Superseded | End::TimedOut { .. } => (decided, None),
        };
        let mut labels = vec![("end", end.as_str())];
        labels.extend(why.map(|why| ("why", why.as_str())));
        labels.extend(reason.map(|reason| ("reason", reason)));
        if let Err(error) = self.composer.services().records().messages().conclude(turn.message.id, &labels).await {
            tracing::warn!(%error, "how a run ended can't be kept");
        }
    }

    /// Without what can't be read, and without what can't be kept of it, the message is answered all the same.
    async fn read_attachments(&self, turn: &mut Turn) {
        let Some(reader) = &self.reader else { return };
        let (services, message) = (self.composer.services(), Message::clone(&turn.message));
        match read_attachments(services.records(), reader.as_ref(), message, self.limits.attachment).await {
            Ok(message) => *turn = Turn::new(message),
            Err(error) => tracing::warn!(%error, "what was found in attachments can't be kept"),
        }
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
}
