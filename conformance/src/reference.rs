//! The reference provider as an engine under test.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use memory_core::{Clock, InMemory, MemoryProvider, Result};

use crate::harness::Harness;
use crate::namespace::Namespace;

/// The harness of [`InMemory`], the one engine that the suite has at hand.
#[derive(Debug, Default)]
pub struct Reference {
    open: Mutex<HashMap<String, InMemory>>,
}

#[async_trait]
impl Harness for Reference {
    fn name(&self) -> &str {
        "in-memory"
    }

    async fn open(&self, namespace: &Namespace) -> Result<Arc<dyn MemoryProvider>> {
        let clock = Arc::clone(&namespace.clock) as Arc<dyn Clock>;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let first = open.entry(namespace.name.clone()).or_default();
        Ok(Arc::new(first.reopen(clock, namespace.deadline)))
    }

    async fn remove(&self, namespace: &Namespace) -> Result<()> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&namespace.name);
        Ok(())
    }
}
