//! The calls of a history on a provider.

use std::sync::Arc;

use memory_core::{
    Collection, Document, DocumentId, DocumentQuery, DocumentSelection, DocumentStore, DocumentWrite, Erasure, Error,
    ErrorKind, Expect, Memory, MemoryId, MemoryPatch, MemoryProvider, MemoryQuery, Metadata, NewMemory, Order, Recall,
    RecordId, Result, Revision, Timestamp,
};

use crate::log::{Answer, How, Page, Row, Version, Wanted, What, now};

/// A word in every text, so that a recall finds all of them.
const WORD: &str = "history";
/// The maximum number of hits of a recall: with fewer hits, it has found all records.
const HITS: usize = 200;
/// How often a page is asked for that fails. Its cursor outlives the servers.
const TRIES: usize = 3;

/// A provider and its documents.
#[derive(Debug)]
pub(crate) struct Memories {
    provider: Arc<dyn MemoryProvider>,
    documents: Arc<dyn DocumentStore>,
}

impl Memories {
    pub(crate) fn of(provider: Arc<dyn MemoryProvider>) -> Self {
        Self { documents: provider.documents(), provider }
    }

    /// A call on one record.
    pub(crate) async fn one(&self, record: &str, number: u32, what: &What) -> Result<Answer> {
        match what {
            What::Store { space, variant } => {
                let trigger = format!(r#"{{"text":"{WORD} {record} {variant}"}}"#).parse()?;
                let memory = NewMemory::new(space.parse()?, trigger, time(number)?);
                let id = self.provider.store(memory.with_idempotency_key(record.parse()?)).await?;
                Ok(Answer::Stored(id.to_string()))
            }
            What::Update { id, if_revision } => {
                let metadata = Metadata::parse(&format!(r#"{{"{number}":true}}"#))?;
                let mut patch = MemoryPatch::new().merge_metadata(metadata);
                if let Some(revision) = if_revision {
                    patch = patch.if_revision(Revision::new(*revision)?);
                }
                let updated = self.provider.update(MemoryId::parse(id)?, patch).await?;
                Ok(Answer::Revision(updated.revision.get()))
            }
            What::Get { id: Some(id) } => {
                let found = self.provider.get(MemoryId::parse(id)?).await?;
                Ok(Answer::Found(found.as_ref().map(|memory| row_of(memory).version)))
            }
            What::Get { id: None } => {
                let found = self.documents.get(&collection()?, &record.parse()?).await?;
                Ok(Answer::Found(found.as_ref().map(|document| row_of_document(document).version)))
            }
            What::Erase { id } => {
                let name = match id {
                    Some(id) => RecordId::from(MemoryId::parse(id)?),
                    None => RecordId::from((collection()?, record.parse()?)),
                };
                let slice = self.provider.erase(&Erasure::records([name], "a call of a history")?).await?;
                Ok(Answer::Gone(!slice.records.is_empty()))
            }
            What::Put { space, expect } => {
                let expect = match expect {
                    Wanted::Any => Expect::Any,
                    Wanted::Absent => Expect::Absent,
                    Wanted::Revision(revision) => Expect::Revision(Revision::new(*revision)?),
                };
                let content = format!("{WORD} {number}").parse()?;
                let write = DocumentWrite::new(collection()?, space.parse()?, content, time(number)?);
                let document = self.documents.put(write.with_id(record.parse()?).expect(expect)).await?;
                Ok(Answer::Revision(document.revision.get()))
            }
            What::Remove => {
                let selection = DocumentSelection::ids(collection()?, [record.parse::<DocumentId>()?])?;
                Ok(Answer::Gone(!self.documents.remove(&selection, 1).await?.is_empty()))
            }
            What::Read { .. } => Err(Error::invalid("a read is a part of another call")),
        }
    }

    /// A call on all records of a kind below a path.
    pub(crate) async fn many(&self, documents: bool, under: &str, how: How) -> Result<Answer> {
        let (mut pages, mut cursor, mut tries) = (Vec::new(), None, TRIES);
        loop {
            let started = now();
            match self.page(documents, under, how, cursor.as_deref()).await {
                Ok((rows, next)) => {
                    // A recall has no next page, and at most its candidates.
                    let is_whole = how != How::Recall || rows.len() < HITS;
                    pages.push(Page { started, ended: now(), rows });
                    (cursor, tries) = (next, TRIES);
                    if cursor.is_none() {
                        return Ok(Answer::Pages { pages, is_complete: is_whole });
                    }
                }
                Err(error)
                    if pages.is_empty() || ![ErrorKind::Unavailable, ErrorKind::Timeout].contains(&error.kind()) =>
                {
                    return Err(error);
                }
                Err(_) if tries > 1 => tries -= 1,
                Err(_) => return Ok(Answer::Pages { pages, is_complete: false }),
            }
        }
    }

    /// The revisions that the history of a record has, newest first.
    pub(crate) async fn revisions(&self, record: &str, id: Option<&str>) -> Result<Vec<u64>> {
        let name = match id {
            Some(id) => RecordId::from(MemoryId::parse(id)?),
            None => RecordId::from((collection()?, record.parse()?)),
        };
        let page = self.provider.history(&memory_core::History::of(name).limit(1_000)?).await?;
        Ok(page.versions.iter().map(|version| version.revision.get()).collect())
    }

    /// The rows of a page, and the cursor of the next one.
    async fn page(
        &self,
        documents: bool,
        under: &str,
        how: How,
        cursor: Option<&str>,
    ) -> Result<(Vec<Row>, Option<String>)> {
        let (order, limit) = match how {
            How::Walk(limit) if limit % 2 == 0 => (Order::OldestFirst, limit),
            How::Walk(limit) => (Order::NewestFirst, limit),
            How::Query | How::Recall => (Order::NewestFirst, 1_000),
        };
        let (rows, unreadable, next) = if documents {
            let query = DocumentQuery::builder(collection()?).under(under).order(order).limit(limit);
            let query = cursor.into_iter().fold(query, |query, cursor| query.cursor(cursor)).build()?;
            if how == How::Recall {
                let found = self.documents.recall(&Recall::new(WORD, query)?).await?;
                return Ok((found.hits.iter().map(|hit| row_of_document(&hit.record)).collect(), None));
            }
            let page = self.documents.query(&query).await?;
            (page.documents.iter().map(row_of_document).collect(), page.unreadable, page.next)
        } else {
            let query = MemoryQuery::builder().under(under).order(order).limit(limit);
            let query = cursor.into_iter().fold(query, |query, cursor| query.cursor(cursor)).build()?;
            if how == How::Recall {
                let found = self.provider.recall(&Recall::new(WORD, query)?).await?;
                return Ok((found.hits.iter().map(|hit| row_of(&hit.record)).collect(), None));
            }
            let page = self.provider.query(&query).await?;
            (page.memories.iter().map(row_of).collect::<Vec<_>>(), page.unreadable, page.next)
        };
        match unreadable.is_empty() {
            true => Ok((rows, next.map(|next| next.to_string()))),
            false => Err(Error::corrupt("a page has rows that can't be read")),
        }
    }
}

fn collection() -> Result<Collection> {
    "histories".parse()
}

/// Some records share a time.
fn time(number: u32) -> Result<Timestamp> {
    Timestamp::from_millis(1_000_000 + i64::from(number) / 4)
}

fn row_of(memory: &Memory) -> Row {
    let metadata: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(memory.metadata.as_str()).unwrap_or_default();
    let version = Version {
        id: Some(memory.id.to_string()),
        variant: u8::from(memory.trigger.as_str().ends_with("1\"}")),
        space: memory.space_id.to_string(),
        revision: memory.revision.get(),
        writes: metadata.keys().filter_map(|key| key.parse().ok()).collect(),
    };
    let record = memory.idempotency_key.as_ref().map(ToString::to_string).unwrap_or_default();
    Row { record, created_at: memory.created_at.as_millis(), version }
}

fn row_of_document(document: &Document) -> Row {
    let number = document.content.as_str().rsplit(' ').next().and_then(|number| number.parse().ok());
    let version = Version {
        id: None,
        variant: 0,
        space: document.space_id.to_string(),
        revision: document.revision.get(),
        writes: number.into_iter().collect(),
    };
    Row { record: document.id.to_string(), created_at: document.created_at.as_millis(), version }
}
