//! `PROMPT_MEMORY`: the agent's texts about its user and its work.

use async_trait::async_trait;
use memory_core::Result;

use crate::prompt::MemoryLoadContext;
use crate::state::{ContextProvider, Cx, ProviderInfo, ProviderResult, Stability};

/// Contributes the prompt memory of the conversation, at the beginning of the prompt. It has its own budget.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::providers) struct Prefetch;

static INFO: ProviderInfo = ProviderInfo::new("PROMPT_MEMORY", "What the agent keeps about the user and the work")
    .position(-10)
    .priority(95)
    .stability(Stability::Stable)
    .uncached();

#[async_trait]
impl ContextProvider for Prefetch {
    fn info(&self) -> &ProviderInfo {
        &INFO
    }

    async fn get(&self, cx: &Cx<'_>) -> Result<ProviderResult> {
        let services = cx.services();
        let Some(memory) = services.prompt_memory() else { return Ok(ProviderResult::default()) };
        let known = memory.prefetch(&MemoryLoadContext::of(services.records().agent(), cx.message())).await?;
        let content = known.map(|known| known.content).unwrap_or_default();
        Ok(ProviderResult::text(content.clone()).with_value("promptMemory", content).with_value("canRemember", true))
    }
}
