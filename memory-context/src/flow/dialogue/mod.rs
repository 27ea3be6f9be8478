//! The dialogue with a model about one message: what it says, the tools that it calls, and what came of them.

mod call;
mod round;

use std::sync::Arc;

use memory_core::{Error, ErrorKind, Result};
use memory_model::{self as model, Completion, Prompt};
use serde_json::Value;

use self::call::{arguments_of, shown};
pub(super) use self::round::Said;
use self::round::{Calls, Refused};
use super::answer::{MessageAnswer, Mode, REPLY, is};
use super::attachments::for_model;
use super::{End, FlowStep, Journal, MessageService, Recorded, Run, Why, voice};
use crate::prompt::MemoryUpdate;
use crate::records::{Message, WHY};
use crate::state::{
    ActionPlan, ActionState, ComposeOptions, PlanStep, Services, State, StepStatus, ToolResult, Turn, Values, cut,
};
use crate::tool::{Tool, ToolAlias, plain};

/// How often a model is asked about one message at most. The last time it is offered no tools.
pub const MAX_ROUNDS: usize = 8;
/// How many tools are called about one message at most. The model is told how many more calls it wanted.
pub const MAX_CALLS: usize = 32;
const LAST_ROUND: &str = "No more tools can be called now. Answer with what you know";
/// The value by which a template tells whether the model calls tools by calls of its own.
pub(super) const CALLS_TOOLS: &str = "callsTools";

/// The work on one message with a model and its tools.
///
/// # Behavior
/// - A model that calls tools is offered them, and asked for plain text. All that it writes is said, whatever it looks like: an answer in
///   XML that it quotes does nothing. Any other model, and one that is asked by a template that knows of no difference, is asked for an
///   answer in XML or JSON, and does something by its actions; plain text is an answer too.
/// - A text that the limit of tokens or a filter cut is said and ends with a note of that; calls, and an answer in XML or JSON that is not
///   whole, are asked for again.
/// - It is asked again with the results until it calls no tool any more, or until the user has heard all that there is to tell: a
///   text, and each result that is not empty.
/// - Each round offers the tools that are registered then. They are called one after the other; each sees the results before it. One that
///   is not known, not offered or taken away meanwhile, is called with wrong arguments, fails, panics or is late has a failed result,
///   and the rest goes on. What is late is dropped.
/// - `REPLY` says the text at its place among the actions. Behind tools, and where providers were asked for that the model has not seen,
///   the text waits: the model is asked again, and if it gives no answer the text is said as it was.
/// - Each result is a message of the agent in the room, before the next tool is called. When it can't be stored, that is the error, and
///   nothing more is called.
/// - What the model said in a round, each result and each text are steps of the journal, by the numbers of the round and the call. A
///   round that is known is not asked for again, and a call whose result is known is not made again. A call that was begun and has no
///   result is made again where the tool is repeatable; else it has failed, and the model and the room are told that it may have
///   happened.
pub(super) struct Dialogue<'a> {
    service: &'a MessageService,
    run: &'a Run,
    journal: &'a Journal,
    turn: Turn,
    options: ComposeOptions,
    services: Arc<Services>,
    state: Arc<State>,
    /// Whether something came up since the state was composed.
    is_stale: bool,
    tools: Vec<Tool>,
    /// What the model is asked next; composed anew where it is empty.
    messages: Vec<model::ChatMessage>,
    /// Its calls and their results, which stand behind that.
    called: Vec<model::ChatMessage>,
    /// Whether it is asked for plain text.
    is_plain: bool,
    rounds: usize,
    calls: usize,
    /// How many more calls the model wanted.
    left_out: usize,
    has_said: bool,
    /// Why the model does what it does in this round; empty where it does not say.
    thought: String,
    /// An answer whose text waits for what came up since it was written.
    held: Option<MessageAnswer>,
    /// What answers said is to be kept, in the batches that were.
    kept: Vec<Vec<MemoryUpdate>>,
    /// Whether the model refused the images and documents of the message.
    is_text_only: bool,
}

/// A text that is to be said as a step of the journal, and the answer that it is of.
struct Spoken<'a> {
    step: &'a str,
    text: &'a str,
    answer: Option<&'a MessageAnswer>,
}

impl<'a> Dialogue<'a> {
    pub(super) fn new(service: &'a MessageService, run: &'a Run, journal: &'a Journal, turn: &Turn) -> Self {
        Self {
            service,
            run,
            journal,
            turn: turn.clone(),
            // The conversation is read anew: while the message waited, those before it were answered.
            options: service.options.clone().refresh(["RECENT_MESSAGES"]),
            services: service.composer.services_of(turn),
            state: Arc::default(),
            is_stale: true,
            tools: Vec::new(),
            messages: Vec::new(),
            called: Vec::new(),
            is_plain: false,
            rounds: 0,
            calls: 0,
            left_out: 0,
            has_said: false,
            thought: String::new(),
            held: None,
            kept: Vec::new(),
            is_text_only: false,
        }
    }

    /// The turn, with what came of the tools.
    pub(super) fn into_turn(self) -> Turn {
        self.turn
    }

    /// What decided that the message is answered, where the journal has what the model said about it; else nothing was decided.
    pub(super) fn decided(journal: &Journal) -> Result<Option<Option<Why>>> {
        if !journal.has(&round_step(1)) {
            return Ok(None);
        }
        Ok(Some(match journal.recorded(WHY)? {
            Recorded::Done(why) => why,
            Recorded::Nothing | Recorded::Begun => None,
        }))
    }

    /// Keeps what decided that the message is answered, with the next write.
    pub(super) fn decided_by(&self, why: Option<Why>) -> Result<()> {
        self.journal.note(WHY, &why)
    }

    /// What the model says in the next round: what the journal has of it, or asks the model once, and again where its answer can't be
    /// read.
    pub(super) async fn ask(&mut self) -> Result<Said> {
        self.rounds += 1;
        let is_last = self.rounds == MAX_ROUNDS || self.calls == MAX_CALLS;
        self.look_up_tools().await;
        if self.messages.is_empty() {
            self.compose().await?;
        }
        if let Recorded::Done(said) = self.journal.recorded(&round_step(self.rounds))? {
            return Ok(said);
        }
        let is_offered = self.calls_tools() && !is_last;
        let tools = if is_offered { self.tools.iter().filter_map(Tool::spec).collect() } else { Vec::new() };
        let messages = self.messages.iter().chain(&self.called).cloned().collect();
        let mut prompt = Prompt { messages, schema: None, tools };
        if is_last {
            prompt.messages.push(model::ChatMessage::user(self.last_round()));
        }
        let mut attempt = 1;
        loop {
            let completion = self.complete(&mut prompt).await?;
            let Refused { mistake, written } = match self.read(completion, is_last)? {
                Ok(said) => return Ok(said),
                Err(refused) => refused,
            };
            if attempt == model::MAX_ATTEMPTS {
                let message = format!("the model gave no valid answer in {attempt} attempts; the last: {mistake}");
                return Err(Error::new(ErrorKind::Unexpected, message));
            }
            tracing::debug!(attempt, mistake, "the model is asked again");
            attempt += 1;
            prompt.messages.push(model::ChatMessage::assistant(written));
            let form = if self.is_plain { "" } else { " in the form that was asked for" };
            prompt.messages.push(model::ChatMessage::user(format!(
                "That answer is not valid: {mistake}. Answer again{form}, whole, and with nothing else."
            )));
        }
    }

    /// One answer of the model. Where that fails over a prompt with images or documents, which the model may not take or not reach, it is
    /// asked without them.
    async fn complete(&mut self, prompt: &mut Prompt) -> Result<Completion> {
        let error = match self.service.complete(self.run, prompt, self.is_plain).await {
            Ok(completion) => return Ok(completion),
            Err(error) => error,
        };
        // What was heard of the answer can't be taken back.
        let is_heard = self.run.tap().is_heard();
        let is_refused = !is_heard && matches!(error.kind(), ErrorKind::Unexpected | ErrorKind::TooLarge);
        let shows = |message: &model::ChatMessage| !message.attachments.is_empty();
        if !is_refused || !prompt.messages.iter().any(shows) {
            return Err(error);
        }
        tracing::warn!(%error, "the model is asked without what came with the message");
        self.is_text_only = true;
        prompt.messages.iter_mut().chain(&mut self.messages).for_each(|message| message.attachments.clear());
        self.service.complete(self.run, prompt, self.is_plain).await
    }

    /// Does what the model says, asks it again with what came of that, and so on.
    pub(super) async fn go_on(&mut self, first: Said) -> Result<(), End> {
        let mut said = first;
        loop {
            let before = self.turn.actions.results.len();
            self.record(&said).await?;
            if let Said::Answer(answer) = &said {
                self.remember(&answer.memory).await;
            }
            match said {
                Said::Calls(calls) => Box::pin(self.run_calls(calls)).await?,
                Said::Answer(answer) => match answer.mode() {
                    Mode::Ignore if self.is_idle() => return Err(End::Ignored(Why::Model)),
                    Mode::Ignore => return Ok(()),
                    Mode::Simple => return Ok(self.reply(&self.text_step(), &answer).await?),
                    Mode::Actions => Box::pin(self.run_actions(answer)).await?,
                },
            }
            let is_heard = |result: &ToolResult| {
                result.success && result.providers.is_empty() && (result.is_said || result.told().is_empty())
            };
            let is_told = self.held.is_none() && self.has_said && self.left_out == 0;
            if is_told && self.turn.actions.results[before..].iter().all(is_heard) {
                return Ok(());
            }
            let held_step = format!("{}.held", round_step(self.rounds));
            if let Some(held) = self.held.take_if(|_| self.journal.has(&held_step)) {
                return Ok(self.reply(&held_step, &held).await?);
            }
            said = match Box::pin(self.ask()).await {
                Ok(said) => said,
                Err(error) => {
                    let Some(held) = self.held.take() else { return Err(error.into()) };
                    tracing::warn!(%error, "the answer is said as it was before the tools");
                    return Ok(self.reply(&held_step, &held).await?);
                }
            };
            self.held = None;
        }
    }

    /// Keeps what the model said in this round, before anything of it is done. An answer that is only said is kept with its text.
    async fn record(&self, said: &Said) -> Result<()> {
        let step = round_step(self.rounds);
        if self.journal.has(&step) {
            return Ok(());
        }
        match said {
            Said::Answer(answer) if answer.memory.is_empty() && answer.mode() != Mode::Actions => {
                self.journal.note(&step, said)
            }
            _ => self.journal.done(&step, said).await,
        }
    }

    /// The step in which the text of this round is said.
    fn text_step(&self) -> String {
        format!("{}.text", round_step(self.rounds))
    }

    /// Whether nothing was said or done yet.
    fn is_idle(&self) -> bool {
        !self.has_said && self.turn.actions.results.is_empty()
    }

    /// What can be called in this round: tools come and go while the agent runs.
    async fn look_up_tools(&mut self) {
        self.services = self.service.composer.services_of(&self.turn);
        self.tools = Tool::offered(&self.services, &self.turn.message).await;
    }

    /// What the model is asked, over the state as it is now.
    async fn compose(&mut self) -> Result<()> {
        self.refresh().await;
        let mut values = self.state.values.clone();
        values.insert(CALLS_TOOLS.to_owned(), self.calls_tools().into());
        let asked = self.services.templates().message_handler.render(&values)?;
        self.is_plain = self.calls_tools() && asked.asked_for(CALLS_TOOLS);
        self.messages = self.service.messages(asked.text);
        if let Some(asked) = self.messages.last_mut().filter(|_| !self.is_text_only) {
            asked.attachments = for_model(&self.turn.message, self.service.large.modalities());
        }
        Ok(())
    }

    /// Whether the model calls tools by calls of its own.
    fn calls_tools(&self) -> bool {
        self.service.large.calls_tools()
    }

    /// Composes the state anew where something came up.
    async fn refresh(&mut self) {
        if self.is_stale {
            self.state = Arc::new(self.service.composer.compose_state(&self.turn, &self.options).await);
            self.is_stale = false;
        }
    }

    /// What the model is told when it can call nothing any more.
    fn last_round(&self) -> String {
        let form = if self.is_plain { "." } else { ", with REPLY as the only action." };
        match self.left_out {
            0 => format!("{LAST_ROUND}{form}"),
            more => {
                format!(
                    "{more} calls were not made: at most {MAX_CALLS} are made about one message. {LAST_ROUND}{form}"
                )
            }
        }
    }

    /// Calls the tools of a round.
    async fn run_calls(&mut self, calls: Calls) -> Result<()> {
        let Calls { said, text, calls: mut tool_calls, left_out } = calls;
        self.left_out += left_out;
        let said = said.or_else(|| MessageAnswer::parse(&text).ok());
        let (text, thought, memory) = said.map(|said| (said.text, said.thought, said.memory)).unwrap_or_default();
        self.remember(&memory).await;
        self.plan(thought, tool_calls.iter().map(|call| call.name.as_str()));
        if !text.is_empty() {
            self.say(&Spoken { step: &self.text_step(), text: &text, answer: None }).await?;
        }
        let (mut results, mut has_more_providers) = (Vec::new(), false);
        for (at, call) in tool_calls.iter_mut().enumerate() {
            let arguments = arguments_of(call);
            let result = self.step(at, &call.name, arguments).await?;
            has_more_providers |= !result.providers.is_empty();
            results.push(model::ChatMessage::tool(call.id.clone(), shown(&result)));
        }
        if self.calls_tools() {
            self.called.push(model::ChatMessage::assistant(text).with_tool_calls(tool_calls));
            self.called.extend(results);
        }
        if has_more_providers || !self.calls_tools() {
            // A state that is composed anew shows the results too, behind which these stand whole. By it alone another model than that which
            // made the calls, before a crash, is told of them.
            self.messages.clear();
        }
        Ok(())
    }

    /// Does the actions of an answer, in their order.
    async fn run_actions(&mut self, mut answer: MessageAnswer) -> Result<()> {
        if !answer.text.is_empty() && !answer.actions.iter().any(|name| is(name, REPLY)) {
            answer.actions.insert(0, REPLY.to_owned());
        }
        let mut has_news = answer.providers.iter().any(|name| self.state.outcome(name).is_none());
        self.is_stale |= has_news;
        self.options = self.options.clone().and(answer.providers.iter().map(String::as_str));
        self.plan(answer.thought.clone(), answer.actions.iter().map(String::as_str));
        let mut is_said = false;
        for (at, name) in answer.actions.iter().enumerate() {
            if !is(name, REPLY) {
                if self.calls < MAX_CALLS {
                    self.step(at, name, Ok(Value::Object(self.parameters_of(&answer, name)))).await?;
                } else {
                    self.left_out += 1;
                }
                has_news = true;
            } else if has_news && !self.journal.has(&format!("{}.{at}", self.text_step())) {
                self.held = (!is_said).then(|| answer.clone());
            } else {
                is_said = true;
                self.try_reply(at, &answer).await?;
            }
        }
        if is_said {
            self.held = None;
        }
        // The model is told of the results by the state.
        self.messages.clear();
        self.called.clear();
        Ok(())
    }

    /// What an action is told: by the name that the model gave it, else by that of the tool, else by any other name of the tool.
    fn parameters_of(&self, answer: &MessageAnswer, name: &str) -> Values {
        let tool = self.offered(name).map(Tool::name);
        let rank = |told: &str| {
            let is_meant = || tool.is_some() && self.offered(told).map(Tool::name) == tool;
            match plain(told) {
                told if told == plain(name) => Some(0),
                told if tool.is_some_and(|tool| told == plain(tool)) => Some(1),
                _ => is_meant().then_some(2),
            }
        };
        let told = answer.parameters.iter().filter_map(|(told, values)| Some((rank(told)?, values)));
        told.min_by_key(|(rank, _)| *rank).map(|(_, values)| values.clone()).unwrap_or_default()
    }

    /// The tool that a model means, of those that it was offered: by a name of the tool's own or of the host's.
    fn offered(&self, name: &str) -> Option<&Tool> {
        Tool::find(&self.tools, &ToolAlias::meant(self.services.aliases(), name))
    }

    /// Changes the prompt memory as an answer says. What can't be kept is logged, and the message is answered all the same.
    async fn remember(&mut self, updates: &[MemoryUpdate]) {
        if updates.is_empty() || self.kept.iter().any(|kept| kept == updates) {
            return;
        }
        match self.service.remember(&self.turn.message, updates).await {
            Ok(()) => self.kept.push(updates.to_vec()),
            Err(error) => tracing::warn!(%error, "what an answer says is to be kept is not"),
        }
    }

    async fn reply(&mut self, step: &str, answer: &MessageAnswer) -> Result<()> {
        self.say(&Spoken { step, text: &answer.text, answer: Some(answer) }).await.map(drop)
    }

    /// Says the text of an answer that goes on. That it can't be said is the result of the action.
    async fn try_reply(&mut self, at: usize, answer: &MessageAnswer) -> Result<()> {
        let step = format!("{}.{at}", self.text_step());
        let said = self.reply(&step, answer).await;
        self.change_actions(|actions| actions.end_step(at, said.is_ok()));
        let Err(error) = said else { return Ok(()) };
        let error = unless_lost(error)?;
        self.keep(&step, ToolResult::failed(REPLY, error.to_string())).await
    }

    /// Says a text as an answer to the message.
    async fn say(&mut self, spoken: &Spoken<'_>) -> Result<Message> {
        let services = Arc::clone(&self.services);
        let mut new = voice::reply(&services, &self.turn.message, spoken.text);
        if let Some(answer) = spoken.answer {
            new.content.thought = self.kept_thought(&answer.thought);
            new.content.actions = answer.actions.clone();
            new.content.providers = answer.providers.clone();
        }
        let message = self.service.voice().say_once(self.journal, spoken.step, self.run.context(), new).await?;
        (self.has_said, self.is_stale) = (true, true);
        self.run.tap().said(&message);
        self.run.step(FlowStep::Answered(message.id));
        Ok(message)
    }

    /// What is to be done in this round, where that is more than one action.
    fn plan<'n>(&mut self, thought: String, actions: impl Iterator<Item = &'n str>) {
        let step =
            |action: &str| PlanStep { action: cut(action, MAX_NAME_SHOWN).into_owned(), status: StepStatus::Pending };
        let steps: Vec<_> = actions.map(step).collect();
        self.thought.clone_from(&thought);
        self.change_actions(|actions| actions.plan = (steps.len() > 1).then_some(ActionPlan { thought, steps }));
    }

    /// A thought as the room keeps it: none behind what is for this answer alone, since it may tell of that.
    fn kept_thought(&self, thought: &str) -> Option<String> {
        (!thought.is_empty() && !self.turn.actions.has_private()).then(|| thought.to_owned())
    }

    fn change_actions(&mut self, change: impl FnOnce(&mut ActionState)) {
        let mut actions = ActionState::clone(&self.turn.actions);
        change(&mut actions);
        self.turn = self.turn.clone().with_actions(actions);
        self.is_stale = true;
    }
}

/// The longest name that a model gave which is kept.
const MAX_NAME_SHOWN: usize = 128;

/// The step in which a model says something, by the number of the round.
fn round_step(number: usize) -> String {
    format!("round.{number}")
}

/// What can't be said does not end a run, unless it has lost its message.
fn unless_lost(error: Error) -> Result<Error> {
    if error.kind() == ErrorKind::Conflict { Err(error) } else { Ok(error) }
}
