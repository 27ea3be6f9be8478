//! One write, the answer to it, and the check of its effect.

use memory_core::{
    Document, DocumentQuery, DocumentSelection, DocumentWrite, Error, ErrorKind, Expect, Memory, MemoryId, MemoryPatch,
    MemoryProvider, Metadata, NewMemory, Order, Outcome, RestoreReport, Result, Revision, Updated,
};

use super::in_good_time;
use crate::fixture::{
    at, collection, context, document_id, ids, key, new_document, new_memory, the, walk, walk_documents,
};

/// The size of a batch, and of a removal, in memories or documents.
const FEW: usize = 5;
/// The text of restored records, and of the records that an update or a put finds.
const BEFORE: &str = "before";
/// The text that an update or a put leaves.
const AFTER: &str = "after";

/// The kinds of writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Store,
    StoreWithKey,
    Batch,
    BatchWithKeys,
    Update,
    UpdateIfRevision,
    Put,
    PutAbsent,
    PutRevision,
    PutMany,
    RemoveIds,
    RemoveMatching,
    Restore,
    RestoreWithKeys,
    RestoreDocuments,
}

/// Every kind of call that writes.
pub(super) const CALLS: [Call; 15] = [
    Call::Store,
    Call::StoreWithKey,
    Call::Batch,
    Call::BatchWithKeys,
    Call::Update,
    Call::UpdateIfRevision,
    Call::Put,
    Call::PutAbsent,
    Call::PutRevision,
    Call::PutMany,
    Call::RemoveIds,
    Call::RemoveMatching,
    Call::Restore,
    Call::RestoreWithKeys,
    Call::RestoreDocuments,
];

/// A call with unique names: a space and a collection that no other call uses.
#[derive(Debug)]
pub(super) struct Attempt {
    call: Call,
    name: String,
    /// The memory that an update finds, or the memories of a restore.
    memories: Vec<Memory>,
    /// The documents that a put or a removal finds, or those of a restore.
    documents: Vec<Document>,
    answer: Option<Result<Answer>>,
}

#[derive(Debug)]
enum Answer {
    Stored(Vec<MemoryId>),
    Updated(Updated),
    Put(Vec<Document>),
    Removed(Vec<String>),
    Restored(RestoreReport),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Done,
    NotDone,
    Unknown,
    /// The call failed with an error that no fault of the server explains.
    Wrong,
}

/// The effect of a call, as the ledger shows it.
struct Effect {
    /// How many parts of the call are done; of an update or a put of one document, how many times it was done.
    done: usize,
    /// Whether each part is as the call requested it, and as its answer says.
    is_right: bool,
}

impl Attempt {
    /// Prepares a call, and stores the records that it needs. A restore has `records` records.
    pub(super) async fn prepare(
        call: Call,
        name: String,
        records: usize,
        provider: &dyn MemoryProvider,
    ) -> Result<Self> {
        let mut attempt = Self { call, name, memories: Vec::new(), documents: Vec::new(), answer: None };
        match call {
            Call::Update | Call::UpdateIfRevision => {
                attempt.memories = attempt.records(1, Self::memory);
                provider.restore(attempt.memories.clone()).await?;
            }
            Call::Put | Call::PutRevision | Call::PutMany | Call::RemoveIds | Call::RemoveMatching => {
                let is_removal = matches!(call, Call::RemoveIds | Call::RemoveMatching);
                // A batch also makes new documents.
                attempt.documents = attempt.records(if is_removal { FEW } else { 1 }, Self::document);
                provider.documents().restore(attempt.documents.clone()).await?;
            }
            Call::Restore | Call::RestoreWithKeys => attempt.memories = attempt.records(records, Self::memory),
            Call::RestoreDocuments => attempt.documents = attempt.records(records, Self::document),
            Call::Store | Call::StoreWithKey | Call::Batch | Call::BatchWithKeys | Call::PutAbsent => {}
        }
        Ok(attempt)
    }

    /// Makes the call, and keeps its answer.
    pub(super) async fn make(&mut self, provider: &dyn MemoryProvider) {
        self.answer = Some(self.ask(provider).await);
    }

    /// Whether the call was acknowledged.
    pub(super) fn is_done(&self) -> bool {
        self.told() == Told::Done
    }

    /// How the ledger contradicts the answer, read through a working provider: an acknowledged write is missing, a write is there twice or
    /// in part, or a write is there that was answered as `NotDone`.
    pub(super) async fn mistake(&self, provider: &dyn MemoryProvider) -> Result<Option<String>> {
        let (Effect { done, is_right }, whole) = (self.effect(provider).await?, self.whole());
        let is_each_by_itself = matches!(self.call, Call::Restore | Call::RestoreWithKeys | Call::RestoreDocuments);
        let fits = match self.told() {
            Told::Done => done == whole,
            Told::NotDone => done == 0,
            Told::Unknown => done == 0 || done == whole || is_each_by_itself && done < whole,
            Told::Wrong => false,
        };
        Ok((!fits || !is_right).then(|| {
            let what = if is_right { "as asked for" } else { "not as asked for or answered" };
            format!("{}: {done} of {whole} exist, {what}, and the answer was {:?}", self.name, self.answer)
        }))
    }

    /// Whether the call is a store with keys.
    pub(super) fn can_be_repeated(&self) -> bool {
        matches!(self.call, Call::StoreWithKey | Call::BatchWithKeys)
    }

    /// Repeats a store with keys. Whatever its first attempt did, each memory must exist once, with the id that was answered.
    pub(super) async fn mistake_repeated(&self, provider: &dyn MemoryProvider) -> Result<Option<String>> {
        in_good_time(|| async { self.ask(provider).await.map(drop) }).await?;
        let (Effect { done, is_right }, whole) = (self.effect(provider).await?, self.whole());
        let message = || format!("{}: {done} of {whole} exist after the call was repeated", self.name);
        Ok((done != whole || !is_right).then(message))
    }

    async fn ask(&self, provider: &dyn MemoryProvider) -> Result<Answer> {
        let (name, documents) = (self.name.as_str(), provider.documents());
        let patch = MemoryPatch::new().set_context(context(&format!("{AFTER:?}")));
        let write = |place: usize| new_document(name, &place.to_string(), name, AFTER);
        let put = async |expect| Ok(Answer::Put(vec![documents.put(write(0).expect(expect)).await?]));
        let remove = async |selection| {
            let ids = documents.remove(&selection, FEW).await?;
            Ok(Answer::Removed(ids.iter().map(ToString::to_string).collect()))
        };
        let of_documents = self.documents.iter().map(|document| document.id.clone());
        match self.call {
            Call::Store | Call::StoreWithKey => Ok(Answer::Stored(vec![provider.store(self.new_memory(0)).await?])),
            Call::Batch | Call::BatchWithKeys => {
                let memories = self.records(FEW, Self::new_memory);
                provider.store_many(memories).await.map(Answer::Stored)
            }
            Call::Update => provider.update(self.memories[0].id, patch).await.map(Answer::Updated),
            Call::UpdateIfRevision => {
                let patch = patch.if_revision(Revision::FIRST);
                provider.update(self.memories[0].id, patch).await.map(Answer::Updated)
            }
            Call::Put => put(Expect::Any).await,
            Call::PutAbsent => put(Expect::Absent).await,
            Call::PutRevision => put(Expect::Revision(Revision::FIRST)).await,
            Call::PutMany => documents.put_many((0..FEW).map(write).collect()).await.map(Answer::Put),
            Call::RemoveIds => remove(DocumentSelection::ids(collection(name), of_documents)?).await,
            Call::RemoveMatching => {
                let query = DocumentQuery::builder(collection(name)).under(name);
                remove(DocumentSelection::matching(query)?).await
            }
            Call::Restore | Call::RestoreWithKeys => {
                provider.restore(with_a_repetition(&self.memories)).await.map(Answer::Restored)
            }
            Call::RestoreDocuments => documents.restore(with_a_repetition(&self.documents)).await.map(Answer::Restored),
        }
    }

    async fn effect(&self, provider: &dyn MemoryProvider) -> Result<Effect> {
        let (name, documents) = (self.name.as_str(), provider.documents());
        let answer = self.answer.as_ref().and_then(|answer| answer.as_ref().ok());
        let all_memories =
            async || walk(provider, |query| query.exact(name).order(Order::OldestFirst).limit(1_000)).await;
        let all_documents = async || {
            walk_documents(&*documents, name, |query| query.all().order(Order::OldestFirst).limit(1_000)).await
        };
        // One record more, since the first of them comes twice.
        let is_whole = |report: &RestoreReport, records: usize| {
            report.written + report.equal == records + 1 && report.conflicts.is_empty()
        };
        Ok(match self.call {
            Call::Store | Call::StoreWithKey | Call::Batch | Call::BatchWithKeys => {
                let found = all_memories().await?;
                let is_right = !matches!(answer, Some(Answer::Stored(told)) if *told != ids(&found));
                Effect { done: found.len(), is_right }
            }
            Call::Update | Call::UpdateIfRevision => {
                let (before, found) = (&self.memories[0], the(provider, self.memories[0].id).await?);
                let is_changed = found.context == Some(context(&format!("{AFTER:?}"))) && found.updated_at.is_some();
                let is_told = !matches!(answer, Some(Answer::Updated(told)) if *told != Updated::from(&found));
                let done = (found.revision.get() - 1) as usize;
                Effect { done, is_right: is_told && if done == 0 { found == *before } else { is_changed } }
            }
            Call::Put | Call::PutAbsent | Call::PutRevision | Call::PutMany => {
                let mut found = Vec::new();
                for place in 0..self.whole() {
                    found.extend(documents.get(&collection(name), &document_id(&place.to_string())).await?);
                }
                let revisions: usize = found.iter().map(|document| document.revision.get() as usize).sum();
                let done = revisions.saturating_sub(self.documents.len());
                let is_changed = found.iter().all(|document| document.content.as_str() == AFTER);
                let is_told = !matches!(answer, Some(Answer::Put(told)) if *told != found);
                Effect { done, is_right: is_told && if done == 0 { found == self.documents } else { is_changed } }
            }
            Call::RemoveIds | Call::RemoveMatching => {
                let found = all_documents().await?;
                let is_all =
                    |told: &Vec<String>| told.iter().eq(self.documents.iter().map(|document| document.id.as_str()));
                let is_told = !matches!(answer, Some(Answer::Removed(told)) if !is_all(told));
                let is_right = is_told && found.iter().all(|found| self.documents.contains(found));
                Effect { done: self.documents.len() - found.len(), is_right }
            }
            Call::Restore | Call::RestoreWithKeys => {
                let found = all_memories().await?;
                let given = |found: &Memory| self.memories.get(found.created_at.as_millis() as usize);
                let is_told = !matches!(answer, Some(Answer::Restored(told)) if !is_whole(told, self.memories.len()));
                let is_right = is_told && found.iter().all(|found| given(found) == Some(found));
                Effect { done: found.len(), is_right }
            }
            Call::RestoreDocuments => {
                let found = all_documents().await?;
                let given = |found: &Document| self.documents.get(found.created_at.as_millis() as usize);
                let is_told = !matches!(answer, Some(Answer::Restored(told)) if !is_whole(told, self.documents.len()));
                let is_right = is_told && found.iter().all(|found| given(found) == Some(found));
                Effect { done: found.len(), is_right }
            }
        })
    }

    /// How many parts the call has when all of it is done.
    fn whole(&self) -> usize {
        match self.call {
            Call::Batch | Call::BatchWithKeys | Call::PutMany | Call::RemoveIds | Call::RemoveMatching => FEW,
            Call::Restore | Call::RestoreWithKeys => self.memories.len(),
            Call::RestoreDocuments => self.documents.len(),
            _ => 1,
        }
    }

    fn told(&self) -> Told {
        match &self.answer {
            Some(Ok(_)) => Told::Done,
            Some(Err(error)) if !is_trouble(error) => Told::Wrong,
            Some(Err(error)) if error.outcome() == Outcome::Unknown => Told::Unknown,
            Some(Err(_)) | None => Told::NotDone,
        }
    }

    fn has_keys(&self) -> bool {
        self.can_be_repeated() || self.call == Call::RestoreWithKeys
    }

    fn records<T>(&self, count: usize, record: impl Fn(&Self, usize) -> T) -> Vec<T> {
        (0..count).map(|place| record(self, place)).collect()
    }

    fn new_memory(&self, place: usize) -> NewMemory {
        let memory = new_memory(&self.name, place as i64).with_context(context(&format!("{BEFORE:?}")));
        match self.has_keys() {
            true => memory.with_idempotency_key(key(&format!("{}-{place}", self.name))),
            false => memory,
        }
    }

    fn memory(&self, place: usize) -> Memory {
        self.new_memory(place).into_memory(MemoryId::generate())
    }

    fn document(&self, place: usize) -> Document {
        let DocumentWrite { collection, space_id, content, .. } = new_document(&self.name, "0", &self.name, BEFORE);
        Document {
            id: document_id(&place.to_string()),
            collection,
            space_id,
            content,
            metadata: Metadata::default(),
            created_at: at(place as i64),
            updated_at: None,
            revision: Revision::FIRST,
            expires_at: None,
        }
    }
}

/// The first record, followed by all of the records: the first one comes twice, and must be written once.
fn with_a_repetition<T: Clone>(records: &[T]) -> Vec<T> {
    records.iter().take(1).chain(records).cloned().collect()
}

/// Whether a call may fail with this error while its server can't be reached.
pub(super) fn is_trouble(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout)
}
