//! What a question found, as JSON: for the server and the command line.

use memory_core::{Document, Explained, Hit, Memory, Parts, Recalled, Term};
use serde::Serialize;
use utoipa::ToSchema;

use super::wire::documents::DocumentBody;
use super::wire::memories::MemoryBody;

/// The answer to a question.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RecalledBody {
    /// The hits, best first.
    hits: Vec<HitBody>,
    /// The number of records that were examined.
    examined: usize,
    /// Whether the whole scope was examined, and all hits with their neighbours fit. If not, part of the scope, hits or neighbours are left out.
    complete: bool,
    /// The number of examined records without a vector. Absent if the search used words alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    unembedded: Option<usize>,
    /// The divisors of the parts, with `explain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    explained: Option<ExplainedBody>,
}

/// A record that answers the question.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HitBody {
    /// The sum of the parts.
    score: f64,
    parts: PartsBody,
    #[serde(flatten)]
    record: RecordBody,
    /// Up to `neighbours` records before it in its container, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    before: Vec<RecordBody>,
    /// Up to `neighbours` records after it in its container, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    after: Vec<RecordBody>,
    /// The terms of the question that it holds, with `explain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    terms: Option<Vec<TermBody>>,
}

/// A memory, or a document.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RecordBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<MemoryBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<DocumentBody>,
}

/// The contribution of each property of a record to its score.
#[derive(Debug, Serialize, ToSchema)]
struct PartsBody {
    /// From the terms that the record itself holds.
    words: f64,
    /// From the terms of the record and its neighbours in the container.
    neighbours: f64,
    /// From the terms of its container.
    container: f64,
    /// From the meaning of the record and its neighbours.
    meaning: f64,
    /// A deduction, 0 or negative, if a text of the record ends with a question mark.
    question: f64,
    /// A bonus if its speaker is the only one that the question names.
    speaker: f64,
}

/// A term of the question that a record holds.
#[derive(Debug, Serialize, ToSchema)]
struct TermBody {
    term: String,
    /// How rare it is within the scope.
    idf: f64,
    /// How often the record holds it.
    count: u32,
}

/// The divisors of the parts of the scores: the best value of each part among all scored records.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ExplainedBody {
    records: usize,
    average_length: f64,
    words: f64,
    neighbours: f64,
    together: f64,
    container: f64,
    total: f64,
    least_cosine: f64,
    greatest_cosine: f64,
    together_with_meaning: f64,
}

impl From<Memory> for RecordBody {
    fn from(memory: Memory) -> Self {
        Self { memory: Some(memory.into()), document: None }
    }
}

impl From<Document> for RecordBody {
    fn from(document: Document) -> Self {
        Self { memory: None, document: Some(document.into()) }
    }
}

impl<T: Into<RecordBody>> From<Recalled<T>> for RecalledBody {
    fn from(Recalled { hits, examined, complete, unembedded, explained }: Recalled<T>) -> Self {
        Self {
            hits: hits.into_iter().map(HitBody::from).collect(),
            examined,
            complete,
            unembedded,
            explained: explained.map(ExplainedBody::from),
        }
    }
}

impl<T: Into<RecordBody>> From<Hit<T>> for HitBody {
    fn from(Hit { score, parts, record, before, after, terms }: Hit<T>) -> Self {
        let Parts { words, neighbours, container, meaning, question, speaker } = parts;
        Self {
            score,
            parts: PartsBody { words, neighbours, container, meaning, question, speaker },
            record: record.into(),
            before: before.into_iter().map(T::into).collect(),
            after: after.into_iter().map(T::into).collect(),
            terms: terms.map(|terms| terms.into_iter().map(TermBody::from).collect()),
        }
    }
}

impl From<Term> for TermBody {
    fn from(Term { term, idf, count }: Term) -> Self {
        Self { term, idf, count }
    }
}

impl From<Explained> for ExplainedBody {
    fn from(explained: Explained) -> Self {
        let Explained { records, average_length, words, neighbours, together, container, total, .. } = explained;
        let Explained { least_cosine, greatest_cosine, together_with_meaning, .. } = explained;
        Self {
            records,
            average_length,
            words,
            neighbours,
            together,
            container,
            total,
            least_cosine,
            greatest_cosine,
            together_with_meaning,
        }
    }
}
