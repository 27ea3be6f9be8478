//! The channel from a run to the caller that waits for its answer.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use memory_core::MemoryId;
use memory_model::Usage;
use tokio::sync::{mpsc, oneshot};

use super::End;
use super::piece::{Answer, BETWEEN, Piece};
use super::streamed::Streamed;
use crate::records::Message;
use crate::state::ToolResult;

/// Collects what a run says, for a caller that waits. Cloning is cheap. Without a caller it collects nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tap {
    shared: Option<Arc<Mutex<Gathered>>>,
}

/// Counts the tokens of a model in a run. It is a weak handle, so that the caller is told of the end of the run even if a part of the
/// host keeps the model.
#[derive(Debug)]
pub(super) struct Spending(Weak<Mutex<Gathered>>);

/// What a run has said so far.
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

impl Tap {
    /// Makes a tap and the receiver of the answer. The receiver fails if no run starts.
    pub(crate) fn new() -> (Self, oneshot::Receiver<Answer>) {
        Self::open(None, None)
    }

    /// Like [`new`](Self::new), with a receiver of the message's id, which is sent when it is stored.
    pub(crate) fn storing() -> (Self, oneshot::Receiver<MemoryId>, oneshot::Receiver<Answer>) {
        let (sender, stored) = oneshot::channel();
        let (tap, answer) = Self::open(None, Some(sender));
        (tap, stored, answer)
    }

    /// Like [`new`](Self::new), with a receiver of the pieces of the answer, without the answer itself.
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

    /// Reports that the message is stored.
    pub(super) fn stored(&self, message: MemoryId) {
        self.with(|gathered| {
            gathered.message = Some(message);
            // Fails if the receiver was dropped.
            let _ = gathered.stored.take().map(|stored| stored.send(message));
        });
    }

    /// Whether the answer is streamed.
    pub(super) fn is_streaming(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| lock(shared).streamed.is_some())
    }

    /// Reports the start of a model call, which asks for plain text or for a form.
    pub(super) fn completion_begins(&self, is_plain: bool) {
        self.with(|gathered| gathered.streamed.iter_mut().for_each(|streamed| streamed.begin(is_plain)));
    }

    /// Whether a part of the present model call's text was passed on.
    pub(super) fn is_heard(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| lock(shared).streamed.as_ref().is_some_and(Streamed::is_heard))
    }

    /// Passes on a piece of the model's text.
    pub(super) fn piece(&self, text: &str) {
        self.with(|gathered| gathered.streamed.iter_mut().for_each(|streamed| streamed.piece(text)));
    }

    pub(super) fn used(&self, usage: Usage) {
        self.spending().add(usage);
    }

    /// The counter of this run's tokens.
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

    /// Sends the answer, unless it was sent.
    pub(crate) fn end(&self, end: &End) {
        self.with(|gathered| {
            (gathered.streamed, gathered.stored) = (None, None);
            let Some((answer, run)) = gathered.answer.take().zip(gathered.run) else { return };
            let said = std::mem::take(&mut gathered.said);
            let texts: Vec<_> = said.iter().map(|message| message.content.text.as_str()).collect();
            let (text, results) = (texts.join(BETWEEN), std::mem::take(&mut gathered.results));
            // The receiver may have been dropped.
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

/// Locks the collected answer. No change can panic half-way, so a poisoned value is consistent.
fn lock(shared: &Mutex<Gathered>) -> MutexGuard<'_, Gathered> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Gathered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gathered({} said, {} results)", self.said.len(), self.results.len())
    }
}
