//! What the agent says.

use std::sync::Arc;
use std::time::Duration;

use memory_core::{Error, ErrorKind, Outcome, Result};
use tokio::time::timeout;

use super::{Journal, Platform, RunContext};
use crate::records::{Audience, Delivery, Message, MessageContent, NewMessage, Said};
use crate::state::Services;

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

/// What is said, and by what means.
pub(super) struct Voice<'a> {
    pub(super) services: Arc<Services>,
    pub(super) platform: &'a Arc<dyn Platform>,
    /// How long the platform may take to say it once.
    pub(super) limit: Duration,
}

impl Voice<'_> {
    /// Stores a message before it is said: what nobody kept was not said. One that can't be said is marked so, unless nobody knows whether
    /// it was. The outcome of the error is unknown, since the message is there.
    pub(super) async fn say(&self, new: NewMessage) -> Result<Message> {
        let message = self.services.records().messages().add(new).await?;
        match self.speak(&message).await {
            Ok(()) => Ok(message),
            Err(error) => {
                if error.outcome() == Outcome::NotDone {
                    self.mark(&message).await;
                }
                Err(error.with_outcome(Outcome::Unknown))
            }
        }
    }

    /// Says what a step of a run says: kept in the journal, then stored, then said, each under the key that run and step make. What
    /// the journal has of it is said as it was to be said, and what was said is not said again.
    pub(super) async fn say_once(
        &self,
        journal: &Journal,
        step: &str,
        run: &RunContext,
        new: NewMessage,
    ) -> Result<Message> {
        let Said { at, content, delivery } = match journal.said(step) {
            Some(said) => said,
            None => journal.say(step, &new).await?,
        };
        let new = NewMessage::new(content, at).with_run(run.id);
        let stored = self.services.records().messages().add_keyed(new, journal.message(), step).await;
        let message = stored.inspect_err(|error| journal.note_failure(error))?;
        match delivery {
            Delivery::Delivered => return Ok(message),
            Delivery::Pending => match self.speak(&message).await {
                Ok(()) => {
                    journal.delivered(step);
                    return Ok(message);
                }
                Err(error) => {
                    tracing::warn!(id = %message.id, %error, "a message can't be said");
                    if error.outcome() == Outcome::Unknown {
                        journal.settle(step, Delivery::Unclear).await?;
                        return Err(unclear());
                    }
                }
            },
            Delivery::Unclear => return Err(unclear()),
            Delivery::Failed => {}
        }
        // One who has lost the message marks nothing: whoever has it may say it.
        journal.settle(step, Delivery::Failed).await?;
        self.mark(&message).await;
        Err(unsaid("it could not be said"))
    }

    /// Has the platform say a message; once more under the same id where nobody knows whether it did, so that it can drop the repetition.
    async fn speak(&self, message: &Message) -> Result<()> {
        match self.speak_once(message).await {
            Err(error) if error.outcome() == Outcome::Unknown => {
                tracing::debug!(id = %message.id, %error, "a message may have been said, and is said again");
                self.speak_once(message).await.map_err(|error| error.with_outcome(Outcome::Unknown))
            }
            spoken => spoken,
        }
    }

    async fn speak_once(&self, message: &Message) -> Result<()> {
        let late = |_| {
            let message = format!("the platform did not answer within {} ms", self.limit.as_millis());
            Error::new(ErrorKind::Timeout, message).with_outcome(Outcome::Unknown)
        };
        timeout(self.limit, self.platform.say(message)).await.map_err(late).flatten()
    }

    async fn mark(&self, message: &Message) {
        let audience = Audience::new(message.content.room.clone(), message.content.author.clone());
        if let Err(error) = self.services.records().messages().mark_undelivered(&audience, message.id).await {
            tracing::warn!(id = %message.id, %error, "a message that was not said can't be marked");
        }
    }
}

/// Why a step has not said its text: the same words in each life of the run, since they become part of what is stored under a key.
fn unsaid(why: &str) -> Error {
    Error::new(ErrorKind::Unavailable, why).with_outcome(Outcome::Unknown)
}

fn unclear() -> Error {
    unsaid("nobody knows whether it was said")
}
