//! The documents beside the ledger.

use std::sync::Arc;

use async_trait::async_trait;

use super::{MAX_LIGHT_EXAMINED, Shared};
use crate::engine::gate::record_rows;
use crate::engine::pages::{self, DocumentsOf};
use crate::engine::recall;
use crate::engine::session::{Reader, Work, Writer};
use crate::engine::spaces::{self, AskedSpaces};
use crate::engine::watch::Watching;
use crate::engine::{Access, Engine};
use crate::{
    Blocks, Collection, Document, DocumentId, DocumentPage, DocumentQuery, DocumentRecall, DocumentSelection,
    DocumentStore, DocumentWrite, Recalled, RestoreReport, Result, SpaceLevel, SpaceQuery, Timestamp,
};

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
        let id = write.id.clone().unwrap_or_else(DocumentId::generate);
        let work = async {
            let (open, write) = (self.shared.ready().await?, Arc::new(write));
            loop {
                let change = Change { id: id.clone(), write: Arc::clone(&write), now: open.settings.clock.now() };
                // A race that was lost is run again, until the deadline.
                if let Some(document) =
                    open.run(Access::Write, change, |writer, change| Box::pin(put(writer, change))).await?
                {
                    return Ok(document);
                }
            }
        };
        self.shared.gate.write("documents.put", work).await
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
            let open = self.shared.ready().await?;
            let has_places = open.has_document_places().await;
            let work: Work<E::Session, _, _> = |reader, asked| Box::pin(pages::documents(reader, asked));
            let page = self.shared.look(&open, query, query.is_heavy(), has_places, work).await?;
            record_rows(page.documents.len());
            Ok(page)
        };
        self.shared.gate.read("documents.query", work).await
    }

    async fn recall(&self, recall: &DocumentRecall) -> Result<Recalled<Document>> {
        let work = async {
            let open = self.shared.ready().await?;
            if recall.query.names_places() {
                // Without their places, others' documents would be looked at too.
                open.check_backfill(Blocks::DocumentPlaces).await?;
            }
            let work: Work<E::Session, _, _> = |reader, asked| Box::pin(recall::documents(reader, asked));
            let recall = recall.read_in(open.settings.language);
            let recalled = self.shared.look(&open, &recall, recall.query.is_heavy(), true, work).await?;
            record_rows(recalled.hits.len());
            Ok(recalled)
        };
        self.shared.gate.read("documents.recall", work).await
    }

    async fn spaces(&self, collection: &Collection, query: &SpaceQuery) -> Result<Vec<SpaceLevel>> {
        let work = async {
            let open = self.shared.ready().await?;
            open.check_backfill(Blocks::DocumentPlaces).await?;
            let work: Work<E::Session, _, _> = |reader, asked| Box::pin(document_levels(reader, asked));
            self.shared.list(&open, Some(collection), query, work).await
        };
        self.shared.gate.read("documents.spaces", work).await
    }

    async fn remove(&self, selection: &DocumentSelection, max: usize) -> Result<Vec<DocumentId>> {
        let selection = Arc::new(selection.clone());
        let work = async {
            let open = self.shared.ready().await?;
            let (until, mut is_heavy) = (open.until(), selection.is_heavy());
            loop {
                let permit = self.shared.permit(is_heavy).await?;
                let watching = Watching::new(until, (!is_heavy).then_some(MAX_LIGHT_EXAMINED));
                let removed = open.remove(&selection, max, permit, &watching).await;
                if !watching.is_spent() {
                    record_rows(removed.as_ref().map_or(0, Vec::len));
                    return removed;
                }
                is_heavy = true;
            }
        };
        self.shared.gate.write("documents.remove", work).await
    }

    async fn restore(&self, documents: Vec<Document>) -> Result<RestoreReport> {
        let work = async {
            let report = self.shared.ready().await?.restore_documents(documents).await?;
            record_rows(report.written);
            Ok(report)
        };
        self.shared.gate.write("documents.restore", work).await
    }

    async fn collections(&self) -> Result<Vec<Collection>> {
        let work = async {
            let open = self.shared.ready().await?;
            open.run(Access::Read, (), |reader, ()| Box::pin(reader.collections())).await
        };
        self.shared.gate.read("documents.collections", work).await
    }
}

/// What a put does.
struct Change {
    id: DocumentId,
    write: Arc<DocumentWrite>,
    now: Timestamp,
}

async fn document_levels(reader: &mut impl Reader, asked: &AskedSpaces) -> Result<Vec<SpaceLevel>> {
    // A query of documents always names its collection.
    let Some(collection) = &asked.of else { return Ok(Vec::new()) };
    spaces::levels(reader, &DocumentsOf(collection), asked).await
}

/// `None` when the document was changed meanwhile.
async fn put(writer: &mut impl Writer, change: &Change) -> Result<Option<Document>> {
    let Change { id, write, now } = change;
    let present = writer.documents(&write.collection, std::slice::from_ref(id)).await?.pop().transpose()?;
    let document = write.apply(id, present.as_ref().map(|found| &found.record), *now)?;
    Ok(writer.put(present.as_ref(), &document).await?.then_some(document))
}

async fn get(reader: &mut impl Reader, collection: &Collection, id: &DocumentId) -> Result<Option<Document>> {
    let found = reader.documents(collection, std::slice::from_ref(id)).await?.pop().transpose()?;
    Ok(found.map(|found| found.record))
}
