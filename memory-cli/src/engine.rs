//! The engine that stands behind a URL, and how errors name it.

use std::path;
use std::sync::Arc;

use anyhow::Context as _;
use memory_core::{DEFAULT_DEADLINE, Inspection, MemoryId, MemoryProvider, SystemClock, TextIndex};
use memory_runtime::Sandbox;
use migrations::Report;
use percent_encoding::percent_decode_str;

use crate::usage::Usage;

/// Where the memory is kept unless the caller says otherwise.
pub(crate) const DEFAULT_URL: &str = "sqlite://data/memory.db";
/// What stands for the reference where a URL is expected.
pub(crate) const REFERENCE: &str = "memory:";

/// The provider that a URL names, initialised.
pub(crate) async fn open(url: &str) -> anyhow::Result<Arc<dyn MemoryProvider>> {
    let provider = provider(url)?;
    provider.init().await.with_context(|| location(url))?;
    Ok(provider)
}

/// Brings the schema up to date.
pub(crate) async fn migrate(url: &str) -> anyhow::Result<Report> {
    provider(url)?;
    memory_runtime::migrate(url).await.with_context(|| location(url))
}

/// What [`migrate`] would do.
pub(crate) async fn plan(url: &str) -> anyhow::Result<Report> {
    provider(url)?;
    memory_runtime::plan(url).await.with_context(|| location(url))
}

/// What of the schema is missing, and what time it is at the server.
pub(crate) async fn inspect(url: &str) -> anyhow::Result<Inspection> {
    memory_runtime::inspect(url).await.with_context(|| location(url))
}

/// A place beside what a URL names that nobody else has, with the usual settings.
pub(crate) fn sandbox(purpose: &str) -> Sandbox {
    let name = format!("{purpose}_{}", MemoryId::generate().to_string().replace('-', ""));
    let (text_index, deadline) = (TextIndex::Documents, DEFAULT_DEADLINE);
    Sandbox { name, clock: Arc::new(SystemClock), text_index, deadline }
}

/// Where the data lies, for people: what a valid URL says of it, without credentials and parameters.
pub(crate) fn location(url: &str) -> String {
    let (address, _) = url.split_once('?').unwrap_or((url, ""));
    let decode = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
    match address.strip_prefix("sqlite:").map(|path| path.strip_prefix("//").unwrap_or(path)) {
        Some(":memory:") => "the memory of this process".to_owned(),
        Some(file) => {
            let file = path::PathBuf::from(decode(file));
            path::absolute(&file).unwrap_or(file).display().to_string()
        }
        None => {
            let (scheme, server) = address.split_once("://").unwrap_or_default();
            let engine = match scheme {
                scheme if scheme.starts_with("mongodb") => "MongoDB",
                scheme if scheme.starts_with("redis") => "Redis",
                _ => "PostgreSQL",
            };
            let (_, server) = server.rsplit_once('@').unwrap_or(("", server));
            let host = if server.is_empty() || server.starts_with('/') { "localhost" } else { "" };
            format!("{engine} at {host}{}", decode(server))
        }
    }
}

/// The provider, untouched. A URL that is wrong is a mistake in the arguments, unlike an engine that can't be reached.
pub(crate) fn provider(url: &str) -> Result<Arc<dyn MemoryProvider>, Usage> {
    memory_runtime::open(url).map_err(|error| Usage(format!("--url: {}; see --help", error.message())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_holds_no_credentials() {
        for (url, expected) in [
            ("sqlite:///var/a%20b.db?readers=2", "/var/a b.db"),
            ("sqlite::memory:", "the memory of this process"),
            ("postgres://app:p%40ss@db1,db2:5433/agents?namespace=n", "PostgreSQL at db1,db2:5433/agents"),
            ("postgresql://app@%2Frun%2Fpg/agents", "PostgreSQL at /run/pg/agents"),
            ("postgres://app:1/2@host/agents", "PostgreSQL at host/agents"),
            ("postgres:///agents", "PostgreSQL at localhost/agents"),
            ("postgres://", "PostgreSQL at localhost"),
            ("mongodb://app:secret@db1,db2:27018/agents?tls=true", "MongoDB at db1,db2:27018/agents"),
            ("rediss://app:p%40ss@db:6380/2?namespace=n", "Redis at db:6380/2"),
            ("redis+cluster://:p@a,b", "Redis at a,b"),
        ] {
            assert_eq!(location(url), expected);
        }
    }
}
