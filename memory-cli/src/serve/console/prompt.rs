//! Shows prompt memory: the texts for the system prompts of agents, with their history.

use std::sync::Arc;

use maud::{Markup, html};
use memory_context::prompt::{COLLECTION, HistoryEntry, MemoryLoadContext, MemoryStore, PromptMemory};
use memory_core::{Collection, Cursor, Document, DocumentId, DocumentPage, DocumentQuery};
use serde::Deserialize;
use utoipa::IntoParams;

use super::entry::{pages, turn, unreadable};
use super::fields::{filled, whole};
use super::links::link;
use super::page::{Page, Section, alert};
use super::paths::{DOCUMENTS, PROMPT};
use super::text::{Shown, time};
use super::visitor::Visitor;
use super::write::actions;
use crate::serve::extract::Parameters;
use crate::serve::problem::Problem;
use crate::serve::records::readable_document;

/// The number of changes on a page.
const PAGE: usize = 10;
/// The number of changes that the history of a text keeps.
const MAX_CHANGES: usize = 100;

/// The parameters that select a text and a page of its changes.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct TextFields {
    /// The id of the document; without it, all texts are listed.
    id: String,
    /// How many of the newest changes to skip.
    from: String,
    /// The cursor of the list.
    cursor: String,
}

/// A text of prompt memory, with what is needed to read and undo it.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) document: Document,
    pub(super) context: MemoryLoadContext,
    pub(super) store: MemoryStore,
    pub(super) memory: PromptMemory,
}

pub(super) async fn show(visitor: Visitor, Parameters((fields,)): Parameters<(TextFields,)>) -> Result<Page, Problem> {
    if filled(&fields.id).is_none() {
        return list(&visitor, &fields).await;
    }
    let kept = Kept::find(&visitor, &fields).await?;
    let text = kept.memory.read(&kept.context, kept.store).await?;
    let changes = kept.memory.history(&kept.context, kept.store).await?;
    let from = whole("from", &fields.from, 0, MAX_CHANGES)?;
    let to = |from: usize| link(PROMPT, &[("id", &fields.id), ("from", &from.to_string())]);
    let next = (changes.len() > from + PAGE).then(|| to(from + PAGE));
    let first = (from > 0).then(|| address(&kept.document));
    let main = html! {
        h1 { "Prompt memory" }
        p { a href=(PROMPT) { "All texts" } }
        (whose(&kept.document))
        dl {
            @if let Some(updated) = kept.document.updated_at { dt { "Updated" } dd { (time(updated)) } }
            dt { "Revision" } dd { (kept.document.revision) }
        }
        h2 { "Text" }
        @match &text {
            Some(text) => (Shown::of(text).block()),
            None => p { "It is empty." },
        }
        (actions::undo_form(&visitor, &kept.document, &changes))
        h2 { "Changes" }
        @if changes.is_empty() { p { "No change is kept." } }
        @for change in changes.iter().skip(from).take(PAGE) { (entry(change)) }
        (pages(first.as_deref(), next.as_deref()))
    };
    Ok(visitor.page(Section::Documents, main))
}

/// The address of a text's page.
pub(super) fn address(document: &Document) -> String {
    link(PROMPT, &[("id", document.id.as_str())])
}

/// Returns the collection of all texts, if the visitor may read it.
pub(super) fn collection(visitor: &Visitor) -> memory_core::Result<Collection> {
    let collection = Collection::parse(COLLECTION)?;
    visitor.access.check_collection(&collection)?;
    Ok(collection)
}

impl Kept {
    pub(super) async fn find(visitor: &Visitor, fields: &TextFields) -> Result<Self, Problem> {
        let id = DocumentId::parse(&fields.id)?;
        let document = readable_document(&visitor.server, &visitor.access, &collection(visitor)?, &id).await?;
        // The history of a text names the visitor who undoes a change as a session.
        let actor = visitor.access.actor();
        let session = actor.as_ref().map_or("console", |actor| actor.as_str());
        let of = MemoryLoadContext::of_document(&document, session, "console");
        let (context, store) = of.ok_or_else(|| Problem::not_found("text of prompt memory"))?;
        let memory = PromptMemory::new(Arc::clone(&visitor.server.documents));
        Ok(Self { document, context, store, memory })
    }
}

async fn list(visitor: &Visitor, fields: &TextFields) -> Result<Page, Problem> {
    let query = DocumentQuery::builder(collection(visitor)?).all();
    let query =
        filled(&fields.cursor).into_iter().fold(visitor.access.confine(query), |query, cursor| query.cursor(cursor));
    let found = visitor.server.documents.query(&query.build()?).await.map_err(Problem::from);
    let main = html! {
        h1 { "Prompt memory" }
        p { a href=(DOCUMENTS) { "All collections" } }
        @match &found {
            Ok(page) => (table(visitor, fields, page)),
            Err(problem) => (alert(&problem.detail)),
        }
    };
    Ok(visitor.page(Section::Documents, main).with_outcome(&found))
}

fn table(visitor: &Visitor, fields: &TextFields, page: &DocumentPage) -> Markup {
    html! {
        @if page.documents.is_empty() {
            p { "No agent keeps a text on this page." }
        } @else {
            ul {
                @for document in &page.documents {
                    li {
                        (whose(document))
                        a href=(address(document)) { "Revision " (document.revision) } " of "
                        (time(document.updated_at.unwrap_or(document.created_at)))
                    }
                }
            }
        }
        (unreadable(&page.unreadable, &visitor.access))
        (turn(&fields.cursor, page.next.as_ref().map(Cursor::as_str), |cursor| link(PROMPT, &[("cursor", cursor)])))
    }
}

/// Describes to whom a text belongs, by its metadata.
fn whose(document: &Document) -> Markup {
    let of = MemoryLoadContext::of_document(document, "console", "console");
    let parts = of.map(|(context, store)| {
        let name = match store {
            MemoryStore::User => "Profile of a user",
            MemoryStore::Memory => "Memory of a session",
        };
        let session = Some(context.session_key).filter(|_| store == MemoryStore::Memory || context.user_id.is_none());
        let parts = [
            ("Agent", context.agent_id),
            ("User", context.user_id),
            ("Session", session),
            ("Personality", context.personality_id),
        ];
        (name, parts)
    });
    html! {
        @match parts {
            Some((name, parts)) => dl {
                dt { "Text" } dd { (name) }
                @for (name, part) in parts {
                    @if let Some(part) = part { dt { (name) } dd { bdi { (part) } } }
                }
            },
            None => p { bdi { (document.id.as_str()) } ": not written by prompt memory" },
        }
    }
}

fn entry(change: &HistoryEntry) -> Markup {
    html! {
        section class="version" {
            h3 { "Revision " (change.revision) }
            p class="note" {
                (time(change.at)) ", session " bdi { (change.session_id) } " on " bdi { (change.platform) }
                @if let Some(key) = &change.batch { ", batch " bdi { (key.as_str()) } }
                @if let Some(undone) = change.undoes { ", undoes revision " (undone) }
            }
            @match &change.diff {
                Some(diff) => {
                    (lines("Taken away", &diff.removed))
                    (lines("Put there", &diff.added))
                }
                None => p { "What it changed is not kept any more." },
            }
        }
    }
}

fn lines(title: &str, lines: &[String]) -> Markup {
    html! {
        @if !lines.is_empty() {
            h4 { (title) }
            (Shown::of(&lines.join("\n")).block())
        }
    }
}
