//! `PROVIDERS`: the dynamic providers that a model can request.

use async_trait::async_trait;
use memory_core::Result;

use crate::providers::format::{json, section};
use crate::state::{ContextProvider, Cx, ProviderInfo, ProviderResult, Stability};

/// Contributes the names and descriptions of the dynamic providers. Private ones are not shown.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::providers) struct Providers;

static INFO: ProviderInfo = ProviderInfo::new("PROVIDERS", "The providers that the agent can ask for by name")
    .priority(40)
    .stability(Stability::Stable);

#[async_trait]
impl ContextProvider for Providers {
    fn info(&self) -> &ProviderInfo {
        &INFO
    }

    async fn get(&self, cx: &Cx<'_>) -> Result<ProviderResult> {
        let all: Vec<_> = cx.providers().collect();
        let shown: Vec<_> = all.iter().copied().filter(|info| !info.private).collect();
        let dynamic: Vec<_> = shown.iter().copied().filter(|info| info.dynamic).collect();
        let text = section("Providers", &lines(&dynamic));
        Ok(ProviderResult::text(text)
            .with_value("providersWithDescriptions", section("Providers", &lines(&shown)))
            .with_data("dynamicProviders", json(&dynamic)?)
            .with_data("allProviders", json(&all)?))
    }
}

fn lines(infos: &[&ProviderInfo]) -> String {
    let lines = infos.iter().map(|info| format!("- **{}**: {}", info.name, info.description));
    lines.collect::<Vec<_>>().join("\n")
}
