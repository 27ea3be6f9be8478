//! The engine that stands behind a URL, and how errors name it.

use std::sync::Arc;

use anyhow::Context as _;
use memory_core::{DEFAULT_DEADLINE, Error, HistorySettings, Inspection, MemoryId, MemoryProvider, SystemClock};
use memory_runtime::{EngineUrl, Sandbox};
use migrations::Report;

use crate::usage::Usage;

/// Where the memory is kept unless the caller says otherwise.
pub(crate) const DEFAULT_URL: &str = "sqlite://data/memory.db";
/// What stands for the reference where a URL is expected.
#[cfg(any(feature = "bench", feature = "suite"))]
pub(crate) const REFERENCE: &str = "memory:";

/// The provider that a URL names, initialised.
pub(crate) async fn open(url: &str) -> anyhow::Result<Arc<dyn MemoryProvider>> {
    let (address, provider) = (parse(url)?, provider(url)?);
    provider.init().await.with_context(|| address.location())?;
    Ok(provider)
}

/// Brings the schema up to date.
pub(crate) async fn migrate(url: &str) -> anyhow::Result<Report> {
    provider(url)?;
    let address = parse(url)?;
    memory_runtime::migrate(url).await.with_context(|| address.location())
}

/// What [`migrate`] would do.
pub(crate) async fn plan(url: &str) -> anyhow::Result<Report> {
    provider(url)?;
    let address = parse(url)?;
    memory_runtime::plan(url).await.with_context(|| address.location())
}

/// What of the schema is missing, and what time it is at the server.
pub(crate) async fn inspect(url: &str) -> anyhow::Result<Inspection> {
    let address = parse(url)?;
    memory_runtime::inspect(url).await.with_context(|| address.location())
}

/// A place beside what a URL names that nobody else has, with the usual settings.
pub(crate) fn sandbox(purpose: &str) -> Sandbox {
    let name = format!("{purpose}_{}", MemoryId::generate().to_string().replace('-', ""));
    let (clock, history) = (Arc::new(SystemClock), HistorySettings::default());
    Sandbox { name, clock, deadline: DEFAULT_DEADLINE, history }
}

/// The provider, untouched.
pub(crate) fn provider(url: &str) -> Result<Arc<dyn MemoryProvider>, Usage> {
    memory_runtime::open(url).map_err(refused)
}

/// What a URL says without its engine.
pub(crate) fn parse(url: &str) -> Result<EngineUrl<'_>, Usage> {
    EngineUrl::parse(url).map_err(refused)
}

/// A URL that is wrong is a mistake in the arguments, unlike an engine that can't be reached.
pub(crate) fn refused(error: Error) -> Usage {
    Usage(format!("--url: {}; see --help", error.message()))
}
