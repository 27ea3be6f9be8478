//! What an agent is made of.

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

/// Describes an [`Agent`]; see [`Agent::builder`]. It needs a memory and a model; everything else has a default.
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
    /// Apart, since they may be of tools that plugins bring.
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

/// A plugin that is to be installed, and what it is told.
struct Installation {
    plugin: Arc<dyn ContextPlugin>,
    config: Values,
}

/// A room that is there from the beginning, and who is in it.
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

/// What is said about one endpoint of chat. The key goes to no other.
#[cfg(feature = "openai")]
#[derive(Default)]
struct EndpointSettings {
    key: Option<String>,
    modalities: Modalities,
    calls_no_tools: bool,
}

/// How many events are kept for subscribers that are slower than they come.
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
            // What is known of people is what a memory is for.
            options: ComposeOptions::with(["FACTS"]),
            budget: None,
            rules: RespondRules::default(),
            limits: Limits::default(),
            grace: Duration::from_secs(30),
            instance: None,
            clock: Arc::new(SystemClock),
        }
    }

    /// Remembers there: a URL such as `sqlite://agent.db`, or any `Arc` of a provider.
    pub fn memory(mut self, memory: impl Into<MemorySource>) -> Self {
        self.memory = Some(memory.into());
        self
    }

    /// Speaks by a model behind an endpoint of OpenAI's chat completions: the base of its URLs, as in `http://localhost:11434/v1`, and
    /// the name of the model.
    #[cfg(feature = "openai")]
    pub fn model(mut self, url: impl Into<String>, model: impl Into<String>) -> Self {
        self.model = Some(ModelSource::Endpoint(OpenAiConfig::new(url, model)));
        self
    }

    /// Speaks by this model, which is offered tools where it says that it calls them ([`Model::calls_tools`]). A call that fails ends the
    /// run: a [`Retrying`](crate::model::Retrying) model is asked again, as an endpoint is.
    pub fn model_client(mut self, model: impl Model) -> Self {
        self.model = Some(ModelSource::Client(Arc::new(model)));
        self
    }

    /// Decides by another model behind an endpoint whether to answer, and reflects by it.
    #[cfg(feature = "openai")]
    pub fn small_model(mut self, url: impl Into<String>, model: impl Into<String>) -> Self {
        self.small_model = Some(ModelSource::Endpoint(OpenAiConfig::new(url, model)));
        self
    }

    /// Decides by this model whether to answer, and reflects by it. It is asked once, as that of [`model_client`](Self::model_client) is.
    pub fn small_model_client(mut self, model: impl Model) -> Self {
        self.small_model = Some(ModelSource::Client(Arc::new(model)));
        self
    }

    /// Sends this key to the endpoint of [`model`](Self::model) as a bearer token, and to no other endpoint.
    #[cfg(feature = "openai")]
    pub fn model_key(mut self, key: impl Into<String>) -> Self {
        self.endpoint.key = Some(key.into());
        self
    }

    /// Shows the model of [`model`](Self::model) the images and documents that came with a message; by default it is shown none.
    #[cfg(feature = "openai")]
    pub fn model_modalities(mut self, modalities: Modalities) -> Self {
        self.endpoint.modalities = modalities;
        self
    }

    /// Offers the model of [`model`](Self::model) no tools to call, which its endpoint would refuse, and asks it for answers in a form that
    /// names actions. What it writes is then heard when it is whole. By default the model calls tools, and what it writes is said as it is.
    #[cfg(feature = "openai")]
    pub fn without_tool_calls(mut self) -> Self {
        self.endpoint.calls_no_tools = true;
        self
    }

    /// Sends this key to the endpoint of [`small_model`](Self::small_model) as a bearer token, and to no other endpoint.
    #[cfg(feature = "openai")]
    pub fn small_model_key(mut self, key: impl Into<String>) -> Self {
        self.small_endpoint.key = Some(key.into());
        self
    }

    /// Has the model of [`small_model`](Self::small_model) describe the images that come with messages, where it takes them; by default
    /// it is shown none.
    #[cfg(feature = "openai")]
    pub fn small_model_modalities(mut self, modalities: Modalities) -> Self {
        self.small_endpoint.modalities = modalities;
        self
    }

    /// Finds facts and messages by their meaning too, by a model behind an endpoint of OpenAI's embeddings whose vectors have `width` numbers. The
    /// vectors of all that the memory holds are made after each run: see [`keeper`](crate::embedding::keeper). Where the namespace has its vectors
    /// from another model, that fails with `SchemaMismatch`, and words alone find.
    #[cfg(feature = "openai")]
    pub fn embedding_model(mut self, url: impl Into<String>, model: impl Into<String>, width: usize) -> Self {
        self.embedder = Some(EmbedderSource::Endpoint { config: OpenAiConfig::new(url, model), width });
        self
    }

    /// Sends this key to the endpoint of [`embedding_model`](Self::embedding_model) as a bearer token, and to no other endpoint.
    #[cfg(feature = "openai")]
    pub fn embedding_key(mut self, key: impl Into<String>) -> Self {
        self.embedding_key = Some(key.into());
        self
    }

    /// Finds facts and messages by their meaning too, by this model. The vectors of all that the memory holds are made after each run: see
    /// [`keeper`](crate::embedding::keeper). Where it makes none of a question, they are found by their words.
    pub fn embedder(mut self, embedder: impl Embedder) -> Self {
        self.embedder = Some(EmbedderSource::Client(Arc::new(embedder)));
        self
    }

    /// Is this character; by default one that has the name of the agent and nothing else.
    pub fn character(mut self, character: Character) -> Self {
        self.character = Some(character);
        self
    }

    /// Gives the model these instructions, as a message of the system, in the place of those of the character.
    pub fn system(mut self, instructions: impl Into<String>) -> Self {
        self.system = Some(instructions.into());
        self
    }

    /// Keeps its prompt memory there, instead of in its memory; see [`Services::with_prompt_memory`].
    pub fn prompt_memory(mut self, memory: impl PromptSource) -> Self {
        self.prompt_memory = Some(Arc::new(memory));
        self
    }

    /// Can do this, beside what [`tool::built_in_tools`] has.
    pub fn tool(mut self, tool: Tool) -> Self {
        self.context.tools.push(tool);
        self
    }

    /// Lets its models call a tool by another name as well: one of the host, a built-in one, one of a plugin, `REPLY` or `IGNORE`; see
    /// [`ToolAlias`](crate::tool::ToolAlias).
    pub fn alias(mut self, name: impl Into<String>, tool: impl Into<String>) -> Self {
        self.aliases = self.aliases.with_alias(name, tool);
        self
    }

    /// Can do only what the host gives it: by a tool it follows and mutes no room, keeps and forgets nothing, and reads no dynamic provider.
    pub fn without_built_in_tools(mut self) -> Self {
        self.built_in_tools = ContextParts::default();
        self
    }

    /// Can do what the executors of a plugin do, each within the room of the message; see [`Tool::from_plugin`]. The agent initialises the
    /// plugin and shuts it down.
    pub fn plugin(self, plugin: Arc<dyn Plugin>) -> Self {
        self.context_plugin(PluginTools::new(plugin), Values::new())
    }

    /// Has what a plugin brings along, which is told this; see [`Composer::install`]. The agent shuts it down.
    pub fn context_plugin(mut self, plugin: impl ContextPlugin, config: Values) -> Self {
        self.plugins.push(Installation { plugin: Arc::new(plugin), config });
        self
    }

    /// Can query its memory of the room, and save and remove texts there, by the plugin of the provider; with an embedder
    /// by the standard one, whose questions ask by meaning too.
    pub fn memory_tools(mut self) -> Self {
        self.has_memory_tools = true;
        self
    }

    /// Knows what this provider gives, beside what the built-in ones do.
    pub fn provider(mut self, provider: impl ContextProvider) -> Self {
        self.context.providers.push(Arc::new(provider));
        self
    }

    /// Answers what this brings; see [`MessageTrigger`].
    pub fn trigger(mut self, trigger: impl MessageTrigger) -> Self {
        self.context.triggers.push(Arc::new(trigger));
        self
    }

    /// Has this look at what it did.
    pub fn evaluator(mut self, evaluator: impl Evaluator) -> Self {
        self.context.evaluators.push(Arc::new(evaluator));
        self
    }

    /// Gives this to its providers and tools.
    pub fn service(mut self, service: impl Service) -> Self {
        self.context.services.push(Arc::new(service));
        self
    }

    /// Learns no facts and relationships from its conversations by itself.
    pub fn without_reflection(mut self) -> Self {
        self.reflects = false;
        self
    }

    /// Has what comes with messages put into words by this reader, instead of a [`ModelReader`] over the small model, or over the large
    /// one where only that takes images.
    pub fn attachment_reader(mut self, reader: impl AttachmentReader) -> Self {
        self.reader = Some(Arc::new(reader));
        self
    }

    /// Says by this platform what it answers to messages of this source; see [`MessageContent::source`](crate::records::MessageContent).
    /// What has no platform is told in the answer alone.
    pub fn platform(mut self, source: impl Into<String>, platform: impl Platform) -> Self {
        self.platforms.insert(source.into(), Arc::new(platform));
        self
    }

    /// Knows this room from the beginning, with these members and itself in it; see [`Agent::room`]. A room that is known stays as it is, with
    /// those who are in it. `InvalidInput` at the build for the room that a user and the agent have for themselves.
    pub fn room(mut self, room: Room, members: impl IntoIterator<Item = Entity>) -> Self {
        self.rooms.push(Founding { room, members: members.into_iter().collect() });
        self
    }

    /// Asks its models by these templates, instead of the default ones with those of the character in their places.
    pub fn templates(mut self, templates: Templates) -> Self {
        self.templates = Some(templates);
        self
    }

    /// Composes its answers with these options; by default over the default providers and `FACTS`, without a budget. That of
    /// [`budget`](Self::budget) wins over one of theirs.
    pub fn options(mut self, options: ComposeOptions) -> Self {
        self.options = options;
        self
    }

    /// Keeps what it knows in each answer to this size.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Answers without asking a model where these rules say so.
    pub fn rules(mut self, rules: RespondRules) -> Self {
        self.rules = rules;
        self
    }

    /// Gives up what takes longer.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Lets runs that go on at the shutdown end for this long; 30 s by default.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Takes up the messages that an agent of this instance left open without waiting for their leases; see
    /// [`MessageService::with_instance`].
    pub fn instance(mut self, name: impl Into<String>) -> Self {
        self.instance = Some(name.into());
        self
    }

    /// Reads the time here, instead of the clock of the machine.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Opens and initialises the memory and the plugins, and makes the agent. To be awaited on a Tokio runtime, which the agent works on.
    /// From then on the agent answers, in the background, what agents of its name on this memory left open.
    ///
    /// `InvalidInput` without a memory or a model, for a name, a URL or a template that is none, where two tools, providers, evaluators,
    /// services or plugins share a name, and where an alias is taken or of no tool; else what the engine or a plugin answers. What was
    /// opened is closed again.
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

    /// Endpoints get what is said about them; those of chat a deadline a little behind that of the flow, whose error tells more, and attempts that
    /// end before it.
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
            return Err(Error::invalid(format!("a room whose id begins with {DIRECT} is of one user and the agent")));
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
        // Before the plugins, which find its models in the services.
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
    /// Keeps a room that is not known yet, with its members and the agent in it. Who has left a room that is known does not come back.
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
        // The last step: a room that is known has all of its members, also where this was cut before.
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
    /// Without keys and URLs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentBuilder").field("name", &self.name).field("context", &self.context).finish_non_exhaustive()
    }
}
