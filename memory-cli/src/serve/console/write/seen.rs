//! What the sender of a form has seen, and what is told when something else is there by now.

use axum::http::StatusCode;
use maud::html;
use memory_core::{Document, Revision, Timestamp};
use sha2::{Digest, Sha256};

use crate::serve::console::page::{Page, Section, alert};
use crate::serve::console::visitor::Visitor;
use crate::serve::problem::Problem;

/// The revision in a field that a page has filled in.
pub(super) fn revision(field: &str) -> Result<Revision, Problem> {
    let revision = field.parse().ok().and_then(|number| Revision::new(number).ok());
    revision.ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, "the form does not say which revision was seen"))
}

/// Returns a digest that differs between two documents with the same id and revision: a document that is put after a
/// removal begins with the first revision again.
pub(super) fn digest(document: &Document) -> String {
    let times = [Some(document.created_at), document.updated_at, document.expires_at];
    let times = times.map(|time| time.map(Timestamp::as_millis));
    let texts = [document.space_id.as_str(), document.content.as_str(), document.metadata.as_str()];
    let mut hash = Sha256::new_with_prefix(format!("{times:?}"));
    for text in texts {
        hash.update(text.len().to_be_bytes());
        hash.update(text);
    }
    hex(hash)
}

/// What fits into a field, and is as good as the whole hash here.
pub(super) fn hex(hash: Sha256) -> String {
    let digest: [u8; 32] = hash.finalize().into();
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a change failed since the record is not what its sender has seen.
pub(super) fn is_stale(problem: &Problem) -> bool {
    problem.status_code() == StatusCode::PRECONDITION_FAILED
}

/// Says that a record has changed, and keeps what its sender has written, with the name of each field.
pub(super) fn stale(visitor: &Visitor, section: Section, record: &str, written: &[(&str, &str)]) -> Page {
    let main = html! {
        h1 { "Not saved" }
        (alert("This has changed since you saw it. Nothing was overwritten. If the form was sent twice, the first has done it."))
        p { a href=(record) { "See what it is now" } }
        @if written.iter().any(|(_, text)| !text.is_empty()) {
            h2 { "What you have written" }
            @for (name, text) in written.iter().filter(|(_, text)| !text.is_empty()) {
                h3 { (name) }
                // All of it, since the form that it comes from is small enough.
                pre dir="auto" { (text) }
            }
        }
    };
    visitor.page(section, main).with_status(StatusCode::PRECONDITION_FAILED)
}
