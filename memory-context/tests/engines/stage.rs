//! Where a case plays, and how it is run.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::Failed;
use memory_context::prompt::{
    COLLECTION, MemoryLoadContext, MemoryScope, MemoryStore, MemoryUpdate, PromptMemory, SyncReport,
};
use memory_core::{
    Collection, DEFAULT_DEADLINE, DocumentQuery, DocumentSelection, InMemory, MemoryProvider, Result, SystemClock,
    TextIndex,
};

/// What a case returns. It may also panic, by an assertion.
pub(crate) type CaseResult = std::result::Result<(), Box<dyn Error + Send + Sync>>;

/// One thing that prompt memory promises.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) run: fn(Stage) -> Pin<Box<dyn Future<Output = CaseResult> + Send>>,
}

/// Lists the cases of a file: each is an `async fn(Stage) -> CaseResult`, named for its situation and outcome.
macro_rules! cases {
    ($($name:ident,)+) => {
        pub(crate) fn cases() -> Vec<crate::stage::Case> {
            vec![$(crate::stage::Case { name: stringify!($name), run: |stage| Box::pin($name(stage)) }),+]
        }
    };
}
pub(crate) use cases;

/// An engine to test on.
#[derive(Debug, Clone)]
pub(crate) enum Engine {
    InMemory(Arc<InMemory>),
    Url(String),
}

/// Well above what any case takes; it ends one that hangs.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// On a server that outlives the tests, each run uses the same one, and removes its documents.
const NAMESPACE: &str = "prompt_memory_tests";

impl Engine {
    pub(crate) fn on_server(url: &str) -> Self {
        let separator = if url.contains('?') { '&' } else { '?' };
        Self::Url(format!("{url}{separator}namespace={NAMESPACE}"))
    }

    /// Another handle on the same data, as another process has it.
    async fn open(&self) -> Result<Arc<dyn MemoryProvider>> {
        let provider: Arc<dyn MemoryProvider> = match self {
            Self::InMemory(first) => {
                Arc::new(first.reopen(Arc::new(SystemClock), TextIndex::Documents, DEFAULT_DEADLINE))
            }
            Self::Url(url) => memory_runtime::open(url)?,
        };
        provider.init().await?;
        Ok(provider)
    }
}

/// Runs a case on handles of its own, and removes what it left behind, unless it panics.
pub(crate) async fn play(engine: &Engine, case: Case) -> std::result::Result<(), Failed> {
    let report = |error: &dyn std::fmt::Debug| Failed::from(format!("{error:?}"));
    let (one, other) = tokio::try_join!(engine.open(), engine.open()).map_err(|error| report(&error))?;
    let name = uuid::Uuid::now_v7().to_string();
    let stage = Stage { one: Arc::clone(&one), other: Arc::clone(&other), name: name.clone() };
    let played = tokio::time::timeout(TIME_LIMIT, (case.run)(stage)).await;
    let removed = remove(one.as_ref(), &name).await;
    let closed = one.shutdown().await.and(other.shutdown().await);
    match played {
        Ok(played) => played.map_err(|error| report(&error))?,
        Err(_) => return Err(Failed::from(format!("not over after {} s", TIME_LIMIT.as_secs()))),
    }
    removed.and(closed).map_err(|error| report(&error))
}

async fn remove(provider: &dyn MemoryProvider, name: &str) -> Result<()> {
    let mine = format!("metadata.session LIKE '{name}%' OR metadata.user LIKE '{name}%'");
    let query = DocumentQuery::builder(Collection::parse(COLLECTION)?).all().filter_text(&mine);
    provider.documents().remove(&DocumentSelection::matching(query)?, usize::MAX).await.map(drop)
}

/// One engine, through two handles, and ids that no other case has.
pub(crate) struct Stage {
    one: Arc<dyn MemoryProvider>,
    other: Arc<dyn MemoryProvider>,
    name: String,
}

impl Stage {
    /// Prompt memory with the default settings.
    pub(crate) fn memory(&self) -> PromptMemory {
        PromptMemory::new(self.one.documents())
    }

    /// The same in another process.
    pub(crate) fn elsewhere(&self) -> PromptMemory {
        PromptMemory::new(self.other.documents())
    }

    pub(crate) fn provider(&self) -> &Arc<dyn MemoryProvider> {
        &self.one
    }

    /// An id of this case: a session or a user.
    pub(crate) fn id(&self, id: &str) -> String {
        format!("{}{id}", self.name)
    }

    /// The context of the seed's contract tests: neither user nor personality.
    pub(crate) fn context(&self) -> MemoryLoadContext {
        MemoryLoadContext::new("s1", self.id(":cli:test"), "cli")
    }

    /// The same with a personality that has a memory of its own.
    pub(crate) fn personality(&self, id: &str) -> MemoryLoadContext {
        self.context().with_personality(id, MemoryScope::PerPersonality)
    }
}

/// One update of a store.
pub(crate) async fn add(
    memory: &PromptMemory,
    context: &MemoryLoadContext,
    store: MemoryStore,
    text: &str,
) -> SyncReport {
    memory.sync(context, &[MemoryUpdate::add(store, text)]).await.expect("an add")
}

/// What goes into the prompt.
pub(crate) async fn content(memory: &PromptMemory, context: &MemoryLoadContext) -> Option<String> {
    memory.prefetch(context).await.expect("a prefetch").map(|context| context.content)
}
