//! Triggers, the external sources of messages.

use std::fmt;
#[cfg(feature = "http")]
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::Result;
#[cfg(feature = "http")]
use memory_core::{Error, ErrorKind};
#[cfg(feature = "http")]
use memory_runtime::{HttpReply, HttpTrigger};
#[cfg(feature = "http")]
use serde_json::json;
#[cfg(feature = "http")]
use tokio::sync::Semaphore;

use super::TriggerContext;
use crate::flow::Incoming;
use crate::flow::platform::Origin;

/// An external source of messages for an agent: a chat, a timer, a queue, an HTTP route. Held as `Arc<dyn MessageTrigger>`.
///
/// An [`Agent`](super::Agent) starts a trigger when it is registered, by the builder, by [`Agent::add`](super::Agent::add) or with its
/// plugin, and stops it when it is removed and at the shutdown. A message that the trigger passes on is answered like any question: once it
/// is stored, no crash loses it.
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
    /// The name. It is not empty, unique among the triggers of an agent, and the same in every call.
    fn name(&self) -> &str;

    /// Listens and passes messages to the agent until [`TriggerContext::stopped`] completes. Then it accepts no more messages, passes on
    /// those that it has accepted, and returns.
    ///
    /// If it does not return within ten seconds after that, it is dropped. If it returns earlier, fails or panics, it is logged and not
    /// started again.
    async fn run(&self, context: TriggerContext) -> Result<()>;
}

impl fmt::Debug for dyn MessageTrigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MessageTrigger({})", self.name())
    }
}

/// A message with its author and room; the `HttpTrigger` of the feature `http` makes one of each request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// The author and the room.
    pub origin: Origin,
    /// The message.
    pub incoming: Incoming,
}

/// An HTTP route that brings messages. When the message is answered, it responds with `200`, the `text`, the `end` of the run, and the id
/// of the `run`. If the client disconnects, its message is still answered. While [`Limits::arrivals`](super::Limits::arrivals) messages
/// are being processed, it responds with `503`.
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
                    let message =
                        "the agent has reached its limit of concurrent messages of this route: try again later";
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
