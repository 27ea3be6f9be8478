//! The pages that change records, enabled by `--console-write`.
//!
//! Each form holds what its sender has seen. If the record has changed since, the page says so and nothing is done. The engine itself compares the
//! revision that a patch or a put expects. The server compares everything else right before the change: the digest of a document, which differs
//! if it was removed and put again, and whatever is removed or erased. A change of that in between is overwritten, or goes with it.
//!
//! The rights of a visitor are checked by the same functions as for REST.

pub(super) mod actions;
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

use super::paths::{CHANGE_DOCUMENT, CHANGE_DOCUMENTS, CHANGE_MEMORIES, CHANGE_MEMORY, CHANGE_PROMPT};
use crate::serve::state::Server;

/// The largest form, in bytes: the editable texts in the form's encoding, with room for a pasted text.
const MAX_FORM: usize = 512 << 10;

/// The routes of all pages that change records.
pub(super) fn routes() -> Router<Server> {
    Router::new()
        .route(&format!("{CHANGE_MEMORY}/{{id}}"), get(memory::show).post(memory::save))
        .route(&format!("{CHANGE_MEMORY}/{{id}}/put-back"), post(put_back::memory))
        .route(&format!("{CHANGE_MEMORY}/{{id}}/erase"), get(one::ask_memory).post(one::erase_memory))
        .route(CHANGE_MEMORIES, get(selection::ask_memories).post(selection::erase_memories))
        .route(CHANGE_DOCUMENT, get(document::show).post(document::save))
        .route(&format!("{CHANGE_DOCUMENT}/put-back"), post(put_back::document))
        .route(&format!("{CHANGE_DOCUMENT}/remove"), get(one::ask_removal).post(one::remove_document))
        .route(&format!("{CHANGE_DOCUMENT}/erase"), get(one::ask_document).post(one::erase_document))
        .route(CHANGE_DOCUMENTS, get(selection::ask_documents).post(selection::remove_documents))
        .route(CHANGE_PROMPT, post(prompt::undo))
        .layer(DefaultBodyLimit::max(MAX_FORM))
}
