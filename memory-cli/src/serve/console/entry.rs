//! A record in a list.

use maud::{Markup, html};
use memory_core::{Document, Memory, Spaces, Timestamp, Unreadable};

use super::fields::filled;
use super::links;
use super::paths::MEMORIES;
use super::text::{counted, preview, time};
use crate::serve::access::Access;

/// A record that a table or list can show on one line.
pub(super) trait Entry {
    /// The address of the record's page.
    fn href(&self) -> String;
    /// The beginning of its text.
    fn preview(&self) -> Markup;
    /// The space of the record.
    fn space(&self) -> &str;
    /// The time of creation.
    fn created_at(&self) -> Timestamp;
}

impl Entry for Memory {
    fn href(&self) -> String {
        links::memory(self.id)
    }

    fn preview(&self) -> Markup {
        preview(self.trigger.as_str())
    }

    fn space(&self) -> &str {
        self.space_id.as_str()
    }

    fn created_at(&self) -> Timestamp {
        self.created_at
    }
}

impl Entry for Document {
    fn href(&self) -> String {
        links::document(self)
    }

    fn preview(&self) -> Markup {
        preview(self.content.as_str())
    }

    fn space(&self) -> &str {
        self.space_id.as_str()
    }

    fn created_at(&self) -> Timestamp {
        self.created_at
    }
}

/// Renders a record on one line, with a link to its page.
pub(super) fn line(entry: &impl Entry) -> Markup {
    html! {
        (time(entry.created_at())) " " bdi { (entry.space()) } " "
        a href=(entry.href()) { (entry.preview()) }
    }
}

/// Renders a space as a link to the records in exactly this space.
pub(super) fn space_link(space: &str) -> Markup {
    html! { a href=(links::link(MEMORIES, &[("space", space)])) { bdi { (space) } } }
}

/// Renders the unreadable rows of a page. Ids are shown only to visitors who may read every space, since the space of such a row is
/// unknown.
pub(super) fn unreadable(rows: &[Unreadable], access: &Access) -> Markup {
    let shows_ids = access.readable == Spaces::All;
    html! {
        @if !rows.is_empty() {
            section class="error" {
                h2 { (counted(rows.len(), "record", "records")) " can't be read" }
                ul {
                    @for row in rows {
                        li { @if shows_ids { (preview(&row.id)) ": " } (preview(&row.reason)) }
                    }
                }
            }
        }
    }
}

/// Renders the links to the first and the next page.
pub(super) fn pages(first: Option<&str>, next: Option<&str>) -> Markup {
    pages_of("Pages", first, next)
}

/// Renders the same links for a list that goes on at a cursor. `to` makes the address of the page at a cursor.
pub(super) fn turn(cursor: &str, next: Option<&str>, to: impl Fn(&str) -> String) -> Markup {
    let first = filled(cursor).map(|_| to(""));
    pages(first.as_deref(), next.map(to).as_deref())
}

/// Like [`pages`], for one of several lists on a page, with its own name.
pub(super) fn pages_of(name: &str, first: Option<&str>, next: Option<&str>) -> Markup {
    html! {
        @if first.is_some() || next.is_some() {
            nav class="pages" aria-label=(name) {
                @if let Some(first) = first { a href=(first) { "First page" } }
                @if let Some(next) = next { a href=(next) rel="next" { "Next page" } }
            }
        }
    }
}
