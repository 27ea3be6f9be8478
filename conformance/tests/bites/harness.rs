//! Opens broken providers.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use conformance::{Harness, Namespace};
use memory_core::{InMemory, MemoryId, MemoryProvider, Result, TransientKeys};

use crate::broken::Broken;
use crate::flaw::Flaw;

/// A harness whose providers have one flaw.
#[derive(Debug)]
pub(crate) struct BrokenHarness {
    flaw: Flaw,
    open: Mutex<HashMap<String, InMemory>>,
    backups: Mutex<HashMap<String, InMemory>>,
    shared: Arc<Shared>,
}

/// The state that all handles of a broken harness share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Memories that are written without their contexts so far, for [`Flaw::DroppedUpdateIsHalf`] and [`Flaw::DroppedRestoreIsHalf`].
    half: Mutex<BTreeSet<MemoryId>>,
    /// Memories that can't be read any more.
    damaged: Mutex<BTreeSet<MemoryId>>,
    /// The namespaces that a later program has used.
    newer: Mutex<BTreeSet<String>>,
}

impl Shared {
    /// The memories that are written without their contexts so far.
    pub(crate) fn half(&self) -> MutexGuard<'_, BTreeSet<MemoryId>> {
        locked(&self.half)
    }

    pub(crate) fn is_damaged(&self, id: MemoryId) -> bool {
        locked(&self.damaged).contains(&id)
    }

    pub(crate) fn has_damage(&self) -> bool {
        !locked(&self.damaged).is_empty()
    }
}

impl BrokenHarness {
    pub(crate) fn new(flaw: Flaw) -> Arc<Self> {
        Arc::new(Self { flaw, open: Mutex::default(), backups: Mutex::default(), shared: Arc::default() })
    }
}

#[async_trait]
impl Harness for BrokenHarness {
    fn name(&self) -> &str {
        "broken"
    }

    async fn open(&self, namespace: &Namespace) -> Result<Arc<dyn MemoryProvider>> {
        let mut open = locked(&self.open);
        let name = if self.flaw == Flaw::NamespacesAreShared { "shared" } else { namespace.name.as_str() };
        if self.flaw == Flaw::LostOnReopen {
            open.remove(name);
        }
        let first = open.entry(name.to_owned()).or_default();
        let mut settings = namespace.settings();
        match self.flaw {
            Flaw::HistoryIsKeptUnasked => settings.history.is_kept = None,
            Flaw::TransientMembersMakeVersions => settings.history.transient = TransientKeys::default(),
            _ => {}
        }
        let clock = Arc::clone(&settings.clock);
        let is_newer = self.flaw != Flaw::NewerSchemaIsTaken && locked(&self.shared.newer).contains(name);
        let provider = first.reopen_with(settings);
        Ok(Arc::new(Broken::new(provider, self.flaw, Arc::clone(&self.shared), is_newer, clock)))
    }

    async fn remove(&self, namespace: &Namespace) -> Result<()> {
        locked(&self.open).remove(&namespace.name);
        Ok(())
    }

    fn can_damage(&self) -> bool {
        true
    }

    async fn damage(&self, _: &Namespace, id: MemoryId) -> Result<bool> {
        Ok(locked(&self.shared.damaged).insert(id))
    }

    fn can_make_newer(&self) -> bool {
        true
    }

    async fn make_newer(&self, namespace: &Namespace) -> Result<()> {
        locked(&self.shared.newer).insert(namespace.name.clone());
        Ok(())
    }

    fn can_lose_changes(&self) -> bool {
        true
    }

    async fn drop_changes(&self, namespace: &Namespace) -> Result<()> {
        let open = locked(&self.open);
        open.get(&namespace.name).into_iter().for_each(InMemory::drop_changes);
        Ok(())
    }

    async fn back_up(&self, namespace: &Namespace) -> Result<()> {
        let open = locked(&self.open);
        let copy = open.get(&namespace.name).map(|data| (namespace.name.clone(), data.copy()));
        locked(&self.backups).extend(copy);
        Ok(())
    }

    async fn go_back(&self, namespace: &Namespace) -> Result<()> {
        let backups = locked(&self.backups);
        let copy = backups.get(&namespace.name).map(|data| (namespace.name.clone(), data.copy()));
        locked(&self.open).extend(copy);
        Ok(())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
