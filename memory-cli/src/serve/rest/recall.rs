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

/// A question: the parameters of `GET /v1/recall`, each with a list where it may be named several times, and a vector if the caller has
/// made one.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RecallBody {
    /// The question, of at most 16 KiB; with a vector it may be left out, which alone ranks then.
    #[serde(default)]
    text: Option<String>,
    /// What the question means, by the model of the database: the base64 of a vector, or its numbers.
    #[serde(default)]
    #[schema(value_type = Option<VectorBody>)]
    vector: Option<Vector>,
    /// Whether it is asked by what the question means, too: where the server has an embedding model, by default. Not with a vector.
    #[serde(default)]
    meaning: Option<bool>,
    /// Asks the documents of this collection instead of the ledger.
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
    /// Spaces that match a pattern of `*`, `?` and `[a-z]` as a whole.
    #[serde(default)]
    glob: Vec<String>,
    /// Spaces in which a regular expression finds something.
    #[serde(default)]
    regex: Vec<String>,
    /// Every space.
    #[serde(default)]
    all: bool,
    /// A condition that hits satisfy, as in `metadata.topic = 'rust'`.
    #[serde(default)]
    r#where: Option<String>,
    /// Memories created after this many milliseconds since 1970 UTC, exclusively.
    #[serde(default, deserialize_with = "time")]
    #[schema(value_type = Option<i64>, minimum = -8_640_000_000_000_i64, maximum = 8_640_000_000_000_i64)]
    after: Option<Timestamp>,
    /// Memories created before this, exclusively.
    #[serde(default, deserialize_with = "time")]
    #[schema(value_type = Option<i64>, minimum = -8_640_000_000_000_i64, maximum = 8_640_000_000_000_i64)]
    before: Option<Timestamp>,
    /// Memories of one of these statuses.
    #[serde(default)]
    status: Vec<StatusName>,
    /// Leaves out these memories.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    exclude: Vec<MemoryId>,
    /// How many hits at most; 10 by default.
    #[serde(default, deserialize_with = "count")]
    #[schema(value_type = Option<u64>, maximum = 1000)]
    limit: Option<usize>,
    /// How many records on each side of a hit in its container, for who reads on.
    #[serde(default, deserialize_with = "count")]
    #[schema(value_type = Option<u64>, maximum = 10)]
    neighbours: Option<usize>,
    /// Whether the terms that matched and the divisors of the scores are told.
    #[serde(default)]
    explain: bool,
    /// `english`, `german` or another that the README lists, or `none`; that of the database by default.
    #[serde(default)]
    language: Option<String>,
    /// What holds records together: `parent` (the space above, the default), `depth:N` (so many segments of the space) or `metadata:KEY`.
    #[serde(default)]
    container: Option<String>,
    /// The key of the metadata that names who speaks; `speaker` by default.
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

/// Answers a question in words from the memories, or the documents, of a scope: the best first.
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
/// As `GET` does, for what is too long for an address.
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
        return Err(Error::invalid("after, before, status and exclude ask for memories, and this for documents").into());
    }
    let (query, _patterns) = spaces.apply(DocumentQuery::builder(collection), &server.limits).await?;
    let recall = question.recall(access.confine(query))?;
    told(server.documents.recall(&by.apply(recall)).await)
}

impl By {
    fn of(server: &Server, vector: Option<Vector>, meaning: Option<bool>) -> Result<Self, Problem> {
        match (vector, meaning, &server.embedder) {
            (Some(_), Some(true), _) => Err(mistake("vector and meaning don't go together: leave out one of the two")),
            (Some(vector), ..) => Ok(Self::Vector(vector)),
            (None, Some(false), _) | (None, None, None) => Ok(Self::Words),
            (None, Some(true), None) => Err(mistake("meaning: this server has no embedding model; see serve --help")),
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
