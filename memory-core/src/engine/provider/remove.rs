//! Removes documents: finds them first, then removes them in one step (D4).

use std::sync::Arc;

use super::open::Open;
use crate::engine::heavy::Permit;
use crate::engine::history::VersionEntry;
use crate::engine::pages;
use crate::engine::places::Part;
use crate::engine::session::{Found, Reader, Removal, Writer};
use crate::engine::walk::{Row, Walk};
use crate::engine::watch::{Watch, Watching};
use crate::engine::{Access, Engine};
use crate::page::Verdict;
use crate::query::Documents;
use crate::selection::Selected;
use crate::{Actor, Document, DocumentId, DocumentSelection, ErrorKind, Order, Result, Timestamp};

/// Number of documents that a walk examines before it pauses.
const SLICE: usize = 256;
/// Number of documents that are read at once by id.
const SLICE_OF_IDS: usize = 64;
/// A removal is heavy once the found documents have this many bytes, because it keeps them until it writes (L8).
const LIGHT_BYTES: usize = 16 << 20;

impl<E: Engine> Open<E> {
    pub(super) async fn remove(
        self: &Arc<Self>,
        selection: &Arc<DocumentSelection>,
        max: usize,
        permit: Option<Arc<Permit>>,
        watching: &Watching,
    ) -> Result<Vec<DocumentId>> {
        if selection.query().has_no_word() {
            return Ok(Vec::new());
        }
        let has_places = selection.candidate_ids().is_none() && self.has_document_places().await;
        let end = self.written_at().await?.map(|at| End { at, actor: selection.actor().cloned() });
        let search = |ids| {
            let (selection, watch, end) = (Arc::clone(selection), watching.watch(), end.clone());
            Search { selection, ids, max, watch, has_places, end }
        };
        let first = search(selection.candidate_ids().map(<[_]>::to_vec));
        let found =
            self.run_watched(permit.clone(), watching, Access::ReadConfirmed.into(), first, |reader, search| {
                Box::pin(find(reader, search))
            });
        let Selection { ids, documents } = found.await?;
        if ids.is_empty() {
            return Ok(ids);
        }
        // The selection is not evaluated again: while an engine writes, other writers wait.
        let removal = (selection.collection().clone(), documents, end.clone());
        let removed = self.run_watched(permit.clone(), watching, Access::Write.into(), removal, |writer, removal| {
            Box::pin(async move {
                let (collection, documents, end) = removal;
                writer.remove(collection, &removals(documents, end.as_ref())).await
            })
        });
        if removed.await? {
            return Ok(ids);
        }
        // Something changed since. Finding and removing in one session wins against continued changes: on SQLite that
        // is one transaction, and elsewhere little time passes in between.
        loop {
            let again = search(Some(ids.clone()));
            let removed = self.run_watched(permit.clone(), watching, Access::Write.into(), again, |writer, search| {
                Box::pin(remove(writer, search))
            });
            if let Some(removed) = removed.await? {
                return Ok(removed);
            }
        }
    }
}

struct Search {
    selection: Arc<DocumentSelection>,
    /// Only these ids, if known.
    ids: Option<Vec<DocumentId>>,
    max: usize,
    watch: Arc<Watch>,
    has_places: bool,
    end: Option<End>,
}

/// The last history entry of the removed documents.
#[derive(Clone)]
struct End {
    at: Timestamp,
    actor: Option<Actor>,
}

fn removals<'a, V>(documents: &'a [Found<Document, V>], end: Option<&End>) -> Vec<Removal<'a, V>> {
    let removal = |found: &'a Found<Document, V>| {
        let end = end.map(|End { at, actor }| VersionEntry::of_removal(&found.record, *at, actor.clone()));
        Removal { found, end }
    };
    documents.iter().map(removal).collect()
}

/// The selected documents, and their ids in ascending order.
struct Selection<V> {
    ids: Vec<DocumentId>,
    documents: Vec<Found<Document, V>>,
}

/// Finds the selected documents.
async fn find<R: Reader>(reader: &mut R, search: &Search) -> Result<Selection<R::Version>> {
    let Search { selection, max, watch, .. } = search;
    let ids = match &search.ids {
        Some(ids) => ids.clone(),
        None => find_ids(reader, search).await?,
    };
    let (mut selected, mut documents) = (Selected::new(*max), Vec::new());
    // In chunks, because documents that are not selected may be large.
    for some in ids.chunks(SLICE_OF_IDS) {
        for found in reader.documents(selection.collection(), some).await? {
            watch.check()?;
            match found {
                Ok(found) if selection.matches(&found.record) => {
                    selected.add(&found.record)?;
                    documents.push(found);
                }
                // A document that can't be read is not selected.
                Err(error) if error.kind() != ErrorKind::Corrupt => return Err(error),
                _ => {}
            }
            watch.count();
            if selected.bytes() > LIGHT_BYTES && !watch.is_heavy() {
                watch.spend();
            }
        }
        watch.check()?;
    }
    Ok(Selection { ids: selected.into_ids(), documents })
}

/// Finds and removes them in one step. Returns `None`, and removes nothing, if some have changed meanwhile.
async fn remove<W: Writer>(writer: &mut W, search: &Search) -> Result<Option<Vec<DocumentId>>> {
    let Selection { ids, documents } = find(writer, search).await?;
    let removals = removals(&documents, search.end.as_ref());
    let is_removed = ids.is_empty() || writer.remove(search.selection.collection(), &removals).await?;
    Ok(is_removed.then_some(ids))
}

/// Returns the ids of the selected documents, in ascending order.
async fn find_ids(reader: &mut impl Reader, search: &Search) -> Result<Vec<DocumentId>> {
    let Search { selection, max, watch, has_places, .. } = search;
    let mut selected = Selected::new(*max);
    for part in pages::document_parts(reader, selection.query(), *has_places).await? {
        find_in(reader, &part, selection, watch, &mut selected).await?;
    }
    Ok(selected.into_ids())
}

async fn find_in(
    reader: &mut impl Reader,
    part: &Part,
    selection: &DocumentSelection,
    watch: &Watch,
    selected: &mut Selected,
) -> Result<()> {
    let mut behind = None;
    loop {
        let walk = Walk {
            source: part.source(),
            order: Order::OldestFirst,
            behind: behind.as_ref(),
            count: SLICE,
            is_shared: false,
            ..Walk::EVERYTHING
        };
        let mut visit = |row: &dyn Row<Documents>| {
            if !watch.goes_on() {
                return Ok(Verdict::Stop);
            }
            let document = row
                .head()
                .and_then(|head| (!head.is_over && selection.covers(head.space)).then(|| row.read(&head)).transpose());
            match document {
                Ok(Some(document)) if selection.matches(&document) => selected.add(&document)?,
                // A document that can't be read is not selected.
                Err(error) if error.kind() != ErrorKind::Corrupt => return Err(error),
                _ => {}
            }
            Ok(Verdict::Skip)
        };
        behind = reader.walk_documents(selection.collection(), &walk, &mut visit).await?;
        watch.check()?;
        if behind.is_none() {
            return Ok(());
        }
    }
}
