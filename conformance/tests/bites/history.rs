//! The histories of the reference with one bug.

use memory_core::{
    Actor, Clock as _, History, HistoryPage, InMemory, MemoryProvider, Record, RecordId, RestoreReport, Result,
    SystemClock, Timestamp, Version,
};

use crate::flaw::Flaw;

/// A page of a history that passes every version on, apart from its flaw.
pub(crate) async fn history(inner: &InMemory, flaw: Flaw, history: &History) -> Result<HistoryPage> {
    let asked = match flaw {
        Flaw::HistoryShowsWhatWasRemoved => history.clone().with_removed(),
        _ => history.clone(),
    };
    let mut page = inner.history(&asked).await?;
    match flaw {
        Flaw::HistoryShowsWhatWasRemoved if !history.has_removed() => {
            page.versions.retain(|version| version.record.is_some());
        }
        Flaw::HistoryEndsAtItsFirstPage => page.next = None,
        Flaw::HistoryMissesAVersion if page.versions.len() > 2 => drop(page.versions.remove(1)),
        Flaw::HistoryNamesTheLastActor => {
            let last: Option<Actor> = page.versions.iter().find_map(|version| version.actor.clone());
            page.versions.iter_mut().for_each(|version| version.actor = last.clone());
        }
        _ => {}
    }
    Ok(page)
}

/// The record as of a time, apart from the flaw.
pub(crate) async fn get_as_of(inner: &InMemory, flaw: Flaw, id: &RecordId, time: Timestamp) -> Result<Option<Record>> {
    let found = inner.get_as_of(id, time).await;
    match (flaw, found) {
        // The one that follows, too.
        (Flaw::AsOfShowsALaterVersion, Ok(Some(record))) => {
            let versions = inner.history(&History::of(id.clone())).await?.versions;
            let is_later = |later: &&memory_core::Version| later.revision > record.revision();
            let later = versions.iter().rev().find(is_later).and_then(|later| later.record.clone());
            Ok(Some(later.unwrap_or(record)))
        }
        (Flaw::AsOfTakesAnyTime, Err(_)) => inner.get_as_of(id, SystemClock.now().min(time)).await.or(Ok(None)),
        (_, found) => found,
    }
}

/// Versions that are restored, apart from the flaw.
pub(crate) async fn restore_versions(
    inner: &InMemory,
    flaw: Flaw,
    mut versions: Vec<Version>,
) -> Result<RestoreReport> {
    match flaw {
        Flaw::RestoredVersionsAreOfNow => {
            versions.iter_mut().for_each(|version| version.committed_at = Some(SystemClock.now()));
        }
        Flaw::TheLastVersionAloneIsRestored => drop(versions.drain(..versions.len().saturating_sub(1))),
        _ => {}
    }
    inner.restore_versions(versions).await
}
