//! The messages of a conversation with a model.

use std::fmt;

use crate::attachment::PromptAttachment;
use crate::tool::ToolCall;

/// One message of a conversation with a model.
#[derive(Clone, PartialEq, Eq)]
pub struct ChatMessage {
    /// The author of the message.
    pub role: Role,
    /// The text; may be empty if there are attachments or tool calls.
    pub content: String,
    /// The images and documents that follow the text.
    pub attachments: Vec<PromptAttachment>,
    /// The tool calls of the model. Each must be followed by a [`ChatMessage::tool`] with the same id.
    pub tool_calls: Vec<ToolCall>,
    /// The id of the tool call whose result this message holds, for the role [`Role::Tool`].
    pub tool_call_id: Option<String>,
}

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The host, which gives instructions.
    System,
    /// The person who talks to the model.
    User,
    /// The model itself.
    Assistant,
    /// A tool, with the result of a call.
    Tool,
}

impl ChatMessage {
    /// Returns a message with instructions of the host.
    pub fn system(content: impl Into<String>) -> Self {
        Self::new(Role::System, content)
    }

    /// Returns a message of the user.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new(Role::User, content)
    }

    /// Returns a message that the model wrote.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self::new(Role::Assistant, content)
    }

    /// Returns a message with the result of the tool call with this id.
    pub fn tool(call_id: impl Into<String>, content: impl Into<String>) -> Self {
        Self { tool_call_id: Some(call_id.into()), ..Self::new(Role::Tool, content) }
    }

    /// Appends an attachment.
    #[must_use]
    pub fn with_attachment(mut self, attachment: PromptAttachment) -> Self {
        self.attachments.push(attachment);
        self
    }

    /// Replaces the tool calls.
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
    /// Shows the role and the sizes, so that payloads stay out of logs.
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
