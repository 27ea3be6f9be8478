//! The context of a provider call.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use super::services::Flow;
use super::{ActionState, ProviderInfo, ProviderResult, Services, Values};
use crate::records::{Audience, Message};

/// A turn: the message that an agent answers, and its actions so far.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Turn {
    /// The message that was received.
    pub message: Arc<Message>,
    /// The actions of this turn so far.
    pub actions: Arc<ActionState>,
    /// The models and events of the turn's run, which replace those of the services.
    flow: Option<Arc<Flow>>,
}

impl Turn {
    /// Makes a turn without actions.
    pub fn new(message: impl Into<Arc<Message>>) -> Self {
        Self { message: message.into(), actions: Arc::default(), flow: None }
    }

    /// Replaces the message, for example by one whose attachments were described.
    pub(crate) fn with_message(mut self, message: Message) -> Self {
        self.message = Arc::new(message);
        self
    }

    /// Sets the models and events of the turn's run.
    pub(crate) fn with_flow(mut self, flow: Flow) -> Self {
        self.flow = Some(Arc::new(flow));
        self
    }

    /// The models and events of the turn's run; `None` outside of a run.
    pub(super) fn flow(&self) -> Option<&Flow> {
        self.flow.as_deref()
    }

    /// Sets the actions so far.
    #[must_use]
    pub fn with_actions(mut self, actions: impl Into<Arc<ActionState>>) -> Self {
        self.actions = actions.into();
        self
    }
}

/// The context of a provider call: the turn, the services of the host, and the results of lower positions. Evaluators get one with the
/// whole state.
#[derive(Debug)]
pub struct Cx<'a> {
    turn: &'a Turn,
    services: Arc<Services>,
    state: &'a Snapshot,
    has_read_state: AtomicBool,
}

impl<'a> Cx<'a> {
    pub(super) fn new(turn: &'a Turn, services: Arc<Services>, state: &'a Snapshot) -> Self {
        Self { turn, services, state, has_read_state: AtomicBool::new(false) }
    }

    /// The message that was received.
    pub fn message(&self) -> &'a Message {
        &self.turn.message
    }

    /// The audience for reads of records: the room and the author of the message.
    pub fn audience(&self) -> Audience {
        let content = &self.turn.message.content;
        Audience::new(content.room.clone(), content.author.clone())
    }

    /// The actions of this turn so far. They change within a turn, so a provider that reads them must be
    /// [`uncached`](super::ProviderInfo::uncached).
    pub fn actions(&self) -> &'a ActionState {
        &self.turn.actions
    }

    /// The services of the host and the parts, as registered when the composition began.
    pub fn services(&self) -> &Services {
        &self.services
    }

    /// All registered providers, in the order of their registration.
    pub fn providers(&self) -> impl Iterator<Item = &ProviderInfo> {
        self.services.providers().iter().map(|provider| provider.info())
    }

    /// The results of lower positions in this composition. A provider that reads them runs again when they have changed.
    pub fn state(&self) -> &'a Snapshot {
        self.has_read_state.store(true, Ordering::Relaxed);
        self.state
    }

    /// Whether the provider has read the snapshot, so that its result depends on it.
    pub(super) fn has_read_state(&self) -> bool {
        self.has_read_state.load(Ordering::Relaxed)
    }
}

/// The results of a composition so far; a copy, which does not change.
#[derive(Clone, PartialEq, Default, Serialize)]
pub struct Snapshot {
    /// The values of all providers. On a collision the value of the higher position wins.
    pub values: Values,
    /// The results of each provider.
    pub data: StateData,
}

/// The structured results of a state.
#[derive(Clone, PartialEq, Default, Serialize)]
pub struct StateData {
    /// The result of each provider by name. Providers that failed are missing.
    pub providers: BTreeMap<String, Arc<ProviderResult>>,
}

impl Snapshot {
    /// Returns the result of a provider, if it ran and did not fail.
    pub fn provider(&self, name: &str) -> Option<&ProviderResult> {
        self.data.providers.get(name).map(Arc::as_ref)
    }
}

impl fmt::Debug for Snapshot {
    /// Shows only the names, so that payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshot({:?})", self.data.providers.keys())
    }
}

impl fmt::Debug for StateData {
    /// Shows only the names, so that payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StateData({:?})", self.providers.keys())
    }
}
