//! The context of a tool call.

use std::fmt;
use std::sync::Arc;

use memory_core::{Error, ErrorKind, Outcome, Result};
use memory_model::Model;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::flow::answer::MAX_ANSWER;
use crate::records::{Audience, Message, Records};
use crate::state::{ActionState, Services, State, Turn};

/// The context of a [`Tool`](super::Tool) call. It is owned and cheap to clone, so a tool can pass it to tasks that it spawns.
#[derive(Clone)]
pub struct ToolContext {
    turn: Turn,
    state: Arc<State>,
    services: Arc<Services>,
    model: Arc<dyn Model>,
    deadline: Instant,
    cancellation: CancellationToken,
    voice: mpsc::Sender<Saying>,
}

/// A text that a tool wants the agent to say.
#[derive(Debug)]
pub(crate) struct Saying {
    pub(crate) text: String,
    pub(crate) said: oneshot::Sender<Result<Message>>,
}

impl ToolContext {
    /// Makes the context of a call with a deadline, and the receiver of the texts that the tool wants said.
    pub(crate) fn new(
        turn: Turn,
        state: Arc<State>,
        services: Arc<Services>,
        model: Arc<dyn Model>,
        deadline: Instant,
        cancellation: CancellationToken,
    ) -> (Self, mpsc::Receiver<Saying>) {
        let (voice, sayings) = mpsc::channel(1);
        (Self { turn, state, services, model, deadline, cancellation, voice }, sayings)
    }

    /// The message that the agent answers.
    pub fn message(&self) -> &Message {
        &self.turn.message
    }

    /// The audience for reads of records: the room and the author of the message.
    pub fn audience(&self) -> Audience {
        let content = &self.message().content;
        Audience::new(content.room.clone(), content.author.clone())
    }

    /// The state of the turn before this call. It has the results of the calls before it, also of those in the same round.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The plan of the round, and the results of the earlier calls of this turn.
    pub fn actions(&self) -> &ActionState {
        &self.turn.actions
    }

    /// The model that writes the agent's answers.
    pub fn model(&self) -> &Arc<dyn Model> {
        &self.model
    }

    /// The records of the agent.
    pub fn records(&self) -> &Records {
        self.services.records()
    }

    /// The services of the host, with the agent's character and clock.
    pub fn services(&self) -> &Services {
        &self.services
    }

    /// The deadline of the call, at which the tool is dropped. Time spent in [`say`](Self::say) counts.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether the result is no longer needed, since the call is over, missed its deadline, or belongs to a run that was stopped.
    pub fn is_cancelled(&self) -> bool {
        self.cancellation.is_cancelled()
    }

    /// Completes when the result is no longer needed. The tool itself is dropped then; this is for tasks that it has spawned.
    pub async fn cancelled(&self) {
        self.cancellation.cancelled().await;
    }

    /// Says a text to the user at once. The text is a message of the agent, and is stored like any other.
    ///
    /// Fails with `InvalidInput` if the text is blank, with `TooLarge` if it has more than 256 KiB, with `Closed` if the call is over, and
    /// otherwise with the error of the engine or the platform.
    pub async fn say(&self, text: impl Into<String>) -> Result<Message> {
        let text = text.into();
        if text.trim().is_empty() {
            return Err(Error::invalid("a text to say must not be blank"));
        }
        if text.len() > MAX_ANSWER {
            return Err(Error::too_large(format!("a text to say has at most {MAX_ANSWER} bytes")));
        }
        let (said, answer) = oneshot::channel();
        self.voice.send(Saying { text, said }).await.map_err(|_| over())?;
        answer.await.map_err(|_| over().with_outcome(Outcome::Unknown))?
    }
}

fn over() -> Error {
    Error::new(ErrorKind::Closed, "the call of the tool is over")
}

impl fmt::Debug for ToolContext {
    /// Shows no payloads, so that they stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext").field("message", &self.message().id).finish_non_exhaustive()
    }
}
