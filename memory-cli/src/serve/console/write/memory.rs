//! The form of a memory.

use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use memory_core::{Context, Memory, MemoryId, MemoryPatch, Metadata, Status};
use serde::Deserialize;

use super::seen::{is_stale, revision, stale};
use super::text::Editable;
use super::work::{ask_again, begins_again, check_free};
use crate::output::date;
use crate::serve::console::fields::{choice, filled, moment, time_input};
use crate::serve::console::links;
use crate::serve::console::page::{Page, Section, failed};
use crate::serve::console::paths::CHANGE_MEMORY;
use crate::serve::console::visitor::Visitor;
use crate::serve::extract::{Form, InPath};
use crate::serve::problem::Problem;
use crate::serve::records::{apply_patch, readable_memory};

/// The fields of the form.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct MemoryFields {
    /// The revision that the sender has seen.
    revision: String,
    // A field that is not sent stays unchanged, such as a text that is too long for the form.
    status: Option<String>,
    /// The JSON of the context; empty for none.
    context: Option<String>,
    metadata: Option<String>,
    /// The time of expiry, in UTC; empty for none.
    expires: Option<String>,
    /// Whether work may be done again; empty until that is confirmed.
    again: String,
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
    let record = links::memory(id);
    let done = match fields.patch(&memory) {
        // Also if the same form is sent twice.
        Ok(patch) if patch.is_empty() => Ok(()),
        Ok(patch) if begins_again(&memory, patch.status) && fields.again.is_empty() => {
            return Ok(ask_again(&visitor, &memory, address(&memory), fields.sent()).into_response());
        }
        Ok(patch) => match check_free(&memory) {
            Ok(()) => apply_patch(&visitor.server, &visitor.access, id, patch.if_revision(seen), true).await.map(drop),
            Err(problem) => Err(problem),
        },
        Err(error) => Err(error.into()),
    };
    let Err(problem) = done else { return Ok(Redirect::to(&record).into_response()) };
    if is_stale(&problem) {
        let texts = [
            ("Status", &fields.status),
            ("Expires", &fields.expires),
            ("Context", &fields.context),
            ("Metadata", &fields.metadata),
        ];
        let written = texts.map(|(name, text)| (name, text.as_deref().unwrap_or_default()));
        return Ok(stale(&visitor, Section::Memories, &record, &written).into_response());
    }
    // The form keeps what was entered.
    let page = visitor.page(Section::Memories, form(&memory, &fields, Some(&problem)));
    Ok(page.with_status(problem.status_code()).into_response())
}

/// Returns the memory, if the visitor may change it.
pub(super) async fn changeable(visitor: &Visitor, id: MemoryId) -> Result<Memory, Problem> {
    let memory = readable_memory(&visitor.server, &visitor.access, id).await?;
    visitor.access.check_ledger_write()?;
    visitor.access.check_write(&memory.space_id)?;
    visitor.access.check_metadata(&memory.metadata)?;
    Ok(memory)
}

impl MemoryFields {
    fn of(memory: &Memory) -> Self {
        Self {
            revision: memory.revision.to_string(),
            status: Some(memory.status.as_str().to_owned()),
            context: context(memory).shown(),
            metadata: Editable::of_metadata(&memory.metadata).shown(),
            expires: Some(memory.expires_at.map(date).unwrap_or_default()),
            again: String::new(),
        }
    }

    /// Returns the fields that were sent, by name.
    fn sent(self) -> Vec<(&'static str, String)> {
        let texts = [
            ("status", self.status),
            ("context", self.context),
            ("metadata", self.metadata),
            ("expires", self.expires),
        ];
        let texts = texts.into_iter().filter_map(|(name, text)| Some((name, text?)));
        [("revision", self.revision)].into_iter().chain(texts).collect()
    }

    /// Returns the patch of the form.
    fn patch(&self, memory: &Memory) -> memory_core::Result<MemoryPatch> {
        let mut patch = MemoryPatch::new();
        if let Some(status) = self.status.as_deref().filter(|status| *status != memory.status.as_str()) {
            patch = patch.with_status(Status::parse(status)?);
        }
        if let Some(text) = context(memory).changed(self.context.as_deref()) {
            patch = match filled(&text) {
                Some(text) => patch.set_context(Context::parse(text)?),
                None => patch.clear_context(),
            };
        }
        if let Some(text) = Editable::of_metadata(&memory.metadata).changed(self.metadata.as_deref()) {
            let metadata = Metadata::parse(&text)?;
            if metadata != memory.metadata {
                patch = patch.replace_metadata(metadata);
            }
        }
        let present = memory.expires_at.map(date).unwrap_or_default();
        if let Some(expires) = self.expires.as_ref().filter(|expires| **expires != present) {
            patch = match moment("the expiry", expires)? {
                Some(time) => patch.set_expiry(time),
                None => patch.clear_expiry(),
            };
        }
        Ok(patch)
    }
}

/// Where the form of a memory is sent.
fn address(memory: &Memory) -> String {
    format!("{CHANGE_MEMORY}/{}", memory.id)
}

fn context(memory: &Memory) -> Editable {
    Editable::of(memory.context.as_ref().map_or("", |context| context.as_str()))
}

fn form(memory: &Memory, fields: &MemoryFields, problem: Option<&Problem>) -> Markup {
    let statuses = Status::ALL.map(|status| (status.as_str(), status.as_str()));
    html! {
        h1 { "Edit a memory" }
        p { a href=(links::memory(memory.id)) { "Back to the memory" } }
        @if let Some(problem) = problem { (failed(problem)) }
        form method="post" action=(address(memory)) class="fields" {
            input type="hidden" name="revision" value=(fields.revision);
            (choice("status", "Status", &statuses, fields.status.as_deref().unwrap_or_default()))
            (time_input("expires", "Expires (UTC; empty for never)", fields.expires.as_deref().unwrap_or_default()))
            (Editable::field("context", "Context, as JSON (empty for none)", fields.context.as_deref()))
            (Editable::field("metadata", "Metadata, as a JSON object", fields.metadata.as_deref()))
            p { button type="submit" { "Save" } }
        }
    }
}
