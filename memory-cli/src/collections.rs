//! The collections that belong to a database itself, and stay behind when its records are copied.

use memory_core::{Collection, VectorKeeper};

/// The collection of the mark by which a target knows how far it has followed its source.
pub(crate) const MARK_COLLECTION: &str = "_follow";

/// Whether a collection is part of copies and exports. Marks and the notes of a vector keeper belong to their own database.
pub(crate) fn is_copied(collection: &Collection) -> bool {
    ![MARK_COLLECTION, VectorKeeper::COLLECTION].contains(&collection.as_str())
}
