//! The one place that knows which engine stands behind a URL.

use std::path;
use std::sync::Arc;

use anyhow::Context as _;
use memory_core::MemoryProvider;
use memory_sqlite::{Location, SqliteConfig, SqliteMemory};
use migrations::Report;

use crate::args::DEFAULT_URL;
use crate::usage::Usage;

/// The provider that a URL names, initialised.
pub(crate) async fn open(url: &str) -> anyhow::Result<Arc<dyn MemoryProvider>> {
    let provider = SqliteMemory::open(config(url)?)?;
    provider.init().await.with_context(|| location(url))?;
    Ok(Arc::new(provider))
}

/// Brings the schema up to date.
pub(crate) async fn migrate(url: &str) -> anyhow::Result<Report> {
    memory_sqlite::migrate(&config(url)?).await.with_context(|| location(url))
}

/// What [`migrate`] would do.
pub(crate) async fn plan(url: &str) -> anyhow::Result<Report> {
    memory_sqlite::plan(&config(url)?).await.with_context(|| location(url))
}

/// Where the data lies, for people.
pub(crate) fn location(url: &str) -> String {
    match config(url).map(|config| config.location) {
        Ok(Location::File(file)) => path::absolute(&file).unwrap_or(file).display().to_string(),
        Ok(Location::Memory) => "the memory of this process".to_owned(),
        // Nothing was opened; the URL itself may hold a password.
        Err(_) => "nowhere".to_owned(),
    }
}

fn config(url: &str) -> Result<SqliteConfig, Usage> {
    SqliteConfig::from_url(url).map_err(|error| Usage(format!("--url: {}; try {DEFAULT_URL}", error.message())))
}
