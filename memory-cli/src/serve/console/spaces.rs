//! Shows the tree of spaces, one level per page.

use axum::response::{IntoResponse, Response};
use hyper::header::HeaderName;
use maud::{Markup, html};
use memory_core::{Collection, Count, Cursor, SpaceId, SpaceLevel, SpaceQuery, SpaceQueryBuilder};
use serde::Deserialize;
use utoipa::IntoParams;

use super::documents;
use super::entry::turn;
use super::fields::filled;
use super::links::{link, place};
use super::page::{Section, alert};
use super::paths::{DOCUMENTS, HOME, MEMORIES};
use super::table::{Head, table};
use super::text::{number, time};
use super::visitor::Visitor;
use super::write::actions;
use crate::serve::extract::Parameters;
use crate::serve::problem::Problem;

/// The parameters that select a level.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct LevelFields {
    /// The collection; without it the spaces of the ledger.
    collection: String,
    /// The space above the level; without it the top-level spaces.
    under: String,
    /// The cursor of the page.
    cursor: String,
}

pub(super) async fn show(visitor: Visitor, Parameters((fields,)): Parameters<(LevelFields,)>) -> Response {
    let level = level(&visitor, &fields).await;
    let main = html! {
        h1 { "Spaces" }
        @if let Some(collection) = filled(&fields.collection) { (documents::trail(collection)) }
        (trail(&visitor, &fields))
        // The rows of the level open in place.
        div class="level" hx-target="next .below > td" hx-select=".level, main > .error" {
            @match &level {
                Ok(level) => (list(&fields, level)),
                Err(problem) => (alert(&problem.detail)),
            }
        }
    };
    // An error stands in the row that was to open.
    let place = HeaderName::from_static("hx-reswap");
    ([(place, "innerHTML")], visitor.page(Section::Spaces, main).with_outcome(&level)).into_response()
}

async fn level(visitor: &Visitor, fields: &LevelFields) -> Result<SpaceLevel, Problem> {
    let query = filled(&fields.under).into_iter().fold(SpaceQuery::builder(), SpaceQueryBuilder::under);
    let query = filled(&fields.cursor).into_iter().fold(query, SpaceQueryBuilder::cursor);
    let query = visitor.access.confine_listing(query).build()?;
    let levels = match filled(&fields.collection).map(Collection::parse).transpose()? {
        Some(collection) => {
            visitor.access.check_collection(&collection)?;
            visitor.server.documents.spaces(&collection, &query).await?
        }
        None => visitor.server.provider.spaces(&query).await?,
    };
    let empty = || SpaceLevel { under: query.under().map(str::to_owned), spaces: Vec::new(), next: None };
    Ok(levels.into_iter().next().unwrap_or_else(empty))
}

impl LevelFields {
    /// The address of a level of the same tree.
    fn level(&self, under: &str, cursor: &str) -> String {
        link(HOME, &[("collection", &self.collection), ("under", under), ("cursor", cursor)])
    }

    /// The parameters that select the records of a space in the tree.
    fn selection<'a>(&'a self, place: (&'a str, &'a str)) -> Vec<(&'a str, &'a str)> {
        let collection = filled(&self.collection).map(|collection| ("collection", collection));
        collection.into_iter().chain([place]).collect()
    }

    /// The address of these records.
    fn records(&self, place: (&str, &str)) -> String {
        link(if self.of_documents() { DOCUMENTS } else { MEMORIES }, &self.selection(place))
    }

    /// Whether the spaces are of documents.
    fn of_documents(&self) -> bool {
        filled(&self.collection).is_some()
    }
}

/// The breadcrumbs from the top to a space.
fn trail(visitor: &Visitor, fields: &LevelFields) -> Markup {
    let Some(under) = filled(&fields.under) else { return html! {} };
    let space = SpaceId::parse(under).ok();
    let ancestors: Vec<_> = space.iter().flat_map(SpaceId::ancestors).filter(|path| !path.is_empty()).collect();
    html! {
        nav class="trail" aria-label="Way to this space" {
            ol {
                li { a href=(fields.level("", "")) { "All spaces" } }
                @for path in ancestors {
                    li { a href=(fields.level(path, "")) { bdi { (path) } } }
                }
                li { a href=(fields.level(under, "")) aria-current="location" { bdi { (under) } } }
            }
        }
        p {
            a href=(fields.records(("under", under))) {
                @if fields.of_documents() { "Documents" } @else { "Memories" } " of this space and all below it"
            }
        }
        @if fields.of_documents() {
            (actions::of_documents(visitor, &fields.selection(("under", under))))
        } @else {
            (actions::of_memories(visitor, &fields.selection(("under", under))))
        }
    }
}

fn list(fields: &LevelFields, level: &SpaceLevel) -> Markup {
    html! {
        @if level.spaces.is_empty() { p { (nothing(fields)) } } @else { (rows(fields, level)) }
        (turn(&fields.cursor, level.next.as_ref().map(Cursor::as_str), |cursor| fields.level(&fields.under, cursor)))
    }
}

fn nothing(fields: &LevelFields) -> &'static str {
    if !fields.under.is_empty() {
        "No space lies below this one."
    } else if fields.of_documents() {
        "No space holds a document of this collection."
    } else {
        "No space holds a memory."
    }
}

fn rows(fields: &LevelFields, level: &SpaceLevel) -> Markup {
    let records = if fields.of_documents() { "Documents" } else { "Memories" };
    let rows = html! {
        @for space in &level.spaces {
            tr {
                th scope="row" { (name(fields, &space.id)) }
                td class="number" { a href=(fields.records(place(&space.id))) { (count(space.count)) } }
                td { (time(space.newest)) }
            }
            @if may_have_level(&space.id) { tr class="below" { td colspan="3" {} } }
        }
    };
    let caption = "Spaces of this level, each with what it and all below it hold";
    table(caption, &[Head::Text("Space"), Head::Number(records), Head::Text("Newest")], &rows)
}

/// Renders a space as a link to the level below it, if there can be one. With the script the level also opens in the row below.
fn name(fields: &LevelFields, space: &SpaceId) -> Markup {
    let id = space.as_str();
    let level = fields.level(id, "");
    html! {
        @if may_have_level(space) {
            details class="opens" hx-get=(level) hx-trigger="toggle once" {
                summary { span class="hidden" { "Open below: " bdi { (id) } } }
            }
            a href=(level) { bdi { (id) } }
        } @else {
            bdi { (id) }
        }
    }
}

fn may_have_level(space: &SpaceId) -> bool {
    place(space).0 == "under"
}

fn count(count: Count) -> String {
    match count {
        Count::Exactly(count) => number(count),
        Count::MoreThan(count) => format!("more than {}", number(count)),
    }
}
