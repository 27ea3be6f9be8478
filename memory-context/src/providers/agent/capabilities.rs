//! `CAPABILITIES`: the services of the host.

use async_trait::async_trait;
use memory_core::Result;
use serde_json::{Value, json};

use crate::providers::format::section;
use crate::state::{ContextProvider, Cx, ProviderInfo, ProviderResult, Stability};

/// Contributes the services of the host with their descriptions.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::providers) struct Capabilities;

static INFO: ProviderInfo = ProviderInfo::new("CAPABILITIES", "What the services of the agent make possible")
    .priority(30)
    .stability(Stability::Stable);

#[async_trait]
impl ContextProvider for Capabilities {
    fn info(&self) -> &ProviderInfo {
        &INFO
    }

    async fn get(&self, cx: &Cx<'_>) -> Result<ProviderResult> {
        let services = cx.services().services();
        if services.is_empty() {
            return Ok(ProviderResult::default());
        }
        let lines: Vec<_> = services.iter().map(|it| format!("{} - {}", it.name(), it.description())).collect();
        let capability = |(name, description)| json!({ "name": name, "description": description });
        let data: Vec<Value> = services.iter().map(|it| capability((it.name(), it.description()))).collect();
        let text = section(&format!("{}'s Capabilities", cx.services().character().name), &lines.join("\n"));
        Ok(ProviderResult::text(text).with_data("capabilities", data))
    }
}
