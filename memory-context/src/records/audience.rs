//! To whom records are shown.

use serde::{Deserialize, Serialize};

use super::{EntityId, RoomId};

/// To whom something is shown, and in which room: each read of records names one, and the host vouches for it.
///
/// What is known from the room itself may be shown there. What is known from another room may be shown in a direct
/// conversation only, and only if everybody who takes part in that takes part there: so a user hears in private what was
/// said in a group of theirs, and no group hears what was said elsewhere, since who listens there is not always known.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Audience {
    /// Where it is shown.
    pub room: RoomId,
    /// To whom.
    pub entity: EntityId,
}

impl Audience {
    /// The audience that an entity is in a room.
    pub fn new(room: RoomId, entity: EntityId) -> Self {
        Self { room, entity }
    }
}
