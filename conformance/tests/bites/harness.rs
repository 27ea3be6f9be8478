//! Opens broken providers.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use conformance::{Harness, Namespace};
use memory_core::{InMemory, MemoryId, MemoryProvider, Result};

use crate::broken::Broken;
use crate::flaw::Flaw;

/// A harness whose providers have one flaw.
#[derive(Debug)]
pub(crate) struct BrokenHarness {
    flaw: Flaw,
    open: Mutex<HashMap<String, InMemory>>,
    backups: Mutex<HashMap<String, InMemory>>,
    /// What all handles of [`Broken`] share.
    half: Arc<Mutex<BTreeSet<MemoryId>>>,
}

impl BrokenHarness {
    pub(crate) fn new(flaw: Flaw) -> Arc<Self> {
        Arc::new(Self { flaw, open: Mutex::default(), backups: Mutex::default(), half: Arc::default() })
    }
}

#[async_trait]
impl Harness for BrokenHarness {
    fn name(&self) -> &str {
        "broken"
    }

    async fn open(&self, namespace: &Namespace) -> Result<Arc<dyn MemoryProvider>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let name = if self.flaw == Flaw::NamespacesAreShared { "shared" } else { namespace.name.as_str() };
        if self.flaw == Flaw::LostOnReopen {
            open.remove(name);
        }
        let first = open.entry(name.to_owned()).or_default();
        let settings = namespace.settings();
        let clock = Arc::clone(&settings.clock);
        let provider = first.reopen_with(settings);
        Ok(Arc::new(Broken::new(provider, self.flaw, Arc::clone(&self.half), clock)))
    }

    async fn remove(&self, namespace: &Namespace) -> Result<()> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&namespace.name);
        Ok(())
    }
    fn can_lose_changes(&self) -> bool {
        true
    }

    async fn drop_changes(&self, namespace: &Namespace) -> Result<()> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(&namespace.name).into_iter().for_each(InMemory::drop_changes);
        Ok(())
    }

    async fn back_up(&self, namespace: &Namespace) -> Result<()> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let copy = open.get(&namespace.name).map(|data| (namespace.name.clone(), data.copy()));
        self.backups.lock().unwrap_or_else(PoisonError::into_inner).extend(copy);
        Ok(())
    }

    async fn go_back(&self, namespace: &Namespace) -> Result<()> {
        let backups = self.backups.lock().unwrap_or_else(PoisonError::into_inner);
        let copy = backups.get(&namespace.name).map(|data| (namespace.name.clone(), data.copy()));
        self.open.lock().unwrap_or_else(PoisonError::into_inner).extend(copy);
        Ok(())
    }
}
