//! The in-memory provider as an engine under test.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use memory_core::{InMemory, MemoryProvider, Result};

use crate::harness::Harness;
use crate::namespace::Namespace;

/// The harness of [`InMemory`], which needs neither files nor servers.
#[derive(Debug, Default)]
pub struct Reference {
    open: Mutex<HashMap<String, InMemory>>,
    backups: Mutex<HashMap<String, InMemory>>,
}

#[async_trait]
impl Harness for Reference {
    fn name(&self) -> &str {
        "in-memory"
    }

    async fn open(&self, namespace: &Namespace) -> Result<Arc<dyn MemoryProvider>> {
        let mut open = locked(&self.open);
        let first = open.entry(namespace.name.clone()).or_default();
        Ok(Arc::new(first.reopen_with(namespace.settings())))
    }

    async fn remove(&self, namespace: &Namespace) -> Result<()> {
        locked(&self.open).remove(&namespace.name);
        locked(&self.backups).remove(&namespace.name);
        Ok(())
    }

    fn can_lose_changes(&self) -> bool {
        true
    }

    async fn drop_changes(&self, namespace: &Namespace) -> Result<()> {
        locked(&self.open).get(&namespace.name).into_iter().for_each(InMemory::drop_changes);
        Ok(())
    }

    async fn back_up(&self, namespace: &Namespace) -> Result<()> {
        let copy = locked(&self.open).get(&namespace.name).map(InMemory::copy);
        locked(&self.backups).extend(copy.map(|copy| (namespace.name.clone(), copy)));
        Ok(())
    }

    async fn go_back(&self, namespace: &Namespace) -> Result<()> {
        let backup = locked(&self.backups).get(&namespace.name).map(InMemory::copy);
        locked(&self.open).extend(backup.map(|backup| (namespace.name.clone(), backup)));
        Ok(())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
