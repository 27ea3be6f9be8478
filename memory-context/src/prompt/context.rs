//! Whose memory it is, and what comes of it in a prompt.

use std::fmt;

use memory_core::Revision;
use serde::{Deserialize, Serialize};

use super::Flags;
use crate::records::{AgentId, Message};

/// The session and the personality that are active. Its JSON has camelCase names; names it does not know are passed over.
///
/// Each id has 1 to 256 bytes without control characters, else the call is `InvalidInput` or `TooLarge`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct MemoryLoadContext {
    /// The conversation, as history names it.
    pub session_id: String,
    /// What the memory belongs to: `cli:default`, `telegram:42`.
    pub session_key: String,
    /// The human, whose profile all sessions share. Without it, the profile belongs to the session key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The agent, which has a profile of its own of each user and session. Where it has kept none yet, it reads the one that was kept
    /// without an agent, and its first change makes that its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// Where the conversation takes place, as history names it: `cli`, `telegram`.
    pub platform: String,
    /// The personality that speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub personality_id: Option<String>,
    /// Whether personalities share the project memory of the session.
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
    /// Each has its own. A context that names no personality means the shared one.
    PerPersonality,
}

impl MemoryLoadContext {
    /// A context without user, agent and personality.
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

    /// The context of a message that an agent received: the room is the session, and each agent has both texts to itself. The profile is
    /// that of the author in direct conversations, and that of the room in any other, since a room of many must not hear what somebody
    /// said in private.
    pub fn of(agent: &AgentId, message: &Message) -> Self {
        let content = &message.content;
        let room = content.room.as_str();
        let platform = if content.source.is_empty() { "chat" } else { &content.source };
        let context = Self::new(room, room, platform).with_agent(agent.as_str());
        let context = context.with_personality(agent.as_str(), MemoryScope::PerPersonality);
        if content.channel_type.is_direct() { context.with_user(content.author.as_str()) } else { context }
    }

    /// With the human.
    #[must_use]
    pub fn with_user(mut self, user_id: impl Into<String>) -> Self {
        self.user_id = Some(user_id.into());
        self
    }

    /// With the agent whose own profile of the user and the session it is.
    #[must_use]
    pub fn with_agent(mut self, agent_id: impl Into<String>) -> Self {
        self.agent_id = Some(agent_id.into());
        self
    }

    /// With the personality and what it shares.
    #[must_use]
    pub fn with_personality(mut self, personality_id: impl Into<String>, scope: MemoryScope) -> Self {
        self.personality_id = Some(personality_id.into());
        self.memory_scope = scope;
        self
    }
}

/// What goes into the system prompt: never empty.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct MemoryContext {
    /// The sections, the user's profile first. At most the budget of the configuration, in bytes.
    pub content: String,
    /// `custom`: how providers of this kind name themselves.
    pub source: &'static str,
    /// Whether the budget left something out.
    pub truncated: bool,
    /// How many bytes of stored text it left out.
    pub dropped_bytes: usize,
    /// Characters in the stored texts that a reader does not see.
    pub flags: Flags,
    /// The revision of the profile; `None` when there is none.
    pub user_revision: Option<Revision>,
    /// The revision of the project memory; `None` when there is none.
    pub memory_revision: Option<Revision>,
    /// Why a store could not be read. The content says so, too, and holds what was known of it last.
    pub warning: Option<String>,
}

impl MemoryContext {
    /// A content that is whole.
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
    /// Payloads stay out of logs: only the size shows.
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
    use super::*;

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
