//! The answer of a model that reflects on a conversation.

use std::fmt;
use std::sync::LazyLock;

use super::Mistake;
use super::extract::extract;
use super::fields::Fields;
use super::shape::Shape;
use crate::records::EntityId;

/// The answer of a model that reflects on a conversation.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReflectionAnswer {
    /// The model's assessment of the conversation.
    pub thought: String,
    /// The facts that became known.
    pub facts: Vec<LearnedFact>,
    /// The relationships between entities.
    pub relationships: Vec<LearnedRelationship>,
}

/// A fact that became known. The caller must check that the subject takes part in the conversation.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LearnedFact {
    /// The fact as a sentence.
    pub claim: String,
    /// The entity that the fact is about.
    pub subject: EntityId,
    /// The kind of the fact; may be empty.
    pub kind: String,
    /// The text of the known fact that this one corrects; may be empty.
    pub corrects: String,
    /// Whether it is part of the agent's own biography.
    pub is_in_bio: bool,
    /// Whether it was known before.
    pub is_known: bool,
}

/// A relationship between two entities. The caller must check that they exist.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LearnedRelationship {
    /// The entity that the relationship starts from.
    pub source: EntityId,
    /// The entity that the relationship leads to.
    pub target: EntityId,
    /// Tags that describe the relationship.
    pub tags: Vec<String>,
}

const LEAVES: &[&str] = &[
    "thought",
    "claim",
    "subject",
    "type",
    "corrects",
    "in_bio",
    "already_known",
    "sourceEntityId",
    "targetEntityId",
    "tags",
];

static SHAPE: LazyLock<Shape> =
    LazyLock::new(|| Shape::new(LEAVES, &["facts", "fact", "relationships", "relationship"]));

impl ReflectionAnswer {
    /// Parses the text of a model. Required are the thought, claim and subject of each fact, and source and target of each relationship.
    /// The lists may be empty or missing.
    pub fn parse(answer: &str) -> Result<Self, Mistake> {
        let values = extract(answer, &SHAPE)?;
        let mut fields = Fields::new(&values);
        let thought = fields.required("thought")?;
        let facts = fields.items("facts", "fact", fact)?;
        let relationships = fields.items("relationships", "relationship", relationship)?;
        fields.finish()?;
        // No item is lost: `finish` has failed if one is incomplete.
        let (facts, relationships) =
            (facts.into_iter().flatten().collect(), relationships.into_iter().flatten().collect());
        Ok(Self { thought, facts, relationships })
    }

    /// The facts that are new: neither in the biography nor known.
    pub fn new_facts(&self) -> impl Iterator<Item = &LearnedFact> {
        self.facts.iter().filter(|fact| !fact.is_known && !fact.is_in_bio)
    }
}

/// Reads a fact; `None` if the subject is missing, which the fields report.
fn fact(fields: &mut Fields<'_>) -> Result<Option<LearnedFact>, Mistake> {
    let claim = fields.required("claim")?;
    let subject = entity(fields, "subject")?;
    let (kind, corrects) = (fields.text("type")?, fields.text("corrects")?);
    let (is_in_bio, is_known) = (fields.flag("in_bio")?, fields.flag("already_known")?);
    Ok(subject.map(|subject| LearnedFact { claim, subject, kind, corrects, is_in_bio, is_known }))
}

fn relationship(fields: &mut Fields<'_>) -> Result<Option<LearnedRelationship>, Mistake> {
    let (source, target) = (entity(fields, "sourceEntityId")?, entity(fields, "targetEntityId")?);
    let tags = fields.names("tags", "tag")?;
    Ok(source.zip(target).map(|(source, target)| LearnedRelationship { source, target, tags }))
}

fn entity(fields: &mut Fields<'_>, name: &'static str) -> Result<Option<EntityId>, Mistake> {
    let id = fields.required(name)?;
    if id.is_empty() {
        return Ok(None);
    }
    EntityId::parse(&id).map(Some).map_err(|_| fields.invalid(name, "the id of an entity"))
}

impl fmt::Debug for ReflectionAnswer {
    /// Shows only the numbers, so that payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReflectionAnswer({} facts, {} relationships)", self.facts.len(), self.relationships.len())
    }
}

impl fmt::Debug for LearnedFact {
    /// Shows only the size: payloads stay out of logs, and a model can write anything as an id.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LearnedFact({} bytes)", self.claim.len())
    }
}

impl fmt::Debug for LearnedRelationship {
    /// Shows only the number of tags: payloads stay out of logs, and a model can write anything as an id.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LearnedRelationship({} tags)", self.tags.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const XML: &str = "<response>
        <thought>It went well.</thought>
        <facts>
          <fact><claim>Ana likes C < C++</claim><subject>ana</subject><type>fact</type><in_bio>false</in_bio>
            <already_known>false</already_known></fact>
          <fact><claim>Bo is here</claim><subject>bo</subject><already_known>Yes</already_known></fact>
        </facts>
        <relationships><relationship><sourceEntityId>ana</sourceEntityId><targetEntityId>bo</targetEntityId>
          <tags>friends, work</tags></relationship></relationships>
      </response>";
    const JSON: &str = r#"{ "thought": "It went well.", "facts": [
        { "claim": "Ana likes C < C++", "subject": "ana", "type": "fact", "in_bio": false, "already_known": false },
        { "claim": "Bo is here", "subject": "bo", "already_known": "yes" } ],
      "relationships": [{ "sourceEntityId": "ana", "targetEntityId": "bo", "tags": ["friends", "work"] }] }"#;

    #[test]
    fn facts_and_relationships_come_as_lists() {
        for answer in [XML, JSON] {
            let answer = ReflectionAnswer::parse(answer).expect("whole");
            assert_eq!(answer.thought, "It went well.");
            let facts: Vec<_> = answer.facts.iter().map(|fact| (fact.claim.as_str(), fact.subject.as_str())).collect();
            assert_eq!(facts, [("Ana likes C < C++", "ana"), ("Bo is here", "bo")]);
            assert_eq!(answer.new_facts().count(), 1);
            let [relationship] = &answer.relationships[..] else { panic!("one relationship") };
            assert_eq!((relationship.source.as_str(), relationship.target.as_str()), ("ana", "bo"));
            assert_eq!(relationship.tags, ["friends", "work"]);
        }
    }

    #[test]
    fn lists_may_be_empty() {
        for answer in [
            "<response><thought>t</thought><facts></facts><relationships/></response>",
            "<thought>t</thought>",
            r#"{"thought":"t","facts":[],"relationships":null}"#,
        ] {
            let answer = ReflectionAnswer::parse(answer).expect(answer);
            assert!(answer.facts.is_empty() && answer.relationships.is_empty());
        }
    }

    #[test]
    fn what_is_missing_is_named_with_its_place() {
        for (answer, mistake) in [
            (
                r#"{"facts":[{"claim":"a","subject":"b"},{"claim":""}],"relationships":[{"targetEntityId":"a"}]}"#,
                "missing: thought, facts[1].claim, facts[1].subject, relationships[0].sourceEntityId",
            ),
            (
                "<thought>t</thought><facts><fact><subject>a</subject><in_bio>b</in_bio></fact></facts>",
                "facts[0].in_bio must be true or false",
            ),
            ("<thought>t</thought><facts>Ana likes tea</facts>", "facts must be a list of elements"),
            (
                "{\"thought\":\"t\",\"facts\":[{\"claim\":\"a\",\"subject\":\"a\\nb\"}]}",
                "facts[0].subject must be the id of an entity",
            ),
        ] {
            assert_eq!(ReflectionAnswer::parse(answer).expect_err(answer).to_string(), mistake);
        }
    }
}
