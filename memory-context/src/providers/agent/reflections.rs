//! `REFLECTIONS`: the agent's reflections on the room.

use async_trait::async_trait;
use memory_core::Result;

use crate::providers::format::{indented, json, minute, section};
use crate::state::{ContextProvider, Cx, ProviderInfo, ProviderResult, Stability};

/// Contributes the last reflections of the agent on the room.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::providers) struct Hindsight;

static INFO: ProviderInfo =
    ProviderInfo::new("REFLECTIONS", "What the agent thinks of how it did in this conversation")
        .dynamic()
        .priority(35)
        .stability(Stability::Stable);

/// How many of the newest reflections are shown.
const COUNT: usize = 3;

#[async_trait]
impl ContextProvider for Hindsight {
    fn info(&self) -> &ProviderInfo {
        &INFO
    }

    async fn get(&self, cx: &Cx<'_>) -> Result<ProviderResult> {
        let mut newest = cx.services().records().reflections().newest(&cx.audience(), COUNT).await?;
        newest.reverse();
        let lines: Vec<_> =
            newest.iter().map(|one| format!("- [{}] {}", minute(one.created_at), indented(&one.text))).collect();
        let heading = format!("How {} did before", cx.services().character().name);
        let text = section(&heading, &lines.join("\n"));
        Ok(ProviderResult::text(text.clone()).with_value("reflections", text).with_data("reflections", json(&newest)?))
    }
}
