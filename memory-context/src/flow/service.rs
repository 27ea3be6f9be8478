//! The way of a message, step by step.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use memory_core::{Error, ErrorKind, MemoryId, Result};
use memory_runtime::Model;
use tokio::time::timeout;

use super::answer::{IGNORE, MessageAnswer, Mode, REPLY, RespondAnswer};
use super::{
    Decision, End, Events, REFLECTION_PROVIDERS, RESPOND_PROVIDERS, Received, RespondRules, RoomQueues, Run, Step,
    Templates, Ticket, Why, ask, run_actions,
};
use crate::records::{Message, MessageContent, NewMessage, Scope};
use crate::state::{ActionState, ComposeOptions, Composer, Turn};
use crate::template::Template;

/// Where answers are said, held as `Arc<dyn Platform>`.
#[async_trait]
pub trait Platform: fmt::Debug + Send + Sync + 'static {
    /// Says a message in its room. Dropping the future ends it.
    async fn say(&self, message: &Message) -> Result<()>;
}

/// A message that a platform received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming {
    /// What was said, when, and what the platform calls it.
    pub message: NewMessage,
    /// Whether the platform says that the agent is spoken to.
    pub is_addressed: bool,
}

/// How long things may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// One call of a model; a minute by default.
    pub model: Duration,
    /// One action; a minute by default.
    pub action: Duration,
    /// To say something; ten seconds by default.
    pub say: Duration,
    /// All evaluators; two minutes by default.
    pub evaluators: Duration,
    /// The whole run; an hour by default.
    pub run: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let minute = Duration::from_secs(60);
        Self { model: minute, action: minute, say: minute / 6, evaluators: minute * 2, run: minute * 60 }
    }
}

/// Answers the messages that an agent receives.
#[derive(Debug)]
pub struct MessageService {
    composer: Composer,
    queues: RoomQueues,
    events: Events,
    platform: Arc<dyn Platform>,
    /// Decides whether to answer.
    small: Arc<dyn Model>,
    /// Answers.
    large: Arc<dyn Model>,
    rules: RespondRules,
    templates: Templates,
    limits: Limits,
}

impl MessageService {
    /// A service with the default rules, templates and limits, and one model for everything.
    pub fn new(composer: Composer, model: Arc<dyn Model>, platform: Arc<dyn Platform>, events: Events) -> Self {
        let queues = RoomQueues::new(composer.services().records().agent());
        let (rules, templates, limits) = (RespondRules::default(), Templates::default(), Limits::default());
        Self { composer, queues, events, platform, small: Arc::clone(&model), large: model, rules, templates, limits }
    }

    /// Asks another model whether to answer.
    #[must_use]
    pub fn with_small_model(mut self, model: Arc<dyn Model>) -> Self {
        self.small = model;
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
        self
    }

    /// Where to hear what happens in the runs.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Takes a message in at once, so that the order of calls is that of the room, and works on it when the future is awaited. What
    /// the agent said itself is ignored without a run.
    pub fn receive(&self, incoming: Incoming) -> impl Future<Output = End> + Send + '_ {
        let content = &incoming.message.content;
        let ticket = self.queues.enter(&content.room, &content.author);
        let run = ticket.is_some().then(|| self.events.start(content.room.clone(), content.author.clone()));
        async move {
            let Some((ticket, run)) = ticket.zip(run) else { return End::Ignored(Why::Own) };
            run.drive(self.limits.run, async move |run| self.work(run, ticket, incoming).await).await
        }
    }

    async fn work(&self, run: &Run, ticket: Ticket, incoming: Incoming) -> Result<End> {
        ticket.turn().await;
        let turn = self.store(run, incoming.message).await?;
        let decided = ticket.unless_superseded(self.decide(&turn, incoming.is_addressed)).await;
        let end = match decided.transpose()? {
            None => Some(End::Superseded),
            Some(Decision::Ignore(why)) => Some(End::Ignored(why)),
            Some(_) => None,
        };
        if let Some(end) = end {
            self.evaluate(&turn, false).await;
            return Ok(end);
        }
        let Some(answer) = ticket.unless_superseded(self.answer(&turn)).await.transpose()? else {
            return Ok(End::Superseded);
        };
        let Some(_claim) = ticket.claim().await else { return Ok(End::Superseded) };
        if answer.mode() == Mode::Ignore {
            self.evaluate(&turn, false).await;
            return Ok(End::Ignored(Why::Model));
        }
        let turn = self.act(run, &turn, answer).await?;
        self.evaluate(&turn, true).await;
        Ok(End::Completed)
    }

    async fn store(&self, run: &Run, message: NewMessage) -> Result<Turn> {
        let message = self.composer.services().records().messages().add(message).await?;
        run.step(Step::Stored(message.id));
        Ok(Turn::new(message))
    }

    async fn decide(&self, turn: &Turn, is_addressed: bool) -> Result<Decision> {
        let (services, content) = (self.composer.services(), &turn.message.content);
        let agent = services.records().agent();
        let scope = Scope::new(content.room.clone(), content.author.clone());
        let follows = services.records().participants().get(&scope, &agent.entity()).await?;
        let received = Received { content, is_addressed, state: follows.and_then(|follows| follows.state) };
        let decision = self.rules.decide(agent, &services.character().name, &received);
        if decision != Decision::Ask {
            return Ok(decision);
        }
        let prompt =
            self.prompt(&self.templates.should_respond, turn, &ComposeOptions::only(RESPOND_PROVIDERS)).await?;
        let answer = ask(&*self.small, prompt, self.limits.model, RespondAnswer::parse).await?;
        let decide = if answer.should_respond() { Decision::Respond } else { Decision::Ignore };
        Ok(decide(Why::Model))
    }

    async fn answer(&self, turn: &Turn) -> Result<MessageAnswer> {
        let prompt = self.prompt(&self.templates.message_handler, turn, &ComposeOptions::default()).await?;
        ask(&*self.large, prompt, self.limits.model, MessageAnswer::parse).await
    }

    async fn prompt(&self, template: &Template, turn: &Turn, options: &ComposeOptions) -> Result<String> {
        let state = self.composer.compose_state(turn, options).await;
        Ok(template.render(&state.values)?.text)
    }

    /// Says the text, and does the rest.
    async fn act(&self, run: &Run, turn: &Turn, mut answer: MessageAnswer) -> Result<Turn> {
        if !answer.text.is_empty() {
            let said = self.say(turn, &answer).await?;
            run.step(Step::Answered(said));
            answer.actions.retain(|action| !action.eq_ignore_ascii_case(REPLY) && !action.eq_ignore_ascii_case(IGNORE));
        }
        if answer.actions.is_empty() {
            return Ok(turn.clone().with_actions(ActionState::default()));
        }
        run_actions(run, &self.composer, turn, &answer, self.limits.action).await
    }

    /// Stores the text before it is said: what nobody kept was not said.
    async fn say(&self, turn: &Turn, answer: &MessageAnswer) -> Result<MemoryId> {
        let (services, received) = (self.composer.services(), &turn.message.content);
        let agent = services.records().agent().entity();
        let mut content = MessageContent::new(received.room.clone(), agent, answer.text.clone());
        content.world = received.world.clone();
        content.channel_type = received.channel_type;
        content.source = received.source.clone();
        content.in_reply_to = Some(turn.message.id);
        content.thought = Some(answer.thought.clone());
        content.actions = answer.actions.clone();
        content.providers = answer.providers.clone();
        let message = services.records().messages().add(NewMessage::new(content, services.clock().now())).await?;
        let late = |_| Error::new(ErrorKind::Timeout, "the answer was not said in time");
        timeout(self.limits.say, self.platform.say(&message)).await.map_err(late)??;
        Ok(message.id)
    }

    /// Runs the evaluators. One that fails does not change what was done.
    async fn evaluate(&self, turn: &Turn, has_answered: bool) {
        let evaluators = self.composer.services().evaluators();
        if !evaluators.iter().any(|evaluator| has_answered || evaluator.info().always_run) {
            return;
        }
        let work = async {
            // What the agent said since is part of it.
            let names = REFLECTION_PROVIDERS.into_iter().chain(["EVALUATORS"]);
            let options = ComposeOptions::only(names).refresh(["RECENT_MESSAGES"]);
            let state = self.composer.compose_state(turn, &options).await;
            let snapshot = state.snapshot();
            let cx = self.composer.cx(turn, &snapshot);
            let (cx, state) = (&cx, &state);
            let chosen = evaluators.iter().filter(|evaluator| has_answered || evaluator.info().always_run);
            let runs = chosen.map(|evaluator| async move {
                let evaluated =
                    async { if evaluator.validate(cx).await? { evaluator.evaluate(cx, state).await } else { Ok(()) } };
                if let Err(error) = evaluated.await {
                    tracing::warn!(evaluator = %evaluator.info().name, %error, "an evaluator failed");
                }
            });
            join_all(runs).await
        };
        if timeout(self.limits.evaluators, work).await.is_err() {
            tracing::warn!("the evaluators took too long, and were given up");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Mutex;

    use memory_core::{InMemory, MemoryProvider, SystemClock, Timestamp};
    use memory_runtime::model::Prompt;

    use super::*;
    use crate::records::{AgentId, ChannelType, EntityId, Records, RoomId};
    use crate::state::{Character, Services};

    /// Answers by what stands in the prompt.
    #[derive(Debug)]
    struct Scripted;

    #[async_trait]
    impl Model for Scripted {
        async fn complete(&self, prompt: &Prompt) -> Result<String> {
            let asked = &prompt.messages[0].content;
            if asked.contains("Decide whether") {
                let action = if asked.contains("for you") { "RESPOND" } else { "IGNORE" };
                return Ok(format!("<response><action>{action}</action></response>"));
            }
            if asked.contains("ana: hang") && !asked.contains("ana: quick") {
                return pending().await;
            }
            if asked.contains("ana: fail") {
                return Err(Error::invalid("no"));
            }
            Ok("<response><thought>t</thought><actions>REPLY</actions><text>Hi</text></response>".into())
        }
    }

    #[derive(Debug, Default)]
    struct Said(Mutex<Vec<String>>);

    #[async_trait]
    impl Platform for Said {
        async fn say(&self, message: &Message) -> Result<()> {
            self.0.lock().expect("no panic").push(message.content.text.clone());
            Ok(())
        }
    }

    async fn service() -> (MessageService, Arc<Said>) {
        let provider: Arc<dyn MemoryProvider> = Arc::new(InMemory::new());
        provider.init().await.expect("ready");
        let records = Records::new(provider, AgentId::parse("agent").expect("valid"));
        let services = Services::new(records, Character::named("Eliza"));
        let composer = Composer::builder(services).built_in().build().expect("names differ");
        let said = Arc::new(Said::default());
        let events = Events::new(100, Arc::new(SystemClock));
        let platform: Arc<dyn Platform> = Arc::clone(&said) as _;
        (MessageService::new(composer, Arc::new(Scripted), platform, events), said)
    }

    fn incoming(channel_type: ChannelType, author: &str, text: &str, millis: i64) -> Incoming {
        let (room, author) = (RoomId::parse("r").expect("valid"), EntityId::parse(author).expect("valid"));
        let mut content = MessageContent::new(room, author, text);
        content.channel_type = channel_type;
        let at = Timestamp::from_millis(millis).expect("valid");
        Incoming { message: NewMessage::new(content, at), is_addressed: false }
    }

    #[tokio::test(start_paused = true)]
    async fn messages_end_as_they_should() {
        use ChannelType::{Dm, Group};
        for (incoming, end, says) in [
            (incoming(Dm, "ana", "hello", 1), End::Completed, 1),
            (incoming(Dm, "agent", "hello", 1), End::Ignored(Why::Own), 0),
            (incoming(Group, "ana", "this is for you", 1), End::Completed, 1),
            (incoming(Group, "ana", "hello", 1), End::Ignored(Why::Model), 0),
        ] {
            let (service, said) = service().await;
            assert_eq!(service.receive(incoming).await, end);
            assert_eq!(said.0.lock().expect("no panic").len(), says);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn without_an_answer_of_the_model_nothing_is_said() {
        for (text, run, ends) in [("fail", 600, "failed"), ("hang", 600, "failed"), ("hang", 30, "timedOut")] {
            let (service, said) = service().await;
            let limits = Limits { run: Duration::from_secs(run), ..Limits::default() };
            let end = service.with_limits(limits).receive(incoming(ChannelType::Dm, "ana", text, 1)).await;
            assert_eq!(end.as_str(), ends, "{end:?}");
            assert!(said.0.lock().expect("no panic").is_empty());
        }
    }

    #[tokio::test]
    async fn a_newer_message_supersedes_an_answer_and_an_echo_does_not() {
        let (service, said) = service().await;
        let older = service.receive(incoming(ChannelType::Dm, "ana", "hang", 1));
        let newer = service.receive(incoming(ChannelType::Dm, "ana", "quick", 2));
        let echo = service.receive(incoming(ChannelType::Dm, "agent", "Hi", 3));
        let ends = futures::join!(newer, echo, older);
        assert_eq!(ends, (End::Completed, End::Ignored(Why::Own), End::Superseded));
        assert_eq!(*said.0.lock().expect("no panic"), ["Hi"]);
        let scope = Scope::new(RoomId::parse("r").expect("valid"), EntityId::parse("ana").expect("valid"));
        let stored = service.composer.services().records().messages().recent(&scope, 10).await.expect("read");
        assert_eq!(stored.len(), 3, "both messages and one answer");
    }
}
