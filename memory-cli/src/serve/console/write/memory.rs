//! A memory in a form.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use memory_core::{Context, Memory, MemoryId, MemoryPatch, Metadata, Status};
use serde::Deserialize;

use super::MEMORY;
use super::seen::{is_stale, revision, stale};
use super::text::Editable;
use crate::output::date;
use crate::serve::console::fields::{choice, filled, moment, time_input};
use crate::serve::console::links;
use crate::serve::console::page::{Page, Section, alert};
use crate::serve::console::visitor::Visitor;
use crate::serve::extract::{Form, InPath};
use crate::serve::problem::Problem;
use crate::serve::rest::memories::{apply_patch, readable};

/// What a form says of a memory.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct MemoryFields {
    /// The revision that its sender has seen.
    revision: String,
    status: String,
    /// Empty for none.
    context: String,
    metadata: String,
    /// Empty for never.
    expires: String,
}

pub(super) async fn show(visitor: Visitor, InPath(id): InPath<MemoryId>) -> Result<Page, Problem> {
    let memory = changeable(&visitor, id).await?;
    Ok(visitor.page(Section::Memories, form(&memory, &MemoryFields::of(&memory), None)))
}

pub(super) async fn save(
    visitor: Visitor,
    InPath(id): InPath<MemoryId>,
    Form(fields): Form<MemoryFields>,
) -> Result<Response, Problem> {
    let seen = revision(&fields.revision)?;
    let memory = changeable(&visitor, id).await?;
    let patch = match fields.patch(&memory) {
        Ok(patch) => patch,
        Err(error) => {
            let page = visitor.page(Section::Memories, form(&memory, &fields, Some(error.message())));
            return Ok(page.with_status(StatusCode::UNPROCESSABLE_ENTITY).into_response());
        }
    };
    let record = links::memory(id);
    // Also when the same form comes twice.
    if patch.is_empty() {
        return Ok(Redirect::to(&record).into_response());
    }
    match apply_patch(&visitor.server, &visitor.access, id, patch.if_revision(seen), true).await {
        Ok(_) => Ok(Redirect::to(&record).into_response()),
        Err(problem) if is_stale(&problem) => {
            let written = [("Context", fields.context.as_str()), ("Metadata", &fields.metadata)];
            Ok(stale(&visitor, Section::Memories, &record, &written).into_response())
        }
        Err(problem) => Err(problem),
    }
}

/// The memory, if the visitor may change it.
pub(super) async fn changeable(visitor: &Visitor, id: MemoryId) -> Result<Memory, Problem> {
    let memory = readable(&visitor.server, &visitor.access, id).await?;
    visitor.access.check_ledger_write()?;
    visitor.access.check_write(&memory.space_id)?;
    visitor.access.check_metadata(&memory.metadata)?;
    Ok(memory)
}

impl MemoryFields {
    fn of(memory: &Memory) -> Self {
        Self {
            revision: memory.revision.to_string(),
            status: memory.status.as_str().to_owned(),
            context: context(memory).shown(),
            metadata: Editable::of_metadata(&memory.metadata).shown(),
            expires: memory.expires_at.map(date).unwrap_or_default(),
        }
    }

    /// What it changes of a memory.
    fn patch(&self, memory: &Memory) -> memory_core::Result<MemoryPatch> {
        let mut patch = MemoryPatch::new();
        if self.status != memory.status.as_str() {
            patch = patch.with_status(Status::parse(&self.status)?);
        }
        if let Some(text) = context(memory).changed(&self.context) {
            patch = match filled(&text) {
                Some(text) => patch.set_context(Context::parse(text)?),
                None => patch.clear_context(),
            };
        }
        if let Some(text) = Editable::of_metadata(&memory.metadata).changed(&self.metadata) {
            let metadata = Metadata::parse(&text)?;
            if metadata != memory.metadata {
                patch = patch.replace_metadata(metadata);
            }
        }
        if self.expires != memory.expires_at.map(date).unwrap_or_default() {
            patch = match moment("the expiry", &self.expires)? {
                Some(time) => patch.set_expiry(time),
                None => patch.clear_expiry(),
            };
        }
        Ok(patch)
    }
}

fn context(memory: &Memory) -> Editable {
    Editable::of(memory.context.as_ref().map_or("", |context| context.as_str()))
}

fn form(memory: &Memory, fields: &MemoryFields, mistake: Option<&str>) -> Markup {
    let statuses = Status::ALL.map(|status| (status.as_str(), status.as_str()));
    html! {
        h1 { "Edit a memory" }
        p { a href=(links::memory(memory.id)) { "Back to the memory" } }
        @if let Some(mistake) = mistake { (alert(mistake)) }
        form method="post" action=(format!("{MEMORY}/{}", memory.id)) class="fields" {
            input type="hidden" name="revision" value=(fields.revision);
            (choice("status", "Status", &statuses, &fields.status))
            (time_input("expires", "Expires (UTC; empty for never)", &fields.expires))
            (context(memory).field("context", "Context, as JSON (empty for none)", &fields.context))
            (Editable::of_metadata(&memory.metadata).field("metadata", "Metadata, as a JSON object", &fields.metadata))
            p { button type="submit" { "Save" } }
        }
    }
}
