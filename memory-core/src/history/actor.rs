//! Who made a version.

use crate::id::{check_text, checked_string};

checked_string! {
    /// Who makes a change: 1 to 256 bytes without control characters, such as the name of a token or of a run. The host says who it is; what
    /// a caller sends as a patch or a document can't (H7).
    Actor, |text| check_text("an actor", text, 256)
}
