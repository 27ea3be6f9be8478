//! The course of a conversation.

use std::pin::pin;
use std::sync::Arc;

use futures::future::FusedFuture as _;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use memory_context::flow::platform::Origin;
use memory_context::flow::{End, Event, EventKind, Incoming, MessageService, Notice, Step};
use memory_context::records::NewMessage;
use memory_core::{Clock as _, SystemClock};
use tokio::sync::mpsc;

use super::shown::Shown;
use super::terminal::Said;
use super::typed::{self, Typed};
use crate::{output, signal};

/// Who talks to whom, and how.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) service: Arc<MessageService>,
    pub(super) origin: Origin,
    /// Whether a line may come while the one before it is worked on; else it waits.
    pub(super) interrupts: bool,
}

impl Conversation {
    /// Takes in what is typed and shows what is said until the input ends or a signal comes, and all that was taken in is over; a
    /// second signal ends it at once. Tells whether something was reported.
    pub(super) async fn hold(&self, mut said: mpsc::Receiver<Said>, shown: &mut Shown<'_>) -> anyhow::Result<bool> {
        let mut signal = pin!(signal::asked_to_end()?);
        let mut events = pin!(self.service.events().subscribe());
        let mut lines = typed::lines();
        let mut is_open = true;
        let mut runs = FuturesUnordered::new();
        // What an earlier process left unanswered here is answered first of all.
        let mut left = pin!(self.service.recover_room(&self.origin.room.id).fuse());
        while is_open || !runs.is_empty() || !left.is_terminated() {
            tokio::select! {
                // What has happened is told before more happens.
                biased;
                Some(notice) = events.next() => log(&notice),
                Some(answer) = said.recv() => {
                    if !answer.is_given_up() {
                        shown.answer(&answer.message)?;
                        answer.confirm();
                    }
                }
                Some((line, end)) = runs.next() => shown.end(line, &end)?,
                recovered = &mut left, if !left.is_terminated() => {
                    if let Err(error) = recovered {
                        tracing::warn!(%error, "what was left unanswered can't be found");
                    }
                }
                () = &mut signal => {
                    if !is_open {
                        output::note("error: it ended before all that was said was answered");
                        return Ok(true);
                    }
                    is_open = false;
                    signal.set(signal::asked_to_end()?);
                }
                typed = lines.recv(), if is_open && (self.interrupts || runs.is_empty()) => match typed {
                    None => is_open = false,
                    Some(Typed { number, text: Ok(text) }) => {
                        let run = self.service.receive(self.incoming(text));
                        runs.push(async move { (number, run.await) });
                    }
                    Some(Typed { number, text: Err(reason) }) => {
                        let reason = format!("line {number} of the input can't be read: {reason}");
                        shown.end(number, &End::Failed { reason })?;
                    }
                },
            }
        }
        while let Some(Some(notice)) = events.next().now_or_never() {
            log(&notice);
        }
        Ok(shown.has_failures())
    }

    fn incoming(&self, text: String) -> Incoming {
        let message = NewMessage::new(self.origin.message(text), SystemClock.now());
        Incoming { message, is_addressed: false }
    }
}

/// Tells what happens in the runs, without what was said.
fn log(notice: &Notice) {
    let Event { run, kind, .. } = match notice {
        Notice::Event(event) => event,
        Notice::Missed(missed) => return tracing::warn!(missed, "more happened than could be told"),
    };
    let (run, room, author) = (run.id, &run.room, &run.author);
    match kind {
        EventKind::Started => tracing::info!(%run, %room, %author, "a run began"),
        EventKind::Step(Step::Stored(message)) => tracing::info!(%run, %message, "the message is stored"),
        EventKind::Step(Step::Answered(message)) => tracing::info!(%run, %message, "the answer is stored"),
        EventKind::Step(Step::ActionStarted { action }) => tracing::info!(%run, action, "an action began"),
        EventKind::Step(Step::ActionEnded { action, success }) => {
            tracing::info!(%run, action, success, "an action ended")
        }
        EventKind::Step(_) => {}
        EventKind::Ended(end) => tracing::info!(%run, end = end.as_str(), "the run ended"),
    }
}
