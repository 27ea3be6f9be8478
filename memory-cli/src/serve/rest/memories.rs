//! The ledger.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use axum::{Extension, Json};
use memory_core::{MemoryId, MemoryQuery, Revision, TextHash};

use super::history::ThenParams;
use super::params::{LedgerParams, PageParams, SearchParams};
use super::vectors::{Given, StoredVersion};
use super::wire::memories::{
    BatchBody, MemoryBody, MemoryPageBody, NewMemoryBody, PatchBody, Stored, StoredMany, UpdatedBody,
};
use super::wire::page::{next, unreadable};
use crate::serve::access::{Access, Wanted};
use crate::serve::extract::{Body, InPath, Parameters, entity_tag, idempotency_key, if_match};
use crate::serve::problem::Problem;
use crate::serve::records::{apply_patch, readable_memory};
use crate::serve::scope::SpaceParams;
use crate::serve::state::Server;

/// Stores a memory.
///
/// A second store with the same idempotency key, trigger and space stores nothing and returns the first id; another trigger or space is
/// refused.
#[utoipa::path(
    post,
    path = "/v1/memories",
    operation_id = "store_memory",
    tag = "memories",
    request_body = NewMemoryBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same as `idempotencyKey` in the body")),
    responses((status = 201, body = Stored, headers(("Location" = String))), Problem)
)]
pub(super) async fn store(
    State(server): State<Server>,
    Extension(access): Extension<Access>,
    headers: HeaderMap,
    Body(mut body): Body<NewMemoryBody>,
) -> Result<impl IntoResponse, Problem> {
    if let Some(key) = idempotency_key(&headers)? {
        if body.idempotency_key.as_ref().is_some_and(|other| *other != key) {
            return Err(differ("the header Idempotency-Key and idempotencyKey in the body differ"));
        }
        body.idempotency_key = Some(key);
    }
    access.check_ledger_write()?;
    access.check_write(&body.space_id)?;
    access.check_metadata(&body.metadata)?;
    let given = Given::check(&server, [body.vector.take()]).await?;
    let memory = body.into_memory();
    let texts = TextHash::from(&memory);
    let id = server.provider.store(memory).await.map_err(|error| access.told(error, Wanted::Key))?;
    // One that was there before has another context, or has changed since.
    given.keep(&server, [StoredVersion { record: id.into(), revision: Revision::FIRST, texts }]).await?;
    Ok((StatusCode::CREATED, [(header::LOCATION, format!("/v1/memories/{id}"))], Json(Stored { id })))
}

/// Stores many memories, all or none.
#[utoipa::path(
    post,
    path = "/v1/memories/batch",
    operation_id = "store_memories",
    tag = "memories",
    request_body = BatchBody,
    responses((status = 201, body = StoredMany), Problem)
)]
pub(super) async fn store_many(
    State(server): State<Server>,
    Extension(access): Extension<Access>,
    Body(mut body): Body<BatchBody>,
) -> Result<impl IntoResponse, Problem> {
    access.check_ledger_write()?;
    for memory in &body.memories {
        access.check_write(&memory.space_id)?;
        access.check_metadata(&memory.metadata)?;
    }
    let given = Given::check(&server, body.memories.iter_mut().map(|memory| memory.vector.take())).await?;
    let memories: Vec<_> = body.memories.into_iter().map(NewMemoryBody::into_memory).collect();
    let texts: Vec<_> = memories.iter().map(TextHash::from).collect();
    let ids = server.provider.store_many(memories).await.map_err(|error| access.told(error, Wanted::Key))?;
    let stored = |(id, texts): (&MemoryId, _)| StoredVersion { record: (*id).into(), revision: Revision::FIRST, texts };
    given.keep(&server, ids.iter().zip(texts).map(stored)).await?;
    Ok((StatusCode::CREATED, Json(StoredMany { ids })))
}

/// Finds memories by spaces and conditions.
#[utoipa::path(
    get,
    path = "/v1/memories",
    operation_id = "query_memories",
    tag = "memories",
    params(SpaceParams, SearchParams, LedgerParams, PageParams),
    responses((status = 200, body = MemoryPageBody), Problem)
)]
pub(super) async fn query(
    State(server): State<Server>,
    Extension(access): Extension<Access>,
    Parameters((spaces, search, ledger, page)): Parameters<(SpaceParams, SearchParams, LedgerParams, PageParams)>,
) -> Result<Json<MemoryPageBody>, Problem> {
    let (query, _patterns) = spaces.apply(MemoryQuery::builder(), &server.limits).await?;
    let query = ledger.apply(search.apply(query))?;
    let query = access.confine(page.apply(query)).build()?;
    let page = server.provider.query(&query).await?;
    Ok(Json(MemoryPageBody {
        memories: page.memories.into_iter().map(MemoryBody::from).collect(),
        unreadable: unreadable(page.unreadable, &access),
        next: next(page.next),
    }))
}

/// Shows one memory, as it is now or as it was at a time.
#[utoipa::path(
    get,
    path = "/v1/memories/{id}",
    operation_id = "get_memory",
    tag = "memories",
    params(("id" = String, Path, format = "uuid"), ThenParams),
    responses((status = 200, body = MemoryBody, headers(("ETag" = String))), Problem)
)]
pub(super) async fn get(
    State(server): State<Server>,
    Extension(access): Extension<Access>,
    InPath(id): InPath<MemoryId>,
    Parameters((then,)): Parameters<(ThenParams,)>,
) -> Result<impl IntoResponse, Problem> {
    let memory = then.memory(&server, &access, readable_memory(&server, &access, id).await?).await?;
    Ok(([entity_tag(memory.revision)], Json(MemoryBody::from(memory))))
}

/// Changes the context, the metadata, the status or the expiry of a memory.
#[utoipa::path(
    patch,
    path = "/v1/memories/{id}",
    operation_id = "update_memory",
    tag = "memories",
    request_body = PatchBody,
    params(
        ("id" = String, Path, format = "uuid"),
        ("If-Match" = Option<String>, Header, description = "The revision that the memory must have, in quotes, as in the header ETag")
    ),
    responses((status = 200, body = UpdatedBody, headers(("ETag" = String))), Problem)
)]
pub(super) async fn update(
    State(server): State<Server>,
    Extension(access): Extension<Access>,
    InPath(id): InPath<MemoryId>,
    headers: HeaderMap,
    Body(body): Body<PatchBody>,
) -> Result<impl IntoResponse, Problem> {
    let mut patch = body.into_patch();
    let tag = if_match(&headers)?;
    if tag.is_some() && patch.if_revision.is_some() && tag != patch.if_revision {
        return Err(differ("the header If-Match and ifRevision in the body differ"));
    }
    patch.if_revision = patch.if_revision.or(tag);
    let updated = apply_patch(&server, &access, id, patch, tag.is_some()).await?;
    let body = UpdatedBody { revision: updated.revision, updated_at: updated.updated_at };
    Ok(([entity_tag(updated.revision)], Json(body)))
}

/// Two parts of a request that say different things.
fn differ(detail: &str) -> Problem {
    Problem::new(StatusCode::CONFLICT, detail)
}
