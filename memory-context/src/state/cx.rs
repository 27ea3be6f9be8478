//! What a provider is given.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use super::services::Flow;
use super::{ActionState, ProviderInfo, ProviderResult, Services, Values};
use crate::records::{Audience, Message};

/// The message that an agent is about to answer, and what it did about it so far.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Turn {
    /// What was received.
    pub message: Arc<Message>,
    /// The actions of this turn.
    pub actions: Arc<ActionState>,
    /// What its run works with, in the place of what the services have.
    flow: Option<Arc<Flow>>,
}

impl Turn {
    /// The beginning of a turn.
    pub fn new(message: impl Into<Arc<Message>>) -> Self {
        Self { message: message.into(), actions: Arc::default(), flow: None }
    }

    /// The same turn, of a message of which more is known.
    pub(crate) fn with_message(mut self, message: Message) -> Self {
        self.message = Arc::new(message);
        self
    }

    /// The turn of a run that works with this.
    pub(crate) fn with_flow(mut self, flow: Flow) -> Self {
        self.flow = Some(Arc::new(flow));
        self
    }

    /// What its run works with; `None` outside of one.
    pub(super) fn flow(&self) -> Option<&Flow> {
        self.flow.as_deref()
    }

    /// With actions that were done.
    #[must_use]
    pub fn with_actions(mut self, actions: impl Into<Arc<ActionState>>) -> Self {
        self.actions = actions.into();
        self
    }
}

/// Where a provider finds what it needs: the turn, the services of the host, and what lower positions gave.
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

    /// What was received.
    pub fn message(&self) -> &'a Message {
        &self.turn.message
    }

    /// To whom records are shown, and in which room: author and room of the message.
    pub fn audience(&self) -> Audience {
        let content = &self.turn.message.content;
        Audience::new(content.room.clone(), content.author.clone())
    }

    /// What the agent did in this turn so far. It changes within a turn, so whoever reads it is uncached.
    pub fn actions(&self) -> &'a ActionState {
        &self.turn.actions
    }

    /// The services of the host, and what was registered when the composition began.
    pub fn services(&self) -> &Services {
        &self.services
    }

    /// All registered providers, in the order of their registration.
    pub fn providers(&self) -> impl Iterator<Item = &ProviderInfo> {
        self.services.providers().iter().map(|provider| provider.info())
    }

    /// What the providers of lower positions gave in this composition.
    pub fn state(&self) -> &'a Snapshot {
        self.has_read_state.store(true, Ordering::Relaxed);
        self.state
    }

    /// Whether the result depends on the snapshot.
    pub(super) fn has_read_state(&self) -> bool {
        self.has_read_state.load(Ordering::Relaxed)
    }
}

/// What a composition has so far. It does not change any more.
#[derive(Clone, PartialEq, Default, Serialize)]
pub struct Snapshot {
    /// The values of all, those of higher positions over those of lower ones.
    pub values: Values,
    /// The results of each.
    pub data: StateData,
}

/// The structured part of a state.
#[derive(Clone, PartialEq, Default, Serialize)]
pub struct StateData {
    /// What each provider gave, by its name. One that failed is not there.
    pub providers: BTreeMap<String, Arc<ProviderResult>>,
}

impl Snapshot {
    /// What a provider gave, if it ran and did not fail.
    pub fn provider(&self, name: &str) -> Option<&ProviderResult> {
        self.data.providers.get(name).map(Arc::as_ref)
    }
}

impl fmt::Debug for Snapshot {
    /// Payloads stay out of logs: only the names show.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshot({:?})", self.data.providers.keys())
    }
}

impl fmt::Debug for StateData {
    /// Payloads stay out of logs: only the names show.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StateData({:?})", self.providers.keys())
    }
}
