//! Where an agent says what it says.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::Result;

use crate::flow::Platform;
use crate::records::Message;

/// The platforms of an agent by the source of their messages. What comes from no platform is told in the answer alone.
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
