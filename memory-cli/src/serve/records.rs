//! Finds, changes, removes and erases records in the name of a caller, for REST and the console.

use memory_core::{
    Collection, Document, DocumentId, DocumentQuery, DocumentSelection, ErasedSlice, Erasure, Error, ErrorKind, Memory,
    MemoryId, MemoryPatch, RecordId, Spaces, Updated,
};

use super::access::{Access, Wanted, Writable, check_change};
use super::problem::Problem;
use super::state::Server;
use crate::collections::is_copied;

/// The memory, if the caller may know of it.
pub(crate) async fn readable_memory(server: &Server, access: &Access, id: MemoryId) -> Result<Memory, Problem> {
    let memory = server.provider.get(id).await.map_err(|error| access.told(error, Wanted::Itself))?;
    memory.filter(|memory| access.may_read(memory)).ok_or_else(|| Problem::not_found("memory"))
}

/// The document, if the caller may know of it.
pub(crate) async fn readable_document(
    server: &Server,
    access: &Access,
    collection: &Collection,
    id: &DocumentId,
) -> Result<Document, Problem> {
    access.check_collection(collection)?;
    let document = server.documents.get(collection, id).await?;
    document.filter(|document| access.may_read_document(document)).ok_or_else(|| Problem::not_found("document"))
}

/// Changes a memory in the name of the caller, if it may. What a precondition of its request expects fails as one.
pub(crate) async fn apply_patch(
    server: &Server,
    access: &Access,
    id: MemoryId,
    mut patch: MemoryPatch,
    has_precondition: bool,
) -> Result<Updated, Problem> {
    patch.actor = access.actor();
    access.check_ledger_write()?;
    // The space of a memory never changes, and a memory never becomes a task, so what is found now holds for the update.
    if access.writable != Writable::Everywhere {
        let memory = readable_memory(server, access, id).await?;
        access.check_write(&memory.space_id)?;
        check_change(&memory, &patch)?;
    }
    let updated = server.provider.update(id, patch).await;
    updated.map_err(|error| Problem::of_change(access.told(error, Wanted::Itself), has_precondition))
}

/// Removes a document in the name of the caller, if it may.
pub(crate) async fn remove_by_id(
    server: &Server,
    access: &Access,
    collection: Collection,
    id: DocumentId,
) -> Result<(), Problem> {
    access.check_collection(&collection)?;
    let query = access.confine_to_writable(access.confine(DocumentQuery::builder(collection).all()), None)?;
    let selection = access.sign(DocumentSelection::ids_where([id], query)?);
    let removed = server.documents.remove(&selection, 1).await?;
    if removed.is_empty() { Err(Problem::not_found("document")) } else { Ok(()) }
}

/// Erases the next slice in the name of the caller.
pub(crate) async fn erase_slice(server: &Server, access: &Access, erasure: Erasure) -> Result<ErasedSlice, Problem> {
    access.check_erasure()?;
    let erasure = access.actor().into_iter().fold(erasure, Erasure::by);
    Ok(server.provider.erase(&erasure).await?)
}

/// The erasure of those of these memories that the caller may read and write; the others are passed over as if they were not there.
pub(crate) async fn erasure_of_ids(
    server: &Server,
    access: &Access,
    ids: Vec<MemoryId>,
    reason: &str,
) -> Result<Vec<Erasure>, Problem> {
    // Checks how many there are before each is looked at.
    let all = Erasure::records(ids.iter().copied().map(RecordId::from), reason)?;
    if access.write_filter()?.is_none() && access.readable == Spaces::All {
        return Ok(vec![all]);
    }
    let mut writable = Vec::new();
    for id in ids {
        match server.provider.get(id).await {
            // The space of a memory never changes, so what is found now holds for the erasure.
            Ok(Some(memory)) if access.may_read(&memory) && access.check_write(&memory.space_id).is_ok() => {
                writable.push(RecordId::from(id));
            }
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::Erased | ErrorKind::Corrupt) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if writable.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![Erasure::records(writable, reason)?])
}

/// `Unauthorized` unless this collection may be used, and `InvalidInput` where it is no collection of callers.
pub(crate) fn check_erasable(access: &Access, collection: &Collection) -> memory_core::Result<()> {
    access.check_collection(collection)?;
    if !is_copied(collection) {
        return Err(Error::invalid(format!(
            "the collection {collection} is internal, and its documents can't be erased"
        )));
    }
    Ok(())
}
