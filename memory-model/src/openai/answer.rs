//! Parses the answer of an endpoint, whole or streamed.

use std::collections::HashSet;

use memory_core::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::endpoint::{refused, too_large, unexpected};
use crate::completion::{Completion, Finish, Usage};
use crate::tool::ToolCall;

/// The part of an answer that has arrived so far.
#[derive(Default)]
pub(super) struct Answer {
    text: String,
    calls: Vec<PartialCall>,
    finish: Option<Finish>,
    usage: Usage,
    /// Whether a part of a message has arrived.
    has_begun: bool,
    is_refusal: bool,
}

/// A tool call whose arguments may be incomplete.
struct PartialCall {
    index: Option<u64>,
    call: ToolCall,
}

/// The most bytes of text in an answer.
const MAX_TEXT_BYTES: usize = 16 << 20;
/// The most tool calls in an answer.
const MAX_CALLS: usize = 128;
/// The most bytes of one tool call.
const MAX_CALL_BYTES: usize = 1 << 20;

/// A whole answer, or the data of one event.
#[derive(Deserialize)]
struct Part {
    choices: Option<Vec<Choice>>,
    usage: Option<WireUsage>,
    error: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct WireError {
    code: u16,
}

#[derive(Deserialize)]
struct WireUsage {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
}

#[derive(Deserialize)]
struct Choice {
    /// In a whole answer.
    message: Option<Said>,
    /// In an event.
    delta: Option<Said>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Said {
    content: Option<String>,
    refusal: Option<String>,
    tool_calls: Option<Vec<WireCall>>,
}

#[derive(Deserialize)]
struct WireCall {
    index: Option<u64>,
    id: Option<String>,
    function: Option<Function>,
}

#[derive(Deserialize)]
struct Function {
    name: Option<String>,
    /// JSON in a string by the protocol; some endpoints write the object itself.
    arguments: Option<Box<RawValue>>,
}

impl Answer {
    /// Parses an answer that was not streamed.
    pub(super) fn whole(json: &[u8]) -> Result<Completion> {
        let mut answer = Self::default();
        answer.add(json)?;
        if !answer.has_begun {
            return Err(no_completion());
        }
        Ok(answer.into_completion())
    }

    /// Adds the data of one event, or a whole answer, and returns the text in it.
    pub(super) fn add(&mut self, json: &[u8]) -> Result<String> {
        let part: Part = serde_json::from_slice(json).map_err(|error| match error.is_eof() {
            true => cut(),
            false => no_completion(),
        })?;
        if let Some(error) = part.error {
            return Err(told(&error));
        }
        if let Some(usage) = part.usage {
            self.usage = Usage { input_tokens: usage.prompt_tokens, output_tokens: usage.completion_tokens };
        }
        let Some(choice) = part.choices.and_then(|choices| choices.into_iter().next()) else {
            return Ok(String::new());
        };
        self.has_begun |= choice.delta.is_some() || choice.message.is_some();
        match choice.finish_reason.as_deref() {
            None | Some("") => {}
            Some("error") => return Err(cut()),
            Some(reason) => self.finish = Some(finish(reason)),
        }
        match choice.delta.or(choice.message) {
            Some(said) => self.add_said(said),
            None => Ok(String::new()),
        }
    }

    /// Whether the endpoint has said why the answer ends. Only the usage comes after that.
    pub(super) fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// Marks an answer as complete at `[DONE]`, for endpoints that give no reason why it ends.
    pub(super) fn mark_end(&mut self) {
        if self.has_begun {
            self.finish.get_or_insert(Finish::Stop);
        }
    }

    /// Returns the answer at the end of the stream. Fails if the stream ended before the answer did.
    pub(super) fn end(self) -> Result<Completion> {
        match (self.is_finished(), self.has_begun) {
            (true, _) => Ok(self.into_completion()),
            (false, true) => Err(cut()),
            (false, false) => Err(no_completion()),
        }
    }

    fn into_completion(self) -> Completion {
        let mut ids = HashSet::new();
        let tool_calls: Vec<_> = self.calls.into_iter().map(|partial| named(partial.call, &mut ids)).collect();
        let finish = match self.finish {
            _ if self.is_refusal => Finish::Filtered,
            // Endpoints disagree on the reason for answers with tool calls.
            None | Some(Finish::Stop | Finish::ToolCalls) if tool_calls.is_empty() => Finish::Stop,
            None | Some(Finish::Stop | Finish::ToolCalls) => Finish::ToolCalls,
            Some(finish) => finish,
        };
        Completion { text: self.text, tool_calls, finish, usage: self.usage }
    }

    fn add_said(&mut self, said: Said) -> Result<String> {
        for call in said.tool_calls.unwrap_or_default() {
            self.add_call(call)?;
        }
        let mut text = said.content.unwrap_or_default();
        if let Some(refusal) = said.refusal.filter(|refusal| !refusal.is_empty()) {
            text.push_str(&refusal);
            self.is_refusal = true;
        }
        if self.text.len() + text.len() > MAX_TEXT_BYTES {
            return Err(too_large());
        }
        self.text.push_str(&text);
        Ok(text)
    }

    /// Appends a fragment to its call, or begins a new call. Fragments of a call have the same index and, if they repeat the id, the
    /// same id. Some endpoints give all calls the same index, or none.
    fn add_call(&mut self, wire: WireCall) -> Result<()> {
        let id = wire.id.unwrap_or_default();
        let last = self.calls.iter().rposition(|partial| wire.index.is_none() || partial.index == wire.index);
        let at = match last.filter(|at| id.is_empty() || self.calls[*at].call.id == id) {
            Some(at) => at,
            None if self.calls.len() == MAX_CALLS => {
                return Err(unexpected("the endpoint's answer has too many tool calls"));
            }
            None => {
                let call = ToolCall { id, name: String::new(), arguments: String::new() };
                self.calls.push(PartialCall { index: wire.index, call });
                self.calls.len() - 1
            }
        };
        let call = &mut self.calls[at].call;
        if let Some(function) = wire.function {
            // Some endpoints repeat the name in each fragment.
            if call.name.is_empty() {
                call.name = function.name.unwrap_or_default();
            }
            if let Some(arguments) = function.arguments {
                let text = serde_json::from_str::<String>(arguments.get());
                call.arguments.push_str(text.as_deref().unwrap_or(arguments.get()));
            }
        }
        if call.id.len() + call.name.len() + call.arguments.len() > MAX_CALL_BYTES {
            return Err(unexpected("a tool call in the endpoint's answer is too large"));
        }
        Ok(())
    }
}

/// Gives a call a unique id, and `{}` if it has no arguments.
fn named(mut call: ToolCall, ids: &mut HashSet<String>) -> ToolCall {
    while call.id.is_empty() || !ids.insert(call.id.clone()) {
        call.id = format!("call_{:016x}", fastrand::u64(..));
    }
    if call.arguments.trim().is_empty() {
        call.arguments = "{}".to_owned();
    }
    call
}

fn finish(reason: &str) -> Finish {
    match reason {
        "stop" => Finish::Stop,
        "tool_calls" | "function_call" => Finish::ToolCalls,
        "length" => Finish::Length,
        "content_filter" => Finish::Filtered,
        _ => Finish::Other,
    }
}

/// Maps an error object that an endpoint sends instead of an answer, by the status code in it if there is one.
fn told(error: &RawValue) -> Error {
    match serde_json::from_str(error.get()) {
        Ok(WireError { code: status @ 400..600 }) => refused(status),
        _ => Error::new(ErrorKind::Unavailable, "the endpoint answered with an error").retryable(),
    }
}

fn cut() -> Error {
    Error::new(ErrorKind::Unavailable, "the endpoint's answer ended in the middle").retryable()
}

fn no_completion() -> Error {
    unexpected("the endpoint's answer is no chat completion")
}
