//! An adapter that lets a runtime's trigger bring messages to an agent.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{Error, ErrorKind, MemoryId, MemoryProvider, Outcome, Result, Status};
use memory_runtime::{
    ContextContent, ContextItem, ContextKind, Finished, NewTask, TaskHandle, TaskIntake, TaskSender, TriggerSource,
};
use serde_json::json;
use tokio::sync::Semaphore;

use super::{Answer, Arrival, MessageTrigger, TriggerContext};
use crate::flow::{End, Why};

/// An adapter from [`TriggerSource`], which starts tasks of a runtime, to [`MessageTrigger`], which brings messages to an agent.
///
/// # Behavior
/// - A function of the host turns each task into an [`Arrival`]. If it fails, `submit` returns its error and nothing is stored.
/// - When `submit` has returned, the message is stored and no crash loses it. It is answered in the background, even after the source
///   has ended.
/// - The task handle has the id of the message and waits for the answer. Its chain holds what the agent said, each item as `{"text":"…"}`.
///   Its status is `Completed` if the message was answered, `Failed` if its run failed or was late, and `Observed` if it was ignored or
///   superseded. For a message that was delivered before, it is the present status. If the message was erased, `wait` fails with
///   `NotFound`. If it is left to be answered later, `wait` fails with `Unavailable`, and the outcome is unknown.
/// - While [`Limits::arrivals`](super::Limits::arrivals) messages are unanswered, the next `submit` waits before it stores its message.
/// - An observed task is stored as a message and not answered.
///
/// ```
/// use memory_context::agent::{Arrival, SourceTrigger};
/// use memory_context::core::{Clock, SystemClock};
/// use memory_context::flow::Incoming;
/// use memory_context::flow::platform::Origin;
/// use memory_context::records::{ChannelType, Entity, NewMessage, Room};
/// use memory_runtime::{NewTask, TriggerSource};
///
/// fn doorbell(source: impl TriggerSource) -> SourceTrigger {
///     SourceTrigger::new(source, |task: NewTask| {
///         let room = Room::new("door".parse()?, ChannelType::Api);
///         let origin = Origin { world: None, room, author: Entity::new("bell".parse()?, "The bell") };
///         let message = NewMessage::new(origin.message(task.trigger.content.as_str()), SystemClock.now());
///         Ok(Arrival { origin, incoming: Incoming { message, is_addressed: true } })
///     })
/// }
/// ```
pub struct SourceTrigger {
    source: Box<dyn TriggerSource>,
    read: Arc<Read>,
}

type Read = dyn Fn(NewTask) -> Result<Arrival> + Send + Sync;

impl SourceTrigger {
    /// Wraps a source; `read` turns its tasks into messages.
    pub fn new(source: impl TriggerSource, read: impl Fn(NewTask) -> Result<Arrival> + Send + Sync + 'static) -> Self {
        Self { source: Box::new(source), read: Arc::new(read) }
    }
}

#[async_trait]
impl MessageTrigger for SourceTrigger {
    fn name(&self) -> &str {
        self.source.name()
    }

    async fn run(&self, context: TriggerContext) -> Result<()> {
        let arrivals = context.agent()?.service().limits().arrivals.max(1) as usize;
        let places = Arc::new(Semaphore::new(arrivals.min(Semaphore::MAX_PERMITS)));
        let intake = Receiving { context, read: Arc::clone(&self.read), places };
        self.source.run(TaskSender::new(Arc::new(intake))).await
    }
}

/// Receives the tasks of the source, and passes them to the agent as messages.
struct Receiving {
    context: TriggerContext,
    read: Arc<Read>,
    places: Arc<Semaphore>,
}

#[async_trait]
impl TaskIntake for Receiving {
    async fn submit(&self, task: NewTask) -> Result<TaskHandle> {
        let Arrival { origin, incoming } = (self.read)(task)?;
        // The semaphore is never closed, so this does not fail.
        let place = Arc::clone(&self.places).acquire_owned().await;
        let agent = self.context.agent()?;
        let (id, answer) = agent.submit(origin, incoming).await?;
        let provider = Arc::clone(agent.records().provider());
        Ok(TaskHandle::new(id, async move {
            let answer = answer.await?;
            drop(place);
            finished(provider.as_ref(), id, &answer).await
        }))
    }

    async fn observe(&self, event: NewTask) -> Result<MemoryId> {
        let Arrival { origin, incoming } = (self.read)(event)?;
        self.context.agent()?.observe(origin, incoming.message).await
    }

    async fn stopped(&self) {
        self.context.stopped().await;
    }
}

/// The end of a submitted message, as the end of a task.
async fn finished(provider: &dyn MemoryProvider, id: MemoryId, answer: &Answer) -> Result<Finished> {
    let status = match &answer.end {
        End::Completed => Status::Completed,
        End::Failed { .. } | End::TimedOut { .. } => Status::Failed,
        End::Ignored(Why::Known) => match provider.get(id).await {
            Err(error) if error.kind() == ErrorKind::Erased => return Err(gone()),
            known => known?.map_or(Status::Observed, |known| known.status),
        },
        End::Ignored(_) | End::Superseded => Status::Observed,
        End::Left { .. } => {
            if matches!(provider.get(id).await, Err(error) if error.kind() == ErrorKind::Erased) {
                return Err(gone());
            }
            let message = "the message was left to be answered later";
            return Err(Error::new(ErrorKind::Unavailable, message).with_outcome(Outcome::Unknown));
        }
    };
    let said = answer.said.iter().map(|message| {
        Ok(ContextItem {
            id: message.id.to_string(),
            kind: ContextKind::Result,
            plugin_id: message.content.author.as_str().to_owned(),
            action: None,
            content: ContextContent::from_value(&json!({ "text": message.content.text }))?,
            timestamp: message.created_at,
        })
    });
    Ok(Finished::new(id, status, said.collect::<Result<_>>()?))
}

/// The error for an erased message. It does not say that the message was erased, since only operators may know that.
fn gone() -> Error {
    Error::new(ErrorKind::NotFound, "the message no longer exists")
}

impl fmt::Debug for SourceTrigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SourceTrigger({})", self.source.name())
    }
}

impl fmt::Debug for Receiving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receiving")
    }
}
