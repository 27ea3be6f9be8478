//! `ANXIETY`: advice against answers that are too eager.

use async_trait::async_trait;
use memory_core::Result;
use serde::{Deserialize, Serialize};

use crate::providers::draw::draw;
use crate::providers::format::section;
use crate::records::ChannelType;
use crate::state::{ContextProvider, Cx, ProviderInfo, ProviderResult};

/// Contributes three pieces of advice for the type of the room, selected by the id of the message.
#[derive(Debug, Clone, Default)]
pub struct Anxiety {
    advice: Advice,
}

/// The advice of [`Anxiety`] by the type of the room, as sentences. Lists that a file leaves out keep their defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Advice {
    /// For groups, by text.
    pub group: Vec<String>,
    /// For direct conversations, by text.
    pub direct: Vec<String>,
    /// For conversations by voice.
    pub voice: Vec<String>,
    /// For feeds, programs that call, and the agent alone.
    pub plain: Vec<String>,
}

impl Anxiety {
    /// Makes the provider with other advice, to replace the built-in one by [`Composer::replace`](crate::state::Composer::replace).
    pub const fn with(advice: Advice) -> Self {
        Self { advice }
    }
}

impl Default for Advice {
    fn default() -> Self {
        let [group, direct, voice, plain] =
            [GROUP, DIRECT, VOICE, PLAIN].map(|advice| advice.map(str::to_owned).into());
        Self { group, direct, voice, plain }
    }
}

static INFO: ProviderInfo =
    ProviderInfo::new("ANXIETY", "Advice on how to answer without being wordy or too eager").priority(20);

/// The number of pieces of advice that are shown.
const COUNT: usize = 3;

#[async_trait]
impl ContextProvider for Anxiety {
    fn info(&self) -> &ProviderInfo {
        &INFO
    }

    async fn get(&self, cx: &Cx<'_>) -> Result<ProviderResult> {
        let message = cx.message();
        let advice = match message.content.channel_type {
            ChannelType::Group | ChannelType::Thread | ChannelType::Forum | ChannelType::World => &self.advice.group,
            ChannelType::Dm => &self.advice.direct,
            ChannelType::VoiceDm | ChannelType::VoiceGroup => &self.advice.voice,
            ChannelType::Own | ChannelType::Feed | ChannelType::Api => &self.advice.plain,
        };
        let drawn = draw(message.id, INFO.name.as_ref(), advice, COUNT);
        let lines: Vec<_> = drawn.into_iter().cloned().collect();
        let text = section("How to answer here", &lines.join("\n"));
        Ok(ProviderResult::text(text.clone()).with_value("anxiety", text).with_data("anxiety", lines))
    }
}

const GROUP: [&str; 10] = [
    "Many people read this room; speak up only when you have something to add.",
    "Let others finish their exchange before you step in.",
    "Don't answer a message that is plainly for somebody else.",
    "One short message is better than several.",
    "If somebody has answered already, don't repeat the answer.",
    "Staying silent is a good choice when nobody needs you.",
    "Don't comment on every topic; wait until you are asked.",
    "Keep to the topic of the room.",
    "When you are asked to be quiet, be quiet at once.",
    "Ask at most one question, and only when you need the answer.",
];

const DIRECT: [&str; 10] = [
    "Answer what was asked, and then stop.",
    "Don't end each message with a question.",
    "Match the length of what the other one writes.",
    "Leave out offers of further help.",
    "Don't repeat what was just said to you.",
    "An acknowledgement needs no more than a word or two.",
    "Don't apologise more than once for the same thing.",
    "When the conversation has come to its end, let it end.",
    "Plain words are better than praise.",
    "If you don't know, say so in one sentence.",
];

const VOICE: [&str; 10] = [
    "This will be spoken: use short sentences.",
    "Leave out lists, links and formatting, which can't be heard.",
    "Say the most important thing first.",
    "Wait until the other one has finished.",
    "One thought at a time.",
    "Don't read out addresses or code unless you are asked to.",
    "Numbers are easier to hear when they are rounded.",
    "If you did not understand, ask for that part only.",
    "Don't fill a pause only because it is one.",
    "End as soon as the answer is given.",
];

const PLAIN: [&str; 10] = [
    "Be brief.",
    "Write only what serves the purpose.",
    "Don't explain what nobody asked about.",
    "Leave out greetings and farewells.",
    "State facts without decoration.",
    "Don't guess at feelings.",
    "Prefer one clear sentence to three careful ones.",
    "Don't announce what you are about to do; do it.",
    "Avoid exclamation marks.",
    "When there is nothing to say, say nothing.",
];
