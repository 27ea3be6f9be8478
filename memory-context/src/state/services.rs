//! The services and parts of a composer.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use memory_core::{Clock, SystemClock};
use memory_model::Model;

use super::{Character, ContextParts, ContextProvider, Evaluator};
use crate::agent::MessageTrigger;
use crate::flow::Events;
use crate::prompt::{Guarded, PromptMemory, PromptSource};
use crate::records::Records;
use crate::template::Templates;
use crate::tool::{Tool, ToolAlias};

/// A snapshot of the registration: everything that providers can use apart from the message.
#[derive(Debug, Clone)]
pub struct Services {
    character: Arc<Character>,
    records: Records,
    clock: Arc<dyn Clock>,
    conversation_length: usize,
    prompt_memory: Option<Arc<dyn PromptSource>>,
    pub(super) flow: Option<Flow>,
    pub(super) templates: Arc<Templates>,
    pub(super) parts: ContextParts,
    /// The number of changes of the registration. Results that were cached under a lower number are not used.
    pub(super) generation: u64,
}

/// The models and events of a [`MessageService`](crate::flow::MessageService).
#[derive(Debug, Clone)]
pub(crate) struct Flow {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) small_model: Arc<dyn Model>,
    pub(crate) events: Events,
}

/// A service of the host that providers and tools use, such as a client of a platform.
pub trait Service: Any + Send + Sync {
    /// The name, not empty and unique among all services.
    fn name(&self) -> &str;

    /// What the agent can do with it, for a model.
    fn description(&self) -> &str;
}

impl Services {
    /// Makes services with the records and the character of an agent. The prompt memory is kept on the engine of the records.
    pub fn new(records: Records, character: impl Into<Arc<Character>>) -> Self {
        let prompt_memory = PromptMemory::new(Arc::clone(records.documents()));
        Self {
            character: character.into(),
            records,
            prompt_memory: Some(Arc::new(prompt_memory)),
            flow: None,
            clock: Arc::new(SystemClock),
            conversation_length: 32,
            templates: Arc::default(),
            parts: ContextParts::default(),
            generation: 0,
        }
    }

    /// Sets the clock; the system clock by default.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets how many messages of a conversation are shown; 32 by default.
    #[must_use]
    pub fn with_conversation_length(mut self, messages: usize) -> Self {
        self.conversation_length = messages;
        self
    }

    /// Sets the prompt memory. A call of it fails if it takes longer than ten seconds or panics.
    #[must_use]
    pub fn with_prompt_memory(mut self, memory: Arc<dyn PromptSource>) -> Self {
        self.prompt_memory = Some(Arc::new(Guarded::new(memory)));
        self
    }

    /// Leaves out the prompt memory.
    #[must_use]
    pub fn without_prompt_memory(mut self) -> Self {
        self.prompt_memory = None;
        self
    }

    /// Sets the prompt templates.
    #[must_use]
    pub fn with_templates(mut self, templates: Templates) -> Self {
        self.templates = Arc::new(templates);
        self
    }

    /// The character of the agent.
    pub fn character(&self) -> &Character {
        &self.character
    }

    /// The records of the agent.
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// The clock of all times that the agent records.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// How many messages of a conversation are shown.
    pub fn conversation_length(&self) -> usize {
        self.conversation_length
    }

    /// The prompt memory, if there is one.
    pub fn prompt_memory(&self) -> Option<&dyn PromptSource> {
        self.prompt_memory.as_deref()
    }

    /// The model that writes the agent's answers. Within a run, its calls count in the usage of the answer, and each has the deadline
    /// [`Limits::model`](crate::flow::Limits::model). Elsewhere, as in the `init` of a plugin, it is the plain model of the service that
    /// was made last. `None` if there is no [`MessageService`](crate::flow::MessageService) over the composer.
    pub fn model(&self) -> Option<&Arc<dyn Model>> {
        self.flow.as_ref().map(|flow| &flow.model)
    }

    /// The model that decides whether to answer, and that reflects; see [`model`](Self::model).
    pub fn small_model(&self) -> Option<&Arc<dyn Model>> {
        self.flow.as_ref().map(|flow| &flow.small_model)
    }

    /// The events of the runs, to subscribe to; see [`model`](Self::model).
    pub fn events(&self) -> Option<&Events> {
        self.flow.as_ref().map(|flow| &flow.events)
    }

    /// The prompt templates.
    pub fn templates(&self) -> &Templates {
        &self.templates
    }

    /// The providers, in the order of their registration.
    pub fn providers(&self) -> &[Arc<dyn ContextProvider>] {
        &self.parts.providers
    }

    /// The registered tools, in the order of their registration.
    pub fn tools(&self) -> &[Tool] {
        &self.parts.tools
    }

    /// The other names of tools.
    pub fn aliases(&self) -> &[ToolAlias] {
        &self.parts.aliases
    }

    /// The registered evaluators, in the order of their registration.
    pub fn evaluators(&self) -> &[Arc<dyn Evaluator>] {
        &self.parts.evaluators
    }

    /// The services of the host.
    pub fn services(&self) -> &[Arc<dyn Service>] {
        &self.parts.services
    }

    /// The registered triggers, in the order of their registration.
    pub fn triggers(&self) -> &[Arc<dyn MessageTrigger>] {
        &self.parts.triggers
    }

    /// Returns the service of a type; the first if there are several.
    pub fn service<S: Service>(&self) -> Option<&S> {
        self.parts.services.iter().find_map(|service| {
            let any: &dyn Any = service.as_ref();
            any.downcast_ref::<S>()
        })
    }
}

impl fmt::Debug for dyn Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Service({})", self.name())
    }
}
