//! The engine of a URL, under test.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use conformance::fault::Faults;
use conformance::{Harness, Namespace, Reference};
use memory_core::{MemoryProvider, Result};
use memory_runtime::Sandbox;

use crate::engine::REFERENCE;
use crate::usage::Usage;

/// One harness for each URL. A URL that is wrong is a mistake in the arguments.
pub(super) fn harnesses(urls: &[String]) -> std::result::Result<Vec<Arc<dyn Harness>>, Usage> {
    let mut seen = HashMap::new();
    urls.iter()
        .map(|url| {
            if url == REFERENCE {
                return Ok(Arc::new(Reference::default()) as Arc<dyn Harness>);
            }
            sandbox(&Namespace::unique())
                .open(url)
                .map_err(|error| Usage(format!("--url: {}; see --help", error.message())))?;
            let scheme = match url.split([':', '+']).next().unwrap_or_default() {
                "postgresql" => "postgres",
                "mongodb" => "mongo",
                scheme => scheme,
            };
            let number: &mut usize = seen.entry(scheme).or_default();
            *number += 1;
            let name = if *number == 1 { scheme.to_owned() } else { format!("{scheme}-{number}") };
            Ok(Arc::new(ByUrl { name, url: url.clone() }) as Arc<dyn Harness>)
        })
        .collect()
}

/// The engine of a URL, each namespace in a place of its own.
struct ByUrl {
    name: String,
    url: String,
}

impl fmt::Debug for ByUrl {
    /// Without the URL, which may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByUrl").field("name", &self.name).finish_non_exhaustive()
    }
}

#[async_trait]
impl Harness for ByUrl {
    fn name(&self) -> &str {
        &self.name
    }

    async fn open(&self, namespace: &Namespace) -> Result<Arc<dyn MemoryProvider>> {
        sandbox(namespace).open(&self.url)
    }

    async fn remove(&self, namespace: &Namespace) -> Result<()> {
        sandbox(namespace).remove(&self.url).await
    }

    fn faults(&self) -> Option<&dyn Faults> {
        has_one_plain_host(&self.url).then_some(self)
    }
}

#[async_trait]
impl Faults for ByUrl {
    fn url(&self) -> &str {
        &self.url
    }

    async fn open(&self, url: &str, namespace: &Namespace) -> Result<Arc<dyn MemoryProvider>> {
        if url.starts_with("mongodb:") && !url.contains("directConnection=true") {
            // The driver would look up the members of the set otherwise, and go around the proxy.
            let separator = if url.contains('?') { "&" } else { "?" };
            return sandbox(namespace).open(&format!("{url}{separator}directConnection=true"));
        }
        sandbox(namespace).open(url)
    }
}

fn sandbox(namespace: &Namespace) -> Sandbox {
    Sandbox {
        name: namespace.name.clone(),
        clock: Arc::<memory_core::ManualClock>::clone(&namespace.clock),
        text_index: namespace.text_index,
        deadline: namespace.deadline,
    }
}

/// Whether a proxy can stand before the server of a URL: not before several, not before a socket, and not where TLS looks at
/// the name of the host.
fn has_one_plain_host(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    let (address, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = address.split('/').next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let is_plain = !host.is_empty() && !host.contains([',', '%']);
    let has_tls = scheme.ends_with("rediss")
        || scheme.ends_with("+srv")
        || parameters.contains("ssl")
        || parameters.contains("tls");
    scheme != "sqlite" && is_plain && !has_tls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_told_apart() {
        let urls = ["memory:", "sqlite://a.db", "sqlite://b.db"].map(str::to_owned);
        let names: Vec<_> = harnesses(&urls).expect("valid").iter().map(|harness| harness.name().to_owned()).collect();
        assert_eq!(names, ["in-memory", "sqlite", "sqlite-2"]);
        let refused = harnesses(&["sqlite::memory:".to_owned()]).expect_err("one handle only");
        assert!(refused.0.contains("memory"), "{refused}");
    }

    #[test]
    fn a_proxy_stands_before_one_plain_host() {
        for (url, expected) in [
            ("postgres://app:p%40ss@db/agents", true),
            ("postgres://db:5433/agents?namespace=n", true),
            ("postgres://db1,db2/agents", false),
            ("postgres://app@%2Frun%2Fpg/agents", false),
            ("postgres:///agents", false),
            ("postgres://db/agents?sslmode=require", false),
            ("sqlite://data/memory.db", false),
        ] {
            assert_eq!(has_one_plain_host(url), expected, "{url}");
        }
    }
}
