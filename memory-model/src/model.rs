//! The trait that a language model implements.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::Result;

use crate::message::Message;
use crate::schema::Schema;

/// A language model, held as `Arc<dyn Model>`.
#[async_trait]
pub trait Model: fmt::Debug + Send + Sync + 'static {
    /// Answers a prompt with a text. Where the prompt has a schema, the model should be held to it as far as it can be;
    /// what it answers is checked by [`structured`](crate::structured) all the same.
    ///
    /// `Unavailable` and `Timeout` say that the same call may succeed later; `Unauthorized` that the credentials are
    /// refused. No error quotes a prompt or an answer.
    async fn complete(&self, prompt: &Prompt) -> Result<String>;
}

/// What a model is asked.
#[derive(Debug, Clone, Default)]
pub struct Prompt {
    /// The conversation so far, oldest first.
    pub messages: Vec<Message>,
    /// What the answer has to satisfy, if it is to be JSON.
    pub schema: Option<Arc<Schema>>,
}
