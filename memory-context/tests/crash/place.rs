//! The place of a life.

use std::env;
use std::io::Result as IoResult;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use memory_context::records::{AgentId, Records};
use memory_core::{
    Clock, DEFAULT_DEADLINE, HistorySettings, Memory, MemoryProvider, MemoryQuery, Result, Status, SystemClock,
};
use memory_runtime::{Sandbox, TASK};
use serde_json::Value;

use crate::deadly::KILL;

/// The role and the parameters of the other process.
pub(crate) const ROLE: &str = "MEMORY_TEST_ROLE";
const LEDGER: &str = "MEMORY_TEST_LEDGER";
const NAME: &str = "MEMORY_TEST_NAME";
const AGENT: &str = "MEMORY_TEST_AGENT";
const FOLDER: &str = "MEMORY_TEST_FOLDER";
const ENDPOINT: &str = "MEMORY_TEST_ENDPOINT";
const MODEL: &str = "MEMORY_TEST_MODEL";

/// The place of a life.
#[derive(Clone)]
pub(crate) struct Place {
    /// The engine, and the name of the place on it.
    pub(crate) url: String,
    pub(crate) name: String,
    pub(crate) agent: String,
    /// The folder of the world.
    pub(crate) folder: PathBuf,
    /// The URL of the endpoint, and the name of its model.
    pub(crate) endpoint: String,
    pub(crate) model: String,
}

impl Place {
    pub(crate) fn of_this_process() -> Option<Self> {
        let of = |name| env::var(name).ok();
        let folder = env::var_os(FOLDER)?.into();
        let (url, name, agent) = (of(LEDGER)?, of(NAME)?, of(AGENT)?);
        Some(Self { url, name, agent, folder, endpoint: of(ENDPOINT)?, model: of(MODEL)? })
    }

    pub(crate) fn sandbox(&self) -> Sandbox {
        let (clock, history) = (Arc::new(SystemClock), HistorySettings::default());
        Sandbox { name: self.name.clone(), clock, deadline: DEFAULT_DEADLINE, history }
    }

    pub(crate) async fn provider(&self) -> Result<Arc<dyn MemoryProvider>> {
        let provider = self.sandbox().open(&self.url)?;
        provider.init().await?;
        Ok(provider)
    }

    pub(crate) fn agent(&self) -> Result<AgentId> {
        AgentId::parse(&self.agent)
    }

    pub(crate) fn records(&self, provider: &Arc<dyn MemoryProvider>) -> Result<Records> {
        Ok(Records::new(Arc::clone(provider), self.agent()?))
    }

    /// Starts another process here, which reads from this one, and whose end this one notices.
    pub(crate) fn start(&self, role: &str, kill: Option<usize>) -> IoResult<Child> {
        let mut command = Command::new(env::current_exe()?);
        command.env(ROLE, role).env(LEDGER, &self.url).env(NAME, &self.name).env(AGENT, &self.agent);
        command.env(FOLDER, &self.folder).env(ENDPOINT, &self.endpoint).env(MODEL, &self.model);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some(kill) = kill {
            command.env(KILL, kill.to_string());
        }
        command.spawn()
    }
}

/// How many messages are open.
pub(crate) async fn open(provider: &dyn MemoryProvider) -> Result<usize> {
    Ok(open_messages(provider).await?.len())
}

/// How long the first lease of an open message lasts; `None` when no message is open.
pub(crate) async fn first_lease(provider: &dyn MemoryProvider) -> Result<Option<Duration>> {
    let now = SystemClock.now().as_millis();
    let left = |memory: &Memory| {
        let metadata: Value = serde_json::from_str(memory.metadata.as_str()).unwrap_or_default();
        let until = metadata[TASK]["leaseUntil"].as_i64().unwrap_or(now);
        Duration::from_millis(until.saturating_sub(now).try_into().unwrap_or_default())
    };
    Ok(open_messages(provider).await?.iter().map(left).min())
}

async fn open_messages(provider: &dyn MemoryProvider) -> Result<Vec<Memory>> {
    let query = MemoryQuery::builder().all().status(Status::Pending).status(Status::Running).build()?;
    Ok(provider.query(&query).await?.memories)
}
