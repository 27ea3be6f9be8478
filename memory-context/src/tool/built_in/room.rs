//! `FOLLOW_ROOM`, `UNFOLLOW_ROOM`, `MUTE_ROOM` and `UNMUTE_ROOM`: whether the agent follows or mutes a room.

use memory_core::Result;

use crate::records::{Audience, RoomState};
use crate::tool::{Tool, ToolContext};

/// A change of the agent's state in the room of the message. The new state holds until the next change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Follow,
    Unfollow,
    Mute,
    Unmute,
}

/// Makes the four tools. Each is offered only if it would change something.
pub(super) fn tools() -> [Tool; 4] {
    [Change::Follow, Change::Unfollow, Change::Mute, Change::Unmute].map(Change::tool)
}

impl Change {
    fn tool(self) -> Tool {
        let verb = self.verb();
        let tool = Tool::new(format!("{verb}_ROOM"), move |(), context| self.make(context))
            .with_description(self.description())
            .repeatable()
            .when(move |message, services| async move {
                let (records, content) = (services.records(), &message.content);
                let audience = Audience::new(content.room.clone(), content.author.clone());
                let follows = records.participants().get(&audience, &records.agent().entity()).await?;
                Ok(self.is_possible(follows.and_then(|follows| follows.state)))
            });
        ["CHAT", "CHANNEL", "CONVERSATION", "THREAD"]
            .into_iter()
            .fold(tool, |tool, place| tool.with_simile(format!("{verb}_{place}")))
    }

    const fn verb(self) -> &'static str {
        match self {
            Self::Follow => "FOLLOW",
            Self::Unfollow => "UNFOLLOW",
            Self::Mute => "MUTE",
            Self::Unmute => "UNMUTE",
        }
    }

    const fn description(self) -> &'static str {
        match self {
            Self::Follow => "Attends to this room from now on, when somebody asks to take part in the conversation",
            Self::Unfollow => "No longer attends to this room, when somebody asks to leave the conversation",
            Self::Mute => {
                "Is silent in this room from now on unless it is called by name, when somebody asks it to be quiet"
            }
            Self::Unmute => "Speaks in this room again, when somebody asks for it",
        }
    }

    /// Whether the change is offered in this state. A muted room can't be followed before it is unmuted.
    fn is_possible(self, state: Option<RoomState>) -> bool {
        match self {
            Self::Follow => state.is_none(),
            Self::Unfollow => state == Some(RoomState::Followed),
            Self::Mute => state != Some(RoomState::Muted),
            Self::Unmute => state == Some(RoomState::Muted),
        }
    }

    /// The new state, and the result for the model.
    const fn made(self) -> (Option<RoomState>, &'static str) {
        match self {
            Self::Follow => (Some(RoomState::Followed), "The room is followed."),
            Self::Unfollow => (None, "The room is no longer followed."),
            Self::Mute => (Some(RoomState::Muted), "The room is muted."),
            Self::Unmute => (None, "The room is no longer muted."),
        }
    }

    async fn make(self, context: ToolContext) -> Result<&'static str> {
        let (records, room) = (context.records(), &context.message().content.room);
        let (participants, agent) = (records.participants(), records.agent().entity());
        let (state, done) = self.made();
        participants.join(room, &agent).await?;
        participants.set_state(room, &agent, state).await?;
        Ok(done)
    }
}
