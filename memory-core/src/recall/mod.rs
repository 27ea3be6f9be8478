//! Recall: ranks the records of a scope by how well they answer a question, by words or by meaning (R1 to R6, M3).

mod answer;
mod digest;
mod language;
mod meaning;
mod score;
mod weights;

use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::Arc;

use crate::query::{Documents, Kind, Ledger, MAX_TEXT, MAX_WORDS, Order, Query};
use crate::{Embedder, Error, Result, Vector, VectorModel, words};
use language::{Terms, pair};

pub use answer::{Explained, Hit, Parts, Recalled, Term};
pub(crate) use digest::{Digest, Digester};
pub use language::Language;
pub(crate) use score::{Ranking, rank};
pub use weights::Weights;

/// A question about the ledger.
///
/// ```
/// use memory_core::{MemoryQuery, Recall};
///
/// let scope = MemoryQuery::builder().under("guild-1").limit(10).build()?;
/// let recall = Recall::new("When did Caroline go to the support group?", scope)?;
/// assert_eq!(recall.query().limit(), 10);
/// # Ok::<(), memory_core::Error>(())
/// ```
pub type MemoryRecall = Recall<Ledger>;

/// A question about one collection of documents.
pub type DocumentRecall = Recall<Documents>;

/// A question within the spaces of a query. Hits also satisfy the query's other conditions (statuses, times, filter);
/// its limit is the maximum number of hits.
#[derive(Debug, Clone)]
pub struct Recall<K> {
    pub(crate) query: Query<K>,
    pub(crate) question: String,
    /// The distinct terms of the question, in byte order; empty until [`read_in`](Self::read_in) is called.
    pub(crate) terms: Vec<String>,
    pub(crate) options: RecallOptions,
    pub(crate) meaning: Option<Meaning>,
    /// The model whose vectors are compared, if any are.
    pub(crate) model: Option<VectorModel>,
}

/// The source of a question's vector.
#[derive(Debug, Clone)]
pub(crate) enum Meaning {
    Given(Vector),
    /// `or_words`: answer by words if the namespace has another model, or its engine keeps no vectors.
    Made {
        embedder: Arc<dyn Embedder>,
        or_words: bool,
    },
}

/// How a question is parsed and hits are ranked.
#[derive(Debug, Clone, PartialEq)]
pub struct RecallOptions {
    /// The language of the question and the records; `None` for that of the namespace.
    pub language: Option<Language>,
    /// What groups records whose neighbours count.
    pub container: Container,
    /// The metadata key that names a record's speaker; `speaker` by default.
    pub speaker: String,
    /// The weights of the ranking.
    pub weights: Weights,
    /// How many records before and after a hit in its container are returned with it; at most [`MAX_NEIGHBOURS`].
    pub neighbours: usize,
    /// Whether to report the matched terms and the divisors of the scores.
    pub explain: bool,
}

/// What groups a record with others in the order of time: a conversation, a room, a file (R3).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Container {
    /// The parent of the record's space; the space itself if it has no parent.
    #[default]
    Parent,
    /// The first N segments of the space, N at least 1; the whole space if it has fewer.
    Depth(usize),
    /// The text of this metadata key; the parent space if it is missing.
    Metadata(String),
}

impl FromStr for Container {
    type Err = Error;

    /// Parses `parent`, `depth:N` or `metadata:KEY`; `InvalidInput` for any other text.
    fn from_str(text: &str) -> Result<Self> {
        let container = match text.split_once(':') {
            None if text == "parent" => Some(Self::Parent),
            Some(("depth", depth)) => depth.parse().ok().filter(|depth| *depth > 0).map(Self::Depth),
            Some(("metadata", key)) => Some(Self::Metadata(key.to_owned())),
            _ => None,
        };
        container.ok_or_else(|| Error::invalid("the container must be parent, depth:N with N from 1, or metadata:KEY"))
    }
}

/// Maximum number of records that come with a hit on each side.
pub const MAX_NEIGHBOURS: usize = 10;

impl Default for RecallOptions {
    fn default() -> Self {
        Self {
            language: None,
            container: Container::default(),
            speaker: "speaker".to_owned(),
            weights: Weights::default(),
            neighbours: 0,
            explain: false,
        }
    }
}

impl<K: Kind> Recall<K> {
    /// Asks a question within the spaces of a query, with default options: see [`Recall::with`].
    pub fn new(question: &str, query: Query<K>) -> Result<Self> {
        Self::with(question, query, RecallOptions::default())
    }

    /// Asks a question within the spaces of a query. A question without a term finds nothing, unless
    /// [`by_vector`](Self::by_vector) or [`by_meaning`](Self::by_meaning) is called.
    ///
    /// `InvalidInput` if the query has a text, a cursor, an offset or the order oldest first, or if an option is out of
    /// its range; `TooLarge` if the question has more than [`MAX_TEXT`] bytes or [`MAX_WORDS`] distinct words and pairs
    /// of ideographs.
    pub fn with(question: &str, query: Query<K>, options: RecallOptions) -> Result<Self> {
        if query.text.is_some() || query.cursor.is_some() || query.offset > 0 || query.order != Order::default() {
            return Err(Error::invalid("a question can't be combined with text, oldest first, a cursor or an offset"));
        }
        options.check()?;
        if question.len() > MAX_TEXT {
            let length = question.len();
            return Err(Error::too_large(format!("a question of {length} bytes; at most {MAX_TEXT} are allowed")));
        }
        let count = language::words_of_question(question).len();
        if count > MAX_WORDS {
            return Err(Error::too_large(format!("a question of {count} words; at most {MAX_WORDS} are allowed")));
        }
        let (terms, meaning, model) = Default::default();
        Ok(Self { query, question: question.to_owned(), terms, options, meaning, model })
    }

    /// Also ranks by this vector, which the namespace's model must have made (M3). If the question has no term, the
    /// vector alone ranks, and every record of the scope that has a vector is a candidate.
    ///
    /// The recall fails with `SchemaMismatch` if the namespace has no model, `InvalidInput` for another width, and
    /// `Unsupported` if the engine keeps no vectors. Replaces an earlier `by_vector` or `by_meaning`.
    #[must_use]
    pub fn by_vector(mut self, vector: Vector) -> Self {
        self.meaning = Some(Meaning::Given(vector));
        self
    }

    /// Also ranks by the meaning of the question to this model, which must be the namespace's (M3, M4). The vector is
    /// made of the question without the names of speakers in the scope. If the model gives none in time, words alone
    /// answer, and [`Recalled::unembedded`] is `None`.
    ///
    /// The model has 5 seconds, or half of the remaining time if that is less. If the question has no term, a failure
    /// of the model fails the recall. `SchemaMismatch` if the namespace has another model, `Unsupported` if the engine
    /// keeps no vectors. Replaces an earlier `by_vector` or `by_meaning`.
    #[must_use]
    pub fn by_meaning(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.meaning = Some(Meaning::Made { embedder, or_words: false });
        self
    }

    /// Like [`by_meaning`](Self::by_meaning), but answers by words alone if the namespace has another model or the
    /// engine keeps no vectors.
    #[must_use]
    pub fn by_meaning_or_words(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.meaning = Some(Meaning::Made { embedder, or_words: true });
        self
    }

    /// Returns the question as it was given.
    pub fn question(&self) -> &str {
        &self.question
    }

    /// Returns the query: scope, conditions and limit.
    pub fn query(&self) -> &Query<K> {
        &self.query
    }

    /// Returns how the question is parsed and hits are ranked.
    pub fn options(&self) -> &RecallOptions {
        &self.options
    }

    /// Returns whether ranking needs more of a record than its head and its vector.
    pub(crate) fn looks_into_records(&self) -> bool {
        let has_key = matches!(self.options.container, Container::Metadata(_));
        !self.terms.is_empty() || has_key || self.query.filter.is_some()
    }

    /// Parses the question in its own language, or else in that of the namespace.
    pub(crate) fn read_in(&self, language: Language) -> Self
    where
        Query<K>: Clone,
    {
        let language = self.options.language.unwrap_or(language);
        let options = RecallOptions { language: Some(language), ..self.options.clone() };
        let terms = Terms::of_language(language).of_question(&self.question);
        let (query, question) = (self.query.clone(), self.question.clone());
        Self { query, question, terms, options, meaning: self.meaning.clone(), model: None }
    }

    /// Returns the question without these of its terms, which are names; unchanged if no other term would be left.
    pub(crate) fn without(&self, names: &BTreeSet<u16>) -> String {
        let terms = Terms::of_language(self.options.language.unwrap_or_default());
        let words: Vec<_> = words::found(&self.question).collect();
        let is_name = |term: &str| {
            let number = self.terms.binary_search_by(|asked| asked.as_str().cmp(term));
            number.is_ok_and(|number| names.contains(&(number as u16)))
        };
        // Two adjacent ideographs or kana form one term.
        let names_with = |one: &words::Word<'_>, next: &words::Word<'_>| {
            let is_pair = one.end() == next.start && one.is_character() && next.is_character();
            is_pair && is_name(&pair(one.text, next.text))
        };
        let (mut left, mut end, mut is_blank, mut lower) = (String::new(), 0, true, String::new());
        for (place, word) in words.iter().enumerate() {
            word.lower_into(&mut lower);
            let Some(term) = terms.of(&lower) else { continue };
            let before = place.checked_sub(1).and_then(|place| words.get(place));
            let is_in_name = is_name(&term)
                || before.is_some_and(|before| names_with(before, word))
                || words.get(place + 1).is_some_and(|next| names_with(word, next));
            if is_in_name {
                left.push_str(&self.question[end..word.start]);
                end = word.end();
            } else {
                is_blank = false;
            }
        }
        left.push_str(&self.question[end..]);
        if is_blank { self.question.clone() } else { left }
    }
}

impl RecallOptions {
    fn check(&self) -> Result<()> {
        if self.neighbours > MAX_NEIGHBOURS {
            let count = self.neighbours;
            return Err(Error::invalid(format!("{count} neighbours; at most {MAX_NEIGHBOURS} are allowed")));
        }
        if self.container == Container::Depth(0) {
            return Err(Error::invalid("a container must have at least one segment of the space"));
        }
        self.weights.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_read() {
        for (text, expected) in [
            ("parent", Container::Parent),
            ("depth:1", Container::Depth(1)),
            ("depth:3", Container::Depth(3)),
            ("metadata:room:a", Container::Metadata("room:a".to_owned())),
        ] {
            assert_eq!(text.parse::<Container>().expect(text), expected);
        }
        for text in ["", "parents", "depth", "depth:0", "depth:-1", "depth:x", "parent:a", "metadata"] {
            assert_eq!(text.parse::<Container>().expect_err(text).kind(), crate::ErrorKind::InvalidInput);
        }
    }
}
