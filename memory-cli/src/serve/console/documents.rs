//! Lists the collections, and the documents of one.

use maud::{Markup, html};
use memory_core::engine::Permit;
use memory_core::{Collection, Cursor, Document, DocumentPage, DocumentQuery, Documents, Filter, QueryBuilder};
use serde::Deserialize;
use utoipa::IntoParams;

use super::entry::{Entry as _, turn, unreadable};
use super::fields::{ORDERS, ScopeFields, choice, filled, input, paged};
use super::links::link;
use super::page::{Page, Section, alert};
use super::paths::{DOCUMENTS, HOME, PROMPT};
use super::prompt;
use super::table::{Head, table};
use super::text::{preview, time};
use super::visitor::Visitor;
use super::write::actions;
use crate::serve::extract::Parameters;
use crate::serve::problem::Problem;

/// The parameters that select documents and their order.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct CollectionFields {
    /// The collection; without it, all collections are listed.
    collection: String,
    /// A condition on the documents.
    filter: String,
    /// Words of which a document holds at least one.
    text: String,
    /// `oldest` for the oldest first.
    order: String,
    /// The cursor of the page.
    cursor: String,
}

pub(super) async fn show(
    visitor: Visitor,
    Parameters((scope, fields)): Parameters<(ScopeFields, CollectionFields)>,
) -> Page {
    if filled(&fields.collection).is_none() {
        return collections(&visitor).await;
    }
    let found = find(&visitor, &scope, &fields).await;
    let main = html! {
        h1 { "Documents" }
        (trail(&fields.collection))
        p { a href=(link(HOME, &[("collection", &fields.collection)])) { "Spaces of this collection" } }
        (form(&scope, &fields))
        @match &found {
            Ok(page) => {
                (list(&page.documents))
                (unreadable(&page.unreadable, &visitor.access))
                (actions::of_documents(&visitor, &fields.parameters(&scope)))
                (turn(&fields.cursor, page.next.as_ref().map(Cursor::as_str), |cursor| at(&scope, &fields, cursor)))
            }
            Err(problem) => (alert(&problem.detail)),
        }
    };
    visitor.page(Section::Documents, main).with_outcome(&found)
}

/// The breadcrumbs from all collections to one.
pub(super) fn trail(collection: &str) -> Markup {
    html! {
        nav class="trail" aria-label="Way to this collection" {
            ol {
                li { a href=(DOCUMENTS) { "All collections" } }
                li { a href=(link(DOCUMENTS, &[("collection", collection)])) { (preview(collection)) } }
            }
        }
    }
}

async fn collections(visitor: &Visitor) -> Page {
    let mut collections = visitor.server.documents.collections().await.map_err(Problem::from);
    if let Ok(collections) = &mut collections {
        collections.retain(|collection| visitor.access.check_collection(collection).is_ok());
    }
    let main = html! {
        h1 { "Documents" }
        @if prompt::collection(visitor).is_ok() { p { a href=(PROMPT) { "Prompt memory of agents" } } }
        @match &collections {
            Ok(collections) if collections.is_empty() => p { "No collection holds a document." },
            Ok(collections) => {
                h2 { "Collections" }
                ul {
                    @for collection in collections {
                        li { a href=(link(DOCUMENTS, &[("collection", collection.as_str())])) { (collection.as_str()) } }
                    }
                }
            }
            Err(problem) => (alert(&problem.detail)),
        }
    };
    visitor.page(Section::Documents, main).with_outcome(&collections)
}

async fn find(visitor: &Visitor, scope: &ScopeFields, fields: &CollectionFields) -> Result<DocumentPage, Problem> {
    visitor.access.check_collection(&fields.collection()?)?;
    let (query, _patterns) = fields.select(visitor, scope).await?;
    let query = paged(query, &fields.order, fields.condition()?, &fields.cursor);
    Ok(visitor.server.documents.query(&visitor.access.confine(query).build()?).await?)
}

impl CollectionFields {
    pub(super) fn collection(&self) -> memory_core::Result<Collection> {
        Collection::parse(&self.collection)
    }

    /// The query without the condition and the order.
    pub(super) async fn select(
        &self,
        visitor: &Visitor,
        scope: &ScopeFields,
    ) -> Result<(QueryBuilder<Documents>, Option<Permit>), Problem> {
        let query = DocumentQuery::builder(self.collection()?);
        let (query, patterns) = scope.apply(query, &visitor.server.limits).await?;
        Ok((filled(&self.text).into_iter().fold(query, QueryBuilder::text), patterns))
    }

    /// The condition on the documents, parsed.
    pub(super) fn condition(&self) -> memory_core::Result<Option<Filter>> {
        filled(&self.filter).map(Filter::parse).transpose()
    }

    /// The parameters of links to the same selection.
    pub(super) fn parameters<'a>(&'a self, scope: &'a ScopeFields) -> Vec<(&'static str, &'a str)> {
        let own = [("collection", &self.collection), ("filter", &self.filter), ("text", &self.text)];
        let own = own.map(|(name, value)| (name, filled(value).unwrap_or_default()));
        scope.parameters().into_iter().chain(own).collect()
    }
}

fn form(scope: &ScopeFields, fields: &CollectionFields) -> Markup {
    html! {
        form method="get" action=(DOCUMENTS) class="fields" role="search" aria-label="Documents" {
            input type="hidden" name="collection" value=(fields.collection);
            (scope.inputs())
            (input("text", "One of these words", &fields.text))
            (input("filter", "Condition, as in metadata.topic = 'rust'", &fields.filter))
            (choice("order", "Order", &ORDERS, &fields.order))
            p { button type="submit" { "Show" } }
        }
    }
}

fn list(documents: &[Document]) -> Markup {
    if documents.is_empty() {
        return html! { p { "No documents on this page." } };
    }
    let rows = html! {
        @for document in documents {
            tr {
                th scope="row" { a href=(document.href()) { bdi { (document.id.as_str()) } } }
                td { bdi { (document.space()) } }
                td { (time(document.created_at)) }
                td { @if let Some(updated) = document.updated_at { (time(updated)) } }
                td { (document.preview()) }
            }
        }
    };
    table("Documents", &["Id", "Space", "Created", "Updated", "Content"].map(Head::Text), &rows)
}

/// The address of the page at a cursor.
fn at(scope: &ScopeFields, fields: &CollectionFields, cursor: &str) -> String {
    let mut parameters = fields.parameters(scope);
    parameters.extend([("order", fields.order.as_str()), ("cursor", cursor)]);
    link(DOCUMENTS, &parameters)
}
