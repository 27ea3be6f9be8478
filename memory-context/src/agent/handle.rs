//! The handle to a running agent.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use lru::LruCache;
use memory_core::{Clock, Error, ErrorKind, MemoryId, MemoryProvider, Outcome, Result, Status};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::triggers::Triggers;
use super::{AgentBuilder, Answer, AnswerStream, Conversation};
use crate::flow::platform::Origin;
use crate::flow::{End, Events, Incoming, MessageService, Tap, Why, is_own};
use crate::records::{ChannelType, NewMessage, Records, Room, RoomId};
use crate::state::{Composer, ContextPart, ContextParts, ContextPlugin, StateCache, Values};
use crate::template::Templates;

/// An agent that remembers. Cloning is cheap; all clones are handles to the same agent.
///
/// ```
/// use std::sync::Arc;
/// use memory_context::agent::Agent;
/// use memory_context::core::InMemory;
/// use memory_context::model::{Completion, Model, Prompt};
///
/// /// Stands in for a model behind an endpoint.
/// #[derive(Debug)]
/// struct Polite;
///
/// #[async_trait::async_trait]
/// impl Model for Polite {
///     async fn complete(&self, _: &Prompt) -> memory_context::Result<Completion> {
///         Ok("Hello, Ana!".into())
///     }
/// }
///
/// # #[tokio::main] async fn main() -> memory_context::Result<()> {
/// let agent = Agent::builder("ada").memory(Arc::new(InMemory::new())).model_client(Polite).build().await?;
/// let answer = agent.ask("ana", "Hello!").await?;
/// assert_eq!(answer.text, "Hello, Ana!");
/// agent.shutdown().await
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Agent {
    shared: Arc<Shared>,
}

/// The context of a [`MessageTrigger`](super::MessageTrigger). It is cheap to clone, and does not keep the agent alive.
#[derive(Debug, Clone)]
pub struct TriggerContext {
    agent: WeakAgent,
    pub(super) stop: CancellationToken,
}

impl TriggerContext {
    fn new(agent: WeakAgent, stop: CancellationToken) -> Self {
        Self { agent, stop }
    }

    /// The agent, to pass messages to it: by [`Agent::ask`], [`Agent::room`], or [`Agent::receive`] with everything that a platform knows
    /// of a message. Fails with `Closed` if the agent no longer exists.
    pub fn agent(&self) -> Result<Agent> {
        self.agent.upgrade().ok_or_else(|| Error::new(ErrorKind::Closed, "there is no agent any more"))
    }

    /// Whether the trigger must stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Completes when the trigger must stop.
    pub async fn stopped(&self) {
        self.stop.cancelled().await;
    }
}

/// A weak handle, which does not keep the agent alive.
#[derive(Debug, Clone)]
struct WeakAgent(Weak<Shared>);

impl WeakAgent {
    fn upgrade(&self) -> Option<Agent> {
        self.0.upgrade().map(|shared| Agent { shared })
    }
}

#[derive(Debug)]
struct Shared {
    service: Arc<MessageService>,
    /// A clone of the service's composer; clones share their registrations.
    composer: Composer,
    records: Records,
    clock: Arc<dyn Clock>,
    /// The provider that the agent opened itself and must close.
    opened: Option<Arc<dyn MemoryProvider>>,
    grace: Duration,
    /// The rooms of recent messages, whose records are stored already.
    seen: Mutex<LruCache<RoomId, ()>>,
    runs: TaskTracker,
    triggers: Triggers,
    /// Ends the recovery of open messages.
    closing: CancellationToken,
    /// Drops the runs that did not end within the grace period.
    stop: CancellationToken,
}

/// The parts of an agent that the builder has made.
pub(super) struct Parts {
    pub(super) service: MessageService,
    pub(super) composer: Composer,
    pub(super) records: Records,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) opened: Option<Arc<dyn MemoryProvider>>,
    pub(super) grace: Duration,
    pub(super) recover_every: Duration,
}

const SEEN: NonZeroUsize = NonZeroUsize::new(10_000).expect("more than none");

/// How long a shutdown waits for giving back the messages of stopped runs.
const GIVE_BACK: Duration = Duration::from_secs(5);

/// The prefix of the id of the direct room of a user and the agent. The user's name follows it.
pub const DIRECT: &str = crate::records::DIRECT;

impl Agent {
    /// Returns a builder for an agent with this name, which has 1 to 80 bytes. Agents with different names on one memory don't see each
    /// other's records.
    pub fn builder(name: impl Into<String>) -> AgentBuilder {
        AgentBuilder::new(name.into())
    }

    pub(super) fn start(parts: Parts) -> Self {
        let Parts { service, composer, records, clock, opened, grace, recover_every } = parts;
        let (seen, runs) = (Mutex::new(LruCache::new(SEEN)), TaskTracker::new());
        let (closing, stop) = (CancellationToken::new(), CancellationToken::new());
        let service = Arc::new(service);
        runs.spawn(stop.clone().run_until_cancelled_owned({
            let (service, closing) = (Arc::clone(&service), closing.clone());
            async move { recover(&service, &closing, recover_every).await }
        }));
        let triggers = Triggers::new();
        let shared = Shared { service, composer, records, clock, opened, grace, seen, runs, triggers, closing, stop };
        let agent = Self { shared: Arc::new(shared) };
        drop(agent.follow_triggers());
        agent
    }

    /// Returns the direct conversation of a user and the agent, the one that [`ask`](Self::ask) uses. Fails with `InvalidInput` if the name
    /// is invalid, and with `TooLarge` if it has more than 77 bytes.
    pub fn direct(&self, user: impl AsRef<str>) -> Result<Conversation> {
        Ok(self.room(Room::new(RoomId::parse(format!("{DIRECT}{}", user.as_ref()))?, ChannelType::Dm)))
    }

    /// Asks a question on behalf of a user, in the direct conversation of the user and the agent.
    ///
    /// # Behavior
    /// - The user's name is an id of 1 to 77 bytes. The same name is the same user, who never sees the direct conversations of others.
    /// - Conversations run concurrently. Within one conversation, questions are answered one after the other. A question that arrives while
    ///   the model works on the previous one supersedes it; the answer to the previous one says so.
    /// - The end of the answer is completed, superseded, or, if the agent is muted or decides not to answer, ignored. A run that fails is
    ///   an error with unknown outcome, and so is one that is late (`Timeout`). What was said before the error stays stored.
    /// - The question is answered even if the future is dropped. If the process is killed, the next agent with this name on this memory
    ///   answers it after the lease of the question has expired.
    /// - The end of the answer is left, and the answer holds what was said so far, if the agent is shut down meanwhile, if another process
    ///   takes the question, if the memory can't store the answer for now, or if an operator erases the question.
    /// - Fails with `InvalidInput` if the name is invalid, with `TooLarge` if the name has more than 77 bytes or the
    ///   text more than 64 KiB, and with `Closed` after [`shutdown`](Self::shutdown).
    pub async fn ask(&self, user: impl AsRef<str>, text: impl Into<String>) -> Result<Answer> {
        self.direct(&user)?.ask(user, text).await
    }

    /// Like [`ask`](Self::ask), but streams the text, and then the answer. If the model was asked for a form, an answer
    /// that begins as XML or JSON is parsed first, and its text is streamed as a whole.
    ///
    /// The question is asked when the stream is first polled. If it is superseded before the answer is said, the streamed text is not
    /// part of the answer. If the process is killed before that, the text may be streamed again and may differ.
    pub fn ask_stream(&self, user: impl AsRef<str>, text: impl Into<String>) -> AnswerStream {
        match self.direct(&user) {
            Ok(direct) => direct.ask_stream(user, text),
            Err(error) => AnswerStream::of(self, Err(error)),
        }
    }

    /// Returns a conversation in a room: a group, a channel of a platform, or one that a program defines. The room is stored with its first
    /// message.
    pub fn room(&self, room: Room) -> Conversation {
        Conversation::new(self.clone(), room)
    }

    /// Processes a message that a platform received: its author and room, the platform's own id of it, and its attachments. A message that
    /// is delivered twice is answered once. The platform that is registered for the source of the message says the answer, which is also
    /// returned; see [`ask`](Self::ask).
    pub async fn receive(&self, origin: Origin, incoming: Incoming) -> Result<Answer> {
        let (tap, answered) = Tap::new();
        self.answer(origin, incoming, tap, answered).await
    }

    /// Like [`receive`](Self::receive), but returns the id of the message as soon as it is stored, and a future of the answer. A failed or
    /// late run is an answer, too, not an error.
    pub(super) async fn submit(
        &self,
        origin: Origin,
        incoming: Incoming,
    ) -> Result<(MemoryId, impl Future<Output = Result<Answer>> + Send + use<>)> {
        let (tap, stored, answered) = Tap::storing();
        let run = self.begin(origin, incoming, tap)?;
        let run = run.ok_or_else(|| Error::invalid("the agent does not answer what it said itself"))?;
        match stored.await {
            Ok(id) => Ok((id, over(run, answered))),
            Err(_) => Err(failure(&over(run, answered).await?.end).unwrap_or_else(stopped)),
        }
    }

    /// Stores a message that a platform received, with its author and room, without answering it, and returns its id. Fails with
    /// `InvalidInput` for the agent's own messages, which are stored when the agent says them.
    pub async fn observe(&self, origin: Origin, mut message: NewMessage) -> Result<MemoryId> {
        let Shared { service, runs, records, .. } = &*self.shared;
        let _counted = runs.token();
        if runs.is_closed() {
            return Err(closed());
        }
        if is_own(records.agent(), &message.content) {
            return Err(Error::invalid("the agent said this itself"));
        }
        message.status = Status::Observed;
        let incoming = Incoming { message, is_addressed: false };
        incoming.check()?;
        self.shared.keep_room(&origin).await?;
        let added = service.in_time(records.messages().add_once(incoming.message)).await?;
        let admitted = service.admit(&origin.room.id, &origin.author.id, Some(&origin.author), added.is_new).await;
        // The message is stored even if its author was refused.
        admitted.map_err(|error| error.with_outcome(Outcome::Unknown))?;
        Ok(added.message.id)
    }

    /// Registers parts after the existing ones, and starts the triggers among them; see [`Composer::add`].
    pub fn add(&self, parts: ContextParts) -> Result<()> {
        self.shared.composer.add(parts)?;
        drop(self.follow_triggers());
        Ok(())
    }

    /// Replaces the parts with the same names, even built-in ones, and stops the triggers that are replaced; see [`Composer::replace`].
    pub fn replace(&self, parts: ContextParts) -> Result<()> {
        self.shared.composer.replace(parts)?;
        drop(self.follow_triggers());
        Ok(())
    }

    /// Removes the part with a name, even a built-in one, and stops it if it is a trigger. Returns whether it existed.
    pub fn remove(&self, part: &ContextPart) -> bool {
        let was_there = self.shared.composer.remove(part);
        drop(self.follow_triggers());
        was_there
    }

    /// Replaces the prompt templates; runs in progress use them from their next step on.
    pub fn set_templates(&self, templates: Templates) {
        self.shared.composer.set_templates(templates);
    }

    /// Initialises a plugin, registers its parts, and starts its triggers; see [`Composer::install`].
    pub async fn install(&self, plugin: impl ContextPlugin, config: &Values) -> Result<()> {
        self.shared.composer.install(Arc::new(plugin), config).await?;
        drop(self.follow_triggers());
        Ok(())
    }

    /// Stops the triggers of a plugin, removes its other parts, and shuts it down; see [`Composer::uninstall`].
    pub async fn uninstall(&self, name: &str) -> Result<bool> {
        self.shared.composer.remove_triggers_of(name);
        drop(self.follow_triggers().await);
        self.shared.composer.uninstall(name).await
    }

    /// The cached results of providers, which can be read and cleared; see [`Composer::cache`].
    pub fn cache(&self) -> &StateCache {
        self.shared.composer.cache()
    }

    /// The events of the runs, to subscribe to.
    pub fn events(&self) -> &Events {
        self.shared.service.events()
    }

    /// The records of the agent.
    pub fn records(&self) -> &Records {
        &self.shared.records
    }

    /// The service that processes messages, for functions that this type lacks, such as [posts](MessageService::post).
    pub fn service(&self) -> &Arc<MessageService> {
        &self.shared.service
    }

    /// Stops the triggers, accepts no more questions, waits for the runs in progress, and closes what the builder opened. A second call
    /// does nothing.
    ///
    /// Runs that do not end within the grace period ([`AgentBuilder::grace`]) are stopped and release their messages, so that another
    /// process, or the next agent with this name on this memory, can continue them at once.
    pub async fn shutdown(&self) -> Result<()> {
        let Shared { service, runs, triggers, closing, stop, grace, composer, opened, .. } = &*self.shared;
        triggers.close().await;
        runs.close();
        closing.cancel();
        let over = async {
            runs.wait().await;
            // Posts are not counted among the agent's runs.
            service.shutdown().await;
        };
        if timeout(*grace, over).await.is_err() {
            tracing::warn!(runs = runs.len(), "runs are stopped before their end");
            if timeout(GIVE_BACK, service.stop()).await.is_err() {
                tracing::warn!("messages are not given back, and stay leased for a while");
            }
        }
        stop.cancel();
        runs.wait().await;
        let mut end = composer.shutdown().await;
        if let Some(provider) = opened {
            end = end.and(provider.shutdown().await);
        }
        end
    }

    /// Starts and stops triggers so that exactly the registered ones run. The handle waits for the end of those that were stopped.
    fn follow_triggers(&self) -> JoinHandle<()> {
        let registered = || self.shared.composer.services().triggers().to_vec();
        let agent = WeakAgent(Arc::downgrade(&self.shared));
        self.shared.triggers.follow(|stop| TriggerContext::new(agent.clone(), stop), registered)
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        self.shared.clock.as_ref()
    }

    pub(super) async fn answer(
        &self,
        origin: Origin,
        incoming: Incoming,
        tap: Tap,
        answered: oneshot::Receiver<Answer>,
    ) -> Result<Answer> {
        let Some(run) = self.begin(origin, incoming, tap)? else { return Ok(Answer::ignored(Why::Own)) };
        let answer = over(run, answered).await?;
        match failure(&answer.end) {
            Some(error) => Err(error),
            None => Ok(answer),
        }
    }

    /// Starts processing a message in the background. Returns `None` for the agent's own messages.
    fn begin(&self, origin: Origin, incoming: Incoming, tap: Tap) -> Result<Option<JoinHandle<Result<()>>>> {
        let (agent, runs) = (Arc::clone(&self.shared), &self.shared.runs);
        // Counted before the check, so that a shutdown either waits for the run or refuses it.
        let _counted = runs.token();
        if runs.is_closed() {
            return Err(closed());
        }
        if is_own(self.shared.records.agent(), &incoming.message.content) {
            return Ok(None);
        }
        incoming.check()?;
        // Called here, not in the spawned task, so that the messages of a room keep the order of the calls. Boxed, since each future
        // around it would hold it twice, which overflows the stack of a worker that asks.
        let work = Box::pin(agent.service.receive_for(incoming, Some(origin.author.clone()), tap.clone()));
        Ok(Some(runs.spawn(async move { agent.run(&origin, work, tap).await })))
    }
}

/// Waits for the answer of a run, or the error that ended it.
async fn over(run: JoinHandle<Result<()>>, answered: oneshot::Receiver<Answer>) -> Result<Answer> {
    if let Ok(answer) = answered.await {
        return Ok(answer);
    }
    let panicked = |_| unclear(ErrorKind::Unexpected, "the work on the message panicked");
    Err(run.await.map_err(panicked)?.err().unwrap_or_else(stopped))
}

/// Returns the error that the caller of `ask` gets for the end of a run; `None` if the caller gets an answer.
fn failure(end: &End) -> Option<Error> {
    match end {
        End::Failed { reason } => Some(unclear(ErrorKind::Unexpected, reason)),
        End::TimedOut { after } => {
            Some(unclear(ErrorKind::Timeout, format!("no answer within {} ms", after.as_millis())))
        }
        End::Completed | End::Superseded | End::Ignored(_) | End::Left { .. } => None,
    }
}

impl Drop for Shared {
    /// Ends the recovery, since no handle is left.
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

impl Shared {
    /// Processes a message until the run ends, or until it is stopped, which drops the run.
    async fn run(&self, origin: &Origin, work: impl Future<Output = End>, tap: Tap) -> Result<()> {
        let work = async {
            self.keep_room(origin).await?;
            tap.end(&work.await);
            Ok(())
        };
        self.stop.run_until_cancelled(work).await.unwrap_or_else(|| Err(stopped()))
    }

    /// Stores the room of a message if it is new, and adds the agent to it. If the room was seen recently, it only checks whether it was
    /// erased. The author is added when the message is stored, since it may be a repeated delivery, whose author has left.
    async fn keep_room(&self, origin: &Origin) -> Result<()> {
        let seen = || self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_seen = seen().get(&origin.room.id).is_some();
        if is_seen && self.is_room_known(origin).await {
            return Ok(());
        }
        self.service.in_time(origin.ensure_room(&self.records)).await?;
        seen().put(origin.room.id.clone(), ());
        Ok(())
    }

    /// Whether the record of a room that was seen recently still exists. If this can't be checked, it counts as existing, so that the
    /// message is stored nevertheless.
    async fn is_room_known(&self, origin: &Origin) -> bool {
        self.service.in_time(origin.is_room_known(&self.records)).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "it can't be checked whether the record of a room still exists");
            true
        })
    }
}

/// Recovers open messages, at once and then from time to time, until the agent closes.
async fn recover(service: &Arc<MessageService>, closing: &CancellationToken, every: Duration) {
    while !closing.is_cancelled() {
        if let Err(error) = service.recover().await {
            tracing::warn!(%error, "open messages can't be recovered");
        }
        let _closed = timeout(every, closing.cancelled()).await;
    }
}

/// An error with unknown outcome, since something may have been stored, said or done.
fn unclear(kind: ErrorKind, message: impl Into<String>) -> Error {
    Error::new(kind, message).with_outcome(Outcome::Unknown)
}

fn stopped() -> Error {
    closed().with_outcome(Outcome::Unknown)
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the agent is shut down")
}
