//! Texts that the model refused, and when they are tried again.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::batch::Text;
use super::own::collection;
use crate::filter::{Field, Filter};
use crate::{
    Collection, Content, DocumentId, DocumentQuery, DocumentSelection, DocumentWrite, Error, ErrorKind, MemoryId,
    MemoryProvider, Metadata, Order, RecordId, Result, Revision, SpaceId, Timestamp,
};

/// The records that wait for another attempt: for each a document with the record's id and a time. It holds nothing of
/// the texts.
pub(super) struct Refused<'k> {
    pub(super) provider: &'k dyn MemoryProvider,
    pub(super) model: &'k str,
    pub(super) now: Timestamp,
}

/// A page of refused texts that are due.
pub(super) struct Page {
    /// The ids of the documents that record the refusals.
    pub(super) ids: Vec<DocumentId>,
    /// The texts of the records that still exist.
    pub(super) texts: Vec<Text>,
    pub(super) next: Option<String>,
}

/// The content of a refusal: the record's id.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Name {
    Memory(MemoryId),
    Document(Collection, DocumentId),
}

/// The metadata of a refusal.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Waits {
    /// When the record is tried again, in milliseconds since 1970.
    retry_at: i64,
    /// The current waiting time, in milliseconds.
    #[serde(default)]
    waits: i64,
    /// The refused revision, and the model. The waiting time starts over for another revision or model.
    #[serde(default)]
    revision: u64,
    #[serde(default)]
    model: String,
}

pub(super) const RETRY_AT: &str = "retryAt";
/// The first and the longest waiting time, in milliseconds.
const FIRST_WAIT: i64 = 3_600_000;
const LONGEST_WAIT: i64 = 7 * 24 * FIRST_WAIT;
/// The space of the refusals.
const SPACE: &str = "_embed/refused";

impl Refused<'_> {
    /// Records a refusal: the record waits an hour, or twice its last waiting time, up to a week.
    pub(super) async fn put(&self, record: &RecordId, revision: Revision) -> Result<()> {
        let name = json(&Name::of(record))?;
        let hash: String = Sha256::digest(&name).iter().map(|byte| format!("{byte:02x}")).collect();
        let (id, documents) = (DocumentId::parse(format!("refused-{hash}"))?, self.provider.documents());
        let (revision, model) = (revision.get(), self.model.to_owned());
        let before = documents.get(&collection()?, &id).await?;
        let before = before.and_then(|before| serde_json::from_str::<Waits>(before.metadata.as_str()).ok());
        let before = before.filter(|before| before.revision == revision && before.model == model);
        let waits = before.map_or(FIRST_WAIT, |before| before.waits.saturating_mul(2).clamp(FIRST_WAIT, LONGEST_WAIT));
        let waits = Waits { retry_at: self.now.as_millis().saturating_add(waits), waits, revision, model };
        let write = DocumentWrite::new(collection()?, SpaceId::parse(SPACE)?, Content::parse(name)?, self.now);
        documents.put(write.with_id(id).with_metadata(Metadata::parse(&json(&waits)?)?)).await.map(drop)
    }

    /// Returns the refusals that are due, from a cursor on, at most `count`.
    pub(super) async fn due(&self, count: usize, max_text: usize, cursor: Option<&str>) -> Result<Page> {
        let query = DocumentQuery::builder(collection()?).all().order(Order::OldestFirst).limit(count);
        let query = query.filter(self.is_due());
        let query = cursor.into_iter().fold(query, |query, cursor| query.cursor(cursor));
        let found = self.provider.documents().query(&query.build()?).await?;
        let mut page = Page { ids: Vec::new(), texts: Vec::new(), next: found.next.map(|cursor| cursor.to_string()) };
        for document in found.documents {
            if let Ok(name) = serde_json::from_str::<Name>(document.content.as_str()) {
                page.texts.extend(self.text(&name.record(), max_text).await?);
            }
            page.ids.push(document.id);
        }
        Ok(page)
    }

    /// Removes these refusals, except those that any keeper has recorded again meanwhile.
    pub(super) async fn remove(&self, ids: Vec<DocumentId>) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let (count, query) = (ids.len(), DocumentQuery::builder(collection()?).all().filter(self.is_due()));
        self.provider.documents().remove(&DocumentSelection::ids_where(ids, query)?, count).await.map(drop)
    }

    fn is_due(&self) -> Filter {
        Field::metadata([RETRY_AT]).le(self.now.as_millis())
    }

    /// Reads the current text of a record. If it can't be read, the feed delivers it again when it can.
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

fn json(value: &impl Serialize) -> Result<String> {
    let unexpected = |error| Error::new(ErrorKind::Unexpected, "a refusal can't be written").with_source(error);
    serde_json::to_string(value).map_err(unexpected)
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
