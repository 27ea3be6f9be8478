//! Vectors beside records, and what is asked by them (M1 to M4).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::SemaphorePermit;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::living::LivingWork;
use super::{MAX_LIGHT_EXAMINED, Open, Shared, ended};
use crate::engine::recall::{self, Gathered, Recallable};
use crate::engine::session::{Embed, EmbedRecord, Found, Reader, Writer, no_vectors};
use crate::engine::watch::Watching;
use crate::engine::{Access, Engine};
use crate::recall::Meaning;
use crate::{
    Collection, Document, DocumentId, Embedder, Embedding, Error, ErrorKind, Kind, MAX_VECTORS, Memory, MemoryId,
    Outcome, Recall, Recalled, RecordId, Result, Revision, Vector, VectorModel,
};

/// How long a question waits for its vector; then words alone answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many records are read at once of those that get a vector.
const READ: usize = 64;

impl<E: Engine> Open<E> {
    /// The model of the namespace.
    pub(super) async fn vector_model(&self) -> Result<Option<VectorModel>> {
        if !E::VECTORS {
            return Ok(None);
        }
        let ask = |_| self.engine.vector_model();
        let kept = self.retry().run(|error| self.engine.is_temporary(error), ask).await?;
        kept.as_deref().map(VectorModel::parse).transpose()
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
        let kept = kept.filter(|kept| kept.is_same(model)).ok_or_else(|| other_model(model))?;
        for embedding in &embeddings {
            kept.check(&embedding.vector)?;
        }
        let (mut done, given) = (Vec::with_capacity(embeddings.len()), Arc::new((kept, embeddings)));
        for first in (0..given.1.len()).step_by(READ) {
            let slice = Slice { given: Arc::clone(&given), first };
            let work: LivingWork<E::Session, _, _> = |writer, slice| Box::pin(embed(writer, slice));
            let attempt = |_| self.in_session(Access::Write.into(), self.until(), Arc::new(slice.clone()), work);
            // To keep a vector again changes nothing.
            let kept = self.retry().repeatable().run(|error| self.engine.is_temporary(error), attempt).await;
            done.extend(kept.map_err(|error| if first > 0 { error.after(Outcome::Unknown) } else { error })?);
        }
        Ok(done)
    }

    pub(super) async fn vectors(&self, of: &[RecordId]) -> Result<Vec<Option<Embedding>>> {
        check_count(of.len())?;
        let Some(model) = self.vector_model().await? else { return Ok(vec![None; of.len()]) };
        let mut all = Vec::with_capacity(of.len());
        for some in of.chunks(READ) {
            let asked = (model.clone(), some.to_vec());
            let work: LivingWork<E::Session, _, _> = |reader, asked| Box::pin(vectors(reader, asked));
            all.extend(self.run(Access::ReadLatest, asked, work).await?);
        }
        Ok(all)
    }
}

impl<E: Engine> Shared<E> {
    /// What answers a question.
    pub(super) async fn recall<K>(&self, open: &Arc<Open<E>>, recall: &Recall<K>) -> Result<Recalled<K::Record>>
    where
        K: Recallable,
        K::Record: Clone + 'static,
    {
        let mut recall = recall.read_in(open.settings.language);
        if let Some(meaning) = &recall.meaning {
            if !E::VECTORS {
                return Err(no_vectors());
            }
            let model = open.vector_model().await?;
            recall.model = Some(asked_model(model, meaning)?);
        }
        let (view, is_heavy) = (Access::Read.into(), recall.query.is_heavy());
        let Some(Meaning::Made(embedder)) = recall.meaning.clone() else {
            let work: LivingWork<E::Session, _, _> = |reader, asked| Box::pin(recall::answer(reader, asked));
            return self.look(open, view, &recall, is_heavy, true, work).await;
        };
        self.recall_by(open, recall, embedder.as_ref()).await
    }

    /// Looks at the scope, asks the model for the vector of the question, and reads what answers: nothing of the storage is held meanwhile.
    async fn recall_by<K>(
        &self,
        open: &Arc<Open<E>>,
        recall: Recall<K>,
        embedder: &dyn Embedder,
    ) -> Result<Recalled<K::Record>>
    where
        K: Recallable,
        K::Record: Clone + 'static,
    {
        let (until, view, mut is_heavy) = (open.until(), Access::Read.into(), recall.query.is_heavy());
        let work: LivingWork<E::Session, _, Gathered> = |reader, asked| Box::pin(recall::gather(reader, asked));
        let (gathered, _waiting) = loop {
            let waiting = if is_heavy { Some(self.wait_for_model().await?) } else { None };
            let watching = Watching::new(until, (!is_heavy).then_some(MAX_LIGHT_EXAMINED));
            let gathered = self.look_once(open, view, &recall, &watching, true, work).await;
            if !watching.is_spent() {
                break (gathered?, waiting);
            }
            is_heavy = true;
        };
        let vector = match gathered.is_empty() {
            true => None,
            false => vector_of(&recall, &gathered.names, embedder, until).await?,
        };
        let recall = Arc::new(recall);
        let ranked = {
            let recall = Arc::clone(&recall);
            ended(spawn_blocking(move || Ok(gathered.ranked(&recall, vector.as_ref()))).await)?
        };
        let asked = (Recall::clone(&recall), Arc::new(ranked));
        let work: LivingWork<E::Session, _, _> = |reader, asked| Box::pin(recall::answer_ranked(reader, asked));
        self.look(open, view, &asked, is_heavy, true, work).await
    }

    async fn wait_for_model(&self) -> Result<SemaphorePermit<'_>> {
        let refused =
            |_| Error::new(ErrorKind::Unavailable, "too many recalls wait for the model: try again later").retryable();
        let place = timeout(self.settings.deadline / 2, self.waiting_for_models.acquire()).await.map_err(refused)?;
        // Nobody closes it.
        place.map_err(|_| Error::new(ErrorKind::Closed, "the provider is closed"))
    }
}

/// The vector of a question; `None` where words alone answer it.
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
    let late = |_| Err(Error::new(ErrorKind::Timeout, "the embedder made no vector of the question in good time"));
    match timeout(patience, embedder.vectors(&[question])).await.unwrap_or_else(late) {
        Ok(mut made) => Ok(made.pop()),
        Err(error) if recall.terms.is_empty() => Err(error),
        Err(error) => {
            tracing::warn!(%error, "a question is answered by its words alone");
            Ok(None)
        }
    }
}

/// Vectors to keep, from one on.
#[derive(Clone)]
struct Slice {
    given: Arc<(VectorModel, Vec<Embedding>)>,
    first: usize,
}

/// Keeps the next of them, each that is of the present revision of its record.
async fn embed<W: Writer>(writer: &mut W, slice: &Slice) -> Result<Vec<bool>> {
    let (model, embeddings) = &*slice.given;
    let embeddings = &embeddings[slice.first..embeddings.len().min(slice.first + READ)];
    let present = Present::of(writer, embeddings.iter().map(|embedding| &embedding.record)).await?;
    let (mut places, mut embeds) = (Vec::new(), Vec::new());
    for (place, Embedding { record, revision, vector }) in embeddings.iter().enumerate() {
        let found = match record {
            RecordId::Memory(id) => {
                present.memories.get(id).map(|found| (EmbedRecord::Memory(found), found.record.revision))
            }
            RecordId::Document { .. } => {
                present.documents.get(record).map(|found| (EmbedRecord::Document(found), found.record.revision))
            }
        };
        if let Some((found, _)) = found.filter(|(_, present)| present == revision) {
            places.push(place);
            embeds.push(Embed { found, vector: model.seal(vector) });
        }
    }
    let mut done = vec![false; embeddings.len()];
    if !embeds.is_empty() {
        let kept = writer.embed(&embeds).await?;
        places.into_iter().zip(kept).for_each(|(place, is_kept)| done[place] = is_kept);
    }
    Ok(done)
}

async fn vectors<R: Reader>(reader: &mut R, asked: &(VectorModel, Vec<RecordId>)) -> Result<Vec<Option<Embedding>>> {
    let (model, of) = asked;
    // An engine may read each of these at another time: a vector is of the revision that its record had before and behind.
    let before = Present::of(reader, of).await?;
    let kept: HashMap<_, _> = reader.vectors(of).await?.into_iter().collect();
    let behind = Present::of(reader, of.iter().filter(|record| kept.contains_key(record))).await?;
    let embedding = |record: &RecordId| {
        let vector: Vector = model.unseal(kept.get(record)?)?;
        let revision = behind.revision(record).filter(|revision| before.revision(record) == Some(*revision))?;
        Some(Embedding { record: record.clone(), revision, vector })
    };
    Ok(of.iter().map(embedding).collect())
}

/// Records that are there, by their names.
struct Present<V> {
    memories: HashMap<MemoryId, Found<Memory, V>>,
    documents: HashMap<RecordId, Found<Document, V>>,
}

impl<V> Present<V> {
    /// Those of these records that are there and can be read.
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

    fn revision(&self, record: &RecordId) -> Option<Revision> {
        match record {
            RecordId::Memory(id) => self.memories.get(id).map(|found| found.record.revision),
            RecordId::Document { .. } => self.documents.get(record).map(|found| found.record.revision),
        }
    }
}

fn check_count(count: usize) -> Result<()> {
    match count <= MAX_VECTORS {
        true => Ok(()),
        false => Err(Error::too_large(format!("{count} vectors; at most {MAX_VECTORS} go in one call"))),
    }
}

/// The model by which a question is asked, which is that of the namespace.
fn asked_model(model: Option<VectorModel>, meaning: &Meaning) -> Result<VectorModel> {
    match meaning {
        Meaning::Given(vector) => {
            let message = "the namespace has no model of vectors yet: embed its records first";
            let model = model.ok_or_else(|| Error::new(ErrorKind::SchemaMismatch, message))?;
            model.check(vector)?;
            Ok(model)
        }
        // Before the first record is embedded nothing has a vector, of whatever model.
        Meaning::Made(embedder) => {
            let asked = embedder.vector_model()?;
            match model {
                Some(model) if !model.is_same(&asked) => Err(other_model(&asked)),
                model => Ok(model.unwrap_or(asked)),
            }
        }
    }
}

fn other_model(model: &VectorModel) -> Error {
    let name = model.name();
    let message = format!("the vectors of the namespace are not of {name}: make it the model of the namespace first");
    Error::new(ErrorKind::SchemaMismatch, message)
}
