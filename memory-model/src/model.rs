//! The trait that a language model implements.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt};
use memory_core::Result;

use crate::completion::{Completion, Delta};
use crate::message::ChatMessage;
use crate::modalities::Modalities;
use crate::schema::Schema;
use crate::tool::ToolSpec;

/// A language model, held as `Arc<dyn Model>`.
#[async_trait]
pub trait Model: Send + Sync + 'static {
    /// Answers a prompt.
    ///
    /// # Behavior
    /// - Where the prompt has a schema, the model should be held to it as far as it can be; what it answers is checked by
    ///   [`structured`](crate::structured) all the same. A model without tool calls answers in text.
    /// - A retryable error (`Unavailable`, `Timeout`) says that the same call may succeed later; `Unauthorized` that the
    ///   credentials are refused. No error quotes a prompt or an answer.
    /// - Dropping the future ends the call.
    async fn complete(&self, prompt: &Prompt) -> Result<Completion>;

    /// The attachments that the model takes beside text; none by default. The caller leaves out all others: this crate
    /// sends every attachment of a prompt.
    fn modalities(&self) -> Modalities {
        Modalities::default()
    }

    /// Whether the model answers with tool calls ([`Completion::tool_calls`]) and plain text beside them; `false` by default. An
    /// agent offers no tools to a model that does not, and asks it for an answer in a fixed form instead. A wrapper of another
    /// model returns what that one returns.
    fn calls_tools(&self) -> bool {
        false
    }

    /// Streams the answer to a prompt: pieces of text as the model generates them, then [`Delta::Done`] with the whole answer. By
    /// default the whole text is one piece.
    ///
    /// # Behavior
    /// - The last item is `Done` or an error. After an error, the pieces before it are not an answer.
    /// - The model is not called before the stream is polled. Dropping the stream ends the call.
    fn stream<'a>(&'a self, prompt: &'a Prompt) -> BoxStream<'a, Result<Delta>> {
        stream::once(self.complete(prompt)).flat_map(|completion| stream::iter(pieces(completion))).boxed()
    }
}

impl fmt::Debug for dyn Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Model")
    }
}

/// The input of one model call: the conversation, the tools, and the form of the answer.
#[derive(Debug, Clone, Default)]
pub struct Prompt {
    /// The conversation so far, oldest first.
    pub messages: Vec<ChatMessage>,
    /// The schema that the answer must satisfy; `None` for free text.
    pub schema: Option<Arc<Schema>>,
    /// The tools that the model may call. If it is empty, none are offered.
    pub tools: Vec<ToolSpec>,
}

/// Turns an answer that was not streamed into the items of a stream.
pub(crate) fn pieces(completion: Result<Completion>) -> Vec<Result<Delta>> {
    let text = completion.as_ref().map_or("", |completion| completion.text.as_str());
    let text = (!text.is_empty()).then(|| Ok(Delta::Text(text.to_owned())));
    text.into_iter().chain([completion.map(Delta::Done)]).collect()
}

#[cfg(test)]
mod tests {
    use memory_core::{Error, ErrorKind};

    use super::*;

    /// Answers with its text, or fails if it has none.
    #[derive(Debug)]
    struct Fixed(Option<&'static str>);

    #[async_trait]
    impl Model for Fixed {
        async fn complete(&self, _: &Prompt) -> Result<Completion> {
            self.0.map(Completion::from).ok_or_else(|| Error::new(ErrorKind::Unavailable, "down"))
        }
    }

    #[tokio::test]
    async fn a_model_without_a_stream_of_its_own_gives_its_answer_at_once() {
        let prompt = Prompt::default();
        let model: Arc<dyn Model> = Arc::new(Fixed(Some("Hello")));
        let items: Vec<_> = model.stream(&prompt).map(|item| item.expect("a piece")).collect().await;
        assert_eq!(items, [Delta::Text("Hello".into()), Delta::Done("Hello".into())]);
        let items: Vec<_> = Fixed(Some("")).stream(&prompt).map(|item| item.expect("a piece")).collect().await;
        assert_eq!(items, [Delta::Done("".into())], "no empty piece");
        let items: Vec<_> = Fixed(None).stream(&prompt).collect().await;
        assert_eq!(items.len(), 1);
        assert_eq!(items[0].as_ref().expect_err("down").kind(), ErrorKind::Unavailable);
    }
}
