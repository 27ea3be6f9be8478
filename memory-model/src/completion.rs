//! What a model answers.

use std::fmt;
use std::ops::AddAssign;

use crate::tool::ToolCall;

/// The whole answer of a model to one prompt.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Completion {
    /// What it says; empty where it only calls tools.
    pub text: String,
    /// The tools that it calls, in its order.
    pub tool_calls: Vec<ToolCall>,
    /// Why it ends here.
    pub finish: Finish,
    /// What it cost.
    pub usage: Usage,
}

/// Why an answer ends where it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Finish {
    /// The model had said all.
    #[default]
    Stop,
    /// The model waits for the results of its tool calls.
    ToolCalls,
    /// The limit of tokens cut it: the text, or the arguments of the last tool call, may be incomplete.
    Length,
    /// A filter of the endpoint withheld the answer or the rest of it, or the model refused.
    Filtered,
    /// Another reason, which the endpoint has for itself.
    Other,
}

/// How many tokens calls of a model took; 0 where the endpoint does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// The tokens of prompts.
    pub input_tokens: u64,
    /// The tokens of answers.
    pub output_tokens: u64,
}

/// A piece of an answer that is streamed.
#[derive(Clone, PartialEq, Eq)]
pub enum Delta {
    /// The text that follows what came before it; never empty.
    Text(String),
    /// The whole answer, once and at the end. Its text is that of all pieces together.
    Done(Completion),
}

impl From<String> for Completion {
    /// A text that is whole, of unknown usage.
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl From<&str> for Completion {
    /// A text that is whole, of unknown usage.
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl AddAssign for Usage {
    /// Adds up, to `u64::MAX` at most.
    fn add_assign(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
    }
}

impl fmt::Debug for Completion {
    /// Payloads stay out of logs: of the text only the size shows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion")
            .field("text_bytes", &self.text.len())
            .field("tool_calls", &self.tool_calls)
            .field("finish", &self.finish)
            .field("usage", &self.usage)
            .finish()
    }
}

impl fmt::Debug for Delta {
    /// Payloads stay out of logs: of the text only the size shows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "Text({} bytes)", text.len()),
            Self::Done(completion) => f.debug_tuple("Done").field(completion).finish(),
        }
    }
}
