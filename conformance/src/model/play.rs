//! Plays one sequence on both sides and compares every answer.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use memory_core::{
    Clock, Document, DocumentId, DocumentQuery, DocumentSelection, DocumentStore, ErrorKind, Expect, InMemory, Memory,
    MemoryId, MemoryPage, MemoryProvider, MemoryQuery, Result, Revision, compare_heads,
};
use serde::Serialize;

use super::op::{Ask, DOCUMENT_IDS, Item, Op, Patch, Question, Restored, Write};
use crate::case::{Settings, Stage};
use crate::fixture::{at, collection, document_id};
use crate::harness::Harness;

/// How long one sequence may take. Well above what any takes; it ends one that hangs.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// More pages than any walk of a sequence has.
const MAX_PAGES: usize = 10_000;

/// What a step finds: nothing, or how the sides differ.
type Step<T = ()> = Result<T, String>;

/// Plays a sequence in a namespace of its own, which is removed afterwards.
pub(crate) async fn play(harness: &Arc<dyn Harness>, settings: Settings, ledger_text: bool, ops: Vec<Op>) -> Step {
    let stage = Stage::new(Arc::clone(harness), settings);
    let stage = if ledger_text { stage.with_ledger_text() } else { stage };
    // A task of its own, so that a panic ends the sequence only.
    let played = tokio::spawn(tokio::time::timeout(TIME_LIMIT, play_on(stage.clone(), ops))).await;
    let removed = stage.remove().await;
    match played {
        Ok(Ok(Ok(()))) => removed.map_err(|error| format!("the namespace could not be removed: {error:?}")),
        Ok(Ok(Err(difference))) => Err(difference),
        Ok(Err(_)) => Err(format!("not over after {} s", TIME_LIMIT.as_secs())),
        Err(panic) => Err(format!("a panic: {panic}")),
    }
}

async fn play_on(stage: Stage, ops: Vec<Op>) -> Step {
    let namespace = stage.namespace();
    let clock = Arc::clone(&namespace.clock) as Arc<dyn Clock>;
    let reference = InMemory::with(clock, namespace.text_index, namespace.deadline);
    reference.init().await.map_err(|error| format!("the reference does not open: {error:?}"))?;
    let engine = opened(&stage).await?;
    let mut sides = Sides {
        stage,
        documents: engine.documents(),
        engine,
        reference_documents: reference.documents(),
        reference: Arc::new(reference),
        memory_ids: Vec::new(),
        document_ids: DOCUMENT_IDS.iter().map(|id| (document_id(id), document_id(id))).collect(),
    };
    for (number, op) in ops.iter().enumerate() {
        sides.step(op).await.map_err(|difference| format!("call {number}: {difference}"))?;
    }
    sides.compare_everything().await.map_err(|difference| format!("in the end: {difference}"))
}

async fn opened(stage: &Stage) -> Step<Arc<dyn MemoryProvider>> {
    stage.open().await.map_err(|error| format!("the engine does not open: {error:?}"))
}

/// The engine and the reference, and which ids they made at the same call.
struct Sides {
    stage: Stage,
    engine: Arc<dyn MemoryProvider>,
    documents: Arc<dyn DocumentStore>,
    reference: Arc<dyn MemoryProvider>,
    reference_documents: Arc<dyn DocumentStore>,
    /// The id on the engine and the one on the reference.
    memory_ids: Vec<(MemoryId, MemoryId)>,
    document_ids: Vec<(DocumentId, DocumentId)>,
}

impl Sides {
    async fn step(&mut self, op: &Op) -> Step {
        match op {
            Op::Store(item) => {
                let (engine, reference) =
                    (self.engine.store(item.to_memory()).await, self.reference.store(item.to_memory()).await);
                self.same_ids("store", engine.map(|id| vec![id]), reference.map(|id| vec![id]))
            }
            Op::StoreMany(items) => self.store_many(items).await,
            Op::Update { slot, patch } => match self.memory_id(*slot) {
                Some(ids) => self.update(ids, patch).await,
                None => Ok(()),
            },
            Op::UpdateUnknown(patch) => {
                let unknown = MemoryId::from_bytes([0x42; 16]);
                self.update((unknown, unknown), patch).await
            }
            Op::Get { slot } => match self.memory_id(*slot) {
                Some((engine, reference)) => {
                    let engine = self.engine.get(engine).await.map(|memory| memory.map(|memory| self.shown(memory)));
                    same("get", engine, self.reference.get(reference).await.map(|memory| memory.map(json)))
                }
                None => Ok(()),
            },
            Op::Query(question) => self.query(question).await,
            Op::WalkWhileStoring { question, meanwhile } => self.walk_while_storing(question, meanwhile).await,
            Op::Restore(memories) => {
                let memories: Vec<_> = memories.iter().map(restored).collect();
                let engine = self.engine.restore(memories.clone()).await;
                same("restore", engine, self.reference.restore(memories.clone()).await)?;
                for Memory { id, .. } in memories {
                    if !self.memory_ids.contains(&(id, id)) {
                        self.memory_ids.push((id, id));
                    }
                }
                Ok(())
            }
            Op::RestoreAgain { slot, changed } => self.restore_again(*slot, *changed).await,
            Op::Put(write) => self.put(write).await,
            Op::GetDocument { collection: name, slot } => {
                let (engine, reference) = self.document_id(*slot);
                let name = collection(name);
                let engine = self.documents.get(&name, &engine).await;
                let engine = engine.map(|document| document.map(|document| self.shown_document(document)));
                let reference = self.reference_documents.get(&name, &reference).await;
                same("documents.get", engine, reference.map(|document| document.map(json)))
            }
            Op::QueryDocuments { collection: name, ask } => self.query_documents(name, ask).await,
            Op::Remove { collection: name, slots, ask, max } => self.remove(name, slots, ask, *max).await,
            Op::RestoreDocuments(writes) => {
                let documents: Vec<_> = writes.iter().map(restored_document).collect();
                let engine = self.documents.restore(documents.clone()).await;
                same("documents.restore", engine, self.reference_documents.restore(documents).await)
            }
            Op::Collections => {
                same("collections", self.documents.collections().await, self.reference_documents.collections().await)
            }
            Op::SetClock(millis) => {
                self.stage.namespace().clock.set(at(*millis));
                Ok(())
            }
            Op::Reopen => {
                self.engine.shutdown().await.map_err(|error| format!("shutdown: {error:?}"))?;
                self.engine = opened(&self.stage).await?;
                self.documents = self.engine.documents();
                Ok(())
            }
        }
    }

    async fn store_many(&mut self, items: &[Item]) -> Step {
        let batch = || items.iter().map(Item::to_memory).collect::<Vec<_>>();
        let (engine, reference) = (self.engine.store_many(batch()).await, self.reference.store_many(batch()).await);
        self.same_ids("store_many", engine, reference)
    }

    async fn update(&self, (engine, reference): (MemoryId, MemoryId), patch: &Patch) -> Step {
        let engine = self.engine.update(engine, patch.to_patch()).await;
        same("update", engine, self.reference.update(reference, patch.to_patch()).await)
    }

    async fn query(&self, question: &Question) -> Step {
        let (excluded, reference_excluded) = self.excluded(question);
        let engine = walk(&*self.engine, question, &excluded).await?;
        let reference = walk(&*self.reference, question, &reference_excluded).await?;
        let engine = engine.map(|memories| memories.into_iter().map(|memory| self.shown(memory)).collect());
        let reference = reference.map(|memories| memories.into_iter().map(json).collect());
        same_found("query", &question.ask, engine, reference)
    }

    /// The guarantee of a walk: each row that was there from the start comes once, and none that does not match. What is
    /// stored meanwhile may come or not, so that this is not a comparison of two walks.
    async fn walk_while_storing(&mut self, question: &Question, meanwhile: &[Item]) -> Step {
        let mut question = question.clone();
        (question.ask.text, question.ask.offset, question.ask.limit) = (None, 0, question.ask.limit.clamp(1, 3));
        let (excluded, reference_excluded) = self.excluded(&question);
        let before = walk(&*self.reference, &question, &reference_excluded).await?;
        let first = self.engine.query(&build(&question, &excluded, None)).await;
        self.store_many(meanwhile).await?;
        let after = walk(&*self.reference, &question, &reference_excluded).await?;
        let (Ok(before), Ok(after), Ok(first)) = (before, after, first) else {
            return Err("query: a page of a walk is refused".to_owned());
        };
        let walked = match walk_on(&*self.engine, &question, &excluded, first).await? {
            Ok(walked) => walked,
            Err(error) => return Err(format!("query: a walk ends with {error:?}")),
        };
        let order = question.ask.order;
        if !walked.is_sorted_by(|left, right| compare_heads(&left.head(), &right.head(), order).is_lt()) {
            return Err(format!("query: a walk is out of order or repeats a row: {walked:#?}"));
        }
        let walked: Vec<_> = walked.into_iter().map(|memory| self.shown(memory)).collect();
        let (before, after): (Vec<_>, Vec<_>) =
            (before.into_iter().map(json).collect(), after.into_iter().map(json).collect());
        if let Some(lost) = before.iter().find(|memory| !walked.contains(memory)) {
            return Err(format!("query: a walk lost what was there throughout: {lost}"));
        }
        match walked.iter().find(|memory| !after.contains(memory)) {
            Some(wrong) => Err(format!("query: a walk found what does not match: {wrong}")),
            None => Ok(()),
        }
    }

    /// What a side has under an id is restored to the same side: it is equal there, or a conflict once it is changed.
    async fn restore_again(&self, slot: usize, changed: bool) -> Step {
        let Some((engine, reference)) = self.memory_id(slot) else { return Ok(()) };
        let change = |mut memory: Memory| {
            if changed {
                memory.revision = memory.revision.next().expect("a low revision");
            }
            memory
        };
        let engine = self.engine.get(engine).await.map_err(|error| format!("get: {error:?}"))?;
        let engine = self.engine.restore(engine.into_iter().map(change).collect()).await;
        let reference = self.reference.get(reference).await.map_err(|error| format!("get: {error:?}"))?;
        same("restore", engine, self.reference.restore(reference.into_iter().map(change).collect()).await)
    }

    async fn put(&mut self, write: &Write) -> Step {
        let engine = self.documents.put(write.to_write()).await;
        let reference = self.reference_documents.put(write.to_write()).await;
        if let (Ok(engine), Ok(reference), None) = (&engine, &reference, write.id) {
            self.document_ids.push((engine.id.clone(), reference.id.clone()));
        }
        same("documents.put", engine.map(|document| self.shown_document(document)), reference.map(json))
    }

    async fn query_documents(&self, name: &str, ask: &Ask) -> Step {
        let engine = walk_documents(&*self.documents, name, ask).await?;
        let reference = walk_documents(&*self.reference_documents, name, ask).await?;
        let engine = engine.map(|found| found.into_iter().map(|document| self.shown_document(document)).collect());
        let reference = reference.map(|found| found.into_iter().map(json).collect());
        same_found("documents.query", ask, engine, reference)
    }

    async fn remove(&self, name: &str, slots: &[usize], ask: &Ask, max: usize) -> Step {
        let ids: Vec<_> = slots.iter().map(|slot| self.document_id(*slot)).collect();
        let select = |ids: Vec<DocumentId>| {
            let query = ask.build(DocumentQuery::builder(collection(name)));
            if ids.is_empty() { DocumentSelection::matching(query) } else { DocumentSelection::ids_where(ids, query) }
        };
        let (engine, reference): (Vec<_>, Vec<_>) = ids.into_iter().unzip();
        // Refused alike on both sides: that is decided before an engine sees it.
        let (Ok(engine), Ok(reference)) = (select(engine), select(reference)) else { return Ok(()) };
        let engine = self.documents.remove(&engine, max).await;
        let engine = engine.map(|ids| ids.into_iter().map(|id| self.reference_document_id(id)).collect::<Vec<_>>());
        same("documents.remove", engine, self.reference_documents.remove(&reference, max).await)
    }

    /// Everything that the two sides hold.
    async fn compare_everything(&self) -> Step {
        let ask = Ask {
            spaces: vec![],
            within: None,
            filter: None,
            text: None,
            order: Default::default(),
            limit: 7,
            offset: 0,
        };
        let question = Question { ask, after: None, before: None, statuses: vec![], exclude: vec![] };
        self.query(&question).await?;
        let (engine, reference) = (self.documents.collections().await, self.reference_documents.collections().await);
        let names = reference.clone().unwrap_or_default();
        same("collections", engine, reference)?;
        for name in names {
            self.query_documents(name.as_str(), &question.ask).await?;
        }
        Ok(())
    }

    /// The ids that a question excludes, on the engine and on the reference.
    fn excluded(&self, question: &Question) -> (Vec<MemoryId>, Vec<MemoryId>) {
        question.exclude.iter().filter_map(|slot| self.memory_id(*slot)).unzip()
    }

    /// Compares the ids of a store: new on both sides, or known and of the same earlier call.
    fn same_ids(&mut self, call: &str, engine: Result<Vec<MemoryId>>, reference: Result<Vec<MemoryId>>) -> Step {
        if let (Ok(engine), Ok(reference)) = (&engine, &reference) {
            for (engine, reference) in engine.iter().zip(reference) {
                let is_new = self.memory_ids.iter().all(|known| known.0 != *engine && known.1 != *reference);
                if is_new {
                    self.memory_ids.push((*engine, *reference));
                }
            }
        }
        let engine = engine.map(|ids| ids.into_iter().map(|id| self.reference_id(id)).collect::<Vec<_>>());
        same(call, engine, reference)
    }

    fn memory_id(&self, slot: usize) -> Option<(MemoryId, MemoryId)> {
        slot.checked_rem(self.memory_ids.len()).map(|place| self.memory_ids[place])
    }

    fn document_id(&self, slot: usize) -> (DocumentId, DocumentId) {
        self.document_ids[slot % self.document_ids.len()].clone()
    }

    fn reference_id(&self, id: MemoryId) -> MemoryId {
        self.memory_ids.iter().find(|known| known.0 == id).map_or(id, |known| known.1)
    }

    fn reference_document_id(&self, id: DocumentId) -> DocumentId {
        self.document_ids.iter().find(|known| known.0 == id).map_or(id, |known| known.1.clone())
    }

    /// A memory of the engine, under the id that the reference has for it.
    fn shown(&self, memory: Memory) -> String {
        json(Memory { id: self.reference_id(memory.id), ..memory })
    }

    fn shown_document(&self, document: Document) -> String {
        json(Document { id: self.reference_document_id(document.id.clone()), ..document })
    }
}

/// The query of a page: the first, or the one behind a cursor.
fn build(question: &Question, excluded: &[MemoryId], cursor: Option<&str>) -> MemoryQuery {
    let mut builder = question.ask.build(MemoryQuery::builder());
    builder = match cursor {
        Some(cursor) => builder.cursor(cursor),
        None => builder.offset(question.ask.offset),
    };
    if let Some(after) = question.after {
        builder = builder.created_after(at(after));
    }
    if let Some(before) = question.before {
        builder = builder.created_before(at(before));
    }
    builder = question.statuses.iter().fold(builder, |builder, status| builder.status(*status));
    excluded.iter().fold(builder, |builder, id| builder.exclude(*id)).build().expect("a valid query")
}

/// Every memory that a question finds.
async fn walk(provider: &dyn MemoryProvider, question: &Question, excluded: &[MemoryId]) -> Step<Result<Vec<Memory>>> {
    match provider.query(&build(question, excluded, None)).await {
        Ok(first) => walk_on(provider, question, excluded, first).await,
        Err(error) => Ok(Err(error)),
    }
}

/// Goes on to the end from a first page.
async fn walk_on(
    provider: &dyn MemoryProvider,
    question: &Question,
    excluded: &[MemoryId],
    first: MemoryPage,
) -> Step<Result<Vec<Memory>>> {
    let (mut found, mut page) = (Vec::new(), first);
    for _ in 0..MAX_PAGES {
        if page.memories.len() > question.ask.limit || !page.unreadable.is_empty() {
            return Err(format!("query: a page over its limit, or with rows that can't be read: {page:#?}"));
        }
        found.append(&mut page.memories);
        let Some(cursor) = page.next else { return Ok(Ok(found)) };
        page = match provider.query(&build(question, excluded, Some(cursor.as_str()))).await {
            Ok(page) => page,
            Err(error) => return Ok(Err(error)),
        };
    }
    Err("query: a walk does not come to an end".to_owned())
}

/// Every document that a question finds.
async fn walk_documents(documents: &dyn DocumentStore, name: &str, ask: &Ask) -> Step<Result<Vec<Document>>> {
    let builder = || ask.build(DocumentQuery::builder(collection(name)));
    let (mut found, mut query) = (Vec::new(), builder().offset(ask.offset).build().expect("a valid query"));
    for _ in 0..MAX_PAGES {
        let page = match documents.query(&query).await {
            Ok(page) => page,
            Err(error) => return Ok(Err(error)),
        };
        if page.documents.len() > ask.limit || !page.unreadable.is_empty() {
            return Err(format!("documents.query: a page over its limit, or with rows that can't be read: {page:#?}"));
        }
        found.extend(page.documents);
        let Some(cursor) = page.next else { return Ok(Ok(found)) };
        query = builder().cursor(&cursor).build().map_err(|error| format!("documents.query: a bad cursor: {error}"))?;
    }
    Err("documents.query: a walk does not come to an end".to_owned())
}

/// Compares what a query found: in order, but for text, whose order is the engine's own.
fn same_found(call: &str, ask: &Ask, engine: Result<Vec<String>>, reference: Result<Vec<String>>) -> Step {
    if ask.text.is_none() {
        return same(call, engine, reference);
    }
    // Which of the best come within an offset or a limit is the engine's own as well.
    if ask.offset > 0 || ask.limit < 1_000 {
        return same(call, engine.map(|found| found.len()), reference.map(|found| found.len()));
    }
    let counted = |found: Vec<String>| {
        found.into_iter().fold(HashMap::new(), |mut counts, record| {
            *counts.entry(record).or_insert(0) += 1;
            counts
        })
    };
    same(call, engine.map(counted), reference.map(counted))
}

/// Compares two answers; of errors the kind counts.
fn same<T: PartialEq + Debug>(call: &str, engine: Result<T>, reference: Result<T>) -> Step {
    let kind = |error: memory_core::Error| -> ErrorKind { error.kind() };
    let (engine, reference) = (engine.map_err(kind), reference.map_err(kind));
    if engine == reference {
        return Ok(());
    }
    Err(format!("{call}: the engine answers\n  {engine:#?}\nand the reference\n  {reference:#?}"))
}

/// The whole record as text, in which payloads show and null differs from absent.
fn json(record: impl Serialize) -> String {
    serde_json::to_string(&record).expect("records have a JSON form")
}

fn restored(restored: &Restored) -> Memory {
    let id = MemoryId::parse(restored.id).expect("a valid id");
    let mut memory = restored.item.to_memory().into_memory(id);
    memory.revision = Revision::new(restored.revision).expect("a valid revision");
    memory.updated_at = (restored.revision > 1).then(|| at(7));
    memory
}

fn restored_document(write: &Write) -> Document {
    let write = write.to_write().expect(Expect::Any);
    let id = write.id.clone().unwrap_or_else(|| document_id("restored"));
    write.apply(&id, None, at(0)).expect("nothing is in the way")
}
