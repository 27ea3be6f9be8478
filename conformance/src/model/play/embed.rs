//! Vectors beside records.

use memory_core::{Embedding, Precision, RecordId, Revision, Vector, VectorModel};

use super::{EVERYTHING, Sides, Step, same};
use crate::model::op::Whose;

impl Sides {
    pub(super) fn keeps_vectors(&self) -> bool {
        self.stage.harness().keeps_vectors()
    }

    /// Sets the vector model of the namespace.
    pub(super) async fn begin_vectors(&self) -> Step {
        if !self.keeps_vectors() {
            return Ok(());
        }
        same("set_vector_model", self.engine(0).set_vector_model(&vector_model()).await, Ok(()))
    }

    /// Stores vectors beside records, some for a wrong revision, and compares them through the next handle.
    pub(super) async fn embed(&mut self, handle: usize, whose: &[(Whose, bool)], number: u8) -> Step {
        let mut embeddings = Vec::new();
        for ((whose, is_other), place) in whose.iter().zip(0_u8..) {
            let Some(record) = self.record_id(whose) else { continue };
            let present = self.model.revision_of(&record).map_or(1, Revision::get);
            let revision = match (is_other, present) {
                (false, _) => present,
                (true, 1) => 2,
                (true, _) => present - 1,
            };
            let revision = Revision::new(revision).expect("a valid revision");
            embeddings.push(Embedding { record, revision, vector: vector(number, place), texts: None });
        }
        let engine = self.engine(handle).embed(&vector_model(), embeddings.clone()).await;
        let (mut kept, mut names) = (Vec::new(), Vec::new());
        for Embedding { record, revision, vector, .. } in embeddings {
            kept.push(self.model.embed(&record, revision, vector.kept(Precision::Compact).to_bytes()));
            names.push(record);
        }
        same("embed", engine, Ok(kept))?;
        self.vectors(handle + 1, &names).await
    }

    /// Compares all vectors, and checks that there are no others.
    pub(super) async fn compare_vectors(&self) -> Step {
        if !self.keeps_vectors() {
            return Ok(());
        }
        let mut names: Vec<_> = self.model.records().iter().map(|(record, _)| record.id()).collect();
        names.extend(self.model.tombstones().keys().chain(self.model.ever()).cloned());
        names.sort_unstable();
        names.dedup();
        for (number, names) in names.chunks(EVERYTHING).enumerate() {
            self.vectors(number, names).await?;
        }
        Ok(())
    }

    async fn vectors(&self, handle: usize, of: &[RecordId]) -> Step {
        let engine = self.engine(handle).vectors(of).await;
        let shown = |Embedding { record, revision, vector, .. }: Embedding| (record, revision, vector.to_bytes());
        let engine = engine.map(|found| found.into_iter().map(|embedding| embedding.map(shown)).collect());
        let kept = |record: &RecordId| {
            let (revision, vector) = self.model.vector(record)?;
            Some((record.clone(), revision, vector))
        };
        same("vectors", engine, Ok(of.iter().map(kept).collect::<Vec<_>>()))
    }
}

/// A vector with a few possible directions.
pub(super) fn vector(number: u8, place: u8) -> Vector {
    Vector::new(&[1.0, f32::from(number), f32::from(place)]).expect("a direction")
}

fn vector_model() -> VectorModel {
    VectorModel::new("numbers", 3, Precision::Compact).expect("a model")
}
