//! The audience of a read.

use serde::{Deserialize, Serialize};

use super::{EntityId, RoomId};

/// The room and the entity that a read of records is for. Each read names an audience, and the host vouches for it.
///
/// Records of the room itself may be shown. Records of another room may be shown only in a direct conversation, and only if all its
/// participants are also participants of the other room. So a user can hear in private what was said in a shared group, but no group
/// hears what was said elsewhere, since it is not always known who listens in a group.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Audience {
    /// The room in which the records are shown.
    pub room: RoomId,
    /// The entity to which they are shown.
    pub entity: EntityId,
}

impl Audience {
    /// Makes the audience of an entity in a room.
    pub fn new(room: RoomId, entity: EntityId) -> Self {
        Self { room, entity }
    }
}
