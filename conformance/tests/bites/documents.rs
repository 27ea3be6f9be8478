//! The documents of the reference with one bug.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use memory_core::{
    Collection, Content, Document, DocumentId, DocumentPage, DocumentQuery, DocumentRecall, DocumentSelection,
    DocumentStore, DocumentWrite, Error, ErrorKind, Expect, InMemory, MemoryProvider, NewMemory, Recalled,
    RestoreReport, Result, SpaceLevel, SpaceQuery, Trigger, words,
};
use tokio::sync::Barrier;

use crate::expiry::Expiring;
use crate::flaw::Flaw;

/// A store that delegates every call, apart from its flaw.
#[derive(Debug)]
pub(crate) struct BrokenDocuments {
    inner: Arc<dyn DocumentStore>,
    /// The ledger beside it, for [`Flaw::PutsAreInTheLedger`].
    ledger: InMemory,
    flaw: Flaw,
    /// Removed documents, for [`Flaw::RemoveLeavesText`].
    removed: Mutex<Vec<Document>>,
    /// The collections of puts, for [`Flaw::EmptyCollectionsAreListed`].
    collections: Mutex<BTreeSet<Collection>>,
    /// The barrier at which two removals meet, for [`Flaw::RemovalsBothReport`].
    looked: Barrier,
    /// Documents that were put with an expiry, for [`Flaw::ExpiredIdBlocksAPut`].
    expiring: Arc<Expiring>,
}

impl BrokenDocuments {
    pub(crate) fn new(ledger: InMemory, flaw: Flaw, expiring: Arc<Expiring>) -> Self {
        let (removed, collections) = Default::default();
        Self { inner: ledger.documents(), ledger, flaw, removed, collections, looked: Barrier::new(2), expiring }
    }

    /// Removes the document under an id, and only then writes the new one.
    async fn put_anew(&self, document: Document) -> Result<Document> {
        let id = DocumentSelection::ids(document.collection.clone(), [document.id.clone()])?;
        self.inner.remove(&id, 1).await?;
        tokio::task::yield_now().await;
        self.inner.restore(vec![document.clone()]).await?;
        Ok(document)
    }

    /// Every document that a selection finds.
    async fn selected(&self, selects: impl Fn(&Document) -> bool, collection: &Collection) -> Result<Vec<Document>> {
        let query = || DocumentQuery::builder(collection.clone()).all().limit(1_000);
        let (mut found, mut page) = (Vec::new(), self.inner.query(&query().build()?).await?);
        loop {
            found.extend(page.documents.into_iter().filter(&selects));
            let Some(cursor) = page.next else { return Ok(found) };
            page = self.inner.query(&query().cursor(&cursor).build()?).await?;
        }
    }
}

#[async_trait]
impl DocumentStore for BrokenDocuments {
    async fn put(&self, mut write: DocumentWrite) -> Result<Document> {
        locked(&self.collections).insert(write.collection.clone());
        match (self.flaw, &write.id) {
            (Flaw::PutIgnoresTheRevision, _) if matches!(write.expect, Expect::Revision(_)) => {
                write.expect = Expect::Any
            }
            (Flaw::PutIgnoresAbsent, _) if write.expect == Expect::Absent => write.expect = Expect::Any,
            (Flaw::PutKeepsTheSpace, Some(id)) => {
                if let Some(present) = self.inner.get(&write.collection, id).await? {
                    write.space_id = present.space_id;
                }
            }
            (Flaw::PutMovesCreatedAt, _) => {
                let created_at = write.created_at;
                let moved = Document { created_at, ..self.inner.put(write).await? };
                return self.put_anew(moved).await;
            }
            (Flaw::DroppedPutLosesTheOld, _) => return self.put_anew(self.inner.put(write).await?).await,
            (Flaw::DocumentIdsAreFolded, Some(id)) => write.id = Some(DocumentId::parse(id.as_str().to_lowercase())?),
            (Flaw::ContentsAreTrimmed, _) => write.content = Content::parse(write.content.as_str().trim())?,
            (Flaw::PutsAreInTheLedger, _) => {
                let put = NewMemory::new(write.space_id.clone(), Trigger::parse(r#""a put""#)?, write.created_at);
                self.ledger.store(put).await?;
            }
            (Flaw::ExpiryIsForgottenByAPut, _) => write.expires_at = None,
            (Flaw::ExpiredIdBlocksAPut, _) if self.expiring.blocks(&write) => {
                return Err(Error::new(ErrorKind::Conflict, "it is not swept yet"));
            }
            _ => {}
        }
        let document = self.inner.put(write).await?;
        self.expiring.put(&document);
        Ok(document)
    }

    async fn put_many(&self, mut writes: Vec<DocumentWrite>) -> Result<Vec<Document>> {
        match self.flaw {
            Flaw::PutsHaveACap if writes.len() > 999 => return Err(Error::too_large("too many parameters")),
            Flaw::PutsTakeTheLastOfAnId => {
                let ids: Vec<_> = writes.iter().map(|write| (write.collection.clone(), write.id.clone())).collect();
                let mut place = 0;
                writes.retain(|write| {
                    place += 1;
                    write.id.is_none() || !ids[place..].contains(&(write.collection.clone(), write.id.clone()))
                });
            }
            Flaw::PutsArePartlyApplied | Flaw::DroppedPutsAreHalf => {
                let mut documents = Vec::new();
                for write in writes {
                    documents.push(self.put(write).await?);
                    tokio::task::yield_now().await;
                }
                return Ok(documents);
            }
            _ => {}
        }
        self.inner.put_many(writes).await
    }

    async fn get(&self, collection: &Collection, id: &DocumentId) -> Result<Option<Document>> {
        match self.flaw {
            Flaw::DocumentIdsAreFolded => {
                self.inner.get(collection, &DocumentId::parse(id.as_str().to_lowercase())?).await
            }
            _ => self.inner.get(collection, id).await,
        }
    }

    async fn query(&self, query: &DocumentQuery) -> Result<DocumentPage> {
        if self.flaw == Flaw::DocumentsIgnoreWithin && query.within().is_some() {
            let is_named = |document: &Document| query.spaces().matches(document.space_id.as_str());
            let documents = self.selected(is_named, query.collection()).await?;
            return Ok(DocumentPage { documents, ..Default::default() });
        }
        let Some(text) = query.text() else { return self.inner.query(query).await };
        let wanted = words::distinct(text);
        let held = |document: &Document| words::distinct(document.content.as_str());
        let mut page = match self.inner.query(query).await {
            Err(error) if error.kind() == ErrorKind::InvalidInput && self.flaw == Flaw::CursorForgetsItsText => {
                let has_a_word = |document: &Document| !wanted.is_disjoint(&held(document));
                DocumentPage { documents: self.selected(has_a_word, query.collection()).await?, ..Default::default() }
            }
            page => page?,
        };
        match self.flaw {
            Flaw::TextNeedsEveryWord => page.documents.retain(|document| wanted.is_subset(&held(document))),
            Flaw::TextIsRanked => {
                page.documents.sort_by_key(|document| std::cmp::Reverse(held(document).intersection(&wanted).count()))
            }
            Flaw::TextHitsEndAtTen => page.documents.truncate(10),
            Flaw::BackslashesHideWords => page.documents.retain(|document| !document.content.as_str().contains('\\')),
            Flaw::RemoveLeavesText => {
                let removed = locked(&self.removed);
                let ours = removed.iter().filter(|document| document.collection == *query.collection());
                page.documents.extend(ours.filter(|document| !wanted.is_disjoint(&held(document))).cloned());
            }
            _ => {}
        }
        Ok(page)
    }

    async fn recall(&self, recall: &DocumentRecall) -> Result<Recalled<Document>> {
        let recalled = self.inner.recall(recall).await?;
        Ok(Recalled { complete: recalled.complete || self.flaw == Flaw::RecallSaysItIsComplete, ..recalled })
    }

    async fn spaces(&self, collection: &Collection, query: &SpaceQuery) -> Result<Vec<SpaceLevel>> {
        self.inner.spaces(collection, query).await
    }

    async fn remove(&self, selection: &DocumentSelection, max: usize) -> Result<Vec<DocumentId>> {
        let collection = selection.collection();
        if let (Flaw::DroppedRemovalIsHalf, Some(ids)) = (self.flaw, selection.candidate_ids()) {
            let mut removed = Vec::new();
            for id in ids {
                // Without a search, since the caller might never get a permit for one while it stays.
                let one = DocumentSelection::ids(collection.clone(), [id.clone()])?;
                removed.extend(self.inner.remove(&one, 1).await?);
                tokio::task::yield_now().await;
            }
            return Ok(removed);
        }
        let found = self.selected(|document| selection.matches(document), collection).await?;
        match (self.flaw, selection.candidate_ids()) {
            (Flaw::RemoveIgnoresMax, _) => self.inner.remove(selection, usize::MAX).await,
            (Flaw::RemoveTakesTen, None) if (11..=max).contains(&found.len()) => {
                let mut ids: Vec<_> = found.into_iter().map(|document| document.id).collect();
                ids.sort_unstable();
                ids.truncate(10);
                self.inner.remove(&DocumentSelection::ids(collection.clone(), ids)?, max).await
            }
            (Flaw::RemoveTakesIdsByPrefix, Some(ids)) => {
                let starts = |document: &Document| ids.iter().any(|id| document.id.as_str().starts_with(id.as_str()));
                let all = self.selected(starts, collection).await?.into_iter().map(|document| document.id);
                let all = DocumentSelection::ids(collection.clone(), all.chain(ids.iter().cloned()))?;
                self.inner.remove(&all, usize::MAX).await
            }
            (Flaw::RemovalsBothReport, _) => {
                // Both search before either removes.
                self.looked.wait().await;
                self.inner.remove(selection, max).await?;
                let mut ids: Vec<_> = found.into_iter().map(|document| document.id).collect();
                ids.sort_unstable();
                Ok(ids)
            }
            (Flaw::RemovalIgnoresTheFilter, None) if selection.query().filter().is_some() => {
                let spaces = selection.query().spaces();
                let all = self.selected(|document| spaces.matches(document.space_id.as_str()), collection).await?;
                let all = all.into_iter().map(|document| document.id);
                self.inner.remove(&DocumentSelection::ids(collection.clone(), all)?, usize::MAX).await
            }
            (Flaw::RemoveLeavesText, _) => {
                let ids = self.inner.remove(selection, max).await?;
                locked(&self.removed).extend(found);
                Ok(ids)
            }
            _ => self.inner.remove(selection, max).await,
        }
    }

    async fn restore(&self, documents: Vec<Document>) -> Result<RestoreReport> {
        if self.flaw == Flaw::ErasedDocumentsComeBack {
            let mut report = self.inner.restore(documents.clone()).await?;
            for place in std::mem::take(&mut report.erased) {
                let Document { id, collection, space_id, content, created_at, .. } = documents[place].clone();
                self.inner.put(DocumentWrite::new(collection, space_id, content, created_at).with_id(id)).await?;
                report.written += 1;
            }
            return Ok(report);
        }
        if self.flaw != Flaw::DroppedDocumentsAreEmpty {
            return self.inner.restore(documents).await;
        }
        let mut report = RestoreReport::default();
        for document in documents {
            let empty = Document { content: Content::parse("")?, ..document.clone() };
            self.inner.restore(vec![empty]).await?;
            tokio::task::yield_now().await;
            self.put_anew(document).await?;
            report.written += 1;
        }
        Ok(report)
    }

    async fn restore_newer(&self, documents: Vec<Document>) -> Result<RestoreReport> {
        if self.flaw != Flaw::NewerDocumentIsTheLast {
            return self.inner.restore_newer(documents).await;
        }
        let mut report = RestoreReport::default();
        for document in documents {
            match self.inner.get(&document.collection, &document.id).await? {
                Some(present) if present == document => report.equal += 1,
                _ => {
                    self.put_anew(document).await?;
                    report.written += 1;
                }
            }
        }
        Ok(report)
    }

    async fn collections(&self) -> Result<Vec<Collection>> {
        let names = self.inner.collections().await?;
        match self.flaw {
            Flaw::EmptyCollectionsAreListed => Ok(locked(&self.collections).iter().cloned().collect()),
            _ => Ok(names),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
