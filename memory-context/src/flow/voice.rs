//! Storing and saying the messages of the agent.

use std::sync::Arc;
use std::time::Duration;

use memory_core::{Error, ErrorKind, Outcome, Result};
use tokio::time::timeout;

use super::{Journal, Platform, RunContext};
use crate::records::{Audience, Delivery, Message, MessageContent, NewMessage, Said, may_be_repeated};
use crate::state::Services;

/// Makes the agent's reply to a message, in the same room.
pub(super) fn reply(services: &Services, received: &Message, text: impl Into<String>) -> NewMessage {
    let mut content = MessageContent::new(received.content.room.clone(), services.records().agent().entity(), text);
    content.world = received.content.world.clone();
    content.channel_type = received.content.channel_type;
    content.source = received.content.source.clone();
    content.in_reply_to = Some(received.id);
    // The answer must come after its question, even if the clock of the platform is fast. At equal times the id decides, and the
    // answer has the later one.
    NewMessage::new(content, services.clock().now().max(received.created_at))
}

/// Stores and says messages.
pub(super) struct Voice<'a> {
    pub(super) services: Arc<Services>,
    pub(super) platform: &'a Arc<dyn Platform>,
    /// The deadline of one delivery by the platform.
    pub(super) limit: Duration,
}

impl Voice<'_> {
    /// Stores a message and then says it, so that nothing is said that is not stored. A message that could not be said is marked as
    /// undelivered, unless it may have been delivered. The outcome of the error is unknown in both cases, since the message is stored.
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

    /// Says the message of a step: records it in the journal, stores it under the key of the answered message and the step, and then says
    /// it. A message that the journal has is stored and said unchanged; one that was delivered is not said again.
    ///
    /// The inner error is that of a message that no later run says either, so it may be stored. The outer error is that of a run that has
    /// lost the message that it answers, or whose ledger fails for now: then a later run says the message. The outer error ends the run,
    /// except for a text that a tool says while it works: the tool gets the error and decides what follows.
    ///
    /// If the ledger can't store that the delivery is unknown, it still has the message as pending, so a later run may deliver it once
    /// more, under the same id.
    pub(super) async fn say_once(
        &self,
        journal: &Journal,
        step: &str,
        run: &RunContext,
        new: NewMessage,
    ) -> Result<Result<Message>> {
        let (message, delivery) = match self.store_once(journal, step, run, new).await {
            Ok(stored) => stored,
            Err(error) if error.kind() == ErrorKind::Conflict || may_be_repeated(&error) => return Err(error),
            Err(error) => return Ok(Err(error)),
        };
        match delivery {
            Delivery::Delivered => return Ok(Ok(message)),
            Delivery::Pending => match self.speak(&message).await {
                Ok(()) => {
                    journal.delivered(step);
                    return Ok(Ok(message));
                }
                Err(error) => {
                    tracing::warn!(id = %message.id, %error, "a message can't be said");
                    if error.outcome() == Outcome::Unknown {
                        journal.settle(step, Delivery::Unclear).await?;
                        return Ok(Err(unclear()));
                    }
                }
            },
            Delivery::Unclear => return Ok(Err(unclear())),
            Delivery::Failed => {}
        }
        // If this run has lost the message, it marks nothing, since the new holder may say it.
        journal.settle(step, Delivery::Failed).await?;
        self.mark(&message).await;
        Ok(Err(unsaid("it could not be said")))
    }

    /// Records the message of a step in the journal and stores it. Returns what is known of its delivery, too.
    async fn store_once(
        &self,
        journal: &Journal,
        step: &str,
        run: &RunContext,
        new: NewMessage,
    ) -> Result<(Message, Delivery)> {
        let Said { at, content, delivery } = match journal.said(step) {
            Some(said) => said,
            None => journal.say(step, &new).await?,
        };
        let new = NewMessage::new(content, at).with_run(run.id);
        let stored = self.services.records().messages().add_keyed(new, journal.message(), step).await;
        Ok((stored.inspect_err(|error| journal.note_failure(error))?, delivery))
    }

    /// Calls the platform. If the outcome is unknown, calls it once more with the same id, by which the platform can drop the repetition.
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

/// The error of a step that has not said its text. Its words are the same in each attempt of the run, since they become part of a message
/// that is stored under a key.
fn unsaid(why: &str) -> Error {
    Error::new(ErrorKind::Unavailable, why).with_outcome(Outcome::Unknown)
}

fn unclear() -> Error {
    unsaid("nobody knows whether it was said")
}
