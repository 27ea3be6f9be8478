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
    /// Whether it is for this answer alone; see [`ToolOutput::private`].
    pub is_private: bool,
    /// For the templates of what the model is asked next.
    pub values: Values,
    /// For programs, in [`ToolResult::data`](crate::state::ToolResult::data).
    pub data: Values,
    /// See [`ToolOutput::with_providers`].
    pub providers: Vec<String>,
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

    /// Keeps it for this answer alone, as what those who are in the room now may know, and others may not: whoever comes later is shown that
    /// the tool was called, and not what it gave. Evaluators don't see it, and the room keeps no thoughts that came behind it. A run that
    /// goes on after a cut calls a [repeatable](super::Tool::repeatable) tool anew; what another one gave is kept with the message until its
    /// answer is given, and in the versions of the message where the ledger keeps a history. What is [said](Self::said) is in the room all the same, and so is why a tool failed.
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

    /// Has the model asked next, and from then on in this run, with what these providers know too: dynamic ones, as an answer in a form names
    /// them.
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
