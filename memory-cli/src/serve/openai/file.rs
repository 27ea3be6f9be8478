//! The description of an agent in a TOML file.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use memory_context::agent::{Agent, AgentBuilder, Limits};
use memory_context::flow::RespondRules;
use memory_context::model::Modalities;
use memory_context::prompt::MarkdownMemory;
use memory_context::providers::built_in_providers;
use memory_context::records::{ChannelType, Entity, EntityId, Room, RoomId};
use memory_context::state::{Budget, Character, ComposeOptions};
use memory_context::template::{Template, Templates};
use memory_core::{Error, MemoryProvider};
use serde::Deserialize;

use crate::input;
use crate::serve::configuration;
use crate::serve::limits::PATIENCE;

/// The description of an agent, with the names of its builder's methods. It has no `Debug`, since a URL may hold a key.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentFile {
    name: String,
    model: Endpoint,
    model_key: Option<Key>,
    #[serde(default)]
    model_modalities: Modalities,
    small_model: Option<Endpoint>,
    small_model_key: Option<Key>,
    #[serde(default)]
    small_model_modalities: Modalities,
    embedding_model: Option<Embedder>,
    embedding_key: Option<Key>,
    system: Option<String>,
    character: Option<Character>,
    prompt_memory: Option<PromptMemoryOfFile>,
    #[serde(default)]
    templates: Texts,
    #[serde(default)]
    options: OptionsOfFile,
    /// The budget of the composed text, in bytes.
    #[serde(default = "default_budget")]
    budget: usize,
    #[serde(default)]
    rules: RulesOfFile,
    #[serde(default)]
    rooms: Vec<RoomOfFile>,
    #[serde(default)]
    aliases: BTreeMap<String, String>,
    #[serde(default)]
    limits: LimitsOfFile,
    grace: Option<Seconds>,
    instance: Option<String>,
    #[serde(default)]
    memory_tools: bool,
    #[serde(default)]
    without_built_in_tools: bool,
    #[serde(default)]
    without_tool_calls: bool,
    #[serde(default)]
    without_reflection: bool,
}

/// The default budget: 128 KiB, about 32,000 tokens. It has room for the longest message and a conversation before it.
const fn default_budget() -> usize {
    128 << 10
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Endpoint {
    url: String,
    model: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Embedder {
    url: String,
    model: String,
    /// The number of dimensions of a vector.
    width: usize,
}

/// The environment variable with the key of an endpoint, which is never in the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "{ env = \"NAME\" }, the name of a variable of the environment")]
struct Key {
    env: String,
}

impl Key {
    fn read(&self, name: &str) -> anyhow::Result<String> {
        // Neither the name nor the value is quoted: an invalid name may be the key itself.
        env::var(&self.env)
            .map_err(|_| anyhow::anyhow!("{name}: the environment has no such variable, or it holds no text"))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PromptMemoryOfFile {
    /// The folder of the files.
    markdown: PathBuf,
}

/// The providers for composing an answer.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct OptionsOfFile {
    /// The providers beside the default ones.
    with: Option<BTreeSet<String>>,
    /// The providers instead of the default ones.
    only: Option<BTreeSet<String>>,
    stable_first: bool,
}

/// When a message is answered without asking a model, and over which providers a model is asked otherwise.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct RulesOfFile {
    channel_types: BTreeSet<ChannelType>,
    sources: BTreeSet<String>,
    providers: Option<BTreeSet<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RoomOfFile {
    id: String,
    channel_type: ChannelType,
    name: Option<String>,
    #[serde(default)]
    members: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Texts {
    should_respond: Option<String>,
    message_handler: Option<String>,
    reflection: Option<String>,
    post_creation: Option<String>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct LimitsOfFile {
    attachment: Option<Seconds>,
    model: Option<Seconds>,
    action: Option<Seconds>,
    say: Option<Seconds>,
    ledger: Option<Seconds>,
    evaluators: Option<Seconds>,
    run: Option<Seconds>,
    lease: Option<Seconds>,
    runs: Option<u32>,
    learning: Option<u32>,
    arrivals: Option<u32>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "u64")]
struct Seconds(Duration);

impl TryFrom<u64> for Seconds {
    type Error = &'static str;

    fn try_from(seconds: u64) -> Result<Self, Self::Error> {
        match seconds {
            1..=86_400 => Ok(Self(Duration::from_secs(seconds))),
            _ => Err("a limit must have 1 to 86400 seconds"),
        }
    }
}

impl AgentFile {
    /// Reads a file. Errors name the line and never show it.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        configuration::parse(&configuration::read(path)?).with_context(|| input::name(path))
    }

    /// Returns the builder of the agent on this provider. A run may take as long as a request to the server, unless the file says
    /// otherwise.
    pub(crate) fn builder(self, provider: &Arc<dyn MemoryProvider>, time: Duration) -> anyhow::Result<AgentBuilder> {
        let message = |error: Error| anyhow::anyhow!("{}", error.message());
        let mut builder = Agent::builder(&self.name)
            .memory(Arc::clone(provider))
            .model(self.model.url, self.model.model)
            .model_modalities(self.model_modalities)
            .small_model_modalities(self.small_model_modalities)
            .options(self.options.over_defaults()?)
            .rules(self.rules.over(RespondRules::default())?.with_environment().map_err(message)?)
            .grace(self.grace.map_or(PATIENCE, |Seconds(grace)| grace))
            .limits(self.limits.over(Limits { run: time, ..Limits::default() }));
        if let Some(Endpoint { url, model }) = self.small_model {
            builder = builder.small_model(url, model);
        }
        if let Some(Embedder { url, model, width }) = self.embedding_model {
            builder = builder.embedding_model(url, model, width);
        }
        if let Some(key) = self.model_key {
            builder = builder.model_key(key.read("model_key")?);
        }
        if let Some(key) = self.small_model_key {
            builder = builder.small_model_key(key.read("small_model_key")?);
        }
        if let Some(key) = self.embedding_key {
            builder = builder.embedding_key(key.read("embedding_key")?);
        }
        if let Some(system) = self.system {
            builder = builder.system(system);
        }
        if let Some(PromptMemoryOfFile { markdown }) = self.prompt_memory {
            builder = builder.prompt_memory(MarkdownMemory::new(markdown));
        }
        if let Some(instance) = self.instance {
            builder = builder.instance(instance);
        }
        for (at, room) in self.rooms.into_iter().enumerate() {
            let (room, members) =
                room.founding().map_err(message).with_context(|| format!("rooms: number {}", at + 1))?;
            builder = builder.room(room, members);
        }
        for (name, tool) in self.aliases {
            builder = builder.alias(name, tool);
        }
        let mut character = self.character.unwrap_or_default();
        if character.name.is_empty() {
            character.name.clone_from(&self.name);
        }
        let templates = self.templates.over(Templates::of(&character).map_err(message).context("character")?)?;
        builder = builder.character(character).templates(templates).budget(Budget::bytes(self.budget));
        if self.memory_tools {
            builder = builder.memory_tools();
        }
        if self.without_built_in_tools {
            builder = builder.without_built_in_tools();
        }
        if self.without_tool_calls {
            builder = builder.without_tool_calls();
        }
        if self.without_reflection {
            builder = builder.without_reflection();
        }
        Ok(builder)
    }
}

impl OptionsOfFile {
    fn over_defaults(self) -> anyhow::Result<ComposeOptions> {
        let options = match (self.with, self.only) {
            (Some(_), Some(_)) => bail!("options: `with` and `only` can't be combined: leave one out"),
            (None, Some(names)) => ComposeOptions::only(known(names).context("options: only")?),
            (Some(names), None) => ComposeOptions::with(known(names).context("options: with")?),
            (None, None) => ComposeOptions::with(["FACTS"]),
        };
        Ok(if self.stable_first { options.stable_first() } else { options })
    }
}

impl RulesOfFile {
    fn over(self, rules: RespondRules) -> anyhow::Result<RespondRules> {
        let rules = self.channel_types.into_iter().fold(rules, RespondRules::with_channel_type);
        let rules = self.sources.into_iter().fold(rules, RespondRules::with_source);
        Ok(match self.providers {
            Some(names) => rules.with_providers(known(names).context("rules: providers")?),
            None => rules,
        })
    }
}

/// Checks names of providers; the agent of a file has only the built-in ones.
fn known(names: BTreeSet<String>) -> anyhow::Result<BTreeSet<String>> {
    let providers = built_in_providers();
    match names.iter().all(|name| providers.iter().any(|provider| provider.info().name == name.as_str())) {
        true => Ok(names),
        false => bail!("no provider has one of these names"),
    }
}

impl RoomOfFile {
    fn founding(self) -> memory_core::Result<(Room, Vec<Entity>)> {
        let room = Room { name: self.name, ..Room::new(RoomId::parse(self.id)?, self.channel_type) };
        let member = |id: String| Ok(Entity::new(EntityId::parse(&id)?, id));
        Ok((room, self.members.into_iter().map(member).collect::<memory_core::Result<_>>()?))
    }
}

impl Texts {
    fn over(self, mut templates: Templates) -> anyhow::Result<Templates> {
        for (name, text, place) in [
            ("should_respond", self.should_respond, &mut templates.should_respond),
            ("message_handler", self.message_handler, &mut templates.message_handler),
            ("reflection", self.reflection, &mut templates.reflection),
            ("post_creation", self.post_creation, &mut templates.post_creation),
        ] {
            match text.map(Template::parse) {
                None => {}
                Some(Ok(template)) => *place = template,
                Some(Err(error)) => bail!("templates: {name}: {}", error.message()),
            }
        }
        Ok(templates)
    }
}

impl LimitsOfFile {
    fn over(self, limits: Limits) -> Limits {
        let or = |seconds: Option<Seconds>, default| seconds.map_or(default, |Seconds(duration)| duration);
        Limits {
            attachment: or(self.attachment, limits.attachment),
            model: or(self.model, limits.model),
            action: or(self.action, limits.action),
            say: or(self.say, limits.say),
            ledger: or(self.ledger, limits.ledger),
            evaluators: or(self.evaluators, limits.evaluators),
            run: or(self.run, limits.run),
            lease: or(self.lease, limits.lease),
            runs: self.runs.unwrap_or(limits.runs),
            learning: self.learning.unwrap_or(limits.learning),
            arrivals: self.arrivals.unwrap_or(limits.arrivals),
        }
    }
}

#[cfg(test)]
mod tests {
    use memory_core::InMemory;

    use super::*;

    const MODEL: &str = "name = \"ada\"\nmodel = { url = \"http://localhost:1/v1\", model = \"m\" }\n";

    fn built(text: &str) -> anyhow::Result<AgentBuilder> {
        let provider: Arc<dyn MemoryProvider> = Arc::new(InMemory::new());
        configuration::parse::<AgentFile>(text)?.builder(&provider, Duration::from_secs(60))
    }

    #[test]
    fn the_readme_describes_an_agent() {
        let readme = include_str!("../../../README.md").split_once("### An agent").expect("the section").1;
        let text = readme.split_once("```toml\n").and_then(|(_, rest)| rest.split_once("```")).expect("a file").0;
        assert!(text.contains("# model_key"), "{text}");
        assert!(built(text).is_ok());
    }

    #[test]
    fn a_file_has_a_budget() {
        let budget = |line: &str| configuration::parse::<AgentFile>(&format!("{MODEL}{line}")).expect("a file").budget;
        assert_eq!((budget(""), budget("budget = 7")), (131_072, 7));
    }

    #[test]
    fn limits_of_the_file_come_before_those_of_the_server() {
        let text = format!("{MODEL}limits = {{ run = 5, runs = 2 }}");
        let file: AgentFile = configuration::parse(&text).expect("a file");
        let limits = file.limits.over(Limits { run: Duration::from_secs(60), ..Limits::default() });
        assert_eq!((limits.run, limits.runs, limits.model), (Duration::from_secs(5), 2, Limits::default().model));
    }

    #[test]
    fn mistakes_are_named_and_show_no_value() {
        for (line, reason) in [
            ("model_key = \"secret\"", "line 3: expected { env = \"NAME\" }"),
            ("model_key = { env = \"SECRET secret\" }", "model_key: the environment has no such variable"),
            ("secret = 1", "line 3: an unknown name, expected one of `name`"),
            ("limits = { run = 0 }", "line 3: a limit must have 1 to 86400 seconds"),
            ("templates = { reflection = \"secret {{\" }", "templates: reflection: the template has a mistake"),
            ("embedding_key = { env = \"SECRET secret\" }", "embedding_key: the environment has no such variable"),
            ("options = { with = [\"SECRET secret\"] }", "options: with: no provider has one of these names"),
            ("options = { with = [], only = [] }", "options: `with` and `only` can't be combined: leave one out"),
            ("rules = { providers = [\"SECRET secret\"] }", "rules: providers: no provider has one of these names"),
            ("rules = { channel_types = [\"SECRET secret\"] }", "line 3: "),
            ("prompt_memory = { folder = \"secret\" }", "line 3: an unknown name, expected `markdown`"),
            ("grace = 0", "line 3: a limit must have 1 to 86400 seconds"),
            ("rooms = [{ id = \"\", channel_type = \"GROUP\" }]", "rooms: number 1: "),
            (
                "rooms = [{ id = \"r\", channel_type = \"GROUP\", kind = 1 }]",
                "line 3: an unknown name, expected one of `id`",
            ),
        ] {
            let error = format!("{:#}", built(&format!("{MODEL}{line}")).expect_err(reason));
            assert!(error.starts_with(reason), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
        let error = built("name = \"ada\"").expect_err("no model");
        assert_eq!(format!("{error:#}"), "line 1: missing field `model`");
        assert!(built(MODEL).is_ok());
    }
}
