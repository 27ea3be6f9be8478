//! The actor of a version.

use crate::id::{check_text, checked_string};

checked_string! {
    /// The actor who makes a change: 1 to 256 bytes without control characters, such as the name of a token or a run.
    /// The host sets it; a caller's patch or document can't (H7).
    Actor, |text| check_text("an actor", text, 256)
}
