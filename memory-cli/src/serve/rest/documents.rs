//! The documents.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use memory_core::{Document, DocumentQuery, DocumentSelection, Expect, Filter, Revision};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::history::ThenParams;
use super::params::{CollectionPath, DocumentPath, PageParams, RemovalParams, SearchParams};
use super::vectors::Given;
use super::wire::documents::{
    CollectionsBody, DocumentBody, DocumentPageBody, NewDocumentBody, PutBody, PutDocumentBody, PutManyBody, PutsBody,
    RemovedBody,
};
use super::wire::page::{next, unreadable};
use crate::serve::access::Access;
use crate::serve::extract::{Body, InPath, Parameters, entity_tag, if_match, if_none_match, mistake};
use crate::serve::problem::Problem;
use crate::serve::records::{readable_document, remove_by_id};
use crate::serve::scope::SpaceParams;
use crate::serve::state::Server;

/// How many documents a removal takes at most unless the caller says otherwise.
const DEFAULT_MAX: usize = 10;

/// Creates a document under a new id.
#[utoipa::path(
    post,
    path = "/v1/documents/{collection}",
    operation_id = "add_document",
    tag = "documents",
    request_body = NewDocumentBody,
    params(CollectionPath),
    responses((status = 201, body = DocumentBody, headers(("Location" = String), ("ETag" = String))), Problem)
)]
pub(super) async fn add(
    State(server): State<Server>,
    Extension(access): Extension<Access>,
    InPath(CollectionPath { collection }): InPath<CollectionPath>,
    Body(mut body): Body<NewDocumentBody>,
) -> Result<Response, Problem> {
    access.check_collection(&collection)?;
    let vector = body.vector.take();
    let write = access.confine_write(body.into_write(collection))?;
    let given = Given::check(&server, [vector]).await?;
    let document = server.documents.put(write).await?;
    given.keep(&server, [&document]).await?;
    Ok(created(document))
}

/// Creates or replaces many documents in any collections, all or none.
#[utoipa::path(
    post,
    path = "/v1/documents",
    operation_id = "put_documents",
    tag = "documents",
    request_body = PutsBody,
    responses((status = 200, body = PutManyBody), Problem)
)]
pub(super) async fn put_many(
    State(server): State<Server>,
    Extension(access): Extension<Access>,
    Body(mut body): Body<PutsBody>,
) -> Result<Json<PutManyBody>, Problem> {
    let vectors: Vec<_> = body.documents.iter_mut().map(|document| document.vector.take()).collect();
    let write = |put: PutBody| {
        access.check_collection(&put.collection)?;
        access.confine_write(put.into_write())
    };
    let writes = body.documents.into_iter().map(write).collect::<memory_core::Result<_>>()?;
    let given = Given::check(&server, vectors).await?;
    let documents = server.documents.put_many(writes).await?;
    given.keep(&server, &documents).await?;
    Ok(Json(PutManyBody { documents: documents.into_iter().map(PutDocumentBody::from).collect() }))
}

/// Finds documents.
#[utoipa::path(
    get,
    path = "/v1/documents/{collection}",
    operation_id = "query_documents",
    tag = "documents",
    params(CollectionPath, SpaceParams, SearchParams, PageParams),
    responses((status = 200, body = DocumentPageBody), Problem)
)]
pub(super) async fn query(
    State(server): State<Server>,
    Extension(access): Extension<Access>,
    InPath(CollectionPath { collection }): InPath<CollectionPath>,
    Parameters((spaces, search, page)): Parameters<(SpaceParams, SearchParams, PageParams)>,
) -> Result<Json<DocumentPageBody>, Problem> {
    access.check_collection(&collection)?;
    let (query, _patterns) = spaces.apply(DocumentQuery::builder(collection), &server.limits).await?;
    let query = access.confine(page.apply(search.apply(query))).build()?;
    let page = server.documents.query(&query).await?;
    Ok(Json(DocumentPageBody {
        documents: page.documents.into_iter().map(DocumentBody::from).collect(),
        unreadable: unreadable(page.unreadable, &access),
        next: next(page.next),
    }))
}

/// Removes documents, or none if more than `max` are found.
#[utoipa::path(
    delete,
    path = "/v1/documents/{collection}",
    operation_id = "remove_documents",
    tag = "documents",
    params(CollectionPath, SpaceParams, SearchParams, RemovalParams),
    responses((status = 200, body = RemovedBody), Problem)
)]
pub(super) async fn remove(
    State(server): State<Server>,
    Extension(access): Extension<Access>,
    InPath(CollectionPath { collection }): InPath<CollectionPath>,
    Parameters((mut spaces, mut search, removal)): Parameters<(SpaceParams, SearchParams, RemovalParams)>,
) -> Result<Json<RemovedBody>, Problem> {
    access.check_collection(&collection)?;
    let ids = removal.ids()?;
    // Ids alone are looked for everywhere.
    spaces.all |= ids.is_some() && spaces.is_empty();
    let predicate = search.r#where.take().as_deref().map(Filter::parse).transpose()?;
    let (query, _patterns) = spaces.apply(DocumentQuery::builder(collection), &server.limits).await?;
    let query = access.confine(search.apply(query));
    // Asked before the caller is confined, whose filter would make a removal of everything look like one of something.
    let narrowed = predicate.clone().into_iter().fold(query.clone(), |query, filter| query.filter(filter));
    let select = |query| match &ids {
        Some(ids) => DocumentSelection::ids_where(ids.iter().cloned(), query),
        None => DocumentSelection::matching(query),
    };
    select(narrowed)?;
    let selection = select(access.confine_to_writable(query, predicate)?)?;
    let max = removal.max.unwrap_or(DEFAULT_MAX);
    let ids = if removal.dry_run {
        selection.preview(&*server.documents, max).await?
    } else {
        server.documents.remove(&access.sign(selection), max).await?
    };
    Ok(Json(RemovedBody { ids, dry_run: removal.dry_run }))
}

/// Creates or replaces a document.
#[utoipa::path(
    put,
    path = "/v1/documents/{collection}/{id}",
    operation_id = "put_document",
    tag = "documents",
    request_body = NewDocumentBody,
    params(
        DocumentPath,
        ("If-Match" = Option<String>, Header, description = "The revision that the document must have, in quotes"),
        ("If-None-Match" = Option<String>, Header, description = "`*`: the document must not exist")
    ),
    responses(
        (status = 200, body = DocumentBody, headers(("ETag" = String))),
        (status = 201, body = DocumentBody, headers(("Location" = String), ("ETag" = String))),
        Problem
    )
)]
pub(super) async fn put(
    State(server): State<Server>,
    Extension(access): Extension<Access>,
    InPath(DocumentPath { collection, id }): InPath<DocumentPath>,
    headers: HeaderMap,
    Body(mut body): Body<NewDocumentBody>,
) -> Result<Response, Problem> {
    access.check_collection(&collection)?;
    let vector = body.vector.take();
    let expect = match (if_match(&headers)?, if_none_match(&headers)?) {
        (Some(_), true) => return Err(mistake("If-Match and If-None-Match can't be combined: leave one out")),
        (Some(revision), false) => Expect::Revision(revision),
        (None, true) => Expect::Absent,
        (None, false) => Expect::Any,
    };
    let write = body.into_write(collection).with_id(id).expect(expect);
    let write = access.confine_write(write)?;
    let given = Given::check(&server, [vector]).await?;
    let document = server.documents.put(write).await;
    let document = document.map_err(|error| Problem::of_change(error, expect != Expect::Any))?;
    given.keep(&server, [&document]).await?;
    Ok(match document.revision {
        Revision::FIRST => created(document),
        revision => ([entity_tag(revision)], Json(DocumentBody::from(document))).into_response(),
    })
}

/// Shows one document, as it is now or as it was at a time.
#[utoipa::path(
    get,
    path = "/v1/documents/{collection}/{id}",
    operation_id = "get_document",
    tag = "documents",
    params(DocumentPath, ThenParams),
    responses((status = 200, body = DocumentBody, headers(("ETag" = String))), Problem)
)]
pub(super) async fn get(
    State(server): State<Server>,
    Extension(access): Extension<Access>,
    InPath(DocumentPath { collection, id }): InPath<DocumentPath>,
    Parameters((then,)): Parameters<(ThenParams,)>,
) -> Result<impl IntoResponse, Problem> {
    let document = readable_document(&server, &access, &collection, &id).await?;
    let document = then.document(&server, &access, document).await?;
    Ok(([entity_tag(document.revision)], Json(DocumentBody::from(document))))
}

/// Removes one document.
#[utoipa::path(
    delete,
    path = "/v1/documents/{collection}/{id}",
    operation_id = "remove_document",
    tag = "documents",
    params(DocumentPath),
    responses((status = 204), Problem)
)]
pub(super) async fn remove_one(
    State(server): State<Server>,
    Extension(access): Extension<Access>,
    InPath(DocumentPath { collection, id }): InPath<DocumentPath>,
) -> Result<StatusCode, Problem> {
    remove_by_id(&server, &access, collection, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lists the collections that hold a document.
#[utoipa::path(
    get,
    path = "/v1/collections",
    operation_id = "list_collections",
    tag = "documents",
    responses((status = 200, body = CollectionsBody), Problem)
)]
pub(super) async fn collections(
    State(server): State<Server>,
    Extension(access): Extension<Access>,
) -> Result<Json<CollectionsBody>, Problem> {
    let mut collections = server.documents.collections().await?;
    collections.retain(|collection| access.check_collection(collection).is_ok());
    Ok(Json(CollectionsBody { collections }))
}

fn created(document: Document) -> Response {
    let id = utf8_percent_encode(document.id.as_str(), NON_ALPHANUMERIC);
    let location = (header::LOCATION, format!("/v1/documents/{}/{id}", document.collection));
    let headers = [location, entity_tag(document.revision)];
    (StatusCode::CREATED, headers, Json(DocumentBody::from(document))).into_response()
}
