//! `TIME`: the time.

use async_trait::async_trait;
use memory_core::Result;

use crate::providers::format::written;
use crate::state::{ContextProvider, Cx, ProviderInfo, ProviderResult};

/// Contributes the time, in UTC, to the second. It runs in every composition, without the cache.
#[derive(Debug, Clone, Copy, Default)]
pub struct Time;

static INFO: ProviderInfo = ProviderInfo::new("TIME", "The current date and time in UTC").uncached();

#[async_trait]
impl ContextProvider for Time {
    fn info(&self) -> &ProviderInfo {
        &INFO
    }

    async fn get(&self, cx: &Cx<'_>) -> Result<ProviderResult> {
        let now = cx.services().clock().now();
        let time = written(now, "%A, %B %-d, %Y at %-I:%M:%S %p UTC");
        let text = format!("The current date and time is {time}.");
        Ok(ProviderResult::text(text)
            .with_value("time", time)
            .with_data("time", written(now, "%Y-%m-%dT%H:%M:%S%.3fZ"))
            .with_data("millis", now.as_millis()))
    }
}
