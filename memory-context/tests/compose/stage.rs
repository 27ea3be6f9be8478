//! Helpers of the tests of composition.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::future::BoxFuture;
use memory_context::records::{AgentId, EntityId, MessageContent, NewMessage, Records, RoomId};
use memory_context::state::{
    Character, Composer, ComposerBuilder, ContextProvider, Cx, ProviderInfo, ProviderResult, Services, State, Turn,
};
use memory_core::{InMemory, MemoryProvider, Result, Timestamp};

type Get = dyn for<'a, 'b> Fn(&'a Cx<'b>) -> BoxFuture<'a, Result<ProviderResult>> + Send + Sync;

/// A provider that does what a test says, and counts its calls.
pub(crate) struct Scripted {
    info: ProviderInfo,
    get: Box<Get>,
    calls: Arc<AtomicUsize>,
}

impl Scripted {
    pub(crate) fn new(
        info: ProviderInfo,
        get: impl for<'a, 'b> Fn(&'a Cx<'b>) -> BoxFuture<'a, Result<ProviderResult>> + Send + Sync + 'static,
    ) -> Self {
        Self { info, get: Box::new(get), calls: Arc::default() }
    }

    /// A provider with a constant contribution.
    pub(crate) fn giving(info: ProviderInfo, result: ProviderResult) -> Self {
        Self::new(info, move |_| {
            let result = result.clone();
            Box::pin(async move { Ok(result) })
        })
    }

    /// How often it ran, for later.
    pub(crate) fn calls(&self) -> Calls {
        Calls(Arc::clone(&self.calls))
    }
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scripted({})", self.info.name)
    }
}

#[async_trait]
impl ContextProvider for Scripted {
    fn info(&self) -> &ProviderInfo {
        &self.info
    }

    async fn get(&self, cx: &Cx<'_>) -> Result<ProviderResult> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        (self.get)(cx).await
    }
}

/// How often a provider ran.
#[derive(Debug, Clone)]
pub(crate) struct Calls(Arc<AtomicUsize>);

impl Calls {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// The records of an agent in memory.
pub(crate) async fn records_of(agent: &str) -> Records {
    records_on(Arc::new(InMemory::new()), agent).await
}

/// The records of an agent on an engine.
pub(crate) async fn records_on(provider: Arc<dyn MemoryProvider>, agent: &str) -> Records {
    provider.init().await.expect("opens");
    Records::new(provider, AgentId::parse(agent).expect("valid"))
}

/// A composer of these providers, and the turn of one message.
pub(crate) async fn stage(build: impl FnOnce(ComposerBuilder) -> ComposerBuilder) -> (Composer, Turn) {
    let services = Services::new(records_of("agent").await, Character::named("Alice"));
    let composer = build(Composer::builder(services)).build().expect("a composer");
    let turn = turn(&composer, "hello").await;
    (composer, turn)
}

/// The turn of a message that is stored.
pub(crate) async fn turn(composer: &Composer, text: &str) -> Turn {
    let (room, author) = (RoomId::parse("room").expect("valid"), EntityId::parse("ana").expect("valid"));
    let content = MessageContent::new(room, author, text);
    let new = NewMessage::new(content, Timestamp::from_millis(1_700_000_000_000).expect("in range"));
    Turn::new(composer.services().records().messages().add(new).await.expect("stores"))
}

/// The names of the providers that ran, in their order.
pub(crate) fn ran(state: &State) -> Vec<&str> {
    state.outcomes.iter().map(|outcome| outcome.provider.as_str()).collect()
}
