//! Providers that are asked in every turn.

use std::sync::Arc;

use async_trait::async_trait;
use memory_context::state::{ContextProvider, Cx, ProviderInfo, ProviderResult};
use memory_core::Result;

/// A dynamic provider that runs without being asked for.
#[derive(Debug)]
pub(super) struct Always {
    info: ProviderInfo,
    provider: Arc<dyn ContextProvider>,
}

impl Always {
    /// Makes the one of this name run always, and leaves every other as it is.
    pub(super) fn of(name: &str, provider: &Arc<dyn ContextProvider>) -> Arc<dyn ContextProvider> {
        if provider.info().name != name {
            return Arc::clone(provider);
        }
        let mut info = provider.info().clone();
        info.dynamic = false;
        Arc::new(Self { info, provider: Arc::clone(provider) })
    }
}

#[async_trait]
impl ContextProvider for Always {
    fn info(&self) -> &ProviderInfo {
        &self.info
    }

    async fn get(&self, cx: &Cx<'_>) -> Result<ProviderResult> {
        self.provider.get(cx).await
    }
}
