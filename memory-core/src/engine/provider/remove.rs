//! Removing documents: found first, then removed in one step (D4).

use std::collections::BTreeSet;

use super::Open;
use crate::engine::session::{Reader, Writer};
use crate::engine::walk::{Row, Source, Walk};
use crate::engine::{Access, Engine};
use crate::page::Verdict;
use crate::query::Documents;
use crate::{DocumentId, DocumentSelection, Error, ErrorKind, Order, Result};

/// How many documents are looked at between two pauses of the walk.
const SLICE: usize = 256;

impl<E: Engine> Open<E> {
    pub(super) async fn remove(&self, selection: DocumentSelection, max: usize) -> Result<Vec<DocumentId>> {
        loop {
            let ids = match selection.candidate_ids() {
                Some(ids) => ids.to_vec(),
                None => {
                    let search = Search { selection: selection.clone(), max };
                    self.run(Access::ReadLatest, search, |reader, search| Box::pin(find(reader, search))).await?
                }
            };
            let removal = Removal { selection: selection.clone(), ids, max };
            // What has changed since it was found is looked at again.
            if let Some(removed) =
                self.run(Access::Write, removal, |writer, removal| Box::pin(remove(writer, removal))).await?
            {
                return Ok(removed);
            }
        }
    }
}

struct Search {
    selection: DocumentSelection,
    max: usize,
}

struct Removal {
    selection: DocumentSelection,
    ids: Vec<DocumentId>,
    max: usize,
}

/// The ids of the selected documents. `LimitExceeded` when there are more than `max`.
async fn find(reader: &mut impl Reader, search: &Search) -> Result<Vec<DocumentId>> {
    // A set: one that is removed and put again meanwhile is met twice.
    let (selection, mut ids, mut behind) = (&search.selection, BTreeSet::new(), None);
    loop {
        let walk = Walk {
            source: Source::Everything,
            order: Order::OldestFirst,
            created_after: None,
            created_before: None,
            behind: behind.as_ref(),
            count: SLICE,
            is_shared: false,
        };
        let mut visit = |row: &dyn Row<Documents>| match row.head().and_then(|head| row.read(&head)) {
            Ok(document) if selection.matches(&document) => {
                ids.insert(document.id);
                Ok(if ids.len() > search.max { Verdict::Stop } else { Verdict::Skip })
            }
            // What can't be read is not selected.
            Err(error) if error.kind() != ErrorKind::Corrupt => Err(error),
            _ => Ok(Verdict::Skip),
        };
        behind = reader.walk_documents(selection.collection(), &walk, &mut visit).await?;
        if ids.len() > search.max {
            return Err(Error::limit_exceeded(search.max));
        }
        if behind.is_none() {
            return Ok(ids.into_iter().collect());
        }
    }
}

/// Removes what of these ids is selected, in ascending order. `None`, and nothing is removed, when some of it has changed meanwhile.
async fn remove(writer: &mut impl Writer, removal: &Removal) -> Result<Option<Vec<DocumentId>>> {
    let Removal { selection, ids, max } = removal;
    if ids.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let found = writer.documents(selection.collection(), ids).await?;
    let readable = found.into_iter().filter_map(Result::ok);
    let selected: Vec<_> = readable.filter(|found| selection.matches(&found.record)).collect();
    if selected.len() > *max {
        return Err(Error::limit_exceeded(*max));
    }
    if selected.is_empty() {
        return Ok(Some(Vec::new()));
    }
    if !writer.remove(selection.collection(), &selected).await? {
        return Ok(None);
    }
    let mut removed: Vec<_> = selected.into_iter().map(|found| found.record.id).collect();
    removed.sort_unstable();
    Ok(Some(removed))
}
