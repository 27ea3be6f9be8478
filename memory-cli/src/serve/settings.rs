//! The settings of a server.

use std::sync::Arc;
use std::time::Duration;

use memory_context::agent::AgentBuilder;
use memory_core::Embedder;

use super::callers::Callers;
use super::doctor::Doctor;
use crate::keeper::MadeVectors;

/// The settings of a server.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) callers: Callers,
    /// The deadline of a request.
    pub(crate) time: Duration,
    /// The time without an event after which a stream of changes sends a comment.
    pub(crate) heartbeat: Duration,
    /// How long a client may read nothing, or not answer, before its connection is closed.
    pub(crate) stall: Duration,
    /// The most concurrent requests, and the most concurrent tool calls.
    pub(crate) concurrency: u32,
    /// The largest body of a request, in bytes.
    pub(crate) max_body: usize,
    /// Whether the console is served.
    pub(crate) console: bool,
    /// Whether the console may change records.
    pub(crate) console_write: bool,
    /// The interval of the measurements that the console draws.
    pub(crate) sampling: Duration,
    /// Runs the doctor's checks for the console.
    pub(crate) doctor: Doctor,
    /// The agent to serve over HTTP.
    pub(crate) agent: Option<AgentBuilder>,
    /// The embedding model, with its metrics.
    pub(crate) embedding: Option<(Arc<dyn Embedder>, MadeVectors)>,
}
