//! A conversation at the terminal.

use std::ops::ControlFlow;
use std::pin::Pin;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use memory_context::agent::{Agent, Conversation, End, Piece};
use memory_context::flow::{Event, EventKind, FlowStep, Notice};
use memory_context::records::{Audience, EntityId};
use memory_core::MemoryId;
use tokio::time::timeout;

use super::shown::Shown;
use super::typed::{self, Typed};
use crate::signal;

/// The parties of a conversation, and its settings.
#[derive(Debug)]
pub(super) struct Asking<'a> {
    pub(super) agent: &'a Agent,
    pub(super) room: Conversation,
    pub(super) user: &'a str,
    /// Whether the room is a group, so that not every line is for the agent.
    pub(super) is_group: bool,
    /// Whether a person types, who may continue after a cancelled answer.
    pub(super) is_terminal: bool,
}

/// A conversation in progress.
pub(super) struct Session<'a> {
    asking: Asking<'a>,
    shown: Shown<'a>,
    events: BoxStream<'static, Notice>,
    signal: Pin<Box<dyn Future<Output = ()>>>,
}

/// How long the end waits until a message is given back.
const GIVE_BACK: Duration = Duration::from_secs(5);

impl<'a> Session<'a> {
    pub(super) fn start(asking: Asking<'a>, shown: Shown<'a>) -> anyhow::Result<Self> {
        let events = asking.agent.events().subscribe().boxed();
        Ok(Self { asking, shown, events, signal: Box::pin(signal::asked_to_end()?) })
    }

    /// Asks each typed line and shows the answer until the input ends or a signal comes. Then it lets the agent finish its work, unless
    /// another signal comes. Returns whether a failure was reported.
    pub(super) async fn hold(mut self) -> anyhow::Result<bool> {
        let held = self.talk().await;
        self.signal = Box::pin(signal::asked_to_end()?);
        tokio::select! {
            closed = self.asking.agent.shutdown() => closed?,
            () = &mut self.signal => {}
        }
        while let Some(Some(notice)) = self.events.next().now_or_never() {
            log(&notice);
        }
        held?;
        Ok(self.shown.has_failures())
    }

    async fn talk(&mut self) -> anyhow::Result<()> {
        let mut lines = typed::lines();
        loop {
            tokio::select! {
                biased;
                Some(notice) = self.events.next() => self.hear(&notice).await?,
                () = &mut self.signal => return Ok(()),
                typed = lines.recv() => match typed {
                    None => return Ok(()),
                    Some(Typed { number, text: Ok(text) }) => {
                        if self.ask(number, text).await?.is_break() {
                            return Ok(());
                        }
                    }
                    Some(Typed { number, text: Err(reason) }) => {
                        let reason = format!("line {number} of the input can't be read: {reason}");
                        self.shown.end(number, &End::Failed { reason })?;
                    }
                },
            }
        }
    }

    /// Asks a line. A signal cancels the answer in progress, and one more ends the conversation.
    async fn ask(&mut self, line: u64, text: String) -> anyhow::Result<ControlFlow<()>> {
        let Asking { room, user, is_group, .. } = &self.asking;
        let mut answer = if *is_group { room.tell_stream(user, text) } else { room.ask_stream(user, text) };
        let mut next = ControlFlow::Continue(());
        let mut signals = 0;
        loop {
            tokio::select! {
                biased;
                Some(notice) = self.events.next() => log(&notice),
                piece = answer.next() => match piece {
                    Some(Ok(Piece::Text(text))) => self.shown.text(&text)?,
                    Some(Ok(Piece::Result(result))) => self.shown.result(&result)?,
                    Some(Ok(Piece::Answer(answer))) => self.shown.answer(line, &answer)?,
                    Some(Ok(_)) => {}
                    Some(Err(error)) => self.shown.error(line, &error)?,
                    None => return Ok(next),
                },
                () = &mut self.signal => {
                    signals += 1;
                    if signals > 1 {
                        self.shown.report("it ended before every message was answered")?;
                        // If that takes longer, the message stays leased for a while.
                        let _given_back = timeout(GIVE_BACK, self.asking.agent.service().stop()).await;
                        return Ok(ControlFlow::Break(()));
                    }
                    if !self.asking.is_terminal {
                        next = ControlFlow::Break(());
                    }
                    self.asking.room.interrupt();
                    self.signal = Box::pin(signal::asked_to_end()?);
                }
            }
        }
    }

    /// Shows what the agent says by itself, such as its answer to a message that an earlier process left open.
    async fn hear(&mut self, notice: &Notice) -> anyhow::Result<()> {
        log(notice);
        let room = &self.asking.room.room().id;
        match notice {
            Notice::Event(Event { run, kind: EventKind::Step(FlowStep::Answered(message)), .. })
                if run.room == *room =>
            {
                self.show(*message).await
            }
            _ => Ok(()),
        }
    }

    async fn show(&mut self, message: MemoryId) -> anyhow::Result<()> {
        let Asking { agent, room, user, .. } = &self.asking;
        let audience = Audience::new(room.room().id.clone(), EntityId::parse(user)?);
        if let Some(message) = agent.records().messages().get(&audience, message).await? {
            self.shown.said(&message)?;
        }
        Ok(())
    }
}

/// Logs the events of runs, without messages.
fn log(notice: &Notice) {
    let Event { run, kind, .. } = match notice {
        Notice::Event(event) => event,
        Notice::Missed(missed) => return tracing::warn!(missed, "more happened than could be told"),
    };
    let (run, room, author) = (run.id, &run.room, &run.author);
    match kind {
        EventKind::Started => tracing::info!(%run, %room, %author, "a run began"),
        EventKind::Step(FlowStep::Stored(message)) => tracing::info!(%run, %message, "the message is stored"),
        EventKind::Step(FlowStep::Answered(message)) => tracing::info!(%run, %message, "the answer is stored"),
        EventKind::Step(FlowStep::ActionStarted { action }) => tracing::info!(%run, action, "an action began"),
        EventKind::Step(FlowStep::ActionEnded { action, success }) => {
            tracing::info!(%run, action, success, "an action ended")
        }
        EventKind::Step(_) => {}
        EventKind::Ended(end) => tracing::info!(%run, end = end.as_str(), "the run ended"),
    }
}
