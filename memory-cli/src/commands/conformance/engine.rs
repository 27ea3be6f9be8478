//! The engine of a URL, under test.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use conformance::fault::Faults;
use conformance::{Harness, Namespace, Reference};
use memory_core::{MemoryProvider, Result};
use memory_runtime::Sandbox;

use crate::engine::{self, REFERENCE};
use crate::usage::Usage;

/// Makes one harness per URL. A wrong URL is a mistake in the arguments.
pub(super) fn harnesses(urls: &[String]) -> std::result::Result<Vec<Arc<dyn Harness>>, Usage> {
    let mut seen = HashMap::new();
    urls.iter()
        .map(|url| {
            if url == REFERENCE {
                return Ok(Arc::new(Reference::default()) as Arc<dyn Harness>);
            }
            let address = engine::parse(url)?;
            sandbox(&Namespace::unique()).open(url).map_err(engine::refused)?;
            let engine = address.engine_name();
            let number: &mut usize = seen.entry(engine).or_default();
            *number += 1;
            let name = if *number == 1 { engine.to_owned() } else { format!("{engine}-{number}") };
            let one_host = address.to_one_host().map(|url| OneHost { url });
            let keeps_history = address.keeps_history();
            Ok(Arc::new(ByUrl { name, url: url.clone(), keeps_history, one_host }) as Arc<dyn Harness>)
        })
        .collect()
}

/// The engine of a URL, with a sandbox for each namespace.
struct ByUrl {
    name: String,
    url: String,
    keeps_history: bool,
    /// `None` if no proxy can stand before the engine.
    one_host: Option<OneHost>,
}

/// An engine whose client connects to one host, so that a proxy can stand before it.
struct OneHost {
    url: String,
}

impl fmt::Debug for ByUrl {
    /// Leaves out the URL, which may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByUrl").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for OneHost {
    /// Leaves out the URL, which may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneHost").finish_non_exhaustive()
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

    fn keeps_history(&self) -> bool {
        self.keeps_history
    }

    fn faults(&self) -> Option<&dyn Faults> {
        self.one_host.as_ref().map(|host| host as &dyn Faults)
    }
}

#[async_trait]
impl Faults for OneHost {
    fn url(&self) -> &str {
        &self.url
    }

    async fn open(&self, url: &str, namespace: &Namespace) -> Result<Arc<dyn MemoryProvider>> {
        sandbox(namespace).open(url)
    }
}

fn sandbox(namespace: &Namespace) -> Sandbox {
    Sandbox {
        name: namespace.name.clone(),
        clock: Arc::<memory_core::ManualClock>::clone(&namespace.clock),
        deadline: namespace.deadline,
        history: namespace.history.clone(),
    }
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
}
