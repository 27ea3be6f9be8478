//! Serves an agent in OpenAI's format, so that any chat page can talk to it.
//!
//! These paths are not in the OpenAPI document: OpenAI documents them, their clients are those of OpenAI, and only a part is supported.

mod answering;
mod failure;
mod file;
mod request;
mod rooms;
mod wire;

use axum::extract::{DefaultBodyLimit, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use memory_context::agent::Agent;
use memory_core::{Error, ErrorKind};
use serde_json::Value;

use super::access::Access;
use super::extract::Body;
use super::problem::Problem;
use super::request::RequestSpan;
use super::state::Server;
use answering::Answering;
use request::Request;
use wire::{COMPLETIONS, Head, MODELS};

pub(crate) use failure::in_openai_form;
pub(crate) use file::AgentFile;
pub(crate) use rooms::conversation;

/// The largest body of a question, in bytes. It holds a whole conversation, of which only the last message is read.
const MAX_BODY: usize = 1 << 20;

/// An agent and the server that serves it.
#[derive(Debug, Clone)]
struct Offer {
    server: Server,
    agent: Agent,
    /// The start of the service, in seconds since 1970.
    since: i64,
}

/// The routes of an agent. A question has at most [`MAX_BODY`] bytes, or `max_body` if that is less.
pub(crate) fn routes(server: &Server, agent: Agent, max_body: usize) -> Router {
    let offer = Offer { server: Server::clone(server), agent, since: wire::now() };
    let complete = post(complete).layer(DefaultBodyLimit::max(max_body.min(MAX_BODY)));
    Router::new().route(COMPLETIONS, complete).route(MODELS, get(models)).with_state(offer)
}

/// Answers the last message of a user, whole or streamed.
async fn complete(
    State(offer): State<Offer>,
    Extension(access): Extension<Access>,
    Extension(RequestSpan(span)): Extension<RequestSpan>,
    Body(request): Body<Request>,
) -> Result<Response, Problem> {
    let Offer { server, agent, .. } = &offer;
    let name = agent.records().agent().as_str();
    if request.model != name {
        return Err(Error::new(ErrorKind::NotFound, "model: this server has no agent of this name").into());
    }
    let (is_streamed, head) = (request.stream, Head::new(name));
    let head = if request.counts() { head.counting() } else { head };
    let question = request.question(&access)?;
    let conversation = conversation(agent, &access, &question.user, question.room.as_deref()).await?;
    let place = server.limits.answers.take(&access.name).ok_or_else(busy)?;
    let asked = conversation.ask_stream(&question.user, question.text);
    let answering = Answering::begin(asked, place, span);
    if is_streamed {
        return answering.streamed(head).await;
    }
    let answer = answering.whole().await?;
    Ok(Json(head.completion(&answer)).into_response())
}

fn busy() -> Problem {
    let detail = "the agent or this token has reached its limit of concurrent questions: try again later";
    Problem { error: Some("Unavailable".to_owned()), ..Problem::busy(detail) }
}

/// Lists the agent as the only model.
async fn models(State(Offer { agent, since, .. }): State<Offer>) -> Json<Value> {
    Json(wire::models(agent.records().agent().as_str(), since))
}
