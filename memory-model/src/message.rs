//! The messages of a conversation with a model.

use std::fmt;

use crate::attachment::PromptAttachment;
use crate::tool::ToolCall;

/// One message of a conversation with a model.
#[derive(Clone, PartialEq, Eq)]
pub struct ChatMessage {
    /// Whose it is.
    pub role: Role,
    /// Its text; may be empty where there are attachments or tool calls.
    pub content: String,
    /// The images and documents that the model sees behind the text.
    pub attachments: Vec<PromptAttachment>,
    /// The tools that the model called with this message. Each needs a [`ChatMessage::tool`] with its id behind it.
    pub tool_calls: Vec<ToolCall>,
    /// The call that this message answers, where it has the role [`Role::Tool`].
    pub tool_call_id: Option<String>,
}

/// Whose message it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The host's, with instructions.
    System,
    /// The user's.
    User,
    /// The model's.
    Assistant,
    /// A tool's, with the result of a call.
    Tool,
}

impl ChatMessage {
    /// Instructions.
    pub fn system(content: impl Into<String>) -> Self {
        Self::new(Role::System, content)
    }

    /// What is asked.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new(Role::User, content)
    }

    /// What the model answered.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self::new(Role::Assistant, content)
    }

    /// The result of the tool call with this id.
    pub fn tool(call_id: impl Into<String>, content: impl Into<String>) -> Self {
        Self { tool_call_id: Some(call_id.into()), ..Self::new(Role::Tool, content) }
    }

    /// Adds an attachment behind those that it has.
    #[must_use]
    pub fn with_attachment(mut self, attachment: PromptAttachment) -> Self {
        self.attachments.push(attachment);
        self
    }

    /// Replaces its tool calls.
    #[must_use]
    pub fn with_tool_calls(mut self, calls: Vec<ToolCall>) -> Self {
        self.tool_calls = calls;
        self
    }

    fn new(role: Role, content: impl Into<String>) -> Self {
        let content = content.into();
        Self { role, content, attachments: Vec::new(), tool_calls: Vec::new(), tool_call_id: None }
    }
}

impl fmt::Debug for ChatMessage {
    /// Payloads stay out of logs: only sizes show.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChatMessage({:?}, {} bytes", self.role, self.content.len())?;
        for (count, what) in [(self.attachments.len(), "attachments"), (self.tool_calls.len(), "tool calls")] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        f.write_str(")")
    }
}
