//! Erasure, for operators.

use std::collections::BTreeSet;
use std::time::Instant;

use axum::extract::State;
use axum::{Extension, Json};
use memory_core::{
    Collection, DocumentQuery, Erasure, Error, ErrorKind, Filter, Kind, Ledger, MemoryId, MemoryQuery, QueryBuilder,
    RecordId, Spaces, Timestamp,
};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::wire::memories::StatusName;
use super::wire::reading::{count, object, time};
use crate::collections::is_copied;
use crate::serve::access::Access;
use crate::serve::extract::Body;
use crate::serve::problem::Problem;
use crate::serve::records::{check_erasable, erase_slice, erasure_of_ids};
use crate::serve::scope::SpaceParams;
use crate::serve::state::Server;

/// The most collections that are looked at without being named, since each call begins at the first one.
const MAX_COLLECTIONS: usize = 100;

/// The records to erase, by `ids` or by a `query`, and the reason.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct EraseBody {
    /// The ids of at most 1,000 memories.
    #[serde(default)]
    #[schema(value_type = Option<Vec<String>>, min_items = 1, max_items = 1000)]
    ids: Option<Vec<MemoryId>>,
    /// The records that this query finds.
    #[serde(default, deserialize_with = "object")]
    query: Option<EraseQuery>,
    /// Whether to erase also the documents that the spaces, `where` and `text` of the query find.
    #[serde(default)]
    documents: bool,
    /// The collections of the documents. By default all that the caller may use; required if these are more than 100.
    #[serde(default, deserialize_with = "named")]
    #[schema(value_type = Vec<String>, min_items = 1)]
    collections: Vec<Collection>,
    /// The reason, in one line of at most 1,024 bytes. The tombstone of each record keeps it, so it should not name who is to be forgotten.
    #[schema(min_length = 1, max_length = 1024)]
    reason: String,
    /// The limit of a call with a query, in records: 100 by default, at most 1,000.
    #[serde(default, deserialize_with = "count")]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Selects records: the parameters of `GET /v1/memories`. A parameter that may be repeated there is a list here.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EraseQuery {
    /// The spaces with these ids.
    #[serde(default, deserialize_with = "named")]
    #[schema(min_items = 1)]
    space: Vec<String>,
    /// These spaces and all below them: the safe choice to keep tenants apart.
    #[serde(default, deserialize_with = "named")]
    #[schema(min_items = 1)]
    under: Vec<String>,
    /// Spaces that start with these bytes; `guild1` also finds `guild12`.
    #[serde(default, deserialize_with = "named")]
    #[schema(min_items = 1)]
    prefix: Vec<String>,
    /// Spaces whose whole id matches a pattern of `*`, `?` and `[a-z]`.
    #[serde(default, deserialize_with = "named")]
    #[schema(min_items = 1)]
    glob: Vec<String>,
    /// Spaces in whose id a regular expression finds a match.
    #[serde(default, deserialize_with = "named")]
    #[schema(min_items = 1)]
    regex: Vec<String>,
    /// Every space. Requires a status, a condition or words.
    #[serde(default)]
    all: bool,
    /// A condition, as in `metadata.user = 'ana'`.
    #[serde(default)]
    r#where: Option<String>,
    /// Words, of which a record must hold at least one.
    #[serde(default)]
    text: Option<String>,
    /// Memories created after this time (exclusive), in milliseconds since 1970 UTC.
    #[serde(default, deserialize_with = "time")]
    #[schema(value_type = Option<i64>, minimum = -8_640_000_000_000_i64, maximum = 8_640_000_000_000_i64)]
    after: Option<Timestamp>,
    /// Memories created before this time (exclusive), in milliseconds since 1970 UTC.
    #[serde(default, deserialize_with = "time")]
    #[schema(value_type = Option<i64>, minimum = -8_640_000_000_000_i64, maximum = 8_640_000_000_000_i64)]
    before: Option<Timestamp>,
    /// Memories with one of these statuses.
    #[serde(default, deserialize_with = "named")]
    #[schema(min_items = 1)]
    status: Vec<StatusName>,
    /// Excludes the memories with these ids.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    exclude: Vec<MemoryId>,
}

/// The records that one call has erased.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ErasedBody {
    records: Vec<ErasedRecord>,
    /// Whether nothing is left. Otherwise the same call erases the next slice.
    is_complete: bool,
}

/// The name of an erased record.
#[derive(Debug, Serialize, ToSchema)]
struct ErasedRecord {
    /// The collection of a document; a memory has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    collection: Option<Collection>,
    id: String,
}

/// Erases memories, and with `documents` also documents, with their history: one slice per call.
///
/// A slice is erased as a whole or not at all. Repeat the call until `isComplete` is true. Requires a caller that may erase (a token of a
/// file needs `erase = true`) and write the ledger, and erases only where it may read and write.
#[utoipa::path(
    post,
    path = "/v1/erase",
    operation_id = "erase",
    tag = "erasure",
    request_body = EraseBody,
    responses((status = 200, body = ErasedBody), Problem)
)]
pub(super) async fn erase(
    State(server): State<Server>,
    Extension(access): Extension<Access>,
    Body(body): Body<EraseBody>,
) -> Result<Json<ErasedBody>, Problem> {
    access.check_erasure()?;
    let begun = Instant::now();
    let EraseBody { ids, query, documents, collections, reason, limit } = body;
    let collections = match (documents, collections.is_empty()) {
        (false, false) => return Err(Error::invalid("collections needs documents: true").into()),
        (false, true) => Vec::new(),
        (true, is_every) => usable(&server, &access, (!is_every).then_some(collections)).await?,
    };
    let erasures = match (ids, query) {
        (Some(ids), None) if !documents && limit.is_none() => erasure_of_ids(&server, &access, ids, &reason).await?,
        (Some(_), None) => {
            return Err(
                Error::invalid("ids name memories, which one call erases: leave out documents and limit").into()
            );
        }
        (None, Some(query)) if documents && query.is_of_memories() => {
            return Err(Error::invalid(
                "after, before, status and exclude are conditions on memories: leave out these, or leave out documents",
            )
            .into());
        }
        (None, Some(query)) => {
            let mut erasures = query.erasures(&server, &access, collections, &reason).await?;
            if let Some(limit) = limit {
                erasures = erasures.into_iter().map(|one| one.limit(limit)).collect::<memory_core::Result<_>>()?;
            }
            erasures
        }
        _ => return Err(Error::invalid("an erasure needs ids or a query, and not both").into()),
    };
    let count = erasures.len();
    for (place, erasure) in erasures.into_iter().enumerate() {
        // What is begun later could erase a slice of which nobody hears, since the request has ended before.
        if begun.elapsed() > server.limits.time / 2 {
            return Err(too_slow().into());
        }
        let erased = erase_slice(&server, &access, erasure).await?;
        // One slice a call, since it is one step: what finds nothing takes none.
        if !erased.records.is_empty() || !erased.is_complete {
            let is_complete = erased.is_complete && place + 1 == count;
            let records = erased.records.into_iter().map(ErasedRecord::from).collect();
            return Ok(Json(ErasedBody { records, is_complete }));
        }
    }
    Ok(Json(ErasedBody { records: Vec::new(), is_complete: true }))
}

/// The collections of which documents are erased.
async fn usable(server: &Server, access: &Access, named: Option<Vec<Collection>>) -> Result<Vec<Collection>, Problem> {
    if let Some(named) = named {
        named.iter().try_for_each(|collection| check_erasable(access, collection))?;
        return Ok(named.into_iter().collect::<BTreeSet<_>>().into_iter().collect());
    }
    let mut collections = server.documents.collections().await?;
    collections.retain(|collection| is_copied(collection) && access.check_collection(collection).is_ok());
    if collections.len() > MAX_COLLECTIONS {
        let message = format!("there are more than {MAX_COLLECTIONS} collections: name some of them in collections");
        return Err(Error::invalid(message).into());
    }
    Ok(collections)
}

/// Why a call ends that has erased nothing so far.
fn too_slow() -> Error {
    let message = "the search took too long, and nothing was erased: name fewer collections or ids";
    Error::new(ErrorKind::Timeout, message).retryable()
}

/// A list that names something: an empty one would select what one that is left out does.
fn named<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let names = Vec::<T>::deserialize(deserializer)?;
    if names.is_empty() {
        return Err(D::Error::custom(Error::invalid("a list is empty: name something in it, or leave it out")));
    }
    Ok(names)
}

impl EraseQuery {
    /// Whether it asks for what memories alone have.
    fn is_of_memories(&self) -> bool {
        let has_times = self.after.is_some() || self.before.is_some();
        has_times || !self.status.is_empty() || !self.exclude.is_empty()
    }

    /// The erasures of what it finds where the caller may read and write: of the memories, and of the documents of each of these collections.
    async fn erasures(
        self,
        server: &Server,
        access: &Access,
        collections: Vec<Collection>,
        reason: &str,
    ) -> Result<Vec<Erasure>, Problem> {
        let Self { space, under, prefix, glob, regex, all, r#where, text, after, before, status, exclude } = self;
        let spaces = SpaceParams { space, under, prefix, glob, regex, all };
        let (memories, _patterns) = spaces.apply(MemoryQuery::builder(), &server.limits).await?;
        let memories = access.confine(memories);
        let memories = after.into_iter().fold(memories, QueryBuilder::created_after);
        let memories = before.into_iter().fold(memories, QueryBuilder::created_before);
        let memories = status.into_iter().fold(memories, |query, status| query.status(status.into()));
        let memories: QueryBuilder<Ledger> = exclude.into_iter().fold(memories, QueryBuilder::exclude);
        let predicate = r#where.as_deref().map(Filter::parse).transpose()?;
        // Asked before the caller is confined, whose filter would make an erasure of everything look like one of something.
        let unconfined = with(memories.clone(), predicate.as_ref(), text.as_deref());
        Erasure::memories(unconfined, reason)?;
        let spaces = memories.clone().build()?.spaces().clone();
        let memories = access.confine_to_writable(with(memories, None, text.as_deref()), predicate.clone())?;
        let mut erasures = vec![Erasure::memories(memories, reason)?];
        for collection in collections {
            let query = access.confine(in_spaces(DocumentQuery::builder(collection), &spaces));
            let query = access.confine_to_writable(with(query, None, text.as_deref()), predicate.clone())?;
            erasures.push(Erasure::documents(query, reason)?);
        }
        Ok(erasures)
    }
}

/// What satisfies a condition and holds words, if there are such.
fn with<K: Kind>(query: QueryBuilder<K>, filter: Option<&Filter>, text: Option<&str>) -> QueryBuilder<K> {
    let query = filter.cloned().into_iter().fold(query, QueryBuilder::filter);
    text.into_iter().fold(query, QueryBuilder::text)
}

/// What lies in these spaces, whose patterns are compiled once for all collections.
fn in_spaces<K: Kind>(query: QueryBuilder<K>, spaces: &Spaces) -> QueryBuilder<K> {
    match spaces {
        Spaces::All => query.all(),
        Spaces::Any(selectors) => selectors.iter().cloned().fold(query, QueryBuilder::selector),
    }
}

impl From<RecordId> for ErasedRecord {
    fn from(record: RecordId) -> Self {
        match record {
            RecordId::Memory(id) => Self { collection: None, id: id.to_string() },
            RecordId::Document { collection, id } => Self { collection: Some(collection), id: id.to_string() },
        }
    }
}
