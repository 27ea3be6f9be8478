//! Shows one document with its versions.

use maud::{Markup, html};
use memory_core::{Collection, Document, DocumentId, History};
use serde::Deserialize;
use utoipa::IntoParams;

use super::documents::trail;
use super::page::{Page, Section};
use super::paths::{DOCUMENT, DOCUMENTS};
use super::text::{Shown, time};
use super::versions::{VersionFields, Versions};
use super::visitor::Visitor;
use super::write::actions::{self, PutBack};
use super::{json, links};
use crate::serve::extract::Parameters;
use crate::serve::problem::Problem;
use crate::serve::records::readable_document;

/// The parameters that select the document.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct DocumentFields {
    /// The collection of the document.
    collection: String,
    /// The id within the collection.
    id: String,
}

pub(super) async fn show(
    visitor: Visitor,
    Parameters((fields, at)): Parameters<(DocumentFields, VersionFields)>,
) -> Result<Page, Problem> {
    let document = fields.find(&visitor).await?;
    let history = || History::of(&document);
    let versions = Versions::read(&visitor, &at, history).await;
    let (collection, id) = (document.collection.as_str(), document.id.as_str());
    let to = |cursor: &str| links::link(DOCUMENT, &[("collection", collection), ("id", id), ("cursor", cursor)]);
    let put_back = PutBack::of_document(&visitor, &document);
    let main = html! {
        h1 { "Document" }
        (trail(document.collection.as_str()))
        (facts(&document))
        (actions::of_document(&visitor, &document))
        h2 { "Content" }
        (Shown::of(document.content.as_str()).block())
        h2 { "Metadata" }
        (json::indented(document.metadata.as_str()).block())
        (Versions::section(&versions, &at, put_back.as_ref(), to))
    };
    Ok(visitor.page(Section::Documents, main).with_outcome(&versions))
}

impl DocumentFields {
    /// Returns the document, if the visitor may read it.
    pub(super) async fn find(&self, visitor: &Visitor) -> Result<Document, Problem> {
        let (collection, id) = (Collection::parse(&self.collection)?, DocumentId::parse(&self.id)?);
        readable_document(&visitor.server, &visitor.access, &collection, &id).await
    }
}

fn facts(document: &Document) -> Markup {
    let place = [("collection", document.collection.as_str()), ("space", document.space_id.as_str())];
    html! {
        dl {
            dt { "Id" } dd { bdi { (document.id.as_str()) } }
            dt { "Space" } dd { a href=(links::link(DOCUMENTS, &place)) { bdi { (document.space_id.as_str()) } } }
            dt { "Created" } dd { (time(document.created_at)) }
            @if let Some(updated) = document.updated_at { dt { "Updated" } dd { (time(updated)) } }
            @if let Some(expires) = document.expires_at { dt { "Expires" } dd { (time(expires)) } }
            dt { "Revision" } dd { (document.revision) }
        }
    }
}
