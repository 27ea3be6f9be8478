//! Vectors as documents beside those that they belong to.

use std::sync::Arc;

use memory_core::{
    Collection, Content, Document, DocumentId, DocumentQuery, DocumentSelection, DocumentStore, DocumentWrite, Error,
    ErrorKind, Json, JsonObject, Metadata, Number, Result, Timestamp,
};
use serde::Deserialize;

use super::{Embedder, Vector};
use crate::documents;

/// The vectors of the documents of one collection: documents with the same ids, in a collection of the same name with
/// `-vectors` behind it. The content is the base64 of little-endian `f32`; model and width stand in the metadata.
#[derive(Debug)]
pub(crate) struct Vectors<'a> {
    documents: &'a Arc<dyn DocumentStore>,
    collection: Collection,
}

/// The metadata of a vector.
#[derive(Deserialize)]
struct Labels {
    model: String,
    width: usize,
}

impl<'a> Vectors<'a> {
    /// Those of this collection.
    pub(crate) fn of(documents: &'a Arc<dyn DocumentStore>, collection: &Collection) -> Result<Self> {
        Ok(Self { documents, collection: Collection::parse(format!("{collection}-vectors"))? })
    }

    /// Keeps the vector of a document, in place of an earlier one.
    pub(crate) async fn put(
        &self,
        document: &Document,
        embedder: &dyn Embedder,
        vector: &Vector,
        now: Timestamp,
    ) -> Result<()> {
        let labels = JsonObject::from([
            ("model".to_owned(), Json::String(embedder.model().to_owned())),
            ("width".to_owned(), Json::Number(Number::Int(embedder.width() as i128))),
        ]);
        let content = Content::parse(vector.encode())?;
        let write = DocumentWrite::new(self.collection.clone(), document.space_id.clone(), content, now);
        self.documents
            .put(write.with_id(document.id.clone()).with_metadata(Metadata::from_object(&labels)?))
            .await
            .map(drop)
    }

    /// Takes the vector of a document away, if there is one.
    pub(crate) async fn remove(&self, id: &DocumentId) -> Result<()> {
        let selection = DocumentSelection::ids(self.collection.clone(), [id.clone()])?;
        self.documents.remove(&selection, 1).await.map(drop)
    }

    /// All vectors. `SchemaMismatch` when one is of another model or width than the embedder's: those can't be compared.
    pub(crate) async fn all(&self, embedder: &dyn Embedder) -> Result<Vec<(DocumentId, Vector)>> {
        let stored = self.stored().await?;
        stored
            .into_iter()
            .map(|stored| {
                stored.labels.check(embedder)?;
                Ok((stored.id, stored.vector))
            })
            .collect()
    }

    /// The documents that have a vector of the embedder's model and width.
    pub(crate) async fn known(&self, embedder: &dyn Embedder) -> Result<Vec<DocumentId>> {
        let mut stored = self.stored().await?;
        stored.retain(|stored| stored.labels.are_of(embedder));
        Ok(stored.into_iter().map(|stored| stored.id).collect())
    }

    async fn stored(&self) -> Result<Vec<Stored>> {
        let query = DocumentQuery::builder(self.collection.clone()).all();
        documents::find(self.documents.as_ref(), query, usize::MAX, Stored::read).await
    }
}

/// A vector as a document holds it, of whichever model.
struct Stored {
    id: DocumentId,
    labels: Labels,
    vector: Vector,
}

impl Stored {
    /// `Corrupt` when the document is no vector.
    fn read(document: Document) -> Result<Self> {
        let corrupt = || Error::corrupt(format!("the document {} is no vector", document.id));
        let labels: Labels = serde_json::from_str(document.metadata.as_str()).map_err(|_| corrupt())?;
        let vector = Vector::decode(document.content.as_str()).filter(|vector| vector.width() == labels.width);
        let vector = vector.ok_or_else(corrupt)?;
        Ok(Self { id: document.id, labels, vector })
    }
}

impl Labels {
    fn are_of(&self, embedder: &dyn Embedder) -> bool {
        self.model == embedder.model() && self.width == embedder.width()
    }

    fn check(&self, embedder: &dyn Embedder) -> Result<()> {
        if self.are_of(embedder) {
            return Ok(());
        }
        let (model, width) = (embedder.model(), embedder.width());
        let message = format!(
            "there are vectors of the model {} with {} numbers, and the model now is {model} with {width}: embed again",
            self.model, self.width
        );
        Err(Error::new(ErrorKind::SchemaMismatch, message))
    }
}
