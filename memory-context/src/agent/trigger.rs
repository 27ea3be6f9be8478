//! What brings messages to an agent.

use std::fmt;
#[cfg(feature = "http")]
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{Error, ErrorKind, Result};
#[cfg(feature = "http")]
use memory_runtime::{HttpReply, HttpTrigger};
#[cfg(feature = "http")]
use serde_json::json;
#[cfg(feature = "http")]
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::Agent;
use super::handle::WeakAgent;
use crate::flow::Incoming;
use crate::flow::platform::Origin;

/// Something outside that brings messages to an agent: a chat, a timer, a queue, an HTTP route. Held as `Arc<dyn MessageTrigger>`.
///
/// An [`Agent`] starts it when it is registered, by the builder, by [`Agent::add`] or with its plugin, and ends it when it is taken
/// away and at the shutdown. What it hands over is answered as if somebody had asked the agent: it is a task of the agent, which a
/// kill does not lose.
///
/// ```
/// use async_trait::async_trait;
/// use memory_context::Result;
/// use memory_context::agent::{MessageTrigger, TriggerContext};
/// use memory_context::records::{ChannelType, Room};
/// use tokio::time::{Duration, sleep};
///
/// /// Has the agent look around each hour.
/// struct Hourly;
///
/// #[async_trait]
/// impl MessageTrigger for Hourly {
///     fn name(&self) -> &str {
///         "hourly"
///     }
///
///     async fn run(&self, context: TriggerContext) -> Result<()> {
///         loop {
///             tokio::select! {
///                 () = context.stopped() => return Ok(()),
///                 () = sleep(Duration::from_secs(3_600)) => {}
///             }
///             let room = Room::new("watch".parse()?, ChannelType::Api);
///             context.agent()?.room(room).ask("clock", "An hour is over. What is there to do?").await?;
///         }
///     }
/// }
/// ```
#[async_trait]
pub trait MessageTrigger: Send + Sync + 'static {
    /// What it is called. Unique among the triggers of an agent; never empty. The same at every call.
    fn name(&self) -> &str;

    /// Listens, and hands what comes to the agent, until [`TriggerContext::stopped`] ends; then it takes nothing more in, and returns
    /// when all that it has taken in is handed over.
    ///
    /// One that does not return within ten seconds from then on is dropped. One that returns before, fails or panics has ended, and is
    /// not started again; the log tells it.
    async fn run(&self, context: TriggerContext) -> Result<()>;
}

impl fmt::Debug for dyn MessageTrigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MessageTrigger({})", self.name())
    }
}

/// What a [`MessageTrigger`] is given. Owned and cheap to clone. It does not keep the agent alive.
#[derive(Debug, Clone)]
pub struct TriggerContext {
    agent: WeakAgent,
    stop: CancellationToken,
}

impl TriggerContext {
    pub(super) fn new(agent: WeakAgent, stop: CancellationToken) -> Self {
        Self { agent, stop }
    }

    /// The agent, to hand over what came: [`Agent::ask`], [`Agent::room`], or [`Agent::receive`] with all that a platform knows of a message.
    /// `Closed` where there is no agent any more.
    pub fn agent(&self) -> Result<Agent> {
        self.agent.upgrade().ok_or_else(|| Error::new(ErrorKind::Closed, "there is no agent any more"))
    }

    /// Whether it is to stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Waits until it is to stop.
    pub async fn stopped(&self) {
        self.stop.cancelled().await;
    }
}

/// A message with where it was said and by whom, as the `HttpTrigger` of the feature `http` makes one of what was posted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// Who said it, and where.
    pub origin: Origin,
    /// What was said.
    pub incoming: Incoming,
}

/// An HTTP route that brings messages. It answers `200` when the message is answered, with the `text`, how the run ended (`end`), and
/// the `run`; a client that goes away gets no answer, and its message is answered all the same. Beyond
/// [`Limits::arrivals`](super::Limits::arrivals) messages that are worked on, it answers `503`.
#[cfg(feature = "http")]
#[async_trait]
impl MessageTrigger for HttpTrigger<Arrival> {
    fn name(&self) -> &str {
        Self::name(self)
    }

    async fn run(&self, context: TriggerContext) -> Result<()> {
        let stop = context.stop.clone();
        let arrivals = context.agent()?.service().limits().arrivals.max(1) as usize;
        let places = Arc::new(Semaphore::new(arrivals.min(Semaphore::MAX_PERMITS)));
        self.serve(stop.cancelled_owned(), move |Arrival { origin, incoming }| {
            let (context, place) = (context.clone(), Arc::clone(&places).try_acquire_owned());
            async move {
                let _place = place.map_err(|_| {
                    let message = "the agent works on as many messages of this route as it takes at once: try again";
                    Error::new(ErrorKind::Unavailable, message).retryable()
                })?;
                let answer = context.agent()?.receive(origin, incoming).await?;
                let run = answer.run.to_string();
                Ok(HttpReply::Done(json!({ "text": answer.text, "end": answer.end.as_str(), "run": run })))
            }
        })
        .await
    }
}
