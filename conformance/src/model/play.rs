//! Plays one sequence on an engine, and compares every answer with that of the model.

mod embed;
mod erase;
mod expire;
mod recall;
#[cfg(all(feature = "power", target_os = "linux"))]
mod state;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use memory_core::{
    BOUNDARIES, ChangeKind, Clock as _, Collection, Count, Cursor, Document, DocumentId, DocumentQuery,
    DocumentSelection, DocumentStore, Error, ErrorKind, History, HistoryPage, HistorySettings, IdempotencyKey, Memory,
    MemoryId, MemoryProvider, Outcome, Record, RecordId, Result, Revision, SpaceLevel, SpaceQueryBuilder, Status,
    Timestamp, TransientKeys, Version, WatchFrom,
};

use super::naive::{Answer, Naive, Was, json};
use super::op::{
    Ask, Begins, CLOCK, Call, DOCUMENT_IDS, Item, Op, Patch, Question, Restored, Since, Tree, Watching, Whose, Write,
    end,
};
use super::replica::Replica;
use super::sequence::Sequence;
use crate::case::{Settings, Stage};
use crate::fixture::{at, collection, document_id};
use crate::harness::Harness;
#[cfg(all(feature = "power", target_os = "linux"))]
pub(crate) use state::State;

/// The limit of a comparison, in pages.
const PAGES: usize = 25;
/// The limit of a page when everything is compared, in rows. It is large, so that few pages are needed.
const EVERYTHING: usize = 400;

/// An id that no memory has.
const UNKNOWN: MemoryId = MemoryId::from_bytes([0x42; 16]);

/// The result of a step. `Err` describes how engine and model differ.
type Step<T = ()> = Result<T, String>;

/// The time limit of a sequence with so many calls: well above what any takes, so it ends only one that hangs.
pub(crate) fn time_limit(calls: u32) -> Duration {
    Duration::from_secs(120) + Duration::from_millis(200) * calls
}

/// The beginning of the report of a sequence that was not over within its time limit.
pub(crate) const NOT_OVER: &str = "not over after";

/// Plays a sequence in a new namespace, which is removed afterwards.
pub(crate) async fn play(harness: &Arc<dyn Harness>, settings: Settings, sequence: Sequence) -> Step {
    let stage = Stage::new(Arc::clone(harness), settings);
    // A separate task, so that a panic ends only this sequence.
    let limit = time_limit(sequence.calls.len() as u32);
    let played = tokio::spawn(tokio::time::timeout(limit, play_on(stage.clone(), sequence))).await;
    let removed = stage.remove().await;
    match played {
        Ok(Ok(Ok(()))) => removed.map_err(|error| format!("the namespace could not be removed: {error:?}")),
        Ok(Ok(Err(difference))) => Err(difference),
        Ok(Err(_)) => Err(format!("{NOT_OVER} {} s", limit.as_secs())),
        Err(panic) => Err(format!("a panic: {panic}")),
    }
}

async fn play_on(stage: Stage, sequence: Sequence) -> Step {
    let stage = match sequence.transient {
        [] => stage,
        paths => {
            let transient = TransientKeys::new(paths.iter().map(|path| path.split('.'))).expect("keys");
            stage.with_history(HistorySettings { transient, ..HistorySettings::default() })
        }
    };
    let mut sides = Sides::open(stage, sequence.handles, sequence.transient).await?;
    for (number, call) in sequence.calls.iter().enumerate() {
        sides.step(call).await.map_err(|difference| format!("call {number}: {difference}"))?;
        sides.model.remember_places();
    }
    let in_the_end = |difference: String| format!("in the end: {difference}");
    sides.compare_everything().await.map_err(in_the_end)?;
    if sides.can_erase() {
        // The same comparison, after everything expired was swept.
        sides.sweep(0, false, true).await.map_err(in_the_end)?;
        sides.compare_everything().await.map_err(in_the_end)?;
    }
    Ok(())
}

async fn opened(stage: &Stage) -> Step<Arc<dyn MemoryProvider>> {
    stage.open().await.map_err(|error| format!("the engine does not open: {error:?}"))
}

/// The engine and the model, side by side.
pub(crate) struct Sides {
    stage: Stage,
    /// Providers on the same data.
    handles: Vec<Arc<dyn MemoryProvider>>,
    model: Naive,
    /// The ids that calls choose from, whether or not a document has them.
    document_ids: Vec<DocumentId>,
    watches: Vec<Begun>,
    /// When the history began, in milliseconds.
    since: i64,
}

/// A watch that is continued from its token, and its deliveries so far.
#[derive(Debug, Clone)]
struct Begun {
    watching: Watching,
    excluded: Vec<MemoryId>,
    from: WatchFrom,
    replica: Replica,
}

/// The question of a query.
enum Asked<'a> {
    Ledger { question: &'a Question, excluded: Vec<MemoryId> },
    Documents { name: &'a str, ask: &'a Ask },
}

/// A page, with its records as JSON.
#[derive(Debug)]
struct Page {
    records: Vec<String>,
    unreadable: usize,
    next: Option<Cursor>,
}

impl Sides {
    /// Opens `handles` handles on a new namespace, with an empty model.
    pub(crate) async fn open(stage: Stage, handles: usize, transient: &'static [&'static str]) -> Step<Self> {
        let (mut opens, since) = (Vec::new(), stage.namespace().clock.now().as_millis());
        for _ in 0..handles {
            opens.push(opened(&stage).await?);
        }
        let document_ids = DOCUMENT_IDS.iter().map(|id| document_id(id)).collect();
        let (model, watches) = (Naive::with_transient(transient), Vec::new());
        let sides = Self { stage, handles: opens, model, document_ids, watches, since };
        sides.begin_vectors().await?;
        Ok(sides)
    }

    /// Makes a call on both sides, and compares the answers.
    pub(crate) async fn step(&mut self, Call { handle, op }: &Call) -> Step {
        let handle = *handle;
        match op {
            Op::Store(item) => {
                let engine = self.engine(handle).store(item.to_memory(self.ends())).await.map(|id| vec![id]);
                self.same_ids("store", engine, std::slice::from_ref(item))
            }
            Op::StoreMany(items) => self.store_many(handle, items).await,
            Op::StoreRun { item, count } => self.store_many(handle, &Op::run(item, *count)).await,
            Op::Update { slot, patch } => match self.memory_id(*slot) {
                Some(id) => self.update(handle, id, patch).await,
                None => Ok(()),
            },
            Op::UpdateUnknown(patch) => self.update(handle, UNKNOWN, patch).await,
            Op::Get { slot } => match self.memory_id(*slot) {
                Some(id) => self.get(handle, id).await,
                None => Ok(()),
            },
            Op::Query(question) => self.query(handle, &self.asked(question)).await,
            Op::WalkWhileStoring { question, meanwhile } => self.walk_while_storing(handle, question, meanwhile).await,
            Op::Restore { memories, twice } => {
                let ends = self.ends();
                let mut memories: Vec<_> = memories.iter().map(|memory| restored(memory, ends)).collect();
                // A restore may be both a conflict and an erasure: its id may be taken, by a record in place or in the same call, while its
                // key belongs to a record that has expired and was not swept.
                let ids: Vec<_> = memories.iter().map(|memory| memory.id).collect();
                for memory in &mut memories {
                    let has_its_id =
                        self.model.get(memory.id).is_some() || ids.iter().filter(|id| **id == memory.id).count() > 1;
                    let is_over = |key: &IdempotencyKey| has_its_id && self.model.is_unswept_key(key);
                    if memory.idempotency_key.as_ref().is_some_and(is_over) {
                        memory.idempotency_key = None;
                    }
                }
                self.restore(handle, memories, *twice).await
            }
            Op::RestoreAgain { slot, changed } => self.restore_again(handle, *slot, *changed).await,
            Op::Put(write) => self.put(handle, write).await,
            Op::PutMany(writes) => self.put_many(handle, writes).await,
            Op::GetDocument { collection: name, slot } => {
                let (name, id) = (collection(name), self.document_id(*slot));
                let engine = self.documents(handle).get(&name, &id).await.map(|document| document.as_ref().map(json));
                same("documents.get", engine, Ok(self.model.document(&name, &id).map(json)))
            }
            Op::QueryDocuments { collection: name, ask } => self.query(handle, &Asked::Documents { name, ask }).await,
            Op::Recall { collection: None, question, word, number } => {
                self.recall(handle, &self.asked(question), word, *number).await
            }
            Op::Recall { collection: Some(name), question: Question { ask, .. }, word, number } => {
                self.recall(handle, &Asked::Documents { name, ask }, word, *number).await
            }
            Op::Remove { collection: name, slots, ask, max } => self.remove(handle, name, slots, ask, *max).await,
            Op::RestoreDocuments { writes, twice } => {
                let mut documents: Vec<_> = writes.iter().map(|write| self.restored_document(write)).collect();
                if *twice {
                    documents.extend_from_within(..);
                }
                self.restore_documents(handle, documents).await
            }
            Op::Spaces(tree) => self.spaces(handle, tree).await,
            Op::Collections => self.collections(handle).await,
            Op::Watch(watching) => self.watch(handle, watching).await,
            Op::WatchOn { slot } => match slot.checked_rem(self.watches.len()) {
                Some(place) => self.watch_on(handle, place).await,
                None => Ok(()),
            },
            Op::History { whose, limit, with_removed } => match self.record_id(whose) {
                Some(id) => self.history(handle, &id, *limit, *with_removed).await,
                None => Ok(()),
            },
            Op::AsOf { whose } => match self.record_id(whose) {
                Some(id) => self.as_of(handle, &id).await,
                None => Ok(()),
            },
            Op::EraseRecords { .. } | Op::EraseMemories { .. } | Op::EraseDocuments { .. } if !self.can_erase() => {
                Ok(())
            }
            Op::EraseRecords { whose, has_unknown, why } => self.erase_records(handle, whose, *has_unknown, *why).await,
            Op::EraseMemories { question, slices, why } => {
                self.erase_found(handle, &self.asked(question), *slices, *why).await
            }
            Op::EraseDocuments { collection: name, ask, slices, why } => {
                self.erase_found(handle, &Asked::Documents { name, ask }, *slices, *why).await
            }
            Op::RestoreErased { slot, has_new_id } => self.restore_erased(handle, *slot, *has_new_id).await,
            Op::Tombstone { whose } => match self.record_id(whose) {
                Some(id) => self.tombstone(handle, &id).await,
                None => Ok(()),
            },
            Op::Embed { .. } if !self.keeps_vectors() => Ok(()),
            Op::Embed { whose, number } => self.embed(handle, whose, *number).await,
            Op::Sweep { .. } if !self.can_erase() => Ok(()),
            Op::Sweep { is_due, to_the_end } => self.sweep(handle, *is_due, *to_the_end).await,
            Op::SetClock(millis) => {
                self.set_clock(at(*millis));
                Ok(())
            }
            Op::Advance(millis) => {
                self.set_clock(at(self.now().as_millis() + millis));
                Ok(())
            }
            Op::Reopen => {
                self.engine(handle).shutdown().await.map_err(|error| format!("shutdown: {error:?}"))?;
                let place = handle % self.handles.len();
                self.handles[place] = opened(&self.stage).await?;
                Ok(())
            }
        }
    }

    async fn store_many(&mut self, handle: usize, items: &[Item]) -> Step {
        let batch = items.iter().map(|item| item.to_memory(self.ends())).collect();
        let engine = self.engine(handle).store_many(batch).await;
        self.same_ids("store_many", engine, items)
    }

    /// Gives the model's memories the ids that the engine made, so that both sort alike.
    fn same_ids(&mut self, call: &str, engine: Result<Vec<MemoryId>>, items: &[Item]) -> Step {
        let made = engine.as_deref().unwrap_or_default();
        let batch = items.iter().map(|item| item.to_memory(self.ends())).collect();
        let model = self.model.store_many(batch, made, self.now());
        same(call, engine.map(|ids| ids.into_iter().map(Some).collect()), model)
    }

    async fn update(&mut self, handle: usize, id: MemoryId, patch: &Patch) -> Step {
        let patch = patch.to_patch(self.ends());
        let engine = self.engine(handle).update(id, patch.clone()).await;
        same("update", engine, self.model.update(id, &patch, self.now()))
    }

    async fn get(&self, handle: usize, id: MemoryId) -> Step {
        let engine = self.engine(handle).get(id).await.map(|memory| memory.as_ref().map(json));
        same("get", engine, self.model.look(id).map(|memory| memory.map(json)))
    }

    async fn query(&self, handle: usize, asked: &Asked<'_>) -> Step {
        let model = self.expected(asked);
        match (self.page(handle, asked, None).await, model) {
            (Ok(page), Ok(records)) => self.same_walk(handle, asked, page, &records).await,
            (engine, model) => same("query", engine.map(|page| page.records), model),
        }
    }

    /// Compares page after page. The handles take turns.
    async fn same_walk(&self, handle: usize, asked: &Asked<'_>, first: Page, records: &[String]) -> Step {
        let ask = asked.ask();
        let mut rest = records.get(ask.offset..).filter(|_| ask.limit > 0).unwrap_or_default();
        let (mut page, mut given) = (first, 0);
        for number in 1..=PAGES {
            check(ask, &page)?;
            let count = page.records.len();
            if !page.records.iter().eq(rest.iter().take(count)) {
                let due = &rest[..rest.len().min(ask.limit)];
                return Err(format!("query: page {number} is\n  {:#?}\nand should be\n  {due:#?}", page.records));
            }
            rest = &rest[count..];
            given += count;
            if page.next.is_none() != rest.is_empty() {
                let (has, left) = (page.next.is_some(), rest.len());
                return Err(format!(
                    "query: a walk has given {given} rows, {left} are left, and it has a cursor: {has}"
                ));
            }
            let Some(cursor) = page.next else { return Ok(()) };
            page = self.next_page(handle + number, asked, &cursor).await?;
        }
        // A page may be short, but not every page may be empty.
        if given == 0 && !rest.is_empty() {
            return Err(format!("query: a walk finds nothing on {PAGES} pages"));
        }
        Ok(())
    }

    /// Checks the guarantee of a walk: each matching row that was there from the start comes exactly once, and no row comes that does not
    /// match. A row that is stored meanwhile may come or not.
    async fn walk_while_storing(&mut self, handle: usize, question: &Question, meanwhile: &[Item]) -> Step {
        let mut question = question.clone();
        question.ask.offset = 0;
        let excluded = self.excluded(&question);
        // Refused queries are checked by other calls.
        let Ok(before) = self.model.query(&question, &excluded) else { return Ok(()) };
        question.ask.limit = question.ask.limit.clamp(1, 3).max(before.len() / PAGES + 1);
        let asked = Asked::Ledger { question: &question, excluded };
        let first = self.page(handle, &asked, None).await.map_err(refused)?;
        self.store_many(handle + 1, meanwhile).await?;
        let after = self.expected(&asked).unwrap_or_default();
        let walked = self.walk_on(handle, &asked, first).await?;
        // Each row must be found after the one before it, so no row may come twice.
        let mut rest = after.iter();
        if let Some(wrong) = walked.iter().find(|record| !rest.any(|due| due == *record)) {
            return Err(format!("query: a walk gives what does not match, out of order or twice: {wrong}"));
        }
        match before.iter().find(|record| !walked.contains(record)) {
            Some(lost) => Err(format!("query: a walk lost what was there throughout: {lost}")),
            None => Ok(()),
        }
    }

    /// Collects the rest of a walk after its first page.
    async fn walk_on(&self, handle: usize, asked: &Asked<'_>, first: Page) -> Step<Vec<String>> {
        let (mut walked, mut page) = (Vec::new(), first);
        for _ in 0..4 * PAGES {
            check(asked.ask(), &page)?;
            walked.append(&mut page.records);
            let Some(cursor) = page.next else { return Ok(walked) };
            page = self.next_page(handle, asked, &cursor).await?;
        }
        Err("query: a walk does not come to an end".to_owned())
    }

    /// Restores the record that already has an id: it counts as equal, or as a conflict once it is changed.
    async fn restore_again(&mut self, handle: usize, slot: usize, changed: bool) -> Step {
        let memory = self.memory_id(slot).and_then(|id| self.model.get(id)).cloned();
        let change = |memory: Memory| match memory.status {
            _ if !changed => memory,
            Status::Pending => Memory { status: Status::Failed, ..memory },
            _ => Memory { status: Status::Pending, ..memory },
        };
        self.restore(handle, memory.into_iter().map(change).collect(), false).await
    }

    async fn restore(&mut self, handle: usize, mut memories: Vec<Memory>, twice: bool) -> Step {
        if twice {
            memories.extend_from_within(..);
        }
        let engine = self.engine(handle).restore(memories.clone()).await;
        same("restore", engine, Ok(self.model.restore(memories, self.now())))
    }

    async fn restore_documents(&mut self, handle: usize, documents: Vec<Document>) -> Step {
        let engine = self.documents(handle).restore(documents.clone()).await;
        same("documents.restore", engine, Ok(self.model.restore_documents(documents, self.now())))
    }

    async fn put(&mut self, handle: usize, write: &Write) -> Step {
        let put = self.write(write);
        let engine = self.documents(handle).put(put.clone()).await;
        let made = engine.as_ref().ok().map(|document| document.id.clone());
        if write.id.is_none() {
            self.document_ids.extend(made.clone());
        }
        let model = self.model.put(put, made, self.now());
        same(
            "documents.put",
            engine.as_ref().map(json).map_err(Error::clone),
            model.as_ref().map(json).map_err(|kind| *kind),
        )
    }

    async fn put_many(&mut self, handle: usize, writes: &[Write]) -> Step {
        let batch: Vec<_> = writes.iter().map(|write| self.write(write)).collect();
        let engine = self.documents(handle).put_many(batch.clone()).await;
        let made: Vec<_> = engine.iter().flatten().map(|document| document.id.clone()).collect();
        let model = self.model.put_many(batch, &made, self.now());
        self.document_ids
            .extend(made.into_iter().zip(writes).filter_map(|(id, write)| write.id.is_none().then_some(id)));
        let each = |documents: Vec<Document>| documents.iter().map(json).collect::<Vec<_>>();
        same("documents.put_many", engine.map(each), model.map(each))
    }

    async fn remove(&mut self, handle: usize, name: &str, slots: &[usize], ask: &Ask, max: usize) -> Step {
        let name = collection(name);
        let ids: Vec<_> = slots.iter().map(|slot| self.document_id(*slot)).collect();
        let query = ask.build(DocumentQuery::builder(name.clone()));
        let selection = match ids.is_empty() {
            true => DocumentSelection::matching(query),
            false => DocumentSelection::ids_where(ids.clone(), query),
        };
        let engine = match selection {
            Ok(selection) => self.documents(handle).remove(&selection, max).await,
            Err(error) => Err(error),
        };
        same("documents.remove", engine, self.model.remove(&name, &ids, ask, max, self.now()))
    }

    /// Compares the versions of a record, page after page. The handles take turns.
    async fn history(&self, handle: usize, id: &RecordId, limit: usize, with_removed: bool) -> Step {
        let expected = match self.stage.harness().keeps_history() {
            true => Ok(self.model.history(id, with_removed)),
            false => Err(ErrorKind::Unsupported),
        };
        let history = History::of(id.clone()).limit(limit).map_err(|error| format!("history: {error:?}"))?;
        let history = if with_removed { history.with_removed() } else { history };
        let (mut found, mut page) = (Vec::new(), self.engine(handle).history(&history).await);
        for number in 1.. {
            let HistoryPage { versions, next } = match page {
                Ok(page) => page,
                Err(error) => return same("history", Err::<Vec<Was>, _>(error), expected),
            };
            if versions.len() > limit {
                return Err(format!("history: a page over its limit of {limit}"));
            }
            found.extend(versions.iter().map(was));
            let Some(next) = next else { break };
            page = self.engine(handle + number).history(&history.clone().cursor(&next)).await;
        }
        same("history", Ok(found), expected)
    }

    /// Compares a record as of each time that the clock may have shown.
    async fn as_of(&self, handle: usize, id: &RecordId) -> Step {
        for time in CLOCK {
            let expected = match self.stage.harness().keeps_history() {
                true => self.model.as_of(id, *time, self.since, self.now()),
                false => Err(ErrorKind::Unsupported),
            };
            let engine = self.engine(handle).get_as_of(id, at(*time)).await;
            same(&format!("get_as_of {time}"), engine.map(|record| record.as_ref().map(record_json)), expected)?;
        }
        Ok(())
    }

    /// Compares which levels a listing has, and each of them, page after page.
    async fn spaces(&self, handle: usize, tree: &Tree) -> Step {
        let expected = |under: Option<&str>| {
            let found = self.model.spaces(tree.collection.map(collection).as_ref(), under, tree.within.as_ref());
            let count = |count| if count <= 1_000 { Count::Exactly(count) } else { Count::MoreThan(1_000) };
            found.into_iter().map(|(id, found, newest)| (id, count(found), newest)).collect::<Vec<_>>()
        };
        let levels = self.levels(handle, tree, tree.build(tree.under.as_deref(), tree.depth)).await?;
        let (mut due, mut depth) = (vec![tree.under.clone()], vec![1]);
        for (number, level) in levels.iter().enumerate() {
            if due.get(number) != Some(&level.under) {
                return Err(format!(
                    "spaces: level {number} is that of {:?}, not of {:?}",
                    level.under,
                    due.get(number)
                ));
            }
            let under = level.under.as_deref();
            let (mut found, mut next, mut pages) = (level.spaces.clone(), level.next.clone(), 1);
            if depth[number] < tree.depth {
                let below = found.iter().map(|space| space.id.to_string());
                let below = below.filter(|id| !id.ends_with(BOUNDARIES) && !expected(Some(id)).is_empty());
                due.extend(below.map(Some));
                depth.resize(due.len(), depth[number] + 1);
            }
            while let Some(cursor) = next {
                let page = self.levels(handle + pages, tree, tree.build(under, 1).cursor(&cursor)).await?;
                let page = page.into_iter().next().ok_or("spaces: a page without a level")?;
                if page.spaces.len() > tree.limit || pages == 100 * PAGES {
                    return Err(format!("spaces: a page over its limit, or without an end: {page:?}"));
                }
                found.extend(page.spaces);
                (next, pages) = (page.next, pages + 1);
            }
            let found: Vec<_> =
                found.into_iter().map(|space| (space.id.to_string(), space.count, space.newest)).collect();
            let expected = if tree.limit == 0 { Vec::new() } else { expected(under) };
            if found != expected {
                return Err(format!(
                    "spaces: below {under:?} the engine lists\n  {found:#?}\nand the model\n  {expected:#?}"
                ));
            }
        }
        match due.get(levels.len()) {
            Some(missing) => Err(format!("spaces: the level of {missing:?} is missing")),
            None => Ok(()),
        }
    }

    /// Begins a watch. Existing records come with the snapshot, or count as delivered if the watch begins now.
    async fn watch(&mut self, handle: usize, watching: &Watching) -> Step {
        let excluded = self.excluded(&watching.question);
        let expected = self.model.watched(watching, &excluded);
        let begins = match watching.begins {
            Begins::WithASnapshot => WatchFrom::Beginning,
            Begins::Now => WatchFrom::Now,
        };
        let watch = watching.build(&excluded, begins.clone());
        if let (Err(_), _) | (_, Err(_)) = (&watch, &expected) {
            return same("watch", watch.map(drop), expected.map(drop));
        }
        if !self.stage.harness().can_watch() {
            return Ok(());
        }
        let mut replica = Replica::default();
        if let Begins::Now = watching.begins {
            let expected = expected.unwrap_or_default();
            let known = self.model.records().into_iter().filter(|(_, json)| expected.contains(json));
            known.for_each(|(record, _)| replica.hold(&record));
        }
        self.watches.push(Begun { watching: watching.clone(), excluded, from: begins, replica });
        self.watch_on(handle, self.watches.len() - 1).await
    }

    /// Continues a watch until it has delivered everything, and compares the result with the model.
    async fn watch_on(&mut self, handle: usize, place: usize) -> Step {
        let begun = &mut self.watches[place];
        let failed = |error: Error| format!("watch: it does not go on: {error:?}");
        let watch = begun.watching.build(&begun.excluded, begun.from.clone()).map_err(failed)?;
        let provider = &self.handles[handle % self.handles.len()];
        let mut changes = provider.watch(&watch).await.map_err(failed)?;
        loop {
            let change = changes.next().await.ok_or("watch: it has ended")?.map_err(failed)?;
            begun.replica.apply(&change.kind).map_err(|wrong| format!("watch: {wrong}"))?;
            begun.from = change.token.into();
            if change.kind == ChangeKind::Reached {
                break;
            }
        }
        let (watching, model) = (&begun.watching, &self.model);
        let stranger = begun.replica.told().find(|id| !model.was_watched(id, watching));
        let stranger = stranger.or_else(|| begun.replica.erased().find(|id| !model.hears_of_erasure(id, watching)));
        if let Some(stranger) = stranger {
            return Err(format!("watch: {stranger:?} was never where it looks"));
        }
        let expected =
            self.model.watched(&begun.watching, &begun.excluded).map_err(|kind| format!("watch: {kind:?}"))?;
        let told = begun.replica.records();
        if told == expected {
            return Ok(());
        }
        Err(format!("watch: {:?} has told\n  {told:#?}\nand the model has\n  {expected:#?}", begun.watching))
    }

    async fn levels(&self, handle: usize, tree: &Tree, query: SpaceQueryBuilder) -> Step<Vec<SpaceLevel>> {
        let refused = |error: Error| format!("spaces: a listing is refused: {error:?}");
        let query = query.build().map_err(refused)?;
        let levels = match tree.collection {
            Some(name) => self.documents(handle).spaces(&collection(name), &query).await,
            None => self.engine(handle).spaces(&query).await,
        };
        levels.map_err(refused)
    }

    /// Compares everything that the engine holds with everything that the model holds.
    async fn compare_everything(&mut self) -> Step {
        for place in 0..self.watches.len() {
            self.watch_on(place, place).await?;
        }
        let changed = self.model.ever().filter(|id| self.model.history(id, true).len() > 1);
        for (number, id) in changed.take(EVERYTHING).enumerate() {
            for with_removed in [false, true] {
                self.history(number, id, 3, with_removed).await?;
            }
            self.as_of(number, id).await?;
        }
        self.compare_erased().await?;
        self.compare_vectors().await?;
        let ask = Ask::everything(EVERYTHING);
        let question = Question { ask, after: None, before: None, statuses: vec![], exclude: vec![] };
        for handle in 0..self.handles.len() {
            self.query(handle, &self.asked(&question)).await?;
            self.collections(handle).await?;
            for name in &self.model.collections() {
                self.query(handle, &Asked::Documents { name: name.as_str(), ask: &question.ask }).await?;
            }
        }
        Ok(())
    }

    /// Compares the collections. One that only holds expired documents may be listed or not, until they are swept (X2).
    async fn collections(&self, handle: usize) -> Step {
        let over = |name: &Collection| {
            let is_of =
                |record: &RecordId| matches!(record, RecordId::Document { collection, .. } if collection == name);
            self.model.unswept().iter().any(is_of)
        };
        let (listed, wanted) = (self.documents(handle).collections().await, self.model.collections());
        let listed =
            listed.map(|listed| listed.into_iter().filter(|name| wanted.contains(name) || !over(name)).collect());
        same("collections", listed, Ok(wanted))
    }

    /// A page: the first, or the one after a cursor.
    async fn page(&self, handle: usize, asked: &Asked<'_>, cursor: Option<&Cursor>) -> Result<Page> {
        let offset = asked.ask().offset;
        match asked {
            Asked::Ledger { question, excluded } => {
                let builder = question.build(excluded);
                let builder = match cursor {
                    Some(cursor) => builder.cursor(cursor),
                    None => builder.offset(offset),
                };
                let page = self.engine(handle).query(&builder.build()?).await?;
                let records = page.memories.iter().map(json).collect();
                Ok(Page { records, unreadable: page.unreadable.len(), next: page.next })
            }
            Asked::Documents { name, ask } => {
                let builder = ask.build(DocumentQuery::builder(collection(name)));
                let builder = match cursor {
                    Some(cursor) => builder.cursor(cursor),
                    None => builder.offset(offset),
                };
                let page = self.documents(handle).query(&builder.build()?).await?;
                let records = page.documents.iter().map(json).collect();
                Ok(Page { records, unreadable: page.unreadable.len(), next: page.next })
            }
        }
    }

    async fn next_page(&self, handle: usize, asked: &Asked<'_>, cursor: &Cursor) -> Step<Page> {
        self.page(handle, asked, Some(cursor)).await.map_err(refused)
    }

    fn asked<'a>(&self, question: &'a Question) -> Asked<'a> {
        Asked::Ledger { question, excluded: self.excluded(question) }
    }

    fn expected(&self, asked: &Asked<'_>) -> Answer<Vec<String>> {
        match asked {
            Asked::Ledger { question, excluded } => self.model.query(question, excluded),
            Asked::Documents { name, ask } => self.model.query_documents(&collection(name), ask),
        }
    }

    fn engine(&self, handle: usize) -> &dyn MemoryProvider {
        &*self.handles[handle % self.handles.len()]
    }

    fn documents(&self, handle: usize) -> Arc<dyn DocumentStore> {
        self.engine(handle).documents()
    }

    fn now(&self) -> Timestamp {
        self.stage.namespace().clock.now()
    }

    fn memory_id(&self, slot: usize) -> Option<MemoryId> {
        let ids = self.model.memory_ids();
        slot.checked_rem(ids.len()).map(|place| ids[place])
    }

    fn record_id(&self, whose: &Whose) -> Option<RecordId> {
        match whose {
            Whose::Memory { slot } => self.memory_id(*slot).map(RecordId::Memory),
            Whose::Document { collection: name, slot } => {
                Some(RecordId::Document { collection: collection(name), id: self.document_id(*slot) })
            }
        }
    }

    fn document_id(&self, slot: usize) -> DocumentId {
        self.document_ids[slot % self.document_ids.len()].clone()
    }

    fn excluded(&self, question: &Question) -> Vec<MemoryId> {
        question.exclude.iter().filter_map(|slot| self.memory_id(*slot)).collect()
    }
}

impl Asked<'_> {
    fn ask(&self) -> &Ask {
        match self {
            Asked::Ledger { question, .. } => &question.ask,
            Asked::Documents { ask, .. } => ask,
        }
    }
}

fn refused(error: Error) -> String {
    format!("query: a page of a walk is refused: {error:?}")
}

/// Checks what holds for every page.
fn check(ask: &Ask, page: &Page) -> Step {
    if page.records.len() > ask.limit || page.unreadable > 0 {
        return Err(format!(
            "query: a page over its limit of {}, or with rows that can't be read: {page:#?}",
            ask.limit
        ));
    }
    Ok(())
}

/// Compares two answers. For an error, its kind must agree, and its outcome must be `NotDone`.
fn same<T: PartialEq + Debug>(call: &str, engine: Result<T>, model: Answer<T>) -> Step {
    let engine = engine.map_err(|error| (error.kind(), error.outcome()));
    let model = model.map_err(|kind| (kind, Outcome::NotDone));
    if engine == model {
        return Ok(());
    }
    Err(format!("{call}: the engine answers\n  {engine:#?}\nand the model\n  {model:#?}"))
}

fn record_json(record: &Record) -> String {
    match record {
        Record::Memory(memory) => json(memory),
        Record::Document(document) => json(document),
    }
}

fn was(version: &Version) -> Was {
    Was {
        revision: version.revision.get(),
        // `i64::MIN`, which no version has, stands for an unknown time.
        at: version.committed_at.map_or(i64::MIN, Timestamp::as_millis),
        actor: version.actor.as_ref().map(|actor| actor.as_str().to_owned()),
        json: version.record.as_ref().map(record_json),
    }
}

fn restored(restored: &Restored, ends: Since) -> Memory {
    let new = restored.item.to_memory(None);
    Memory {
        id: MemoryId::parse(restored.id).expect("a valid id"),
        space_id: new.space_id,
        trigger: new.trigger,
        context: new.context,
        created_at: new.created_at,
        updated_at: (restored.revision > 1).then(|| at(7)),
        metadata: new.metadata,
        status: new.status,
        revision: Revision::new(restored.revision).expect("a valid revision"),
        idempotency_key: new.idempotency_key,
        expires_at: end(ends, restored.expires),
    }
}
