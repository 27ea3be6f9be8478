//! On whose behalf records are read.

use serde::{Deserialize, Serialize};

use super::{EntityId, RoomId};

/// In which room something is read, and on whose behalf: each read of records names one, and the host vouches for it.
///
/// What is known from the room itself may be shown there. What is known from another room may be shown only if everybody
/// who takes part here takes part there: so a user hears in a direct message what was said in a group of theirs, and the
/// group does not hear what the user said in private.
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
