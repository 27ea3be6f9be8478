//! The place of a case, and how it runs.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use memory_context::prompt::{MemoryLoadContext, MemoryScope, MemoryStore, MemoryUpdate, PromptMemory, SyncReport};
use memory_context::records::{AgentId, Records};
use memory_core::{
    Collection, Content, DEFAULT_DEADLINE, DocumentQuery, DocumentWrite, HistorySettings, InMemory, MemoryProvider,
    RecordId, Result, SpaceId, SystemClock,
};
use memory_runtime::Sandbox;

/// The result of a case. It may also panic, by an assertion.
pub(crate) type CaseResult = std::result::Result<(), Box<dyn Error + Send + Sync>>;

/// One thing that is promised.
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

/// An engine to test on, through two handles, as two processes have them. All cases share these.
#[derive(Debug, Clone)]
pub(crate) struct Engine {
    one: Arc<dyn MemoryProvider>,
    other: Arc<dyn MemoryProvider>,
    /// What to remove in the end, and its URL.
    place: Option<(Sandbox, String)>,
}

/// Well above what any case takes; it ends one that hangs.
const TIME_LIMIT: Duration = Duration::from_secs(180);

impl Engine {
    pub(crate) async fn in_memory() -> Result<Self> {
        let one = InMemory::new();
        let other = one.reopen(Arc::new(SystemClock), DEFAULT_DEADLINE);
        Self::initialised(Arc::new(one), Arc::new(other), None).await
    }

    /// A unique place on a server.
    pub(crate) async fn open(url: &str) -> Result<Self> {
        let sandbox = Sandbox {
            name: conformance::Namespace::unique().name,
            clock: Arc::new(SystemClock),
            deadline: DEFAULT_DEADLINE,
            history: HistorySettings::default(),
        };
        let (one, other) = (sandbox.open(url)?, sandbox.open(url)?);
        Self::initialised(one, other, Some((sandbox, url.to_owned()))).await
    }

    /// Closes it, and removes the place with everything in it.
    pub(crate) async fn remove(self) -> Result<()> {
        self.one.shutdown().await?;
        self.other.shutdown().await?;
        match self.place {
            Some((sandbox, url)) => sandbox.remove(&url).await,
            None => Ok(()),
        }
    }

    async fn initialised(
        one: Arc<dyn MemoryProvider>,
        other: Arc<dyn MemoryProvider>,
        place: Option<(Sandbox, String)>,
    ) -> Result<Self> {
        one.init().await?;
        other.init().await?;
        Ok(Self { one, other, place })
    }
}

/// Runs a case.
pub(crate) async fn play(engine: Engine, case: Case) -> CaseResult {
    let name = uuid::Uuid::now_v7().to_string();
    let stage = Stage { engine, name };
    // A task of its own, so that a panic ends the case only.
    let played = tokio::spawn(tokio::time::timeout(TIME_LIMIT, (case.run)(stage))).await;
    match played {
        Ok(Ok(played)) => played,
        Ok(Err(_)) => Err(format!("not over after {} s", TIME_LIMIT.as_secs()).into()),
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}

/// One engine, and ids that no other case has.
pub(crate) struct Stage {
    engine: Engine,
    name: String,
}

impl Stage {
    /// Prompt memory with the default settings.
    pub(crate) fn memory(&self) -> PromptMemory {
        PromptMemory::new(self.engine.one.documents())
    }

    /// The same in another process.
    pub(crate) fn elsewhere(&self) -> PromptMemory {
        PromptMemory::new(self.engine.other.documents())
    }

    /// The records of an agent of this case.
    pub(crate) fn records(&self, agent: &str) -> Records {
        Records::new(Arc::clone(&self.engine.one), self.agent(agent))
    }

    /// The same in another process.
    pub(crate) fn records_elsewhere(&self, agent: &str) -> Records {
        Records::new(Arc::clone(&self.engine.other), self.agent(agent))
    }

    fn agent(&self, agent: &str) -> AgentId {
        AgentId::parse(self.id(agent)).expect("a valid id")
    }

    pub(crate) fn provider(&self) -> &Arc<dyn MemoryProvider> {
        &self.engine.one
    }

    /// Stores vectors of the facts in a space as older programs did: as documents beside them.
    pub(crate) async fn keep_old_vectors(&self, space: &SpaceId) -> Result<Vec<RecordId>> {
        let documents = self.provider().documents();
        let mut kept = Vec::new();
        for collection in documents.collections().await? {
            if !collection.as_str().starts_with("_facts-") || collection.as_str().ends_with("-vectors") {
                continue;
            }
            let query = DocumentQuery::builder(collection.clone()).under(space).limit(1_000).build()?;
            let of_vectors = Collection::parse(format!("{collection}-vectors"))?;
            for fact in documents.query(&query).await?.documents {
                let content = Content::parse("AACAPw==")?;
                let write = DocumentWrite::new(of_vectors.clone(), fact.space_id, content, fact.created_at);
                kept.push((&documents.put(write.with_id(fact.id)).await?).into());
            }
        }
        Ok(kept)
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

/// The content of the prompt.
pub(crate) async fn content(memory: &PromptMemory, context: &MemoryLoadContext) -> Option<String> {
    memory.prefetch(context).await.expect("a prefetch").map(|context| context.content)
}
