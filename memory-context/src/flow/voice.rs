//! What the agent says.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory_core::{Error, ErrorKind, Result};
use tokio::time::timeout;

use crate::records::{Message, MessageContent, NewMessage, Scope};
use crate::state::Services;

/// Where answers are said, held as `Arc<dyn Platform>`.
#[async_trait]
pub trait Platform: fmt::Debug + Send + Sync + 'static {
    /// Says a message in its room. Dropping the future ends it.
    async fn say(&self, message: &Message) -> Result<()>;
}

/// What the agent says in answer to a message, where that was said.
pub(super) fn reply(services: &Services, received: &Message, text: impl Into<String>) -> NewMessage {
    let mut content = MessageContent::new(received.content.room.clone(), services.records().agent().entity(), text);
    content.world = received.content.world.clone();
    content.channel_type = received.content.channel_type;
    content.source = received.content.source.clone();
    content.in_reply_to = Some(received.id);
    // An answer stands behind its question, also where the clock of the platform is fast. Of equal times the id decides, and that is
    // the later one.
    NewMessage::new(content, services.clock().now().max(received.created_at))
}

/// Stores a message before it is said: what nobody kept was not said. One that can't be said is marked so.
pub(super) async fn say(
    services: &Services,
    platform: &Arc<dyn Platform>,
    limit: Duration,
    new: NewMessage,
) -> Result<Message> {
    let messages = services.records().messages();
    let message = messages.add(new).await?;
    let late = |_| Error::new(ErrorKind::Timeout, format!("nothing was said within {} ms", limit.as_millis()));
    let Err(error) = timeout(limit, platform.say(&message)).await.map_err(late).flatten() else { return Ok(message) };
    let scope = Scope::new(message.content.room.clone(), message.content.author.clone());
    if let Err(error) = messages.mark_undelivered(&scope, message.id).await {
        tracing::warn!(id = %message.id, %error, "a message that was not said can't be marked");
    }
    Err(error)
}
