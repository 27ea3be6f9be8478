//! Questions in words, and by what they mean.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use memory_core::{DocumentQuery, Embedder, Error, Kind, MemoryId, MemoryQuery, Recall, Recalled, Timestamp, Vector};
use serde::Deserialize;
use utoipa::ToSchema;

use super::hits::{RecalledBody, RecordBody};
use super::params::{LedgerParams, RecallParams};
use super::wire::memories::StatusName;
use super::wire::reading::{count, time};
use super::wire::vector::VectorBody;
use crate::serve::access::Access;
use crate::serve::extract::{Body, Parameters, mistake};
use crate::serve::problem::Problem;
use crate::serve::scope::SpaceParams;
use crate::serve::state::Server;

/// A question: the parameters of `GET /v1/recall`, where one that may be repeated is a list, and a vector if the caller has
/// made one.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RecallBody {
    /// The question, of at most 16 KiB. It may be left out if a vector is given, which then ranks the hits alone.
    #[serde(default)]
    text: Option<String>,
    /// The vector of the question, by the model of the database: the base64 of its bytes, or its numbers.
    #[serde(default)]
    #[schema(value_type = Option<VectorBody>)]
    vector: Option<Vector>,
    /// Whether to search by meaning, too; by default if the server has an embedding model. Not with a vector.
    #[serde(default)]
    meaning: Option<bool>,
    /// Searches the documents of this collection instead of the ledger.
    #[serde(default)]
    #[schema(pattern = "^[a-z0-9_-]{1,64}$")]
    collection: Option<String>,
    /// The spaces with these ids.
    #[serde(default)]
    space: Vec<String>,
    /// These spaces and all below them: the safe choice to keep tenants apart.
    #[serde(default)]
    under: Vec<String>,
    /// Spaces that start with these bytes; `guild1` also finds `guild12`.
    #[serde(default)]
    prefix: Vec<String>,
    /// Spaces whose whole id matches a pattern of `*`, `?` and `[a-z]`.
    #[serde(default)]
    glob: Vec<String>,
    /// Spaces in whose id a regular expression finds a match.
    #[serde(default)]
    regex: Vec<String>,
    /// Every space.
    #[serde(default)]
    all: bool,
    /// A condition that every hit must satisfy, as in `metadata.topic = 'rust'`.
    #[serde(default)]
    r#where: Option<String>,
    /// Memories created after this time (exclusive), in milliseconds since 1970 UTC.
    #[serde(default, deserialize_with = "time")]
    #[schema(value_type = Option<i64>, minimum = -8_640_000_000_000_i64, maximum = 8_640_000_000_000_i64)]
    after: Option<Timestamp>,
    /// Memories created before this time (exclusive), in milliseconds since 1970 UTC.
    #[serde(default, deserialize_with = "time")]
    #[schema(value_type = Option<i64>, minimum = -8_640_000_000_000_i64, maximum = 8_640_000_000_000_i64)]
    before: Option<Timestamp>,
    /// Memories with one of these statuses.
    #[serde(default)]
    status: Vec<StatusName>,
    /// Excludes the memories with these ids.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    exclude: Vec<MemoryId>,
    /// The limit of hits: 10 by default, at most 1,000.
    #[serde(default, deserialize_with = "count")]
    #[schema(value_type = Option<u64>, maximum = 1000)]
    limit: Option<usize>,
    /// The number of records to show on each side of a hit in its container: 0 by default, at most 10.
    #[serde(default, deserialize_with = "count")]
    #[schema(value_type = Option<u64>, maximum = 10)]
    neighbours: Option<usize>,
    /// Whether to show the terms that matched and the divisors of the scores.
    #[serde(default)]
    explain: bool,
    /// The language of the question: `english`, `german` or another that the README lists, or `none`; by default that of the database.
    #[serde(default)]
    language: Option<String>,
    /// What groups records into containers: `parent` (the space above, the default), `depth:N` (the first N segments) or `metadata:KEY`.
    #[serde(default)]
    container: Option<String>,
    /// The metadata key that names the speaker; `speaker` by default.
    #[serde(default)]
    speaker: Option<String>,
}

/// By what a question is asked beside its words.
#[derive(Debug)]
enum By {
    Words,
    Vector(Vector),
    /// By the model of the server; whether words may answer alone where the database has its vectors from another one.
    Meaning {
        embedder: Arc<dyn Embedder>,
        is_optional: bool,
    },
}

/// Answers a question in words, best first, from the memories of some spaces, or the documents of a collection.
#[utoipa::path(
    get,
    path = "/v1/recall",
    tag = "recall",
    params(SpaceParams, RecallParams, LedgerParams),
    responses((status = 200, body = RecalledBody), Problem)
)]
pub(super) async fn recall(
    State(server): State<Server>,
    Extension(access): Extension<Access>,
    Parameters((spaces, question, ledger)): Parameters<(SpaceParams, RecallParams, LedgerParams)>,
) -> Result<Json<RecalledBody>, Problem> {
    let by = By::of(&server, None, question.meaning)?;
    answer(&server, &access, spaces, &question, ledger, &by).await
}

/// Answers a question in words, by a vector, or by both.
///
/// As `GET` does, for questions that are too long for a URL.
#[utoipa::path(
    post,
    path = "/v1/recall",
    operation_id = "recall_by",
    tag = "recall",
    request_body = RecallBody,
    responses((status = 200, body = RecalledBody), Problem)
)]
pub(super) async fn recall_by(
    State(server): State<Server>,
    Extension(access): Extension<Access>,
    Body(body): Body<RecallBody>,
) -> Result<Json<RecalledBody>, Problem> {
    let RecallBody { text, vector, meaning, collection, space, under, prefix, glob, regex, all, .. } = body;
    let RecallBody { r#where, after, before, status, exclude, limit, neighbours, explain, .. } = body;
    let RecallBody { language, container, speaker, .. } = body;
    let by = By::of(&server, vector, meaning)?;
    // A vector asks by itself.
    let text = if matches!(by, By::Vector(_)) { Some(text.unwrap_or_default()) } else { text };
    let neighbours = neighbours.unwrap_or_default();
    let question =
        RecallParams { text, collection, r#where, limit, neighbours, explain, language, container, speaker, meaning };
    let ledger = LedgerParams {
        after: after.map(Timestamp::as_millis),
        before: before.map(Timestamp::as_millis),
        status,
        exclude: exclude.iter().map(MemoryId::to_string).collect(),
    };
    let spaces = SpaceParams { space, under, prefix, glob, regex, all };
    answer(&server, &access, spaces, &question, ledger, &by).await
}

async fn answer(
    server: &Server,
    access: &Access,
    spaces: SpaceParams,
    question: &RecallParams,
    ledger: LedgerParams,
    by: &By,
) -> Result<Json<RecalledBody>, Problem> {
    let Some(collection) = question.collection()? else {
        let (query, _patterns) = spaces.apply(MemoryQuery::builder(), &server.limits).await?;
        let recall = question.recall(access.confine(ledger.apply(query)?))?;
        return told(server.provider.recall(&by.apply(recall)).await);
    };
    access.check_collection(&collection)?;
    if !ledger.is_empty() {
        return Err(Error::invalid(
            "after, before, status and exclude are conditions on memories, and collection asks for documents",
        )
        .into());
    }
    let (query, _patterns) = spaces.apply(DocumentQuery::builder(collection), &server.limits).await?;
    let recall = question.recall(access.confine(query))?;
    told(server.documents.recall(&by.apply(recall)).await)
}

impl By {
    fn of(server: &Server, vector: Option<Vector>, meaning: Option<bool>) -> Result<Self, Problem> {
        match (vector, meaning, &server.embedder) {
            (Some(_), Some(true), _) => Err(mistake("vector and meaning can't be combined: leave one out")),
            (Some(vector), ..) => Ok(Self::Vector(vector)),
            (None, Some(false), _) | (None, None, None) => Ok(Self::Words),
            (None, Some(true), None) => Err(mistake(
                "meaning: this server has no embedding model: leave it out, or start the server with --embedder",
            )),
            (None, meaning, Some(embedder)) => {
                Ok(Self::Meaning { embedder: Arc::clone(embedder), is_optional: meaning.is_none() })
            }
        }
    }

    /// The question with what is asked beside its words.
    fn apply<K: Kind>(&self, recall: Recall<K>) -> Recall<K> {
        match self {
            Self::Words => recall,
            Self::Vector(vector) => recall.by_vector(vector.clone()),
            Self::Meaning { embedder, is_optional: false } => recall.by_meaning(Arc::clone(embedder)),
            Self::Meaning { embedder, is_optional: true } => recall.by_meaning_or_words(Arc::clone(embedder)),
        }
    }
}

fn told<T: Into<RecordBody>>(recalled: memory_core::Result<Recalled<T>>) -> Result<Json<RecalledBody>, Problem> {
    Ok(Json(recalled.map_err(Problem::of_vectors)?.into()))
}
