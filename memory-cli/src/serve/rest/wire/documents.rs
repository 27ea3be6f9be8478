//! The bodies of documents in requests and responses.

use memory_core::{
    Clock as _, Collection, Content, Document, DocumentId, DocumentWrite, Expect, Metadata, Revision, SpaceId,
    SystemClock, Timestamp, Vector,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::page::UnreadableBody;
use super::reading::{objects, some_revision, time};
use super::vector::VectorBody;

/// A document to put.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewDocumentBody {
    /// The space of the document.
    #[schema(value_type = String, min_length = 1, max_length = 512, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")]
    pub(crate) space_id: SpaceId,
    /// The text, of at most 1 MiB.
    #[schema(value_type = String)]
    pub(crate) content: Content,
    /// Data for use in conditions.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub(crate) metadata: Metadata,
    /// When it was created, in milliseconds since 1970 UTC; now by default.
    #[serde(default, deserialize_with = "time")]
    #[schema(value_type = Option<i64>, minimum = -8_640_000_000_000_i64, maximum = 8_640_000_000_000_i64)]
    pub(crate) created_at: Option<Timestamp>,
    /// When it expires, in milliseconds since 1970 UTC; never by default.
    #[serde(default, deserialize_with = "time")]
    #[schema(value_type = Option<i64>, minimum = -8_640_000_000_000_i64, maximum = 8_640_000_000_000_i64)]
    pub(crate) expires_at: Option<Timestamp>,
    /// Its vector, by the model of the database: the base64 of its bytes, or its numbers.
    #[serde(default)]
    #[schema(value_type = Option<VectorBody>)]
    pub(crate) vector: Option<Vector>,
}

impl NewDocumentBody {
    pub(crate) fn into_write(self, collection: Collection) -> DocumentWrite {
        let created_at = self.created_at.unwrap_or_else(|| SystemClock.now());
        let mut write = DocumentWrite::new(collection, self.space_id, self.content, created_at);
        write.expires_at = self.expires_at;
        write.with_metadata(self.metadata)
    }
}

/// Documents to put, all or none.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutsBody {
    /// At most 10,000; no two of one collection with the same id.
    #[serde(deserialize_with = "objects")]
    #[schema(max_items = 10_000)]
    pub(crate) documents: Vec<PutBody>,
}

/// A document to put, with its collection, its id and a precondition.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PutBody {
    /// The collection that it belongs to.
    #[schema(value_type = String, pattern = "^[a-z0-9_-]{1,64}$")]
    pub(crate) collection: Collection,
    /// Its id; a new one by default.
    #[serde(default)]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 256)]
    id: Option<DocumentId>,
    /// The space of the document.
    #[schema(value_type = String, min_length = 1, max_length = 512, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")]
    space_id: SpaceId,
    /// The text, of at most 1 MiB.
    #[schema(value_type = String)]
    content: Content,
    /// Data for use in conditions.
    #[serde(default)]
    #[schema(value_type = Object)]
    metadata: Metadata,
    /// When it was created, in milliseconds since 1970 UTC; now by default. A replacement keeps the time of the first put.
    #[serde(default, deserialize_with = "time")]
    #[schema(value_type = Option<i64>, minimum = -8_640_000_000_000_i64, maximum = 8_640_000_000_000_i64)]
    created_at: Option<Timestamp>,
    /// When it expires, in milliseconds since 1970 UTC; never by default.
    #[serde(default, deserialize_with = "time")]
    #[schema(value_type = Option<i64>, minimum = -8_640_000_000_000_i64, maximum = 8_640_000_000_000_i64)]
    expires_at: Option<Timestamp>,
    /// The precondition; none by default.
    #[serde(default)]
    expect: ExpectBody,
    /// Its vector, by the model of the database: the base64 of its bytes, or its numbers.
    #[serde(default)]
    #[schema(value_type = Option<VectorBody>)]
    pub(crate) vector: Option<Vector>,
}

impl PutBody {
    pub(crate) fn into_write(self) -> DocumentWrite {
        let created_at = self.created_at.unwrap_or_else(|| SystemClock.now());
        let mut write = DocumentWrite::new(self.collection, self.space_id, self.content, created_at);
        write.id = self.id;
        write.expires_at = self.expires_at;
        write.with_metadata(self.metadata).expect(self.expect.into())
    }
}

/// The precondition of a put. If it does not hold, nothing is put.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
enum ExpectBody {
    /// No precondition.
    #[default]
    Any,
    /// No document has this id.
    Absent,
    /// The document is at this revision.
    Revision(AnyRevision),
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = u64)]
struct AnyRevision(#[serde(deserialize_with = "some_revision")] Revision);

impl From<ExpectBody> for Expect {
    fn from(expect: ExpectBody) -> Self {
        match expect {
            ExpectBody::Any => Self::Any,
            ExpectBody::Absent => Self::Absent,
            ExpectBody::Revision(AnyRevision(revision)) => Self::Revision(revision),
        }
    }
}

/// The documents that were put, in the order of the request.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PutManyBody {
    pub(crate) documents: Vec<PutDocumentBody>,
}

/// The fields of a document that a put has set.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PutDocumentBody {
    #[schema(value_type = String)]
    collection: Collection,
    #[schema(value_type = String)]
    id: DocumentId,
    #[schema(value_type = i64)]
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    updated_at: Option<Timestamp>,
    #[schema(value_type = u64)]
    revision: Revision,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    expires_at: Option<Timestamp>,
}

impl From<Document> for PutDocumentBody {
    fn from(document: Document) -> Self {
        let Document { collection, id, created_at, updated_at, revision, expires_at, .. } = document;
        Self { collection, id, created_at, updated_at, revision, expires_at }
    }
}

/// A text that an agent saved.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Document)]
pub(crate) struct DocumentBody {
    #[schema(value_type = String)]
    pub(crate) id: DocumentId,
    #[schema(value_type = String)]
    pub(crate) collection: Collection,
    #[schema(value_type = String)]
    space_id: SpaceId,
    #[schema(value_type = String)]
    content: Content,
    #[schema(value_type = Object)]
    metadata: Metadata,
    #[schema(value_type = i64)]
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    updated_at: Option<Timestamp>,
    #[schema(value_type = u64)]
    pub(crate) revision: Revision,
    /// When it expires: from then on it is in no answer. It never expires if this is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    expires_at: Option<Timestamp>,
}

impl From<Document> for DocumentBody {
    fn from(document: Document) -> Self {
        Self {
            id: document.id,
            collection: document.collection,
            space_id: document.space_id,
            content: document.content,
            metadata: document.metadata,
            created_at: document.created_at,
            updated_at: document.updated_at,
            revision: document.revision,
            expires_at: document.expires_at,
        }
    }
}

/// A page of documents.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DocumentPageBody {
    pub(crate) documents: Vec<DocumentBody>,
    /// Documents that can't be read, and that match as far as can be told.
    pub(crate) unreadable: Vec<UnreadableBody>,
    /// The `cursor` of the next page; absent on the last page. A short page may have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

/// The documents that were removed, or with `dryRun` would be.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RemovedBody {
    #[schema(value_type = Vec<String>)]
    pub(crate) ids: Vec<DocumentId>,
    pub(crate) dry_run: bool,
}

/// The collections that hold a document and that the caller may use.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CollectionsBody {
    #[schema(value_type = Vec<String>)]
    pub(crate) collections: Vec<Collection>,
}
