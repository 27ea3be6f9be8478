//! The answer to a message, whole and in pieces.

use std::fmt;

use memory_core::MemoryId;
use memory_model::Usage;

use super::{End, Why};
use crate::records::Message;
use crate::state::ToolResult;

/// The separator between two messages in the text of an answer.
pub(super) const BETWEEN: &str = "\n\n";

/// The answer to a message.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Answer {
    /// Everything that the agent said, in order, with an empty line between messages; empty if it said nothing.
    pub text: String,
    /// The messages that the agent said, as they were stored.
    pub said: Vec<Message>,
    /// The results of the tool calls, in their order.
    pub results: Vec<ToolResult>,
    /// The tokens of all model calls, as far as the models report them.
    pub usage: Usage,
    /// The id of the run, which the metadata of its messages and the events have, too.
    pub run: MemoryId,
    /// The id of the stored message that was answered; `None` if none was stored.
    pub message: Option<MemoryId>,
    /// How the run ended.
    pub end: End,
}

impl Answer {
    /// Makes the answer to a message without a run; its run id belongs to no run.
    pub(crate) fn ignored(why: Why) -> Self {
        Self {
            text: String::new(),
            said: Vec::new(),
            results: Vec::new(),
            usage: Usage::default(),
            run: MemoryId::generate(),
            message: None,
            end: End::Ignored(why),
        }
    }
}

/// A piece of a streamed answer.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum Piece {
    /// The next piece of text; never empty. All pieces together are the text of the answer, with two exceptions: the run may end before the
    /// text is said; and if an invalid answer was streamed and the model was asked again, the invalid text comes first, with an empty line
    /// behind it.
    Text(String),
    /// The result of a tool call, when it has ended.
    Result(ToolResult),
    /// The whole answer, once, as the last piece.
    Answer(Answer),
}

impl fmt::Debug for Answer {
    /// Shows only the sizes, so that payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer")
            .field("text_bytes", &self.text.len())
            .field("said", &self.said.len())
            .field("results", &self.results)
            .field("usage", &self.usage)
            .field("run", &self.run)
            .field("end", &self.end)
            .finish()
    }
}

impl fmt::Debug for Piece {
    /// Shows only the size of the text, so that payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "Text({} bytes)", text.len()),
            Self::Result(result) => f.debug_tuple("Result").field(result).finish(),
            Self::Answer(answer) => f.debug_tuple("Answer").field(answer).finish(),
        }
    }
}
