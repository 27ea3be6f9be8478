//! The versions of memories and documents, over HTTP.

use axum::extract::State;
use axum::{Extension, Json};
use memory_core::{
    Actor, Document, History, HistoryPage, Memory, MemoryId, Record, RecordId, Revision, Spaces, Timestamp, Version,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::params::DocumentPath;
use super::wire::documents::DocumentBody;
use super::wire::memories::MemoryBody;
use super::wire::page::next;
use crate::serve::access::{Access, Wanted};
use crate::serve::extract::{InPath, Parameters};
use crate::serve::problem::Problem;
use crate::serve::records::{readable_document, readable_memory};
use crate::serve::state::Server;

/// Which versions are shown.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct VersionParams {
    /// The limit of the page: 50 by default, at most 1,000.
    #[param(maximum = 1000)]
    limit: Option<usize>,
    /// `next` of an earlier page of the same history.
    cursor: Option<String>,
}

/// Whether a history goes on behind removals.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct RemovedParams {
    /// Shows removals too, and the versions before them. Requires a caller that may read every space and use every collection.
    removed: bool,
}

/// The time of which something is shown.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", default)]
#[into_params(parameter_in = Query)]
pub(super) struct ThenParams {
    /// Shows the record as of this time, in milliseconds since 1970 UTC.
    as_of: Option<i64>,
}

/// Versions of a record, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct HistoryBody {
    versions: Vec<VersionBody>,
    /// The `cursor` of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// A version of a record, which held from its commit to the next one.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Version)]
pub(crate) struct VersionBody {
    #[schema(value_type = u64)]
    revision: Revision,
    /// When it was committed, in milliseconds since 1970 UTC; absent if that was not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    committed_at: Option<Timestamp>,
    /// The actor who made the change, if one was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    actor: Option<Actor>,
    /// The memory as it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<MemoryBody>,
    /// The document as it was; absent if this is its removal.
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<DocumentBody>,
}

impl From<Version> for VersionBody {
    fn from(version: Version) -> Self {
        let (memory, document) = match version.record {
            Some(Record::Memory(memory)) => (Some(MemoryBody::from(memory)), None),
            Some(Record::Document(document)) => (None, Some(DocumentBody::from(document))),
            None => (None, None),
        };
        let Version { revision, committed_at, actor, .. } = version;
        Self { revision, committed_at, actor, memory, document }
    }
}

/// Shows the versions of a memory, newest first.
#[utoipa::path(
    get,
    path = "/v1/memories/{id}/history",
    operation_id = "get_memory_history",
    tag = "memories",
    params(("id" = String, Path, format = "uuid"), VersionParams),
    responses((status = 200, body = HistoryBody), Problem)
)]
pub(super) async fn of_memory(
    State(server): State<Server>,
    Extension(access): Extension<Access>,
    InPath(id): InPath<MemoryId>,
    Parameters((versions,)): Parameters<(VersionParams,)>,
) -> Result<Json<HistoryBody>, Problem> {
    // The space of a memory never changes.
    readable_memory(&server, &access, id).await?;
    let page = server.provider.history(&versions.apply(History::of(id))?).await;
    let page = page.map_err(|error| access.told(error, Wanted::Itself))?;
    Ok(Json(HistoryBody::from(page)))
}

/// Shows the versions of a document, newest first.
#[utoipa::path(
    get,
    path = "/v1/documents/{collection}/{id}/history",
    operation_id = "get_document_history",
    tag = "documents",
    params(DocumentPath, VersionParams, RemovedParams),
    responses((status = 200, body = HistoryBody), Problem)
)]
pub(super) async fn of_document(
    State(server): State<Server>,
    Extension(access): Extension<Access>,
    InPath(DocumentPath { collection, id }): InPath<DocumentPath>,
    Parameters((versions, RemovedParams { removed })): Parameters<(VersionParams, RemovedParams)>,
) -> Result<Json<HistoryBody>, Problem> {
    access.check_collection(&collection)?;
    let mut history = versions.apply(History::of((collection.clone(), id.clone())))?;
    if removed {
        // What was in a space that one may read now may have been in another before.
        if access.readable != Spaces::All || access.collections.is_some() {
            return Err(Problem::new(
                axum::http::StatusCode::FORBIDDEN,
                "removed: only callers that may read every space and use every collection get removals",
            ));
        }
        history = history.with_removed();
    } else {
        readable_document(&server, &access, &collection, &id).await?;
    }
    let mut page = server.provider.history(&history).await?;
    page.versions.retain(|version| match &version.record {
        Some(Record::Document(document)) => access.may_read_document(document),
        Some(Record::Memory(_)) | None => true,
    });
    if removed && page.versions.is_empty() && history.page_limit() > 0 && history.page_cursor().is_none() {
        return Err(Problem::not_found("document"));
    }
    Ok(Json(HistoryBody::from(page)))
}

impl ThenParams {
    /// A memory as it was, if the caller asks for that; nothing else where it doesn't.
    pub(super) async fn memory(&self, server: &Server, access: &Access, memory: Memory) -> Result<Memory, Problem> {
        let Some(time) = self.time()? else { return Ok(memory) };
        let then = server.provider.get_as_of(&memory.id.into(), time).await;
        match then.map_err(|error| access.told(error, Wanted::Itself))? {
            Some(Record::Memory(memory)) => Ok(memory),
            Some(Record::Document(_)) | None => Err(Problem::not_found("memory")),
        }
    }

    /// A document as it was, if the caller asks for that.
    pub(super) async fn document(&self, server: &Server, access: &Access, now: Document) -> Result<Document, Problem> {
        let Some(time) = self.time()? else { return Ok(now) };
        let record = RecordId::Document { collection: now.collection, id: now.id };
        match server.provider.get_as_of(&record, time).await? {
            Some(Record::Document(document)) if access.may_read_document(&document) => Ok(document),
            _ => Err(Problem::not_found("document")),
        }
    }

    fn time(&self) -> memory_core::Result<Option<Timestamp>> {
        self.as_of.map(Timestamp::from_millis).transpose()
    }
}

impl VersionParams {
    fn apply(self, history: History) -> memory_core::Result<History> {
        let history = self.cursor.into_iter().fold(history, History::cursor);
        self.limit.into_iter().try_fold(history, History::limit)
    }
}

impl From<HistoryPage> for HistoryBody {
    fn from(page: HistoryPage) -> Self {
        Self { versions: page.versions.into_iter().map(VersionBody::from).collect(), next: next(page.next) }
    }
}
