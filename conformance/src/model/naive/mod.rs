//! A second implementation of the contract, as simple as possible: two lists of rows, and brute force.
//!
//! It shares the types of `memory_core` and none of its decisions. All engines leave those to the same code, so a mistake there is in all
//! of them, and only an independent model finds it.

mod erasure;
mod expiry;
mod filter;
mod recall;
mod space;
#[cfg(test)]
mod tests;
mod text;
mod vectors;

use std::collections::{BTreeMap, BTreeSet};

use memory_core::{
    Actor, Collection, ContextPatch, Document, DocumentId, DocumentWrite, ErrorKind, Expect, ExpiryPatch, Memory,
    MemoryId, MemoryPatch, Metadata, MetadataPatch, NewMemory, Order, Record, RecordId, RestoreReport, Revision,
    Timestamp, Updated,
};
use serde::Serialize;
use serde_json::{Map, Value};

use super::op::{Ask, Of, Question, Selector, Watching};
use crate::fixture::at;
use expiry::is_over;
use filter::View;
pub(crate) use recall::{Scope, Wanted};

/// The answer that a call must get. A refused call has done nothing.
pub(crate) type Answer<T> = Result<T, ErrorKind>;

/// All rows of a namespace.
#[derive(Debug, Clone, Default)]
pub(crate) struct Naive {
    memories: Vec<Memory>,
    documents: Vec<Document>,
    /// The spaces in which each document has been.
    places: BTreeMap<RecordId, BTreeSet<String>>,
    /// The versions of each record, oldest first, removed documents included.
    history: BTreeMap<RecordId, Vec<Was>>,
    /// The latest createdAt of the documents in a history.
    created: BTreeMap<RecordId, i64>,
    tombstones: BTreeMap<RecordId, Stone>,
    /// The erased records, as they were.
    erased: Vec<Record>,
    /// Expired records that the engine may still hold.
    unswept: BTreeSet<RecordId>,
    /// The vectors beside records, as stored bytes.
    vectors: BTreeMap<RecordId, Vec<u8>>,
    /// The transient members of metadata, each by its path (H8). No version has them.
    transient: &'static [&'static str],
}

/// A version of a record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Was {
    pub(crate) revision: u64,
    pub(crate) at: i64,
    pub(crate) actor: Option<String>,
    /// The JSON of the record; `None` if the document was removed.
    pub(crate) json: Option<String>,
}

/// The tombstone of an erased record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stone {
    pub(crate) at: i64,
    pub(crate) reason: String,
    pub(crate) actor: Option<String>,
    /// Whether it was a memory with an idempotency key.
    pub(crate) has_key: bool,
}

impl Naive {
    /// An empty model whose versions omit the members at these paths (H8).
    pub(crate) fn with_transient(transient: &'static [&'static str]) -> Self {
        Self { transient, ..Self::default() }
    }

    pub(crate) fn memories(&self) -> &[Memory] {
        &self.memories
    }

    /// The ids of the memories that exist, and of those that were erased.
    pub(crate) fn memory_ids(&self) -> Vec<MemoryId> {
        self.memories.iter().chain(self.erased_memories()).map(|memory| memory.id).collect()
    }

    /// Stores all of a batch or nothing (W2 to W4, E3). `made` are the ids that the engine has answered, or `None` where the model expects
    /// a new id and the engine has not given one.
    pub(crate) fn store_many(
        &mut self,
        batch: Vec<NewMemory>,
        made: &[MemoryId],
        now: Timestamp,
    ) -> Answer<Vec<Option<MemoryId>>> {
        // A batch that contradicts itself is refused before anything is looked up.
        let is_contradiction = |place: usize| batch[..place].iter().any(|first| contradict(first, &batch[place]));
        if (0..batch.len()).any(is_contradiction) {
            return Err(ErrorKind::Conflict);
        }
        if batch.iter().any(|new| self.has_erased_key(new.idempotency_key.as_ref())) {
            return Err(ErrorKind::Erased);
        }
        let known = self.memories.len();
        let (mut memories, mut ids) = (self.memories.clone(), vec![]);
        for (place, new) in batch.into_iter().enumerate() {
            let has_the_key =
                |memory: &&Memory| new.idempotency_key.is_some() && memory.idempotency_key == new.idempotency_key;
            match memories.iter().find(has_the_key) {
                Some(first) if first.space_id == new.space_id && first.trigger == new.trigger => {
                    ids.push(Some(first.id))
                }
                Some(_) => return Err(ErrorKind::Conflict),
                None => {
                    let id = made.get(place).copied().filter(|id| memories.iter().all(|memory| memory.id != *id));
                    memories.push(Memory {
                        // Without an id the answers differ already, and the row is not compared again.
                        id: id.unwrap_or(MemoryId::from_bytes([0; 16])),
                        space_id: new.space_id,
                        trigger: new.trigger,
                        context: new.context,
                        created_at: new.created_at,
                        updated_at: None,
                        metadata: new.metadata,
                        status: new.status,
                        revision: Revision::FIRST,
                        idempotency_key: new.idempotency_key,
                        expires_at: new.expires_at,
                    });
                    ids.push(id);
                }
            }
        }
        self.memories = memories;
        for place in known..self.memories.len() {
            self.keep(&Record::Memory(self.memories[place].clone()), now, None);
        }
        Ok(ids)
    }

    /// Changes a memory (W5 to W8, V7, E2).
    pub(crate) fn update(&mut self, id: MemoryId, patch: &MemoryPatch, now: Timestamp) -> Answer<Updated> {
        self.look(id)?;
        let memory = self.memories.iter_mut().find(|memory| memory.id == id).ok_or(ErrorKind::NotFound)?;
        if patch.if_revision.is_some_and(|wanted| wanted != memory.revision) {
            return Err(ErrorKind::Conflict);
        }
        let before = memory.clone();
        let names_nothing = patch.context == ContextPatch::Keep
            && patch.metadata == MetadataPatch::Keep
            && patch.status.is_none()
            && patch.expires_at == ExpiryPatch::Keep;
        if !names_nothing {
            memory.revision = Revision::new(memory.revision.get() + 1).map_err(|_| ErrorKind::TooLarge)?;
            memory.updated_at = Some(now);
        }
        match &patch.context {
            ContextPatch::Keep => {}
            ContextPatch::Clear => memory.context = None,
            ContextPatch::Set(context) => memory.context = Some(context.clone()),
        }
        match &patch.metadata {
            MetadataPatch::Keep => {}
            MetadataPatch::Replace(metadata) => memory.metadata = metadata.clone(),
            MetadataPatch::Merge(patch) => {
                let merged = merge(value(&memory.metadata), value(patch));
                memory.metadata = Metadata::parse(&merged.to_string()).expect("small metadata");
            }
        }
        if let Some(status) = patch.status {
            memory.status = status;
        }
        match patch.expires_at {
            ExpiryPatch::Keep => {}
            ExpiryPatch::Clear => memory.expires_at = None,
            ExpiryPatch::Set(time) => memory.expires_at = Some(time),
        }
        let memory = memory.clone();
        let updated = Updated { revision: memory.revision, updated_at: memory.updated_at };
        if before.context != memory.context {
            self.vectors.remove(&RecordId::Memory(id));
        }
        let is_passing = before.metadata != memory.metadata
            && (before.status, before.expires_at, &before.context)
                == (memory.status, memory.expires_at, &memory.context)
            && self.lasting(&before.metadata) == self.lasting(&memory.metadata);
        if is_passing {
            let (revision, json) = (memory.revision.get(), self.version(&Record::Memory(memory)));
            let newest = self.history.get_mut(&RecordId::Memory(id)).and_then(|versions| versions.last_mut());
            let newest = newest.expect("each memory has a version");
            (newest.revision, newest.json) = (revision, Some(json));
        } else if !names_nothing {
            self.keep(&Record::Memory(memory), now, patch.actor.as_ref());
        }
        Ok(updated)
    }

    pub(crate) fn get(&self, id: MemoryId) -> Option<&Memory> {
        self.memories.iter().find(|memory| memory.id == id)
    }

    /// The memory with this id, or `Erased` if it was erased (E2).
    pub(crate) fn look(&self, id: MemoryId) -> Answer<Option<&Memory>> {
        match self.tombstones.contains_key(&RecordId::Memory(id)) {
            true => Err(ErrorKind::Erased),
            false => Ok(self.get(id)),
        }
    }

    /// Every word of every record.
    pub(crate) fn words(&self) -> BTreeSet<String> {
        let of_memories = self.memories.iter().flat_map(|memory| text::words(&text_of(memory)));
        of_memories.chain(self.documents.iter().flat_map(|document| text::words(document.content.as_str()))).collect()
    }

    /// The JSON of all matching memories, in the order of the query. Limit and offset are up to the caller (Q1 to Q4, Q7, T2).
    pub(crate) fn query(&self, question: &Question, excluded: &[MemoryId]) -> Answer<Vec<String>> {
        Ok(self.found_memories(question, excluded)?.into_iter().map(json).collect())
    }

    fn found_memories(&self, question: &Question, excluded: &[MemoryId]) -> Answer<Vec<&Memory>> {
        refuse_field(&question.ask, "content")?;
        let mut found: Vec<_> = self.memories.iter().collect();
        found.retain(|memory| {
            let created_at = memory.created_at.as_millis();
            question.after.is_none_or(|after| created_at > after)
                && question.before.is_none_or(|before| created_at < before)
                && (question.statuses.is_empty() || question.statuses.contains(&memory.status))
                && !excluded.contains(&memory.id)
                && matches(&question.ask, memory, memory.space_id.as_str(), &text_of(memory))
        });
        found.sort_by_key(|memory| (memory.created_at, *memory.id.as_bytes()));
        if question.ask.order == Order::NewestFirst {
            found.reverse();
        }
        Ok(found)
    }

    /// Restores memories as they are, one by one (W12), except those whose id or key was erased (E3) and those that have expired (X2).
    pub(crate) fn restore(&mut self, memories: Vec<Memory>, now: Timestamp) -> RestoreReport {
        let mut report = RestoreReport::default();
        for (place, memory) in memories.into_iter().enumerate() {
            let key_is_taken = memory.idempotency_key.is_some()
                && self.memories.iter().any(|other| other.idempotency_key == memory.idempotency_key);
            match self.get(memory.id) {
                _ if is_over(memory.expires_at, now)
                    || self.look(memory.id).is_err()
                    || self.has_erased_key(memory.idempotency_key.as_ref()) =>
                {
                    report.erased.push(place);
                }
                Some(present) if json(present) == json(&memory) => report.equal += 1,
                None if !key_is_taken => {
                    self.keep(&Record::Memory(memory.clone()), now, None);
                    self.memories.push(memory);
                    report.written += 1;
                }
                _ => report.conflicts.push(place),
            }
        }
        report
    }

    /// Puts a document (D1). `made` is the id that the engine has answered, if the write names none.
    pub(crate) fn put(&mut self, write: DocumentWrite, made: Option<DocumentId>, now: Timestamp) -> Answer<Document> {
        let made = made.filter(|id| self.document(&write.collection, id).is_none());
        let id = write.id.or(made).ok_or(ErrorKind::Conflict)?;
        let present =
            self.documents.iter().position(|document| document.collection == write.collection && document.id == id);
        let present = present.map(|place| self.documents.remove(place));
        let holds = match (write.expect, &present) {
            (Expect::Any, _) | (Expect::Absent, None) => true,
            (Expect::Revision(wanted), Some(present)) => wanted == present.revision,
            (Expect::Absent, Some(_)) | (Expect::Revision(_), None) => false,
        };
        if !holds {
            self.documents.extend(present);
            return Err(ErrorKind::Conflict);
        }
        let revision = present.as_ref().map_or(1, |present| present.revision.get() + 1);
        let record = RecordId::Document { collection: write.collection.clone(), id: id.clone() };
        let created_at = match (&present, self.tombstones.get(&record)) {
            (Some(present), _) => present.created_at,
            // It is another document than the erased one (E3).
            (None, Some(stone)) => write.created_at.max(at(stone.at + 1)),
            (None, None) => write.created_at,
        };
        if present.as_ref().is_none_or(|present| present.content != write.content) {
            self.vectors.remove(&record);
        }
        let document = Document {
            id,
            collection: write.collection,
            space_id: write.space_id,
            content: write.content,
            metadata: write.metadata,
            created_at,
            updated_at: present.map(|_| now),
            revision: Revision::new(revision).expect("a low revision"),
            expires_at: write.expires_at,
        };
        // An expired document in its place was swept first.
        self.sweep(&record);
        self.documents.push(document.clone());
        self.keep(&Record::Document(document.clone()), now, write.actor.as_ref());
        Ok(document)
    }

    /// Puts all of a batch or nothing (D7). `made` are the ids that the engine has answered.
    pub(crate) fn put_many(
        &mut self,
        writes: Vec<DocumentWrite>,
        made: &[DocumentId],
        now: Timestamp,
    ) -> Answer<Vec<Document>> {
        let named: Vec<_> = writes.iter().filter_map(|write| Some((&write.collection, write.id.as_ref()?))).collect();
        if (1..named.len()).any(|place| named[..place].contains(&named[place])) {
            return Err(ErrorKind::InvalidInput);
        }
        let (documents, history, created) = (self.documents.clone(), self.history.clone(), self.created.clone());
        let (tombstones, unswept) = (self.tombstones.clone(), self.unswept.clone());
        let vectors = self.vectors.clone();
        let mut all = Self { documents, history, created, tombstones, unswept, vectors, ..Self::default() };
        let put = |(place, write)| all.put(write, made.get(place).cloned(), now);
        let put: Vec<Document> = writes.into_iter().enumerate().map(put).collect::<Answer<_>>()?;
        (self.documents, self.history, self.created) = (all.documents, all.history, all.created);
        (self.unswept, self.vectors) = (all.unswept, all.vectors);
        Ok(put)
    }

    pub(crate) fn document(&self, collection: &Collection, id: &DocumentId) -> Option<&Document> {
        self.documents.iter().find(|document| document.collection == *collection && document.id == *id)
    }

    /// The JSON of all matching documents, in the order of the query. Limit and offset are up to the caller (D3).
    pub(crate) fn query_documents(&self, collection: &Collection, ask: &Ask) -> Answer<Vec<String>> {
        Ok(self.found_documents(collection, ask)?.into_iter().map(json).collect())
    }

    /// Removes the matching documents; if ids are given, only those among them (D4).
    pub(crate) fn remove(
        &mut self,
        collection: &Collection,
        ids: &[DocumentId],
        ask: &Ask,
        max: usize,
        now: Timestamp,
    ) -> Answer<Vec<DocumentId>> {
        if ids.is_empty() && ask.spaces.is_empty() && ask.filter.is_none() && ask.text.is_none() {
            return Err(ErrorKind::InvalidInput);
        }
        let found = self.found_documents(collection, ask)?;
        let mut found: Vec<_> = found.into_iter().map(|document| document.id.clone()).collect();
        found.retain(|id| ids.is_empty() || ids.contains(id));
        if found.len() > max {
            return Err(ErrorKind::LimitExceeded);
        }
        found.sort_by(|one, other| one.as_str().as_bytes().cmp(other.as_str().as_bytes()));
        for id in &found {
            let record = RecordId::Document { collection: collection.clone(), id: id.clone() };
            self.vectors.remove(&record);
            let versions = self.history.entry(record).or_default();
            let revision = versions.last().map_or(0, |last| last.revision);
            versions.push(Was { revision, at: now.as_millis(), actor: None, json: None });
        }
        self.documents.retain(|document| document.collection != *collection || !found.contains(&document.id));
        Ok(found)
    }

    /// Restores documents as they are, one by one, except those that have expired (X2) and those that were created before they were erased
    /// (E3).
    pub(crate) fn restore_documents(&mut self, documents: Vec<Document>, now: Timestamp) -> RestoreReport {
        let mut report = RestoreReport::default();
        for (place, document) in documents.into_iter().enumerate() {
            match self.document(&document.collection, &document.id) {
                _ if is_over(document.expires_at, now) => report.erased.push(place),
                Some(present) if json(present) == json(&document) => report.equal += 1,
                Some(_) => report.conflicts.push(place),
                None if self.keeps_out(&document) => report.erased.push(place),
                None => {
                    self.sweep(&RecordId::from(&document));
                    self.keep(&Record::Document(document.clone()), now, None);
                    self.documents.push(document);
                    report.written += 1;
                }
            }
        }
        report
    }

    /// The spaces right below a path that hold records of the ledger or of a collection, as far as these lie in `within`. Each has its
    /// number of records and the createdAt of the newest, and they come in byte order (S8, S9).
    pub(crate) fn spaces(
        &self,
        of: Option<&Collection>,
        under: Option<&str>,
        within: Option<&Selector>,
    ) -> Vec<(String, usize, Timestamp)> {
        let memories = self.memories.iter().map(|memory| (memory.space_id.as_str(), memory.created_at));
        let documents = self.documents.iter().filter(|document| Some(&document.collection) == of);
        let documents = documents.map(|document| (document.space_id.as_str(), document.created_at));
        let records: Vec<_> = if of.is_none() { memories.collect() } else { documents.collect() };
        let mut found: BTreeMap<String, (usize, Timestamp)> = BTreeMap::new();
        for (id, created_at) in records {
            let is_wanted = within.is_none_or(|within| space::finds(within, id))
                && under.is_none_or(|path| space::finds(&Selector::Under(path.to_owned()), id));
            if let Some(name) = space::right_below(under.unwrap_or_default(), id).filter(|_| is_wanted) {
                let (count, newest) = found.entry(name).or_insert((0, created_at));
                *count += 1;
                *newest = created_at.max(*newest);
            }
        }
        found.into_iter().map(|(name, (count, newest))| (name, count, newest)).collect()
    }

    /// The collections that hold a document, in ascending order.
    pub(crate) fn collections(&self) -> Vec<Collection> {
        let mut names: Vec<_> = self.documents.iter().map(|document| document.collection.clone()).collect();
        names.sort_by(|one, other| one.as_str().cmp(other.as_str()));
        names.dedup();
        names
    }

    /// The JSON of every existing record that a watch must have delivered, in byte order (C1 to C4).
    pub(crate) fn watched(&self, watching: &Watching, excluded: &[MemoryId]) -> Answer<Vec<String>> {
        let Watching { of, question, .. } = watching;
        let Question { ask, after, before, statuses, .. } = question;
        let has_more = after.is_some() || before.is_some() || !statuses.is_empty() || !excluded.is_empty();
        if !of.memories && has_more {
            return Err(ErrorKind::InvalidInput);
        }
        let mut found = if of.memories { self.query(question, excluded)? } else { vec![] };
        if let Some(names) = of.collections {
            refuse_field(ask, "status")?;
            for collection in self.collections() {
                if names.is_empty() || names.contains(&collection.as_str()) {
                    found.extend(self.query_documents(&collection, ask)?);
                }
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// All records, each with its JSON.
    pub(crate) fn records(&self) -> Vec<(Record, String)> {
        let memories = self.memories.iter().map(|memory| (Record::Memory(memory.clone()), json(memory)));
        let documents = self.documents.iter().map(|document| (Record::Document(document.clone()), json(document)));
        memories.chain(documents).collect()
    }

    /// Whether a record has ever been where a watch may see it (C4).
    pub(crate) fn was_watched(&self, id: &RecordId, Watching { of, question, .. }: &Watching) -> bool {
        is_of(of, id) && self.places_of(id).into_iter().any(|place| is_in_scope(&question.ask, place))
    }

    /// Whether a watch is told that a record was erased (E4): if the record lay in a place that the watch names.
    /// Prefixes and patterns name no places. A watch that selects by one of them hears of every erasure within
    /// `within`, and a watch whose `within` is one of them hears of no erasure.
    pub(crate) fn hears_of_erasure(&self, id: &RecordId, Watching { of, question, .. }: &Watching) -> bool {
        let Ask { spaces, within, .. } = &question.ask;
        let places = self.places_of(id);
        let lay_in = |selector: &Selector| places.iter().any(|place| space::finds(selector, place));
        let is_place = |selector: &Selector| matches!(selector, Selector::Exact(_) | Selector::Under(_));
        is_of(of, id)
            && within.as_ref().is_none_or(|within| is_place(within) && lay_in(within))
            && (spaces.is_empty() || spaces.iter().any(|selector| !is_place(selector) || lay_in(selector)))
    }

    /// The spaces in which a record has been, erased records included.
    fn places_of(&self, id: &RecordId) -> Vec<&str> {
        match id {
            RecordId::Memory(id) => {
                // Once its tombstone is gone, an id may come again in another space.
                let memories = self.memories.iter().chain(self.erased_memories()).filter(|memory| memory.id == *id);
                memories.map(|memory| memory.space_id.as_str()).collect()
            }
            RecordId::Document { .. } => self.places.get(id).into_iter().flatten().map(String::as_str).collect(),
        }
    }

    /// Notes the spaces of all documents.
    pub(crate) fn remember_places(&mut self) {
        for document in &self.documents {
            let places = self.places.entry(document.into()).or_default();
            places.insert(document.space_id.as_str().to_owned());
        }
    }

    /// The versions of a record, newest first (H1, H5).
    pub(crate) fn history(&self, id: &RecordId, with_removed: bool) -> Vec<Was> {
        let versions = self.history.get(id).into_iter().flatten().rev();
        versions.take_while(|was| with_removed || was.json.is_some()).cloned().collect()
    }

    /// Every record that has a history: those that exist, and removed documents.
    pub(crate) fn ever(&self) -> impl Iterator<Item = &RecordId> {
        self.history.keys()
    }

    /// The JSON of a record as of a time (H3, H4).
    pub(crate) fn as_of(&self, id: &RecordId, time: i64, since: i64, now: Timestamp) -> Answer<Option<String>> {
        if time < since || time > now.as_millis() {
            return Err(ErrorKind::InvalidInput);
        }
        Ok(self.history(id, false).into_iter().find(|was| was.at <= time).and_then(|was| was.json))
    }

    /// Adds the present state of a record to its history.
    fn keep(&mut self, record: &Record, now: Timestamp, actor: Option<&Actor>) {
        let (id, revision) = match record {
            Record::Memory(memory) => (RecordId::Memory(memory.id), memory.revision),
            Record::Document(document) => {
                let id = RecordId::from(document);
                let created = self.created.entry(id.clone()).or_insert(i64::MIN);
                *created = document.created_at.as_millis().max(*created);
                (id, document.revision)
            }
        };
        let (actor, json) = (actor.map(|actor| actor.as_str().to_owned()), Some(self.version(record)));
        let was = Was { revision: revision.get(), at: now.as_millis(), actor, json };
        self.history.entry(id).or_default().push(was);
    }

    /// The JSON of a record as its version shows it.
    fn version(&self, record: &Record) -> String {
        match record {
            Record::Memory(memory) => json(&Memory { metadata: self.lasting(&memory.metadata), ..memory.clone() }),
            Record::Document(document) => json(document),
        }
    }

    /// Metadata without the transient members.
    fn lasting(&self, metadata: &Metadata) -> Metadata {
        if self.transient.is_empty() {
            return metadata.clone();
        }
        let mut lasting = value(metadata);
        for path in self.transient {
            take_out(&mut lasting, &path.split('.').collect::<Vec<_>>());
        }
        Metadata::parse(&lasting.to_string()).expect("small metadata")
    }

    fn found_documents(&self, collection: &Collection, ask: &Ask) -> Answer<Vec<&Document>> {
        refuse_field(ask, "status")?;
        let mut found: Vec<_> = self.documents.iter().collect();
        found.retain(|document| {
            let (space, text) = (document.space_id.as_str(), document.content.as_str());
            document.collection == *collection && matches(ask, document, space, text)
        });
        found.sort_by_key(|document| (document.created_at, document.id.as_str().as_bytes()));
        if ask.order == Order::NewestFirst {
            found.reverse();
        }
        Ok(found)
    }
}

/// The JSON of a record, in which payloads show and null differs from absent.
pub(crate) fn json(record: &impl Serialize) -> String {
    serde_json::to_string(record).expect("records have a JSON form")
}

/// Whether a record satisfies the common part of a query.
fn matches(ask: &Ask, record: &impl Serialize, space: &str, text: &str) -> bool {
    let view = || View { json: value(record), text: text.into() };
    is_in_scope(ask, space)
        && ask.filter.as_ref().is_none_or(|condition| filter::holds(condition, &view()))
        && ask.text.as_ref().is_none_or(|wanted| {
            let (wanted, held) = (text::words(wanted), text::words(text));
            wanted.iter().any(|word| held.contains(word))
        })
}

/// Whether the query selects a space.
fn is_in_scope(ask: &Ask, space: &str) -> bool {
    (ask.spaces.is_empty() || ask.spaces.iter().any(|selector| space::finds(selector, space)))
        && ask.within.as_ref().is_none_or(|within| space::finds(within, space))
}

/// Refuses a condition on a field that these records don't have (F1).
fn refuse_field(ask: &Ask, name: &str) -> Answer<()> {
    let is_mentioned = ask.filter.as_ref().is_some_and(|condition| filter::mentions(condition, name));
    if is_mentioned { Err(ErrorKind::InvalidInput) } else { Ok(()) }
}

/// Whether a watch includes records of this kind.
fn is_of(of: &Of, id: &RecordId) -> bool {
    match id {
        RecordId::Memory(_) => of.memories,
        RecordId::Document { collection, .. } => {
            of.collections.is_some_and(|names| names.is_empty() || names.contains(&collection.as_str()))
        }
    }
}

/// Whether two memories have the same key and are not the same (W3).
fn contradict(one: &NewMemory, other: &NewMemory) -> bool {
    one.idempotency_key.is_some()
        && one.idempotency_key == other.idempotency_key
        && (&one.space_id, &one.trigger) != (&other.space_id, &other.trigger)
}

/// All string values of trigger and context, one per line (F1).
fn text_of(memory: &Memory) -> String {
    let mut strings = text::strings(memory.trigger.as_str());
    strings.extend(memory.context.iter().flat_map(|context| text::strings(context.as_str())));
    strings.join("\n")
}

/// The function MergePatch of RFC 7396.
fn merge(target: Value, patch: Value) -> Value {
    let Value::Object(patch) = patch else { return patch };
    let mut target = match target {
        Value::Object(target) => target,
        _ => Map::new(),
    };
    for (name, value) in patch {
        if value.is_null() {
            target.remove(&name);
        } else {
            let member = target.remove(&name).unwrap_or(Value::Null);
            target.insert(name, merge(member, value));
        }
    }
    Value::Object(target)
}

/// Removes the member at a path, and each object that held nothing else.
fn take_out(value: &mut Value, path: &[&str]) {
    let (Value::Object(object), [name, rest @ ..]) = (value, path) else { return };
    let Some(member) = object.get_mut(*name) else { return };
    if rest.is_empty() {
        object.remove(*name);
    } else if member.as_object().is_some_and(|inner| !inner.is_empty()) {
        take_out(member, rest);
        if member.as_object().is_some_and(Map::is_empty) {
            object.remove(*name);
        }
    }
}

fn value(record: &impl Serialize) -> Value {
    serde_json::to_value(record).expect("records have a JSON form")
}
