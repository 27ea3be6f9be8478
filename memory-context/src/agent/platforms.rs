//! The platforms on which an agent speaks.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::Result;

use crate::flow::Platform;
use crate::records::Message;

/// The platforms of an agent by the source of their messages. Answers to messages without a platform are only returned.
#[derive(Debug, Default)]
pub(super) struct Platforms(pub(super) BTreeMap<String, Arc<dyn Platform>>);

#[async_trait]
impl Platform for Platforms {
    async fn say(&self, message: &Message) -> Result<()> {
        match self.0.get(&message.content.source) {
            Some(platform) => platform.say(message).await,
            None => Ok(()),
        }
    }
}
