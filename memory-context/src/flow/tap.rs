//! What a run gives to whoever waits for its answer.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use memory_core::MemoryId;
use memory_model::Usage;
use tokio::sync::{mpsc, oneshot};

use super::streamed::Streamed;
use super::{End, Why};
use crate::records::Message;
use crate::state::ToolResult;

/// What became of a message that was asked about.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Answer {
    /// Everything that the agent said, in its order, with an empty line between two messages; empty where it said nothing.
    pub text: String,
    /// The messages that the agent said, as they are stored.
    pub said: Vec<Message>,
    /// What came of the tools that were called, in their order.
    pub results: Vec<ToolResult>,
    /// The tokens that all calls of models took, as far as the models tell.
    pub usage: Usage,
    /// The run in which it came about, as the metadata of its messages and the events have it.
    pub run: MemoryId,
    /// The message that was answered, as it is stored. `None` where none was.
    pub message: Option<MemoryId>,
    /// How the run ended.
    pub end: End,
}

impl Answer {
    /// That of a message for which no run begins: its id is that of no run.
    pub(crate) fn ignored(why: Why) -> Self {
        Self {
            text: String::new(),
            said: Vec::new(),
            results: Vec::new(),
            usage: Usage::default(),
            run: MemoryId::generate(),
            message: None,
            end: End::Ignored(why),
        }
    }
}

/// A piece of an answer that is streamed.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum Piece {
    /// The text that follows what came before it; never empty. All of them together are the text of the answer, unless the run ends before
    /// that is said, or the model was asked again: what was heard of an answer that is refused stands before the one that is said, with an
    /// empty line between them.
    Text(String),
    /// What came of a call of a tool, when that is over.
    Result(ToolResult),
    /// The whole answer, once and at the end.
    Answer(Answer),
}

/// Where a run puts what it says, for one who waits. Cheap to clone; without one who waits it keeps nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tap {
    shared: Option<Arc<Mutex<Gathered>>>,
}

/// Where a model of a run counts its tokens. It does not keep the run: whoever waits for the answer learns that the run is gone, also
/// while a part of the host keeps the model.
#[derive(Debug)]
pub(super) struct Spending(Weak<Mutex<Gathered>>);

/// What came so far.
struct Gathered {
    run: Option<MemoryId>,
    message: Option<MemoryId>,
    said: Vec<Message>,
    results: Vec<ToolResult>,
    usage: Usage,
    streamed: Option<Streamed>,
    stored: Option<oneshot::Sender<MemoryId>>,
    answer: Option<oneshot::Sender<Answer>>,
}

/// What stands between two messages in the text of an answer.
pub(super) const BETWEEN: &str = "\n\n";

impl Tap {
    /// A tap, and the answer that comes from it; none comes where no run began.
    pub(crate) fn new() -> (Self, oneshot::Receiver<Answer>) {
        Self::open(None, None)
    }

    /// The same with the id of the message as soon as that is stored; none comes where it is not.
    pub(crate) fn storing() -> (Self, oneshot::Receiver<MemoryId>, oneshot::Receiver<Answer>) {
        let (sender, stored) = oneshot::channel();
        let (tap, answer) = Self::open(None, Some(sender));
        (tap, stored, answer)
    }

    /// The same with the pieces of the answer as they come, without the answer itself.
    pub(crate) fn streaming() -> (Self, oneshot::Receiver<Answer>, mpsc::UnboundedReceiver<Piece>) {
        let (sender, pieces) = mpsc::unbounded_channel();
        let (tap, answer) = Self::open(Some(Streamed::new(sender)), None);
        (tap, answer, pieces)
    }

    fn open(
        streamed: Option<Streamed>,
        stored: Option<oneshot::Sender<MemoryId>>,
    ) -> (Self, oneshot::Receiver<Answer>) {
        let (answer, answered) = oneshot::channel();
        let (said, results, usage) = (Vec::new(), Vec::new(), Usage::default());
        let (run, message, answer) = (None, None, Some(answer));
        let gathered = Gathered { run, message, said, results, usage, streamed, stored, answer };
        (Self { shared: Some(Arc::new(Mutex::new(gathered))) }, answered)
    }

    pub(super) fn began(&self, run: MemoryId) {
        self.with(|gathered| gathered.run = Some(run));
    }

    /// The message is stored.
    pub(super) fn stored(&self, message: MemoryId) {
        self.with(|gathered| {
            gathered.message = Some(message);
            // Whoever brought it may have gone.
            let _ = gathered.stored.take().map(|stored| stored.send(message));
        });
    }

    /// Whether somebody wants the text piece by piece.
    pub(super) fn is_streaming(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| lock(shared).streamed.is_some())
    }

    /// A model begins to answer, which is asked for plain text or for a form.
    pub(super) fn completion_begins(&self, is_plain: bool) {
        self.with(|gathered| gathered.streamed.iter_mut().for_each(|streamed| streamed.begin(is_plain)));
    }

    /// Whether somebody has heard something of what the model writes now.
    pub(super) fn is_heard(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| lock(shared).streamed.as_ref().is_some_and(Streamed::is_heard))
    }

    /// A piece of what a model answers.
    pub(super) fn piece(&self, text: &str) {
        self.with(|gathered| gathered.streamed.iter_mut().for_each(|streamed| streamed.piece(text)));
    }

    pub(super) fn used(&self, usage: Usage) {
        self.spending().add(usage);
    }

    /// Where the tokens of this run are counted.
    pub(super) fn spending(&self) -> Spending {
        Spending(self.shared.as_ref().map(Arc::downgrade).unwrap_or_default())
    }

    pub(super) fn said(&self, message: &Message) {
        self.with(|gathered| {
            gathered.streamed.iter_mut().for_each(|streamed| streamed.said(&message.content.text));
            gathered.said.push(message.clone());
        });
    }

    pub(super) fn result(&self, result: &ToolResult) {
        self.with(|gathered| {
            gathered.streamed.iter().for_each(|streamed| streamed.result(result));
            gathered.results.push(result.clone());
        });
    }

    /// Gives the answer, unless it was given.
    pub(crate) fn end(&self, end: &End) {
        self.with(|gathered| {
            (gathered.streamed, gathered.stored) = (None, None);
            let Some((answer, run)) = gathered.answer.take().zip(gathered.run) else { return };
            let said = std::mem::take(&mut gathered.said);
            let texts: Vec<_> = said.iter().map(|message| message.content.text.as_str()).collect();
            let (text, results) = (texts.join(BETWEEN), std::mem::take(&mut gathered.results));
            // Whoever asked may have gone.
            let Gathered { usage, message, .. } = *gathered;
            let _ = answer.send(Answer { text, said, results, usage, run, message, end: end.clone() });
        });
    }

    fn with(&self, change: impl FnOnce(&mut Gathered)) {
        if let Some(shared) = &self.shared {
            change(&mut lock(shared));
        }
    }
}

impl Spending {
    pub(super) fn add(&self, usage: Usage) {
        if let Some(gathered) = self.0.upgrade() {
            lock(&gathered).usage += usage;
        }
    }
}

/// Each change is whole before anything in it can panic.
fn lock(shared: &Mutex<Gathered>) -> MutexGuard<'_, Gathered> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Answer {
    /// Payloads stay out of logs: only the sizes show.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer")
            .field("text_bytes", &self.text.len())
            .field("said", &self.said.len())
            .field("results", &self.results)
            .field("usage", &self.usage)
            .field("run", &self.run)
            .field("end", &self.end)
            .finish()
    }
}

impl fmt::Debug for Piece {
    /// Payloads stay out of logs: of the text only the size shows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "Text({} bytes)", text.len()),
            Self::Result(result) => f.debug_tuple("Result").field(result).finish(),
            Self::Answer(answer) => f.debug_tuple("Answer").field(answer).finish(),
        }
    }
}

impl fmt::Debug for Gathered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gathered({} said, {} results)", self.said.len(), self.results.len())
    }
}
