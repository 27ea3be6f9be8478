//! The dialogue with a model about one message: what it says, the tools that it calls, and what came of them.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use memory_core::{Error, ErrorKind, Result};
use memory_model::{self as model, Completion, Prompt, ToolCall};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::answer::{IGNORE, MessageAnswer, Mistake, Mode, REPLY, is};
use super::attachments::for_model;
use super::{End, Journal, MessageService, Recorded, Run, Step, Why, voice};
use crate::prompt::MemoryUpdate;
use crate::records::{self, ActionStatus, Message};
use crate::state::{
    ActionPlan, ActionState, ComposeOptions, Note, PlanStep, Services, State, StepStatus, ToolResult, Turn, Values,
};
use crate::tool::{MAX_ARGUMENTS, Tool, ToolContext, ToolOutput};

/// How often a model is asked about one message at most. The last time it is offered no tools.
pub const MAX_ROUNDS: usize = 8;
/// How many tools are called about one message at most.
pub const MAX_CALLS: usize = 32;
/// How much of a tool's result a model is shown, in bytes.
pub const MAX_RESULT: usize = 64 << 10;
/// How many notes are kept, the newest.
const NOTES: usize = 50;
/// How many bytes of what a model wrote go back to it.
const MAX_RETURNED: usize = 64 << 10;

/// A limit that can't be told as a time ends as late as this.
const FAR: Duration = Duration::from_secs(365 * 86_400);

const LAST_ROUND: &str = "No more tools can be called now. Answer with what you know, with REPLY as the only action.";

/// The work on one message with a model and its tools.
///
/// # Behavior
/// - The model may call tools by the endpoint's own calls, and then what it writes is what is said; or by the actions of an answer in
///   XML or JSON. Plain text is an answer.
/// - It is asked again with the results until it calls no tool any more, or until the user has heard all that there is to tell: a
///   text, and each result that is not empty.
/// - Tools are called one after the other; each sees the results before it. One that is not known or not offered, is called with wrong
///   arguments, fails, panics or is late has a failed result, and the rest goes on. What is late is dropped.
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
    messages: Vec<model::Message>,
    rounds: usize,
    calls: usize,
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

/// What a model said in one round, as the journal has it.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Said {
    /// It calls tools by the endpoint's own calls.
    Calls(Calls),
    /// It answers, perhaps with actions.
    Answer(MessageAnswer),
}

/// The endpoint's own calls of tools in one round.
#[derive(Serialize, Deserialize)]
pub(super) struct Calls {
    text: String,
    calls: Vec<ToolCall>,
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
            services: service.composer.services(),
            state: Arc::default(),
            is_stale: true,
            tools: Vec::new(),
            messages: Vec::new(),
            rounds: 0,
            calls: 0,
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
        if self.messages.is_empty() {
            self.compose().await?;
        }
        if let Recorded::Done(said) = self.journal.recorded(&round_step(self.rounds))? {
            return Ok(said);
        }
        let tools = if is_last { Vec::new() } else { self.tools.iter().filter_map(Tool::spec).collect() };
        let mut prompt = Prompt { messages: self.messages.clone(), schema: None, tools };
        if is_last {
            prompt.messages.push(model::Message::user(LAST_ROUND));
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
            tracing::debug!(attempt, %mistake, "the model is asked again");
            attempt += 1;
            prompt.messages.push(model::Message::assistant(written));
            prompt.messages.push(model::Message::user(format!(
                "That answer is not valid: {mistake}. Answer again in the form that was asked for, whole, and with nothing else."
            )));
        }
    }

    /// One answer of the model. Where that fails over a prompt with images or documents, which the model may not take or not reach, it is
    /// asked without them.
    async fn complete(&mut self, prompt: &mut Prompt) -> Result<Completion> {
        let error = match self.service.complete(self.run, prompt).await {
            Ok(completion) => return Ok(completion),
            Err(error) => error,
        };
        let is_refused = matches!(error.kind(), ErrorKind::Unexpected | ErrorKind::TooLarge);
        let shows = |message: &model::Message| !message.attachments.is_empty();
        if !is_refused || !prompt.messages.iter().any(shows) {
            return Err(error);
        }
        tracing::warn!(%error, "the model is asked without what came with the message");
        self.is_text_only = true;
        prompt.messages.iter_mut().chain(&mut self.messages).for_each(|message| message.attachments.clear());
        self.service.complete(self.run, prompt).await
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
                Said::Calls(calls) => self.run_calls(calls).await?,
                Said::Answer(answer) => match answer.mode() {
                    Mode::Ignore if self.is_idle() => return Err(End::Ignored(Why::Model)),
                    Mode::Ignore => return Ok(()),
                    Mode::Simple => return Ok(self.reply(&self.text_step(), &answer).await?),
                    Mode::Actions => self.run_actions(answer).await?,
                },
            }
            let is_heard = |result: &ToolResult| result.success && (result.is_said || result.told().is_empty());
            if self.held.is_none() && self.has_said && self.turn.actions.results[before..].iter().all(is_heard) {
                return Ok(());
            }
            let held_step = format!("{}.held", round_step(self.rounds));
            if let Some(held) = self.held.take_if(|_| self.journal.has(&held_step)) {
                return Ok(self.reply(&held_step, &held).await?);
            }
            said = match self.ask().await {
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

    /// What the model is asked, over the state as it is now.
    async fn compose(&mut self) -> Result<()> {
        self.services = self.service.composer.services();
        self.refresh().await;
        self.tools = Tool::offered(&self.services, &self.turn.message).await;
        self.messages = self.service.messages(&self.services.templates().message_handler, &self.state)?;
        if let Some(asked) = self.messages.last_mut().filter(|_| !self.is_text_only) {
            asked.attachments = for_model(&self.turn.message, self.service.large.modalities());
        }
        Ok(())
    }

    /// Composes the state anew where something came up.
    async fn refresh(&mut self) {
        if self.is_stale {
            self.state = Arc::new(self.service.composer.compose_state(&self.turn, &self.options).await);
            self.is_stale = false;
        }
    }

    /// What a completion says, or what is wrong with it.
    fn read(&self, completion: Completion, is_last: bool) -> Result<std::result::Result<Said, Refused>> {
        if !completion.tool_calls.is_empty() {
            if !is_last {
                return Ok(Ok(Said::Calls(self.calls_of(completion))));
            }
            if completion.text.trim().is_empty() {
                return Err(Error::new(
                    ErrorKind::LimitExceeded,
                    "the model called tools again and again, and did not answer",
                ));
            }
        }
        let text = completion.text;
        if text.trim().is_empty() && self.has_said {
            return Ok(Ok(Said::Answer(MessageAnswer::ignored())));
        }
        let read =
            MessageAnswer::parse(&text).and_then(|answer| if is_last { without_tools(answer) } else { Ok(answer) });
        Ok(match read {
            Ok(answer) => Ok(Said::Answer(self.with_known_providers(answer))),
            Err(mistake) => Err(Refused { mistake, written: cut(text, MAX_RETURNED) }),
        })
    }

    /// The calls of a completion that may still be made. Of arguments that are too large no more is kept than tells so.
    fn calls_of(&self, completion: Completion) -> Calls {
        let Completion { text, tool_calls: mut calls, .. } = completion;
        calls.truncate(MAX_CALLS - self.calls);
        for call in calls.iter_mut().filter(|call| call.arguments.len() > MAX_ARGUMENTS) {
            call.arguments.truncate(call.arguments.ceil_char_boundary(MAX_ARGUMENTS + 1));
        }
        Calls { text, calls }
    }

    /// Only providers count that the model may name: those that are there, and not private.
    fn with_known_providers(&self, mut answer: MessageAnswer) -> MessageAnswer {
        let offered = self.services.providers().iter().map(|provider| provider.info()).filter(|info| !info.private);
        let is_named = |name: &str| answer.providers.iter().any(|named| named.eq_ignore_ascii_case(name));
        answer.providers = offered.filter(|info| is_named(&info.name)).map(|info| info.name.to_string()).collect();
        answer
    }

    /// Calls the tools of a round.
    async fn run_calls(&mut self, calls: Calls) -> Result<()> {
        let Calls { text, calls: mut tool_calls } = calls;
        let answer = MessageAnswer::parse(&text).ok();
        let (text, thought, memory) =
            answer.map(|answer| (answer.text, answer.thought, answer.memory)).unwrap_or_default();
        self.remember(&memory).await;
        self.plan(thought, tool_calls.iter().map(|call| call.name.as_str()));
        if !text.is_empty() {
            self.say(&Spoken { step: &self.text_step(), text: &text, answer: None }).await?;
        }
        let mut results = Vec::new();
        for (at, call) in tool_calls.iter_mut().enumerate() {
            let arguments = arguments_of(call);
            let result = self.step(at, &call.name, arguments).await?;
            results.push(model::Message::tool(call.id.clone(), shown(&result)));
        }
        self.messages.push(model::Message::assistant(text).with_tool_calls(tool_calls));
        self.messages.extend(results);
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
        Ok(())
    }

    /// What an action is told, by the name that the model gave it or by that of the tool.
    fn parameters_of(&self, answer: &MessageAnswer, name: &str) -> Values {
        let told = answer.parameters_of(name);
        match Tool::find(&self.tools, name) {
            Some(tool) if told.is_empty() => answer.parameters_of(tool.name()),
            _ => told,
        }
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

    /// Calls one tool as a step of the plan, with its events, and keeps the result. The name of the tool is told only where it is one of
    /// the host's: what a model writes stays out of logs.
    async fn step(&mut self, at: usize, name: &str, arguments: Result<Value>) -> Result<ToolResult> {
        let step = format!("call.{}", self.calls);
        self.calls += 1;
        let tool = Tool::find(&self.tools, name).cloned();
        let action = tool.as_ref().map(|tool| tool.name().to_owned()).unwrap_or_default();
        self.run.step(Step::ActionStarted { action: action.clone() });
        let called = if action.is_empty() { cut(name.to_owned(), MAX_NAME_SHOWN) } else { action.clone() };
        let mut result = self.call_once(&step, called, tool, arguments).await?;
        if let Some(text) = result.text.clone().filter(|_| result.is_said)
            && let Err(error) = self.say(&Spoken { step: &format!("{step}.text"), text: &text, answer: None }).await
        {
            let error = unless_lost(error)?;
            (result.success, result.is_said, result.error) = (false, false, Some(error.to_string()));
        }
        self.change_actions(|actions| actions.end_step(at, result.success));
        self.run.step(Step::ActionEnded { action, success: result.success });
        self.keep(&step, result.clone()).await?;
        Ok(result)
    }

    /// What came of a call: what the journal has of it, or what the tool gives now.
    async fn call_once(
        &mut self,
        step: &str,
        called: String,
        tool: Option<Tool>,
        arguments: Result<Value>,
    ) -> Result<ToolResult> {
        let given = arguments.as_ref().cloned().unwrap_or_default();
        match self.journal.recorded(step)? {
            Recorded::Done(result) => {
                self.say_again(step).await?;
                return Ok(result);
            }
            Recorded::Begun if !tool.as_ref().is_some_and(Tool::is_repeatable) => {
                let (unclear, text) = (unclear_step(step), format!("{called}: {UNCLEAR}"));
                if let Err(error) = self.say(&Spoken { step: &unclear, text: &text, answer: None }).await {
                    let error = unless_lost(error)?;
                    tracing::warn!(%error, "the room was not told that a call may have happened");
                }
                let result = ToolResult { arguments: given, ..ToolResult::failed(called, UNCLEAR) };
                return self.record_result(step, result).await;
            }
            Recorded::Nothing | Recorded::Begun => {}
        }
        let mut result = match self.attempt(step, tool, arguments).await {
            Ok(ToolOutput { text, is_said, values, data }) => {
                let mut result = ToolResult::done(called, cut(text, MAX_RESULT));
                (result.is_said, result.values, result.data) = (is_said, values, data);
                result
            }
            Err(error) => ToolResult::failed(called, cut(error.message().to_owned(), MAX_RESULT)),
        };
        result.arguments = given;
        result.text = result.text.filter(|text| !text.trim().is_empty());
        self.record_result(step, result).await
    }

    /// Keeps what came of a call in the journal; what that can't hold is a failure.
    async fn record_result(&self, step: &str, result: ToolResult) -> Result<ToolResult> {
        match self.journal.done(step, &result).await {
            Ok(()) => Ok(result),
            Err(error) if error.kind() == ErrorKind::TooLarge => {
                let failed = ToolResult::failed(result.tool, error.to_string());
                self.journal.done(step, &failed).await?;
                Ok(failed)
            }
            Err(error) => Err(error),
        }
    }

    /// What was said while a call was made is said, unless it was.
    async fn say_again(&mut self, step: &str) -> Result<()> {
        let steps = [unclear_step(step)].into_iter().filter(|step| self.journal.has(step));
        let sayings = (0..).map(|number| saying_step(step, number)).take_while(|step| self.journal.has(step));
        for step in steps.chain(sayings).collect::<Vec<_>>() {
            // The journal has the text.
            if let Err(error) = self.say(&Spoken { step: &step, text: "", answer: None }).await {
                unless_lost(error)?;
            }
        }
        Ok(())
    }

    /// What a tool gives. While it works, what it wants said is said.
    async fn attempt(&mut self, step: &str, tool: Option<Tool>, arguments: Result<Value>) -> Result<ToolOutput> {
        let tool = tool.ok_or_else(|| self.no_tool())?;
        let arguments = arguments?;
        self.refresh().await;
        tool.check_arguments(&arguments)
            .map_err(|error| Error::invalid(format!("wrong arguments: {}", error.message())))?;
        if !tool.is_repeatable() {
            self.journal.begun(step).await?;
        }
        let limit = self.service.limits.action;
        let now = Instant::now();
        let deadline = now.checked_add(limit).unwrap_or(now + FAR);
        let cancellation = CancellationToken::new();
        let _cancelled_at_the_end = cancellation.clone().drop_guard();
        let (context, mut sayings) = ToolContext::new(
            self.turn.clone(),
            Arc::clone(&self.state),
            Arc::clone(&self.services),
            Arc::clone(&self.service.large),
            deadline,
            cancellation,
        );
        let mut work = pin!(AssertUnwindSafe(async move { tool.call(arguments, context).await }).catch_unwind());
        let mut number = 0;
        loop {
            tokio::select! {
                biased;
                // First, so that a tool that always has something to say ends too.
                () = sleep_until(deadline) => {
                    let message = format!("no result within {} ms", limit.as_millis());
                    return Err(Error::new(ErrorKind::Timeout, message));
                }
                Some(saying) = sayings.recv() => {
                    let step = saying_step(step, number);
                    number += 1;
                    let said = self.say(&Spoken { step: &step, text: &saying.text, answer: None }).await;
                    // The tool may not wait for it any more.
                    let _ = saying.said.send(said);
                }
                output = &mut work => {
                    return output.map_err(|_| Error::new(ErrorKind::Unexpected, "the tool panicked"))?;
                }
            }
        }
    }

    fn no_tool(&self) -> Error {
        let names: Vec<_> = self.tools.iter().map(Tool::name).collect();
        let message = match names.is_empty() {
            true => "there are no tools".to_owned(),
            false => format!("there is no tool of this name now; there are {}", names.join(", ")),
        };
        Error::new(ErrorKind::NotFound, message)
    }

    /// Says a text as an answer to the message.
    async fn say(&mut self, spoken: &Spoken<'_>) -> Result<Message> {
        let services = Arc::clone(&self.services);
        let mut new = voice::reply(&services, &self.turn.message, spoken.text);
        if let Some(answer) = spoken.answer {
            new.content.thought = Some(answer.thought.clone()).filter(|thought| !thought.is_empty());
            new.content.actions = answer.actions.clone();
            new.content.providers = answer.providers.clone();
        }
        let message = self.service.voice().say_once(self.journal, spoken.step, self.run.context(), new).await?;
        (self.has_said, self.is_stale) = (true, true);
        self.run.tap().said(&message);
        self.run.step(Step::Answered(message.id));
        Ok(message)
    }

    /// What is to be done in this round, where that is more than one action.
    fn plan<'n>(&mut self, thought: String, actions: impl Iterator<Item = &'n str>) {
        let step =
            |action: &str| PlanStep { action: cut(action.to_owned(), MAX_NAME_SHOWN), status: StepStatus::Pending };
        let steps: Vec<_> = actions.map(step).collect();
        self.thought.clone_from(&thought);
        self.change_actions(|actions| actions.plan = (steps.len() > 1).then_some(ActionPlan { thought, steps }));
    }

    /// Keeps the result of a step, as a message of the agent and for what comes next.
    async fn keep(&mut self, step: &str, result: ToolResult) -> Result<()> {
        let services = Arc::clone(&self.services);
        let mut message = voice::reply(&services, &self.turn.message, result.told()).with_run(self.run.context().id);
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let (before, plan) = (self.turn.actions.results.len(), self.turn.actions.plan.as_ref());
        let open = plan.map_or(0, |plan| plan.steps.len() - plan.steps_over());
        message.content.action_result = Some(records::ActionResult {
            run: self.run.context().id.to_string(),
            action: result.tool.clone(),
            status: if result.success { ActionStatus::Completed } else { ActionStatus::Failed },
            step: count(before + 1),
            steps: count(before + 1 + open),
            thought: Some(self.thought.clone()).filter(|thought| !thought.is_empty()),
        });
        let step = format!("{step}.result");
        services.records().messages().add_keyed(message, self.journal.message(), &step).await?;
        self.run.tap().result(&result);
        self.change_actions(|actions| {
            if let Some(text) = result.text.clone().filter(|_| result.success) {
                actions.working_memory.push(Note { key: result.tool.clone(), text });
                let old = actions.working_memory.len().saturating_sub(NOTES);
                actions.working_memory.drain(..old);
            }
            actions.results.push(result);
        });
        Ok(())
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

/// The step that has what decided whether the message is answered.
const WHY: &str = "why";
/// What is told of a call that may have happened.
const UNCLEAR: &str = "it was cut off and may have happened; it was not done again";

/// The step in which a model says something, by the number of the round.
fn round_step(number: usize) -> String {
    format!("round.{number}")
}

/// The step in which a call says something, by the number of that.
fn saying_step(call: &str, number: usize) -> String {
    format!("{call}.say.{number}")
}

/// The step in which the room is told that a call may have happened.
fn unclear_step(call: &str) -> String {
    format!("{call}.unclear")
}

/// What can't be said does not end a run, unless it has lost its message.
fn unless_lost(error: Error) -> Result<Error> {
    if error.kind() == ErrorKind::Conflict { Err(error) } else { Ok(error) }
}

/// An answer that can't be read, to be sent back.
struct Refused {
    mistake: Mistake,
    written: String,
}

/// The same answer where no tools can be called any more.
fn without_tools(mut answer: MessageAnswer) -> Result<MessageAnswer, Mistake> {
    answer.providers.clear();
    answer.actions.retain(|name| is(name, REPLY) || is(name, IGNORE));
    answer.actions.truncate(1);
    if answer.actions.is_empty() && !answer.text.is_empty() {
        answer.actions.push(REPLY.to_owned());
    }
    match answer.actions.is_empty() {
        true => Err(Mistake::Invalid { field: "actions".to_owned(), expected: "REPLY alone" }),
        false => Ok(answer),
    }
}

/// The arguments of a call. Those that are too large are taken out of what goes back to the model.
fn arguments_of(call: &mut ToolCall) -> Result<Value> {
    if call.arguments.len() > MAX_ARGUMENTS {
        call.arguments = "{}".to_owned();
        return Err(Error::too_large(format!("the arguments have at most {MAX_ARGUMENTS} bytes")));
    }
    let text = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
    // The parser's own message may quote the text; its place is enough.
    serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        Error::invalid(format!("wrong arguments: not valid JSON at line {line} column {column}"))
    })
}

/// A result as the model is shown it behind its call.
fn shown(result: &ToolResult) -> String {
    match (result.success, result.is_said) {
        (false, _) => format!("failed: {}", result.told()),
        (true, true) => format!("said to the user: {}", result.told()),
        (true, false) if result.told().is_empty() => "done".to_owned(),
        (true, false) => result.told().to_owned(),
    }
}

/// A text without what is beyond a number of bytes, which is told instead.
fn cut(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        let kept = text.floor_char_boundary(limit);
        let missing = text.len() - kept;
        text.truncate(kept);
        text.push_str(&format!("\n[{missing} bytes more]"));
    }
    text
}
