//! Opens the engine of a URL, with errors that name its location.

use std::sync::Arc;

use anyhow::Context as _;
use memory_core::{DEFAULT_DEADLINE, Error, HistorySettings, Inspection, MemoryId, MemoryProvider, SystemClock};
use memory_runtime::{EngineUrl, Sandbox};
use migrations::Report;

use crate::usage::Usage;

/// The URL of the database unless one is given.
pub(crate) const DEFAULT_URL: &str = "sqlite://data/memory.db";
/// The URL that stands for the reference engine.
#[cfg(any(feature = "bench", feature = "suite"))]
pub(crate) const REFERENCE: &str = "memory:";

/// Opens and initialises the provider that a URL names.
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

/// Returns the steps that [`migrate`] would take.
pub(crate) async fn plan(url: &str) -> anyhow::Result<Report> {
    provider(url)?;
    let address = parse(url)?;
    memory_runtime::plan(url).await.with_context(|| address.location())
}

/// Returns what is missing in the schema, and the server's time.
pub(crate) async fn inspect(url: &str) -> anyhow::Result<Inspection> {
    let address = parse(url)?;
    memory_runtime::inspect(url).await.with_context(|| address.location())
}

/// Makes a sandbox with a unique name and the usual settings.
pub(crate) fn sandbox(purpose: &str) -> Sandbox {
    let name = format!("{purpose}_{}", MemoryId::generate().to_string().replace('-', ""));
    let (clock, history) = (Arc::new(SystemClock), HistorySettings::default());
    Sandbox { name, clock, deadline: DEFAULT_DEADLINE, history }
}

/// Makes the provider without initialising it.
pub(crate) fn provider(url: &str) -> Result<Arc<dyn MemoryProvider>, Usage> {
    memory_runtime::open(url).map_err(refused)
}

/// Parses a URL without its engine.
pub(crate) fn parse(url: &str) -> Result<EngineUrl<'_>, Usage> {
    EngineUrl::parse(url).map_err(refused)
}

/// Reports a wrong URL as a mistake in the arguments, unlike an engine that can't be reached.
pub(crate) fn refused(error: Error) -> Usage {
    Usage(format!("--url: {}; see --help", error.message()))
}
