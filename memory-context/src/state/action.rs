//! The actions and tool results of a turn.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Values;

/// One message of an example conversation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExampleMessage {
    /// The speaker; `{{name1}}`, `{{name2}}` and so on are placeholders for people.
    pub name: String,
    /// The text of the message.
    pub text: String,
    /// The actions that go with the text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<String>,
}

/// The actions of the agent in a turn so far. It is passed along with the turn, so turns share no state.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ActionState {
    /// The results of the tool calls, in their order.
    pub results: Vec<ToolResult>,
    /// The plan, if it has more than one action.
    pub plan: Option<ActionPlan>,
    /// Notes for later actions, oldest first: the texts of the last results that are not private.
    pub working_memory: Vec<Note>,
}

impl ActionState {
    /// Marks a step of the plan as completed or failed, if there is a plan.
    pub(crate) fn end_step(&mut self, at: usize, success: bool) {
        if let Some(step) = self.plan.as_mut().and_then(|plan| plan.steps.get_mut(at)) {
            step.status = if success { StepStatus::Completed } else { StepStatus::Failed };
        }
    }

    /// Whether a result is private.
    pub(crate) fn has_private(&self) -> bool {
        self.results.iter().any(|result| result.is_private)
    }

    /// Returns a copy without the outputs of private results, and without the plan's thought if there are any.
    pub(crate) fn shared(&self) -> Self {
        let mut shared = Self { results: self.results.iter().map(ToolResult::shared).collect(), ..self.clone() };
        if let Some(plan) = shared.plan.as_mut().filter(|_| self.has_private()) {
            plan.thought.clear();
        }
        shared
    }
}

/// The most bytes of a tool's result that a model is shown.
pub const MAX_RESULT: usize = 64 << 10;

/// The result of a tool call.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ToolResult {
    /// The name of the tool; if there is no such tool, what the model wrote.
    pub tool: String,
    /// The arguments of the call; null if they were not JSON.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub arguments: Value,
    /// Whether the call succeeded.
    pub success: bool,
    /// The output: up to 256 KiB if it was said, otherwise what the model was shown; `None` if it is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Whether the agent said the text to the user.
    pub is_said: bool,
    /// Whether the text is private to this answer; see [`ToolOutput::private`](crate::tool::ToolOutput::private).
    pub is_private: bool,
    /// Values for templates.
    #[serde(skip_serializing_if = "Values::is_empty")]
    pub values: Values,
    /// Data for programs.
    #[serde(skip_serializing_if = "Values::is_empty")]
    pub data: Values,
    /// The providers that are added to the next prompts; see
    /// [`ToolOutput::with_providers`](crate::tool::ToolOutput::with_providers).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub providers: Vec<String>,
    /// The reason of a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl ToolResult {
    /// Makes the result of a successful call.
    pub fn done(tool: impl Into<String>, text: impl Into<String>) -> Self {
        Self { tool: tool.into(), success: true, text: Some(text.into()), ..Self::default() }
    }

    /// Makes the result of a failed call.
    pub fn failed(tool: impl Into<String>, error: impl Into<String>) -> Self {
        Self { tool: tool.into(), error: Some(error.into()), ..Self::default() }
    }

    /// Returns a copy without the output, if that is private.
    pub(crate) fn shared(&self) -> Self {
        let mut shared = self.clone();
        if self.is_private {
            (shared.text, shared.values, shared.data) = (None, Values::default(), Values::default());
        }
        shared
    }

    /// What the model is shown: the text or the reason of the failure, up to [`MAX_RESULT`].
    pub(crate) fn told(&self) -> Cow<'_, str> {
        let told = self.error.as_ref().or(self.text.as_ref()).map_or("", String::as_str);
        // Only a text that is said can be longer: any other text was cut when the result was made.
        if self.is_said { cut(told, MAX_RESULT) } else { Cow::Borrowed(told) }
    }
}

/// Cuts a text to a number of bytes, and appends a line with the number of bytes that are missing.
pub(crate) fn cut(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return Cow::Borrowed(text);
    }
    let kept = text.floor_char_boundary(limit);
    Cow::Owned(format!("{}\n[{} bytes more]", &text[..kept], text.len() - kept))
}

impl fmt::Debug for ToolResult {
    /// Shows only the success: payloads stay out of logs, and the name may be what a model wrote.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ToolResult({})", if self.success { "done" } else { "failed" })
    }
}

/// A plan of actions to run one after the other.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ActionPlan {
    /// The reason for the plan.
    pub thought: String,
    /// The steps, in the order in which they run.
    pub steps: Vec<PlanStep>,
}

/// One action of a plan.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanStep {
    /// The name of the action.
    pub action: String,
    /// The progress of the step.
    #[serde(default)]
    pub status: StepStatus,
}

/// The progress of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StepStatus {
    /// The step has not run yet.
    #[default]
    Pending,
    /// The step succeeded.
    Completed,
    /// The step failed.
    Failed,
}

impl ActionPlan {
    /// The number of steps that succeeded or failed.
    pub fn steps_over(&self) -> usize {
        self.steps.iter().filter(|step| step.status != StepStatus::Pending).count()
    }
}

impl fmt::Debug for ActionPlan {
    /// Shows only the steps, so that payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ActionPlan({:?})", self.steps)
    }
}

impl fmt::Debug for PlanStep {
    /// Shows only the status, since the name may be what a model wrote.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PlanStep({:?})", self.status)
    }
}

/// A note of an action for later actions.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Note {
    /// The name of the action, or another key.
    pub key: String,
    /// The text of the note.
    pub text: String,
}

impl fmt::Debug for Note {
    /// Shows only the size, so that payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Note({} bytes)", self.text.len())
    }
}
