//! A model behind an endpoint that speaks OpenAI's chat completions.

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use memory_core::Result;

use super::answer::Answer;
use super::config::OpenAiConfig;
use super::endpoint::{Body, Endpoint};
use super::events::Events;
use super::request;
use crate::completion::{Completion, Delta};
use crate::modalities::Modalities;
use crate::model::{Model, Prompt, pieces};
use crate::retry::Retrying;

/// A [`Model`] behind an endpoint; it retries calls as the [`Retries`](crate::Retries) of its configuration say.
///
/// # Limits
/// - An answer has at most 16 MiB, both as text and as response body. A stream has at most 64 MiB, including the JSON around the text.
/// - A completion has at most 128 tool calls, each of at most 1 MiB.
///
/// An answer over a limit fails with `Unexpected`. A stream that breaks off fails with a retryable `Unavailable`.
#[derive(Debug)]
pub struct OpenAiModel(Retrying<Chat>);

/// The model without retries.
#[derive(Debug)]
struct Chat {
    config: OpenAiConfig,
    endpoint: Endpoint,
}

/// An answer that arrives as server-sent events.
struct Streamed {
    body: Body,
    events: Events,
    answer: Answer,
    /// Whether the body was read to its end.
    is_read: bool,
}

impl OpenAiModel {
    /// Makes a client without connecting. Fails with `InvalidInput` if the URL is not an HTTP URL.
    pub fn new(config: OpenAiConfig) -> Result<Self> {
        let (endpoint, retries) = (Endpoint::new(&config, "chat/completions")?, config.retries);
        Ok(Self(Retrying::new(Chat { config, endpoint }, retries)))
    }
}

#[async_trait]
impl Model for OpenAiModel {
    async fn complete(&self, prompt: &Prompt) -> Result<Completion> {
        self.0.complete(prompt).await
    }

    fn modalities(&self) -> Modalities {
        self.0.modalities()
    }

    fn calls_tools(&self) -> bool {
        self.0.calls_tools()
    }

    fn stream<'a>(&'a self, prompt: &'a Prompt) -> BoxStream<'a, Result<Delta>> {
        self.0.stream(prompt)
    }
}

#[async_trait]
impl Model for Chat {
    async fn complete(&self, prompt: &Prompt) -> Result<Completion> {
        Answer::whole(&self.endpoint.post(&request::body(&self.config, prompt)).await?)
    }

    fn modalities(&self) -> Modalities {
        self.config.modalities
    }

    fn calls_tools(&self) -> bool {
        self.config.tool_calls
    }

    fn stream<'a>(&'a self, prompt: &'a Prompt) -> BoxStream<'a, Result<Delta>> {
        stream::once(self.begin(prompt)).try_flatten().boxed()
    }
}

impl Chat {
    /// Begins a call and returns the pieces of the answer. An endpoint that does not stream answers with one JSON object.
    async fn begin(&self, prompt: &Prompt) -> Result<BoxStream<'static, Result<Delta>>> {
        let mut body = self.endpoint.open(&request::streamed(&self.config, prompt)).await?;
        let mut events = Events::default();
        while let Some(chunk) = body.chunk().await? {
            match chunk.trim_ascii_start().first() {
                None => {}
                Some(b'{') => {
                    let completion = Answer::whole(&body.rest(chunk).await?)?;
                    return Ok(stream::iter(pieces(Ok(completion))).boxed());
                }
                Some(_) => {
                    events.push(&chunk);
                    break;
                }
            }
        }
        let streamed = Streamed { body, events, answer: Answer::default(), is_read: false };
        Ok(streamed.deltas().boxed())
    }
}

impl Streamed {
    fn deltas(self) -> impl futures::Stream<Item = Result<Delta>> {
        // `None` follows the last piece.
        stream::try_unfold(Some(self), async |streamed| match streamed {
            Some(streamed) => streamed.next().await.map(Some),
            None => Ok(None),
        })
    }

    /// Returns the next piece, and the rest of the stream if there is one.
    async fn next(mut self) -> Result<(Delta, Option<Self>)> {
        loop {
            while let Some(event) = self.events.pop() {
                if event == b"[DONE]" {
                    self.answer.mark_end();
                    return self.end();
                }
                let text = self.answer.add(&event)?;
                if !text.is_empty() {
                    return Ok((Delta::Text(text), Some(self)));
                }
            }
            if self.is_read {
                return self.end();
            }
            match self.body.chunk().await {
                Ok(Some(chunk)) => self.events.push(&chunk),
                Ok(None) => {
                    self.events.close();
                    self.is_read = true;
                }
                // The answer is complete; only its usage may be missing.
                Err(_) if self.answer.is_finished() => self.is_read = true,
                Err(error) => return Err(error),
            }
        }
    }

    fn end(self) -> Result<(Delta, Option<Self>)> {
        Ok((Delta::Done(self.answer.end()?), None))
    }
}
