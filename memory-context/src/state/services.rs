//! What a host gives to context providers.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use memory_core::{Clock, SystemClock};

use super::{Action, Character, Evaluator};
use crate::records::Records;

/// Everything that providers read apart from the message. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Services {
    character: Arc<Character>,
    records: Records,
    clock: Arc<dyn Clock>,
    conversation_length: usize,
    pub(super) actions: Vec<Arc<dyn Action>>,
    pub(super) evaluators: Vec<Arc<dyn Evaluator>>,
    pub(super) services: Vec<Arc<dyn Service>>,
}

/// Something of the host that providers and actions use, such as a client of a platform.
pub trait Service: Any + fmt::Debug + Send + Sync {
    /// What it is called. Unique among all services; never empty.
    fn name(&self) -> &str;

    /// What the agent can do by it, for a model.
    fn description(&self) -> &str;
}

impl Services {
    /// The memory of an agent, and who it is.
    pub fn new(records: Records, character: impl Into<Arc<Character>>) -> Self {
        Self {
            character: character.into(),
            records,
            clock: Arc::new(SystemClock),
            conversation_length: 32,
            actions: Vec::new(),
            evaluators: Vec::new(),
            services: Vec::new(),
        }
    }

    /// With another clock than that of the machine.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// With another number of messages that a conversation shows than 32.
    #[must_use]
    pub fn with_conversation_length(mut self, messages: usize) -> Self {
        self.conversation_length = messages;
        self
    }

    /// Also an action.
    #[must_use]
    pub fn with_action(mut self, action: Arc<dyn Action>) -> Self {
        self.actions.push(action);
        self
    }

    /// Also an evaluator.
    #[must_use]
    pub fn with_evaluator(mut self, evaluator: Arc<dyn Evaluator>) -> Self {
        self.evaluators.push(evaluator);
        self
    }

    /// Also a service.
    #[must_use]
    pub fn with_service(mut self, service: Arc<dyn Service>) -> Self {
        self.services.push(service);
        self
    }

    /// Who the agent is.
    pub fn character(&self) -> &Character {
        &self.character
    }

    /// What it remembers.
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// What time it is.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// How many messages a conversation shows.
    pub fn conversation_length(&self) -> usize {
        self.conversation_length
    }

    /// What the agent can do.
    pub fn actions(&self) -> &[Arc<dyn Action>] {
        &self.actions
    }

    /// What looks at what it did.
    pub fn evaluators(&self) -> &[Arc<dyn Evaluator>] {
        &self.evaluators
    }

    /// All services of the host.
    pub fn services(&self) -> &[Arc<dyn Service>] {
        &self.services
    }

    /// The service of a type, the first if there are several.
    pub fn service<S: Service>(&self) -> Option<&S> {
        self.services.iter().find_map(|service| {
            let any: &dyn Any = service.as_ref();
            any.downcast_ref::<S>()
        })
    }
}
