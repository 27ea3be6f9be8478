//! How long the text of a state may be.

use std::fmt;
use std::sync::Arc;

/// The most that the text of a state may take.
#[derive(Clone)]
pub struct Budget {
    pub(super) limit: usize,
    pub(super) count: Arc<dyn Fn(&str) -> usize + Send + Sync>,
}

impl Budget {
    /// At most so many bytes.
    pub fn bytes(limit: usize) -> Self {
        Self::counted(limit, str::len)
    }

    /// At most so many tokens, or whatever a function counts. The sum over the sections and what stands between them counts.
    pub fn counted(limit: usize, count: impl Fn(&str) -> usize + Send + Sync + 'static) -> Self {
        Self { limit, count: Arc::new(count) }
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Budget({})", self.limit)
    }
}
