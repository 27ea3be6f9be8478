//! Stores the result of a reflection.

use std::collections::BTreeSet;

use memory_core::{ErrorKind, Result, Timestamp};

use crate::flow::answer::ReflectionAnswer;
use crate::records::{Audience, Fact, Message, NewFact, Records, Relationship};

/// The records that a reflection stored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Learned {
    /// The new facts.
    pub facts: Vec<Fact>,
    /// The relationships after the change.
    pub relationships: Vec<Relationship>,
    /// How many facts and relationships were refused, since they are about somebody outside of the conversation or are not valid, or since
    /// the fact to correct was replaced or removed meanwhile.
    pub refused: usize,
}

/// Stores a reflection: its new facts, with the agent as author, one interaction for each relationship, and the assessment. A fact that
/// corrects a fact of the same room about the same subject replaces it.
///
/// Facts and relationships of entities other than the participants of the room, the author and the agent are refused, since somebody in the
/// conversation may have told the model to state them.
pub async fn learn(records: &Records, message: &Message, answer: &ReflectionAnswer, at: Timestamp) -> Result<Learned> {
    let (room, author) = (&message.content.room, &message.content.author);
    let agent = records.agent().entity();
    let audience = Audience::new(room.clone(), author.clone());
    let present = records.participants().of_room(&audience).await?;
    let mut present: BTreeSet<_> = present.into_iter().map(|participant| participant.entity).collect();
    present.extend([author.clone(), agent.clone()]);
    let mut learned = Learned { facts: Vec::new(), relationships: Vec::new(), refused: 0 };
    for fact in answer.new_facts() {
        if !present.contains(&fact.subject) {
            learned.refused += 1;
            continue;
        }
        let new = NewFact::new(room.clone(), fact.subject.clone(), agent.clone(), &fact.claim, at);
        let new = new.with_kind(fact.kind.to_lowercase()).with_source(message.id);
        let corrected = match fact.corrects.is_empty() {
            true => None,
            false => {
                records.facts().find(&audience, &fact.corrects).await?.filter(|known| known.subject == fact.subject)
            }
        };
        let remembered = match &corrected {
            Some(known) => records.facts().replace(known, new).await,
            None => records.facts().remember(new).await,
        };
        match kept(remembered)? {
            Some(remembered) => learned.facts.extend(remembered.is_new.then_some(remembered.fact)),
            None => learned.refused += 1,
        }
    }
    for relationship in &answer.relationships {
        let (source, target) = (&relationship.source, &relationship.target);
        if source == target || !present.contains(source) || !present.contains(target) {
            learned.refused += 1;
            continue;
        }
        let tags = relationship.tags.iter().cloned();
        match kept(records.relationships().interact(source, target, tags, at).await)? {
            Some(relationship) => learned.relationships.push(relationship),
            None => learned.refused += 1,
        }
    }
    if !answer.thought.is_empty() {
        records.reflections().add(message, &answer.thought, at).await?;
    }
    Ok(learned)
}

/// Returns `None` if a record is not valid, or if the fact to correct was replaced or removed meanwhile. A failure of the engine is an
/// error.
fn kept<T>(done: Result<T>) -> Result<Option<T>> {
    match done {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::TooLarge | ErrorKind::Conflict) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use memory_core::{InMemory, MemoryProvider};

    use super::*;
    use crate::records::{AgentId, EntityId, MessageContent, NewMessage, RoomId};
    use crate::state::{Character, ComposeOptions, Composer, Services, Turn};

    fn entity(id: &str) -> EntityId {
        EntityId::parse(id).expect("valid")
    }

    const ANSWER: &str = r#"{ "thought": "t", "facts": [
        { "claim": "Ana likes tea", "subject": "ana" },
        { "claim": "Bo likes coffee", "subject": "bo" },
        { "claim": "Eve likes secrets", "subject": "eve" },
        { "claim": "Ana is here", "subject": "ana", "already_known": true },
        { "claim": "Eliza is an agent", "subject": "agent", "in_bio": true } ],
      "relationships": [
        { "sourceEntityId": "ana", "targetEntityId": "bo", "tags": "friends" },
        { "sourceEntityId": "ana", "targetEntityId": "eve", "tags": "friends" },
        { "sourceEntityId": "ana", "targetEntityId": "ana", "tags": "friends" } ] }"#;

    #[tokio::test]
    async fn what_is_too_large_does_not_lose_the_rest() {
        let provider: Arc<dyn MemoryProvider> = Arc::new(InMemory::new());
        provider.init().await.expect("ready");
        let records = Records::new(provider, AgentId::parse("agent").expect("valid"));
        let content = MessageContent::new(RoomId::parse("r").expect("valid"), entity("ana"), "I like tea");
        let message = records.messages().add(NewMessage::new(content, Timestamp::MIN)).await.expect("stored");
        let answer =
            r#"{"thought":"t","facts":[{"claim":"a","subject":"ana"},{"claim":"Ana likes tea","subject":"ana"}]}"#;
        let mut answer = ReflectionAnswer::parse(answer).expect("whole");
        answer.facts[0].claim = "x".repeat(2 << 20);
        let learned = learn(&records, &message, &answer, Timestamp::MIN).await.expect("kept");
        let facts: Vec<_> = learned.facts.iter().map(|fact| fact.text.as_str()).collect();
        assert_eq!((&facts[..], learned.refused), (&["Ana likes tea"][..], 1));
    }

    #[tokio::test]
    async fn what_was_learned_is_known_in_the_next_turn() {
        let provider: Arc<dyn MemoryProvider> = Arc::new(InMemory::new());
        provider.init().await.expect("ready");
        let records = Records::new(provider, AgentId::parse("agent").expect("valid"));
        let room = RoomId::parse("r").expect("valid");
        for id in ["ana", "bo"] {
            records.participants().join(&room, &entity(id)).await.expect("joined");
        }
        let said = |text| NewMessage::new(MessageContent::new(room.clone(), entity("ana"), text), Timestamp::MIN);
        let message = records.messages().add(said("I like tea")).await.expect("stored");
        let answer = ReflectionAnswer::parse(ANSWER).expect("whole");

        let learned = learn(&records, &message, &answer, Timestamp::MIN).await.expect("kept");
        let facts: Vec<_> = learned.facts.iter().map(|fact| (fact.text.as_str(), fact.subject.as_str())).collect();
        assert_eq!(facts, [("Ana likes tea", "ana"), ("Bo likes coffee", "bo")]);
        assert!(learned.facts.iter().all(|fact| fact.author == entity("agent") && fact.source == Some(message.id)));
        let [relationship] = &learned.relationships[..] else { panic!("one relationship") };
        assert_eq!((relationship.interactions, learned.refused), (1, 3));

        let again = learn(&records, &message, &answer, Timestamp::MIN).await.expect("kept");
        assert!(again.facts.is_empty(), "a fact is kept once");
        assert_eq!(again.relationships[0].interactions, 2);

        let next = records.messages().add(said("Who likes tea?")).await.expect("stored");
        let composer = Composer::builder(Services::new(records, Character::named("Eliza"))).built_in().build();
        let composer = composer.expect("names differ");
        let state = composer.compose_state(&Turn::new(next), &ComposeOptions::only(["FACTS", "RELATIONSHIPS"])).await;
        assert!(state.text.contains("Ana likes tea") && state.text.contains("friends"), "{}", state.text);
        assert!(!state.text.contains("secrets"));
    }
}
