//! The service that answers messages; the way of a message is in `way`.

use std::sync::Arc;
use std::time::Duration;

use memory_core::{Error, ErrorKind, Outcome, Result};
use memory_model::Model;
use memory_runtime::Leases;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::door::{Door, Stopping};
use super::metered::Metered;
use super::queue::RoomQueues;
use super::voice::Voice;
use super::{AttachmentReader, Events, Limits, Platform, RespondRules, Run};
use crate::records::{Message, RoomId};
use crate::state::{ComposeOptions, Composer, Flow, State, Turn};

/// Answers the messages that an agent receives.
#[derive(Debug)]
pub struct MessageService {
    pub(super) composer: Composer,
    pub(super) platform: Arc<dyn Platform>,
    /// Decides whether to answer.
    pub(super) small: Arc<dyn Model>,
    /// Answers.
    pub(super) large: Arc<dyn Model>,
    pub(super) reader: Option<Arc<dyn AttachmentReader>>,
    pub(super) queues: RoomQueues,
    pub(super) leases: Arc<Leases>,
    instance: Option<String>,
    pub(super) events: Events,
    pub(super) rules: RespondRules,
    pub(super) limits: Limits,
    /// A permit for each run that learns behind its answer.
    pub(super) learning: Semaphore,
    /// What is composed for an answer.
    pub(super) options: ComposeOptions,
    pub(super) door: Door,
}

impl MessageService {
    /// A service with the default rules and limits, and one model for everything. Providers, tools and evaluators of the composer find
    /// models and events in their [`Services`](crate::state::Services).
    pub fn new(composer: Composer, model: Arc<dyn Model>, platform: Arc<dyn Platform>, events: Events) -> Self {
        let limits = Limits::default();
        let service = Self {
            leases: leases(&composer, None, limits.lease),
            instance: None,
            composer,
            platform,
            small: Arc::clone(&model),
            large: model,
            reader: None,
            queues: RoomQueues::default(),
            events,
            rules: RespondRules::default(),
            learning: semaphore(limits.learning),
            limits,
            options: ComposeOptions::default(),
            door: Door::open(),
        };
        service.show_flow();
        service
    }

    /// Asks another model whether to answer, and has reflections ask it.
    #[must_use]
    pub fn with_small_model(mut self, model: Arc<dyn Model>) -> Self {
        self.small = model;
        self.show_flow();
        self
    }

    /// Has what comes with messages put into words; by default nobody does.
    #[must_use]
    pub fn with_attachment_reader(mut self, reader: Arc<dyn AttachmentReader>) -> Self {
        self.reader = Some(reader);
        self
    }

    /// With other rules.
    #[must_use]
    pub fn with_rules(mut self, rules: RespondRules) -> Self {
        self.rules = rules;
        self
    }

    /// With other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self.learning = semaphore(limits.learning);
        self.leases = leases(&self.composer, self.instance.as_deref(), limits.lease);
        self
    }

    /// Composes answers over other providers, or within a budget. The conversation is read anew in any case, and what the model asks
    /// for is added.
    #[must_use]
    pub fn with_options(mut self, options: ComposeOptions) -> Self {
        self.options = options;
        self
    }

    /// Under a name of its own: a process that has it again after a restart takes up the messages of the one before at once, without
    /// waiting for their leases: those that it held when this call was made. One that still runs loses these, and keeps what it takes
    /// later; so a name is of one process at a time. By default it is a new one.
    ///
    /// `InvalidInput` unless it has 1 to 128 bytes without control characters.
    pub fn with_instance(mut self, name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        Leases::check_instance(&name)?;
        self.leases = leases(&self.composer, Some(&name), self.limits.lease);
        self.instance = Some(name);
        Ok(self)
    }

    /// What its answer to a message would be composed over at first. Nothing is kept of it.
    pub(crate) async fn preview(&self, message: Message) -> Result<State> {
        // A composer of its own has a cache of its own, so this takes no place of a message that is worked on.
        let composer = self.composer.wrapped(Arc::clone)?;
        Ok(composer.compose_state(&Turn::new(message), &self.options).await)
    }

    /// Where to hear what happens in the runs.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Supersedes the answers in a room that are still thought about, as a newer message that is to be answered does.
    pub(crate) fn interrupt(&self, room: &RoomId) {
        self.queues.enter(room, self.composer.services().clock().now()).supersede();
    }

    /// Takes nothing in any more, and ends when no run is going on: what was decided is said and done before that, and what was not
    /// is given back, so that another process can go on with it at once. What comes in later fails.
    pub async fn shutdown(&self) {
        self.door.close(Stopping::Undecided).await;
    }

    /// The same, but gives back what was decided too: another process goes on behind what was done of it.
    pub async fn stop(&self) {
        self.door.close(Stopping::Everything).await;
    }

    /// The limits of its work.
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Does some work at the ledger within its limit. What is late may have had its effect.
    pub(crate) async fn in_time<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let late = |_| {
            let message = format!("the ledger did not answer within {} ms", self.limits.ledger.as_millis());
            Error::new(ErrorKind::Timeout, message).with_outcome(Outcome::Unknown)
        };
        timeout(self.limits.ledger, work).await.map_err(late)?
    }

    fn show_flow(&self) {
        let (model, small_model, events) = (Arc::clone(&self.large), Arc::clone(&self.small), self.events.clone());
        self.composer.set_flow(Flow { model, small_model, events });
    }

    /// What providers, tools and evaluators work with in a run.
    pub(super) fn flow_of(&self, run: &Run) -> Flow {
        let metered = |model: &Arc<dyn Model>| -> Arc<dyn Model> {
            Arc::new(Metered::new(Arc::clone(model), self.limits.model, run.tap()))
        };
        Flow { model: metered(&self.large), small_model: metered(&self.small), events: self.events.clone() }
    }

    pub(super) fn voice(&self) -> Voice<'_> {
        Voice { services: self.composer.services(), platform: &self.platform, limit: self.limits.say }
    }
}

fn semaphore(permits: u32) -> Semaphore {
    Semaphore::new(usize::try_from(permits.max(1)).unwrap_or(Semaphore::MAX_PERMITS).min(Semaphore::MAX_PERMITS))
}

fn leases(composer: &Composer, instance: Option<&str>, length: Duration) -> Arc<Leases> {
    let services = composer.services();
    Leases::new(Arc::clone(services.records().provider()), Arc::clone(services.clock()), instance, length)
}
