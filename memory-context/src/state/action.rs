//! What an agent can do about a message, and what came of it.

use std::borrow::Cow;
use std::fmt;

use async_trait::async_trait;
use memory_core::Result;
use serde::{Deserialize, Serialize};

use super::{Cx, State, Values};

/// Something that an agent can do, held as `Arc<dyn Action>`.
#[async_trait]
pub trait Action: fmt::Debug + Send + Sync + 'static {
    /// What it is called, and when to do it. The same at every call.
    fn info(&self) -> &ActionInfo;

    /// Whether it can be done in this turn. An action whose check fails is not offered.
    async fn validate(&self, cx: &Cx<'_>) -> Result<bool>;

    /// Does it.
    ///
    /// Dropping the future ends it. An error is a result that failed, as one that says so itself.
    async fn run(&self, call: &ActionCall<'_>) -> Result<ActionResult>;
}

/// What an action is called with.
#[derive(Debug)]
#[non_exhaustive]
pub struct ActionCall<'a> {
    /// The turn, with the results of the actions before, and the services.
    pub cx: &'a Cx<'a>,
    /// What the agent knew when it decided.
    pub state: &'a State,
    /// What the model wants of it.
    pub parameters: &'a Values,
}

impl<'a> ActionCall<'a> {
    /// A call.
    pub fn new(cx: &'a Cx<'a>, state: &'a State, parameters: &'a Values) -> Self {
        Self { cx, state, parameters }
    }
}

/// What an [`Action`] is called, and when to do it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ActionInfo {
    /// Unique among all actions; never empty.
    pub name: Cow<'static, str>,
    /// When to do it and what it does, for a model that has to choose.
    pub description: Cow<'static, str>,
    /// Other names that a model may give it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub similes: Vec<String>,
    /// What it can be told: names and what they mean.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<(String, String)>,
    /// Whether it may be done again where nobody knows if it was done: where the process died in the midst of it, say.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub repeatable: bool,
    /// Conversations in which it is done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<Vec<ExampleMessage>>,
}

impl ActionInfo {
    /// An action without similes, parameters and examples that is not to be repeated.
    pub fn new(name: impl Into<Cow<'static, str>>, description: impl Into<Cow<'static, str>>) -> Self {
        let (name, description) = (name.into(), description.into());
        Self { name, description, similes: Vec::new(), parameters: Vec::new(), repeatable: false, examples: Vec::new() }
    }
}

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

/// Looks at what an agent did, held as `Arc<dyn Evaluator>`.
#[async_trait]
pub trait Evaluator: fmt::Debug + Send + Sync + 'static {
    /// What it is called, and what it does. The same at every call.
    fn info(&self) -> &EvaluatorInfo;

    /// Whether it has something to do in this turn.
    async fn validate(&self, cx: &Cx<'_>) -> Result<bool>;

    /// Does it.
    async fn evaluate(&self, cx: &Cx<'_>, state: &State) -> Result<()>;
}

/// What an [`Evaluator`] is called, and what it does.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EvaluatorInfo {
    /// Unique among all evaluators; never empty.
    pub name: Cow<'static, str>,
    /// What it does.
    pub description: Cow<'static, str>,
    /// Whether it also runs when the agent did not answer.
    pub always_run: bool,
    /// What it made of what.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<EvaluatorExample>,
}

impl EvaluatorInfo {
    /// An evaluator without examples, for turns in which the agent answered.
    pub fn new(name: impl Into<Cow<'static, str>>, description: impl Into<Cow<'static, str>>) -> Self {
        Self { name: name.into(), description: description.into(), always_run: false, examples: Vec::new() }
    }
}

/// What an evaluator made of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EvaluatorExample {
    /// What was known before.
    pub prompt: String,
    /// What was said.
    pub messages: Vec<ExampleMessage>,
    /// What came of it.
    pub outcome: String,
}

/// What an agent did in a turn so far. It goes in as an argument: no state is shared between turns.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ActionState {
    /// What came of the actions that are done, in their order.
    pub results: Vec<ActionResult>,
    /// What was planned, where that is more than one action.
    pub plan: Option<ActionPlan>,
    /// What actions noted for those after them, oldest first.
    pub working_memory: Vec<Note>,
}

/// What came of an action.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ActionResult {
    /// The name of the action.
    pub action: String,
    /// Whether it did what it should.
    pub success: bool,
    /// What it says about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// For templates.
    #[serde(skip_serializing_if = "Values::is_empty")]
    pub values: Values,
    /// For programs.
    #[serde(skip_serializing_if = "Values::is_empty")]
    pub data: Values,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl ActionResult {
    /// One that did what it should.
    pub fn done(action: impl Into<String>, text: impl Into<String>) -> Self {
        Self { action: action.into(), success: true, text: Some(text.into()), ..Self::default() }
    }

    /// One that failed.
    pub fn failed(action: impl Into<String>, error: impl Into<String>) -> Self {
        Self { action: action.into(), error: Some(error.into()), ..Self::default() }
    }
}

impl fmt::Debug for ActionResult {
    /// Payloads stay out of logs, and the name may be what a model wrote: only the success shows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ActionResult({})", if self.success { "done" } else { "failed" })
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
