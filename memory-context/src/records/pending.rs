//! Which vectors are still to be made.

use std::time::Duration;

use memory_core::filter::Field;
use memory_core::{
    Collection, Content, Document, DocumentId, DocumentQuery, DocumentSelection, DocumentWrite, ErrorKind, Expect,
    Metadata, Order, Result, SpaceId,
};

use super::layout::{agent_space, pending_collection};
use super::{Records, RoomId};
use crate::documents;

/// The facts of an agent that wait for their vectors: documents under the ids of the facts, each with its room. One is there
/// before its fact is.
pub(super) struct Pending<'a> {
    records: &'a Records,
    collection: Collection,
    space: SpaceId,
}

/// One of them.
pub(super) struct Mark {
    pub(super) id: DocumentId,
    pub(super) room: RoomId,
    /// Whether its fact would be there by now if it came at all.
    pub(super) is_settled: bool,
}

/// Well above what a put may take, so that a mark without a fact stays one.
const SETTLED_AFTER: Duration = Duration::from_secs(600);
/// The time in milliseconds, among the metadata of a mark, from which on its fact is tried again.
const RETRY_AT: &str = "retryAt";
/// How long a fact that the embedder refused waits for its next attempt.
const REFUSED_FOR: Duration = Duration::from_secs(3_600);

impl<'a> Pending<'a> {
    pub(super) fn of(records: &'a Records) -> Result<Self> {
        let agent = records.agent();
        Ok(Self { records, collection: pending_collection(agent)?, space: agent_space(agent)? })
    }

    /// Marks a fact, unless it is marked; tells whether it was not.
    pub(super) async fn add(&self, id: &DocumentId, room: &RoomId) -> Result<bool> {
        let (collection, space) = (self.collection.clone(), self.space.clone());
        let write = DocumentWrite::new(collection, space, Content::parse(room)?, self.records.now());
        match self.records.documents().put(write.with_id(id.clone()).expect(Expect::Absent)).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Those that were marked first, without the postponed ones.
    pub(super) async fn oldest(&self, limit: usize) -> Result<Vec<Mark>> {
        let now = self.records.now().as_millis();
        let retry_at = || Field::metadata([RETRY_AT]);
        let query = DocumentQuery::builder(self.collection.clone()).all().order(Order::OldestFirst);
        let query = query.filter(retry_at().is_null().or(retry_at().le(now)));
        let read = |document: Document| {
            let age = u64::try_from(now - document.created_at.as_millis()).unwrap_or_default();
            let is_settled = Duration::from_millis(age) >= SETTLED_AFTER;
            Ok(Mark { id: document.id, room: RoomId::parse(document.content.as_str())?, is_settled })
        };
        documents::find(self.records.documents().as_ref(), query, limit, read).await
    }

    /// Has a fact that was refused wait for an hour, so that it does not take the place of others.
    pub(super) async fn postpone(&self, id: &DocumentId, room: &RoomId) -> Result<()> {
        let pause = i64::try_from(REFUSED_FOR.as_millis()).unwrap_or(i64::MAX);
        let retry_at = self.records.now().as_millis().saturating_add(pause);
        let metadata = Metadata::parse(&format!(r#"{{"{RETRY_AT}":{retry_at}}}"#))?;
        let (collection, space) = (self.collection.clone(), self.space.clone());
        let write = DocumentWrite::new(collection, space, Content::parse(room)?, self.records.now());
        self.records.documents().put(write.with_id(id.clone()).with_metadata(metadata)).await.map(drop)
    }

    /// Takes a mark away.
    pub(super) async fn remove(&self, id: &DocumentId) -> Result<()> {
        let selection = DocumentSelection::ids(self.collection.clone(), [id.clone()])?;
        self.records.documents().remove(&selection, 1).await.map(drop)
    }
}
