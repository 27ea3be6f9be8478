//! The visitor of a page, and the server.

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use maud::Markup;
use memory_core::Spaces;

use super::page::{Page, Section, Who};
use crate::serve::access::Access;
use crate::serve::callers::door::Door;
use crate::serve::problem::Problem;
use crate::serve::state::Server;

/// The visitor of a page, with its rights.
#[derive(Debug)]
pub(super) struct Visitor {
    pub(super) server: Server,
    pub(super) access: Access,
}

impl Visitor {
    /// Makes a page for this visitor.
    pub(super) fn page(&self, section: Section, main: Markup) -> Page {
        let who = match self.server.callers.door {
            Door::Open => Who::Local,
            Door::Secret(_) | Door::Tokens(_) => Who::Named(&self.access.name),
        };
        Page::of(who, section, &main)
    }

    /// Whether it may see the load of the engine for all tenants, that is, may read every space.
    pub(super) fn sees_engine(&self) -> bool {
        self.access.readable == Spaces::All
    }
}

impl FromRequestParts<Server> for Visitor {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, server: &Server) -> Result<Self, Problem> {
        let access = parts.extensions.get::<Access>().cloned();
        let access = access.ok_or_else(|| Problem::new(StatusCode::UNAUTHORIZED, "sign in first"))?;
        Ok(Self { server: Server::clone(server), access })
    }
}
