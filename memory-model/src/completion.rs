//! The answer of a model.

use std::fmt;
use std::ops::AddAssign;

use crate::tool::ToolCall;

/// The whole answer of a model to one prompt.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Completion {
    /// The text; empty if the model only calls tools.
    pub text: String,
    /// The tool calls, in the order in which the model made them.
    pub tool_calls: Vec<ToolCall>,
    /// Why the answer ends.
    pub finish: Finish,
    /// The tokens that the call took.
    pub usage: Usage,
}

/// Why an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Finish {
    /// The model finished the answer.
    #[default]
    Stop,
    /// The model waits for the results of its tool calls.
    ToolCalls,
    /// The token limit cut the answer: the text, or the arguments of the last tool call, may be incomplete.
    Length,
    /// A content filter of the endpoint withheld the answer or the rest of it, or the model refused to answer.
    Filtered,
    /// A reason that only this endpoint has.
    Other,
}

/// The number of tokens that model calls took; 0 if the endpoint does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Tokens of the prompts.
    pub input_tokens: u64,
    /// Tokens of the answers.
    pub output_tokens: u64,
}

/// An item of a streamed answer.
#[derive(Clone, PartialEq, Eq)]
pub enum Delta {
    /// The next piece of text; never empty.
    Text(String),
    /// The whole answer, once, as the last item. Its text is the concatenation of all pieces.
    Done(Completion),
}

impl From<String> for Completion {
    /// Returns a finished answer with this text and unknown usage.
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl From<&str> for Completion {
    /// Returns a finished answer with this text and unknown usage.
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl AddAssign for Usage {
    /// Adds the counts; saturates at `u64::MAX`.
    fn add_assign(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
    }
}

impl fmt::Debug for Completion {
    /// Shows only the size of the text, so that payloads stay out of logs.
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
    /// Shows only the size of the text, so that payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "Text({} bytes)", text.len()),
            Self::Done(completion) => f.debug_tuple("Done").field(completion).finish(),
        }
    }
}
