//! The vectors of the reference with one bug.

use std::sync::{Mutex, MutexGuard, PoisonError};

use memory_core::{
    Collection, Document, DocumentId, DocumentWrite, Embedding, Hit, Memory, MemoryId, MemoryPatch, MemoryProvider,
    MemoryRecall, Parts, Precision, Recalled, RecordId, Result, Updated, VectorKeeper, VectorModel,
};

use crate::flaw::Flaw;
use crate::naive::Naive;

/// The vectors that a broken handle remembers.
#[derive(Debug, Default)]
pub(crate) struct Meaning {
    /// Those of records that it has erased.
    erased: Mutex<Vec<Embedding>>,
}

impl Meaning {
    /// Makes a model that of the namespace, apart from the flaw.
    pub(crate) async fn set_model(&self, naive: &Naive, flaw: Flaw, model: &VectorModel) -> Result<()> {
        let before = naive.inner().vector_model().await?;
        let vectors = match flaw {
            Flaw::VectorsOfAnotherModelCount => vectors(naive).await?,
            _ => Vec::new(),
        };
        let place = match flaw {
            Flaw::PlacesOutliveTheModel => place(naive).await?,
            _ => None,
        };
        naive.inner().set_vector_model(model).await?;
        if let Some(place) = place {
            naive.inner().documents().put(place).await?;
        }
        if before.is_some_and(|before| before.width() == model.width()) {
            naive.inner().embed(model, vectors).await?;
        }
        Ok(())
    }

    /// Keeps vectors, apart from the flaw.
    pub(crate) async fn embed(
        &self,
        naive: &Naive,
        flaw: Flaw,
        model: &VectorModel,
        mut embeddings: Vec<Embedding>,
    ) -> Result<Vec<bool>> {
        match flaw {
            Flaw::StaleVectorsAreKept => {
                for embedding in &mut embeddings {
                    if let RecordId::Memory(id) = &embedding.record
                        && let Ok(Some(memory)) = naive.inner().get(*id).await
                    {
                        embedding.revision = memory.revision;
                    }
                }
            }
            Flaw::VectorsAreRounded => {
                for embedding in &mut embeddings {
                    embedding.vector = embedding.vector.kept(Precision::Compact);
                }
            }
            _ => {}
        }
        let names: Vec<_> = embeddings.iter().map(|embedding| embedding.record.clone()).collect();
        let kept = naive.inner().embed(model, embeddings).await?;
        if flaw == Flaw::AVectorIsAnUpdate {
            for (name, _) in names.iter().zip(&kept).filter(|(_, is_kept)| **is_kept) {
                touch(naive, name).await?;
            }
        }
        Ok(kept)
    }

    /// The vectors of records, and those that it should have deleted.
    pub(crate) async fn vectors(&self, naive: &Naive, of: &[RecordId]) -> Result<Vec<Option<Embedding>>> {
        let mut found = naive.inner().vectors(of).await?;
        let erased = locked(&self.erased);
        for (found, record) in found.iter_mut().zip(of).filter(|(found, _)| found.is_none()) {
            *found = erased.iter().find(|embedding| embedding.record == *record).cloned();
        }
        Ok(found)
    }

    /// The vectors before a call that deletes some.
    pub(crate) async fn before(naive: &Naive, flaw: Flaw) -> Result<Vec<Embedding>> {
        match flaw {
            Flaw::VectorOutlivesItsText | Flaw::VectorOutlivesItsRecord => vectors(naive).await,
            _ => Ok(Vec::new()),
        }
    }

    /// Puts the vector of a memory back that an update took.
    pub(crate) async fn updated(
        naive: &Naive,
        flaw: Flaw,
        id: MemoryId,
        before: Vec<Embedding>,
        updated: &Updated,
    ) -> Result<()> {
        let Some(model) = naive.inner().vector_model().await? else { return Ok(()) };
        let mut before = before.into_iter().filter(|embedding| embedding.record == RecordId::Memory(id));
        if let (Flaw::VectorOutlivesItsText, Some(embedding)) = (flaw, before.next()) {
            let embedding = Embedding { revision: updated.revision, ..embedding };
            naive.inner().embed(&model, vec![embedding]).await?;
        }
        Ok(())
    }

    /// Remembers the vectors of erased records.
    pub(crate) fn erased(&self, flaw: Flaw, before: Vec<Embedding>, records: &[RecordId]) {
        if flaw == Flaw::VectorOutlivesItsRecord {
            locked(&self.erased).extend(before.into_iter().filter(|embedding| records.contains(&embedding.record)));
        }
    }

    /// The answer of a recall, apart from the flaw.
    pub(crate) async fn answered(
        naive: &Naive,
        flaw: Flaw,
        recall: &MemoryRecall,
        mut recalled: Recalled<Memory>,
    ) -> Result<Recalled<Memory>> {
        if recalled.unembedded.is_none() {
            return Ok(recalled);
        }
        match flaw {
            Flaw::UnembeddedAreNotCounted => recalled.unembedded = Some(0),
            Flaw::MeaningLooksOutside => {
                let is_outside = |memory: &Memory| !recall.query().spaces().matches(memory.space_id.as_str());
                let embedded = vectors(naive).await?;
                let has_vector = |memory: &Memory| embedded.iter().any(|one| one.record == RecordId::Memory(memory.id));
                let outside = naive.everything().await?;
                let outside = outside.into_iter().filter(|memory| is_outside(memory) && has_vector(memory));
                let (score, parts) = (0.0, Parts::default());
                recalled.hits.extend(outside.map(|record| Hit {
                    score,
                    parts,
                    record,
                    before: Vec::new(),
                    after: Vec::new(),
                    terms: None,
                }));
            }
            _ => {}
        }
        Ok(recalled)
    }
}

/// How far the keepers of vectors are.
async fn place(naive: &Naive) -> Result<Option<DocumentWrite>> {
    let (collection, id) = (Collection::parse(VectorKeeper::COLLECTION)?, DocumentId::parse("feed")?);
    let place = naive.inner().documents().get(&collection, &id).await?;
    let write = |place: Document| {
        DocumentWrite::new(place.collection, place.space_id, place.content, place.created_at).with_id(place.id)
    };
    Ok(place.map(write))
}

/// The vectors of all memories.
async fn vectors(naive: &Naive) -> Result<Vec<Embedding>> {
    let names: Vec<_> = naive.everything().await?.into_iter().map(|memory| RecordId::Memory(memory.id)).collect();
    let mut found = Vec::new();
    for names in names.chunks(memory_core::MAX_VECTORS) {
        found.extend(naive.inner().vectors(names).await?.into_iter().flatten());
    }
    Ok(found)
}

/// Rewrites a memory unchanged.
async fn touch(naive: &Naive, record: &RecordId) -> Result<()> {
    let RecordId::Memory(id) = record else { return Ok(()) };
    if let Some(memory) = naive.inner().get(*id).await? {
        naive.inner().update(*id, MemoryPatch::new().with_status(memory.status)).await?;
    }
    Ok(())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
