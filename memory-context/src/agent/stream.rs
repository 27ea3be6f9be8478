//! An answer as it comes.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, Stream, StreamExt, unfold};
use memory_core::Result;
use tokio::sync::mpsc::UnboundedReceiver;

use super::Agent;
use crate::flow::platform::Origin;
use crate::flow::{Answer, Incoming, Tap};

/// A piece of an answer that is streamed.
#[derive(Clone, PartialEq)]
pub enum Piece {
    /// The text that follows what came before it; never empty. All of them together are the text of the answer, unless the run ends before
    /// that is said, or the model was asked again: what was heard of an answer that is refused stands before the one that is said, with an
    /// empty line between them.
    Text(String),
    /// The whole answer, once and at the end.
    Answer(Answer),
}

/// The pieces of an answer; see [`Agent::ask_stream`](super::Agent::ask_stream). Dropping it takes nothing back: a question that was
/// asked is answered.
pub struct AnswerStream(BoxStream<'static, Result<Piece>>);

struct Streaming {
    texts: UnboundedReceiver<String>,
    answering: Option<BoxFuture<'static, Result<Answer>>>,
    answer: Option<Result<Answer>>,
}

impl AnswerStream {
    /// The answer of an agent to what it receives, where that is valid.
    pub(super) fn of(agent: &Agent, received: Result<(Origin, Incoming)>) -> Self {
        let (agent, (tap, answered, texts)) = (agent.clone(), Tap::streaming());
        let answering = async move {
            let (origin, incoming) = received?;
            agent.answer(origin, incoming, tap, answered).await
        };
        Self::new(texts, answering.boxed())
    }

    /// The texts, then the answer.
    fn new(texts: UnboundedReceiver<String>, answering: BoxFuture<'static, Result<Answer>>) -> Self {
        let streaming = Streaming { texts, answering: Some(answering), answer: None };
        Self(unfold(streaming, Streaming::piece).boxed())
    }

    /// The next piece; `None` when the answer or an error was the last.
    pub async fn next(&mut self) -> Option<Result<Piece>> {
        self.0.next().await
    }
}

impl Streaming {
    async fn piece(mut self) -> Option<(Result<Piece>, Self)> {
        while let Some(answering) = &mut self.answering {
            tokio::select! {
                biased;
                Some(text) = self.texts.recv() => return Some((Ok(Piece::Text(text)), self)),
                answer = answering => {
                    self.answer = Some(answer);
                    self.answering = None;
                }
            }
        }
        // All texts were there before the answer.
        if let Ok(text) = self.texts.try_recv() {
            return Some((Ok(Piece::Text(text)), self));
        }
        let answer = self.answer.take()?;
        Some((answer.map(Piece::Answer), self))
    }
}

impl Stream for AnswerStream {
    type Item = Result<Piece>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(cx)
    }
}

impl fmt::Debug for AnswerStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnswerStream")
    }
}

impl fmt::Debug for Piece {
    /// Payloads stay out of logs: of the text only the size shows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "Text({} bytes)", text.len()),
            Self::Answer(answer) => f.debug_tuple("Answer").field(answer).finish(),
        }
    }
}
