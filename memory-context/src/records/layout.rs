//! Where records lie.

use memory_core::{Collection, DocumentId, Result, SpaceId};
use percent_encoding::{AsciiSet, percent_decode_str, utf8_percent_encode};

use super::id::{AgentId, RoomId};
use crate::hash;

/// What an id must not bring into a space: its boundaries, so that one id is one segment, and the sign that encodes them.
const ENCODED: &AsciiSet = &AsciiSet::EMPTY.add(b'-').add(b'/').add(b':').add(b'%');

/// What the names of the collections of facts begin with.
const FACTS: &str = "_facts-";
/// How many digits of a hash, 128 bits, go into the name of a collection.
const SHORT: usize = 32;

impl AgentId {
    /// The agent whose records lie in this space; `None` where no records do.
    pub fn of_space(space: &SpaceId) -> Option<Self> {
        let mut segments = space.as_str().split('/');
        let encoded = segments.next().filter(|first| *first == "agent").and(segments.next())?;
        let id = percent_decode_str(encoded).decode_utf8().ok()?;
        Self::parse(id).ok()
    }

    /// The space in and below which the agent keeps all that has a place of its own.
    pub fn space(&self) -> Result<SpaceId> {
        agent_space(self)
    }

    /// The spaces of all that the agent keeps of a room: what is known in it, its messages, tasks and reflections.
    pub fn room_spaces(&self, room: &RoomId) -> Result<[SpaceId; 4]> {
        Ok([
            room_space(self, room)?,
            messages_space(self, room)?,
            task_space(self, room)?,
            reflections_space(self, room)?,
        ])
    }
}

/// The space of what belongs to the agent as a whole.
pub(super) fn agent_space(agent: &AgentId) -> Result<SpaceId> {
    SpaceId::parse(format!("agent/{}", encoded(agent.as_str())))
}

/// What all rooms lie under.
pub(super) fn rooms_space(agent: &AgentId) -> Result<SpaceId> {
    below(agent_space(agent)?, "room")
}

/// The space of a room, and of what is known in it.
pub(super) fn room_space(agent: &AgentId, room: &RoomId) -> Result<SpaceId> {
    SpaceId::parse(format!("agent/{}/room/{}", encoded(agent.as_str()), encoded(room.as_str())))
}

/// The one space of all messages of a room: its newest are one recall.
pub(super) fn messages_space(agent: &AgentId, room: &RoomId) -> Result<SpaceId> {
    below(room_space(agent, room)?, "messages")
}

/// The space of the tasks of a room.
pub(super) fn task_space(agent: &AgentId, room: &RoomId) -> Result<SpaceId> {
    below(room_space(agent, room)?, "tasks")
}

/// The space of what the agent thinks of how it did in a room.
pub(super) fn reflections_space(agent: &AgentId, room: &RoomId) -> Result<SpaceId> {
    below(room_space(agent, room)?, "reflections")
}

/// The facts of a room have a collection of their own; its name is reserved, so no plugin reaches it.
pub(super) fn fact_collection(agent: &AgentId, room: &RoomId) -> Result<Collection> {
    Collection::parse(format!("{FACTS}{}", short(hash::of_parts([agent.as_str(), room.as_str()]))))
}

/// Whether it is one of those.
pub(crate) fn is_fact_collection(collection: &Collection) -> bool {
    collection.as_str().strip_prefix(FACTS).is_some_and(|rest| rest.len() == SHORT)
}

/// The name of the collection of facts that it is, or whose vectors older programs have kept in it.
pub(super) fn facts_beside(collection: &Collection) -> Option<&str> {
    let name = collection.as_str();
    let facts = name.strip_suffix("-vectors").unwrap_or(name);
    facts.strip_prefix(FACTS).is_some_and(|rest| rest.len() == SHORT).then_some(facts)
}

/// Where older programs have kept which vectors of an agent were still to be made.
pub(super) fn pending_collection(agent: &AgentId) -> Result<Collection> {
    Collection::parse(format!("_embeddings-{}", short(hash::of_parts([agent.as_str()]))))
}

/// The id of a document that these parts name, and nothing else does.
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
