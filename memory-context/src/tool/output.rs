//! What a tool gives back.

use std::fmt;

use serde_json::Value;

use crate::state::Values;

/// What a [`Tool`](super::Tool) gives back: a text for the model, and perhaps for the user, values for templates, data for programs.
#[derive(Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct ToolOutput {
    /// For the model, which is shown the first 64 KiB. Of a text that is said, the user hears up to 256 KiB.
    pub text: String,
    /// Whether the agent says the text to the user, as soon as the tool is over.
    pub is_said: bool,
    /// For the templates of what the model is asked next.
    pub values: Values,
    /// For programs, in [`ToolResult::data`](crate::state::ToolResult::data).
    pub data: Values,
}

impl ToolOutput {
    /// A text for the model alone.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A text that the agent says to the user, and that the model sees too.
    pub fn said(text: impl Into<String>) -> Self {
        Self { is_said: true, ..Self::new(text) }
    }

    /// Adds a value for templates.
    #[must_use]
    pub fn with_value(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.values.insert(name.into(), value.into());
        self
    }

    /// Adds data for programs.
    #[must_use]
    pub fn with_data(mut self, name: impl Into<String>, data: impl Into<Value>) -> Self {
        self.data.insert(name.into(), data.into());
        self
    }
}

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for ToolOutput {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<Value> for ToolOutput {
    /// The model sees the JSON.
    fn from(value: Value) -> Self {
        Self::new(value.to_string())
    }
}

impl From<()> for ToolOutput {
    /// Done, with nothing to tell.
    fn from((): ()) -> Self {
        Self::default()
    }
}

impl fmt::Debug for ToolOutput {
    /// Payloads stay out of logs: only the sizes show.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (text, values, data) = (self.text.len(), self.values.len(), self.data.len());
        write!(f, "ToolOutput({text} bytes, {values} values, {data} data)")
    }
}
