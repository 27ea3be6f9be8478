//! `FOLLOW_ROOM`, `UNFOLLOW_ROOM`, `MUTE_ROOM` and `UNMUTE_ROOM`: how the agent follows a room.

use async_trait::async_trait;
use memory_core::Result;

use crate::records::RoomState;
use crate::state::{Action, ActionCall, ActionInfo, ActionResult, Cx};

/// Says how the agent follows the room of the message, which holds until it is said anew.
#[derive(Debug)]
pub struct FollowRoom {
    info: ActionInfo,
    change: Change,
}

/// What becomes of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Follow,
    Unfollow,
    Mute,
    Unmute,
}

impl FollowRoom {
    /// The four actions.
    pub fn all() -> [Self; 4] {
        [Self::follow(), Self::unfollow(), Self::mute(), Self::unmute()]
    }

    /// `FOLLOW_ROOM`: attends to the room.
    pub fn follow() -> Self {
        let similes = ["FOLLOW_CHAT", "FOLLOW_CHANNEL", "FOLLOW_CONVERSATION", "FOLLOW_THREAD"];
        let when = "Attends to this room from now on, when somebody asks to take part in the conversation";
        Self::of("FOLLOW_ROOM", when, similes, Change::Follow)
    }

    /// `UNFOLLOW_ROOM`: no longer attends to the room.
    pub fn unfollow() -> Self {
        let similes = ["UNFOLLOW_CHAT", "UNFOLLOW_CHANNEL", "UNFOLLOW_CONVERSATION", "UNFOLLOW_THREAD"];
        let when = "No longer attends to this room, when somebody asks to leave the conversation";
        Self::of("UNFOLLOW_ROOM", when, similes, Change::Unfollow)
    }

    /// `MUTE_ROOM`: answers nobody in the room who does not call the agent.
    pub fn mute() -> Self {
        let similes = ["MUTE_CHAT", "MUTE_CHANNEL", "MUTE_CONVERSATION", "MUTE_THREAD"];
        let when = "Is silent in this room from now on unless it is called by name, when somebody asks it to be quiet";
        Self::of("MUTE_ROOM", when, similes, Change::Mute)
    }

    /// `UNMUTE_ROOM`: answers in the room again.
    pub fn unmute() -> Self {
        let similes = ["UNMUTE_CHAT", "UNMUTE_CHANNEL", "UNMUTE_CONVERSATION", "UNMUTE_THREAD"];
        let when = "Speaks in this room again, when somebody asks for it";
        Self::of("UNMUTE_ROOM", when, similes, Change::Unmute)
    }

    fn of(name: &'static str, description: &'static str, similes: [&str; 4], change: Change) -> Self {
        let mut info = ActionInfo::new(name, description);
        info.similes = similes.map(str::to_owned).into();
        Self { info, change }
    }
}

impl Change {
    /// Whether it can be made of a state.
    fn is_possible(self, state: Option<RoomState>) -> bool {
        match self {
            Self::Follow => state.is_none(),
            Self::Unfollow => state == Some(RoomState::Followed),
            Self::Mute => state != Some(RoomState::Muted),
            Self::Unmute => state == Some(RoomState::Muted),
        }
    }

    /// The state that it makes, and what is said of it.
    const fn made(self) -> (Option<RoomState>, &'static str) {
        match self {
            Self::Follow => (Some(RoomState::Followed), "The room is followed."),
            Self::Unfollow => (None, "The room is no longer followed."),
            Self::Mute => (Some(RoomState::Muted), "The room is muted."),
            Self::Unmute => (None, "The room is no longer muted."),
        }
    }
}

#[async_trait]
impl Action for FollowRoom {
    fn info(&self) -> &ActionInfo {
        &self.info
    }

    async fn validate(&self, cx: &Cx<'_>) -> Result<bool> {
        let records = cx.services().records();
        let follows = records.participants().get(&cx.scope(), &records.agent().entity()).await?;
        Ok(self.change.is_possible(follows.and_then(|follows| follows.state)))
    }

    async fn run(&self, call: &ActionCall<'_>) -> Result<ActionResult> {
        let (records, room) = (call.cx.services().records(), &call.cx.message().content.room);
        let (participants, agent) = (records.participants(), records.agent().entity());
        let (state, done) = self.change.made();
        participants.join(room, &agent).await?;
        participants.set_state(room, &agent, state).await?;
        Ok(ActionResult::done(self.info.name.clone(), done))
    }
}
