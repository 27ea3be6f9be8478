//! The collection of the keepers' own documents: their positions, and the ids of records whose texts a model refused.

use crate::{Collection, RecordId, Result, SpaceId};

pub(super) const COLLECTION: &str = "_embed";

/// The collection of the keepers' documents.
pub(super) fn collection() -> Result<Collection> {
    Collection::parse(COLLECTION)
}

/// The space of the keepers' positions.
pub(super) fn space() -> Result<SpaceId> {
    SpaceId::parse(COLLECTION)
}

/// Whether a record is a document of a keeper.
pub(super) fn is_own(id: &RecordId) -> bool {
    matches!(id, RecordId::Document { collection, .. } if collection.as_str() == COLLECTION)
}
