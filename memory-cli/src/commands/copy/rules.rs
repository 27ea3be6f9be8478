//! Carries the retention rules along with a copy of everything.

use memory_core::{ErrorKind, MemoryProvider, Result};

use crate::progress::Progress;

/// Sets the rules of the source at a target that has none.
pub(super) async fn carry(source: &dyn MemoryProvider, target: &dyn MemoryProvider, progress: &Progress) -> Result<()> {
    let (rules, present) = (source.retention().await?, target.retention().await?);
    if rules == present {
        return Ok(());
    }
    if !present.is_empty() {
        progress.note("the target has rules of retention of its own, which stay: see agent-memory retention");
        return Ok(());
    }
    match target.set_retention(rules).await {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            progress.note("error: the target can't erase, so the rules of retention are left out");
            Ok(())
        }
        set => set,
    }
}
