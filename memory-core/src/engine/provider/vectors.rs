//! Vectors beside records, and recalls by vector or model (M1 to M4).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::SemaphorePermit;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::living::LivingWork;
use super::look::Look;
use super::open::{Open, Shared, after};
use super::running::ended;
use crate::engine::recall::{self, Gathered, Recallable};
use crate::engine::session::{Embed, EmbedRecord, Found, Reader, Writer, no_vectors};
use crate::engine::{Access, Engine, Retry};
use crate::recall::Meaning;
use crate::{
    Collection, Document, DocumentId, Embedder, Embedding, Error, ErrorKind, Kind, MAX_VECTORS, Memory, MemoryId,
    Outcome, Recall, Recalled, RecordId, Result, Vector, VectorModel,
};

/// How long a question waits for its vector; then words alone answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a recall waits for the namespace's model if it knows an earlier one.
const KNOWN: Duration = Duration::from_secs(2);
/// Maximum number of records that one step reads for their vectors. Their sizes are not known before, and each may have many megabytes, so
/// more of them could take too much RAM.
const READ: usize = 8;
/// Number of vectors that one session stores. A session may cost a wait for other servers, and may hold up other writes.
const EMBEDDED: usize = 64;
/// A session ends early once the records that it has read have this many bytes: an engine may hold or lock them all.
const EMBEDDED_BYTES: usize = 8 << 20;

impl<E: Engine> Open<E> {
    /// Returns the namespace's model.
    pub(super) async fn vector_model(&self) -> Result<Option<VectorModel>> {
        if !E::VECTORS {
            return Ok(None);
        }
        let ask = |_| self.engine.vector_model();
        let kept = self.retry().run(|error| self.engine.is_temporary(error), ask).await?;
        kept.as_deref().map(VectorModel::parse).transpose()
    }

    /// Returns the model for a recall. If the server can't be asked, that is the last known one, because a replica
    /// answers even if the server that stores the model does not.
    async fn model_of_recalls(&self) -> Result<Option<VectorModel>> {
        let known = || self.model.lock().unwrap_or_else(PoisonError::into_inner);
        let last = known().clone();
        let asked = match &last {
            None => self.vector_model().await,
            Some(_) => {
                let late = |_| Err(Error::new(ErrorKind::Timeout, "the embedding model can't be asked").retryable());
                timeout(KNOWN.min(self.settings.deadline / 3), self.vector_model()).await.unwrap_or_else(late)
            }
        };
        match asked {
            Ok(model) => {
                known().clone_from(&model);
                Ok(model)
            }
            Err(error) if last.is_none() || !error.is_retryable() => Err(error),
            Err(_) => Ok(last),
        }
    }

    pub(super) async fn set_vector_model(&self, model: &VectorModel) -> Result<()> {
        if !E::VECTORS {
            return Err(no_vectors());
        }
        let text = model.to_text();
        let set = |_| self.engine.set_vector_model(&text);
        self.retry().repeatable().run(|error| self.engine.is_temporary(error), set).await
    }

    pub(super) async fn embed(&self, model: &VectorModel, embeddings: Vec<Embedding>) -> Result<Vec<bool>> {
        if !E::VECTORS {
            return Err(no_vectors());
        }
        check_count(embeddings.len())?;
        let kept = self.vector_model().await.map_err(|error| error.with_outcome(Outcome::NotDone))?;
        let kept = kept.filter(|kept| kept.is_same(model)).ok_or_else(|| model.is_another())?;
        for embedding in &embeddings {
            kept.check(&embedding.vector)?;
        }
        // Engines that lock records lock them in this order, as erasures do.
        let mut sorted: Vec<_> = embeddings.into_iter().enumerate().collect();
        sorted.sort_by(|(_, one), (_, other)| one.record.cmp(&other.record));
        let (places, embeddings): (Vec<_>, Vec<_>) = sorted.into_iter().unzip();
        let (mut done, until) = (Vec::with_capacity(embeddings.len()), self.until());
        let given = Arc::new(Given { model: kept, embeddings });
        while done.len() < given.embeddings.len() {
            let first = done.len();
            let kept = self.embed_slice(Slice { given: Arc::clone(&given), first }, until).await;
            done.extend(kept.map_err(|error| error.after(Outcome::unknown_if(first > 0)))?);
        }
        let mut answers = vec![false; done.len()];
        places.into_iter().zip(done).for_each(|(place, is_kept)| answers[place] = is_kept);
        Ok(answers)
    }

    async fn embed_slice(&self, slice: Slice, until: Instant) -> Result<Vec<bool>> {
        let work: LivingWork<E::Session, _, _> = |writer, slice| Box::pin(embed(writer, slice));
        let slice = &slice;
        let attempt = async |attempt| {
            // Another model may have been set, whose vectors must not be replaced.
            if slice.first + attempt > 0
                && !self.vector_model().await?.is_some_and(|model| model.is_same(&slice.given.model))
            {
                return Err(slice.given.model.is_another());
            }
            self.in_session(Access::Write.into(), until, Arc::new(slice.clone()), work).await
        };
        // Storing a vector again changes nothing.
        let retry = Retry::until(until.min(after(self.settings.patience))).repeatable();
        retry.run(|error| self.engine.is_temporary(error), attempt).await
    }

    pub(super) async fn vectors(&self, of: &[RecordId]) -> Result<Vec<Option<Embedding>>> {
        check_count(of.len())?;
        let Some(model) = self.vector_model().await? else { return Ok(vec![None; of.len()]) };
        let mut all = Vec::with_capacity(of.len());
        for some in of.chunks(READ) {
            let work: LivingWork<E::Session, _, _> = |reader, asked| Box::pin(vectors(reader, asked));
            all.extend(self.run(Access::ReadLatest, (model.clone(), some.to_vec()), work).await?);
        }
        Ok(all)
    }
}

impl<E: Engine> Shared<E> {
    /// Executes a recall. For a question by meaning, gets its vector from the model first.
    pub(super) async fn recall<K>(&self, open: &Arc<Open<E>>, recall: &Recall<K>) -> Result<Recalled<K::Record>>
    where
        K: Recallable,
        K::Record: Clone + 'static,
    {
        let (until, mut recall) = (open.until(), recall.read_in(open.settings.language));
        if let Some(meaning) = recall.meaning.clone() {
            let asked = match E::VECTORS {
                true => asked_model(open.model_of_recalls().await?, &meaning),
                false => Err(no_vectors()),
            };
            match asked {
                Ok(model) => recall.model = Some(model),
                Err(error) if gives_way(&meaning, &error) => self.words_alone(&mut recall, error)?,
                Err(error) => return Err(error),
            }
        }
        match recall.meaning.clone() {
            // A blank question has no vector.
            Some(Meaning::Made { .. }) if recall.question.trim().is_empty() => {
                recall.meaning = None;
                self.recall_at_once(open, until, &recall).await
            }
            Some(Meaning::Made { embedder, .. }) => self.recall_by(open, until, recall, embedder.as_ref()).await,
            _ => self.recall_at_once(open, until, &recall).await,
        }
    }

    /// Executes a recall whose vector is given, or that has none.
    async fn recall_at_once<K>(
        &self,
        open: &Arc<Open<E>>,
        until: Instant,
        recall: &Recall<K>,
    ) -> Result<Recalled<K::Record>>
    where
        K: Recallable,
        K::Record: Clone + 'static,
    {
        let how = Look { until, ..Look::new(open, Access::Read).heavy(recall.query.is_heavy()) };
        let work: LivingWork<E::Session, _, _> = |reader, asked| Box::pin(recall::answer(reader, asked));
        self.look(open, how, recall, work).await
    }

    /// Gathers the scope, asks the model for the question's vector, and reads the hits. Holds no session while it waits
    /// for the model.
    async fn recall_by<K>(
        &self,
        open: &Arc<Open<E>>,
        until: Instant,
        mut recall: Recall<K>,
        embedder: &dyn Embedder,
    ) -> Result<Recalled<K::Record>>
    where
        K: Recallable,
        K::Record: Clone + 'static,
    {
        let mut how = Look { until, ..Look::new(open, Access::Read).heavy(recall.query.is_heavy()) };
        let work: LivingWork<E::Session, _, Gathered> = |reader, asked| Box::pin(recall::gather(reader, asked));
        let (gathered, _waiting) = loop {
            let waiting = match how.is_heavy.then_some(self.wait_for_model()) {
                None => None,
                Some(waiting) => match waiting.await {
                    Ok(place) => Some(place),
                    Err(error) => {
                        self.words_alone(&mut recall, error)?;
                        return self.recall_at_once(open, until, &recall).await;
                    }
                },
            };
            let watching = how.watching();
            let gathered = self.look_once(open, how, &watching, &recall, work).await;
            if !watching.is_spent() {
                break (gathered?, waiting);
            }
            how.is_heavy = true;
        };
        let vector = match gathered.has_vectors() {
            false => None,
            true => match vector_of(&recall, &gathered.names, embedder, until).await {
                Ok(vector) => {
                    self.is_model_down.store(false, Ordering::Relaxed);
                    vector
                }
                Err(error) => {
                    self.words_alone(&mut recall, error)?;
                    None
                }
            },
        };
        let (recall, permit) = (Arc::new(recall), self.permit(how.is_heavy).await?);
        let ranked = {
            let recall = Arc::clone(&recall);
            let rank = move || {
                let ranked = gathered.ranked(&recall, vector.as_ref());
                drop(permit);
                Ok(ranked)
            };
            ended(spawn_blocking(rank).await)?
        };
        let asked = (Recall::clone(&recall), Arc::new(ranked));
        let work: LivingWork<E::Session, _, _> = |reader, asked| Box::pin(recall::answer_ranked(reader, asked));
        self.look(open, how, &asked, work).await
    }

    /// Falls back to words alone because the model can't be used. Fails if the question has no terms, unless the recall
    /// allows words instead and the namespace has another model, or none. Logs this once until the model answers again.
    fn words_alone<K>(&self, recall: &mut Recall<K>, error: Error) -> Result<()> {
        let or_words = matches!(recall.meaning, Some(Meaning::Made { or_words: true, .. }));
        if recall.terms.is_empty() && !(or_words && is_of_namespace(&error)) {
            return Err(error);
        }
        if !self.is_model_down.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "questions are answered by their words alone");
        }
        (recall.meaning, recall.model) = (None, None);
        Ok(())
    }

    async fn wait_for_model(&self) -> Result<SemaphorePermit<'_>> {
        let refused =
            |_| Error::new(ErrorKind::Unavailable, "too many recalls wait for the model: try again later").retryable();
        let place = timeout(self.settings.deadline / 2, self.waiting_for_models.acquire()).await.map_err(refused)?;
        // The semaphore is never closed.
        place.map_err(|_| Error::new(ErrorKind::Closed, "the provider is closed"))
    }
}

/// Embeds a question; `None` if it is blank.
async fn vector_of<K: Kind>(
    recall: &Recall<K>,
    names: &BTreeSet<u16>,
    embedder: &dyn Embedder,
    until: Instant,
) -> Result<Option<Vector>> {
    let question = recall.without(names);
    if question.trim().is_empty() {
        return Ok(None);
    }
    let patience = PATIENCE.min(until.saturating_duration_since(Instant::now()) / 2);
    let late = |_| Err(Error::new(ErrorKind::Timeout, "the embedder returned no vector of the question in time"));
    timeout(patience, embedder.vectors(&[question])).await.unwrap_or_else(late).map(|mut made| made.pop())
}

/// The vectors of a call, and their model.
struct Given {
    model: VectorModel,
    embeddings: Vec<Embedding>,
}

/// Vectors to store, from `first` on.
#[derive(Clone)]
struct Slice {
    given: Arc<Given>,
    first: usize,
}

/// Stores the vectors of a session, a few at a time. Returns the results of those that it had room for.
async fn embed<W: Writer>(writer: &mut W, slice: &Slice) -> Result<Vec<bool>> {
    let Given { model, embeddings } = &*slice.given;
    let embeddings = &embeddings[slice.first..embeddings.len().min(slice.first + EMBEDDED)];
    let (mut done, mut bytes) = (Vec::with_capacity(embeddings.len()), 0);
    for some in embeddings.chunks(READ) {
        let earlier = Outcome::unknown_if(done.contains(&true));
        let present = Present::of(writer, some.iter().map(|embedding| &embedding.record)).await;
        let present = present.map_err(|error| error.after(earlier))?;
        done.extend(embed_some(writer, model, some, &present).await.map_err(|error| error.after(earlier))?);
        bytes += present.size();
        if bytes > EMBEDDED_BYTES {
            break;
        }
    }
    Ok(done)
}

/// Stores vectors, each if its record is present at the right revision.
async fn embed_some<W: Writer>(
    writer: &mut W,
    model: &VectorModel,
    embeddings: &[Embedding],
    present: &Present<W::Version>,
) -> Result<Vec<bool>> {
    let (mut places, mut embeds, seal) = (Vec::new(), Vec::new(), model.sealing());
    for (place, Embedding { record, revision, texts, vector }) in embeddings.iter().enumerate() {
        let is_it = |found: &EmbedRecord<'_, _>| {
            found.revision() == *revision && texts.is_none_or(|texts| texts == found.texts())
        };
        if let Some(found) = present.found(record).filter(is_it) {
            places.push(place);
            embeds.push(Embed { found, vector: seal.close(vector) });
        }
    }
    let mut done = vec![false; embeddings.len()];
    if !embeds.is_empty() {
        let kept = writer.embed(&embeds).await?;
        places.into_iter().zip(kept).for_each(|(place, is_kept)| done[place] = is_kept);
    }
    Ok(done)
}

/// Returns the vectors of these records.
async fn vectors<R: Reader>(reader: &mut R, asked: &(VectorModel, Vec<RecordId>)) -> Result<Vec<Option<Embedding>>> {
    let (model, of) = asked;
    let seal = model.sealing();
    // An engine may read each of these at another time: a vector is returned only if its record had the same texts
    // before and after.
    let before = Present::of(reader, of).await?;
    let kept: HashMap<_, _> = reader.vectors(of).await?.into_iter().collect();
    let behind = Present::of(reader, of.iter().filter(|record| kept.contains_key(record))).await?;
    let embedding = |record: &RecordId| {
        let vector = seal.open(kept.get(record)?)?;
        let stamp = |present: &Present<_>| present.found(record).map(|found| (found.revision(), found.texts()));
        let (revision, texts) = stamp(&behind).filter(|behind| stamp(&before) == Some(*behind))?;
        Some(Embedding { record: record.clone(), revision, texts: Some(texts), vector })
    };
    Ok(of.iter().map(embedding).collect())
}

/// Existing records, by id.
struct Present<V> {
    memories: HashMap<MemoryId, Found<Memory, V>>,
    documents: HashMap<RecordId, Found<Document, V>>,
}

impl<V> Present<V> {
    /// Reads those of these records that exist and can be read.
    async fn of<'r, R: Reader<Version = V>>(
        reader: &mut R,
        records: impl IntoIterator<Item = &'r RecordId>,
    ) -> Result<Self> {
        let (mut ids, mut by_collection) = (Vec::new(), BTreeMap::<&Collection, Vec<DocumentId>>::new());
        for record in records {
            match record {
                RecordId::Memory(id) => ids.push(*id),
                RecordId::Document { collection, id } => by_collection.entry(collection).or_default().push(id.clone()),
            }
        }
        let memories = match ids.is_empty() {
            true => HashMap::new(),
            false => reader.memories(&ids).await?,
        };
        let memories = memories.into_iter().filter_map(|(id, found)| Some((id, found.ok()?))).collect();
        let mut documents = HashMap::new();
        for (collection, ids) in by_collection {
            let found = reader.documents(collection, &ids).await?;
            documents.extend(found.into_iter().flatten().map(|found| ((&found.record).into(), found)));
        }
        Ok(Self { memories, documents })
    }

    /// Returns the bytes of the records.
    fn size(&self) -> usize {
        let memories = self.memories.values().map(|found| found.record.size());
        memories.chain(self.documents.values().map(|found| found.record.size())).sum()
    }

    fn found(&self, record: &RecordId) -> Option<EmbedRecord<'_, V>> {
        match record {
            RecordId::Memory(id) => self.memories.get(id).map(EmbedRecord::Memory),
            RecordId::Document { .. } => self.documents.get(record).map(EmbedRecord::Document),
        }
    }
}

fn check_count(count: usize) -> Result<()> {
    match count <= MAX_VECTORS {
        true => Ok(()),
        false => Err(Error::too_large(format!("{count} vectors; at most {MAX_VECTORS} go in one call"))),
    }
}

/// Returns whether words answer a question for which the model can't be used.
fn gives_way(meaning: &Meaning, error: &Error) -> bool {
    match meaning {
        Meaning::Given(_) => false,
        // Also if the model's name is not valid.
        Meaning::Made { or_words, .. } => {
            error.kind() == ErrorKind::InvalidInput || *or_words && is_of_namespace(error)
        }
    }
}

/// Returns whether the error means that the namespace has no vectors of the model.
fn is_of_namespace(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::SchemaMismatch | ErrorKind::Unsupported)
}

/// Returns the model that a question is compared by, which must be the namespace's.
fn asked_model(model: Option<VectorModel>, meaning: &Meaning) -> Result<VectorModel> {
    match meaning {
        Meaning::Given(vector) => {
            let message = "the namespace has no embedding model yet: embed its records first";
            let model = model.ok_or_else(|| Error::new(ErrorKind::SchemaMismatch, message))?;
            model.check(vector)?;
            Ok(model)
        }
        // Before the first record is embedded, no record has a vector of any model.
        Meaning::Made { embedder, .. } => {
            let asked = embedder.vector_model()?;
            match model {
                Some(model) if !model.is_same(&asked) => Err(asked.is_another()),
                model => Ok(model.unwrap_or(asked)),
            }
        }
    }
}
