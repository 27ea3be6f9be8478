//! The dialogue with a model about one message: rounds of answers and tool calls.

mod call;
mod round;

use std::sync::Arc;

use memory_core::{Error, ErrorKind, Result};
use memory_model::{self as model, Completion, Prompt};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::answer::{MessageAnswer, Mode, REPLY, is};
use super::attachments::for_model;
use super::{End, FlowStep, Journal, MessageService, Recorded, Run, Why, voice};
use crate::prompt::MemoryUpdate;
use crate::records::{Message, WHY};
use crate::state::{
    ActionPlan, ActionState, ComposeOptions, PlanStep, Services, State, StepStatus, ToolResult, Turn, Values, cut,
};
use crate::tool::{Tool, ToolAlias, plain};

/// The most rounds about one message. In the last round no tools are offered.
pub const MAX_ROUNDS: usize = 8;
/// The most tool calls about one message. The model is told how many calls over the limit were not made.
pub const MAX_CALLS: usize = 32;
const LAST_ROUND: &str = "No more tools can be called now. Answer with what you know";
/// The template value that says whether the model calls tools by itself.
pub(super) const CALLS_TOOLS: &str = "callsTools";

/// The dialogue with a model and its tools about one message.
///
/// # Behavior
/// - A model that calls tools is offered them and asked for plain text, which is said unchanged, even if it looks like a form. Any other
///   model, and every model if the template does not use `callsTools`, is asked for an answer in XML or JSON, and acts by the actions in
///   it; plain text is an answer, too.
/// - A plain text that the token limit or a filter cut is said, with a note that it was cut. For tool calls and forms that were cut, the
///   model is asked again.
/// - The model is asked again with the results until it calls no more tools, or until the agent has said a text and every result of the
///   round is a success that was said or is empty.
/// - Each round offers the tools that are registered then. They are called one after the other, and each sees the earlier results. A call
///   gets a failed result if its tool is unknown, is not offered or was removed meanwhile, if the arguments are wrong, or if the tool
///   fails, panics or misses its deadline, at which it is dropped. The other calls still run.
/// - `REPLY` says the text at its position among the actions. After tools, and if providers were requested that the model has not seen,
///   the text is held back: the model is asked again, and if it gives no answer, the held text is said.
/// - A text that can't be said does not end the run, unless it is the whole answer or the ledger fails for now. In the latter case a later
///   run says it. If nobody knows whether it was said, the model is told so.
/// - Each result is stored as a message of the agent before the next tool is called. If it can't be stored, the run fails.
/// - The model's answer of each round, each result and each text are steps of the journal, named by the numbers of round and call. If the
///   journal has the answer of a round, the model is not asked for it again. A call whose result it has is not repeated, except that the
///   private output of a repeatable tool is not recorded, so that tool is called again. A call that was begun and has no result is repeated
///   if the tool is repeatable. Otherwise it has failed, and the model and the room are told that it may have happened.
pub(super) struct Dialogue<'a> {
    service: &'a MessageService,
    run: &'a Run,
    journal: &'a Journal,
    turn: Turn,
    options: ComposeOptions,
    services: Arc<Services>,
    state: Arc<State>,
    /// Whether the state is out of date.
    is_stale: bool,
    tools: Vec<Tool>,
    /// The messages of the next prompt; composed again if empty.
    messages: Vec<model::ChatMessage>,
    /// The tool calls of earlier rounds and their results, which follow `messages` in the prompt.
    called: Vec<model::ChatMessage>,
    /// Whether the model is asked for plain text.
    is_plain: bool,
    rounds: usize,
    calls: usize,
    /// How many calls over the limit the model wanted.
    left_out: usize,
    has_said: bool,
    /// The model's reason in this round; may be empty.
    thought: String,
    /// An answer whose text is held back until the model has seen the new results.
    held: Option<MessageAnswer>,
    /// The batches of prompt memory updates that were applied.
    kept: Vec<Vec<MemoryUpdate>>,
    /// Whether the model refused the images and documents of the message.
    is_text_only: bool,
}

/// A text to say as a step of the journal, with the answer that it belongs to.
struct Spoken<'a> {
    step: &'a str,
    text: &'a str,
    answer: Option<&'a MessageAnswer>,
}

/// A model's answer of one round, as it is kept in the journal.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Said {
    /// Tool calls of the endpoint.
    Calls(Calls),
    /// An answer, possibly with actions.
    Answer(MessageAnswer),
}

/// The tool calls of the endpoint in one round.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Calls {
    /// The text beside the calls. It is stored as it was parsed, since a model of another kind may continue the run.
    #[serde(default)]
    said: Option<MessageAnswer>,
    /// The unparsed text, which only runs of older versions have.
    #[serde(default, skip_serializing)]
    text: String,
    calls: Vec<model::ToolCall>,
    /// How many calls over the limit are not made.
    #[serde(default)]
    left_out: usize,
}

/// An invalid answer, to be sent back to the model.
struct Refused {
    mistake: String,
    written: String,
}

impl<'a> Dialogue<'a> {
    pub(super) fn new(service: &'a MessageService, run: &'a Run, journal: &'a Journal, turn: &Turn) -> Self {
        Self {
            service,
            run,
            journal,
            turn: turn.clone(),
            // The conversation is read again, since earlier messages may have been answered while this one waited.
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

    /// Returns the turn, with the results of the tools.
    pub(super) fn into_turn(self) -> Turn {
        self.turn
    }

    /// Returns the recorded reason for answering, if there is one; the outer `None` means that the journal has no answer of the model, so
    /// nothing was decided.
    pub(super) fn decided(journal: &Journal) -> Result<Option<Option<Why>>> {
        if !journal.has(&round_step(1)) {
            return Ok(None);
        }
        Ok(Some(match journal.recorded(WHY)? {
            Recorded::Done(why) => why,
            Recorded::Nothing | Recorded::Begun => None,
        }))
    }

    /// Notes the reason for answering in the journal, which stores it with its next write.
    pub(super) fn decided_by(&self, why: Option<Why>) -> Result<()> {
        self.journal.note(WHY, &why)
    }

    /// Returns the model's answer of the next round: from the journal, or else from the model. After an invalid answer the model is asked
    /// again.
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

    /// Calls the model. If it fails on a prompt with images or documents, and no text was streamed, it is called once more without them,
    /// since it may not support or reach them.
    async fn complete(&mut self, prompt: &mut Prompt) -> Result<Completion> {
        let error = match self.service.complete(self.run, prompt, self.is_plain).await {
            Ok(completion) => return Ok(completion),
            Err(error) => error,
        };
        // Text that was streamed can't be taken back, so the model is not asked for another one.
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

    /// Processes answers of the model and asks it again with the results, until it is done.
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

    /// Records the model's answer of this round before it is processed. An answer without actions and memory updates takes no write of its
    /// own: the write that records its text stores it, too.
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

    /// The name of the step in which the text of this round is said.
    fn text_step(&self) -> String {
        format!("{}.text", round_step(self.rounds))
    }

    /// Whether nothing was said or done yet.
    fn is_idle(&self) -> bool {
        !self.has_said && self.turn.actions.results.is_empty()
    }

    /// Looks up the tools for this round, since tools can be added and removed while the agent runs.
    async fn look_up_tools(&mut self) {
        self.services = self.service.composer.services_of(&self.turn);
        self.tools = Tool::offered(&self.services, &self.turn.message).await;
    }

    /// Composes the prompt from the present state.
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

    /// Whether the model calls tools by itself.
    fn calls_tools(&self) -> bool {
        self.service.large.calls_tools()
    }

    /// Composes the state again if it is out of date.
    async fn refresh(&mut self) {
        if self.is_stale {
            self.state = Arc::new(self.service.composer.compose_state(&self.turn, &self.options).await);
            self.is_stale = false;
        }
    }

    /// What the model is told in the last round.
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

    /// Runs the actions of an answer, in their order.
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
        // The state of the next prompt has the results.
        self.messages.clear();
        self.called.clear();
        Ok(())
    }

    /// Finds the parameters of an action: under the name that the model used, else under the tool's own name, else under another name of
    /// the tool.
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

    /// Finds an offered tool by its own names or by an alias.
    fn offered(&self, name: &str) -> Option<&Tool> {
        Tool::find(&self.tools, &ToolAlias::meant(self.services.aliases(), name))
    }

    /// Applies the prompt memory updates of an answer. A failure is logged, and the message is answered anyway.
    async fn remember(&mut self, updates: &[MemoryUpdate]) {
        if updates.is_empty() || self.kept.iter().any(|kept| kept == updates) {
            return;
        }
        match self.service.remember(&self.turn.message, updates).await {
            Ok(()) => self.kept.push(updates.to_vec()),
            Err(error) => tracing::warn!(%error, "the prompt memory updates of an answer were not applied"),
        }
    }

    async fn reply(&mut self, step: &str, answer: &MessageAnswer) -> Result<()> {
        self.say(&Spoken { step, text: &answer.text, answer: Some(answer) }).await?.map(drop)
    }

    /// Says the text of an answer that has other actions, too. If it can't be said, `REPLY` gets a failed result.
    async fn try_reply(&mut self, at: usize, answer: &MessageAnswer) -> Result<()> {
        let step = format!("{}.{at}", self.text_step());
        let said = self.say(&Spoken { step: &step, text: &answer.text, answer: Some(answer) }).await?;
        self.change_actions(|actions| actions.end_step(at, said.is_ok()));
        match said {
            Ok(_) => Ok(()),
            Err(error) => self.keep(&step, ToolResult::failed(REPLY, error.to_string())).await,
        }
    }

    /// Says a text as a reply to the message. The inner error does not end the run; see [`Voice::say_once`](voice::Voice::say_once).
    async fn say(&mut self, spoken: &Spoken<'_>) -> Result<Result<Message>> {
        let services = Arc::clone(&self.services);
        let mut new = voice::reply(&services, &self.turn.message, spoken.text);
        if let Some(answer) = spoken.answer {
            new.content.thought = self.kept_thought(&answer.thought);
            new.content.actions = answer.actions.clone();
            new.content.providers = answer.providers.clone();
        }
        let said = self.service.voice().say_once(self.journal, spoken.step, self.run.context(), new).await?;
        if let Ok(message) = &said {
            (self.has_said, self.is_stale) = (true, true);
            self.run.tap().said(message);
            self.run.step(FlowStep::Answered(message.id));
        }
        Ok(said)
    }

    /// Sets the plan of this round, if it has more than one action.
    fn plan<'n>(&mut self, thought: String, actions: impl Iterator<Item = &'n str>) {
        let step =
            |action: &str| PlanStep { action: cut(action, MAX_NAME_SHOWN).into_owned(), status: StepStatus::Pending };
        let steps: Vec<_> = actions.map(step).collect();
        self.thought.clone_from(&thought);
        self.change_actions(|actions| actions.plan = (steps.len() > 1).then_some(ActionPlan { thought, steps }));
    }

    /// The thought that is stored with a message of the room; `None` after a private result, which the thought may repeat.
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

/// How many bytes are kept of a name that a model wrote.
const MAX_NAME_SHOWN: usize = 128;

/// The name of the step of a round.
fn round_step(number: usize) -> String {
    format!("round.{number}")
}
