//! Posts, which the agent writes without a message to answer.

use memory_core::{Error, ErrorKind, MemoryId, Outcome, Result};

use super::answer::PostAnswer;
use super::door::Stopping;
use super::run::TimeLeft;
use super::{End, FlowStep, MessageService, POST_PROVIDERS, Run};
use crate::records::{Message, MessageContent, NewMessage, Room};
use crate::state::{ComposeOptions, Turn};

/// A post that the agent has said.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Posted {
    /// The message, as it was stored.
    pub message: Message,
    /// The answer of the model: the text, the reason, and a prompt for a picture.
    pub post: PostAnswer,
}

impl MessageService {
    /// Writes a post for a room with the model, and says it there, in its own run, independent of the other messages of the room.
    ///
    /// Fails with the error of the model, the platform or the engine, with `Timeout` over the limit of a run, and with `Closed` after a
    /// shutdown. A [`shutdown`](Self::shutdown) waits for posts in progress; a [`stop`](Self::stop) drops them.
    pub async fn post(&self, room: &Room) -> Result<Posted> {
        let _entered = self.door.enter()?;
        let run = Run::start(&self.events, room.id.clone(), self.composer.services().records().agent().entity());
        let written = self.door.unless(Stopping::Everything, self.write_post(&run, room));
        let posted = TimeLeft::new(self.limits.run).spend(written).await.flatten();
        run.end(match &posted {
            Ok(Ok(_)) => End::Completed,
            Ok(Err(error)) => End::Failed { reason: error.to_string() },
            Err(end) => end.clone(),
        });
        posted.unwrap_or_else(|end| {
            let given_up = match end {
                End::Left { reason } => Error::new(ErrorKind::Closed, reason),
                _ => Error::new(ErrorKind::Timeout, "the post took longer than a run may"),
            };
            Err(given_up.with_outcome(Outcome::Unknown))
        })
    }

    async fn write_post(&self, run: &Run, room: &Room) -> Result<Posted> {
        let services = self.composer.services();
        let mut content = MessageContent::new(room.id.clone(), services.records().agent().entity(), "");
        content.channel_type = room.channel_type;
        content.source = room.source.clone();
        content.world = room.world.clone();
        // Providers need a message, and there is none yet.
        let (id, created_at) = (MemoryId::generate(), services.clock().now());
        let turn = Turn::new(Message { id, created_at, content: content.clone(), is_undelivered: false });
        let turn = turn.with_flow(self.flow_of(run));
        let options = ComposeOptions::only(POST_PROVIDERS);
        let post =
            self.ask_writer(run, &services.templates().post_creation, &turn, &options, PostAnswer::parse).await?;
        content.text = post.post.clone();
        content.thought = Some(post.thought.clone());
        let new = NewMessage::new(content, services.clock().now()).with_run(run.context().id);
        let message = self.voice().say(new).await?;
        run.step(FlowStep::Answered(message.id));
        Ok(Posted { message, post })
    }
}
