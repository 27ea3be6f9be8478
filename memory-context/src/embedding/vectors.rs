//! Vectors as documents beside those that they belong to.

use std::sync::Arc;

use memory_core::{
    Collection, Content, Document, DocumentId, DocumentQuery, DocumentStore, DocumentWrite, Error, ErrorKind, Json,
    JsonObject, Metadata, Number, Result, Timestamp,
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

    /// All vectors. `SchemaMismatch` when one is of another model or width than the embedder's: those can't be compared.
    pub(crate) async fn all(&self, embedder: &dyn Embedder) -> Result<Vec<(DocumentId, Vector)>> {
        let found = self.stored().await?;
        found.into_iter().map(|document| read(document, embedder)).collect()
    }

    /// The documents that have a vector of the embedder's model and width.
    pub(crate) async fn known(&self, embedder: &dyn Embedder) -> Result<Vec<DocumentId>> {
        let mut found = self.stored().await?;
        found.retain(|document| labels(document).is_ok_and(|labels| labels.are_of(embedder)));
        Ok(found.into_iter().map(|document| document.id).collect())
    }

    async fn stored(&self) -> Result<Vec<Document>> {
        documents::find(self.documents.as_ref(), DocumentQuery::builder(self.collection.clone()).all(), usize::MAX)
            .await
    }
}

impl Labels {
    fn are_of(&self, embedder: &dyn Embedder) -> bool {
        self.model == embedder.model() && self.width == embedder.width()
    }
}

fn read(document: Document, embedder: &dyn Embedder) -> Result<(DocumentId, Vector)> {
    let labels = labels(&document)?;
    if !labels.are_of(embedder) {
        let (model, width) = (embedder.model(), embedder.width());
        let message = format!(
            "there are vectors of the model {} with {} numbers, and the model now is {model} with {width}: embed again",
            labels.model, labels.width
        );
        return Err(Error::new(ErrorKind::SchemaMismatch, message));
    }
    let vector = Vector::decode(document.content.as_str()).filter(|vector| vector.width() == labels.width);
    let vector = vector.ok_or_else(|| Error::corrupt(format!("the document {} is no vector", document.id)))?;
    Ok((document.id, vector))
}

fn labels(document: &Document) -> Result<Labels> {
    serde_json::from_str(document.metadata.as_str())
        .map_err(|_| Error::corrupt(format!("the document {} has no metadata of a vector", document.id)))
}
