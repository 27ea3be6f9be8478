//! Changes: C1 to C7.

mod ends;
mod feed;
mod losses;
mod scope;
mod tokens;

use std::time::Duration;

use futures::{StreamExt as _, future};
use memory_core::{
    Change, ChangeKind, Changes, Collections, Ledger, MemoryProvider, MemoryQuery, QueryBuilder, Record, RecordId,
    Result, Watch, WatchFrom, Watched,
};
use tokio::time::timeout;

use crate::case::Case;
use crate::model::replica::Replica;

/// The cases of this chapter.
pub(crate) fn cases() -> Vec<Case> {
    [feed::cases(), scope::cases(), tokens::cases(), losses::cases(), ends::cases()].concat()
}

/// The time limit for a change to come. Far above what any takes, so it ends only a case in which none comes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A watch of the memories, and of the documents of all collections, that satisfy a query.
fn watch(build: impl FnOnce(QueryBuilder<Ledger>) -> QueryBuilder<Ledger>) -> Watch {
    Watch::new(Watched::Both(Collections::All), build(MemoryQuery::builder())).expect("a valid watch")
}

/// A watch of everything, from a starting point.
fn everything(from: impl Into<WatchFrom>) -> Watch {
    watch(QueryBuilder::all).from(from.into())
}

/// The next change, which must come. A slow machine may send *progress* in between, which is skipped.
async fn next(changes: &mut Changes) -> Result<Change> {
    let mut told = changes.filter(|change| {
        let is_told = !matches!(change, Ok(Change { kind: ChangeKind::Progress, .. }));
        future::ready(is_told)
    });
    match timeout(PATIENCE, told.next()).await {
        Ok(Some(change)) => change,
        Ok(None) => panic!("the watch has ended"),
        Err(_) => panic!("no change comes"),
    }
}

/// The next change that tells of a record.
async fn next_kind(changes: &mut Changes) -> Result<ChangeKind> {
    loop {
        match next(changes).await?.kind {
            ChangeKind::Reached => {}
            kind => return Ok(kind),
        }
    }
}

/// All changes up to the next *reached*, which is left out.
async fn until_reached(changes: &mut Changes) -> Result<Vec<Change>> {
    let mut told = Vec::new();
    loop {
        match next(changes).await? {
            Change { kind: ChangeKind::Reached, .. } => return Ok(told),
            change => told.push(change),
        }
    }
}

/// A consumer that asks from time to time, with its last token, for the changes since then.
struct Reader {
    watch: Watch,
}

impl Reader {
    /// Begins with what changes from now on.
    async fn begin(provider: &dyn MemoryProvider, watch: Watch) -> Result<Self> {
        let first = next(&mut provider.watch(&watch.clone().from(WatchFrom::Now)).await?).await?;
        Ok(Self { watch: watch.from(first.token.into()) })
    }

    /// The changes since the last call, as lines.
    async fn since(&mut self, provider: &dyn MemoryProvider) -> Result<Vec<String>> {
        let mut changes = provider.watch(&self.watch).await?;
        let mut told = Vec::new();
        loop {
            let change = next(&mut changes).await?;
            self.watch = self.watch.clone().from(change.token.into());
            match change.kind {
                ChangeKind::Reached => return Ok(told),
                kind => told.push(shown(&kind)),
            }
        }
    }
}

/// Applies all changes to a replica, up to the next *reached*.
async fn replicate(changes: &mut Changes, replica: &mut Replica) -> Result<()> {
    for change in until_reached(changes).await? {
        apply(replica, &change);
    }
    Ok(())
}

fn apply(replica: &mut Replica, change: &Change) {
    replica.apply(&change.kind).unwrap_or_else(|wrong| panic!("{wrong}"));
}

/// The id of the record of a *stored*, *updated*, *removed* or *left* change; `None` for any other change.
fn named(kind: &ChangeKind) -> Option<RecordId> {
    match kind {
        ChangeKind::Stored(record) | ChangeKind::Updated(record) => Some(record.id()),
        ChangeKind::Removed(id) | ChangeKind::Left(id) => Some(id.clone()),
        _ => None,
    }
}

/// A change as a line, such as `updated a-1`: with the space of a record, or the id of a document that is gone.
fn shown(kind: &ChangeKind) -> String {
    let space = |record: &Record| match record {
        Record::Memory(memory) => memory.space_id.to_string(),
        Record::Document(document) => document.space_id.to_string(),
    };
    let id = |id: &RecordId| match id {
        RecordId::Memory(_) => "a memory".to_owned(),
        RecordId::Document { id, .. } => id.to_string(),
    };
    match kind {
        ChangeKind::Stored(record) => format!("stored {}", space(record)),
        ChangeKind::Updated(record) => format!("updated {}", space(record)),
        ChangeKind::Removed(gone) => format!("removed {}", id(gone)),
        ChangeKind::Left(gone) => format!("left {}", id(gone)),
        ChangeKind::Unreadable(_) => "unreadable".to_owned(),
        _ => "reached".to_owned(),
    }
}

fn all_shown(changes: &[Change]) -> Vec<String> {
    changes.iter().map(|change| shown(&change.kind)).collect()
}
