//! The rules that decide without a model whether to answer a message.

use std::collections::BTreeSet;
use std::{env, fmt};

use memory_core::{Error, Result, words};
use serde::{Deserialize, Serialize};

use super::RESPOND_PROVIDERS;
use crate::records::{AgentId, ChannelType, MessageContent, RoomState};
use crate::state::ComposeOptions;

/// When an agent answers without asking a model, and which providers are composed when a model is asked.
///
/// ```
/// use memory_context::flow::RespondRules;
/// use memory_context::records::ChannelType;
///
/// let rules = RespondRules::default().with_channel_type(ChannelType::Feed).with_source("support");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RespondRules {
    channel_types: BTreeSet<ChannelType>,
    sources: BTreeSet<String>,
    providers: BTreeSet<String>,
}

/// The environment variable with the [`ChannelType`]s, between commas, in which an agent answers without asking a model.
pub const BYPASS_TYPES: &str = "SHOULD_RESPOND_BYPASS_TYPES";
/// The environment variable with the sources, between commas, to which an agent answers without asking a model.
pub const BYPASS_SOURCES: &str = "SHOULD_RESPOND_BYPASS_SOURCES";

/// What is known of a message when it arrives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Received<'a> {
    /// The content of the message.
    pub(super) content: &'a MessageContent,
    /// Whether the platform says that the message addresses the agent, by a mention or a reply.
    pub(super) is_addressed: bool,
    /// Whether the agent follows or mutes the room.
    pub(super) state: Option<RoomState>,
}

/// The decision about a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Decision {
    /// Answer it.
    Respond(Why),
    /// Store it without answering it.
    Ignore(Why),
    /// Ask a model whether to answer.
    Ask,
}

/// The reason for answering or ignoring a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Why {
    /// The agent said it itself.
    Own,
    /// It was delivered before.
    Known,
    /// The agent is muted in the room, and was neither addressed nor called by name.
    Muted,
    /// The message addresses the agent, or calls by name an agent that is muted.
    Addressed,
    /// The room is of a type in which the agent always answers.
    ChannelType,
    /// It comes from a source that the agent always answers.
    Source,
    /// The agent follows the room.
    Followed,
    /// A model decided.
    Model,
}

impl Why {
    /// The name, for logs and metadata.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Known => "known",
            Self::Muted => "muted",
            Self::Addressed => "addressed",
            Self::ChannelType => "channelType",
            Self::Source => "source",
            Self::Followed => "followed",
            Self::Model => "model",
        }
    }
}

impl Default for RespondRules {
    /// The agent always answers in direct conversations, in rooms of its own, to programs that call (`API`), and to the source
    /// `client_chat`. Otherwise a model is asked, over the default providers and [`RESPOND_PROVIDERS`].
    fn default() -> Self {
        use ChannelType::{Api, Dm, Own, VoiceDm};
        Self {
            channel_types: [Dm, VoiceDm, Own, Api].into(),
            sources: ["client_chat".to_owned()].into(),
            providers: RESPOND_PROVIDERS.map(str::to_owned).into(),
        }
    }
}

impl RespondRules {
    /// Always answers in rooms of this type.
    #[must_use]
    pub fn with_channel_type(mut self, channel_type: ChannelType) -> Self {
        self.channel_types.insert(channel_type);
        self
    }

    /// Always answers messages of this source ([`MessageContent::source`]).
    #[must_use]
    pub fn with_source(mut self, source: impl Into<String>) -> Self {
        self.sources.insert(source.into());
        self
    }

    /// Asks the model over the default providers and these, instead of [`RESPOND_PROVIDERS`].
    #[must_use]
    pub fn with_providers<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.providers = names.into_iter().map(Into::into).collect();
        self
    }

    /// Adds the room types and sources that the environment variables [`BYPASS_TYPES`] and [`BYPASS_SOURCES`] name. Fails with
    /// `InvalidInput` if a value is not UTF-8 or a type is unknown.
    pub fn with_environment(self) -> Result<Self> {
        self.with_variables(|name| match env::var(name) {
            Ok(value) => Ok(Some(value)),
            Err(env::VarError::NotPresent) => Ok(None),
            Err(env::VarError::NotUnicode(_)) => Err(Error::invalid(format!("{name} must be text"))),
        })
    }

    fn with_variables(mut self, variable: impl Fn(&str) -> Result<Option<String>>) -> Result<Self> {
        for name in listed(variable(BYPASS_TYPES)?.unwrap_or_default()) {
            let mistake = |error: Error| Error::invalid(format!("{BYPASS_TYPES}: {}", error.message()));
            self.channel_types.insert(ChannelType::parse(&name.to_ascii_uppercase()).map_err(mistake)?);
        }
        self.sources.extend(listed(variable(BYPASS_SOURCES)?.unwrap_or_default()));
        Ok(self)
    }

    /// The options for composing the question to the model.
    pub(super) fn options(&self) -> ComposeOptions {
        ComposeOptions::with(self.providers.iter().map(String::as_str))
    }

    /// Decides without a model, if possible.
    ///
    /// # Behavior
    /// - If the agent is muted, it answers only if it is addressed or the text has the words of its name, ignoring case. This holds in
    ///   direct conversations, too.
    /// - Otherwise it answers in the rooms and to the sources of these rules, if it is addressed, and if it follows the room. If it follows
    ///   the room and has said too much there lately, the caller asks a model nevertheless.
    /// - In all other cases a model decides.
    pub(super) fn decide(&self, agent_name: &str, received: &Received<'_>) -> Decision {
        let Received { content, is_addressed, state } = *received;
        if state == Some(RoomState::Muted) {
            let is_called = is_addressed || is_named(&content.text, agent_name);
            return if is_called { Decision::Respond(Why::Addressed) } else { Decision::Ignore(Why::Muted) };
        }
        if self.channel_types.contains(&content.channel_type) {
            return Decision::Respond(Why::ChannelType);
        }
        if self.sources.contains(&content.source) {
            return Decision::Respond(Why::Source);
        }
        match state {
            _ if is_addressed => Decision::Respond(Why::Addressed),
            Some(RoomState::Followed) => Decision::Respond(Why::Followed),
            _ => Decision::Ask,
        }
    }
}

/// Splits a list at commas. Brackets and quotes around items are removed, so the list may also be a JSON array of plain names.
fn listed(list: String) -> Vec<String> {
    let plain = |name: &str| name.trim_matches(|sign: char| sign.is_whitespace() || "[]\"'".contains(sign)).to_owned();
    list.split(',').map(plain).filter(|name| !name.is_empty()).collect()
}

/// Whether the agent said the message itself. An echo of its own message is not recorded, since it would supersede the agent's answer.
pub(crate) fn is_own(agent: &AgentId, content: &MessageContent) -> bool {
    content.author == agent.entity()
}

/// Whether a reflection is due: the messages since the last one are more than a quarter of the conversation length.
pub(super) fn is_reflection_due(messages_since: usize, conversation_length: usize) -> bool {
    messages_since > conversation_length.div_ceil(4)
}

/// Whether a text has the words of a name in sequence, as whole words, ignoring case: "also" does not name Al. A name without words, such
/// as an emoji, is searched character by character.
fn is_named(text: &str, name: &str) -> bool {
    let (said, name_words): (Vec<_>, Vec<_>) = (words::of(text).collect(), words::of(name).collect());
    match name_words.is_empty() {
        true => !name.trim().is_empty() && text.contains(name.trim()),
        false => said.windows(name_words.len()).any(|window| window == name_words),
    }
}

impl fmt::Debug for Received<'_> {
    /// Shows no payloads, so that they stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Received({:?}, addressed {}, {:?})", self.content, self.is_addressed, self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{EntityId, RoomId};

    fn decide(rules: &RespondRules, of: (&str, ChannelType, &str, &str, bool, Option<RoomState>)) -> Decision {
        let (author, channel_type, source, text, is_addressed, state) = of;
        let (room, author) = (RoomId::parse("r").expect("valid"), EntityId::parse(author).expect("valid"));
        let mut content = MessageContent::new(room, author, text);
        (content.channel_type, content.source) = (channel_type, source.to_owned());
        rules.decide("Eliza", &Received { content: &content, is_addressed, state })
    }

    #[test]
    fn the_decision_tree() {
        use ChannelType::{Api, Dm, Feed, Forum, Group, Own, Thread, VoiceDm, VoiceGroup, World};
        use Decision::{Ask, Ignore, Respond};
        use RoomState::{Followed, Muted};
        let default = RespondRules::default();
        for (of, decision) in [
            // Is it muted, and was it named?
            (("ana", Group, "", "hello", false, Some(Muted)), Ignore(Why::Muted)),
            (("ana", Dm, "", "hello", false, Some(Muted)), Ignore(Why::Muted)),
            (("ana", Api, "client_chat", "", false, Some(Muted)), Ignore(Why::Muted)),
            (("ana", Group, "", "hello ELIZA!", false, Some(Muted)), Respond(Why::Addressed)),
            (("ana", Dm, "", "eliza?", false, Some(Muted)), Respond(Why::Addressed)),
            (("ana", Group, "", "hello", true, Some(Muted)), Respond(Why::Addressed)),
            // Is it a room in which it always answers?
            (("ana", Dm, "", "hello", false, None), Respond(Why::ChannelType)),
            (("ana", VoiceDm, "", "hello", false, None), Respond(Why::ChannelType)),
            (("ana", Own, "", "hello", false, None), Respond(Why::ChannelType)),
            (("ana", Api, "", "hello", false, None), Respond(Why::ChannelType)),
            (("ana", Dm, "", "hello", false, Some(Followed)), Respond(Why::ChannelType)),
            // Does it come from where it always answers?
            (("ana", Group, "client_chat", "hello", false, None), Respond(Why::Source)),
            (("ana", Group, "my_client_chat_2", "hello", false, None), Ask),
            // Is it spoken to?
            (("ana", Group, "discord", "hello", true, None), Respond(Why::Addressed)),
            // Does it follow the room?
            (("ana", Group, "discord", "hello", false, Some(Followed)), Respond(Why::Followed)),
            (("ana", Group, "discord", "hello", true, Some(Followed)), Respond(Why::Addressed)),
            // Else the model decides.
            (("ana", Group, "discord", "hello", false, None), Ask),
            (("ana", Group, "discord", "hello Eliza", false, None), Ask),
            (("ana", VoiceGroup, "", "hello", false, None), Ask),
            (("ana", Feed, "", "hello", false, None), Ask),
            (("ana", Thread, "", "hello", false, None), Ask),
            (("ana", World, "", "hello", false, None), Ask),
            (("ana", Forum, "", "hello", false, None), Ask),
        ] {
            assert_eq!(decide(&default, of), decision, "{of:?}");
        }
    }

    #[test]
    fn rules_are_added() {
        let rules = RespondRules::default().with_channel_type(ChannelType::Feed).with_source("support");
        let of = |channel_type, source| decide(&rules, ("ana", channel_type, source, "hello", false, None));
        assert_eq!(of(ChannelType::Feed, ""), Decision::Respond(Why::ChannelType));
        assert_eq!(of(ChannelType::Group, "support"), Decision::Respond(Why::Source));
        assert_eq!(of(ChannelType::Group, "client_chat"), Decision::Respond(Why::Source));
        assert_eq!(of(ChannelType::Group, "sup"), Decision::Ask);
    }

    #[test]
    fn the_environment_adds_rooms_and_sources() {
        let rules = |types: Option<&str>, sources: Option<&str>| {
            let value = |name: &str| Ok(if name == BYPASS_TYPES { types } else { sources }.map(str::to_owned));
            RespondRules::default().with_variables(value)
        };
        let set = rules(Some(" group, Feed,"), Some(r#"["discord", 'support desk']"#)).expect("known types");
        let of = |channel_type, source| decide(&set, ("ana", channel_type, source, "hello", false, None));
        for channel_type in [ChannelType::Group, ChannelType::Feed, ChannelType::Dm] {
            assert_eq!(of(channel_type, ""), Decision::Respond(Why::ChannelType));
        }
        for source in ["discord", "support desk", "client_chat"] {
            assert_eq!(of(ChannelType::Thread, source), Decision::Respond(Why::Source));
        }
        assert_eq!(of(ChannelType::Thread, "telegram"), Decision::Ask);
        assert_eq!(rules(None, Some("")).expect("nothing"), RespondRules::default());
        let refused = rules(Some("GROUP,PUB"), None).expect_err("no such type");
        assert!(refused.message().starts_with("SHOULD_RESPOND_BYPASS_TYPES: "), "{refused}");
    }

    #[test]
    fn an_agent_without_a_name_is_not_named() {
        assert!(!is_named("hello", "") && !is_named("hello", " "));
    }

    #[test]
    fn a_name_is_whole_words() {
        for (text, name, named) in [
            ("Ärger mit ÉLIZA", "Éliza", true),
            ("hello, eliza!", "Eliza", true),
            ("elizabeth", "Eliza", false),
            ("also, Alan", "Al", false),
            ("ask Al.", "Al", true),
            ("what does Ada Lovelace say", "ada lovelace", true),
            ("Ada, not Lovelace", "Ada Lovelace", false),
            ("hey \u{1F916}!", "\u{1F916}", true),
            ("hey", "\u{1F916}", false),
        ] {
            assert_eq!(is_named(text, name), named, "{name} in {text}");
        }
    }

    #[test]
    fn only_what_the_agent_said_is_its_own() {
        let agent = AgentId::parse("agent").expect("valid");
        for (author, own) in [("agent", true), ("ana", false), ("Agent", false)] {
            let (room, author) = (RoomId::parse("r").expect("valid"), EntityId::parse(author).expect("valid"));
            assert_eq!(is_own(&agent, &MessageContent::new(room, author, "hello")), own);
        }
    }

    #[test]
    fn reflection_is_due_after_a_quarter() {
        for (since, length, due) in
            [(0, 32, false), (8, 32, false), (9, 32, true), (2, 5, false), (3, 5, true), (0, 0, false), (1, 0, true)]
        {
            assert_eq!(is_reflection_due(since, length), due, "{since} of {length}");
        }
    }
}
