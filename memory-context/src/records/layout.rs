//! The spaces, collections and document ids of records.

use memory_core::{Collection, DocumentId, Result, SpaceId};
use percent_encoding::{AsciiSet, percent_decode_str, utf8_percent_encode};

use super::id::{AgentId, RoomId};
use crate::hash;

/// The characters that are encoded in an id: the boundaries of space ids, so that an id stays one segment, and the escape character.
const ENCODED: &AsciiSet = &AsciiSet::EMPTY.add(b'-').add(b'/').add(b':').add(b'%');

/// The prefix of the names of fact collections.
const FACTS: &str = "_facts-";
/// How many hexadecimal digits of a hash (128 bits) go into the name of a collection.
const SHORT: usize = 32;

impl AgentId {
    /// Returns the agent whose records lie in this space; `None` if it is not a space of records.
    pub fn of_space(space: &SpaceId) -> Option<Self> {
        let mut segments = space.as_str().split('/');
        let encoded = segments.next().filter(|first| *first == "agent").and(segments.next())?;
        let id = percent_decode_str(encoded).decode_utf8().ok()?;
        Self::parse(id).ok()
    }

    /// The space of the agent. All of its records lie in it or below it, except its prompt memory.
    pub fn space(&self) -> Result<SpaceId> {
        agent_space(self)
    }

    /// The spaces of a room: the room itself with its facts, its messages, its tasks and its reflections.
    pub fn room_spaces(&self, room: &RoomId) -> Result<[SpaceId; 4]> {
        Ok([
            room_space(self, room)?,
            messages_space(self, room)?,
            task_space(self, room)?,
            reflections_space(self, room)?,
        ])
    }
}

/// The space of records that belong to the agent as a whole.
pub(super) fn agent_space(agent: &AgentId) -> Result<SpaceId> {
    SpaceId::parse(format!("agent/{}", encoded(agent.as_str())))
}

/// The space under which all rooms lie.
pub(super) fn rooms_space(agent: &AgentId) -> Result<SpaceId> {
    below(agent_space(agent)?, "room")
}

/// The space of a room and its facts.
pub(super) fn room_space(agent: &AgentId, room: &RoomId) -> Result<SpaceId> {
    SpaceId::parse(format!("agent/{}/room/{}", encoded(agent.as_str()), encoded(room.as_str())))
}

/// The space of all messages of a room. It is one space, so the newest messages take one query.
pub(super) fn messages_space(agent: &AgentId, room: &RoomId) -> Result<SpaceId> {
    below(room_space(agent, room)?, "messages")
}

/// The space of the tasks of a room.
pub(super) fn task_space(agent: &AgentId, room: &RoomId) -> Result<SpaceId> {
    below(room_space(agent, room)?, "tasks")
}

/// The space of the agent's reflections on a room.
pub(super) fn reflections_space(agent: &AgentId, room: &RoomId) -> Result<SpaceId> {
    below(room_space(agent, room)?, "reflections")
}

/// The collection of the facts of a room. The name is reserved, so no plugin reaches it.
pub(super) fn fact_collection(agent: &AgentId, room: &RoomId) -> Result<Collection> {
    Collection::parse(format!("{FACTS}{}", short(hash::of_parts([agent.as_str(), room.as_str()]))))
}

/// Whether a collection holds the facts of a room.
pub(crate) fn is_fact_collection(collection: &Collection) -> bool {
    collection.as_str().strip_prefix(FACTS).is_some_and(|rest| rest.len() == SHORT)
}

/// The name of the fact collection to which a collection belongs: its own name or, for a collection in which older versions kept vectors,
/// that of the facts.
pub(super) fn facts_beside(collection: &Collection) -> Option<&str> {
    let name = collection.as_str();
    let facts = name.strip_suffix("-vectors").unwrap_or(name);
    facts.strip_prefix(FACTS).is_some_and(|rest| rest.len() == SHORT).then_some(facts)
}

/// The collection in which older versions noted the vectors that were still to be made for an agent.
pub(super) fn pending_collection(agent: &AgentId) -> Result<Collection> {
    Collection::parse(format!("_embeddings-{}", short(hash::of_parts([agent.as_str()]))))
}

/// The document id for these parts, by a collision-free hash.
pub(super) fn document_id<'a>(agent: &'a AgentId, parts: impl IntoIterator<Item = &'a str>) -> Result<DocumentId> {
    DocumentId::parse(hash::of_parts([agent.as_str()].into_iter().chain(parts)))
}

fn below(space: SpaceId, name: &str) -> Result<SpaceId> {
    SpaceId::parse(format!("{space}/{name}"))
}

fn short(mut hash: String) -> String {
    hash.truncate(SHORT);
    hash
}

fn encoded(id: &str) -> impl std::fmt::Display {
    utf8_percent_encode(id, ENCODED)
}

#[cfg(test)]
mod tests {
    use memory_core::SpaceSelector;

    use super::super::id::MAX_ID_BYTES;
    use super::*;

    fn space(agent: &str, room: &str) -> SpaceId {
        let (agent, room) = (AgentId::parse(agent).expect("valid"), RoomId::parse(room).expect("valid"));
        messages_space(&agent, &room).expect("a space")
    }

    #[test]
    fn the_longest_ids_fit() {
        let long = "-".repeat(MAX_ID_BYTES);
        assert!(space(&long, &long).as_str().len() <= SpaceId::MAX_BYTES);
    }

    #[test]
    fn a_space_tells_its_agent() {
        for id in ["a", "a-1", "ä/b:%"] {
            assert_eq!(AgentId::of_space(&space(id, "r")).expect("an agent").as_str(), id);
        }
        for other in ["a", "agent", "agents/a", "agent/"] {
            assert_eq!(AgentId::of_space(&SpaceId::parse(other).expect("valid")), None, "{other}");
        }
    }

    #[test]
    fn an_id_is_one_segment() {
        assert_eq!(space("a-1", "b:2/c%").as_str(), "agent/a%2D1/room/b%3A2%2Fc%25/messages");
        let agent = AgentId::parse("a").expect("valid");
        let of = |room: &str| room_space(&agent, &RoomId::parse(room).expect("valid")).expect("a space");
        let under = SpaceSelector::under(of("guild")).expect("a selector");
        for sibling in ["guild-1", "guild/1", "guild:1", "guild1"] {
            assert!(!under.matches(of(sibling).as_str()), "{sibling}");
        }
    }
}
