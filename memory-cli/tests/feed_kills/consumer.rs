//! A program that watches everything and records each change with its token, from which it continues after a kill.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use conformance::CaseResult;
use futures::{StreamExt as _, stream};
use memory_core::{
    Change, ChangeKind, Collections, MemoryProvider, MemoryQuery, Record, RecordId, Result, Watch, WatchFrom, Watched,
};
use serde::{Deserialize, Serialize};

use crate::journal::Journal;

/// How long it waits before it calls a missing server again.
const PAUSE: Duration = Duration::from_millis(10);

/// A change.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Told {
    token: String,
    pub(crate) what: What,
}

/// What a change tells.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum What {
    /// A record is at this revision, and whether it was delivered as stored.
    Is { name: String, revision: u64, is_stored: bool },
    /// A document is gone.
    Removed { name: String },
    /// Everything up to here was delivered.
    Reached,
    /// A change that no watch of everything may deliver.
    Odd(String),
}

/// Watches from the beginning given, or after the last change in its journal.
pub(crate) async fn consume(url: &str, journal: &Path, first: WatchFrom) -> CaseResult {
    let (mut journal, told) = Journal::<Told>::open(journal)?;
    let mut from = told.last().map_or(first, |told| WatchFrom::Token(told.token.clone()));
    let everything = Watch::new(Watched::Both(Collections::All), MemoryQuery::builder().all())?;
    let provider = opened(url).await?;
    loop {
        let begun = provider.watch(&everything.clone().from(from.clone())).await;
        let mut changes = begun.unwrap_or_else(|error| stream::iter([Err(error)]).boxed());
        while let Some(change) = changes.next().await {
            match change {
                Ok(Change { token, kind }) => {
                    journal.write(&Told { token: token.to_string(), what: What::of(kind) })?;
                    from = token.into();
                }
                Err(error) if error.is_retryable() => {}
                // Kills lose nothing, so no feed is reset.
                Err(error) => return Err(error.into()),
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// A provider, once its server is there.
pub(crate) async fn opened(url: &str) -> Result<Arc<dyn MemoryProvider>> {
    loop {
        let provider = memory_runtime::open(url)?;
        match provider.init().await {
            Ok(()) => return Ok(provider),
            Err(error) if error.is_retryable() => tokio::time::sleep(PAUSE).await,
            Err(error) => return Err(error),
        }
    }
}

/// The name of a memory or a document in journals.
pub(crate) fn name(id: &RecordId) -> String {
    match id {
        RecordId::Memory(id) => id.to_string(),
        RecordId::Document { collection, id } => format!("{collection}/{id}"),
    }
}

impl Told {
    /// A change whose token nobody needs.
    pub(crate) fn of(what: What) -> Self {
        Self { token: String::new(), what }
    }
}

impl What {
    fn of(kind: ChangeKind) -> Self {
        let is_stored = matches!(kind, ChangeKind::Stored(_));
        match kind {
            ChangeKind::Stored(record) | ChangeKind::Updated(record) => {
                let revision = match &record {
                    Record::Memory(memory) => memory.revision,
                    Record::Document(document) => document.revision,
                };
                Self::Is { name: name(&record.id()), revision: revision.get(), is_stored }
            }
            ChangeKind::Removed(id) => Self::Removed { name: name(&id) },
            ChangeKind::Reached | ChangeKind::Progress => Self::Reached,
            kind => Self::Odd(format!("{kind:?}")),
        }
    }
}
