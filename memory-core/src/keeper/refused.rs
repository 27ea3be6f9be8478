//! What the model has refused, and when it is tried again.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::batch::Text;
use super::mark::{collection, space};
use crate::filter::Field;
use crate::{
    Collection, Content, DocumentId, DocumentQuery, DocumentSelection, DocumentWrite, Error, ErrorKind, MemoryId,
    MemoryProvider, Metadata, Order, RecordId, Result, Timestamp,
};

/// The records that wait for another attempt: a document of each, with its name and a time. It holds nothing of their texts.
pub(super) struct Refused<'k> {
    pub(super) provider: &'k dyn MemoryProvider,
    pub(super) now: Timestamp,
}

/// Some that are due.
pub(super) struct Page {
    /// Their documents, and which records these name.
    pub(super) of: Vec<(DocumentId, Option<RecordId>)>,
    /// The texts of those that are there.
    pub(super) texts: Vec<Text>,
    pub(super) next: Option<String>,
}

/// The content of such a document.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Name {
    Memory(MemoryId),
    Document(Collection, DocumentId),
}

/// The time in milliseconds, among its metadata, from which on its record is tried again.
const RETRY_AT: &str = "retryAt";
/// How long that is behind the last attempt, in milliseconds.
const REFUSED_FOR: i64 = 3_600_000;

impl Refused<'_> {
    /// Has a record wait for an hour.
    pub(super) async fn put(&self, record: &RecordId) -> Result<()> {
        let retry_at = self.now.as_millis().saturating_add(REFUSED_FOR);
        let metadata = Metadata::parse(&format!(r#"{{"{RETRY_AT}":{retry_at}}}"#))?;
        let name = serde_json::to_string(&Name::of(record)).map_err(|error| {
            Error::new(ErrorKind::Unexpected, "the name of a record can't be written").with_source(error)
        })?;
        let hash: String = Sha256::digest(&name).iter().map(|byte| format!("{byte:02x}")).collect();
        let write = DocumentWrite::new(collection()?, space()?, Content::parse(name)?, self.now);
        let write = write.with_id(DocumentId::parse(format!("refused-{hash}"))?).with_metadata(metadata);
        self.provider.documents().put(write).await.map(drop)
    }

    /// Those that are due, from a cursor on, so many at most.
    pub(super) async fn due(&self, count: usize, max_text: usize, cursor: Option<&str>) -> Result<Page> {
        let query = DocumentQuery::builder(collection()?).all().order(Order::OldestFirst).limit(count);
        let query = query.filter(Field::metadata([RETRY_AT]).le(self.now.as_millis()));
        let query = cursor.into_iter().fold(query, |query, cursor| query.cursor(cursor));
        let found = self.provider.documents().query(&query.build()?).await?;
        let mut page = Page { of: Vec::new(), texts: Vec::new(), next: found.next.map(|cursor| cursor.to_string()) };
        for document in found.documents {
            let record = serde_json::from_str(document.content.as_str()).ok().map(Name::record);
            if let Some(record) = &record {
                page.texts.extend(self.text(record, max_text).await?);
            }
            page.of.push((document.id, record));
        }
        Ok(page)
    }

    /// Lets these wait no longer.
    pub(super) async fn remove(&self, ids: Vec<DocumentId>) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let count = ids.len();
        self.provider.documents().remove(&DocumentSelection::ids(collection()?, ids)?, count).await.map(drop)
    }

    /// The text of a record as it is now. Of one that can't be read the feed tells again when it can.
    async fn text(&self, record: &RecordId, max_text: usize) -> Result<Option<Text>> {
        let is_gone = |error: &Error| matches!(error.kind(), ErrorKind::Erased | ErrorKind::Corrupt);
        let text = match record {
            RecordId::Memory(id) => {
                let found = self.provider.get(*id).await;
                found.map(|found| found.and_then(|memory| Text::of_memory(&memory, max_text)))
            }
            RecordId::Document { collection, id } => {
                let found = self.provider.documents().get(collection, id).await;
                found.map(|found| found.and_then(|document| Text::of_document(&document, max_text)))
            }
        };
        match text {
            Err(error) if is_gone(&error) => Ok(None),
            text => text,
        }
    }
}

impl Name {
    fn of(record: &RecordId) -> Self {
        match record {
            RecordId::Memory(id) => Self::Memory(*id),
            RecordId::Document { collection, id } => Self::Document(collection.clone(), id.clone()),
        }
    }

    fn record(self) -> RecordId {
        match self {
            Self::Memory(id) => id.into(),
            Self::Document(collection, id) => (collection, id).into(),
        }
    }
}
