//! Typed records, stored as documents.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, future, stream};
use memory_core::{
    Collection, Content, Document, DocumentId, DocumentQuery, DocumentSelection, DocumentStore, DocumentWrite, Error,
    ErrorKind, Expect, Json, JsonObject, Metadata, Result, SpaceId, Timestamp,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::AgentId;
use super::layout::agent_space;
use crate::deadline::within_deadline;
use crate::documents;

/// How many documents are read concurrently.
pub(super) const AT_ONCE: usize = 16;

/// A kind of record. Each record is a document: its JSON is the content, and its labels are the metadata, for filters.
pub(super) trait Record: Serialize + DeserializeOwned + Clone + PartialEq + Send + Sync {
    /// The collection of this kind. The name is reserved, so no plugin reaches it.
    const COLLECTION: &'static str;

    /// The id of the record's document.
    fn id(&self, agent: &AgentId) -> Result<DocumentId>;

    /// The space of the record's document.
    fn space(&self, agent: &AgentId) -> Result<SpaceId>;

    /// The labels, by which filters find the record.
    fn labels(&self) -> BTreeMap<&'static str, &str>;
}

/// Reads and writes the records of one agent.
#[derive(Debug)]
pub(super) struct Table<'a> {
    pub(super) documents: &'a Arc<dyn DocumentStore>,
    pub(super) agent: &'a AgentId,
}

impl Table<'_> {
    /// Returns the record in this document, if it exists.
    pub(super) async fn get<R: Record>(&self, id: &DocumentId) -> Result<Option<R>> {
        let document = self.documents.get(&collection::<R>()?, id).await?;
        document.as_ref().map(read).transpose()
    }

    /// Returns the records in these documents, in their order; missing ones are left out.
    pub(super) async fn get_many<R: Record>(&self, ids: impl IntoIterator<Item = DocumentId>) -> Result<Vec<R>> {
        let ids: Vec<_> = ids.into_iter().collect();
        let found = stream::iter(ids).map(|id| async move { self.get(&id).await }).buffered(AT_ONCE);
        found.try_filter_map(future::ok).try_collect().await
    }

    /// Returns the records that were created last, the newest first. A document that is not such a record is skipped.
    pub(super) async fn newest<R: Record>(&self, limit: usize) -> Result<Vec<R>> {
        let query = DocumentQuery::builder(collection::<R>()?).under(agent_space(self.agent)?);
        documents::find(self.documents.as_ref(), query, limit, |document| read(&document)).await
    }

    /// Stores a record unless it exists. Returns whether it was stored.
    pub(super) async fn ensure<R: Record>(&self, record: &R, now: Timestamp) -> Result<bool> {
        match self.documents.put(self.write(record, now)?.expect(Expect::Absent)).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Changes a record by compare-and-set, and retries after a lost race, so that concurrent changes lose nothing.
    ///
    /// `change` gets `None` if there is no record, and returns the record to store. A record that did not change is not written.
    pub(super) async fn change<R: Record>(
        &self,
        id: &DocumentId,
        now: Timestamp,
        change: impl Fn(Option<R>) -> Result<R>,
    ) -> Result<R> {
        within_deadline(async {
            loop {
                let document = self.documents.get(&collection::<R>()?, id).await?;
                let current: Option<R> = document.as_ref().map(read).transpose()?;
                let record = change(current.clone())?;
                if current.as_ref() == Some(&record) {
                    return Ok(record);
                }
                let expect = document.map_or(Expect::Absent, |document| Expect::Revision(document.revision));
                match self.documents.put(self.write(&record, now)?.expect(expect)).await {
                    Ok(_) => return Ok(record),
                    Err(error) if error.kind() == ErrorKind::Conflict => {}
                    Err(error) => return Err(error),
                }
            }
        })
        .await
    }

    /// Removes a record. Returns whether it existed.
    pub(super) async fn remove<R: Record>(&self, id: DocumentId) -> Result<bool> {
        let selection = DocumentSelection::ids(collection::<R>()?, [id])?;
        Ok(!self.documents.remove(&selection, 1).await?.is_empty())
    }

    fn write<R: Record>(&self, record: &R, now: Timestamp) -> Result<DocumentWrite> {
        let json = serde_json::to_string(record)
            .map_err(|error| Error::invalid("the record has no JSON form").with_source(error))?;
        let write = DocumentWrite::new(collection::<R>()?, record.space(self.agent)?, Content::parse(json)?, now);
        Ok(write.with_id(record.id(self.agent)?).with_metadata(metadata(record.labels())?))
    }
}

/// Converts labels to metadata.
pub(crate) fn metadata<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Metadata> {
    let member = |(name, value): (&str, &str)| (name.to_owned(), Json::String(value.to_owned()));
    Metadata::from_object(&labels.into_iter().map(member).collect::<JsonObject>())
}

/// The error for a change of a record that does not exist.
pub(super) fn absent(what: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("no such {what} is known"))
}

fn collection<R: Record>() -> Result<Collection> {
    Collection::parse(R::COLLECTION)
}

/// Reads a record. Fails with `Corrupt` if the document is not such a record.
fn read<R: Record>(document: &Document) -> Result<R> {
    serde_json::from_str(document.content.as_str())
        .map_err(|_| Error::corrupt(format!("the record {} of {} holds something else", document.id, R::COLLECTION)))
}
