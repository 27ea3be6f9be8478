//! What an agent did about a message.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Values;

/// One message of an example.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExampleMessage {
    /// Who says it; `{{name1}}`, `{{name2}}` and so on stand for people.
    pub name: String,
    /// What is said.
    pub text: String,
    /// What is done besides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<String>,
}

/// What an agent did in a turn so far. It goes in as an argument: no state is shared between turns.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ActionState {
    /// What came of the tools that were called, in their order.
    pub results: Vec<ToolResult>,
    /// What was planned, where that is more than one action.
    pub plan: Option<ActionPlan>,
    /// What actions noted for those after them, oldest first.
    pub working_memory: Vec<Note>,
}

impl ActionState {
    /// Marks a step of the plan, if there is one.
    pub(crate) fn end_step(&mut self, at: usize, success: bool) {
        if let Some(step) = self.plan.as_mut().and_then(|plan| plan.steps.get_mut(at)) {
            step.status = if success { StepStatus::Completed } else { StepStatus::Failed };
        }
    }

    /// Whether what was done has brought something that is for one answer alone.
    pub(crate) fn has_private(&self) -> bool {
        self.results.iter().any(|result| result.is_private)
    }

    /// What others than the one answer may see.
    pub(crate) fn shared(&self) -> Self {
        let mut shared = Self { results: self.results.iter().map(ToolResult::shared).collect(), ..self.clone() };
        if let Some(plan) = shared.plan.as_mut().filter(|_| self.has_private()) {
            plan.thought.clear();
        }
        shared
    }
}

/// How much of a tool's result a model is shown, in bytes.
pub const MAX_RESULT: usize = 64 << 10;

/// What came of a call of a tool.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ToolResult {
    /// The name of the tool; what the model wrote where no tool has it.
    pub tool: String,
    /// What it was called with, as far as that is JSON.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub arguments: Value,
    /// Whether it did what it should.
    pub success: bool,
    /// What it gave back: up to 256 KiB where that was said, else what the model was shown; absent where it is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Whether the agent said the text to the user.
    pub is_said: bool,
    /// Whether the text is for this answer alone; see [`ToolOutput::private`](crate::tool::ToolOutput::private).
    pub is_private: bool,
    /// For templates.
    #[serde(skip_serializing_if = "Values::is_empty")]
    pub values: Values,
    /// For programs.
    #[serde(skip_serializing_if = "Values::is_empty")]
    pub data: Values,
    /// The providers that it has the model asked with; see [`ToolOutput::with_providers`](crate::tool::ToolOutput::with_providers).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub providers: Vec<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl ToolResult {
    /// The result of a call that did what it should.
    pub fn done(tool: impl Into<String>, text: impl Into<String>) -> Self {
        Self { tool: tool.into(), success: true, text: Some(text.into()), ..Self::default() }
    }

    /// The result of a call that failed.
    pub fn failed(tool: impl Into<String>, error: impl Into<String>) -> Self {
        Self { tool: tool.into(), error: Some(error.into()), ..Self::default() }
    }

    /// The same without what is for one answer alone.
    pub(crate) fn shared(&self) -> Self {
        let mut shared = self.clone();
        if self.is_private {
            (shared.text, shared.values, shared.data) = (None, Values::default(), Values::default());
        }
        shared
    }

    /// What the model is told: the text or why it failed, up to [`MAX_RESULT`].
    pub(crate) fn told(&self) -> Cow<'_, str> {
        let told = self.error.as_ref().or(self.text.as_ref()).map_or("", String::as_str);
        // One that is not said was cut when it was made.
        if self.is_said { cut(told, MAX_RESULT) } else { Cow::Borrowed(told) }
    }
}

/// A text without what is beyond a number of bytes, which is told instead.
pub(crate) fn cut(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return Cow::Borrowed(text);
    }
    let kept = text.floor_char_boundary(limit);
    Cow::Owned(format!("{}\n[{} bytes more]", &text[..kept], text.len() - kept))
}

impl fmt::Debug for ToolResult {
    /// Payloads stay out of logs, and the name may be what a model wrote: only the success shows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ToolResult({})", if self.success { "done" } else { "failed" })
    }
}

/// Actions that are to be done one after the other.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ActionPlan {
    /// Why.
    pub thought: String,
    /// In their order.
    pub steps: Vec<PlanStep>,
}

/// One action of a plan.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanStep {
    /// The name of the action.
    pub action: String,
    /// How far it is.
    #[serde(default)]
    pub status: StepStatus,
}

/// How far a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StepStatus {
    /// It was not done yet.
    #[default]
    Pending,
    /// It is done.
    Completed,
    /// It failed.
    Failed,
}

impl ActionPlan {
    /// How many steps are over.
    pub fn steps_over(&self) -> usize {
        self.steps.iter().filter(|step| step.status != StepStatus::Pending).count()
    }
}

impl fmt::Debug for ActionPlan {
    /// Payloads stay out of logs: only the steps show.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ActionPlan({:?})", self.steps)
    }
}

impl fmt::Debug for PlanStep {
    /// The name may be what a model wrote: only the status shows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PlanStep({:?})", self.status)
    }
}

/// What an action noted for those after it.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Note {
    /// Whose it is: the name of the action, or a key.
    pub key: String,
    /// What it says.
    pub text: String,
}

impl fmt::Debug for Note {
    /// Payloads stay out of logs: only the size shows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Note({} bytes)", self.text.len())
    }
}
