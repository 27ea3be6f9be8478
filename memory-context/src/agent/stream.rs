//! A streamed answer.

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
use crate::flow::{Answer, Incoming, Piece, Tap};

/// The pieces of an answer; see [`Agent::ask_stream`](super::Agent::ask_stream). Dropping the stream does not cancel the question: once
/// asked, it is answered.
pub struct AnswerStream(BoxStream<'static, Result<Piece>>);

struct Streaming {
    pieces: UnboundedReceiver<Piece>,
    answering: Option<BoxFuture<'static, Result<Answer>>>,
    answer: Option<Result<Answer>>,
}

impl AnswerStream {
    /// Streams the answer to a received message, or the error if the message is invalid.
    pub(super) fn of(agent: &Agent, received: Result<(Origin, Incoming)>) -> Self {
        let (agent, (tap, answered, pieces)) = (agent.clone(), Tap::streaming());
        let answering = async move {
            let (origin, incoming) = received?;
            agent.answer(origin, incoming, tap, answered).await
        };
        Self::new(pieces, answering.boxed())
    }

    /// Makes the stream: the pieces of text, then the answer.
    fn new(pieces: UnboundedReceiver<Piece>, answering: BoxFuture<'static, Result<Answer>>) -> Self {
        let streaming = Streaming { pieces, answering: Some(answering), answer: None };
        Self(unfold(streaming, Streaming::piece).boxed())
    }

    /// Returns the next piece; `None` after the answer or an error.
    pub async fn next(&mut self) -> Option<Result<Piece>> {
        self.0.next().await
    }
}

impl Streaming {
    async fn piece(mut self) -> Option<(Result<Piece>, Self)> {
        while let Some(answering) = &mut self.answering {
            tokio::select! {
                biased;
                Some(piece) = self.pieces.recv() => return Some((Ok(piece), self)),
                answer = answering => {
                    self.answer = Some(answer);
                    self.answering = None;
                }
            }
        }
        // The answer is complete, so all pieces were sent; those that are still in the channel come first.
        if let Ok(piece) = self.pieces.try_recv() {
            return Some((Ok(piece), self));
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
