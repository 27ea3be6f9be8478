//! The session, user and agent to which a prompt memory belongs, and its text for the prompt.

use std::fmt;

use memory_core::Revision;
use serde::{Deserialize, Serialize};

use super::Flags;
use crate::records::{AgentId, Message};

/// The longest part of a key, in bytes.
pub(super) const MAX_PART: usize = 256;

/// The session, the user, the agent and the personality to which a prompt memory belongs. Its JSON has camelCase names; unknown names are
/// ignored.
///
/// Each id has 1 to 256 bytes and no control characters; otherwise calls fail with `InvalidInput` or `TooLarge`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct MemoryLoadContext {
    /// The id of the conversation, which the history shows.
    pub session_id: String,
    /// The session to which the memory belongs, as in `cli:default` or `telegram:42`.
    pub session_key: String,
    /// The user, whose profile is shared by all sessions. Without a user, the profile belongs to the session key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The agent, which has its own profile of a user or session. Until the agent first changes it, the profile that was stored without an
    /// agent is read; the first change copies that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// The platform of the conversation, which the history shows, as in `cli` or `telegram`.
    pub platform: String,
    /// The personality with which the agent speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub personality_id: Option<String>,
    /// Whether the personalities of a session share its project memory.
    #[serde(default)]
    pub memory_scope: MemoryScope,
}

/// Whether the personalities of a session share its project memory. They always share the user's profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryScope {
    /// All share it.
    #[default]
    Global,
    /// Each has its own. A context without a personality uses the shared one.
    PerPersonality,
}

impl MemoryLoadContext {
    /// Makes a context without a user, an agent and a personality.
    pub fn new(session_id: impl Into<String>, session_key: impl Into<String>, platform: impl Into<String>) -> Self {
        Self {
            session_id: session_id.into(),
            session_key: session_key.into(),
            user_id: None,
            agent_id: None,
            platform: platform.into(),
            personality_id: None,
            memory_scope: MemoryScope::Global,
        }
    }

    /// Makes the context for a message that an agent received. The room is the session, and each agent has its own texts. The profile is
    /// that of the author in direct conversations, and that of the room otherwise, since a group must not hear what somebody said in
    /// private. The platform is the source of the message, without control characters and cut to the length of an id.
    pub fn of(agent: &AgentId, message: &Message) -> Self {
        let content = &message.content;
        let room = content.room.as_str();
        // Anybody may name the source, which must not switch the prompt memory off.
        let source = content.source.replace(char::is_control, "\u{fffd}");
        let platform = if source.is_empty() { "chat" } else { &source[..source.floor_char_boundary(MAX_PART)] };
        let context = Self::new(room, room, platform).with_agent(agent.as_str());
        let context = context.with_personality(agent.as_str(), MemoryScope::PerPersonality);
        if content.channel_type.is_direct() { context.with_user(content.author.as_str()) } else { context }
    }

    /// Sets the user.
    #[must_use]
    pub fn with_user(mut self, user_id: impl Into<String>) -> Self {
        self.user_id = Some(user_id.into());
        self
    }

    /// Sets the agent.
    #[must_use]
    pub fn with_agent(mut self, agent_id: impl Into<String>) -> Self {
        self.agent_id = Some(agent_id.into());
        self
    }

    /// Sets the personality, and whether it shares the project memory.
    #[must_use]
    pub fn with_personality(mut self, personality_id: impl Into<String>, scope: MemoryScope) -> Self {
        self.personality_id = Some(personality_id.into());
        self.memory_scope = scope;
        self
    }
}

/// The text for the system prompt; never empty.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct MemoryContext {
    /// The sections, the user's profile first; at most as many bytes as the budget allows.
    pub content: String,
    /// The name of the kind of prompt memory: `custom` by default, `markdown` for a [`MarkdownMemory`](super::MarkdownMemory).
    pub source: &'static str,
    /// Whether the budget cut something.
    pub truncated: bool,
    /// How many bytes of stored text the budget cut.
    pub dropped_bytes: usize,
    /// The invisible characters in the stored texts.
    pub flags: Flags,
    /// The revision of the profile; `None` if there is none.
    pub user_revision: Option<Revision>,
    /// The revision of the project memory; `None` if there is none.
    pub memory_revision: Option<Revision>,
    /// Why a store could not be read ([`OnFailure::Open`](super::OnFailure::Open)). The content says so, too, and holds the text that was
    /// known last.
    pub warning: Option<String>,
}

impl MemoryContext {
    /// Makes a context with a complete content.
    pub fn new(content: impl Into<String>) -> Self {
        Self {
            content: content.into(),
            source: "custom",
            truncated: false,
            dropped_bytes: 0,
            flags: Flags::default(),
            user_revision: None,
            memory_revision: None,
            warning: None,
        }
    }
}

impl fmt::Debug for MemoryContext {
    /// Shows only the size, so that payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryContext")
            .field("content", &format_args!("{} bytes", self.content.len()))
            .field("truncated", &self.truncated)
            .field("dropped_bytes", &self.dropped_bytes)
            .field("flags", &self.flags)
            .field("user_revision", &self.user_revision)
            .field("memory_revision", &self.memory_revision)
            .field("warning", &self.warning)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use memory_core::{MemoryId, Timestamp};

    use super::super::MemoryStore;
    use super::super::key::Key;
    use super::*;
    use crate::records::{EntityId, MessageContent, RoomId};

    #[test]
    fn any_source_of_a_message_is_a_platform() {
        let agent = AgentId::parse("ada").expect("valid");
        let (room, ana) = (RoomId::parse("r").expect("valid"), EntityId::parse("ana").expect("valid"));
        let long = format!("{}ä", "x".repeat(255));
        for (source, platform) in [
            ("", "chat"),
            ("telegram", "telegram"),
            ("a\nb\0", "a\u{fffd}b\u{fffd}"),
            (long.as_str(), &long[..255]),
            (&"\n".repeat(256), &"\u{fffd}".repeat(85)),
        ] {
            let mut content = MessageContent::new(room.clone(), ana.clone(), "hello");
            content.source = source.to_owned();
            let message =
                Message { id: MemoryId::generate(), created_at: Timestamp::MIN, content, is_undelivered: false };
            let context = MemoryLoadContext::of(&agent, &message);
            assert_eq!(context.platform, platform);
            Key::of(&context, MemoryStore::Memory).expect("valid");
        }
    }

    #[test]
    fn json_is_that_of_the_interface() {
        let json = r#"{"sessionId": "s1", "sessionKey": "cli:test", "platform": "cli", "userId": "ana", "agentId": "eve",
            "personalityId": "ada", "memoryScope": "per-personality", "query": "What is due?"}"#;
        let context = MemoryLoadContext::new("s1", "cli:test", "cli").with_user("ana").with_agent("eve");
        let context = context.with_personality("ada", MemoryScope::PerPersonality);
        assert_eq!(serde_json::from_str::<MemoryLoadContext>(json).expect("a context"), context);
        let plain = r#"{"sessionId":"s1","sessionKey":"cli:test","platform":"cli"}"#;
        let context = serde_json::from_str::<MemoryLoadContext>(plain).expect("a context");
        assert_eq!(context, MemoryLoadContext::new("s1", "cli:test", "cli"));
    }
}
