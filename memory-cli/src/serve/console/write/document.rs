//! A document in a form.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use memory_core::{Content, Document, DocumentWrite, Expect, Metadata, Revision, SpaceId};
use serde::Deserialize;

use super::DOCUMENT;
use super::seen::{is_stale, revision, stale};
use super::text::Editable;
use crate::output::date;
use crate::serve::console::document::DocumentFields;
use crate::serve::console::fields::{input, moment, time_input};
use crate::serve::console::links::{self, document_at};
use crate::serve::console::page::{Page, Section, alert};
use crate::serve::console::visitor::Visitor;
use crate::serve::extract::{Form, Parameters};
use crate::serve::problem::Problem;

/// What a form says of a document.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ContentFields {
    /// The revision that its sender has seen.
    revision: String,
    space: String,
    content: String,
    metadata: String,
    /// Empty for never.
    expires: String,
}

pub(super) async fn show(
    visitor: Visitor,
    Parameters((name,)): Parameters<(DocumentFields,)>,
) -> Result<Page, Problem> {
    let document = changeable(&visitor, &name).await?;
    Ok(visitor.page(Section::Documents, form(&document, &ContentFields::of(&document), None)))
}

pub(super) async fn save(
    visitor: Visitor,
    Parameters((name,)): Parameters<(DocumentFields,)>,
    Form(fields): Form<ContentFields>,
) -> Result<Response, Problem> {
    let seen = revision(&fields.revision)?;
    let document = changeable(&visitor, &name).await?;
    let write = match fields.write(&document) {
        Ok(write) => write,
        Err(error) => {
            let page = visitor.page(Section::Documents, form(&document, &fields, Some(error.message())));
            return Ok(page.with_status(StatusCode::UNPROCESSABLE_ENTITY).into_response());
        }
    };
    put(&visitor, &document, write, seen, &[("Content", &fields.content), ("Metadata", &fields.metadata)]).await
}

/// The document, if the visitor may change it.
pub(super) async fn changeable(visitor: &Visitor, name: &DocumentFields) -> Result<Document, Problem> {
    let document = name.find(visitor).await?;
    if document.collection.is_reserved() {
        return Err(Problem::new(StatusCode::FORBIDDEN, "documents of this collection are not edited by hand"));
    }
    visitor.access.check_write(&document.space_id)?;
    Ok(document)
}

/// Puts what makes another document of one, for who has seen it at this revision; nothing where the document is that already, as when a form
/// comes twice. `written` is what its sender keeps where it is not put.
pub(super) async fn put(
    visitor: &Visitor,
    document: &Document,
    write: DocumentWrite,
    seen: Revision,
    written: &[(&str, &str)],
) -> Result<Response, Problem> {
    let record = links::document(document);
    let is_same = write.space_id == document.space_id
        && write.content == document.content
        && write.metadata == document.metadata
        && write.expires_at == document.expires_at;
    if is_same {
        return Ok(Redirect::to(&record).into_response());
    }
    let write = visitor.access.confine_write(write.expect(Expect::Revision(seen)))?;
    match visitor.server.documents.put(write).await.map_err(|error| Problem::of_change(error, true)) {
        Ok(_) => Ok(Redirect::to(&record).into_response()),
        Err(problem) if is_stale(&problem) => Ok(stale(visitor, Section::Documents, &record, written).into_response()),
        Err(problem) => Err(problem),
    }
}

/// A put of this under the name of a document.
pub(super) fn write_of(document: &Document, space: SpaceId, content: Content, metadata: Metadata) -> DocumentWrite {
    let write = DocumentWrite::new(document.collection.clone(), space, content, document.created_at);
    let mut write = write.with_id(document.id.clone()).with_metadata(metadata);
    write.expires_at = document.expires_at;
    write
}

impl ContentFields {
    fn of(document: &Document) -> Self {
        Self {
            revision: document.revision.to_string(),
            space: document.space_id.to_string(),
            content: Editable::of(document.content.as_str()).shown(),
            metadata: Editable::of_metadata(&document.metadata).shown(),
            expires: document.expires_at.map(date).unwrap_or_default(),
        }
    }

    /// What it makes of a document.
    fn write(&self, document: &Document) -> memory_core::Result<DocumentWrite> {
        let content = Editable::of(document.content.as_str()).changed(&self.content);
        let content = content.map_or_else(|| Ok(document.content.clone()), Content::parse)?;
        let metadata = Editable::of_metadata(&document.metadata).changed(&self.metadata);
        let metadata = metadata.map_or_else(|| Ok(document.metadata.clone()), |text| Metadata::parse(&text))?;
        let mut write = write_of(document, SpaceId::parse(&self.space)?, content, metadata);
        if self.expires != document.expires_at.map(date).unwrap_or_default() {
            write.expires_at = moment("the expiry", &self.expires)?;
        }
        Ok(write)
    }
}

fn form(document: &Document, fields: &ContentFields, mistake: Option<&str>) -> Markup {
    html! {
        h1 { "Edit a document" }
        p { a href=(links::document(document)) { "Back to the document" } }
        @if let Some(mistake) = mistake { (alert(mistake)) }
        form method="post" action=(document_at(DOCUMENT, document)) class="fields" {
            input type="hidden" name="revision" value=(fields.revision);
            (input("space", "Space", &fields.space))
            (time_input("expires", "Expires (UTC; empty for never)", &fields.expires))
            (Editable::of(document.content.as_str()).field("content", "Content", &fields.content))
            (Editable::of_metadata(&document.metadata).field("metadata", "Metadata, as a JSON object", &fields.metadata))
            p { button type="submit" { "Save" } }
        }
    }
}
