//! The documents beside the ledger.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use async_trait::async_trait;

use super::living::LivingWork;
use super::look::Look;
use super::open::{NAMES, Shared};
use super::restore::Present;
use crate::engine::gate::record_rows;
use crate::engine::history::VersionEntry;
use crate::engine::pages::DocumentsOf;
use crate::engine::session::{Found, Put, Reader, Writer};
use crate::engine::spaces::{self, AskedSpaces};
use crate::engine::{Access, Engine};
use crate::expiry::Rules;
use crate::provider::check_writes;
use crate::{
    Blocks, Collection, Document, DocumentId, DocumentPage, DocumentQuery, DocumentRecall, DocumentSelection,
    DocumentStore, DocumentWrite, Error, ErrorKind, MAX_BATCH_BYTES, Recalled, RecordId, RestoreReport, Result,
    SpaceLevel, SpaceQuery, Timestamp,
};

/// Number of documents to be replaced that are read at once.
const READ: usize = 64;

/// A document as a session has read it.
type FoundIn<R> = Found<Document, <R as Reader>::Version>;

/// The documents of a [`Provider`](super::Provider).
#[derive(Debug)]
pub(super) struct ProviderDocuments<E: Engine> {
    shared: Arc<Shared<E>>,
}

impl<E: Engine> ProviderDocuments<E> {
    pub(super) fn new(shared: Arc<Shared<E>>) -> Self {
        Self { shared }
    }
}

#[async_trait]
impl<E: Engine> DocumentStore for ProviderDocuments<E> {
    async fn put(&self, write: DocumentWrite) -> Result<Document> {
        let work = async {
            let mut put = self.put_all(vec![write]).await?;
            Ok(put.pop().expect("a write leaves a document"))
        };
        self.shared.gate.write("documents.put", work).await
    }

    async fn put_many(&self, writes: Vec<DocumentWrite>) -> Result<Vec<Document>> {
        let work = async {
            check_writes(&writes)?;
            record_rows(writes.len());
            self.put_all(writes).await
        };
        self.shared.gate.write("documents.put_many", work).await
    }

    async fn get(&self, collection: &Collection, id: &DocumentId) -> Result<Option<Document>> {
        let key = (collection.clone(), id.clone());
        let work = async {
            let open = self.shared.ready().await?;
            open.run(Access::Read, key, |reader, (collection, id)| Box::pin(get(reader, collection, id))).await
        };
        self.shared.gate.read("documents.get", work).await
    }

    async fn query(&self, query: &DocumentQuery) -> Result<DocumentPage> {
        let work = async {
            let page = self.shared.documents(Access::Read, query).await?;
            record_rows(page.documents.len());
            Ok(page)
        };
        self.shared.gate.read("documents.query", work).await
    }

    async fn recall(&self, recall: &DocumentRecall) -> Result<Recalled<Document>> {
        let work = async {
            let open = self.shared.ready().await?;
            if recall.query.names_places() {
                // Without the index by place, documents outside of these places would be examined too.
                open.check_backfill(Blocks::DocumentPlaces).await?;
            }
            let recalled = self.shared.recall(&open, recall).await?;
            record_rows(recalled.hits.len());
            Ok(recalled)
        };
        self.shared.gate.read("documents.recall", work).await
    }

    async fn spaces(&self, collection: &Collection, query: &SpaceQuery) -> Result<Vec<SpaceLevel>> {
        let work = async {
            let open = self.shared.ready().await?;
            open.check_backfill(Blocks::DocumentPlaces).await?;
            let work: LivingWork<E::Session, _, _> = |reader, asked| Box::pin(document_levels(reader, asked));
            self.shared.list(&open, Some(collection), query, work).await
        };
        self.shared.gate.read("documents.spaces", work).await
    }

    async fn remove(&self, selection: &DocumentSelection, max: usize) -> Result<Vec<DocumentId>> {
        let selection = Arc::new(selection.clone());
        let work = async {
            let open = self.shared.ready().await?;
            let mut how = Look::new(&open, Access::Write).heavy(selection.is_heavy());
            loop {
                let (permit, watching) = (self.shared.permit(how.is_heavy).await?, how.watching());
                let removed = open.remove(&selection, max, permit, &watching).await;
                if !watching.is_spent() {
                    record_rows(removed.as_ref().map_or(0, Vec::len));
                    return removed;
                }
                how.is_heavy = true;
            }
        };
        self.shared.gate.write("documents.remove", work).await
    }

    async fn restore(&self, documents: Vec<Document>) -> Result<RestoreReport> {
        let work = async { self.shared.ready().await?.restore_documents(documents, Present::Stays).await };
        self.shared.gate.write("documents.restore", work).await
    }

    async fn restore_newer(&self, documents: Vec<Document>) -> Result<RestoreReport> {
        let work = async { self.shared.ready().await?.restore_documents(documents, Present::GivesWay).await };
        self.shared.gate.write("documents.restore_newer", work).await
    }

    async fn collections(&self) -> Result<Vec<Collection>> {
        let work = async {
            let open = self.shared.ready().await?;
            open.run(Access::Read, (), |reader, ()| Box::pin(collections(reader))).await
        };
        self.shared.gate.read("documents.collections", work).await
    }
}

/// Lists all collections.
async fn collections(reader: &mut impl Reader) -> Result<Vec<Collection>> {
    let mut all = Vec::new();
    loop {
        let some = reader.collections(all.last(), NAMES).await?;
        let is_all = some.len() < NAMES;
        all.extend(some);
        if is_all {
            return Ok(all);
        }
    }
}

impl<E: Engine> ProviderDocuments<E> {
    /// Puts all or none, and returns the documents in their order.
    async fn put_all(&self, writes: Vec<DocumentWrite>) -> Result<Vec<Document>> {
        let named = |write: DocumentWrite| (write.id.clone().unwrap_or_else(DocumentId::generate), write);
        let (ids, writes): (Vec<_>, Vec<_>) = writes.into_iter().map(named).unzip();
        let (open, writes) = (self.shared.ready().await?, Arc::new(Writes { ids, writes }));
        open.check_expiry(writes.writes.iter().map(|write| write.expires_at))?;
        let mut is_again = false;
        loop {
            // Read here, because a clock that panics must not end a thread of the engine.
            let (writes, now) = (Arc::clone(&writes), open.settings.clock.now());
            let keeps_history = open.history_since().await?.is_some();
            let rules = open.rules().await?;
            let change = Change { writes, now, keeps_history, rules, is_again };
            // If another writer won the race, try again, until the deadline.
            if let Some(put) = open.run(Access::Write, change, |writer, change| Box::pin(put(writer, change))).await? {
                return Ok(put);
            }
            is_again = true;
        }
    }
}

/// The writes of a call, with the id of each.
struct Writes {
    ids: Vec<DocumentId>,
    writes: Vec<DocumentWrite>,
}

/// The puts of a call, with what their session needs.
struct Change {
    writes: Arc<Writes>,
    now: Timestamp,
    keeps_history: bool,
    rules: Arc<Rules>,
    /// Whether an earlier attempt failed because a document was changed or a tombstone blocked one.
    is_again: bool,
}

fn at_the_end() -> Error {
    Error::conflict(
        "a document with the latest possible time was erased under this id, and no later one is possible: take another id",
    )
}

async fn document_levels(reader: &mut impl Reader, asked: &AskedSpaces) -> Result<Vec<SpaceLevel>> {
    // A query of documents always names its collection.
    let Some(collection) = &asked.of else { return Ok(Vec::new()) };
    spaces::levels(reader, &DocumentsOf(collection), asked).await
}

/// Returns `None`, and puts none, if a document was changed meanwhile.
async fn put(writer: &mut impl Writer, change: &Change) -> Result<Option<Vec<Document>>> {
    let Writes { ids, writes } = &*change.writes;
    let present = present(writer, &change.writes).await?;
    // Tombstones are read only after an attempt failed, because they rarely block a put.
    let absent = ids.iter().zip(writes).zip(&present).filter(|(_, found)| found.is_none() && change.is_again);
    let absent: Vec<RecordId> = absent.map(|((id, write), _)| (write.collection.clone(), id.clone()).into()).collect();
    let tombstones = if absent.is_empty() { Vec::new() } else { writer.tombstones(&absent).await? };
    let erased_at: HashMap<_, _> = tombstones.into_iter().map(|tombstone| (tombstone.record, tombstone.at)).collect();
    let mut documents = Vec::with_capacity(writes.len());
    for (place, ((id, write), found)) in ids.iter().zip(writes).zip(&present).enumerate() {
        let applied = write.apply(id, found.as_ref().map(|found| &found.record), change.now);
        // Of several documents, the message must say which.
        documents.push(applied.map_err(|error| match writes.len() {
            1 => error,
            _ => {
                let message = format!("document {place} of the call: {}", error.message());
                error.with_message(message)
            }
        })?);
    }
    for document in documents.iter_mut().filter(|document| change.rules.keep(document.space_id.as_str()).is_some()) {
        // Retention counts from the put, not from the caller's createdAt (X3).
        document.updated_at = Some(change.now);
    }
    for document in documents.iter_mut().filter(|_| !erased_at.is_empty()) {
        let record = (&*document).into();
        // Otherwise a restore would take it for the erased one (E3).
        if let Some(at) = erased_at.get(&record) {
            let behind = Timestamp::from_millis(at.as_millis() + 1).map_err(|_| at_the_end())?;
            document.created_at = document.created_at.max(behind);
        }
    }
    let mut puts = Vec::with_capacity(documents.len());
    for ((write, after), before) in writes.iter().zip(&documents).zip(&present) {
        let (before, actor) = (before.as_ref(), || write.actor.clone());
        let entry = || VersionEntry::of_put(before.map(|found| &found.record), after, change.now, actor());
        puts.push(Put { before, after, entry: change.keeps_history.then(entry), is_guarded: before.is_none() });
    }
    Ok((puts.is_empty() || writer.put(&puts).await?).then_some(documents))
}

/// Returns the stored documents under the ids of writes, in their order. Fails with `LimitExceeded` if they exceed what
/// one call may replace (D7).
async fn present<R: Reader>(reader: &mut R, Writes { ids, writes }: &Writes) -> Result<Vec<Option<FoundIn<R>>>> {
    let mut places = BTreeMap::<&Collection, HashMap<&DocumentId, usize>>::new();
    for (place, (id, write)) in ids.iter().zip(writes).enumerate() {
        places.entry(&write.collection).or_default().insert(id, place);
    }
    let (mut present, mut bytes) = (Vec::new(), 0);
    present.resize_with(ids.len(), || None);
    for (collection, places) in places {
        let ids: Vec<_> = places.keys().copied().cloned().collect();
        // In chunks, because stored documents may be large.
        for ids in ids.chunks(READ) {
            for found in reader.documents(collection, ids).await? {
                let found = found?;
                bytes += found.record.size();
                if bytes > MAX_BATCH_BYTES {
                    let message = format!("documents of more than {MAX_BATCH_BYTES} bytes would be replaced");
                    return Err(Error::new(ErrorKind::LimitExceeded, message));
                }
                if let Some(place) = places.get(&found.record.id) {
                    present[*place] = Some(found);
                }
            }
        }
    }
    Ok(present)
}

async fn get(reader: &mut impl Reader, collection: &Collection, id: &DocumentId) -> Result<Option<Document>> {
    let found = reader.documents(collection, std::slice::from_ref(id)).await?.pop().transpose()?;
    Ok(found.map(|found| found.record))
}
