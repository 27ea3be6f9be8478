//! The shared state of all requests.

use std::sync::Arc;

use memory_context::agent::Agent;
use memory_core::{DocumentStore, Embedder, MemoryProvider};
use tokio_util::sync::CancellationToken;

use super::callers::Callers;
use super::doctor::Doctor;
use super::limits::Limits;
use super::metrics::Metrics;
use super::samples::Samples;
use super::tools::Tool;

/// The shared state of the server.
pub(crate) type Server = Arc<ServerState>;

/// The shared state of all requests.
#[derive(Debug)]
pub(crate) struct ServerState {
    pub(crate) provider: Arc<dyn MemoryProvider>,
    pub(crate) documents: Arc<dyn DocumentStore>,
    pub(crate) tools: Vec<Tool>,
    /// The served agent.
    pub(crate) agent: Option<Agent>,
    /// The embedding model for questions.
    pub(crate) embedder: Option<Arc<dyn Embedder>>,
    pub(crate) metrics: Metrics,
    /// The samples that the console draws.
    pub(crate) samples: Samples,
    pub(crate) doctor: Doctor,
    pub(crate) callers: Callers,
    /// Whether the console may change records.
    pub(crate) console_write: bool,
    pub(crate) limits: Limits,
    /// Cancelled when the server is asked to end, which ends endless streams.
    pub(crate) stopping: CancellationToken,
}
