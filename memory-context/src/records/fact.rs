//! What is known.

use std::fmt;

use memory_core::{Document, DocumentId, Error, Json, JsonObject, MemoryId, Metadata, Result, Timestamp};
use serde::{Deserialize, Serialize};

use super::{EntityId, RoomId};

/// A fact that is not kept yet.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewFact {
    /// Where it became known. It is shown there, and elsewhere as an [`Audience`](super::Audience) allows.
    pub room: RoomId,
    /// Whom it is about.
    pub subject: EntityId,
    /// Who says so, which is somebody else where the agent has drawn a conclusion.
    pub author: EntityId,
    /// What is known.
    pub text: String,
    /// What kind of fact it is, as in `fact`, `opinion` or `status`; at most 64 bytes, empty by default.
    pub kind: String,
    /// What else is known of it; empty by default.
    pub metadata: Metadata,
    /// The message that it was taken from.
    pub source: Option<MemoryId>,
    /// When it became known.
    pub created_at: Timestamp,
}

/// The longest kind of a fact, in bytes.
const MAX_KIND: usize = 64;

impl NewFact {
    /// A fact of no kind that was taken from no message.
    pub fn new(
        room: RoomId,
        subject: EntityId,
        author: EntityId,
        text: impl Into<String>,
        created_at: Timestamp,
    ) -> Self {
        let (text, kind, metadata) = (text.into(), String::new(), Metadata::default());
        Self { room, subject, author, text, kind, metadata, source: None, created_at }
    }

    /// Of a kind.
    #[must_use]
    pub fn with_kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = kind.into();
        self
    }

    /// With what else is known of it.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// Taken from a message.
    #[must_use]
    pub fn with_source(mut self, message: MemoryId) -> Self {
        self.source = Some(message);
        self
    }
}

/// A fact. Its JSON has camelCase names.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Fact {
    /// The id of its document.
    pub id: DocumentId,
    /// Where it became known.
    pub room: RoomId,
    /// Whom it is about.
    pub subject: EntityId,
    /// Who says so.
    pub author: EntityId,
    /// What is known.
    pub text: String,
    /// What kind of fact it is; may be empty.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// What else is known of it.
    #[serde(skip_serializing_if = "is_empty")]
    pub metadata: Metadata,
    /// The message that it was taken from.
    pub source: Option<MemoryId>,
    /// When it became known.
    pub created_at: Timestamp,
}

/// What became of a fact to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Remembered {
    /// The fact; where it was known before, as it was kept then.
    pub fact: Fact,
    /// Whether it was not known before.
    pub is_new: bool,
}

/// A question to the facts.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct FactQuery {
    /// What it is about, in any words. Of a text over 16 KiB or of more than 256 distinct words the beginning counts.
    pub text: String,
    /// How many facts there are at most; 6 by default.
    pub limit: usize,
    /// Only facts about this entity.
    pub subject: Option<EntityId>,
    /// Only facts of this kind.
    pub kind: Option<String>,
    /// How close in meaning a fact must be that holds no word of the question: a cosine, from -1 to 1. None by default; zero
    /// means zero. How great cosines are depends on the model.
    pub threshold: Option<f32>,
}

impl FactQuery {
    /// A question with the defaults.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), limit: 6, subject: None, kind: None, threshold: None }
    }

    /// With another limit.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Only facts about this entity.
    #[must_use]
    pub fn about(mut self, subject: EntityId) -> Self {
        self.subject = Some(subject);
        self
    }

    /// Only facts of this kind.
    #[must_use]
    pub fn of_kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// Only facts that hold a word of the question, or are at least so close in meaning.
    #[must_use]
    pub fn threshold(mut self, cosine: f32) -> Self {
        self.threshold = Some(cosine);
        self
    }
}

/// The facts that answer a question.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct RecalledFacts {
    /// Best first.
    pub facts: Vec<FoundFact>,
    /// How many facts of the rooms that were looked into have no vector yet, and were found by their words alone or not at all. All of
    /// them where nothing makes vectors, and where the model made none of the question.
    pub unembedded: usize,
}

/// A fact that was found.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FoundFact {
    /// The fact.
    pub fact: Fact,
    /// How close in meaning it is: the cosine of its vector, as it is kept, and that of the question. `None` where there is none of either, or it is
    /// not known whether there is: of a fact that holds a word, and that is nearer than no other, while others have no vector yet.
    pub similarity: Option<f32>,
    /// What it was ranked by: its reciprocal rank in its room, or the sum of those by meaning and by words where several rooms have facts.
    pub score: f64,
}

impl FoundFact {
    /// The similarity as it is shown, in thousandths: what is behind that depends on how vectors are kept.
    pub(crate) fn shown_similarity(&self) -> Option<f64> {
        self.similarity.map(|similarity| (f64::from(similarity) * 1_000.0).round() / 1_000.0)
    }
}

/// The metadata of a fact's document, whose content is the text alone, so that the words of a search are those of facts.
#[derive(Deserialize)]
struct Labels {
    room: RoomId,
    subject: EntityId,
    author: EntityId,
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    metadata: Metadata,
    source: Option<MemoryId>,
}

/// What tells a fact from others of its room and subject: the text without differences of case and of white space, and without the
/// full stop at its end.
pub(super) fn normalised(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().map(str::to_lowercase).collect();
    let text = words.join(" ");
    text.strip_suffix('.').unwrap_or(&text).to_owned()
}

fn is_empty(metadata: &Metadata) -> bool {
    *metadata == Metadata::default()
}

impl NewFact {
    /// `TooLarge` when the kind is, or the metadata are.
    pub(super) fn labels(&self) -> Result<Metadata> {
        if self.kind.len() > MAX_KIND {
            let size = self.kind.len();
            return Err(Error::too_large(format!("a kind of {size} bytes; at most {MAX_KIND} are allowed")));
        }
        let source = self.source.map(|source| source.to_string());
        let mut labels =
            vec![("room", self.room.as_str()), ("subject", self.subject.as_str()), ("author", self.author.as_str())];
        labels.extend(source.as_deref().map(|source| ("source", source)));
        labels.extend(Some(("type", self.kind.as_str())).filter(|(_, kind)| !kind.is_empty()));
        let label = |(name, value): (&str, &str)| (name.to_owned(), Json::String(value.to_owned()));
        let mut object: JsonObject = labels.into_iter().map(label).collect();
        if !is_empty(&self.metadata) {
            object.insert("metadata".to_owned(), Json::Object(self.metadata.to_object()));
        }
        Metadata::from_object(&object)
    }
}

impl Fact {
    /// `Corrupt` when the document is no fact.
    pub(super) fn read(document: Document) -> Result<Self> {
        let labels: Labels = serde_json::from_str(document.metadata.as_str())
            .map_err(|_| Error::corrupt(format!("the document {} is no fact", document.id)))?;
        Ok(Self {
            id: document.id,
            room: labels.room,
            subject: labels.subject,
            author: labels.author,
            text: document.content.into(),
            kind: labels.kind,
            metadata: labels.metadata,
            source: labels.source,
            created_at: document.created_at,
        })
    }
}

impl fmt::Debug for NewFact {
    /// Payloads stay out of logs: only the size shows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NewFact({} bytes, about {:?}, by {:?})", self.text.len(), self.subject, self.author)
    }
}

impl fmt::Debug for Fact {
    /// Payloads stay out of logs: only the size shows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fact({}, {} bytes, about {:?}, by {:?})", self.id, self.text.len(), self.subject, self.author)
    }
}

impl fmt::Debug for FactQuery {
    /// Payloads stay out of logs: only the size shows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FactQuery")
            .field("text", &format_args!("{} bytes", self.text.len()))
            .field("limit", &self.limit)
            .field("subject", &self.subject)
            .field("kind", &self.kind)
            .field("threshold", &self.threshold)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_say_the_same_are_the_same() {
        for same in ["Ana likes tea", " ana  likes\ttea.", "ANA LIKES TEA\n"] {
            assert_eq!(normalised(same), "ana likes tea");
        }
        for other in ["Ana likes tea!", "Ana likes tea?", "Ana likes C++", "Ana likes C"] {
            assert_ne!(normalised(other), "ana likes tea");
        }
        assert_ne!(normalised("Ana likes C++"), normalised("Ana likes C"));
    }
}
