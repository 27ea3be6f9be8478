//! `NONE`: doing nothing.

use std::future::ready;

use crate::tool::Tool;

/// The tool does nothing. A model names it if its text is all that is needed.
pub(super) fn tool() -> Tool {
    let tool = Tool::new("NONE", |(), _| ready(Ok(())))
        .with_description("Does nothing, where no action is called for besides what is said")
        .repeatable();
    ["NO_ACTION", "NO_OP", "NOTHING"].into_iter().fold(tool, Tool::with_simile)
}
