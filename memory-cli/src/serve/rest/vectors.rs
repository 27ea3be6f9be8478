//! Vectors beside records, and the model that they are of.

use std::collections::HashMap;

use axum::extract::State;
use axum::{Extension, Json};
use memory_core::{
    Collection, Document, DocumentId, Embedding, Error, ErrorKind, MAX_VECTORS, MemoryId, Outcome, RecordId, Revision,
    TextHash, Vector, VectorModel,
};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::wire::reading::{count, objects, some_revision};
use super::wire::vector::VectorBody;
use crate::collections::is_copied;
use crate::precision::PrecisionName;
use crate::serve::access::Access;
use crate::serve::extract::Body;
use crate::serve::problem::Problem;
use crate::serve::state::Server;

/// The embedding model of the database.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = VectorModel)]
pub(super) struct ModelBody {
    /// The name of the model.
    #[schema(min_length = 1, max_length = 256)]
    name: String,
    /// The number of dimensions of a vector.
    #[serde(deserialize_with = "width")]
    #[schema(minimum = 1, maximum = 4096)]
    width: usize,
    /// The format of stored vectors.
    #[serde(default)]
    precision: PrecisionName,
}

/// Vectors from the caller.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct EmbedBody {
    /// The model that made them, which must be that of the database.
    #[schema(min_length = 1, max_length = 256)]
    model: String,
    /// At most 1,000.
    #[serde(deserialize_with = "objects")]
    #[schema(max_items = 1_000)]
    embeddings: Vec<EmbeddingBody>,
}

/// The vector of a record at one of its revisions.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EmbeddingBody {
    /// The collection of a document; a memory has none.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    collection: Option<Collection>,
    id: String,
    /// The current revision of the record. A vector of an earlier revision is not kept.
    #[serde(deserialize_with = "some_revision")]
    #[schema(value_type = u64, minimum = 1, maximum = 9_007_199_254_740_991_i64)]
    revision: Revision,
    #[schema(value_type = VectorBody)]
    vector: Vector,
}

/// Which vectors were kept, in the order of the request.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct KeptBody {
    /// Whether each was kept: not if its record does not exist, or has another revision by now.
    kept: Vec<bool>,
}

/// Shows the embedding model of the database.
#[utoipa::path(
    get,
    path = "/v1/vector-model",
    operation_id = "get_vector_model",
    tag = "vectors",
    responses((status = 200, body = ModelBody), Problem)
)]
pub(super) async fn model(State(server): State<Server>) -> Result<Json<ModelBody>, Problem> {
    match server.provider.vector_model().await? {
        Some(model) => Ok(Json(model.into())),
        None => Err(no_model(ErrorKind::NotFound)),
    }
}

/// Sets the embedding model of the database.
///
/// Vectors of another model are not used until it is set again. Requires a caller that may write everything, which no token of a file may.
#[utoipa::path(
    put,
    path = "/v1/vector-model",
    operation_id = "put_vector_model",
    tag = "vectors",
    request_body = ModelBody,
    responses((status = 200, body = ModelBody), Problem)
)]
pub(super) async fn put_model(
    State(server): State<Server>,
    Extension(access): Extension<Access>,
    Body(body): Body<ModelBody>,
) -> Result<Json<ModelBody>, Problem> {
    access.check_vector_model_write()?;
    let model = VectorModel::new(body.name, body.width, body.precision.into())?;
    server.provider.set_vector_model(&model).await?;
    Ok(Json(model.into()))
}

/// Keeps vectors from the caller beside existing records.
///
/// Each is kept independently of the others. A record that the caller may read but not write refuses the call.
#[utoipa::path(
    post,
    path = "/v1/embed",
    operation_id = "embed",
    tag = "vectors",
    request_body = EmbedBody,
    responses((status = 200, body = KeptBody), Problem)
)]
pub(super) async fn embed(
    State(server): State<Server>,
    Extension(access): Extension<Access>,
    Body(body): Body<EmbedBody>,
) -> Result<Json<KeptBody>, Problem> {
    let EmbedBody { model, embeddings } = body;
    let count = embeddings.len();
    if count > MAX_VECTORS {
        return Err(Error::too_large(format!("{count} vectors; at most {MAX_VECTORS} go in one call")).into());
    }
    let present = server.provider.vector_model().await?.ok_or_else(|| no_model(ErrorKind::Conflict))?;
    if present.name() != model {
        let message = "the database has another embedding model: put this one at /v1/vector-model first";
        return Err(Problem::of_vectors(Error::new(ErrorKind::SchemaMismatch, message)));
    }
    let embeddings = embeddings.into_iter().map(EmbeddingBody::into_embedding).collect::<Result<Vec<_>, _>>()?;
    embeddings.iter().try_for_each(|embedding| present.check(&embedding.vector))?;
    let (mut kept, mut places, mut writable) = (vec![false; count], Vec::new(), Vec::new());
    for (place, mut embedding) in embeddings.into_iter().enumerate() {
        embedding.texts = texts_of(&server, &access, &embedding).await?;
        if embedding.texts.is_some() {
            places.push(place);
            writable.push(embedding);
        }
    }
    let done = server.provider.embed(&present, writable).await.map_err(Problem::of_vectors)?;
    places.into_iter().zip(done).for_each(|(place, is_kept)| kept[place] = is_kept);
    Ok(Json(KeptBody { kept }))
}

/// The texts of a record that is there at this revision, for who may read it; `Unauthorized` where it may not be written. Only beside these the
/// vector is kept, since somebody else may put another document with this id and revision.
async fn texts_of(server: &Server, access: &Access, embedding: &Embedding) -> Result<Option<TextHash>, Problem> {
    let (space, revision, texts) = match &embedding.record {
        RecordId::Memory(id) => {
            access.check_ledger_write()?;
            match server.provider.get(*id).await {
                Ok(Some(memory)) if access.may_read(&memory) => {
                    let texts = TextHash::from(&memory);
                    (memory.space_id, memory.revision, texts)
                }
                Ok(_) => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Erased => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        RecordId::Document { collection, id } => {
            access.check_collection(collection)?;
            if !is_copied(collection) {
                return Ok(None);
            }
            match server.documents.get(collection, id).await? {
                Some(document) if access.may_read_document(&document) => {
                    let texts = TextHash::from(&document);
                    (document.space_id, document.revision, texts)
                }
                _ => return Ok(None),
            }
        }
    };
    access.check_write(&space)?;
    Ok((revision == embedding.revision).then_some(texts))
}

/// Vectors that come with records which are to be stored: checked before anything is. Most requests give none.
#[derive(Debug)]
pub(super) struct Given {
    /// The model of the database; `None` where no vector is given, since then nobody asks for it.
    model: Option<VectorModel>,
    /// By the place of the record in the request.
    vectors: HashMap<usize, Vector>,
}

/// A record as it was stored, beside which a vector may be kept.
#[derive(Debug)]
pub(super) struct StoredVersion {
    pub(super) record: RecordId,
    pub(super) revision: Revision,
    /// The hash of its texts.
    pub(super) texts: TextHash,
}

impl From<&Document> for StoredVersion {
    fn from(document: &Document) -> Self {
        Self { record: document.into(), revision: document.revision, texts: document.into() }
    }
}

impl Given {
    /// Fails with a conflict where the database has no model, and with `InvalidInput` for a vector of another width.
    pub(super) async fn check(
        server: &Server,
        vectors: impl IntoIterator<Item = Option<Vector>>,
    ) -> Result<Self, Problem> {
        let given = vectors.into_iter().enumerate().filter_map(|(place, vector)| Some((place, vector?)));
        let vectors: HashMap<_, _> = given.collect();
        if vectors.is_empty() {
            return Ok(Self { model: None, vectors });
        }
        let model = server.provider.vector_model().await?.ok_or_else(|| no_model(ErrorKind::Conflict))?;
        vectors.values().try_for_each(|vector| model.check(vector))?;
        Ok(Self { model: Some(model), vectors })
    }

    /// Keeps them beside the records, which are stored now, in the order of the request. One that has been changed meanwhile gets none.
    pub(super) async fn keep(
        self,
        server: &Server,
        records: impl IntoIterator<Item = impl Into<StoredVersion>>,
    ) -> Result<(), Problem> {
        let Self { model: Some(model), mut vectors } = self else { return Ok(()) };
        let mut embeddings = Vec::with_capacity(vectors.len());
        for (place, stored) in records.into_iter().enumerate() {
            if let Some(vector) = vectors.remove(&place) {
                let StoredVersion { record, revision, texts } = stored.into();
                embeddings.push(Embedding { record, revision, texts: Some(texts), vector });
            }
        }
        while !embeddings.is_empty() {
            let rest = embeddings.split_off(embeddings.len().min(MAX_VECTORS));
            // The first half is done, whatever the second one has come to.
            let stored = |error: Error| {
                let message = format!("it is stored, but its vector is not kept: {}", error.message());
                Problem::of_vectors(error.with_message(message).with_outcome(Outcome::Unknown))
            };
            server.provider.embed(&model, embeddings).await.map_err(stored)?;
            embeddings = rest;
        }
        Ok(())
    }
}

impl EmbeddingBody {
    fn into_embedding(self) -> memory_core::Result<Embedding> {
        let Self { collection, id, revision, vector } = self;
        let record = match collection {
            Some(collection) => RecordId::Document { collection, id: DocumentId::parse(id)? },
            None => RecordId::Memory(MemoryId::parse(&id)?),
        };
        Ok(Embedding { record, revision, texts: None, vector })
    }
}

impl From<VectorModel> for ModelBody {
    fn from(model: VectorModel) -> Self {
        Self { name: model.name().to_owned(), width: model.width(), precision: model.precision().into() }
    }
}

fn no_model(kind: ErrorKind) -> Problem {
    let message = "the database has no embedding model yet: put one at /v1/vector-model, or embed its records";
    Error::new(kind, message).into()
}

fn width<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    count(deserializer)?.ok_or_else(|| D::Error::custom("a width must be a number"))
}
