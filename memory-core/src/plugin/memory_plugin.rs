//! The standard memory plugin: the same three verbs on every engine.

use std::sync::Arc;

use async_trait::async_trait;

use super::add_document::AddDocument;
use super::ledger::ReadOnlyLedger;
use super::query::QueryMemory;
use super::remove_document::RemoveDocument;
use super::{Executor, Plugin};
use crate::{Embedder, MemoryProvider, Result};

/// The standard verbs `memory:query`, `memory:add_document` and `memory:remove_document`, on a provider's documents and
/// a read-only view of its ledger.
///
/// A provider with verbs of its own implements [`Plugin`], and appends its executors to those of this one.
#[derive(Debug)]
pub struct MemoryPlugin {
    provider: Arc<dyn MemoryProvider>,
    executors: [Arc<dyn Executor>; 3],
}

impl MemoryPlugin {
    /// Makes the plugin of a provider.
    pub fn new(provider: Arc<dyn MemoryProvider>) -> Self {
        let documents = provider.documents();
        let executors: [Arc<dyn Executor>; 3] = [
            Arc::new(query(&provider, None)),
            Arc::new(AddDocument::new(Arc::clone(&documents))),
            Arc::new(RemoveDocument::new(documents)),
        ];
        Self { provider, executors }
    }

    /// Also ranks questions by their meaning to this model, which must be the namespace's (P4, M4).
    #[must_use]
    pub fn with_embedder(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.executors[0] = Arc::new(query(&self.provider, Some(embedder)));
        self
    }
}

fn query(provider: &Arc<dyn MemoryProvider>, embedder: Option<Arc<dyn Embedder>>) -> QueryMemory {
    QueryMemory::new(provider.documents(), ReadOnlyLedger::new(Arc::clone(provider)), embedder)
}

#[async_trait]
impl Plugin for MemoryPlugin {
    fn id(&self) -> &str {
        "memory"
    }

    fn description(&self) -> &str {
        "Remembers across conversations: searches what was saved and what happened, saves texts, and removes them."
    }

    fn executors(&self) -> &[Arc<dyn Executor>] {
        &self.executors
    }

    async fn init(&self) -> Result<()> {
        Ok(())
    }

    /// Leaves the provider open: it belongs to the host.
    async fn shutdown(&self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::{Arguments, Scope};
    use crate::{
        Collection, Content, DocumentWrite, InMemory, NewMemory, RecordId, SpaceId, SpaceSelector, Timestamp, Trigger,
        VectorKeeper,
    };

    /// To which all drinks mean the same.
    struct Drinks;

    #[async_trait]
    impl Embedder for Drinks {
        fn model(&self) -> &str {
            "drinks"
        }

        fn width(&self) -> usize {
            2
        }

        async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>> {
            let is_drink = |text: &String| ["tea", "beverage"].iter().any(|word| text.contains(word));
            Ok(texts.iter().map(|text| if is_drink(text) { vec![1.0, 0.0] } else { vec![0.0, 1.0] }).collect())
        }
    }

    #[tokio::test]
    async fn questions_are_asked_by_meaning_where_there_is_a_model() -> Result<()> {
        let (provider, embedder): (Arc<dyn MemoryProvider>, Arc<dyn Embedder>) =
            (Arc::new(InMemory::new()), Arc::new(Drinks));
        provider.init().await?;
        let (space, notes) = (SpaceId::parse("a")?, Collection::parse("notes")?);
        let mut ids = Vec::new();
        for text in ["Ana likes tea", "It is Friday"] {
            let memory = NewMemory::new(space.clone(), Trigger::from_value(&text)?, Timestamp::MIN);
            ids.push(RecordId::from(provider.store(memory).await?));
            let write = DocumentWrite::new(notes.clone(), space.clone(), Content::parse(text)?, Timestamp::MIN);
            ids.push((&provider.documents().put(write).await?).into());
        }
        VectorKeeper::new(Arc::clone(&provider), Arc::clone(&embedder)).catch_up().await?;
        assert!(provider.vectors(&ids).await?.iter().all(Option::is_some));
        let scope = Scope::new(SpaceSelector::under("a")?).with_collections([notes]);
        let plain = MemoryPlugin::new(Arc::clone(&provider));
        let meant = MemoryPlugin::new(provider).with_embedder(embedder);
        for source in ["documents", "ledger"] {
            let arguments = format!(r#"{{"source": "{source}", "question": "Which beverage?", "limit": 1}}"#);
            for (plugin, finds) in [(&plain, false), (&meant, true)] {
                let query = plugin.executor("memory:query").expect("a verb");
                let answer = query.call(&scope, &Arguments::parse(&arguments)?).await?;
                assert_eq!(answer.as_str().contains("Ana likes tea"), finds, "{source}");
            }
        }
        Ok(())
    }
}
