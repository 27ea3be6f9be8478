//! Prompt memory over the documents of any engine.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join;
use memory_core::{
    Collection, Document, DocumentId, DocumentStore, DocumentWrite, Error, ErrorKind, Expect, IdempotencyKey, Outcome,
    Result, Revision,
};
use serde::Serialize;
use sha2::{Digest, Sha256};
use tokio::time::timeout;

use super::cache::{Cache, Known};
use super::key::Key;
use super::record::{Batch, Origin, Record};
use super::render::render;
use super::update::{MAX_UPDATES, trim};
use super::{
    Flags, HistoryEntry, MemoryContext, MemoryLoadContext, MemoryStore, MemoryUpdate, OnFailure, PromptConfig,
    SyncReport, UpdateReport,
};
use crate::deadline::{late, within_deadline};

/// An agent's texts about its user and its work, for the system prompt. Cloning is cheap.
///
/// Each of the two stores is one document of the collection [`COLLECTION`](super::COLLECTION), with its history. Any number of
/// processes may share them.
#[derive(Debug, Clone)]
pub struct PromptMemory {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    documents: Arc<dyn DocumentStore>,
    config: PromptConfig,
    cache: Cache,
}

/// The result of an undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Undone {
    /// The revision of the change that was undone.
    pub undid: Revision,
    /// The revision that the undo made.
    pub revision: Revision,
}

impl PromptMemory {
    /// Makes a prompt memory with the default settings.
    pub fn new(documents: Arc<dyn DocumentStore>) -> Self {
        Self::of(documents, PromptConfig::default())
    }

    /// Makes a prompt memory with settings. Fails with `InvalidInput` if one is out of its range.
    pub fn with(documents: Arc<dyn DocumentStore>, config: PromptConfig) -> Result<Self> {
        config.check()?;
        Ok(Self::of(documents, config))
    }

    fn of(documents: Arc<dyn DocumentStore>, config: PromptConfig) -> Self {
        Self { shared: Arc::new(Shared { documents, config, cache: Cache::new() }) }
    }

    /// Returns the text for the system prompt of a turn; `None` if both stores are empty.
    ///
    /// # Behavior
    /// - The user's profile comes first, under `## About You`, then the project memory, under `## Memory`. An empty text is left out with
    ///   its heading. Nothing in the texts can make a heading.
    /// - Over the budget, whole lines are cut and `truncated` is set: first the oldest lines of the memory, and lines of the profile only
    ///   after the whole memory.
    /// - If a store can't be read before the deadline, the call fails with `Timeout` or the engine's error. With [`OnFailure::Open`] it
    ///   returns the text that was known last, with a warning in the content and in [`MemoryContext::warning`].
    pub async fn prefetch(&self, context: &MemoryLoadContext) -> Result<Option<MemoryContext>> {
        let (user, memory) = (Key::of(context, MemoryStore::User)?, Key::of(context, MemoryStore::Memory)?);
        let (user, memory) = join(self.recall(&user), self.recall(&memory)).await;
        let ((user, user_failure), (memory, memory_failure)) = (user?, memory?);
        let warning = user_failure.or(memory_failure).map(|error| {
            format!(
                "memory could not be read ({:?}): what follows may be old, and what is missing is not gone",
                error.kind()
            )
        });
        let rendered = render(&user.text, &memory.text, warning.as_deref(), self.shared.config.budget);
        let mut flags = Flags::of(&user.text);
        flags += Flags::of(&memory.text);
        Ok(rendered.map(|rendered| MemoryContext {
            content: rendered.content,
            source: "custom",
            truncated: rendered.dropped_bytes > 0,
            dropped_bytes: rendered.dropped_bytes,
            flags,
            user_revision: user.revision,
            memory_revision: memory.revision,
            warning,
        }))
    }

    /// Applies updates in order, each to its store.
    ///
    /// # Behavior
    /// - Without updates the engine is not called. Updates that change nothing are not written.
    /// - The updates of one store are applied atomically. Concurrent calls lose nothing.
    /// - Fails with `TooLarge` or `InvalidInput`, before anything is written, if an update or the resulting text is too large or invalid.
    /// - After an error with [`Outcome::Unknown`] the updates of one store or of both may have been applied. Use
    ///   [`sync_once`](Self::sync_once) to repeat them safely.
    pub async fn sync(&self, context: &MemoryLoadContext, updates: &[MemoryUpdate]) -> Result<SyncReport> {
        self.sync_within_deadline(context, None, updates).await
    }

    /// Like [`sync`](Self::sync), but idempotent under a key: repeating the call applies what is missing, and nothing twice.
    ///
    /// # Behavior
    /// - A key is known as long as its change is in the [`history`](Self::history), which keeps 100 changes per store. A batch that changed
    ///   nothing is not recorded.
    /// - Fails with `Conflict` if the key is known with other updates.
    pub async fn sync_once(
        &self,
        context: &MemoryLoadContext,
        batch: &IdempotencyKey,
        updates: &[MemoryUpdate],
    ) -> Result<SyncReport> {
        self.sync_within_deadline(context, Some(batch), updates).await
    }

    /// Returns the text of one store as it was written, without budget and cache; `None` if it is empty.
    pub async fn read(&self, context: &MemoryLoadContext, store: MemoryStore) -> Result<Option<String>> {
        let stored = self.load(&Key::of(context, store)?).await?;
        Ok(Some(stored.record.text).filter(|text| !text.is_empty()))
    }

    /// Returns the last 100 changes of one store, newest first.
    pub async fn history(&self, context: &MemoryLoadContext, store: MemoryStore) -> Result<Vec<HistoryEntry>> {
        Ok(self.load(&Key::of(context, store)?).await?.record.history())
    }

    /// Undoes the newest change that is neither an undo nor undone. The undo is a change itself. A change comprises all updates that one
    /// sync applied to the store. Returns `None` if no change can be undone.
    pub async fn undo(&self, context: &MemoryLoadContext, store: MemoryStore) -> Result<Option<Undone>> {
        self.undo_at(context, store, None).await
    }

    /// Like [`undo`](Self::undo), but fails with `Conflict` if the store no longer has this revision.
    pub async fn undo_seen(
        &self,
        context: &MemoryLoadContext,
        store: MemoryStore,
        seen: Revision,
    ) -> Result<Option<Undone>> {
        self.undo_at(context, store, Some(seen)).await
    }

    async fn undo_at(
        &self,
        context: &MemoryLoadContext,
        store: MemoryStore,
        seen: Option<Revision>,
    ) -> Result<Option<Undone>> {
        let key = Key::of(context, store)?;
        within_deadline(async {
            let first = self.load(&key).await?;
            self.commit(&key, first, |stored| {
                if seen.is_some() && seen != stored.revision {
                    return Err(Error::conflict("the prompt memory has changed since it was seen"));
                }
                let Some((undid, text)) = stored.record.before_last() else { return Ok((None, None)) };
                let origin = self.origin(context, None, Some(undid));
                let revision = stored.next_revision()?;
                Ok((Some((text, origin)), Some(Undone { undid, revision })))
            })
            .await
        })
        .await
    }

    async fn sync_within_deadline(
        &self,
        context: &MemoryLoadContext,
        batch: Option<&IdempotencyKey>,
        updates: &[MemoryUpdate],
    ) -> Result<SyncReport> {
        if updates.len() > MAX_UPDATES {
            let count = updates.len();
            return Err(Error::too_large(format!("{count} updates; at most {MAX_UPDATES} go in one sync")));
        }
        updates.iter().try_for_each(|update| update.check(self.shared.config.max_entry_bytes))?;
        within_deadline(self.sync_parts(context, batch, updates)).await
    }

    async fn sync_parts(
        &self,
        context: &MemoryLoadContext,
        batch: Option<&IdempotencyKey>,
        updates: &[MemoryUpdate],
    ) -> Result<SyncReport> {
        let mut parts = Vec::new();
        for store in [MemoryStore::User, MemoryStore::Memory] {
            let updates: Vec<_> = updates.iter().filter(|update| update.store == store).collect();
            if updates.is_empty() {
                continue;
            }
            let batch = match batch {
                Some(key) => Some(Batch { key: key.clone(), digest: digest(&updates)? }),
                None => None,
            };
            let key = Key::of(context, store)?;
            let stored = self.load(&key).await?;
            // Both stores are checked before one is written.
            self.plan(&stored, &updates, batch.as_ref())?;
            parts.push((key, stored, updates, batch));
        }
        let mut reports = Vec::with_capacity(updates.len());
        for (key, stored, updates, batch) in parts {
            let plan = |stored: &Stored| {
                let (text, reports) = self.plan(stored, &updates, batch.as_ref())?;
                Ok((text.map(|text| (text, self.origin(context, batch.clone(), None))), reports))
            };
            match self.commit(&key, stored, plan).await {
                Ok(of_part) => reports.extend(of_part),
                Err(error) if !reports.is_empty() => return Err(error.with_outcome(Outcome::Unknown)),
                Err(error) => return Err(error),
            }
        }
        // So far the reports are in the order of the stores. They are returned in the order of the updates.
        let mut places: Vec<_> = (0..updates.len()).collect();
        places.sort_by_key(|place| updates[*place].store);
        let mut placed: Vec<_> = places.into_iter().zip(reports).collect();
        placed.sort_by_key(|(place, _)| *place);
        Ok(SyncReport { updates: placed.into_iter().map(|(_, report)| report).collect() })
    }

    /// Computes the new text of a store, if it changes, and the reports of the updates.
    fn plan(
        &self,
        stored: &Stored,
        updates: &[&MemoryUpdate],
        batch: Option<&Batch>,
    ) -> Result<(Option<String>, Vec<UpdateReport>)> {
        let report = |update: &MemoryUpdate, revision| UpdateReport {
            store: update.store,
            matched_lines: 0,
            changed: false,
            repeated: false,
            revision,
            flags: Flags::of(&update.content),
        };
        match batch.and_then(|batch| stored.record.find(batch)) {
            Some((_, false)) => return Err(Error::conflict("other updates were applied under this batch key")),
            Some((revision, true)) => {
                let reports =
                    updates.iter().map(|update| UpdateReport { repeated: true, ..report(update, Some(revision)) });
                return Ok((None, reports.collect()));
            }
            None => {}
        }
        let mut text = stored.record.text.clone();
        let effects: Vec<_> = updates
            .iter()
            .map(|update| {
                let (next, matched_lines) = update.apply(&text);
                let changed = next != text;
                text = next;
                (update, matched_lines, changed)
            })
            .collect();
        let max = self.shared.config.max_store_bytes;
        if text.len() > max && text.len() > stored.record.text.len() {
            let size = text.len();
            return Err(Error::too_large(format!("the store would have {size} bytes; at most {max} are allowed")));
        }
        let text = Some(text).filter(|text| *text != stored.record.text);
        let revision = if text.is_some() { Some(stored.next_revision()?) } else { stored.revision };
        let reports = effects.into_iter().map(|(update, matched_lines, changed)| UpdateReport {
            matched_lines,
            changed,
            ..report(update, revision)
        });
        Ok((text, reports.collect()))
    }

    /// Writes the text that `plan` returns by compare-and-set, and plans again after a lost race. Returns the other result of the last
    /// plan.
    async fn commit<T>(
        &self,
        key: &Key,
        mut stored: Stored,
        plan: impl Fn(&Stored) -> Result<(Option<(String, Origin)>, T)>,
    ) -> Result<T> {
        loop {
            let (change, answer) = plan(&stored)?;
            let Some((text, origin)) = change else { return Ok(answer) };
            if let Some(of_all) = stored.of_all.take() {
                stored = match self.copy(&of_all, key).await? {
                    true => self.load(key).await?,
                    false => Stored { record: stored.record.anew(), ..Stored::default() },
                };
                continue;
            }
            let (expect, revision) = (stored.expect(), stored.next_revision()?);
            let record = stored.record.changed(text, revision, origin);
            let now = self.shared.config.clock.now();
            let write = DocumentWrite::new(key.collection.clone(), key.space_id.clone(), record.to_content()?, now);
            let write = write.with_id(key.id.clone()).with_metadata(key.metadata.clone()).expect(expect);
            // Tells the cache that a write has ended even if this future is dropped, since the write may take effect nevertheless.
            let mut ended = Ended { cache: &self.shared.cache, key, known: None };
            match self.shared.documents.put(write).await {
                Ok(document) => {
                    ended.known = Some(Known { text: record.text.into(), revision: Some(document.revision) });
                    return Ok(answer);
                }
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => return Err(error),
            }
            drop(ended);
            stored = self.load(key).await?;
        }
    }

    /// Copies the document of all agents to one agent, with its history and revision, so that its batches stay known. If the agent has a
    /// document already, that stays unchanged. Returns `false` if the agent's document was erased: then nothing is copied, and the next
    /// write starts a new document.
    async fn copy(&self, of_all: &DocumentId, key: &Key) -> Result<bool> {
        let Some(mut document) = self.shared.documents.get(&key.collection, of_all).await? else { return Ok(true) };
        (document.id, document.metadata) = (key.id.clone(), key.metadata.clone());
        Ok(self.shared.documents.restore(vec![document]).await?.erased.is_empty())
    }

    /// Returns the present text of a store. If it can't be read and the settings allow it, returns the last known text and the error.
    async fn recall(&self, key: &Key) -> Result<(Known, Option<Error>)> {
        let config = &self.shared.config;
        if let Some(known) = self.cached(key, config.cache_for) {
            return Ok((known, None));
        }
        let failure = match timeout(config.deadline, self.load(key)).await {
            Ok(Ok(stored)) => return Ok((stored.known(), None)),
            Ok(Err(error)) => error,
            Err(_) => late(config.deadline, Outcome::NotDone),
        };
        match config.on_failure {
            OnFailure::Fail => Err(failure),
            OnFailure::Open => {
                tracing::warn!(kind = ?failure.kind(), "a turn goes on without the present prompt memory");
                let known = self.cached(key, Duration::MAX);
                Ok((known.unwrap_or_default(), Some(failure)))
            }
        }
    }

    /// Returns the cached text of a store, if it is not older than `max_age`.
    fn cached(&self, key: &Key, max_age: Duration) -> Option<Known> {
        let own = self.shared.cache.get(&key.id, max_age)?;
        match &key.of_all {
            Some(of_all) if own.revision.is_none() => self.shared.cache.get(of_all, max_age),
            _ => Some(own),
        }
    }

    async fn load(&self, key: &Key) -> Result<Stored> {
        let own = self.read_document(&key.collection, &key.id).await?;
        match &key.of_all {
            Some(of_all) if own.revision.is_none() => {
                let stored = self.read_document(&key.collection, of_all).await?;
                Ok(Stored { of_all: stored.revision.map(|_| of_all.clone()), ..stored })
            }
            _ => Ok(own),
        }
    }

    async fn read_document(&self, collection: &Collection, id: &DocumentId) -> Result<Stored> {
        let writes_before = self.shared.cache.writes();
        let document = self.shared.documents.get(collection, id).await?;
        let stored = document.as_ref().map_or(Ok(Stored::default()), Stored::read)?;
        self.shared.cache.keep(id, stored.known(), writes_before);
        Ok(stored)
    }

    fn origin(&self, context: &MemoryLoadContext, batch: Option<Batch>, undoes: Option<Revision>) -> Origin {
        Origin {
            at: self.shared.config.clock.now(),
            session_id: context.session_id.clone(),
            platform: context.platform.clone(),
            batch,
            undoes,
        }
    }
}

/// A store as read from the engine; the default is one that was never written.
#[derive(Debug, Default)]
struct Stored {
    record: Record,
    revision: Option<Revision>,
    /// The id of the document of all agents, if that one was read.
    of_all: Option<DocumentId>,
}

impl Stored {
    fn read(document: &Document) -> Result<Self> {
        Ok(Self { record: Record::read(document)?, revision: Some(document.revision), of_all: None })
    }

    fn known(&self) -> Known {
        Known { text: trim(&self.record.text).into(), revision: self.revision }
    }

    fn expect(&self) -> Expect {
        self.revision.map_or(Expect::Absent, Expect::Revision)
    }

    fn next_revision(&self) -> Result<Revision> {
        self.revision.map_or(Ok(Revision::FIRST), Revision::next)
    }
}

/// Tells the cache on drop that a write has ended.
struct Ended<'a> {
    cache: &'a Cache,
    key: &'a Key,
    known: Option<Known>,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.cache.wrote(&self.key.id, self.known.take());
    }
}

/// Hashes the JSON of updates, which is the same in all versions of this crate.
pub(super) fn digest(updates: &[&MemoryUpdate]) -> Result<String> {
    let json = serde_json::to_vec(updates)
        .map_err(|error| Error::invalid("the updates have no JSON form").with_source(error))?;
    Ok(Sha256::digest(json).iter().take(16).map(|byte| format!("{byte:02x}")).collect())
}
