//! All cases of the suite.

mod documents;
mod erasure;
mod expiry;
#[cfg(feature = "faults")]
mod faults;
mod filters;
mod history;
mod lifecycle;
mod listing;
mod meaning;
mod plugin;
mod read_only;
mod reading;
mod recall;
mod spaces;
mod text;
mod watch;
mod writing;

use crate::case::Case;

/// Every case of the suite, chapter by chapter.
pub fn all() -> Vec<Case> {
    [
        lifecycle::cases(),
        read_only::cases(),
        writing::cases(),
        reading::cases(),
        spaces::cases(),
        listing::cases(),
        filters::cases(),
        documents::cases(),
        text::cases(),
        recall::cases(),
        watch::cases(),
        history::cases(),
        erasure::cases(),
        expiry::cases(),
        meaning::cases(),
        #[cfg(feature = "faults")]
        faults::cases(),
        crate::model::cases(),
        plugin::cases(),
    ]
    .concat()
}
