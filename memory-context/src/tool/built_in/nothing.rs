//! `NONE`: doing nothing.

use std::future::ready;

use crate::tool::Tool;

/// Does nothing: a model names it where the text says all.
pub(super) fn tool() -> Tool {
    let tool = Tool::new("NONE", |(), _| ready(Ok(())))
        .with_description("Does nothing, where no action is called for besides what is said")
        .repeatable();
    ["NO_ACTION", "NO_OP", "NOTHING"].into_iter().fold(tool, Tool::with_simile)
}
