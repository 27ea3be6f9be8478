//! Messages and their parts.

use std::fmt;

use memory_core::{Error, MemoryId, Result, Status, Timestamp};
use serde::{Deserialize, Serialize};

use super::{EntityId, RoomId, WorldId};

/// The type of a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ChannelType {
    /// The agent alone (`SELF`).
    #[serde(rename = "SELF")]
    Own,
    /// A direct conversation of two parties, by text.
    Dm,
    /// A group, by text.
    Group,
    /// A direct conversation of two parties, by voice.
    VoiceDm,
    /// A group, by voice.
    VoiceGroup,
    /// A feed of posts.
    Feed,
    /// A thread within a conversation.
    Thread,
    /// A channel of a whole world.
    World,
    /// A forum with topics.
    Forum,
    /// A program that calls the agent.
    Api,
}

impl ChannelType {
    /// All types.
    pub const ALL: [Self; 10] = [
        Self::Own,
        Self::Dm,
        Self::Group,
        Self::VoiceDm,
        Self::VoiceGroup,
        Self::Feed,
        Self::Thread,
        Self::World,
        Self::Forum,
        Self::Api,
    ];

    /// Parses the name of a type. Fails with `InvalidInput` if there is no such type.
    pub fn parse(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|channel_type| channel_type.as_str() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join(", ");
            Error::invalid(format!("a channel type is one of {names}"))
        })
    }

    /// The name, as in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Own => "SELF",
            Self::Dm => "DM",
            Self::Group => "GROUP",
            Self::VoiceDm => "VOICE_DM",
            Self::VoiceGroup => "VOICE_GROUP",
            Self::Feed => "FEED",
            Self::Thread => "THREAD",
            Self::World => "WORLD",
            Self::Forum => "FORUM",
            Self::Api => "API",
        }
    }

    /// Whether only known participants are in the room: the agent alone, or with one other party.
    pub const fn is_direct(self) -> bool {
        matches!(self, Self::Own | Self::Dm | Self::VoiceDm | Self::Api)
    }
}

impl fmt::Display for ChannelType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A file or a link that came with a message.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attachment {
    /// The id, unique within its message.
    pub id: String,
    /// The location of the content; may be a `data:` URL.
    pub url: String,
    /// The title or file name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The kind of source, as in `Image` or `YouTube`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// A description of what it shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The text that it contains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// The outcome of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ActionStatus {
    /// The action succeeded.
    Completed,
    /// The action failed.
    Failed,
}

/// The action whose result a message holds. The result itself is the text of the message.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ActionResult {
    /// The id of the run that the action belongs to.
    pub run: String,
    /// The name of the action.
    pub action: String,
    /// The outcome.
    pub status: ActionStatus,
    /// The number of the step in its plan, from 1.
    pub step: u32,
    /// The number of steps in the plan.
    pub steps: u32,
    /// The model's reason for the action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thought: Option<String>,
}

/// The content of a message, with its author and room. Its JSON has camelCase names.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct MessageContent {
    /// The room in which it is said.
    pub room: RoomId,
    /// The entity that says it.
    pub author: EntityId,
    /// The world of the room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub world: Option<WorldId>,
    /// The type of the room; a direct conversation by default.
    pub channel_type: ChannelType,
    /// The platform, as in `discord`; empty by default.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// The message to which this one replies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<MemoryId>,
    /// The text of the message.
    pub text: String,
    /// The agent's thought behind the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thought: Option<String>,
    /// The names of the actions that the agent chose.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<String>,
    /// The names of the providers that the agent asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub providers: Vec<String>,
    /// The files and links that came with the message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// The action whose result this message holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_result: Option<ActionResult>,
}

impl MessageContent {
    /// Makes a content that has only a text.
    pub fn new(room: RoomId, author: EntityId, text: impl Into<String>) -> Self {
        Self {
            room,
            author,
            world: None,
            channel_type: ChannelType::Dm,
            source: String::new(),
            in_reply_to: None,
            text: text.into(),
            thought: None,
            actions: Vec::new(),
            providers: Vec::new(),
            attachments: Vec::new(),
            action_result: None,
        }
    }
}

/// A message to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewMessage {
    /// The content, with author and room.
    pub content: MessageContent,
    /// The time at which it was said.
    pub created_at: Timestamp,
    /// The progress of the work on the message; by default `observed`, which means that it is not to be answered.
    pub status: Status,
    /// The platform's own id of the message. A message that is delivered twice under the same id is stored once.
    pub external_id: Option<String>,
    /// The run that answers the message; for a message of the agent the run that said it.
    pub run: Option<MemoryId>,
}

impl NewMessage {
    /// Makes a message that is not to be answered.
    pub fn new(content: MessageContent, created_at: Timestamp) -> Self {
        Self { content, created_at, status: Status::Observed, external_id: None, run: None }
    }

    /// Sets the platform's own id of the message, which may have any length.
    #[must_use]
    pub fn with_external_id(mut self, id: impl Into<String>) -> Self {
        self.external_id = Some(id.into());
        self
    }

    /// Sets the run.
    #[must_use]
    pub fn with_run(mut self, run: MemoryId) -> Self {
        self.run = Some(run);
        self
    }

    /// Sets the status.
    #[must_use]
    pub fn with_status(mut self, status: Status) -> Self {
        self.status = status;
        self
    }
}

/// A message in the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Message {
    /// The id of the message's memory.
    pub id: MemoryId,
    /// The time at which it was said.
    pub created_at: Timestamp,
    /// The content, with the latest descriptions of its attachments.
    pub content: MessageContent,
    /// Whether the message was stored but could not be delivered.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_undelivered: bool,
}

impl fmt::Debug for MessageContent {
    /// Shows only the sizes, so that payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageContent")
            .field("room", &self.room)
            .field("author", &self.author)
            .field("text", &format_args!("{} bytes", self.text.len()))
            .field("actions", &self.actions.len())
            .field("attachments", &self.attachments)
            .field("action_result", &self.action_result)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Attachment {
    /// Leaves out payloads and URLs, which may hold a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text.as_ref().map_or(0, String::len);
        write!(f, "Attachment({:?}, {text} bytes)", self.id)
    }
}

impl fmt::Debug for ActionResult {
    /// Shows only the status and the step: payloads stay out of logs, and the name may be what a model wrote.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ActionResult({:?}, {}/{})", self.status, self.step, self.steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_type_has_one_name() {
        for channel_type in ChannelType::ALL {
            assert_eq!(ChannelType::parse(channel_type.as_str()).ok(), Some(channel_type));
            assert_eq!(serde_json::to_string(&channel_type).expect("JSON"), format!("{:?}", channel_type.as_str()));
        }
        assert!(ChannelType::parse("dm").is_err());
    }

    #[test]
    fn debug_shows_no_text() {
        let (room, author) = (RoomId::parse("r").expect("valid"), EntityId::parse("e").expect("valid"));
        let mut content = MessageContent::new(room, author, "xyzzy");
        content.thought = Some("xyzzy".into());
        let url = "https://host/?key=xyzzy".to_owned();
        content.attachments.push(Attachment { id: "a".into(), url, ..Attachment::default() });
        assert!(!format!("{content:?}").contains("xyzzy"));
    }
}
