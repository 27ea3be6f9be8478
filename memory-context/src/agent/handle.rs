//! The agent, as a host holds it.

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
use crate::records::{ChannelType, EntityId, NewMessage, Records, Room, RoomId};
use crate::state::{Composer, ContextPart, ContextParts, ContextPlugin, StateCache, Values};
use crate::template::Templates;

/// An agent that remembers. Cheap to clone; the clones are one agent.
///
/// ```
/// use std::sync::Arc;
/// use memory_context::agent::Agent;
/// use memory_context::core::InMemory;
/// use memory_context::model::{Completion, Model, Prompt};
///
/// /// In place of a model behind an endpoint.
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

/// An agent that may be gone.
#[derive(Debug, Clone)]
pub(super) struct WeakAgent(Weak<Shared>);

impl WeakAgent {
    pub(super) fn upgrade(&self) -> Option<Agent> {
        self.0.upgrade().map(|shared| Agent { shared })
    }
}

#[derive(Debug)]
struct Shared {
    service: Arc<MessageService>,
    /// The one of the service: they share their registration.
    composer: Composer,
    records: Records,
    clock: Arc<dyn Clock>,
    /// The provider that the agent opened for itself.
    opened: Option<Arc<dyn MemoryProvider>>,
    grace: Duration,
    /// Who was seen where, of those that were seen last: what is known of them was kept.
    seen: Mutex<LruCache<(RoomId, EntityId), ()>>,
    runs: TaskTracker,
    triggers: Triggers,
    /// Ends the recovery.
    closing: CancellationToken,
    stop: CancellationToken,
}

/// What an agent is made of.
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

/// How long a shutdown waits for the messages that it gives back.
const GIVE_BACK: Duration = Duration::from_secs(5);

/// What the id of the room begins with that a user and the agent have for themselves; the user's name follows.
pub const DIRECT: &str = "dm:";

impl Agent {
    /// Starts the description of an agent of this name, which has 1 to 80 bytes. Agents of different names on one memory don't see each
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

    /// The conversation that a user and the agent have with each other, in which [`ask`](Self::ask) asks. `InvalidInput` for a name
    /// that is none, `TooLarge` over 77 bytes.
    pub fn direct(&self, user: impl AsRef<str>) -> Result<Conversation> {
        Ok(self.room(Room::new(RoomId::parse(format!("{DIRECT}{}", user.as_ref()))?, ChannelType::Dm)))
    }

    /// Asks on behalf of a user, in the conversation that the user and the agent have with each other.
    ///
    /// # Behavior
    /// - The user's name is an id of 1 to 77 bytes: who comes back under it is the same, and hears nothing of others.
    /// - Conversations go on side by side. Of one conversation, one question after the other is answered: a question that comes while
    ///   the one before it is thought about supersedes it, and the answer to that says so.
    /// - The answer ends as completed, superseded, or ignored where the agent is muted or does not want to answer. A run that failed or
    ///   was late is an error of unknown outcome, `Timeout` for a late one; what was said before that is stored all the same.
    /// - The question is answered also when the future is dropped, and after a kill of the process: by the next agent of this name on this
    ///   memory, once the lease of the question has run out.
    /// - Where the agent stops, another process has taken the question, the memory can't keep the answer for now, or an operator has erased
    ///   the question meanwhile, the answer has what was said until then and ends as left.
    /// - `InvalidInput` for a name that is none, `TooLarge` for a text of more than 64 KiB, `Closed` after [`shutdown`](Self::shutdown).
    pub async fn ask(&self, user: impl AsRef<str>, text: impl Into<String>) -> Result<Answer> {
        self.direct(&user)?.ask(user, text).await
    }

    /// The same with the text as it comes, and the answer at the end. An answer in XML or JSON comes when it is read.
    ///
    /// It is asked when the stream is polled. What was streamed may be no part of the answer where the question is superseded before the
    /// answer is said; and where the process is killed before that, the text may come again, and be another.
    pub fn ask_stream(&self, user: impl AsRef<str>, text: impl Into<String>) -> AnswerStream {
        match self.direct(&user) {
            Ok(direct) => direct.ask_stream(user, text),
            Err(error) => AnswerStream::of(self, Err(error)),
        }
    }

    /// A room in which users talk to the agent: a group, a channel of a platform, or a conversation of a program's own. The room is kept
    /// with the first message.
    pub fn room(&self, room: Room) -> Conversation {
        Conversation::new(self.clone(), room)
    }

    /// Takes in what a platform received, with what the platform knows of it: who said it and where, its own id of the message, what came
    /// with it. The same message twice is answered once. What the agent says is said by the platform that is registered for the source of
    /// the message, and told in the answer; see [`ask`](Self::ask).
    pub async fn receive(&self, origin: Origin, incoming: Incoming) -> Result<Answer> {
        let (tap, answered) = Tap::new();
        self.answer(origin, incoming, tap, answered).await
    }

    /// The same, but gives the id of the message as soon as that is stored, and the answer behind it. A run that failed or was late is an
    /// answer, too.
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

    /// Keeps what a platform received, with who said it and where, as [`receive`](Self::receive) does, and answers nothing; gives the id of
    /// the message. `InvalidInput` for what the agent said itself, which it keeps when it says it.
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
        self.shared.keep(&origin).await?;
        let added = service.in_time(records.messages().add_once(incoming.message)).await?;
        if added.is_new {
            service.in_time(records.participants().join(&origin.room.id, &origin.author.id)).await?;
        }
        Ok(added.message.id)
    }

    /// Registers parts behind those that are there, and starts the triggers among them; see [`Composer::add`].
    pub fn add(&self, parts: ContextParts) -> Result<()> {
        self.shared.composer.add(parts)?;
        drop(self.follow_triggers());
        Ok(())
    }

    /// Registers parts in the places of those with their names, built-in ones too, and stops the triggers that they replace; see
    /// [`Composer::replace`].
    pub fn replace(&self, parts: ContextParts) -> Result<()> {
        self.shared.composer.replace(parts)?;
        drop(self.follow_triggers());
        Ok(())
    }

    /// Takes away what has a name, built-in ones too, and has it stop where it is a trigger; tells whether it was there.
    pub fn remove(&self, part: &ContextPart) -> bool {
        let was_there = self.shared.composer.remove(part);
        drop(self.follow_triggers());
        was_there
    }

    /// Has its models asked by other templates from the next step on.
    pub fn set_templates(&self, templates: Templates) {
        self.shared.composer.set_templates(templates);
    }

    /// Makes a plugin ready, registers what it brings along, and starts its triggers; see [`Composer::install`].
    pub async fn install(&self, plugin: impl ContextPlugin, config: &Values) -> Result<()> {
        self.shared.composer.install(Arc::new(plugin), config).await?;
        drop(self.follow_triggers());
        Ok(())
    }

    /// Ends the triggers of a plugin, takes away what else it brought along, and shuts it down; see [`Composer::uninstall`].
    pub async fn uninstall(&self, name: &str) -> Result<bool> {
        self.shared.composer.remove_triggers_of(name);
        drop(self.follow_triggers().await);
        self.shared.composer.uninstall(name).await
    }

    /// What earlier compositions got, to be read and cleared; see [`Composer::cache`].
    pub fn cache(&self) -> &StateCache {
        self.shared.composer.cache()
    }

    /// Where to hear what happens in the runs.
    pub fn events(&self) -> &Events {
        self.shared.service.events()
    }

    /// What the agent remembers.
    pub fn records(&self) -> &Records {
        &self.shared.records
    }

    /// The way of its messages, for what is not here, such as [posts](MessageService::post).
    pub fn service(&self) -> &Arc<MessageService> {
        &self.shared.service
    }

    /// Stops the triggers, takes no more questions, lets the runs that go on end, and closes what the builder opened. A second call does
    /// nothing more.
    ///
    /// Runs that are not over within the grace of the builder are stopped, and give their messages back: another process, or the next
    /// agent of this name on this memory, goes on with them at once.
    pub async fn shutdown(&self) -> Result<()> {
        let Shared { service, runs, triggers, closing, stop, grace, composer, opened, .. } = &*self.shared;
        triggers.close().await;
        runs.close();
        closing.cancel();
        let over = async {
            runs.wait().await;
            // Posts are no runs of the agent's own.
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

    /// Has the triggers run that are registered, and no others; the handle waits for the end of those that are not.
    fn follow_triggers(&self) -> JoinHandle<()> {
        let registered = || self.shared.composer.services().triggers().to_vec();
        self.shared.triggers.follow(&WeakAgent(Arc::downgrade(&self.shared)), registered)
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

    /// Takes a message in, and works on it in the background; `None` for one of the agent's own.
    fn begin(&self, origin: Origin, incoming: Incoming, tap: Tap) -> Result<Option<JoinHandle<Result<()>>>> {
        let (agent, runs) = (Arc::clone(&self.shared), &self.shared.runs);
        // Counted before the look, so that a shutdown waits for the run or refuses it.
        let _counted = runs.token();
        if runs.is_closed() {
            return Err(closed());
        }
        if is_own(self.shared.records.agent(), &incoming.message.content) {
            return Ok(None);
        }
        incoming.check()?;
        // Now, and not in the task, so that the messages of a room come in the order of the calls. Boxed, since each future around it
        // would hold it twice, which overflows the stack of a worker that asks.
        let work = Box::pin(agent.service.receive_for(incoming, tap.clone()));
        Ok(Some(runs.spawn(async move { agent.run(&origin, work, tap).await })))
    }
}

/// The answer of a run, or why there is none.
async fn over(run: JoinHandle<Result<()>>, answered: oneshot::Receiver<Answer>) -> Result<Answer> {
    if let Ok(answer) = answered.await {
        return Ok(answer);
    }
    let panicked = |_| unclear(ErrorKind::Unexpected, "the work on the message panicked");
    Err(run.await.map_err(panicked)?.err().unwrap_or_else(stopped))
}

/// What the end of a run is for one who asked; `None` where that is an answer.
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
    /// Nobody can ask any more, so the recovery ends.
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

impl Shared {
    /// Works on a message until that is over, or until it is stopped: then the run is dropped.
    async fn run(&self, origin: &Origin, work: impl Future<Output = End>, tap: Tap) -> Result<()> {
        let work = async {
            self.keep(origin).await?;
            tap.end(&work.await);
            Ok(())
        };
        self.stop.run_until_cancelled(work).await.unwrap_or_else(|| Err(stopped()))
    }

    /// Keeps what is not known yet of who said something and where. Of who was seen, it looks only whether they were erased since.
    async fn keep(&self, origin: &Origin) -> Result<()> {
        let key = (origin.room.id.clone(), origin.author.id.clone());
        let seen = || self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_seen = seen().get(&key).is_some();
        if is_seen && self.is_known(origin).await {
            return Ok(());
        }
        self.service.in_time(origin.ensure(&self.records)).await?;
        seen().put(key, ());
        Ok(())
    }

    /// Whether who was seen is known still. A look that fails keeps no message from being stored.
    async fn is_known(&self, origin: &Origin) -> bool {
        self.service.in_time(origin.is_known(&self.records)).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "nobody can tell whether somebody is known still");
            true
        })
    }
}

/// Goes on with the messages that were left open, at once and from time to time until the agent closes.
async fn recover(service: &Arc<MessageService>, closing: &CancellationToken, every: Duration) {
    while !closing.is_cancelled() {
        if let Err(error) = service.recover().await {
            tracing::warn!(%error, "what was left unanswered can't be found");
        }
        let _closed = timeout(every, closing.cancelled()).await;
    }
}

/// An error of work that was begun: something may have been stored, said or done.
fn unclear(kind: ErrorKind, message: impl Into<String>) -> Error {
    Error::new(kind, message).with_outcome(Outcome::Unknown)
}

fn stopped() -> Error {
    closed().with_outcome(Outcome::Unknown)
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the agent is shut down")
}
