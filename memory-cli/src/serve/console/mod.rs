//! The console: pages for people, rendered by the server. No page needs a script; two use one if the browser runs it.
//!
//! The pages read with the same rights as REST. The pages that change records are in [`mod@write`], which `--console-write` enables. A
//! browser can't send a token in a header, so it signs in and gets a [`Pass`] in a cookie, which opens only these pages. They are not in
//! the OpenAPI document.

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
mod entry;
mod failure;
mod fields;
mod json;
mod key;
mod links;
mod live;
mod login;
mod memories;
mod memory;
mod origin;
mod page;
mod pass;
mod prompt;
mod recall;
mod scores;
mod script;
mod sender;
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
pub(crate) use key::ConsoleKey;
pub(crate) use pass::Pass;
pub(crate) use sender::{check_form, is_for_people, is_of_own_site};

/// The spaces.
const HOME: &str = "/";
const MEMORIES: &str = "/console/memories";
const MEMORY: &str = "/console/memory";
const DOCUMENTS: &str = "/console/documents";
const DOCUMENT: &str = "/console/document";
const PROMPT: &str = "/console/prompt";
const RECALL: &str = "/console/recall";
const COMPOSE: &str = "/console/compose";
const WORK: &str = "/console/work";
const LIVE: &str = "/console/live";
const ENGINE: &str = "/console/engine";
const DOCTOR: &str = "/console/doctor";
const LOGIN: &str = "/console/login";
const LOGOUT: &str = "/console/logout";
const STYLE: &str = "/console/style.css";
const SCRIPT: &str = "/console/htmx.js";

/// The largest form, in bytes; a token is far smaller.
const MAX_FORM: usize = 8 << 10;

/// The credentials that a route requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entrance {
    /// None: the route holds no data.
    Everybody,
    /// A token in the header, or a pass in the cookie.
    Pass,
    /// The same; a request that changes something must also come from a page of the console itself.
    Form,
    /// A token in the header.
    Token,
}

impl Entrance {
    /// The required credentials of a route.
    pub(crate) fn of(route: &str) -> Self {
        match route {
            LOGIN | LOGOUT | STYLE | SCRIPT => Self::Everybody,
            path if path.starts_with(write::CHANGE) => Self::Form,
            path if is_console(path) => Self::Pass,
            _ => Self::Token,
        }
    }
}

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

/// Whether a path belongs to the console.
fn is_console(path: &str) -> bool {
    path == HOME || path == "/console" || path.starts_with("/console/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_opens_pages_alone() {
        for (route, entrance) in [
            ("/", Entrance::Pass),
            ("/console/memory/{id}", Entrance::Pass),
            ("/console/{*rest}", Entrance::Pass),
            ("/console/change/memory/{id}", Entrance::Form),
            ("/console/login", Entrance::Everybody),
            ("/console/style.css", Entrance::Everybody),
            ("/console/htmx.js", Entrance::Everybody),
            ("/v1/memories", Entrance::Token),
            ("/consoles", Entrance::Token),
            ("/mcp", Entrance::Token),
            ("/metrics", Entrance::Token),
        ] {
            assert_eq!(Entrance::of(route), entrance, "{route}");
        }
    }
}
