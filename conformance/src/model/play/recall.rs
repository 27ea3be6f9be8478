//! Recall: which records are hits, and what the answer tells about the scope.

use std::collections::BTreeSet;

use memory_core::{DocumentQuery, Kind, MAX_LIMIT, QueryBuilder, Recall, Recalled, Result, Vector};
use serde::Serialize;

use super::embed::vector;
use super::{Asked, Sides, Step, json, same};
use crate::fixture::collection;
use crate::model::naive::{Scope, Wanted};

/// Up to this many records with the word are surely hits, and so are this many with a vector (R4, M3).
const CANDIDATES: usize = 200;
/// An answer may be incomplete only if the records have more bytes than this, which is less than the limit of R5.
const MAX_BYTES: usize = 8 << 20;

/// The answer of an engine.
#[derive(Debug)]
struct Told {
    /// The hits as JSON, with their scores.
    hits: Vec<(f64, String)>,
    examined: usize,
    complete: bool,
    unembedded: Option<usize>,
}

impl Sides {
    /// Asks by a word, a vector, or both.
    pub(super) async fn recall(&self, handle: usize, asked: &Asked<'_>, word: &str, number: Option<u8>) -> Step {
        let vector = number.filter(|_| self.keeps_vectors()).map(|number| vector(number, 1));
        let has_vector = vector.is_some();
        let scope = match asked {
            Asked::Ledger { question, excluded } => self.model.scope_of_memories(question, excluded, word),
            Asked::Documents { name, ask } => self.model.scope_of_documents(&collection(name), ask, word),
        };
        let limit = asked.ask().limit;
        let told = async |handle, limit| match asked {
            Asked::Ledger { question, excluded } => {
                let recall = recall(word, question.build(excluded).limit(limit), vector.clone())?;
                Ok(Told::new(self.engine(handle).recall(&recall).await?))
            }
            Asked::Documents { name, ask } => {
                let query = ask.build(DocumentQuery::builder(collection(name))).limit(limit);
                let recall = recall(word, query, vector.clone())?;
                Ok(Told::new(self.documents(handle).recall(&recall).await?))
            }
        };
        let (found, scope) = match (told(handle, limit).await, scope) {
            (Ok(found), Ok(scope)) => (found, scope),
            (engine, model) => return same("recall", engine.map(drop), model.map(drop)),
        };
        compare(&found, &scope, limit, word, has_vector)?;
        if found.hits.len() < limit || limit == MAX_LIMIT {
            return Ok(());
        }
        // The best hits are the first of all, and all hits are among these.
        let all = told(handle + 1, MAX_LIMIT).await.map_err(|error| format!("recall: it is refused: {error:?}"))?;
        compare(&all, &scope, MAX_LIMIT, word, has_vector)?;
        match all.hits.starts_with(&found.hits) {
            true => Ok(()),
            false => Err(format!("recall: {found:#?} are not the first of {all:#?}")),
        }
    }
}

impl Told {
    fn new(Recalled { hits, examined, complete, unembedded, .. }: Recalled<impl Serialize>) -> Self {
        let hits = hits.into_iter().map(|hit| (hit.score, json(&hit.record))).collect();
        Self { hits, examined, complete, unembedded }
    }
}

fn recall<K: Kind>(word: &str, query: QueryBuilder<K>, vector: Option<Vector>) -> Result<Recall<K>> {
    let recall = Recall::new(word, query.build()?)?;
    Ok(vector.into_iter().fold(recall, Recall::by_vector))
}

/// Compares an answer with the records of the scope.
fn compare(told: &Told, scope: &Scope, limit: usize, word: &str, has_vector: bool) -> Step {
    let differs = |what: &str| Err(format!("recall: {what}: {told:#?}"));
    let asks_nothing = limit == 0 || word.is_empty() && !has_vector;
    let (examined, unembedded) = if asks_nothing { (0, 0) } else { (scope.count, scope.unembedded) };
    if told.examined != examined || told.unembedded != has_vector.then_some(unembedded) {
        return differs(&format!("there are {examined} records to examine, {unembedded} of them without a vector"));
    }
    let hits: BTreeSet<&str> = told.hits.iter().map(|(_, json)| json.as_str()).collect();
    if hits.len() != told.hits.len() || hits.len() > limit {
        return differs(&format!("a record comes twice, or there are more than {limit}"));
    }
    if !told.hits.is_sorted_by(|one, next| one.0 >= next.0) {
        return differs("the scores are not in order");
    }
    let wanted = |json: &&str| scope.wanted.iter().find(|wanted| wanted.json == **json);
    // Besides the records that have the word, there may be hits that only have neighbours with it.
    let may_be = |wanted: &Wanted| scope.holders > 0 && !word.is_empty() || has_vector && wanted.has_vector;
    if let Some(stranger) = hits.iter().find(|hit| !wanted(hit).is_some_and(may_be)) {
        return differs(&format!("{stranger} is no hit"));
    }
    let bytes: usize = scope.wanted.iter().map(|wanted| wanted.json.len()).sum();
    if !told.complete {
        return if bytes > MAX_BYTES { Ok(()) } else { differs("it is not complete") };
    }
    if asks_nothing || hits.len() == limit {
        return Ok(());
    }
    let with_vectors = scope.wanted.iter().filter(|wanted| wanted.has_vector).count();
    let must_be = |wanted: &&Wanted| {
        let by_word = !word.is_empty() && wanted.has_word && scope.holders <= CANDIDATES;
        // Without a word, the nearest of all are hits, however many there are.
        let by_vector = has_vector && wanted.has_vector && (word.is_empty() || with_vectors <= CANDIDATES);
        by_word || by_vector
    };
    match scope.wanted.iter().filter(must_be).find(|wanted| !hits.contains(wanted.json.as_str())) {
        Some(lost) => differs(&format!("{} is missing", lost.json)),
        None => Ok(()),
    }
}
