//! What a tool is given beside its arguments.

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

/// What a [`Tool`](super::Tool) is given beside its arguments. Owned and cheap to clone, so a tool can hand it to tasks of its own.
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

/// A text that a tool wants said.
#[derive(Debug)]
pub(crate) struct Saying {
    pub(crate) text: String,
    pub(crate) said: oneshot::Sender<Result<Message>>,
}

impl ToolContext {
    /// The context of a call that ends at the deadline, and what the tool wants said.
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

    /// The message that the agent works on.
    pub fn message(&self) -> &Message {
        &self.turn.message
    }

    /// To whom records are shown, and in which room: author and room of the message.
    pub fn audience(&self) -> Audience {
        let content = &self.message().content;
        Audience::new(content.room.clone(), content.author.clone())
    }

    /// What the agent knew when it decided to call the tool.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// What the agent did in this turn before.
    pub fn actions(&self) -> &ActionState {
        &self.turn.actions
    }

    /// The model that writes the agent's answers.
    pub fn model(&self) -> &Arc<dyn Model> {
        &self.model
    }

    /// What the agent remembers.
    pub fn records(&self) -> &Records {
        self.services.records()
    }

    /// The services of the host, the agent's character and its clock.
    pub fn services(&self) -> &Services {
        &self.services
    }

    /// When the call is given up. Time that [`say`](Self::say) takes counts.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether nobody waits for the result any more: the call is over, late, or its run was stopped.
    pub fn is_cancelled(&self) -> bool {
        self.cancellation.is_cancelled()
    }

    /// Waits until nobody waits for the result any more. The tool itself is dropped then; this is for tasks that it has started.
    pub async fn cancelled(&self) {
        self.cancellation.cancelled().await;
    }

    /// Says a text to the user at once, as a message of the agent that is stored like any other.
    ///
    /// `InvalidInput` for a blank text, `TooLarge` for more than 256 KiB, `Closed` once the call is over; else what the engine or
    /// the platform answers.
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
    /// Payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext").field("message", &self.message().id).finish_non_exhaustive()
    }
}
