//! What a host gives to context providers.

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

/// Everything that providers read apart from the message, as it is registered at one moment.
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
    /// How often the registration changed: what was composed before a change does not count after it.
    pub(super) generation: u64,
}

/// What a [`MessageService`](crate::flow::MessageService) works with.
#[derive(Debug, Clone)]
pub(crate) struct Flow {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) small_model: Arc<dyn Model>,
    pub(crate) events: Events,
}

/// Something of the host that providers and tools use, such as a client of a platform.
pub trait Service: Any + Send + Sync {
    /// What it is called. Unique among all services; never empty.
    fn name(&self) -> &str;

    /// What the agent can do by it, for a model.
    fn description(&self) -> &str;
}

impl Services {
    /// The memory of an agent, and who it is. Its prompt memory lies on the engine of the records.
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

    /// With another prompt memory. A call of it that takes longer than ten seconds or panics has failed.
    #[must_use]
    pub fn with_prompt_memory(mut self, memory: Arc<dyn PromptSource>) -> Self {
        self.prompt_memory = Some(Arc::new(Guarded::new(memory)));
        self
    }

    /// Without a prompt memory.
    #[must_use]
    pub fn without_prompt_memory(mut self) -> Self {
        self.prompt_memory = None;
        self
    }

    /// With other templates than the default ones.
    #[must_use]
    pub fn with_templates(mut self, templates: Templates) -> Self {
        self.templates = Arc::new(templates);
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

    /// What it keeps for the prompt.
    pub fn prompt_memory(&self) -> Option<&dyn PromptSource> {
        self.prompt_memory.as_deref()
    }

    /// The model that writes the agent's answers. In a run it is that of the service whose run it is: its calls count in the usage of the
    /// answer, and each has [`Limits::model`](crate::flow::Limits::model). Elsewhere, as for a plugin that is made ready, it is the bare
    /// model of the service that was made last. `None` without a [`MessageService`](crate::flow::MessageService) over the composer, as
    /// for the two below.
    pub fn model(&self) -> Option<&Arc<dyn Model>> {
        self.flow.as_ref().map(|flow| &flow.model)
    }

    /// The model that decides whether to answer, and that reflects; see [`model`](Self::model).
    pub fn small_model(&self) -> Option<&Arc<dyn Model>> {
        self.flow.as_ref().map(|flow| &flow.small_model)
    }

    /// Where to hear what happens in the runs.
    pub fn events(&self) -> Option<&Events> {
        self.flow.as_ref().map(|flow| &flow.events)
    }

    /// What a model is asked in each step of the flow.
    pub fn templates(&self) -> &Templates {
        &self.templates
    }

    /// What contributes to the state, in the order of the registration.
    pub fn providers(&self) -> &[Arc<dyn ContextProvider>] {
        &self.parts.providers
    }

    /// What the agent can do.
    pub fn tools(&self) -> &[Tool] {
        &self.parts.tools
    }

    /// Names that models may call the tools by as well.
    pub fn aliases(&self) -> &[ToolAlias] {
        &self.parts.aliases
    }

    /// What looks at what it did.
    pub fn evaluators(&self) -> &[Arc<dyn Evaluator>] {
        &self.parts.evaluators
    }

    /// All services of the host.
    pub fn services(&self) -> &[Arc<dyn Service>] {
        &self.parts.services
    }

    /// What brings messages.
    pub fn triggers(&self) -> &[Arc<dyn MessageTrigger>] {
        &self.parts.triggers
    }

    /// The service of a type, the first if there are several.
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
