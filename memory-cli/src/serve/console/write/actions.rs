//! The links and forms by which a page offers its visitor to change what it shows.

use maud::{Markup, html};
use memory_context::prompt::HistoryEntry;
use memory_core::{Document, Memory, Revision};

use super::rights::{may_change_document, may_change_memory, may_erase, may_remove_document, may_write_somewhere};
use super::seen::digest;
use crate::serve::console::links::{document_at, link};
use crate::serve::console::paths::{CHANGE_DOCUMENT, CHANGE_DOCUMENTS, CHANGE_MEMORIES, CHANGE_MEMORY, CHANGE_PROMPT};
use crate::serve::console::visitor::Visitor;

/// Renders the actions that a visitor may take on a memory.
pub(in crate::serve::console) fn of_memory(visitor: &Visitor, memory: &Memory) -> Markup {
    let id = memory.id;
    actions(&[
        (may_change_memory(visitor, memory), "Edit", format!("{CHANGE_MEMORY}/{id}")),
        (may_erase(visitor, &memory.space_id), "Erase", format!("{CHANGE_MEMORY}/{id}/erase")),
    ])
}

/// Renders the actions that a visitor may take on a document.
pub(in crate::serve::console) fn of_document(visitor: &Visitor, document: &Document) -> Markup {
    let may_remove = may_remove_document(visitor, document);
    actions(&[
        (may_change_document(visitor, document), "Edit", document_at(CHANGE_DOCUMENT, document)),
        (may_remove, "Remove", document_at(&format!("{CHANGE_DOCUMENT}/remove"), document)),
        (
            may_remove && may_erase(visitor, &document.space_id),
            "Erase",
            document_at(&format!("{CHANGE_DOCUMENT}/erase"), document),
        ),
    ])
}

/// Renders the actions on all memories that these parameters select.
pub(in crate::serve::console) fn of_memories(visitor: &Visitor, parameters: &[(&str, &str)]) -> Markup {
    let may = may_write_somewhere(visitor) && visitor.access.check_erasure().is_ok() && narrows(parameters);
    actions(&[(may, "Erase these memories", link(CHANGE_MEMORIES, parameters))])
}

/// Renders the actions on all documents that these parameters select.
pub(in crate::serve::console) fn of_documents(visitor: &Visitor, parameters: &[(&str, &str)]) -> Markup {
    let may = may_write_somewhere(visitor) && narrows(parameters);
    actions(&[(may, "Remove these documents", link(CHANGE_DOCUMENTS, parameters))])
}

/// Renders the form that undoes the newest change that is neither an undo nor undone and whose earlier text is kept, if the visitor may.
pub(in crate::serve::console) fn undo_form(visitor: &Visitor, document: &Document, changes: &[HistoryEntry]) -> Markup {
    let is_undone = |change: &HistoryEntry| changes.iter().any(|undo| undo.undoes == Some(change.revision));
    let change = changes.iter().find(|change| change.undoes.is_none() && !is_undone(change));
    let change = change.filter(|change| change.diff.is_some() && may_remove_document(visitor, document));
    html! {
        @if let Some(change) = change {
            form method="post" action=(link(CHANGE_PROMPT, &[("id", document.id.as_str())])) {
                input type="hidden" name="revision" value=(document.revision);
                p { button type="submit" { "Undo revision " (change.revision) } }
            }
        }
    }
}

/// Where a form is sent that puts a version of a record back.
#[derive(Debug)]
pub(in crate::serve::console) struct PutBack {
    action: String,
    present: Revision,
    seen: Option<String>,
}

impl PutBack {
    /// Of a memory, if the visitor may change it.
    pub(in crate::serve::console) fn of_memory(visitor: &Visitor, memory: &Memory) -> Option<Self> {
        let action = put_back_of_memory(memory);
        may_change_memory(visitor, memory).then_some(Self { action, present: memory.revision, seen: None })
    }

    /// Of a document, if the visitor may change it.
    pub(in crate::serve::console) fn of_document(visitor: &Visitor, document: &Document) -> Option<Self> {
        let action = document_at(&format!("{CHANGE_DOCUMENT}/put-back"), document);
        let seen = Some(digest(document));
        may_change_document(visitor, document).then_some(Self { action, present: document.revision, seen })
    }

    /// Renders the form that puts one version back, on the page of the history at this cursor; nothing for the present
    /// version.
    pub(in crate::serve::console) fn form(&self, version: Revision, cursor: &str) -> Markup {
        html! {
            @if version != self.present {
                form method="post" action=(self.action) {
                    input type="hidden" name="revision" value=(self.present);
                    @if let Some(seen) = &self.seen { input type="hidden" name="seen" value=(seen); }
                    input type="hidden" name="version" value=(version);
                    input type="hidden" name="cursor" value=(cursor);
                    button type="submit" { "Put revision " (version) " back" }
                }
            }
        }
    }
}

/// Where a form is sent that puts a version of a memory back.
pub(super) fn put_back_of_memory(memory: &Memory) -> String {
    format!("{CHANGE_MEMORY}/{}/put-back", memory.id)
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
