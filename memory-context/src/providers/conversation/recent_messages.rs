//! `RECENT_MESSAGES`: the conversation.

use std::iter::once;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::try_join;
use memory_core::{Result, Timestamp};
use tokio::time::timeout;

use crate::providers::format::{Names, json, paragraphs, runs, section};
use crate::records::{ChannelType, Message, Messages};
use crate::state::{ContextProvider, Cx, Keep, ProviderInfo, ProviderResult, Stability};

/// Contributes the conversation, related earlier messages, messages of the author and the agent in other rooms, and the message itself.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::providers) struct RecentMessages;

static INFO: ProviderInfo = ProviderInfo::new("RECENT_MESSAGES", "The conversation so far, and the message to answer")
    .position(100)
    .priority(90)
    .keep(Keep::Last)
    .stability(Stability::Conversation);

/// The most related messages from before the shown conversation.
const EARLIER: usize = 6;
/// How long the composition waits for related messages: a fifth of a provider's deadline.
const EARLIER_WAIT: Duration = Duration::from_secs(1);
/// The most messages of other rooms.
const INTERACTIONS: usize = 20;
/// The most runs of actions.
const RUNS: usize = 3;

#[async_trait]
impl ContextProvider for RecentMessages {
    fn info(&self) -> &ProviderInfo {
        &INFO
    }

    async fn get(&self, cx: &Cx<'_>) -> Result<ProviderResult> {
        let (services, audience, received) = (cx.services(), cx.audience(), cx.message());
        let messages = services.records().messages();
        let length = services.conversation_length();
        let (mut recent, mut elsewhere) = try_join(
            messages.until(received, length),
            messages.interactions(&audience, received.created_at, INTERACTIONS),
        )
        .await?;
        // A shorter conversation is shown completely.
        let earlier = match recent.last() {
            Some(oldest) if recent.len() == length => earlier(&messages, received, oldest.created_at).await,
            _ => Vec::new(),
        };
        // Oldest first, in reading order.
        recent.reverse();
        elsewhere.reverse();
        let names = Names::of(cx, earlier.iter().chain(&recent).chain(&elsewhere).chain(once(received))).await?;
        let (results, said): (Vec<_>, Vec<_>) =
            recent.iter().partition(|message| message.content.action_result.is_some());
        let is_said = |message: &&Message| message.content.action_result.is_none();
        let earlier_lines = names.lines(earlier.iter().filter(is_said));
        let before = || said.iter().copied().filter(|message| message.id != received.id);
        let posts = section("Posts in Thread", &names.lines(before()));
        let conversation = section("Conversation Messages", &names.lines(before()));
        let actions = section("Recent Action Runs", &runs(results.iter().copied(), RUNS));
        let (elsewhere_posts, elsewhere_said): (Vec<_>, Vec<_>) =
            elsewhere.iter().partition(|message| is_post(message));
        let interactions = names.lines(elsewhere_said.iter().copied());
        let post_interactions = names.lines(elsewhere_posts.iter().copied());
        let received_line = names.line(received);
        let heading = if is_post(received) { "Posts in Thread" } else { "Conversation Messages" };
        let gap = if earlier_lines.is_empty() { "" } else { "\n[...]\n" };
        let text = paragraphs([
            section(heading, &format!("{earlier_lines}{gap}{}", names.lines(before()))).as_str(),
            &actions,
            &section("Received Message", &received_line),
            &section("Focus your response", &focus(&names, received)),
        ]);
        let both = paragraphs([interactions.as_str(), &post_interactions]);
        Ok(ProviderResult::text(text)
            .with_value("recentPosts", posts)
            .with_value("recentMessages", conversation)
            .with_value("earlierMessages", section("Earlier Messages", &earlier_lines))
            .with_value("recentMessageInteractions", interactions)
            .with_value("recentPostInteractions", post_interactions)
            .with_value("recentInteractions", both)
            .with_value("recentActionResults", actions)
            .with_value("recentMessage", received_line)
            .with_data("recentMessages", json(&said)?)
            .with_data("earlierMessages", json(&earlier)?)
            .with_data("recentInteractions", json(&elsewhere)?)
            .with_data("actionResults", json(&results)?))
    }
}

/// Recalls related messages from before the shown conversation. They are optional: if the recall fails or takes too long, for example since
/// it waits for its turn (L8), they are left out.
async fn earlier(messages: &Messages<'_>, received: &Message, before: Timestamp) -> Vec<Message> {
    match timeout(EARLIER_WAIT, messages.earlier(received, before, EARLIER)).await {
        Ok(Ok(earlier)) => return earlier,
        Ok(Err(error)) => tracing::warn!(%error, "what was said before the conversation can't be recalled"),
        Err(_) => tracing::debug!("what was said before the conversation was not recalled in time"),
    }
    Vec::new()
}

fn is_post(message: &Message) -> bool {
    matches!(message.content.channel_type, ChannelType::Feed | ChannelType::Thread)
}

fn focus(names: &Names, received: &Message) -> String {
    format!(
        "Answer the message of {} above. The conversation before it is context.",
        names.name(&received.content.author)
    )
}
