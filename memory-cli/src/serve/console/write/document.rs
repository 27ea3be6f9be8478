//! The form of a document.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use memory_core::{Content, Document, DocumentWrite, Expect, Metadata, Revision, SpaceId};
use serde::Deserialize;

use super::seen::{digest, is_stale, revision, stale};
use super::text::Editable;
use crate::output::date;
use crate::serve::console::document::DocumentFields;
use crate::serve::console::fields::{input, moment, time_input};
use crate::serve::console::links::{self, document_at};
use crate::serve::console::page::{Page, Section, failed};
use crate::serve::console::paths::CHANGE_DOCUMENT;
use crate::serve::console::visitor::Visitor;
use crate::serve::extract::{Form, Parameters};
use crate::serve::problem::Problem;

/// The fields of the form.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ContentFields {
    /// The revision that the sender has seen.
    revision: String,
    /// The digest that the document had then.
    seen: String,
    // A field that is not sent stays unchanged, such as a text that is too long for the form.
    space: Option<String>,
    content: Option<String>,
    metadata: Option<String>,
    /// The time of expiry, in UTC; empty for none.
    expires: Option<String>,
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
    let record = links::document(&document);
    let done = match fields.write(&document) {
        Ok(write) => put(&visitor, &document, write, seen, &fields.seen).await,
        Err(error) => Err(error.into()),
    };
    let Err(problem) = done else { return Ok(Redirect::to(&record).into_response()) };
    if is_stale(&problem) {
        let texts = [
            ("Space", &fields.space),
            ("Expires", &fields.expires),
            ("Content", &fields.content),
            ("Metadata", &fields.metadata),
        ];
        let written = texts.map(|(name, text)| (name, text.as_deref().unwrap_or_default()));
        return Ok(stale(&visitor, Section::Documents, &record, &written).into_response());
    }
    // The form keeps what was entered.
    let page = visitor.page(Section::Documents, form(&document, &fields, Some(&problem)));
    Ok(page.with_status(problem.status_code()).into_response())
}

/// Returns the document, if the visitor may change it.
pub(super) async fn changeable(visitor: &Visitor, name: &DocumentFields) -> Result<Document, Problem> {
    let document = name.find(visitor).await?;
    if document.collection.is_reserved() {
        return Err(Problem::new(StatusCode::FORBIDDEN, "documents of this collection are not edited by hand"));
    }
    visitor.access.check_write(&document.space_id)?;
    Ok(document)
}

/// Puts a changed document, if it still has the revision and the digest that the sender has seen; does nothing if it has the new contents
/// already, as after a form that was sent twice.
pub(super) async fn put(
    visitor: &Visitor,
    document: &Document,
    write: DocumentWrite,
    seen: Revision,
    digest_seen: &str,
) -> Result<(), Problem> {
    let is_same = write.space_id == document.space_id
        && write.content == document.content
        && write.metadata == document.metadata
        && write.expires_at == document.expires_at;
    if is_same {
        return Ok(());
    }
    let write = visitor.access.confine_write(write.expect(Expect::Revision(seen)))?;
    if digest_seen != digest(document) {
        return Err(Problem::new(StatusCode::PRECONDITION_FAILED, "the document is not what was seen"));
    }
    visitor.server.documents.put(write).await.map_err(|error| Problem::of_change(error, true))?;
    Ok(())
}

/// Makes a put under the name of a document.
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
            space: Some(document.space_id.to_string()),
            seen: digest(document),
            content: Editable::of(document.content.as_str()).shown(),
            metadata: Editable::of_metadata(&document.metadata).shown(),
            expires: Some(document.expires_at.map(date).unwrap_or_default()),
        }
    }

    /// Applies the form to a document.
    fn write(&self, document: &Document) -> memory_core::Result<DocumentWrite> {
        let content = Editable::of(document.content.as_str()).changed(self.content.as_deref());
        let content = content.map_or_else(|| Ok(document.content.clone()), Content::parse)?;
        let metadata = Editable::of_metadata(&document.metadata).changed(self.metadata.as_deref());
        let metadata = metadata.map_or_else(|| Ok(document.metadata.clone()), |text| Metadata::parse(&text))?;
        let space = self.space.as_deref().map_or_else(|| Ok(document.space_id.clone()), SpaceId::parse)?;
        let mut write = write_of(document, space, content, metadata);
        let present = document.expires_at.map(date).unwrap_or_default();
        if let Some(expires) = self.expires.as_ref().filter(|expires| **expires != present) {
            write.expires_at = moment("the expiry", expires)?;
        }
        Ok(write)
    }
}

fn form(document: &Document, fields: &ContentFields, problem: Option<&Problem>) -> Markup {
    html! {
        h1 { "Edit a document" }
        p { a href=(links::document(document)) { "Back to the document" } }
        @if let Some(problem) = problem { (failed(problem)) }
        form method="post" action=(document_at(CHANGE_DOCUMENT, document)) class="fields" {
            input type="hidden" name="revision" value=(fields.revision);
            input type="hidden" name="seen" value=(fields.seen);
            (input("space", "Space", fields.space.as_deref().unwrap_or_default()))
            (time_input("expires", "Expires (UTC; empty for never)", fields.expires.as_deref().unwrap_or_default()))
            (Editable::field("content", "Content", fields.content.as_deref()))
            (Editable::field("metadata", "Metadata, as a JSON object", fields.metadata.as_deref()))
            p { button type="submit" { "Save" } }
        }
    }
}
