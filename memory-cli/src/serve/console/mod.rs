//! The console: pages for people, rendered by the server. No page needs a script; two use one if the browser runs it.
//!
//! The pages read with the same rights as REST. The pages that change records are in [`mod@write`], which `--console-write` enables. A
//! browser can't send a token in a header, so it signs in and gets a [`Pass`](super::callers::pass::Pass) in a cookie, which opens only
//! these pages. They are not in the OpenAPI document.

mod asset;
mod chain;
mod chart;
mod compose;
mod destination;
mod difference;
mod doctor;
mod document;
mod documents;
mod engine;
pub(super) mod entrance;
mod entry;
mod failure;
mod fields;
mod json;
mod links;
mod live;
mod login;
mod memories;
mod memory;
mod origin;
mod page;
mod paths;
mod prompt;
mod recall;
mod scores;
mod script;
mod spaces;
mod style;
mod table;
mod text;
mod versions;
mod visitor;
mod work;
mod write;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::response::Redirect;
use axum::routing::{any, get, post};

use super::problem::Problem;
use super::state::Server;

pub(crate) use failure::in_pages;
use paths::{
    COMPOSE, DOCTOR, DOCUMENT, DOCUMENTS, ENGINE, HOME, LIVE, LOGIN, LOGOUT, MEMORIES, MEMORY, PROMPT, RECALL, SCRIPT,
    STYLE, WORK,
};

/// The largest form, in bytes; a token is far smaller.
const MAX_FORM: usize = 8 << 10;

/// The routes of the console, with those that change records if enabled.
pub(crate) fn routes(writes: bool) -> Router<Server> {
    let changes = if writes { write::routes() } else { Router::new() };
    changes
        .route(HOME, get(spaces::show))
        .route(MEMORIES, get(memories::show))
        .route(&format!("{MEMORY}/{{id}}"), get(memory::show))
        .route(DOCUMENTS, get(documents::show))
        .route(DOCUMENT, get(document::show))
        .route(PROMPT, get(prompt::show))
        .route(RECALL, get(recall::show))
        .route(COMPOSE, get(compose::show))
        .route(WORK, get(work::show))
        .route(LIVE, get(live::show))
        .route(ENGINE, get(engine::show))
        .route(DOCTOR, get(doctor::show))
        .route(LOGIN, get(login::show).post(login::enter).layer(DefaultBodyLimit::max(MAX_FORM)))
        .route(LOGOUT, post(login::leave).layer(DefaultBodyLimit::max(MAX_FORM)))
        .route(STYLE, get(style::sheet))
        .route(SCRIPT, get(script::file))
        .route("/console", get(async || Redirect::to(HOME)))
        .route("/console/{*rest}", any(async || Problem::new(StatusCode::NOT_FOUND, "there is no such page")))
}
