//! Messages as the ledger keeps them.

use std::fmt;

use memory_core::{Error, MemoryId, Result, Status, Timestamp};
use serde::{Deserialize, Serialize};

use super::{EntityId, RoomId, WorldId};

/// What kind of place a room is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ChannelType {
    /// The agent by itself.
    #[serde(rename = "SELF")]
    Own,
    /// Two parties.
    Dm,
    /// Many parties.
    Group,
    /// Two parties that speak.
    VoiceDm,
    /// Many parties that speak.
    VoiceGroup,
    /// Posts.
    Feed,
    /// A thread of a conversation.
    Thread,
    /// A whole world.
    World,
    /// Topics.
    Forum,
    /// A program that calls.
    Api,
}

impl ChannelType {
    /// Every type.
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

    /// Reads the name; `InvalidInput` for any other.
    pub fn parse(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|channel_type| channel_type.as_str() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join(", ");
            Error::invalid(format!("a channel type is one of {names}"))
        })
    }

    /// The name.
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

    /// Whether nobody is there but those who are known to take part: the agent by itself, or with one other party.
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
    /// Unique in its message.
    pub id: String,
    /// Where it is.
    pub url: String,
    /// What it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Where it comes from, as in `Image` or `YouTube`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Its media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// What it shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The text in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// How an action ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ActionStatus {
    /// It did what it should.
    Completed,
    /// It did not.
    Failed,
}

/// Which action of which run a message tells the result of. The result itself is the text of the message.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ActionResult {
    /// The run that it belongs to.
    pub run: String,
    /// The name of the action.
    pub action: String,
    /// How it ended.
    pub status: ActionStatus,
    /// Which step of its plan it was, from 1.
    pub step: u32,
    /// How many steps the plan has.
    pub steps: u32,
    /// Why it was planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thought: Option<String>,
}

/// What was said, by whom and where. Its JSON has camelCase names.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct MessageContent {
    /// The conversation.
    pub room: RoomId,
    /// Who says it.
    pub author: EntityId,
    /// What the room belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub world: Option<WorldId>,
    /// What kind of place the room is; a direct conversation by default.
    pub channel_type: ChannelType,
    /// The platform, as in `discord`; empty by default.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// The message that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<MemoryId>,
    /// The text.
    pub text: String,
    /// What the agent thought before it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thought: Option<String>,
    /// The names of the actions that it chose.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<String>,
    /// The names of the providers that it asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub providers: Vec<String>,
    /// What came with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// The action that it tells the result of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_result: Option<ActionResult>,
}

impl MessageContent {
    /// A text and nothing else.
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

/// A message that is not stored yet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewMessage {
    /// What is said.
    pub content: MessageContent,
    /// When it was said.
    pub created_at: Timestamp,
    /// How far the work on it is; seen and not to be answered by default.
    pub status: Status,
    /// What the platform calls it: a message that comes twice is stored once.
    pub external_id: Option<String>,
    /// The run that it came in, or that said it.
    pub run: Option<MemoryId>,
}

impl NewMessage {
    /// A message that waits for nothing.
    pub fn new(content: MessageContent, created_at: Timestamp) -> Self {
        Self { content, created_at, status: Status::Observed, external_id: None, run: None }
    }

    /// As the platform calls it, 1 to 512 bytes.
    #[must_use]
    pub fn with_external_id(mut self, id: impl Into<String>) -> Self {
        self.external_id = Some(id.into());
        self
    }

    /// As part of a run.
    #[must_use]
    pub fn with_run(mut self, run: MemoryId) -> Self {
        self.run = Some(run);
        self
    }

    /// With another status.
    #[must_use]
    pub fn with_status(mut self, status: Status) -> Self {
        self.status = status;
        self
    }
}

/// A message of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Message {
    /// Its id in the ledger.
    pub id: MemoryId,
    /// When it was said.
    pub created_at: Timestamp,
    /// What is said; the attachments as they were described last.
    pub content: MessageContent,
    /// Whether it was stored and could not be said.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_undelivered: bool,
}

impl fmt::Debug for MessageContent {
    /// Payloads stay out of logs: only the sizes show.
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
    /// Payloads stay out of logs, and so do URLs, which may hold a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text.as_ref().map_or(0, String::len);
        write!(f, "Attachment({:?}, {text} bytes)", self.id)
    }
}

impl fmt::Debug for ActionResult {
    /// Payloads stay out of logs, and the name may be what a model wrote: only the status and the place show.
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
