//! Shows the state of the server's agent for a question, by provider.

use maud::{Markup, html};
use memory_context::agent::Agent;
use memory_context::state::State;
use memory_core::{Error, ErrorKind, Spaces};
use serde::Deserialize;
use utoipa::IntoParams;

use super::fields::{filled, input};
use super::page::{Page, Section, alert};
use super::paths::COMPOSE;
use super::table::{Head, table};
use super::text::{Shown, number, preview};
use super::visitor::Visitor;
use crate::commands::compose::left_out;
use crate::serve::extract::Parameters;
use crate::serve::openai;
use crate::serve::problem::Problem;

/// The most bytes of texts on the page. A section that does not fit is not shown.
const MAX_TEXTS: usize = 40_000;

/// The fields of the form.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct ComposeFields {
    /// The user who asks; by default the name of the visitor.
    user: String,
    /// The room; by default the user's direct room.
    room: String,
    /// The question; without it nothing is composed.
    text: String,
}

pub(super) async fn show(
    visitor: Visitor,
    Parameters((fields,)): Parameters<(ComposeFields,)>,
) -> Result<Page, Problem> {
    check(&visitor)?;
    let Some(agent) = &visitor.server.agent else { return Ok(visitor.page(Section::Compose, without_agent())) };
    let composed = match filled(&fields.text) {
        Some(_) => compose(&visitor, agent, &fields).await.map(Some),
        None => Ok(None),
    };
    let main = html! {
        h1 { "Compose" }
        p class="note" {
            "What the agent " bdi { (agent.records().agent().as_str()) } " would know if somebody asked it something now. Nothing is stored, "
            "and no language model is asked. The model also gets the instructions of the agent's character, and a template around this text."
        }
        (form(&fields))
        @match &composed {
            Ok(Some(state)) => (result(state)),
            Ok(None) => {}
            Err(problem) => (alert(&problem.detail)),
        }
    };
    Ok(visitor.page(Section::Compose, main).with_outcome(&composed))
}

/// Fails with `Unauthorized` unless the visitor may read everything that an agent may know: every space, and the reserved collections.
fn check(visitor: &Visitor) -> Result<(), Problem> {
    if visitor.access.readable == Spaces::All && visitor.access.collections.is_none() {
        return Ok(());
    }
    let detail = "what an agent would know is for those who may read every space and every collection";
    Err(Error::new(ErrorKind::Unauthorized, detail).into())
}

async fn compose(visitor: &Visitor, agent: &Agent, fields: &ComposeFields) -> Result<State, Problem> {
    let user = filled(&fields.user).unwrap_or(&visitor.access.name);
    let conversation = openai::conversation(agent, &visitor.access, user, filled(&fields.room)).await?;
    Ok(conversation.compose(user, &fields.text).await?)
}

fn without_agent() -> Markup {
    html! {
        h1 { "Compose" }
        p {
            "This server offers no agent. With one, this page shows what the agent would know if somebody asked it something: describe an agent "
            "in a file, and start the server with " code { "serve --agent FILE" } "."
        }
        p { "For a message that is stored already, " code { "agent-memory compose --message ID --explain" } " shows the same." }
    }
}

fn form(fields: &ComposeFields) -> Markup {
    html! {
        form method="get" action=(COMPOSE) class="fields" role="search" aria-label="Compose" {
            (input("text", "Question", &fields.text))
            (input("user", "Asked by the user", &fields.user))
            (input("room", "In the room (the user's own if empty)", &fields.room))
            p { button type="submit" { "Compose" } }
        }
    }
}

fn result(state: &State) -> Markup {
    html! {
        h2 { "Providers" }
        (providers(state))
        h2 { "Text" }
        p { (size(&state.text)) " in all." }
        (sections(state))
    }
}

fn providers(state: &State) -> Markup {
    let rows = html! {
        @for outcome in &state.outcomes {
            tr {
                th scope="row" { (preview(&outcome.provider)) }
                td class="word" { (outcome.status.as_str()) }
                td class="number" { (number(outcome.text_bytes)) }
                td { (left_out(outcome)) }
            }
        }
    };
    let heads = [
        Head::Text("Provider"),
        Head::Text("Outcome"),
        Head::Number("Bytes of text"),
        Head::Text("Left out for the budget"),
    ];
    table("Providers", &heads, &rows)
}

/// Shows the text by its sections, as the model gets them.
fn sections(state: &State) -> Markup {
    let mut left = MAX_TEXTS;
    html! {
        @for (outcome, text) in state.sections() {
            section {
                h3 { (preview(&outcome.provider)) }
                p class="note" {
                    (size(text))
                    @if outcome.cut.is_some() { "; left out: " (left_out(outcome)) }
                }
                (part(&Shown::of(text), &mut left))
            }
        }
    }
}

/// Shows a section, if the page has room for it.
fn part(shown: &Shown, left: &mut usize) -> Markup {
    match left.checked_sub(shown.text.len()) {
        Some(rest) => {
            *left = rest;
            shown.block()
        }
        None => html! { p class="note" { "Not shown, since this page is long already." } },
    }
}

fn size(text: &str) -> String {
    format!("{} bytes, {} characters", number(text.len()), number(text.chars().count()))
}
