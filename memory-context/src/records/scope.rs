//! On whose behalf records are read.

use serde::{Deserialize, Serialize};

use super::{EntityId, RoomId};

/// In which room something is read, and on whose behalf: each read of records names one, and the host vouches for it.
///
/// What is known from the room itself may be shown there. What is known from another room may be shown in a direct
/// conversation only, and only if everybody who takes part in that takes part there: so a user hears in private what was
/// said in a group of theirs, and no group hears what was said elsewhere, since who listens there is not always known.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Scope {
    /// Where it will be shown.
    pub room: RoomId,
    /// To whom.
    pub entity: EntityId,
}

impl Scope {
    /// A scope of its two parts.
    pub fn new(room: RoomId, entity: EntityId) -> Self {
        Self { room, entity }
    }
}
