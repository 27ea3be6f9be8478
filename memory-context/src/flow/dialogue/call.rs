//! The tool calls of a round, and the record of each.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;

use futures::FutureExt;
use memory_core::{Error, ErrorKind, Outcome, Result};
use memory_model::{self as model, ToolCall};
use serde_json::Value;
use tokio::time::{sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{Calls, Dialogue, MAX_NAME_SHOWN, Spoken};
use crate::deadline::ends_after;
use crate::flow::answer::{MAX_ANSWER, MessageAnswer};
use crate::flow::{FlowStep, Recorded, voice};
use crate::records::{self, ActionStatus, Delivery};
use crate::state::{MAX_RESULT, Note, ToolResult, cut};
use crate::tool::{MAX_ARGUMENTS, Tool, ToolContext, ToolOutput};

/// How many of the newest notes are kept.
const NOTES: usize = 50;
/// How many bytes of a text are kept if the journal can't hold the result.
const MAX_SMALL: usize = 1 << 10;
/// Prefixes a text whose delivery is unknown, so that the model does not say it again.
const MAY_BE_SAID: &str = "the user may have been told this already, so don't repeat it: ";
/// The text of the room's message about a call whose output is private.
const NOT_KEPT: &str = "what it gave was for that answer alone";
/// What the model is told if a private output is gone and the tool does not give it again.
const GONE: &str = "what it gave before can't be read again now";
/// What the model and the room are told of a call that may have happened.
const UNCLEAR: &str = "it was cut off and may have happened; it was not done again";

impl Dialogue<'_> {
    /// Calls the tools of a round.
    pub(super) async fn run_calls(&mut self, calls: Calls) -> Result<()> {
        let Calls { said, text, calls: mut tool_calls, left_out } = calls;
        self.left_out += left_out;
        let said = said.or_else(|| MessageAnswer::parse(&text).ok());
        let (mut text, thought, memory) = said.map(|said| (said.text, said.thought, said.memory)).unwrap_or_default();
        self.remember(&memory).await;
        self.plan(thought, tool_calls.iter().map(|call| call.name.as_str()));
        let step = self.text_step();
        if !text.is_empty() && self.say(&Spoken { step: &step, text: &text, answer: None }).await?.is_err() {
            // The calls are made nevertheless, and the model does not see a text that was not said among what it has said.
            text = self.may_be_said(&step, &text).unwrap_or_default();
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
            // The prompt is composed again, from a state that has the results. A model that calls tools also gets them as the messages
            // after it. One that does not, as after a recovery with another model, sees them only in the state.
            self.messages.clear();
        }
        Ok(())
    }

    /// Calls one tool as step `at` of the plan, reports its events, says its text if it is to be said, and keeps the result. An event has
    /// the name of a tool only if the tool exists, since what a model writes stays out of logs.
    pub(super) async fn step(&mut self, at: usize, name: &str, arguments: Result<Value>) -> Result<ToolResult> {
        let step = format!("call.{}", self.calls);
        self.calls += 1;
        let tool = self.tool(name);
        let action = tool.as_ref().map(|tool| tool.name().to_owned()).unwrap_or_default();
        self.run.step(FlowStep::ActionStarted { action: action.clone() });
        let called = if action.is_empty() { cut(name, MAX_NAME_SHOWN).into_owned() } else { action.clone() };
        let mut result = self.call_once(&step, called, tool, arguments).await?;
        if let Some(text) = result.text.clone().filter(|_| result.is_said) {
            let saying = format!("{step}.text");
            if self.say(&Spoken { step: &saying, text: &text, answer: None }).await?.is_err() {
                // The tool has succeeded, so the result stays a success: after a failure the model would call it again.
                let text = self.may_be_said(&saying, &text).unwrap_or(text);
                (result.is_said, result.text) = (false, Some(cut(&text, MAX_RESULT).into_owned()));
            }
        }
        self.change_actions(|actions| actions.end_step(at, result.success));
        self.run.step(FlowStep::ActionEnded { action, success: result.success });
        self.keep(&step, result.clone()).await?;
        Ok(result)
    }

    /// What the model is told of a text whose delivery is unknown; `None` if it is known.
    pub(super) fn may_be_said(&self, step: &str, text: &str) -> Option<String> {
        let is_unclear = self.journal.said(step).is_some_and(|said| said.delivery == Delivery::Unclear);
        is_unclear.then(|| format!("{MAY_BE_SAID}{text}"))
    }

    /// Returns the result of a call: from the journal, or else from the tool.
    async fn call_once(
        &mut self,
        step: &str,
        called: String,
        tool: Option<Tool>,
        arguments: Result<Value>,
    ) -> Result<ToolResult> {
        let given = arguments.as_ref().cloned().unwrap_or_default();
        let is_repeatable = tool.as_ref().is_some_and(Tool::is_repeatable);
        // Whether the journal has the result without its private output, as it does for a repeatable tool.
        let lacks_all = |result: &ToolResult| *result == result.shared();
        let is_again = |result: &ToolResult| {
            result.success && result.is_private && (is_repeatable || tool.is_none() && lacks_all(result))
        };
        let recorded = self.journal.recorded(step)?;
        let mut known = None;
        match recorded {
            // The tool is called again, since the people in the room, who decide what it may give, may have changed.
            Recorded::Done(result) if is_again(&result) => known = Some(result),
            Recorded::Done(result) => {
                self.say_again(step).await?;
                return Ok(result);
            }
            Recorded::Begun if !is_repeatable => {
                let (unclear, text) = (unclear_step(step), format!("{called}: {UNCLEAR}"));
                if let Err(error) = self.say(&Spoken { step: &unclear, text: &text, answer: None }).await? {
                    tracing::warn!(%error, "the room was not told that a call may have happened");
                }
                let result = ToolResult { arguments: given, ..ToolResult::failed(called, UNCLEAR) };
                return self.record_result(step, result, is_repeatable).await;
            }
            Recorded::Nothing | Recorded::Begun => {}
        }
        let is_there = tool.is_some();
        let mut result = match Box::pin(self.attempt(step, tool, arguments)).await {
            Ok(ToolOutput { text, is_said, is_private, values, data, providers }) => {
                let mut result = ToolResult::done(called, cut(&text, if is_said { MAX_ANSWER } else { MAX_RESULT }));
                (result.is_said, result.is_private) = (is_said, is_private);
                (result.values, result.data, result.providers) = (values, data, providers);
                result
            }
            Err(_) if known.is_some() => {
                // If the tool exists, it was called again, and says its texts again under the same steps.
                if !is_there {
                    self.say_again(step).await?;
                }
                // The room's message stays that of a success; only the model is told that the output is gone.
                ToolResult { text: Some(GONE.to_owned()), is_said: false, ..known.clone().unwrap_or_default() }
            }
            Err(error) => {
                let is_unclear = error.outcome() == Outcome::Unknown && !is_repeatable;
                let unclear = if is_unclear { "; it may have happened" } else { "" };
                ToolResult::failed(called, format!("{}{unclear}", cut(error.message(), MAX_RESULT)))
            }
        };
        result.arguments = given;
        result.text = result.text.filter(|text| !text.trim().is_empty());
        if known.is_some() {
            // So the room's message has the same text as before, which its key requires.
            result.is_private = true;
            return Ok(result);
        }
        self.record_result(step, result, is_repeatable).await
    }

    /// Records the result of a call in the journal, and returns it. If the tool is repeatable, a private result is recorded without its
    /// output. If the journal can't hold the result, the success and the beginning of the text are recorded and returned, since after a
    /// failure the model would call the tool again. A private result of a repeatable tool is returned whole even then.
    async fn record_result(&self, step: &str, result: ToolResult, is_repeatable: bool) -> Result<ToolResult> {
        let kept = if is_repeatable { Cow::Owned(result.shared()) } else { Cow::Borrowed(&result) };
        match self.journal.done(step, &kept).await {
            Ok(()) => Ok(result),
            Err(late) if late.kind() == ErrorKind::TooLarge => {
                let begins = |text: String| cut(&text, MAX_SMALL).into_owned();
                let ToolResult { tool, success, text, is_said, is_private, error, providers, .. } = kept.into_owned();
                let (text, error) = (text.map(begins), error.map(begins));
                let small =
                    ToolResult { tool, success, text, is_said, is_private, error, providers, ..ToolResult::default() };
                self.journal.done(step, &small).await?;
                // A private output is in no record, so the model can have all of it. Any other result is told as it is recorded.
                Ok(if is_repeatable && result.is_private { result } else { small })
            }
            Err(error) => Err(error),
        }
    }

    /// Delivers the texts that an earlier attempt of a call recorded and may not have delivered.
    async fn say_again(&mut self, step: &str) -> Result<()> {
        let steps = [unclear_step(step)].into_iter().filter(|step| self.journal.has(step));
        let sayings = (0..).map(|number| saying_step(step, number)).take_while(|step| self.journal.has(step));
        for step in steps.chain(sayings).collect::<Vec<_>>() {
            // The journal has the text. One that can't be said stays unsaid, as in the attempt.
            let _ = self.say(&Spoken { step: &step, text: "", answer: None }).await?;
        }
        Ok(())
    }

    /// Calls a tool, and says the texts that it passes to [`ToolContext::say`] while it works.
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
        let deadline = ends_after(limit);
        let cancellation = CancellationToken::new();
        let _cancelled_at_the_end = cancellation.clone().drop_guard();
        let (context, mut sayings) = ToolContext::new(
            self.turn.clone(),
            Arc::clone(&self.state),
            Arc::clone(&self.services),
            Arc::clone(self.services.model().unwrap_or(&self.service.large)),
            deadline,
            cancellation,
        );
        let late = || {
            let message = format!("no result within {} ms", limit.as_millis());
            Error::new(ErrorKind::Timeout, message).with_outcome(Outcome::Unknown)
        };
        let mut work = pin!(AssertUnwindSafe(async move { tool.call(arguments, context).await }).catch_unwind());
        let mut number = 0;
        loop {
            tokio::select! {
                biased;
                // The deadline is checked first, so that it also ends a tool that never stops saying texts.
                () = sleep_until(deadline) => return Err(late()),
                Some(saying) = sayings.recv() => {
                    let step = saying_step(step, number);
                    number += 1;
                    let spoken = Spoken { step: &step, text: &saying.text, answer: None };
                    // It has the deadline of the call, so that a platform or a ledger that hangs can't prolong the call.
                    let Ok(said) = timeout_at(deadline, self.say(&spoken)).await else {
                        self.journal.unclear(&step);
                        return Err(late());
                    };
                    // Fails if the tool no longer waits.
                    let _ = saying.said.send(said.flatten());
                }
                output = &mut work => {
                    let panicked = Error::new(ErrorKind::Unexpected, "the tool panicked");
                    return output.unwrap_or_else(|_| Err(panicked.with_outcome(Outcome::Unknown)));
                }
            }
        }
    }

    /// Finds the tool that a model means, among those that were offered and are still registered.
    fn tool(&self, name: &str) -> Option<Tool> {
        self.registered(self.offered(name)?.name())
    }

    fn registered(&self, name: &str) -> Option<Tool> {
        self.service.composer.services().tools().iter().find(|tool| tool.name() == name).cloned()
    }

    fn no_tool(&self) -> Error {
        let names: Vec<_> = self.tools.iter().map(Tool::name).filter(|name| self.registered(name).is_some()).collect();
        let message = match names.is_empty() {
            true => "there are no tools".to_owned(),
            false => format!("there is no tool of this name now; there are {}", names.join(", ")),
        };
        Error::new(ErrorKind::NotFound, message)
    }

    /// Stores the result of a step as a message of the agent, and adds it to the turn for the next steps.
    pub(super) async fn keep(&mut self, step: &str, result: ToolResult) -> Result<()> {
        let services = Arc::clone(&self.services);
        let text = if result.is_private && result.success { Cow::Borrowed(NOT_KEPT) } else { result.told() };
        let mut message = voice::reply(&services, &self.turn.message, text).with_run(self.run.context().id);
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let (before, plan) = (self.turn.actions.results.len(), self.turn.actions.plan.as_ref());
        let open = plan.map_or(0, |plan| plan.steps.len() - plan.steps_over());
        message.content.action_result = Some(records::ActionResult {
            run: self.run.context().id.to_string(),
            action: result.tool.clone(),
            status: if result.success { ActionStatus::Completed } else { ActionStatus::Failed },
            step: count(before + 1),
            steps: count(before + 1 + open),
            thought: self.kept_thought(&self.thought),
        });
        let step = format!("{step}.result");
        let stored = services.records().messages().add_keyed(message, self.journal.message(), &step).await;
        stored.inspect_err(|error| self.journal.note_failure(error))?;
        self.run.tap().result(&result);
        self.options = self.options.clone().and(result.providers.iter().map(String::as_str));
        self.change_actions(|actions| {
            if result.success && result.text.is_some() && !result.is_private {
                let text = result.told().into_owned();
                actions.working_memory.push(Note { key: result.tool.clone(), text });
                let old = actions.working_memory.len().saturating_sub(NOTES);
                actions.working_memory.drain(..old);
            }
            actions.results.push(result);
        });
        Ok(())
    }
}

/// Parses the arguments of a call. Arguments over the limit are removed from the call that goes back to the model.
fn arguments_of(call: &mut ToolCall) -> Result<Value> {
    if call.arguments.len() > MAX_ARGUMENTS {
        call.arguments = "{}".to_owned();
        return Err(Error::too_large(format!("the arguments have at most {MAX_ARGUMENTS} bytes")));
    }
    let text = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
    // The parser's own message may quote the text, so the error has only the position.
    serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        Error::invalid(format!("wrong arguments: not valid JSON at line {line} column {column}"))
    })
}

/// Formats a result for the model, as the reply to its call.
fn shown(result: &ToolResult) -> String {
    match (result.success, result.is_said) {
        (false, _) => format!("failed: {}", result.told()),
        (true, true) => format!("said to the user: {}", result.told()),
        (true, false) if result.told().is_empty() => "done".to_owned(),
        (true, false) => result.told().into_owned(),
    }
}

/// The name of the step in which a call says its text with this number.
fn saying_step(call: &str, number: usize) -> String {
    format!("{call}.say.{number}")
}

/// The name of the step in which the room is told that a call may have happened.
fn unclear_step(call: &str) -> String {
    format!("{call}.unclear")
}
