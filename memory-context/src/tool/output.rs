//! The output of a tool.

use std::fmt;

use serde_json::Value;

use crate::state::Values;

/// The output of a [`Tool`](super::Tool): a text for the model and perhaps the user, values for templates, and data for programs.
#[derive(Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct ToolOutput {
    /// The text for the model, which sees the first 64 KiB. If the text is said, the user gets up to 256 KiB.
    pub text: String,
    /// Whether the agent says the text to the user, as soon as the tool has ended.
    pub is_said: bool,
    /// Whether the output is private to this answer; see [`ToolOutput::private`].
    pub is_private: bool,
    /// Values for the templates of the next prompts.
    pub values: Values,
    /// Data for programs, in [`ToolResult::data`](crate::state::ToolResult::data).
    pub data: Values,
    /// The providers that are added to the next prompts; see [`ToolOutput::with_providers`].
    pub providers: Vec<String>,
}

impl ToolOutput {
    /// Makes an output whose text only the model sees.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Makes an output whose text the agent says to the user; the model sees it, too.
    pub fn said(text: impl Into<String>) -> Self {
        Self { is_said: true, ..Self::new(text) }
    }

    /// Makes the output private to this answer. This is for what the people who are in the room now may know, and those who join it later
    /// may not.
    ///
    /// - The room keeps that the tool was called, but not its output, and no thoughts of the model after it. Evaluators don't see it.
    /// - A run that is recovered calls a [repeatable](super::Tool::repeatable) tool again. The output of any other tool is kept with the
    ///   message until the message is answered, and in the versions of the message if the ledger keeps a history.
    /// - A text that is [said](Self::said) is in the room nevertheless, and so is the reason of a failure.
    #[must_use]
    pub fn private(mut self) -> Self {
        self.is_private = true;
        self
    }

    /// Adds a value for templates.
    #[must_use]
    pub fn with_value(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.values.insert(name.into(), value.into());
        self
    }

    /// Adds these providers, usually dynamic ones, to the next prompts of this run, as if an answer in a form had named them.
    #[must_use]
    pub fn with_providers<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.providers.extend(names.into_iter().map(Into::into));
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
    /// Makes an output with the JSON as its text.
    fn from(value: Value) -> Self {
        Self::new(value.to_string())
    }
}

impl From<()> for ToolOutput {
    /// Makes an empty output.
    fn from((): ()) -> Self {
        Self::default()
    }
}

impl fmt::Debug for ToolOutput {
    /// Shows only the sizes, so that payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (text, values, data) = (self.text.len(), self.values.len(), self.data.len());
        write!(f, "ToolOutput({text} bytes, {values} values, {data} data)")
    }
}
