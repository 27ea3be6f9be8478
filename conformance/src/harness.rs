//! What a backend gives to be tested.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{MemoryId, MemoryProvider, Result};

#[cfg(feature = "faults")]
use crate::fault::Faults;
use crate::namespace::Namespace;
use crate::server::Missing;

/// An engine under test.
///
/// The runner opens a namespace of its own for each case and always removes it, also after a panic.
#[async_trait]
pub trait Harness: fmt::Debug + Send + Sync + 'static {
    /// The name that the cases are reported under.
    fn name(&self) -> &str;

    /// A provider over the namespace, not initialised. Opening the same namespace again is another handle on the same
    /// data, as a second process or a restart has it.
    async fn open(&self, namespace: &Namespace) -> Result<Arc<dyn MemoryProvider>>;

    /// Removes all that the namespace holds. Called once, also when it was never opened.
    async fn remove(&self, namespace: &Namespace) -> Result<()>;

    /// Damages the row of a memory behind the provider's back, so that it can't be read any more. `false` where that
    /// can't be done: the cases that need it are then reported as ignored.
    async fn damage(&self, namespace: &Namespace, id: MemoryId) -> Result<bool> {
        let _ = (namespace, id);
        Ok(false)
    }

    /// Whether [`Harness::damage`] works.
    fn can_damage(&self) -> bool {
        false
    }

    /// Whether [`Harness::make_newer`] works.
    fn can_make_newer(&self) -> bool {
        false
    }

    /// Leaves, behind the provider's back, what a later program would have: a migration to the version 99 with the name `future`. No provider is
    /// open on the namespace.
    async fn make_newer(&self, namespace: &Namespace) -> Result<()> {
        let _ = namespace;
        Ok(())
    }

    /// Whether the engine can be made read-only. The cases that need it are ignored otherwise.
    fn can_be_read_only(&self) -> bool {
        true
    }

    /// Whether the engine has a feed of changes. The cases that need it are ignored otherwise.
    fn can_watch(&self) -> bool {
        true
    }

    /// Whether the engine keeps a history. Where it does not, the suite expects that it says so (H6), and the other cases on histories are ignored.
    fn keeps_history(&self) -> bool {
        true
    }

    /// Whether the engine can erase. Where it can't, the suite expects that it says so (E1, X1), and the other cases on erasures and on expiry are
    /// ignored.
    fn can_erase(&self) -> bool {
        true
    }

    /// Whether the engine keeps vectors beside records. Where it does not, the suite expects that it says so (M1), and the other cases on meaning
    /// are ignored.
    fn keeps_vectors(&self) -> bool {
        true
    }

    /// Whether [`Harness::drop_changes`], [`Harness::back_up`] and [`Harness::go_back`] work.
    fn can_lose_changes(&self) -> bool {
        false
    }

    /// Drops what the feed keeps, but for its newest entry, behind the provider's back.
    async fn drop_changes(&self, namespace: &Namespace) -> Result<()> {
        let _ = namespace;
        Ok(())
    }

    /// Makes a backup of all that the namespace holds. No provider is open on it.
    async fn back_up(&self, namespace: &Namespace) -> Result<()> {
        let _ = namespace;
        Ok(())
    }

    /// Puts the backup in the place of what the namespace holds. No provider is open on it.
    async fn go_back(&self, namespace: &Namespace) -> Result<()> {
        let _ = namespace;
        Ok(())
    }

    /// How to bring trouble between the engine and its server. `None` where there is no server, or where it can't be
    /// reached by another URL: the cases that need it are then reported as ignored. Needs the feature `faults`, as these cases do.
    #[cfg(feature = "faults")]
    fn faults(&self) -> Option<&dyn Faults> {
        None
    }

    /// Why there is no engine to test: then nothing is opened, and each case is an error if the engine is required and unsupported
    /// otherwise. Asked before anything else, on a multi-threaded runtime; may start a server.
    fn missing(&self) -> Option<&Missing> {
        None
    }
}
