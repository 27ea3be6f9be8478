//! `NONE`: doing nothing.

use async_trait::async_trait;
use memory_core::Result;

use crate::state::{Action, ActionCall, ActionInfo, ActionResult, Cx};

/// Does nothing: a model names it where the text says all.
#[derive(Debug)]
pub struct DoNothing {
    info: ActionInfo,
}

const NAME: &str = "NONE";

impl Default for DoNothing {
    fn default() -> Self {
        let mut info = ActionInfo::new(NAME, "Does nothing, where no action is called for besides what is said");
        info.similes = ["NO_ACTION", "NO_OP", "NOTHING"].map(str::to_owned).into();
        Self { info }
    }
}

#[async_trait]
impl Action for DoNothing {
    fn info(&self) -> &ActionInfo {
        &self.info
    }

    async fn validate(&self, _: &Cx<'_>) -> Result<bool> {
        Ok(true)
    }

    async fn run(&self, _: &ActionCall<'_>) -> Result<ActionResult> {
        Ok(ActionResult { action: NAME.to_owned(), success: true, ..ActionResult::default() })
    }
}
