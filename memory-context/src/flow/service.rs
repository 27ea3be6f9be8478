//! The service that answers messages. The module `way` has the steps of a message.

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
    /// The small model: decides whether to answer, and reflects.
    pub(super) small: Arc<dyn Model>,
    /// The large model: writes the answers.
    pub(super) large: Arc<dyn Model>,
    pub(super) reader: Option<Arc<dyn AttachmentReader>>,
    pub(super) queues: RoomQueues,
    pub(super) leases: Arc<Leases>,
    instance: Option<String>,
    pub(super) events: Events,
    pub(super) rules: RespondRules,
    pub(super) limits: Limits,
    /// A permit for each run that learns after its answer.
    pub(super) learning: Semaphore,
    /// The options for composing answers.
    pub(super) options: ComposeOptions,
    pub(super) door: Door,
}

impl MessageService {
    /// Makes a service with the default rules and limits, and one model for everything. Providers, tools and evaluators of the composer
    /// find the model and the events in their [`Services`](crate::state::Services).
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

    /// Sets the small model, which decides whether to answer and which reflects.
    #[must_use]
    pub fn with_small_model(mut self, model: Arc<dyn Model>) -> Self {
        self.small = model;
        self.show_flow();
        self
    }

    /// Sets the reader that describes attachments; none by default.
    #[must_use]
    pub fn with_attachment_reader(mut self, reader: Arc<dyn AttachmentReader>) -> Self {
        self.reader = Some(reader);
        self
    }

    /// Sets the rules that decide whether to answer.
    #[must_use]
    pub fn with_rules(mut self, rules: RespondRules) -> Self {
        self.rules = rules;
        self
    }

    /// Sets the limits of runs.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self.learning = semaphore(limits.learning);
        self.leases = leases(&self.composer, self.instance.as_deref(), limits.lease);
        self
    }

    /// Sets the options for composing answers, such as providers and a budget. In any case the conversation is read again for each answer,
    /// and the providers that the model asks for are added.
    #[must_use]
    pub fn with_options(mut self, options: ComposeOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets the instance name; a new unique name by default. After a restart with the same name, [`recover`](Self::recover) takes the
    /// messages that the previous process held when this call was made, without waiting for their leases. If that process still runs, it
    /// loses these messages, but not those that it takes later. So use a name in one process at a time.
    ///
    /// Fails with `InvalidInput` unless the name has 1 to 128 bytes and no control characters.
    pub fn with_instance(mut self, name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        Leases::check_instance(&name)?;
        self.leases = leases(&self.composer, Some(&name), self.limits.lease);
        self.instance = Some(name);
        Ok(self)
    }

    /// Composes the state for the first model call about a message, without storing anything.
    pub(crate) async fn preview(&self, message: Message) -> Result<State> {
        // A separate composer has a separate cache, so this evicts no message in progress.
        let composer = self.composer.wrapped(Arc::clone)?;
        Ok(composer.compose_state(&Turn::new(message), &self.options).await)
    }

    /// The events of the runs, to subscribe to.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Supersedes the undecided answers in a room, as a newer message that is to be answered does.
    pub(crate) fn interrupt(&self, room: &RoomId) {
        self.queues.enter(room, self.composer.services().clock().now()).supersede();
    }

    /// Accepts no more messages, and returns when all runs have ended. Decided answers are said and done; undecided messages are given
    /// back, so that another process can continue them at once. Later messages fail.
    pub async fn shutdown(&self) {
        self.door.close(Stopping::Undecided).await;
    }

    /// Like [`shutdown`](Self::shutdown), but gives back decided messages, too; another process continues from their journals.
    pub async fn stop(&self) {
        self.door.close(Stopping::Everything).await;
    }

    /// The limits of runs.
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Runs a ledger call with the ledger deadline. A late call may have had its effect.
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

    /// The models and events for providers, tools and evaluators in a run.
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
