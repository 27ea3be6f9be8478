//! The source of an agent's memory: a URL or a provider.

use std::sync::Arc;

use memory_core::MemoryProvider;

/// The memory of an agent: a URL that `memory_runtime::open` takes, such as `sqlite://agent.db`, or a provider.
///
/// An agent opens a provider for a URL, and closes it at the shutdown. It initialises a provider that it is given, but does not close it,
/// since others may hold it.
#[derive(Clone)]
pub struct MemorySource(pub(super) Source);

#[derive(Clone)]
pub(super) enum Source {
    Url(String),
    Provider(Arc<dyn MemoryProvider>),
}

impl From<&str> for MemorySource {
    fn from(url: &str) -> Self {
        Self(Source::Url(url.to_owned()))
    }
}

impl From<String> for MemorySource {
    fn from(url: String) -> Self {
        Self(Source::Url(url))
    }
}

impl From<Arc<dyn MemoryProvider>> for MemorySource {
    fn from(provider: Arc<dyn MemoryProvider>) -> Self {
        Self(Source::Provider(provider))
    }
}

impl<P: MemoryProvider> From<Arc<P>> for MemorySource {
    fn from(provider: Arc<P>) -> Self {
        Self(Source::Provider(provider))
    }
}

impl std::fmt::Debug for MemorySource {
    /// Leaves out the URL, which may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            Source::Url(_) => "MemorySource(a URL)",
            Source::Provider(_) => "MemorySource(a provider)",
        })
    }
}
