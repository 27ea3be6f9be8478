//! Chapters V and W: which values are valid, and what writes do.

mod dropped;
mod fresh;
mod restore;
mod store;
mod update;
mod values;

use crate::case::Case;

/// The cases of these chapters.
pub(crate) fn cases() -> Vec<Case> {
    [values::cases(), store::cases(), fresh::cases(), update::cases(), dropped::cases(), restore::cases()].concat()
}
