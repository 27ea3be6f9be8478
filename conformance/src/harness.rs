//! What a backend implements to be tested.

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
/// For each case the runner makes a new namespace, and it removes it even when the case panics.
#[async_trait]
pub trait Harness: fmt::Debug + Send + Sync + 'static {
    /// The name of the engine in reports and test names.
    fn name(&self) -> &str;

    /// Opens a provider on the namespace, without calling `init`. Opening the same namespace again returns another handle on the same data,
    /// as a second process or a restart would.
    async fn open(&self, namespace: &Namespace) -> Result<Arc<dyn MemoryProvider>>;

    /// Removes everything that the namespace holds. Called once, even if the namespace was never opened.
    async fn remove(&self, namespace: &Namespace) -> Result<()>;

    /// Damages the row of a memory without going through a provider, so that it can't be read any more. Returns `false` if that is not
    /// possible. The cases that need it run only where [`Harness::can_damage`] is `true`.
    async fn damage(&self, namespace: &Namespace, id: MemoryId) -> Result<bool> {
        let _ = (namespace, id);
        Ok(false)
    }

    /// Whether [`Harness::damage`] works. The cases that need it are ignored otherwise.
    fn can_damage(&self) -> bool {
        false
    }

    /// Whether [`Harness::make_newer`] works. The case that needs it is ignored otherwise.
    fn can_make_newer(&self) -> bool {
        false
    }

    /// Records a migration of a later program, version 99 with the name `future`, without going through a provider. No provider is open on
    /// the namespace.
    async fn make_newer(&self, namespace: &Namespace) -> Result<()> {
        let _ = namespace;
        Ok(())
    }

    /// Whether the engine can be made read-only (L9). The cases that need it are ignored otherwise.
    fn can_be_read_only(&self) -> bool {
        true
    }

    /// Whether the engine has a feed of changes. The cases that need it are ignored otherwise.
    fn can_watch(&self) -> bool {
        true
    }

    /// Whether the engine keeps a history. If not, one case checks that it answers `Unsupported` (H6), and the other cases on histories are
    /// ignored.
    fn keeps_history(&self) -> bool {
        true
    }

    /// Whether the engine can erase. If not, the suite checks that it answers `Unsupported` (E1, X1), and the other cases on erasure and
    /// expiry are ignored.
    fn can_erase(&self) -> bool {
        true
    }

    /// Whether the engine keeps vectors beside records. If not, the suite checks that it answers `Unsupported` (M1), and the other cases on
    /// meaning are ignored.
    fn keeps_vectors(&self) -> bool {
        true
    }

    /// Whether [`Harness::drop_changes`], [`Harness::back_up`] and [`Harness::go_back`] work. The cases that need them are ignored
    /// otherwise.
    fn can_lose_changes(&self) -> bool {
        false
    }

    /// Drops every entry of the feed but the newest one, without going through a provider.
    async fn drop_changes(&self, namespace: &Namespace) -> Result<()> {
        let _ = namespace;
        Ok(())
    }

    /// Makes a backup of everything that the namespace holds. No provider is open on the namespace.
    async fn back_up(&self, namespace: &Namespace) -> Result<()> {
        let _ = namespace;
        Ok(())
    }

    /// Restores the backup, replacing everything that the namespace holds. No provider is open on the namespace.
    async fn go_back(&self, namespace: &Namespace) -> Result<()> {
        let _ = namespace;
        Ok(())
    }

    /// How to cause faults between the engine and its server. `None` if there is no server, or if it can't be reached by another URL; the
    /// cases that need it are then ignored. Requires the feature `faults`, as these cases do.
    #[cfg(feature = "faults")]
    fn faults(&self) -> Option<&dyn Faults> {
        None
    }

    /// Why there is no engine to test. If it returns `Some`, nothing is opened, and each case ends as an error if the
    /// engine is required and as unsupported otherwise. Called before every other method except [`Harness::name`], on a
    /// multi-threaded runtime; may start a server.
    fn missing(&self) -> Option<&Missing> {
        None
    }
}
