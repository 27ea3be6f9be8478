//! Looking at what an agent did.

use std::borrow::Cow;
use std::fmt;

use async_trait::async_trait;
use memory_core::Result;
use serde::{Deserialize, Serialize};

use super::{Cx, ExampleMessage, State};
use crate::records::Message;

/// Looks at what an agent did, held as `Arc<dyn Evaluator>`.
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
    /// What it is called, and what it does. The same at every call.
    fn info(&self) -> &EvaluatorInfo;

    /// Whether it has something to do in this turn; always, unless it says something else.
    async fn validate(&self, _: &Cx<'_>) -> Result<bool> {
        Ok(true)
    }

    /// Does it.
    async fn evaluate(&self, evaluation: &Evaluation<'_>) -> Result<()>;
}

impl fmt::Debug for dyn Evaluator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Evaluator({})", self.info().name)
    }
}

/// What an [`Evaluator`] looks at.
#[derive(Clone, Copy)]
pub struct Evaluation<'a> {
    /// The turn, with the results of its actions, and the services.
    pub cx: &'a Cx<'a>,
    /// What the agent knows now, from the default providers and those that a reflection needs.
    pub state: &'a State,
    /// What the agent said in the turn, and what its actions told, oldest first; empty where it did not answer.
    pub responses: &'a [Message],
    /// Whether it answered.
    pub has_answered: bool,
    /// How to say something.
    pub voice: &'a dyn Voice,
}

impl Evaluation<'_> {
    /// Says something in the room of the message, in answer to it: stored first, then said. Whoever asked hears it where the evaluator is
    /// awaited. What the platform or the engine answers.
    pub async fn say(&self, text: &str) -> Result<Message> {
        self.voice.say(text).await
    }
}

/// Says something on behalf of the agent.
#[async_trait]
pub trait Voice: Send + Sync {
    /// Says a text; gives the message as it is stored.
    async fn say(&self, text: &str) -> Result<Message>;
}

impl fmt::Debug for Evaluation<'_> {
    /// Payloads stay out of logs: only the number of responses shows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Evaluation({} responses, answered: {})", self.responses.len(), self.has_answered)
    }
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
    /// Whether whoever asked waits for it, so that what it says is part of the answer. What others say is heard from the platform alone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_awaited: bool,
    /// What it made of what.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<EvaluatorExample>,
}

impl EvaluatorInfo {
    /// An evaluator without examples, for turns in which the agent answered, that nobody waits for.
    pub fn new(name: impl Into<Cow<'static, str>>, description: impl Into<Cow<'static, str>>) -> Self {
        let (name, description) = (name.into(), description.into());
        Self { name, description, always_run: false, is_awaited: false, examples: Vec::new() }
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
