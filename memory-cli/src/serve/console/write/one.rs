//! One record that is removed or erased.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use memory_core::{Document, DocumentQuery, Erasure, History, Memory, MemoryId, RecordId};
use serde::Deserialize;

use super::confirm::{Confirmation, Mistake, versions};
use super::seen::digest;
use crate::serve::console::document::DocumentFields;
use crate::serve::console::entry::{Entry as _, line};
use crate::serve::console::links::{self, document_at, link};
use crate::serve::console::page::{Page, Section};
use crate::serve::console::paths::{CHANGE_DOCUMENT, CHANGE_MEMORY, DOCUMENTS, MEMORIES};
use crate::serve::console::visitor::Visitor;
use crate::serve::extract::{Form, InPath, Parameters};
use crate::serve::problem::Problem;
use crate::serve::records::{check_erasable, erase_slice, erasure_of_ids, readable_memory, remove_by_id};

/// That a record goes, and why.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct GoingFields {
    /// The state that the sender has seen: the revision of a memory, or the digest of a document.
    seen: String,
    /// Why, where it is erased.
    reason: String,
}

/// How a document goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Going {
    /// Out of sight, with its versions in the history.
    Removed,
    /// Gone for good, with all its versions.
    Erased,
}

pub(super) async fn ask_memory(visitor: Visitor, InPath(id): InPath<MemoryId>) -> Result<Page, Problem> {
    let memory = erasable(&visitor, id).await?;
    ask_about_memory(&visitor, &memory, "", None).await
}

pub(super) async fn erase_memory(
    visitor: Visitor,
    InPath(id): InPath<MemoryId>,
    Form(fields): Form<GoingFields>,
) -> Result<Response, Problem> {
    let memory = erasable(&visitor, id).await?;
    if let Some(mistake) = fields.mistake(&memory.revision.to_string(), Going::Erased) {
        return Ok(ask_about_memory(&visitor, &memory, &fields.reason, Some(mistake)).await?.into_response());
    }
    for erasure in erasure_of_ids(&visitor.server, &visitor.access, vec![id], &fields.reason).await? {
        if !erase_slice(&visitor.server, &visitor.access, erasure).await?.records.is_empty() {
            return Ok(Redirect::to(&link(MEMORIES, &[("space", memory.space())])).into_response());
        }
    }
    Err(Problem::new(StatusCode::CONFLICT, "the memory is not there any more, and nothing was erased"))
}

pub(super) async fn ask_removal(
    visitor: Visitor,
    Parameters((name,)): Parameters<(DocumentFields,)>,
) -> Result<Page, Problem> {
    let document = removable(&visitor, &name).await?;
    ask_about_document(&visitor, &document, Going::Removed, "", None).await
}

pub(super) async fn remove_document(
    visitor: Visitor,
    Parameters((name,)): Parameters<(DocumentFields,)>,
    Form(fields): Form<GoingFields>,
) -> Result<Response, Problem> {
    let document = removable(&visitor, &name).await?;
    if let Some(mistake) = fields.mistake(&digest(&document), Going::Removed) {
        return Ok(ask_about_document(&visitor, &document, Going::Removed, "", Some(mistake)).await?.into_response());
    }
    let collection = around(&document);
    remove_by_id(&visitor.server, &visitor.access, document.collection, document.id).await?;
    Ok(Redirect::to(&collection).into_response())
}

pub(super) async fn ask_document(
    visitor: Visitor,
    Parameters((name,)): Parameters<(DocumentFields,)>,
) -> Result<Page, Problem> {
    let document = removable(&visitor, &name).await?;
    visitor.access.check_erasure()?;
    ask_about_document(&visitor, &document, Going::Erased, "", None).await
}

pub(super) async fn erase_document(
    visitor: Visitor,
    Parameters((name,)): Parameters<(DocumentFields,)>,
    Form(fields): Form<GoingFields>,
) -> Result<Response, Problem> {
    let document = removable(&visitor, &name).await?;
    let Visitor { server, access } = &visitor;
    access.check_erasure()?;
    if let Some(mistake) = fields.mistake(&digest(&document), Going::Erased) {
        let page = ask_about_document(&visitor, &document, Going::Erased, &fields.reason, Some(mistake)).await?;
        return Ok(page.into_response());
    }
    let query = DocumentQuery::builder(document.collection.clone()).exact(&document.space_id);
    let query = access.confine_to_writable(access.confine(query), None)?;
    let erasure = Erasure::documents(query, &fields.reason)?.among([RecordId::from(&document)])?;
    if erase_slice(server, access, erasure).await?.records.is_empty() {
        // It has left its space since it was found there, or was removed.
        return Err(Problem::new(StatusCode::CONFLICT, "the document has changed, and nothing was erased"));
    }
    Ok(Redirect::to(&around(&document)).into_response())
}

impl GoingFields {
    /// Why it does not go yet.
    fn mistake(&self, present: &str, going: Going) -> Option<Mistake> {
        if self.seen != present {
            return Some(Mistake::changed());
        }
        if going == Going::Erased { Mistake::in_reason(&self.reason) } else { None }
    }
}

/// The memory, if the visitor may erase it.
async fn erasable(visitor: &Visitor, id: MemoryId) -> Result<Memory, Problem> {
    let memory = readable_memory(&visitor.server, &visitor.access, id).await?;
    visitor.access.check_erasure()?;
    visitor.access.check_write(&memory.space_id)?;
    Ok(memory)
}

/// The document, if the visitor may remove it.
async fn removable(visitor: &Visitor, name: &DocumentFields) -> Result<Document, Problem> {
    let document = name.find(visitor).await?;
    check_erasable(&visitor.access, &document.collection)?;
    visitor.access.check_write(&document.space_id)?;
    Ok(document)
}

async fn ask_about_memory(
    visitor: &Visitor,
    memory: &Memory,
    reason: &str,
    mistake: Option<Mistake>,
) -> Result<Page, Problem> {
    let what = html! {
        p { "This memory goes for good, with all its versions: nothing brings it back." }
        p { (line(memory)) }
        (versions(visitor, History::of(memory.id)).await?)
    };
    let confirmation = Confirmation {
        title: "Erase a memory",
        what,
        action: format!("{CHANGE_MEMORY}/{}/erase", memory.id),
        fields: vec![("seen", memory.revision.to_string())],
        reason: Some(reason),
        button: Some("Erase 1 memory".to_owned()),
        away: links::memory(memory.id),
    };
    Ok(confirmation.page(visitor, Section::Memories, mistake))
}

async fn ask_about_document(
    visitor: &Visitor,
    document: &Document,
    going: Going,
    reason: &str,
    mistake: Option<Mistake>,
) -> Result<Page, Problem> {
    let history = History::of(document);
    let (title, path, button) = match going {
        Going::Removed => ("Remove a document", "remove", "Remove 1 document"),
        Going::Erased => ("Erase a document", "erase", "Erase 1 document"),
    };
    let confirmation = Confirmation {
        title,
        what: html! {
            (fate(going))
            p { bdi { (document.id.as_str()) } " " (line(document)) }
            (versions(visitor, history).await?)
        },
        action: document_at(&format!("{CHANGE_DOCUMENT}/{path}"), document),
        fields: vec![("seen", digest(document))],
        reason: (going == Going::Erased).then_some(reason),
        button: Some(button.to_owned()),
        away: links::document(document),
    };
    Ok(confirmation.page(visitor, Section::Documents, mistake))
}

fn fate(going: Going) -> Markup {
    html! {
        p {
            @match going {
                Going::Removed => "This document goes out of sight. An operator still finds its versions in the history.",
                Going::Erased => "This document goes for good, with all its versions: nothing brings it back.",
            }
        }
    }
}

/// The collection that a document is in.
fn around(document: &Document) -> String {
    link(DOCUMENTS, &[("collection", document.collection.as_str())])
}
