//! What starts tasks of a runtime, as what brings messages to an agent.

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

/// A [`TriggerSource`] as a [`MessageTrigger`]: what starts tasks of a runtime brings messages to an agent.
///
/// # Behavior
/// - A function of the host makes an [`Arrival`] of each task; its error is what the source hears, and nothing is kept.
/// - What is submitted is a message that no crash loses when the source goes on. It is answered in the background, after the end of the
///   source too.
/// - The handle has the id of the message, and waits for the answer: its chain is what the agent said, each a `{"text":"…"}`. Its status is
///   `Completed` where the message was answered, `Failed` where its run failed or was late, and `Observed` where it was ignored or
///   superseded, as by a newer message of its room. One that came before has the status that it has by now. One that is there no more
///   is `NotFound`.
/// - Beyond [`Limits::arrivals`](super::Limits::arrivals) messages that are not answered, the next one waits before it is kept.
/// - What is observed is kept as a message and not answered.
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
    /// The source, and what makes a message of a task.
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

/// Has the agent receive what a source submits.
struct Receiving {
    context: TriggerContext,
    read: Arc<Read>,
    places: Arc<Semaphore>,
}

#[async_trait]
impl TaskIntake for Receiving {
    async fn submit(&self, task: NewTask) -> Result<TaskHandle> {
        let Arrival { origin, incoming } = (self.read)(task)?;
        // It is never closed.
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

/// What became of a message that was submitted.
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

/// What a source is told of a message that was erased, which only operators learn: nobody answers it any more.
fn gone() -> Error {
    Error::new(ErrorKind::NotFound, "the message is there no more")
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
