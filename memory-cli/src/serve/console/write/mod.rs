//! The pages that change records, enabled by `--console-write`.
//!
//! Each form holds what its sender has seen. If the record has changed since, the page says so and nothing is done. The engine itself compares the
//! revision that a patch or a put expects. The server compares everything else right before the change: the digest of a document, which differs
//! if it was removed and put again, and whatever is removed or erased. A change of that in between is overwritten, or goes with it.
//!
//! The rights of a visitor are checked by the same functions as for REST.

mod confirm;
mod document;
mod memory;
mod one;
mod prompt;
mod put_back;
mod rights;
mod seen;
mod selection;
mod slice;
mod text;
mod work;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use maud::{Markup, html};
use memory_core::{Document, Memory};

use super::links::{document_at, link};
use super::visitor::Visitor;
use crate::serve::state::Server;

pub(super) use prompt::undo_form;
pub(super) use put_back::PutBack;
use rights::{may_change_document, may_change_memory, may_erase, may_remove_document, may_write_somewhere};

/// The prefix of all these paths.
pub(super) const CHANGE: &str = "/console/change/";

const MEMORY: &str = "/console/change/memory";
const MEMORIES: &str = "/console/change/memories";
const DOCUMENT: &str = "/console/change/document";
const DOCUMENTS: &str = "/console/change/documents";
const PROMPT: &str = "/console/change/prompt";

/// The largest form, in bytes: the editable texts in the form's encoding, with room for a pasted text.
const MAX_FORM: usize = 512 << 10;

/// The routes of all pages that change records.
pub(super) fn routes() -> Router<Server> {
    Router::new()
        .route(&format!("{MEMORY}/{{id}}"), get(memory::show).post(memory::save))
        .route(&format!("{MEMORY}/{{id}}/put-back"), post(put_back::memory))
        .route(&format!("{MEMORY}/{{id}}/erase"), get(one::ask_memory).post(one::erase_memory))
        .route(MEMORIES, get(selection::ask_memories).post(selection::erase_memories))
        .route(DOCUMENT, get(document::show).post(document::save))
        .route(&format!("{DOCUMENT}/put-back"), post(put_back::document))
        .route(&format!("{DOCUMENT}/remove"), get(one::ask_removal).post(one::remove_document))
        .route(&format!("{DOCUMENT}/erase"), get(one::ask_document).post(one::erase_document))
        .route(DOCUMENTS, get(selection::ask_documents).post(selection::remove_documents))
        .route(PROMPT, post(prompt::undo))
        .layer(DefaultBodyLimit::max(MAX_FORM))
}

/// Renders the actions that a visitor may take on a memory.
pub(super) fn of_memory(visitor: &Visitor, memory: &Memory) -> Markup {
    let id = memory.id;
    actions(&[
        (may_change_memory(visitor, memory), "Edit", format!("{MEMORY}/{id}")),
        (may_erase(visitor, &memory.space_id), "Erase", format!("{MEMORY}/{id}/erase")),
    ])
}

/// Renders the actions that a visitor may take on a document.
pub(super) fn of_document(visitor: &Visitor, document: &Document) -> Markup {
    let may_remove = may_remove_document(visitor, document);
    actions(&[
        (may_change_document(visitor, document), "Edit", document_at(DOCUMENT, document)),
        (may_remove, "Remove", document_at(&format!("{DOCUMENT}/remove"), document)),
        (
            may_remove && may_erase(visitor, &document.space_id),
            "Erase",
            document_at(&format!("{DOCUMENT}/erase"), document),
        ),
    ])
}

/// Renders the actions on all memories that these parameters select.
pub(super) fn of_memories(visitor: &Visitor, parameters: &[(&str, &str)]) -> Markup {
    let access = &visitor.access;
    let may = may_write_somewhere(visitor) && access.check_erasure().and_then(|()| access.check_ledger_write()).is_ok();
    let may = may && narrows(parameters);
    actions(&[(may, "Erase these memories", link(MEMORIES, parameters))])
}

/// Renders the actions on all documents that these parameters select.
pub(super) fn of_documents(visitor: &Visitor, parameters: &[(&str, &str)]) -> Markup {
    let may = may_write_somewhere(visitor) && narrows(parameters);
    actions(&[(may, "Remove these documents", link(DOCUMENTS, parameters))])
}

/// Whether parameters select less than everything, which can't be removed at once.
fn narrows(parameters: &[(&str, &str)]) -> bool {
    let is_narrow = |name: &str| !["collection", "since", "until"].contains(&name);
    parameters.iter().any(|(name, value)| is_narrow(name) && !value.is_empty())
}

/// Renders links to the allowed actions.
fn actions(actions: &[(bool, &str, String)]) -> Markup {
    html! {
        @if actions.iter().any(|(may, ..)| *may) {
            p class="actions" {
                @for (_, name, href) in actions.iter().filter(|(may, ..)| *may) { a href=(href) { (name) } " " }
            }
        }
    }
}
