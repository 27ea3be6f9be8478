//! All that a selection finds, a slice at a time.

use std::time::Instant;

use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use memory_core::engine::Permit;
use memory_core::{
    DocumentId, DocumentSelection, Documents, Erasure, Error, ErrorKind, Ledger, MemoryId, QueryBuilder, RecordId,
};
use serde::Deserialize;
use utoipa::IntoParams;

use super::confirm::{Confirmation, Mistake};
use super::slice::{STEP, Slice};
use crate::serve::console::documents::CollectionFields;
use crate::serve::console::fields::ScopeFields;
use crate::serve::console::links::link;
use crate::serve::console::memories::TimelineFields;
use crate::serve::console::page::{Page, Section};
use crate::serve::console::paths::{CHANGE_DOCUMENTS, CHANGE_MEMORIES, DOCUMENTS, MEMORIES};
use crate::serve::console::text::{counted, number};
use crate::serve::console::visitor::Visitor;
use crate::serve::extract::{Form, Parameters};
use crate::serve::problem::Problem;
use crate::serve::records::{check_erasable, erase_slice};

/// What the step before has done.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct DoneFields {
    /// How many records it has taken, signed by the server that took them.
    done: String,
}

/// That what was seen may go.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StepFields {
    /// How many records were seen, and which.
    confirmed: String,
    /// Why, where they are erased.
    reason: String,
}

pub(super) async fn ask_memories(
    visitor: Visitor,
    Parameters((scope, fields, done)): Parameters<(ScopeFields, TimelineFields, DoneFields)>,
) -> Result<Page, Problem> {
    let (query, _patterns) = selected_memories(&visitor, &scope, &fields).await?;
    let slice = Slice::of_memories(&visitor, query).await?;
    let parameters = fields.parameters(&scope);
    Ok(about_memories(&visitor, &slice, &parameters, "", done.count(&visitor, &parameters), None))
}

pub(super) async fn erase_memories(
    visitor: Visitor,
    Parameters((scope, fields, _)): Parameters<(ScopeFields, TimelineFields, DoneFields)>,
    Form(step): Form<StepFields>,
) -> Result<Response, Problem> {
    let begun = Instant::now();
    let (query, _patterns) = selected_memories(&visitor, &scope, &fields).await?;
    let slice = Slice::of_memories(&visitor, query.clone()).await?;
    if let Some(mistake) = step.mistake(&slice).or_else(|| Mistake::in_reason(&step.reason)) {
        let parameters = fields.parameters(&scope);
        let page = about_memories(&visitor, &slice, &parameters, &step.reason, None, Some(mistake));
        return Ok(page.into_response());
    }
    let erasure = Erasure::memories(query, &step.reason)?.limit(STEP)?;
    let erasure = erasure.among(slice.ids.into_iter().map(RecordId::from))?;
    check_time(&visitor, begun)?;
    let erased = erase_slice(&visitor.server, &visitor.access, erasure).await?.records.len();
    let done = DoneFields::of(&visitor, erased, &fields.parameters(&scope));
    let parameters = [fields.parameters(&scope), vec![("done", done.as_str())]].concat();
    Ok(Redirect::to(&link(CHANGE_MEMORIES, &parameters)).into_response())
}

pub(super) async fn ask_documents(
    visitor: Visitor,
    Parameters((scope, fields, done)): Parameters<(ScopeFields, CollectionFields, DoneFields)>,
) -> Result<Page, Problem> {
    let (query, _patterns) = selected_documents(&visitor, &scope, &fields).await?;
    let slice = Slice::of_documents(&visitor, query).await?;
    let parameters = fields.parameters(&scope);
    Ok(about_documents(&visitor, &slice, &parameters, done.count(&visitor, &parameters), None))
}

pub(super) async fn remove_documents(
    visitor: Visitor,
    Parameters((scope, fields, _)): Parameters<(ScopeFields, CollectionFields, DoneFields)>,
    Form(step): Form<StepFields>,
) -> Result<Response, Problem> {
    let begun = Instant::now();
    let (query, _patterns) = selected_documents(&visitor, &scope, &fields).await?;
    let slice = Slice::of_documents(&visitor, query.clone()).await?;
    if let Some(mistake) = step.mistake(&slice) {
        let page = about_documents(&visitor, &slice, &fields.parameters(&scope), None, Some(mistake));
        return Ok(page.into_response());
    }
    let most = slice.ids.len();
    let selection = visitor.access.sign(DocumentSelection::ids_where(slice.ids, query)?);
    check_time(&visitor, begun)?;
    let removed = visitor.server.documents.remove(&selection, most).await?.len();
    let done = DoneFields::of(&visitor, removed, &fields.parameters(&scope));
    let parameters = [fields.parameters(&scope), vec![("done", done.as_str())]].concat();
    Ok(Redirect::to(&link(CHANGE_DOCUMENTS, &parameters)).into_response())
}

/// Whether a step may still begin: one that begins late could be done when the request has ended, of which nobody would hear.
fn check_time(visitor: &Visitor, begun: Instant) -> Result<(), Problem> {
    if begun.elapsed() <= visitor.server.limits.time / 2 {
        return Ok(());
    }
    let detail = "the search took too long, and nothing was done: narrow the selection";
    Err(Error::new(ErrorKind::Timeout, detail).retryable().into())
}

/// The memories of a timeline that the visitor may erase.
async fn selected_memories(
    visitor: &Visitor,
    scope: &ScopeFields,
    fields: &TimelineFields,
) -> Result<(QueryBuilder<Ledger>, Option<Permit>), Problem> {
    let access = &visitor.access;
    access.check_erasure()?;
    let ((query, patterns), condition) = (fields.select(visitor, scope).await?, fields.condition()?);
    let query = access.confine(query);
    // Asked before the visitor is confined, whose filter would make an erasure of everything look like one of something.
    Erasure::memories(condition.iter().cloned().fold(query.clone(), QueryBuilder::filter), "is asked")?;
    Ok((access.confine_to_writable(query, condition)?, patterns))
}

/// The documents of a list that the visitor may remove.
async fn selected_documents(
    visitor: &Visitor,
    scope: &ScopeFields,
    fields: &CollectionFields,
) -> Result<(QueryBuilder<Documents>, Option<Permit>), Problem> {
    let access = &visitor.access;
    check_erasable(access, &fields.collection()?)?;
    let ((query, patterns), condition) = (fields.select(visitor, scope).await?, fields.condition()?);
    let query = access.confine(query);
    DocumentSelection::matching(condition.iter().cloned().fold(query.clone(), QueryBuilder::filter))?;
    Ok((access.confine_to_writable(query, condition)?, patterns))
}

impl DoneFields {
    /// What tells the page of a selection how many of its records went. Nobody else can make one, so that no link claims what was not done.
    fn of(visitor: &Visitor, count: usize, parameters: &[(&str, &str)]) -> String {
        let key = &visitor.server.callers.key;
        format!("{count}-{}", key.signed(&format!("{count} {parameters:?}")))
    }

    fn count(&self, visitor: &Visitor, parameters: &[(&str, &str)]) -> Option<usize> {
        let count = self.done.split_once('-')?.0.parse().ok()?;
        (self.done == Self::of(visitor, count, parameters)).then_some(count)
    }
}

impl StepFields {
    /// Whether something else is there than what was confirmed.
    fn mistake<I>(&self, slice: &Slice<I>) -> Option<Mistake> {
        (slice.ids.is_empty() || self.confirmed != slice.name()).then(Mistake::changed)
    }
}

fn about_memories(
    visitor: &Visitor,
    slice: &Slice<MemoryId>,
    parameters: &[(&str, &str)],
    reason: &str,
    done: Option<usize>,
    mistake: Option<Mistake>,
) -> Page {
    let count = counted(slice.ids.len(), "memory", "memories");
    let done = done.map(|done| format!("{} erased.", counted(done, "memory was", "memories were")));
    let confirmation = Confirmation {
        title: "Erase memories",
        what: what(
            slice,
            "What is erased goes for good, with all its versions: nothing brings it back.",
            &count,
            parameters,
            done,
        ),
        action: link(CHANGE_MEMORIES, parameters),
        fields: vec![("confirmed", slice.name())],
        reason: Some(reason),
        button: (!slice.ids.is_empty()).then(|| format!("Erase {count}")),
        away: link(MEMORIES, parameters),
    };
    confirmation.page(visitor, Section::Memories, mistake)
}

fn about_documents(
    visitor: &Visitor,
    slice: &Slice<DocumentId>,
    parameters: &[(&str, &str)],
    done: Option<usize>,
    mistake: Option<Mistake>,
) -> Page {
    let count = counted(slice.ids.len(), "document", "documents");
    let done = done.map(|done| format!("{} removed.", counted(done, "document was", "documents were")));
    let fate = "What is removed goes out of sight. An operator still finds its versions in the history.";
    let confirmation = Confirmation {
        title: "Remove documents",
        what: what(slice, fate, &count, parameters, done),
        action: link(CHANGE_DOCUMENTS, parameters),
        fields: vec![("confirmed", slice.name())],
        reason: None,
        button: (!slice.ids.is_empty()).then(|| format!("Remove {count}")),
        away: link(DOCUMENTS, parameters),
    };
    confirmation.page(visitor, Section::Documents, mistake)
}

/// The selection, and what of it goes in the next step.
fn what<I>(slice: &Slice<I>, fate: &str, count: &str, parameters: &[(&str, &str)], done: Option<String>) -> Markup {
    html! {
        @if let Some(done) = &done { p role="status" { (done) } }
        h2 { "Selected" }
        dl {
            @for (name, value) in parameters.iter().filter(|(_, value)| !value.is_empty()) {
                dt { (label(name)) } dd { bdi { (value) } }
            }
        }
        h2 { "What goes" }
        @if slice.ids.is_empty() {
            p {
                @if slice.goes_on {
                    "Nothing was found in what one step looks at, which is not all: narrow the selection."
                } @else {
                    "Nothing is left of this selection that you may take away."
                }
            }
        } @else {
            p {
                @if slice.goes_on {
                    "The oldest " strong { (count) } " of this selection, which has more: they go in further steps. "
                } @else {
                    strong { (count) } ", which is all of this selection that you may take away. "
                }
                (fate)
            }
            ul class="neighbours" { @for line in &slice.shown { li { (line) } } }
            @if slice.ids.len() > slice.shown.len() {
                p class="note" { "And " (number(slice.ids.len() - slice.shown.len())) " others." }
            }
        }
        @if slice.unreadable > 0 {
            p class="note" { (counted(slice.unreadable, "record", "records")) " can't be read, and what can't be read stays." }
        }
    }
}

/// What a parameter of a selection is called on the pages.
fn label(name: &str) -> &str {
    match name {
        "space" => "Space",
        "under" => "Space with all below it",
        "prefix" => "Space that begins with",
        "glob" => "Space as a pattern",
        "regex" => "Space by a regular expression",
        "collection" => "Collection",
        "text" => "One of these words",
        "filter" => "Condition",
        "status" => "Status",
        "since" => "From (UTC)",
        "until" => "Before (UTC)",
        name => name,
    }
}
