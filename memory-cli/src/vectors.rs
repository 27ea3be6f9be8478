//! Carries vectors along with a copy, an export and an import.

use memory_core::{
    Embedding, ErrorKind, MAX_VECTORS, MemoryProvider, Record, RecordId, Result, Revision, Vector, VectorModel,
};

/// Writes vectors to a target, which takes over their model if it has none.
#[derive(Debug, Default)]
pub(crate) struct VectorWriter {
    /// The model of the vectors, once it is known.
    model: Option<VectorModel>,
    /// The model of the target, if it is the same.
    target: Option<VectorModel>,
    /// How many vectors were written.
    pub(crate) written: u64,
    /// How many were left out, since the target has another model or does not support vectors.
    pub(crate) left_out: u64,
}

impl VectorWriter {
    /// Begins with vectors of this model. It becomes the model of a target without one or, if replacing is allowed, with another one.
    pub(crate) async fn begin(
        &mut self,
        target: &dyn MemoryProvider,
        model: VectorModel,
        replaces: bool,
    ) -> Result<()> {
        let present = target.vector_model().await?;
        self.target = match present {
            Some(present) if present.is_same(&model) => Some(present),
            Some(_) if !replaces => None,
            _ => match target.set_vector_model(&model).await {
                Ok(()) => Some(model.clone()),
                Err(error) if error.kind() == ErrorKind::Unsupported => None,
                Err(error) => return Err(error),
            },
        };
        self.model = Some(model);
        Ok(())
    }

    /// The model of the vectors.
    pub(crate) fn model(&self) -> Option<&VectorModel> {
        self.model.as_ref()
    }

    /// Writes vectors of records that are in the target with the same revisions.
    pub(crate) async fn write(&mut self, target: &dyn MemoryProvider, mut embeddings: Vec<Embedding>) -> Result<()> {
        let Some(model) = &self.target else {
            self.left_out += embeddings.len() as u64;
            return Ok(());
        };
        while !embeddings.is_empty() {
            let rest = embeddings.split_off(embeddings.len().min(MAX_VECTORS));
            let kept = target.embed(model, embeddings).await?;
            self.written += kept.into_iter().filter(|kept| *kept).count() as u64;
            embeddings = rest;
        }
        Ok(())
    }

    /// Carries the vectors of these records, which have these revisions in the target, unless the target has the same vectors.
    pub(crate) async fn carry(
        &mut self,
        source: &dyn MemoryProvider,
        target: &dyn MemoryProvider,
        records: &[(RecordId, Revision)],
    ) -> Result<()> {
        if self.model.is_none() {
            return Ok(());
        }
        for records in records.chunks(MAX_VECTORS) {
            let ids: Vec<_> = records.iter().map(|(id, _)| id.clone()).collect();
            let mut embeddings = Vec::new();
            for (found, (_, revision)) in source.vectors(&ids).await?.into_iter().zip(records) {
                // A vector of another revision is of another text, or its record is still to come.
                embeddings.extend(found.filter(|found| found.revision == *revision));
            }
            if let Some(model) = &self.target
                && !embeddings.is_empty()
            {
                let ids: Vec<_> = embeddings.iter().map(|embedding| embedding.record.clone()).collect();
                let there = target.vectors(&ids).await?;
                let is_there = |(embedding, there): (&Embedding, Option<Embedding>)| {
                    there.is_some_and(|there| there.vector == embedding.vector.kept(model.precision()))
                };
                let mut known = embeddings.iter().zip(there).map(is_there).collect::<Vec<_>>().into_iter();
                embeddings.retain(|_| !known.next().unwrap_or_default());
            }
            self.write(target, embeddings).await?;
        }
        Ok(())
    }
}

/// Describes how many vectors were written and why others were not; it follows the result of the records.
pub(crate) fn told(written: u64, left_out: u64) -> String {
    let mut text = String::new();
    if written > 0 {
        text += &format!(", {written} vectors");
    }
    if left_out > 0 {
        text +=
            &format!(", {left_out} vectors left out, whose model is not that of the target: embed makes them again");
    }
    text
}

/// The vectors of records in their order; `None` for a record whose vector is of another text.
pub(crate) async fn of_records(source: &dyn MemoryProvider, records: &[Record]) -> Result<Vec<Option<Vector>>> {
    let mut vectors = Vec::with_capacity(records.len());
    for records in records.chunks(MAX_VECTORS) {
        let ids: Vec<_> = records.iter().map(Record::id).collect();
        let found = source.vectors(&ids).await?.into_iter().zip(records);
        let of_texts = |(found, record): (Option<Embedding>, &Record)| {
            let is_it = |found: &Embedding| found.revision == record.revision() && found.texts == Some(record.into());
            found.filter(is_it).map(|found| found.vector)
        };
        vectors.extend(found.map(of_texts));
    }
    Ok(vectors)
}
