//! What the sender of a form has seen, and what is told when something else is there by now.

use axum::http::StatusCode;
use maud::html;
use memory_core::Revision;

use crate::serve::console::page::{Page, Section, alert};
use crate::serve::console::text::Shown;
use crate::serve::console::visitor::Visitor;
use crate::serve::problem::Problem;

/// The revision in a field that a page has filled in.
pub(super) fn revision(field: &str) -> Result<Revision, Problem> {
    let revision = field.parse().ok().and_then(|number| Revision::new(number).ok());
    revision.ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, "the form does not say which revision was seen"))
}

/// Whether a change failed since the record is not what its sender has seen.
pub(super) fn is_stale(problem: &Problem) -> bool {
    problem.status_code() == StatusCode::PRECONDITION_FAILED
}

/// Says that a record has changed, and keeps what its sender has written, with the name of each field.
pub(super) fn stale(visitor: &Visitor, section: Section, record: &str, written: &[(&str, &str)]) -> Page {
    let main = html! {
        h1 { "Not saved" }
        (alert("Somebody has changed this since you saw it. Nothing was overwritten."))
        p { a href=(record) { "See what it is now" } }
        @if written.iter().any(|(_, text)| !text.is_empty()) {
            h2 { "What you have written" }
            @for (name, text) in written.iter().filter(|(_, text)| !text.is_empty()) {
                @let shown = Shown::of(text);
                h3 { (name) }
                pre dir="auto" { (shown.text) }
                @if shown.is_cut { p class="note" { "Cut: go back in the browser for all of it." } }
            }
        }
    };
    visitor.page(section, main).with_status(StatusCode::PRECONDITION_FAILED)
}
