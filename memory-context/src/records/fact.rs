//! Facts about entities.

use std::fmt;

use memory_core::{Document, DocumentId, Error, Json, JsonObject, MemoryId, Metadata, Result, Timestamp};
use serde::{Deserialize, Serialize};

use super::{EntityId, RoomId};

/// A fact to be stored.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewFact {
    /// The room in which it became known. The fact is shown there, and elsewhere as an [`Audience`](super::Audience) allows.
    pub room: RoomId,
    /// The entity that the fact is about.
    pub subject: EntityId,
    /// The entity that states the fact; the agent if the agent concluded it.
    pub author: EntityId,
    /// The fact as a sentence.
    pub text: String,
    /// The kind, as in `fact`, `opinion` or `status`; at most 64 bytes, empty by default.
    pub kind: String,
    /// Other properties, for the host; empty by default.
    pub metadata: Metadata,
    /// The message from which it was learned.
    pub source: Option<MemoryId>,
    /// The time at which it became known.
    pub created_at: Timestamp,
}

/// The longest kind of a fact, in bytes.
const MAX_KIND: usize = 64;

impl NewFact {
    /// Makes a fact without a kind, metadata and a source message.
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

    /// Sets the kind.
    #[must_use]
    pub fn with_kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = kind.into();
        self
    }

    /// Sets the metadata.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// Sets the message from which the fact was learned.
    #[must_use]
    pub fn with_source(mut self, message: MemoryId) -> Self {
        self.source = Some(message);
        self
    }
}

/// A fact about an entity. Its JSON has camelCase names.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Fact {
    /// The id of the fact's document.
    pub id: DocumentId,
    /// The room in which it became known.
    pub room: RoomId,
    /// The entity that the fact is about.
    pub subject: EntityId,
    /// The entity that states the fact.
    pub author: EntityId,
    /// The fact as a sentence.
    pub text: String,
    /// The kind, as in `fact`, `opinion` or `status`; may be empty.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Other properties, for the host.
    #[serde(skip_serializing_if = "is_empty")]
    pub metadata: Metadata,
    /// The message from which it was learned.
    pub source: Option<MemoryId>,
    /// The time at which it became known.
    pub created_at: Timestamp,
}

/// The result of [`Facts::remember`](super::Facts::remember).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Remembered {
    /// The fact; if it was known before, as it was stored then.
    pub fact: Fact,
    /// Whether the fact was stored by this call, since it was not known before.
    pub is_new: bool,
}

/// A search for facts.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct FactQuery {
    /// The question, in any words. Only the first 16 KiB and the first 256 distinct words count.
    pub text: String,
    /// The most facts to return; 6 by default.
    pub limit: usize,
    /// Returns only facts about this entity.
    pub subject: Option<EntityId>,
    /// Returns only facts of this kind.
    pub kind: Option<String>,
    /// The least cosine, from -1 to 1, of a fact that holds no word of the question. By default there is no threshold, which is not the
    /// same as 0. The usual range of cosines depends on the model.
    pub threshold: Option<f32>,
}

impl FactQuery {
    /// Makes a search with the defaults.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), limit: 6, subject: None, kind: None, threshold: None }
    }

    /// Sets the most facts to return.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Limits the search to facts about this entity.
    #[must_use]
    pub fn about(mut self, subject: EntityId) -> Self {
        self.subject = Some(subject);
        self
    }

    /// Limits the search to facts of this kind.
    #[must_use]
    pub fn of_kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// Limits the search to facts that hold a word of the question or have at least this cosine.
    #[must_use]
    pub fn threshold(mut self, cosine: f32) -> Self {
        self.threshold = Some(cosine);
        self
    }
}

/// The result of a search for facts.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct RecalledFacts {
    /// The facts, best first.
    pub facts: Vec<FoundFact>,
    /// How many facts of the searched rooms could be found only by their words, since they have no vector yet. It is the number of all
    /// facts of these rooms if there is no embedder, or if the embedder failed on the question.
    pub unembedded: usize,
}

/// A fact that a search has found.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FoundFact {
    /// The fact.
    pub fact: Fact,
    /// The cosine of the vectors of the fact and the question; `None` if one of them has no vector. It is also `None` for a fact that holds
    /// a word of the question and has the least cosine, while other facts have no vector: the search can't tell these cases apart.
    pub similarity: Option<f32>,
    /// The score of the ranking: the reciprocal rank in the room or, if several rooms have facts, the sum of the reciprocal ranks by
    /// meaning and by words.
    pub score: f64,
}

impl FoundFact {
    /// The similarity rounded to thousandths, since further digits depend on how vectors are stored.
    pub(crate) fn shown_similarity(&self) -> Option<f64> {
        self.similarity.map(|similarity| (f64::from(similarity) * 1_000.0).round() / 1_000.0)
    }
}

/// The metadata of a fact's document. The content is only the text, so that a search by words matches only the facts themselves.
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

/// Normalises a text to find duplicates within a room and subject: ignores case, white space and the full stop at the end.
pub(super) fn normalised(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().map(str::to_lowercase).collect();
    let text = words.join(" ");
    text.strip_suffix('.').unwrap_or(&text).to_owned()
}

fn is_empty(metadata: &Metadata) -> bool {
    *metadata == Metadata::default()
}

impl NewFact {
    /// Returns the metadata of the document. Fails with `TooLarge` if the kind or the metadata are too large.
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
    /// Reads a fact from its document. Fails with `Corrupt` if the document is not a fact.
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
    /// Shows only the size, so that payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NewFact({} bytes, about {:?}, by {:?})", self.text.len(), self.subject, self.author)
    }
}

impl fmt::Debug for Fact {
    /// Shows only the size, so that payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fact({}, {} bytes, about {:?}, by {:?})", self.id, self.text.len(), self.subject, self.author)
    }
}

impl fmt::Debug for FactQuery {
    /// Shows only the size, so that payloads stay out of logs.
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
