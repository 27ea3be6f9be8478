//! The records of an agent: what each store guarantees, and above all what it does not show.

mod choices;
mod embedding;
mod facts;
mod messages;
mod people;
mod person;
mod rooms;
mod worlds;

use memory_context::records::{
    Audience, ChannelType, EntityId, MessageContent, NewFact, NewMessage, Records, Room, RoomId, WorldId,
};
use memory_core::Timestamp;

use crate::stage::Case;

pub(crate) fn cases() -> Vec<Case> {
    [
        messages::cases(),
        rooms::cases(),
        people::cases(),
        person::cases(),
        worlds::cases(),
        choices::cases(),
        facts::cases(),
        embedding::cases(),
    ]
    .concat()
}

fn room(id: &str) -> RoomId {
    RoomId::parse(id).expect("a valid id")
}

fn entity(id: &str) -> EntityId {
    EntityId::parse(id).expect("a valid id")
}

fn world(id: &str) -> WorldId {
    WorldId::parse(id).expect("a valid id")
}

/// In this room, for this entity.
fn audience(of_room: &str, of_entity: &str) -> Audience {
    Audience::new(room(of_room), entity(of_entity))
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis).expect("in range")
}

/// Puts these entities into a room.
async fn join(records: &Records, of_room: &str, entities: &[&str]) {
    for one in entities {
        records.participants().join(&room(of_room), &entity(one)).await.expect("a join");
    }
}

/// A direct conversation of these entities with the agent.
async fn direct(records: &Records, of_room: &str, entities: &[&str]) {
    records.rooms().ensure(&Room::new(room(of_room), ChannelType::Dm)).await.expect("a room");
    join(records, of_room, entities).await;
}

/// A message of one line.
fn said(of_room: &str, author: &str, text: &str, millis: i64) -> NewMessage {
    NewMessage::new(MessageContent::new(room(of_room), entity(author), text), at(millis))
}

/// Stores a fact about its author.
async fn know(records: &Records, of_room: &str, author: &str, text: &str, millis: i64) {
    let fact = NewFact::new(room(of_room), entity(author), entity(author), text, at(millis));
    records.facts().remember(fact).await.expect("a fact");
}
