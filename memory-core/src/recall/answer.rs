//! The result of a recall.

/// The hits of a recall, best first.
#[derive(Debug, Clone, PartialEq)]
pub struct Recalled<T> {
    /// The hits by descending score; equal scores come newest first, then by descending bytes of the id.
    pub hits: Vec<Hit<T>>,
    /// Number of records of the scope that were examined.
    pub examined: usize,
    /// Whether the whole scope was examined and every hit is returned. If not, a limit was reached, and these are the
    /// best of the examined records (R5).
    pub complete: bool,
    /// Number of examined records without a vector of the namespace's model. Records without text never get one. `None`
    /// if no vector and no model was given, if the model can't be used or gave no vector in time, or if the question is
    /// blank (M4).
    pub unembedded: Option<usize>,
    /// The divisors of the scores, if [`RecallOptions::explain`](crate::RecallOptions::explain) is set.
    pub explained: Option<Explained>,
}

/// A record that answers the question.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit<T> {
    /// The sum of the parts: see [`Parts::sum`].
    pub score: f64,
    /// The contributions to the score.
    pub parts: Parts,
    /// The memory or the document.
    pub record: T,
    /// The records before it in its container, oldest first, as many as were requested.
    pub before: Vec<T>,
    /// The records after it in its container, oldest first, as many as were requested.
    pub after: Vec<T>,
    /// The terms of the question that it holds, if [`RecallOptions::explain`](crate::RecallOptions::explain) is set.
    pub terms: Option<Vec<Term>>,
}

/// What each property of a record contributes to its score (R4, M3).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Parts {
    /// The terms that the record holds.
    pub words: f64,
    /// The terms that the record or its neighbours hold.
    pub neighbours: f64,
    /// The terms that candidates of its container hold.
    pub container: f64,
    /// The similarity of the record's and its neighbours' vectors to the question's.
    pub meaning: f64,
    /// A deduction, 0 or negative, if a text of the record ends with a question mark.
    pub question: f64,
    /// A bonus if its speaker is the only one that the question names.
    pub speaker: f64,
}

impl Parts {
    /// Adds the parts in a fixed order, so that equal parts have equal sums to the bit.
    pub fn sum(&self) -> f64 {
        self.words + self.neighbours + self.container + self.meaning + self.question + self.speaker
    }
}

/// A term of the question.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// The term as it is compared: a stem, or a pair of ideographs.
    pub term: String,
    /// The inverse document frequency: how rare the term is within the scope.
    pub idf: f64,
    /// How often the record holds it.
    pub count: u32,
}

/// The divisors that scaled the scores.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Explained {
    /// Number of records in the scope.
    pub records: usize,
    /// Average number of terms in a record.
    pub average_length: f64,
    /// The highest sum of a record's own terms.
    pub words: f64,
    /// The highest sum of a record's and its neighbours' terms.
    pub neighbours: f64,
    /// The highest weighted sum of the two.
    pub together: f64,
    /// The highest sum of a container's terms.
    pub container: f64,
    /// The highest weighted sum of all three.
    pub total: f64,
    /// The lowest cosine of the question with a record and its neighbours; 0 if no vector was compared.
    pub least_cosine: f64,
    /// The highest such cosine; 0 if no vector was compared.
    pub greatest_cosine: f64,
    /// The highest weighted sum of words and meaning.
    pub together_with_meaning: f64,
}
