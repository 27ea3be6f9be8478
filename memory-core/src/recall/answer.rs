//! What a recall answers.

/// What a recall found, best first.
#[derive(Debug, Clone, PartialEq)]
pub struct Recalled<T> {
    /// Ordered by score; what scores the same comes newest first, and then by the bytes of the ids.
    pub hits: Vec<Hit<T>>,
    /// How many records of the scope were looked at.
    pub examined: usize,
    /// Whether all of the scope was looked at and every hit is here. If not, a budget has ended it: these are the best of what was
    /// examined.
    pub complete: bool,
    /// How many of the records that were looked at have no vector of the namespace's model: all of them where none has one. Records without a
    /// text never get one. `None` where words alone were asked: no vector and no model was given, the model made none in time, or the question is
    /// blank (M4).
    pub unembedded: Option<usize>,
    /// By what the parts were divided, if it was asked for.
    pub explained: Option<Explained>,
}

/// A record that answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit<T> {
    /// The sum of the parts, in their order.
    pub score: f64,
    /// What brought it.
    pub parts: Parts,
    /// The memory or the document.
    pub record: T,
    /// The records before it in its container, oldest first, as many as were asked for.
    pub before: Vec<T>,
    /// The records behind it.
    pub after: Vec<T>,
    /// The terms of the question that it holds, if it was asked for.
    pub terms: Option<Vec<Term>>,
}

/// What each property of a record brings to its score.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Parts {
    /// The terms that it holds itself.
    pub words: f64,
    /// The terms that it or its neighbours hold.
    pub neighbours: f64,
    /// The terms that candidates of its container hold.
    pub container: f64,
    /// What it and its neighbours mean.
    pub meaning: f64,
    /// What it loses as a question.
    pub question: f64,
    /// What it gains by its speaker.
    pub speaker: f64,
}

impl Parts {
    /// Their sum, in one order, so that equal parts make equal sums to the bit.
    pub fn sum(&self) -> f64 {
        self.words + self.neighbours + self.container + self.meaning + self.question + self.speaker
    }
}

/// A term of the question.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// The word as it counts: its stem, or a pair of ideographs.
    pub term: String,
    /// How rare it is within the scope.
    pub idf: f64,
    /// How often the record has it.
    pub count: u32,
}

/// By what the scores were divided.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Explained {
    /// How many records the scope has.
    pub records: usize,
    /// How many terms they have on average.
    pub average_length: f64,
    /// The best of all words.
    pub words: f64,
    /// The best of all windows.
    pub neighbours: f64,
    /// The best sum of both.
    pub together: f64,
    /// The best of all containers.
    pub container: f64,
    /// The best sum of all three.
    pub total: f64,
    /// The least cosine of the scope's records, each with its neighbours, and the question; 0 where no vector was compared.
    pub least_cosine: f64,
    /// The greatest of these.
    pub greatest_cosine: f64,
    /// The best sum of words and meaning.
    pub together_with_meaning: f64,
}
