//! Answers a question in a separate task, independent of its request.

use std::convert::Infallible;

use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive};
use axum::response::{IntoResponse, Response, Sse};
use futures::{Stream, StreamExt as _, stream};
use memory_context::agent::{Answer, AnswerStream, End, Piece};
use memory_core::{Error, ErrorKind, Outcome, Result};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tracing::{Instrument as _, Span};

use super::failure;
use super::wire::Head;
use crate::serve::limits::Place;
use crate::serve::problem::Problem;
use crate::telemetry::PAYLOADS;

/// An answer in progress. It continues if the client disconnects.
pub(super) struct Answering {
    pieces: UnboundedReceiver<Result<Piece>>,
}

impl Answering {
    /// Asks the question. The work holds the permit even if nobody waits for it any more, so that it counts towards the limit, and a
    /// shutdown waits for it.
    pub(super) fn begin(mut asked: AnswerStream, place: Place, span: Span) -> Self {
        let (sender, pieces) = unbounded_channel();
        let work = async move {
            let _place = place;
            while let Some(piece) = asked.next().await {
                if let Ok(Piece::Answer(answer)) = &piece {
                    tracing::info!(target: PAYLOADS, answer = answer.text, "answered");
                }
                // An answer is bounded, so it can be buffered here for a slow client. Fails if the client is gone.
                let _ = sender.send(piece);
            }
        };
        tokio::spawn(work.instrument(span));
        Self { pieces }
    }

    /// Waits for the whole answer.
    pub(super) async fn whole(self) -> Result<Answer, Problem> {
        let mut pieces = self.pieces();
        while let Some(piece) = pieces.next().await {
            if let Piece::Answer(answer) = piece? {
                return Ok(answer);
            }
        }
        Err(cut().into())
    }

    /// Streams the text. A failure before the first piece is returned as a problem, not as a stream.
    pub(super) async fn streamed(self, head: Head) -> Result<Response, Problem> {
        let mut pieces = self.pieces();
        let first = pieces.next().await.unwrap_or_else(|| Err(cut().into()))?;
        let begin = stream::iter([event(head.begin().to_string())]);
        let events = stream::iter([Ok(first)]).chain(pieces).flat_map(move |piece| {
            stream::iter(match piece {
                Ok(Piece::Text(text)) => vec![event(head.text(&text).to_string())],
                Ok(Piece::Answer(answer)) => {
                    let usage = head.counts.then(|| event(head.usage(answer.usage).to_string()));
                    let end = [event(head.end().to_string())].into_iter().chain(usage);
                    end.chain([event("[DONE]".to_owned())]).collect()
                }
                Ok(_) => Vec::new(),
                Err(problem) => vec![event(failure::body(&problem).to_string())],
            })
        });
        Ok(Sse::new(begin.chain(events)).keep_alive(KeepAlive::default()).into_response())
    }

    /// Returns the pieces of the answer. An answer that was superseded or left for later becomes a failure.
    fn pieces(mut self) -> impl Stream<Item = Result<Piece, Problem>> + Unpin + use<> {
        stream::poll_fn(move |context| self.pieces.poll_recv(context)).map(|piece| match piece? {
            Piece::Answer(Answer { end: End::Superseded, .. }) => {
                let sentence = "a newer message of the room is answered instead of this one";
                Err(Problem { error: Some("Superseded".into()), ..Problem::new(StatusCode::CONFLICT, sentence) })
            }
            Piece::Answer(Answer { end: End::Left { reason }, .. }) => {
                let error = Error::new(ErrorKind::Unavailable, format!("the answer is postponed: {reason}"));
                Err(error.with_outcome(Outcome::Unknown).into())
            }
            piece => Ok(piece),
        })
    }
}

fn event(data: String) -> Result<Event, Infallible> {
    Ok(Event::default().data(data))
}

/// The error if the server ends during the work. The question may be stored and answered later.
fn cut() -> Error {
    Error::new(ErrorKind::Closed, "the work on the answer was interrupted").with_outcome(Outcome::Unknown)
}
