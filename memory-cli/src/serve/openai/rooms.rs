//! The authorization of questions by user and room.

use memory_context::agent::{Agent, Conversation, DIRECT};
use memory_context::records::{AgentId, Audience, ChannelType, EntityId, Room, RoomId};
use memory_core::{Error, ErrorKind, Result};

use crate::serve::access::Access;

/// Returns the conversation of a question, if its caller may ask there.
///
/// # Behavior
/// - A caller may speak for a user if its token may read and write the direct room of the user and the agent.
/// - It may ask in another room if its token may read and write that room, too. A new room is a group, in which nothing is shown that was
///   said elsewhere.
/// - The direct room of another user is refused, and so is a direct conversation in which the user does not take part.
/// - A refusal is `Unauthorized`, before anything is read or written.
pub(crate) async fn conversation(
    agent: &Agent,
    access: &Access,
    user: &str,
    room: Option<&str>,
) -> Result<Conversation> {
    let own = agent.direct(user)?;
    let (records, user) = (agent.records(), EntityId::parse(user)?);
    check(access, records.agent(), &own.room().id, "the token may not speak for this user")?;
    let Some(name) = room.filter(|name| *name != own.room().id.as_str()) else { return Ok(own) };
    let id = RoomId::parse(name)?;
    check(access, records.agent(), &id, "the token may not use this room")?;
    let refused = || Err(Error::new(ErrorKind::Unauthorized, "this room is a conversation of others"));
    if name.starts_with(DIRECT) {
        return refused();
    }
    let audience = Audience::new(id.clone(), user.clone());
    let Some(known) = records.rooms().get(&audience).await? else {
        return Ok(agent.room(Room::new(id, ChannelType::Group)));
    };
    if known.channel_type.is_direct() && records.participants().get(&audience, &user).await?.is_none() {
        return refused();
    }
    Ok(agent.room(known))
}

/// Fails with `Unauthorized` unless the caller may read all spaces of a room, and the agent may write them on the caller's behalf.
fn check(access: &Access, agent: &AgentId, room: &RoomId, refusal: &str) -> Result<()> {
    access.check_ledger_write()?;
    for space in agent.room_spaces(room)? {
        if !access.readable.matches(space.as_str()) || access.check_reach(&space).is_err() {
            return Err(Error::new(ErrorKind::Unauthorized, refusal));
        }
    }
    Ok(())
}
