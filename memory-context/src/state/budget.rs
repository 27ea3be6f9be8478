//! The size limit of a state's text.

use std::fmt;
use std::sync::Arc;

/// The size limit of a state's text, in bytes, tokens or another unit.
#[derive(Clone)]
pub struct Budget {
    pub(super) limit: usize,
    pub(super) count: Arc<dyn Fn(&str) -> usize + Send + Sync>,
}

impl Budget {
    /// Makes a limit in bytes.
    pub fn bytes(limit: usize) -> Self {
        Self::counted(limit, str::len)
    }

    /// Makes a limit in tokens, or in any unit that `count` measures. The size of a text is the sum of the counts of its sections and of
    /// the separators between them.
    pub fn counted(limit: usize, count: impl Fn(&str) -> usize + Send + Sync + 'static) -> Self {
        Self { limit, count: Arc::new(count) }
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Budget({})", self.limit)
    }
}
