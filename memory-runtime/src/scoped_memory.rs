//! Access to the memory within a scope, for plugins.

use std::sync::Arc;

use memory_core::plugin::Scope;
use memory_core::{
    Collection, Document, DocumentId, DocumentPage, DocumentSelection, DocumentStore, DocumentWrite, Documents, Error,
    ErrorKind, Filter, Ledger, Memory, MemoryId, MemoryPage, QueryBuilder, Result, SpaceSelector,
};

use crate::memory_manager::MemoryManager;

/// Reads the ledger, and reads and writes documents, within a [`Scope`]. Records outside of the scope are not found; collections and
/// writes that the scope does not allow fail with `Unauthorized`.
#[derive(Debug, Clone)]
pub struct ScopedMemory {
    manager: Arc<MemoryManager>,
    scope: Scope,
}

impl ScopedMemory {
    pub(crate) fn new(manager: Arc<MemoryManager>, scope: Scope) -> Self {
        Self { manager, scope }
    }

    /// The scope.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Returns the memory with this id, if the scope may read it.
    pub async fn get(&self, id: MemoryId) -> Result<Option<Memory>> {
        let memory = self.manager.get(id).await?;
        Ok(memory.filter(|memory| self.scope.readable().matches(memory.space_id.as_str())))
    }

    /// Returns one page of a query of the ledger. The scope replaces the query's own `within`.
    pub async fn query(&self, query: QueryBuilder<Ledger>) -> Result<MemoryPage> {
        self.manager.query(query.within(self.scope.readable().clone())).await
    }

    /// Returns the document with this id, if the scope may read it.
    pub async fn document(&self, collection: &Collection, id: &DocumentId) -> Result<Option<Document>> {
        self.check_collection(collection)?;
        let document = self.documents().get(collection, id).await?;
        Ok(document.filter(|document| self.scope.readable().matches(document.space_id.as_str())))
    }

    /// Returns one page of a query of documents. The scope replaces the query's own `within`.
    pub async fn query_documents(&self, query: QueryBuilder<Documents>) -> Result<DocumentPage> {
        let query = query.within(self.scope.readable().clone()).build()?;
        self.check_collection(query.collection())?;
        self.documents().query(&query).await
    }

    /// Puts a document into the writable space or below it, but not into the space that the scope excludes from writes. A document with the
    /// same id in another space is never replaced: the call fails with `Conflict`.
    pub async fn put_document(&self, write: DocumentWrite) -> Result<Document> {
        self.check_collection(&write.collection)?;
        let write = write.within(self.writable()?)?;
        let write = match self.scope.unwritable() {
            Some(space) => write.outside(SpaceSelector::under(space)?)?,
            None => write,
        };
        self.documents().put(write).await
    }

    /// Removes the documents that a query finds in the writable space and below it, which replaces the query's own `within`. Fails with
    /// `LimitExceeded` and removes nothing if they are more than `max`.
    pub async fn remove_documents(&self, query: QueryBuilder<Documents>, max: usize) -> Result<Vec<DocumentId>> {
        let query = query.within(self.writable()?);
        // Checked before the scope adds a condition, so that a removal of everything stays refused.
        let mut selection = DocumentSelection::matching(query.clone())?;
        self.check_collection(selection.collection())?;
        if let Some(space) = self.scope.unwritable() {
            let outside = Filter::under(space).negate();
            let filter = selection.query().filter().cloned().into_iter().fold(outside, Filter::and);
            selection = DocumentSelection::matching(query.filter(filter))?;
        }
        self.documents().remove(&selection, max).await
    }

    fn documents(&self) -> Arc<dyn DocumentStore> {
        self.manager.documents()
    }

    fn check_collection(&self, collection: &Collection) -> Result<()> {
        if self.scope.collections().contains(collection) {
            Ok(())
        } else {
            Err(refused("the collection may not be used"))
        }
    }

    fn writable(&self) -> Result<SpaceSelector> {
        let space = self.scope.writable().ok_or_else(|| refused("nothing may be written"))?;
        SpaceSelector::under(space)
    }
}

fn refused(message: &str) -> Error {
    Error::new(ErrorKind::Unauthorized, message)
}
