//! Histories: H1 to H9.

mod as_of;
mod documents;
mod pages;
mod restore;
mod settings;
mod versions;

use memory_core::{Actor, History, Memory, MemoryId, MemoryPatch, MemoryProvider, Record, RecordId, Result, Version};

use crate::case::{Case, Stage};
use crate::fixture::at;

/// The cases of this chapter.
pub(crate) fn cases() -> Vec<Case> {
    [versions::cases(), pages::cases(), as_of::cases(), documents::cases(), settings::cases(), restore::cases()]
        .concat()
}

/// When the history of a namespace begins, in milliseconds: the time of its clock when it is first opened.
const BEGIN: i64 = 1_000_000;

/// Sets the clock to `millis` milliseconds after the beginning of the history.
fn set_clock(stage: &Stage, millis: i64) {
    stage.namespace().clock.set(at(BEGIN + millis));
}

/// The versions of all pages of a history.
async fn walk(provider: &dyn MemoryProvider, history: &History) -> Result<Vec<Version>> {
    let mut page = provider.history(history).await?;
    let mut versions = std::mem::take(&mut page.versions);
    while let Some(next) = page.next {
        page = provider.history(&history.clone().cursor(&next)).await?;
        versions.append(&mut page.versions);
    }
    Ok(versions)
}

async fn versions_of(provider: &dyn MemoryProvider, id: impl Into<RecordId>) -> Result<Vec<Version>> {
    walk(provider, &History::of(id)).await
}

/// Updates a memory, and returns it as it is then.
async fn updated(provider: &dyn MemoryProvider, id: MemoryId, patch: MemoryPatch) -> Result<Memory> {
    provider.update(id, patch).await?;
    crate::fixture::the(provider, id).await
}

/// The records of versions, in their order; `None` for a removal.
fn records(versions: &[Version]) -> Vec<Option<Record>> {
    versions.iter().map(|version| version.record.clone()).collect()
}

/// Versions as (revision, milliseconds after the beginning, actor).
fn shown<'v>(versions: &'v [Version]) -> Vec<(u64, Option<i64>, Option<&'v str>)> {
    let shown = |version: &'v Version| {
        let millis = version.committed_at.map(|at| at.as_millis() - BEGIN);
        (version.revision.get(), millis, version.actor.as_ref().map(Actor::as_str))
    };
    versions.iter().map(shown).collect()
}
