//! Recall: a question in words, or by what it means, within a scope, answered best first (R1 to R6, M3).

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

/// A question to the ledger.
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

/// A question to one collection of documents.
pub type DocumentRecall = Recall<Documents>;

/// A question in words, within the spaces of a query. What else the query asks for (statuses, times, filter) hits satisfy too, and
/// its limit says how many there are at most.
#[derive(Debug, Clone)]
pub struct Recall<K> {
    pub(crate) query: Query<K>,
    pub(crate) question: String,
    /// The terms of the question, each once, in the order of their bytes; none before a namespace has read it.
    pub(crate) terms: Vec<String>,
    pub(crate) options: RecallOptions,
    pub(crate) meaning: Option<Meaning>,
    /// The embedding model whose vectors count, where one is compared.
    pub(crate) model: Option<VectorModel>,
}

/// Where the vector of a question comes from.
#[derive(Debug, Clone)]
pub(crate) enum Meaning {
    Given(Vector),
    /// Whether words answer where the vectors of the namespace are of another model, or where its engine keeps none.
    Made {
        embedder: Arc<dyn Embedder>,
        or_words: bool,
    },
}

/// How a question is read and ranked.
#[derive(Debug, Clone, PartialEq)]
pub struct RecallOptions {
    /// The language of the question and of the records; that of the namespace where there is none.
    pub language: Option<Language>,
    /// What holds records together.
    pub container: Container,
    /// The key of the metadata that names the speaker of a record; `speaker` by default.
    pub speaker: String,
    /// What counts how much.
    pub weights: Weights,
    /// How many records of its container are given on each side of a hit; at most [`MAX_NEIGHBOURS`].
    pub neighbours: usize,
    /// Whether the terms that matched and the divisors of the scores are told.
    pub explain: bool,
}

/// What holds a record together with others, in the order of time: a conversation, a room, a file (R3).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Container {
    /// The space above that of the record; its own space where there is none above.
    #[default]
    Parent,
    /// So many segments of the space from the beginning, at least one; the whole space where it has fewer.
    Depth(usize),
    /// The text of this key of the metadata; the parent where there is none.
    Metadata(String),
}

impl FromStr for Container {
    type Err = Error;

    /// `parent`, `depth:N` or `metadata:KEY`; else `InvalidInput`.
    fn from_str(text: &str) -> Result<Self> {
        let container = match text.split_once(':') {
            None if text == "parent" => Some(Self::Parent),
            Some(("depth", depth)) => depth.parse().ok().filter(|depth| *depth > 0).map(Self::Depth),
            Some(("metadata", key)) => Some(Self::Metadata(key.to_owned())),
            _ => None,
        };
        container.ok_or_else(|| Error::invalid("a container is parent, depth:N with N from 1 on, or metadata:KEY"))
    }
}

/// The most records that are given on each side of a hit.
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
    /// This question within the spaces of a query: see [`Recall::with`].
    pub fn new(question: &str, query: Query<K>) -> Result<Self> {
        Self::with(question, query, RecallOptions::default())
    }

    /// This question within the spaces of a query, read and ranked as the options say. One without a term finds nothing, unless
    /// [`by_vector`](Self::by_vector) or [`by_meaning`](Self::by_meaning) is called.
    ///
    /// `InvalidInput` when the query has a text, an order, a cursor or an offset of its own, or when an option is out of its range;
    /// `TooLarge` when the question has more than [`MAX_TEXT`] bytes or [`MAX_WORDS`] distinct words and pairs of ideographs.
    pub fn with(question: &str, query: Query<K>, options: RecallOptions) -> Result<Self> {
        if query.text.is_some() || query.cursor.is_some() || query.offset > 0 || query.order != Order::default() {
            return Err(Error::invalid(
                "text, oldest first, cursor and offset do not go with a question, which gives the best first",
            ));
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

    /// Asks also by this vector, which the model of the namespace has made (M3). A question without a term asks by it alone; then hits are
    /// ranked by nothing else, and all records of the scope with a vector are candidates.
    ///
    /// The recall is `SchemaMismatch` where the namespace has no model, `InvalidInput` for another width, `Unsupported` where the engine keeps no
    /// vectors. Takes the place of an earlier `by_vector` or `by_meaning`.
    #[must_use]
    pub fn by_vector(mut self, vector: Vector) -> Self {
        self.meaning = Some(Meaning::Given(vector));
        self
    }

    /// Asks also by what the question means to this model, which is that of the namespace (M3): by the vector of its words, but for the names
    /// of speakers in the scope. Where the model gives none in good time, words alone answer, and [`Recalled::unembedded`] is `None`.
    ///
    /// The model has 5 seconds, or half of the time that is left if that is less. A question without a term fails as the model does.
    /// `SchemaMismatch` where the namespace has another model, `Unsupported` where the engine keeps no vectors. Takes the place of an earlier
    /// `by_vector` or `by_meaning`.
    #[must_use]
    pub fn by_meaning(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.meaning = Some(Meaning::Made { embedder, or_words: false });
        self
    }

    /// The same, but words alone answer also where the namespace has another model, and where the engine keeps no vectors: for who asks for
    /// the best answer that there is.
    #[must_use]
    pub fn by_meaning_or_words(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.meaning = Some(Meaning::Made { embedder, or_words: true });
        self
    }

    /// The question as it was given.
    pub fn question(&self) -> &str {
        &self.question
    }

    /// The scope and the conditions.
    pub fn query(&self) -> &Query<K> {
        &self.query
    }

    /// How it is read and ranked.
    pub fn options(&self) -> &RecallOptions {
        &self.options
    }

    /// Whether more of a record counts than its head and its vector.
    pub(crate) fn looks_into_records(&self) -> bool {
        let has_key = matches!(self.options.container, Container::Metadata(_));
        !self.terms.is_empty() || has_key || self.query.filter.is_some()
    }

    /// The same, read in the language of a namespace unless it has its own.
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

    /// The question without these of its terms, which are names; the whole of it where that leaves no term.
    pub(crate) fn without(&self, names: &BTreeSet<u16>) -> String {
        let terms = Terms::of_language(self.options.language.unwrap_or_default());
        let words: Vec<_> = words::found(&self.question).collect();
        let is_name = |term: &str| {
            let number = self.terms.binary_search_by(|asked| asked.as_str().cmp(term));
            number.is_ok_and(|number| names.contains(&(number as u16)))
        };
        // Of ideographs and kana a pair is a term.
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
            return Err(Error::invalid("a container has at least one segment of the space"));
        }
        self.weights.check()
    }
}
