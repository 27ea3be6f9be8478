//! The builder of an agent.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use memory_core::plugin::{MemoryPlugin, Plugin};
use memory_core::{Clock, Error, MemoryProvider, Result, SystemClock};
#[cfg(feature = "openai")]
use memory_model::Modalities;
#[cfg(feature = "openai")]
use memory_model::openai::{OpenAiConfig, OpenAiEmbedder, OpenAiModel};
use memory_model::{Embedder, Model};

use super::handle::Parts;
use super::platforms::Platforms;
use super::source::Source;
use super::{Agent, DIRECT, Limits, MemorySource, MessageTrigger, Tool};
use crate::flow::{AttachmentReader, Events, MessageService, ModelReader, Platform, ReflectionEvaluator, RespondRules};
use crate::prompt::PromptSource;
use crate::records::{AgentId, Audience, Entity, Records, Room};
use crate::state::{
    Budget, Character, ComposeOptions, Composer, ContextParts, ContextPlugin, ContextProvider, Evaluator, Service,
    Services, Values,
};
use crate::template::Templates;
use crate::tool::{self, PluginTools};

/// Configures an [`Agent`]; see [`Agent::builder`]. A memory and a model are required; everything else has a default.
#[must_use]
pub struct AgentBuilder {
    name: String,
    memory: Option<MemorySource>,
    model: Option<ModelSource>,
    small_model: Option<ModelSource>,
    embedder: Option<EmbedderSource>,
    #[cfg(feature = "openai")]
    endpoint: EndpointSettings,
    #[cfg(feature = "openai")]
    small_endpoint: EndpointSettings,
    #[cfg(feature = "openai")]
    embedding_key: Option<String>,
    character: Option<Character>,
    system: Option<String>,
    prompt_memory: Option<Arc<dyn PromptSource>>,
    context: ContextParts,
    built_in_tools: ContextParts,
    /// The aliases. They are registered last, since they may name tools of plugins.
    aliases: ContextParts,
    plugins: Vec<Installation>,
    has_memory_tools: bool,
    reflects: bool,
    reader: Option<Arc<dyn AttachmentReader>>,
    platforms: BTreeMap<String, Arc<dyn Platform>>,
    rooms: Vec<Founding>,
    templates: Option<Templates>,
    options: ComposeOptions,
    budget: Option<Budget>,
    rules: RespondRules,
    limits: Limits,
    grace: Duration,
    instance: Option<String>,
    clock: Arc<dyn Clock>,
}

/// A plugin to be installed, and its configuration.
struct Installation {
    plugin: Arc<dyn ContextPlugin>,
    config: Values,
}

/// A room to store when the agent is built, and its members.
struct Founding {
    room: Room,
    members: Vec<Entity>,
}

enum ModelSource {
    Client(Arc<dyn Model>),
    #[cfg(feature = "openai")]
    Endpoint(OpenAiConfig),
}

enum EmbedderSource {
    Client(Arc<dyn Embedder>),
    #[cfg(feature = "openai")]
    Endpoint {
        config: OpenAiConfig,
        width: usize,
    },
}

/// The settings of one chat endpoint. The key is sent to no other endpoint.
#[cfg(feature = "openai")]
#[derive(Default)]
struct EndpointSettings {
    key: Option<String>,
    modalities: Modalities,
    calls_no_tools: bool,
}

/// How many events are buffered for slow subscribers.
const EVENTS: usize = 1_000;

impl AgentBuilder {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            memory: None,
            model: None,
            small_model: None,
            embedder: None,
            #[cfg(feature = "openai")]
            endpoint: EndpointSettings::default(),
            #[cfg(feature = "openai")]
            small_endpoint: EndpointSettings::default(),
            #[cfg(feature = "openai")]
            embedding_key: None,
            character: None,
            system: None,
            prompt_memory: None,
            context: ContextParts::default(),
            built_in_tools: tool::built_in_tools(),
            aliases: ContextParts::default(),
            plugins: Vec::new(),
            has_memory_tools: false,
            reflects: true,
            reader: None,
            platforms: BTreeMap::new(),
            rooms: Vec::new(),
            templates: None,
            // An agent with a memory uses facts about people by default.
            options: ComposeOptions::with(["FACTS"]),
            budget: None,
            rules: RespondRules::default(),
            limits: Limits::default(),
            grace: Duration::from_secs(30),
            instance: None,
            clock: Arc::new(SystemClock),
        }
    }

    /// Sets the memory: a URL such as `sqlite://agent.db`, or any `Arc` of a provider.
    pub fn memory(mut self, memory: impl Into<MemorySource>) -> Self {
        self.memory = Some(memory.into());
        self
    }

    /// Sets the large model, which writes the answers, behind an endpoint that speaks OpenAI's chat completions: the base URL, as in
    /// `http://localhost:11434/v1`, and the name of the model.
    #[cfg(feature = "openai")]
    pub fn model(mut self, url: impl Into<String>, model: impl Into<String>) -> Self {
        self.model = Some(ModelSource::Endpoint(OpenAiConfig::new(url, model)));
        self
    }

    /// Sets the large model, which writes the answers. It is offered tools if [`Model::calls_tools`] says so. A failed call ends the run;
    /// wrap the model in [`Retrying`](crate::model::Retrying) to retry calls, as is done for endpoints.
    pub fn model_client(mut self, model: impl Model) -> Self {
        self.model = Some(ModelSource::Client(Arc::new(model)));
        self
    }

    /// Sets the small model, which decides whether to answer and which reflects, behind an endpoint. By default the large model does both.
    #[cfg(feature = "openai")]
    pub fn small_model(mut self, url: impl Into<String>, model: impl Into<String>) -> Self {
        self.small_model = Some(ModelSource::Endpoint(OpenAiConfig::new(url, model)));
        self
    }

    /// Sets the small model, which decides whether to answer and which reflects. Its calls are not retried, like those of
    /// [`model_client`](Self::model_client).
    pub fn small_model_client(mut self, model: impl Model) -> Self {
        self.small_model = Some(ModelSource::Client(Arc::new(model)));
        self
    }

    /// Sets the bearer token for the endpoint of [`model`](Self::model). It is sent to no other endpoint.
    #[cfg(feature = "openai")]
    pub fn model_key(mut self, key: impl Into<String>) -> Self {
        self.endpoint.key = Some(key.into());
        self
    }

    /// Sets which attachments of messages are sent to the model of [`model`](Self::model); none by default.
    #[cfg(feature = "openai")]
    pub fn model_modalities(mut self, modalities: Modalities) -> Self {
        self.endpoint.modalities = modalities;
        self
    }

    /// Offers no tools to the model of [`model`](Self::model), for endpoints that would refuse them, and asks it for answers in a form that
    /// names actions. Such an answer is said when it is complete. By default the model calls tools, and its text is said unchanged.
    #[cfg(feature = "openai")]
    pub fn without_tool_calls(mut self) -> Self {
        self.endpoint.calls_no_tools = true;
        self
    }

    /// Sets the bearer token for the endpoint of [`small_model`](Self::small_model). It is sent to no other endpoint.
    #[cfg(feature = "openai")]
    pub fn small_model_key(mut self, key: impl Into<String>) -> Self {
        self.small_endpoint.key = Some(key.into());
        self
    }

    /// Sets which attachments are sent to the model of [`small_model`](Self::small_model), so that it describes the images of messages;
    /// none by default.
    #[cfg(feature = "openai")]
    pub fn small_model_modalities(mut self, modalities: Modalities) -> Self {
        self.small_endpoint.modalities = modalities;
        self
    }

    /// Finds facts and messages also by meaning, with a model behind an endpoint that speaks OpenAI's embeddings. `width` is the number of
    /// dimensions of its vectors. Missing vectors of all records are made after each run; see [`keeper`](crate::embedding::keeper). If the
    /// namespace has its vectors from another model, that fails with `SchemaMismatch`, and the search goes by words alone.
    #[cfg(feature = "openai")]
    pub fn embedding_model(mut self, url: impl Into<String>, model: impl Into<String>, width: usize) -> Self {
        self.embedder = Some(EmbedderSource::Endpoint { config: OpenAiConfig::new(url, model), width });
        self
    }

    /// Sets the bearer token for the endpoint of [`embedding_model`](Self::embedding_model). It is sent to no other endpoint.
    #[cfg(feature = "openai")]
    pub fn embedding_key(mut self, key: impl Into<String>) -> Self {
        self.embedding_key = Some(key.into());
        self
    }

    /// Finds facts and messages also by meaning, with this embedding model. Missing vectors of all records are made after each run; see
    /// [`keeper`](crate::embedding::keeper). If the model fails on a question, the search goes by words alone.
    pub fn embedder(mut self, embedder: impl Embedder) -> Self {
        self.embedder = Some(EmbedderSource::Client(Arc::new(embedder)));
        self
    }

    /// Sets the character; by default it has only the name of the agent.
    pub fn character(mut self, character: Character) -> Self {
        self.character = Some(character);
        self
    }

    /// Sets the system message of the model, instead of the one of the character.
    pub fn system(mut self, instructions: impl Into<String>) -> Self {
        self.system = Some(instructions.into());
        self
    }

    /// Sets the prompt memory, in place of the one on the engine of the memory; see [`Services::with_prompt_memory`].
    pub fn prompt_memory(mut self, memory: impl PromptSource) -> Self {
        self.prompt_memory = Some(Arc::new(memory));
        self
    }

    /// Adds a tool to those of [`tool::built_in_tools`].
    pub fn tool(mut self, tool: Tool) -> Self {
        self.context.tools.push(tool);
        self
    }

    /// Adds another name by which models can call a tool: one of the host, a built-in one, one of a plugin, `REPLY` or `IGNORE`; see
    /// [`ToolAlias`](crate::tool::ToolAlias).
    pub fn alias(mut self, name: impl Into<String>, tool: impl Into<String>) -> Self {
        self.aliases = self.aliases.with_alias(name, tool);
        self
    }

    /// Leaves out the built-in tools: models cannot follow or mute rooms, remember or forget, or read dynamic providers by a tool.
    pub fn without_built_in_tools(mut self) -> Self {
        self.built_in_tools = ContextParts::default();
        self
    }

    /// Adds the executors of a plugin as tools, each limited to the room of the message; see [`Tool::from_plugin`]. The agent initialises
    /// the plugin and shuts it down.
    pub fn plugin(self, plugin: Arc<dyn Plugin>) -> Self {
        self.context_plugin(PluginTools::new(plugin), Values::new())
    }

    /// Installs a context plugin with this configuration; see [`Composer::install`]. The agent shuts it down.
    pub fn context_plugin(mut self, plugin: impl ContextPlugin, config: Values) -> Self {
        self.plugins.push(Installation { plugin: Arc::new(plugin), config });
        self
    }

    /// Adds tools that query the memory of the room, and save and remove texts there: those of the provider's plugin or, with an embedder,
    /// of the standard plugin, which also searches by meaning.
    pub fn memory_tools(mut self) -> Self {
        self.has_memory_tools = true;
        self
    }

    /// Adds a context provider to the built-in ones.
    pub fn provider(mut self, provider: impl ContextProvider) -> Self {
        self.context.providers.push(Arc::new(provider));
        self
    }

    /// Adds a trigger, which brings messages to the agent; see [`MessageTrigger`].
    pub fn trigger(mut self, trigger: impl MessageTrigger) -> Self {
        self.context.triggers.push(Arc::new(trigger));
        self
    }

    /// Adds an evaluator, which runs after each message that was answered; see [`Evaluator`].
    pub fn evaluator(mut self, evaluator: impl Evaluator) -> Self {
        self.context.evaluators.push(Arc::new(evaluator));
        self
    }

    /// Adds a service for providers and tools; see [`Service`].
    pub fn service(mut self, service: impl Service) -> Self {
        self.context.services.push(Arc::new(service));
        self
    }

    /// Leaves out the reflection, by which the agent learns facts and relationships from its conversations.
    pub fn without_reflection(mut self) -> Self {
        self.reflects = false;
        self
    }

    /// Sets the reader that describes attachments as text. By default it is a [`ModelReader`] over the small model, or over the large one
    /// if only that takes images.
    pub fn attachment_reader(mut self, reader: impl AttachmentReader) -> Self {
        self.reader = Some(Arc::new(reader));
        self
    }

    /// Sets the platform that says the answers to messages of this source; see
    /// [`MessageContent::source`](crate::records::MessageContent). Without a platform, the answer is only returned.
    pub fn platform(mut self, source: impl Into<String>, platform: impl Platform) -> Self {
        self.platforms.insert(source.into(), Arc::new(platform));
        self
    }

    /// Stores this room when the agent is built, with these members and the agent in it; see [`Agent::room`]. A room that exists already
    /// stays as it is, with its members. The build fails with `InvalidInput` for the direct room of a user and the agent.
    pub fn room(mut self, room: Room, members: impl IntoIterator<Item = Entity>) -> Self {
        self.rooms.push(Founding { room, members: members.into_iter().collect() });
        self
    }

    /// Sets the prompt templates, instead of the default ones and those of the character.
    pub fn templates(mut self, templates: Templates) -> Self {
        self.templates = Some(templates);
        self
    }

    /// Sets the options for composing answers; by default the default providers and `FACTS`, without a budget. A budget set by
    /// [`budget`](Self::budget) wins over the one in the options.
    pub fn options(mut self, options: ComposeOptions) -> Self {
        self.options = options;
        self
    }

    /// Limits the size of the composed text in each prompt.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Sets the rules that decide without a model whether to answer.
    pub fn rules(mut self, rules: RespondRules) -> Self {
        self.rules = rules;
        self
    }

    /// Sets the time limits and the other limits of runs.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets how long a shutdown waits for the runs in progress; 30 s by default.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets the instance name. The messages that an earlier agent with the same instance name left open are recovered without waiting for
    /// their leases; see [`MessageService::with_instance`].
    pub fn instance(mut self, name: impl Into<String>) -> Self {
        self.instance = Some(name.into());
        self
    }

    /// Sets the clock, instead of the system clock.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Opens and initialises the memory and the plugins, and starts the agent on the current tokio runtime. The agent recovers, in the
    /// background, the messages that agents of its name on this memory left open.
    ///
    /// # Errors
    /// `InvalidInput` if the memory or the model is missing; if a name, a URL or a template is invalid; if two tools, providers,
    /// evaluators, services or plugins share a name; or if an alias is taken or names no tool. Otherwise the error of the engine or of a
    /// plugin. After an error everything that was opened is closed again.
    pub async fn build(mut self) -> Result<Agent> {
        let memory = self.memory.take().ok_or_else(|| Error::invalid("an agent needs a memory"))?;
        let id = AgentId::parse(&self.name)?;
        let (provider, opened) = match memory.0 {
            Source::Provider(provider) => (provider, None),
            Source::Url(url) => {
                let provider = memory_runtime::open(&url)?;
                (Arc::clone(&provider), Some(provider))
            }
        };
        let built = self.over(provider, opened.clone(), id).await;
        if let (Err(_), Some(opened)) = (&built, opened)
            && let Err(error) = opened.shutdown().await
        {
            tracing::warn!(%error, "the memory of an agent that was not made can't be closed");
        }
        built
    }

    /// Passes their settings to the endpoints. A chat endpoint gets a deadline slightly later than that of the flow, so that the error is
    /// the one of the flow, which says more. Its retries end before the deadline of the flow.
    #[cfg(feature = "openai")]
    fn set_endpoints(&mut self) {
        let limit_ms = u64::try_from(self.limits.model.as_millis()).unwrap_or(u64::MAX);
        if let Some(EmbedderSource::Endpoint { config, .. }) = &mut self.embedder {
            config.key = self.embedding_key.take();
        }
        let sources = [(&mut self.model, &mut self.endpoint), (&mut self.small_model, &mut self.small_endpoint)];
        for (source, settings) in sources {
            if let Some(ModelSource::Endpoint(config)) = source {
                config.key = settings.key.take();
                config.modalities = settings.modalities;
                config.tool_calls = !settings.calls_no_tools;
                config.deadline_ms = limit_ms.saturating_add(1_000);
                config.retries.within_ms = config.retries.within_ms.min(limit_ms);
            }
        }
    }

    async fn over(
        mut self,
        provider: Arc<dyn MemoryProvider>,
        opened: Option<Arc<dyn MemoryProvider>>,
        id: AgentId,
    ) -> Result<Agent> {
        #[cfg(feature = "openai")]
        self.set_endpoints();
        let large = self.model.take().ok_or_else(|| Error::invalid("an agent needs a model"))?.client()?;
        let small = self.small_model.take().map_or_else(|| Ok(Arc::clone(&large)), ModelSource::client)?;
        let embedder = self.embedder.take().map(EmbedderSource::client).transpose()?;
        let seeing = [&small, &large].into_iter().find(|model| model.modalities().images);
        let reader = Arc::new(seeing.map_or_else(ModelReader::default, |model| ModelReader::new(Arc::clone(model))));
        provider.init().await?;
        let records = Records::new(Arc::clone(&provider), id.clone()).with_clock(Arc::clone(&self.clock));
        let records = embedder.iter().cloned().fold(records, Records::with_embedder);
        let mut character = self.character.take().unwrap_or_else(|| Character::named(&self.name));
        if let Some(system) = self.system.take() {
            character.system = system;
        }
        records.entities().ensure(&Entity::new(id.entity(), &character.name)).await?;
        let rooms = std::mem::take(&mut self.rooms);
        if rooms.iter().any(|founding| founding.room.id.as_str().starts_with(DIRECT)) {
            return Err(Error::invalid(format!(
                "a room whose id begins with {DIRECT} must be of one user and the agent"
            )));
        }
        if self.has_memory_tools {
            let plugin: Arc<dyn Plugin> = match embedder {
                Some(embedder) => Arc::new(MemoryPlugin::new(provider).with_embedder(embedder)),
                None => provider.plugin(),
            };
            self = self.plugin(plugin);
        }
        if self.reflects {
            let reflection = ReflectionEvaluator::new(self.limits.model);
            self.context.evaluators.push(Arc::new(reflection));
        }
        let templates = self.templates.map_or_else(|| Templates::of(&character), Ok)?;
        let services = Services::new(records.clone(), character).with_clock(Arc::clone(&self.clock));
        let services = self.prompt_memory.into_iter().fold(services, Services::with_prompt_memory);
        let builder = Composer::builder(services.with_templates(templates)).built_in();
        let composer = builder.parts(self.context).parts(self.built_in_tools).build()?;
        let events = Events::new(EVENTS, Arc::clone(&self.clock));
        // The service is made before the plugins are initialised, since they find its models in the services.
        let service = MessageService::new(composer.clone(), large, Arc::new(Platforms(self.platforms)), events)
            .with_small_model(small)
            .with_rules(self.rules)
            .with_limits(self.limits)
            .with_options(self.budget.into_iter().fold(self.options, ComposeOptions::budget));
        let service = service.with_attachment_reader(self.reader.unwrap_or(reader));
        let service = match self.instance {
            Some(name) => service.with_instance(name)?,
            None => service,
        };
        let installed = async {
            for Installation { plugin, config } in self.plugins {
                composer.install(plugin, &config).await?;
            }
            composer.add(self.aliases)?;
            for founding in rooms {
                founding.ensure(&records).await?;
            }
            Ok(())
        };
        if let Err(error) = installed.await {
            if let Err(error) = composer.shutdown().await {
                tracing::warn!(%error, "the plugins of an agent that was not made can't be shut down");
            }
            return Err(error);
        }
        let (clock, grace, recover_every) = (self.clock, self.grace, self.limits.lease);
        Ok(Agent::start(Parts { service, composer, records, clock, opened, grace, recover_every }))
    }
}

impl Founding {
    /// Stores a new room with its members and the agent in it. A room that exists already does not change, so members who left it stay
    /// away.
    async fn ensure(self, records: &Records) -> Result<()> {
        let agent = records.agent().entity();
        if records.rooms().get(&Audience::new(self.room.id.clone(), agent.clone())).await?.is_some() {
            return Ok(());
        }
        records.participants().join(&self.room.id, &agent).await?;
        for member in &self.members {
            records.entities().ensure(member).await?;
            records.participants().join(&self.room.id, &member.id).await?;
        }
        // The room is written last, so that a room that exists has all its members even if an earlier build was cut off.
        records.rooms().ensure(&self.room).await.map(drop)
    }
}

impl ModelSource {
    fn client(self) -> Result<Arc<dyn Model>> {
        match self {
            Self::Client(client) => Ok(client),
            #[cfg(feature = "openai")]
            Self::Endpoint(config) => Ok(Arc::new(OpenAiModel::new(config)?)),
        }
    }
}

impl EmbedderSource {
    fn client(self) -> Result<Arc<dyn Embedder>> {
        match self {
            Self::Client(client) => Ok(client),
            #[cfg(feature = "openai")]
            Self::Endpoint { config, width } => Ok(Arc::new(OpenAiEmbedder::new(config, width)?)),
        }
    }
}

impl fmt::Debug for AgentBuilder {
    /// Leaves out keys and URLs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentBuilder").field("name", &self.name).field("context", &self.context).finish_non_exhaustive()
    }
}
