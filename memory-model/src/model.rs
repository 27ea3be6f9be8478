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

    /// What it takes beside text, so that nothing else is sent to it; nothing by default.
    fn modalities(&self) -> Modalities {
        Modalities::default()
    }

    /// Whether it calls the tools of a prompt by calls of its own ([`Completion::tool_calls`]), and writes plain text beside them. A model
    /// that does not, as by default, is offered no tools by an agent, and asked for an answer in a form instead. One that wraps another passes
    /// on what that says.
    fn calls_tools(&self) -> bool {
        false
    }

    /// Answers a prompt piece by piece: texts as they come, and at the end [`Delta::Done`] with the whole answer. By default
    /// the whole text is one piece.
    ///
    /// # Behavior
    /// - Without an error the last item is `Done`. An error is the last item, and what came before it is no answer.
    /// - Nothing is asked before the stream is polled; dropping it ends the call.
    fn stream<'a>(&'a self, prompt: &'a Prompt) -> BoxStream<'a, Result<Delta>> {
        stream::once(self.complete(prompt)).flat_map(|completion| stream::iter(pieces(completion))).boxed()
    }
}

impl fmt::Debug for dyn Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Model")
    }
}

/// What a model is asked.
#[derive(Debug, Clone, Default)]
pub struct Prompt {
    /// The conversation so far, oldest first.
    pub messages: Vec<ChatMessage>,
    /// What the answer has to satisfy, if it is to be JSON.
    pub schema: Option<Arc<Schema>>,
    /// The tools that the model may call; none are offered where it is empty.
    pub tools: Vec<ToolSpec>,
}

/// An answer that came at once, as the items of a stream.
pub(crate) fn pieces(completion: Result<Completion>) -> Vec<Result<Delta>> {
    let text = completion.as_ref().map_or("", |completion| completion.text.as_str());
    let text = (!text.is_empty()).then(|| Ok(Delta::Text(text.to_owned())));
    text.into_iter().chain([completion.map(Delta::Done)]).collect()
}

#[cfg(test)]
mod tests {
    use memory_core::{Error, ErrorKind};

    use super::*;

    /// Says its text, or fails where it has none.
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
