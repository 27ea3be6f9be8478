//! Evaluators, which look at a turn after the agent has acted.

use std::borrow::Cow;
use std::fmt;

use async_trait::async_trait;
use memory_core::Result;
use serde::{Deserialize, Serialize};

use super::{Cx, ExampleMessage, State};
use crate::records::Message;

/// Runs after a turn, for example to learn from it. Held as `Arc<dyn Evaluator>`.
///
/// ```
/// use async_trait::async_trait;
/// use memory_context::Result;
/// use memory_context::model::{ChatMessage, Prompt};
/// use memory_context::state::{Evaluation, Evaluator, EvaluatorInfo};
///
/// /// Has a model say what the conversation is about.
/// struct Topic(EvaluatorInfo);
///
/// #[async_trait]
/// impl Evaluator for Topic {
///     fn info(&self) -> &EvaluatorInfo {
///         &self.0
///     }
///
///     async fn evaluate(&self, evaluation: &Evaluation<'_>) -> Result<()> {
///         let Some(model) = evaluation.cx.services().small_model() else { return Ok(()) };
///         let question = format!("In one word, what is this about?\n\n{}", evaluation.state.text);
///         let prompt = Prompt { messages: vec![ChatMessage::user(question)], ..Prompt::default() };
///         evaluation.say(&model.complete(&prompt).await?.text).await.map(drop)
///     }
/// }
/// ```
#[async_trait]
pub trait Evaluator: Send + Sync + 'static {
    /// The name and properties; the same in every call.
    fn info(&self) -> &EvaluatorInfo;

    /// Whether the evaluator wants to run for this turn; `true` by default.
    async fn validate(&self, _: &Cx<'_>) -> Result<bool> {
        Ok(true)
    }

    /// Runs the evaluator.
    async fn evaluate(&self, evaluation: &Evaluation<'_>) -> Result<()>;
}

impl fmt::Debug for dyn Evaluator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Evaluator({})", self.info().name)
    }
}

/// The input of an [`Evaluator`].
#[derive(Clone, Copy)]
pub struct Evaluation<'a> {
    /// The turn, with the results of its actions, and the services.
    pub cx: &'a Cx<'a>,
    /// The present state, from the default providers and those that a reflection needs.
    pub state: &'a State,
    /// The messages that the agent said in the turn and the results of its actions, oldest first, up to about 70. Empty if the agent did
    /// not answer, or if they can't be read.
    pub responses: &'a [Message],
    /// Whether the agent answered.
    pub has_answered: bool,
    /// Says messages for the evaluator; see [`Evaluation::say`].
    pub voice: &'a dyn Voice,
}

impl Evaluation<'_> {
    /// Says a text in the room of the message, as a reply to it. The text is stored first and then said. It is part of the answer if the
    /// evaluator is [awaited](EvaluatorInfo::is_awaited). Fails with the error of the platform or the engine.
    pub async fn say(&self, text: &str) -> Result<Message> {
        self.voice.say(text).await
    }
}

/// Says messages on behalf of the agent.
#[async_trait]
pub trait Voice: Send + Sync {
    /// Says a text, and returns the message as it was stored.
    async fn say(&self, text: &str) -> Result<Message>;
}

impl fmt::Debug for Evaluation<'_> {
    /// Shows only the number of responses, so that payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Evaluation({} responses, answered: {})", self.responses.len(), self.has_answered)
    }
}

/// The name and properties of an [`Evaluator`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EvaluatorInfo {
    /// The name, not empty and unique among all evaluators.
    pub name: Cow<'static, str>,
    /// A description of what it does.
    pub description: Cow<'static, str>,
    /// Whether it also runs if the agent ignored the message.
    pub always_run: bool,
    /// Whether the answer waits for the evaluator, so that its messages are part of the answer. The messages of other evaluators are
    /// delivered only by the platform.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_awaited: bool,
    /// Examples of its input and outcome.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<EvaluatorExample>,
}

impl EvaluatorInfo {
    /// Makes the properties of an evaluator without examples that runs only if the agent answered and that the answer does not wait for.
    pub fn new(name: impl Into<Cow<'static, str>>, description: impl Into<Cow<'static, str>>) -> Self {
        let (name, description) = (name.into(), description.into());
        Self { name, description, always_run: false, is_awaited: false, examples: Vec::new() }
    }
}

/// An example of an evaluator's input and outcome.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EvaluatorExample {
    /// The situation before the conversation.
    pub prompt: String,
    /// The conversation.
    pub messages: Vec<ExampleMessage>,
    /// The outcome of the evaluator.
    pub outcome: String,
}
