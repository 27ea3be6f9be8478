//! Earlier versions, put in the place of what is there. That is a change like others, and can be taken back itself.

use axum::response::{IntoResponse, Redirect, Response};
use memory_core::{History, Json, JsonObject, Memory, MemoryId, MemoryPatch, Metadata, Record};
use memory_runtime::TASK;
use serde::Deserialize;

use super::actions::put_back_of_memory;
use super::document::{changeable as changeable_document, put, write_of};
use super::memory::changeable;
use super::seen::{is_stale, revision, stale};
use super::work::{ask_again, begins_again, check_free};
use crate::serve::access::Wanted;
use crate::serve::console::document::DocumentFields;
use crate::serve::console::links;
use crate::serve::console::page::Section;
use crate::serve::console::versions::{VersionFields, Versions};
use crate::serve::console::visitor::Visitor;
use crate::serve::extract::{Form, InPath, Parameters};
use crate::serve::problem::Problem;
use crate::serve::records::apply_patch;

/// Which version is put back.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PutBackFields {
    /// The revision that the record had for its sender.
    revision: String,
    /// The digest that a document had for its sender.
    seen: String,
    /// The revision of the version that is put back.
    version: String,
    /// The page of the history that it is on.
    cursor: String,
    /// Whether work may be done again; empty until that is confirmed.
    again: String,
}

pub(super) async fn memory(
    visitor: Visitor,
    InPath(id): InPath<MemoryId>,
    Form(fields): Form<PutBackFields>,
) -> Result<Response, Problem> {
    let seen = revision(&fields.revision)?;
    let memory = changeable(&visitor, id).await?;
    let Record::Memory(then) = fields.find(&visitor, History::of(id)).await? else {
        return Err(Problem::not_found("memory"));
    };
    let (record, patch) = (links::memory(id), back(&visitor, &memory, then).await?);
    if patch.is_empty() {
        return Ok(Redirect::to(&record).into_response());
    }
    if begins_again(&memory, patch.status) && fields.again.is_empty() {
        return Ok(ask_again(&visitor, &memory, put_back_of_memory(&memory), fields.sent()).into_response());
    }
    check_free(&memory)?;
    match apply_patch(&visitor.server, &visitor.access, id, patch.if_revision(seen), true).await {
        Ok(_) => Ok(Redirect::to(&record).into_response()),
        Err(problem) if is_stale(&problem) => Ok(stale(&visitor, Section::Memories, &record, &[]).into_response()),
        Err(problem) => Err(problem),
    }
}

pub(super) async fn document(
    visitor: Visitor,
    Parameters((name,)): Parameters<(DocumentFields,)>,
    Form(fields): Form<PutBackFields>,
) -> Result<Response, Problem> {
    let seen = revision(&fields.revision)?;
    let document = changeable_document(&visitor, &name).await?;
    let history = History::of(&document);
    let record = links::document(&document);
    let Record::Document(then) = fields.find(&visitor, history).await? else {
        return Err(Problem::not_found("document"));
    };
    let write = write_of(&document, then.space_id, then.content, then.metadata);
    match put(&visitor, &document, write, seen, &fields.seen).await {
        Ok(()) => Ok(Redirect::to(&record).into_response()),
        Err(problem) if is_stale(&problem) => Ok(stale(&visitor, Section::Documents, &record, &[]).into_response()),
        Err(problem) => Err(problem),
    }
}

impl PutBackFields {
    async fn find(&self, visitor: &Visitor, history: History) -> Result<Record, Problem> {
        let version = revision(&self.version)?;
        Versions::one(visitor, &VersionFields { cursor: self.cursor.clone() }, history, version).await
    }

    /// What was sent for a memory, by the names of the fields.
    fn sent(self) -> Vec<(&'static str, String)> {
        vec![("revision", self.revision), ("version", self.version), ("cursor", self.cursor)]
    }
}

/// Makes the patch that restores the status, the metadata and the context of a version. These stay as they are now: the
/// expiry, since an earlier time may be over; the claim of a program; and members that no version has.
async fn back(visitor: &Visitor, now: &Memory, then: Memory) -> Result<MemoryPatch, Problem> {
    let newest = visitor.server.provider.history(&History::of(now.id).limit(1)?).await;
    let newest = newest.map_err(|error| visitor.access.told(error, Wanted::Itself))?.versions.pop();
    let mut metadata = then.metadata.to_object();
    let present = now.metadata.to_object();
    if let Some(Record::Memory(newest)) = newest.and_then(|version| version.record) {
        keep(&mut metadata, &present, &newest.metadata.to_object());
    }
    match present.get(TASK) {
        Some(task) => metadata.insert(TASK.to_owned(), task.clone()),
        None => metadata.remove(TASK),
    };
    let metadata = Metadata::from_object(&metadata)?;
    let mut patch = MemoryPatch::new();
    if then.status != now.status {
        patch = patch.with_status(then.status);
    }
    if metadata != now.metadata {
        patch = patch.replace_metadata(metadata);
    }
    if then.context == now.context {
        return Ok(patch);
    }
    Ok(match then.context {
        Some(context) => patch.set_context(context),
        None => patch.clear_context(),
    })
}

/// Keeps the members that are there now and that the version of now lacks, as transient ones.
fn keep(then: &mut JsonObject, now: &JsonObject, version: &JsonObject) {
    for (key, value) in now {
        match (value, version.get(key), then.get_mut(key)) {
            (_, None, _) => drop(then.insert(key.clone(), value.clone())),
            (Json::Object(value), Some(Json::Object(version)), Some(Json::Object(then))) => keep(then, value, version),
            _ => {}
        }
    }
}
