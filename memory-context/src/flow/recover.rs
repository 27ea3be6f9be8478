//! Recovery of messages that nobody works on any more.

use std::sync::Arc;

use memory_core::{Memory, MemoryId, Result};
use memory_runtime::{Claim, Lease};
use tokio::task::JoinSet;

use super::door::Entered;
use super::way::Task;
use super::{End, Journal, MessageService, Run, Tap};
use crate::records::{Entity, OpenMessage, RoomId};

/// The result of recovering a message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// The id of the message.
    pub message: MemoryId,
    /// How its run ended.
    pub end: End,
}

/// An open message that this service has claimed.
#[derive(Debug)]
pub(super) struct Left {
    open: OpenMessage,
    lease: Arc<Lease>,
    /// Taken before the claim, so that a shutdown waits until the message is given back.
    entered: Entered,
}

/// How many messages are recovered concurrently.
const AT_ONCE: usize = 64;

impl MessageService {
    /// Recovers the open messages of the agent that nobody works on: those whose lease has expired, that were given back, or that an
    /// earlier run of this instance held. Returns when all of their runs have ended.
    ///
    /// # Behavior
    /// - If several services recover on one ledger, only one gets a message. Messages can be received meanwhile.
    /// - A run continues from its journal. A decided answer is said under its id. An action whose result is recorded is not repeated; one
    ///   that may have run is repeated only if its tool is [repeatable](crate::tool::Tool::repeatable).
    /// - Messages of a room are recovered in the order of their times. An undecided message is superseded by a newer one of its room that
    ///   was answered meanwhile. A message that was answered because the agent follows the room supersedes only others of this kind.
    /// - A message that was started as often as [`Limits::runs`](super::Limits::runs) allows and never ended fails. During its last attempt
    ///   no other message is recovered, so that a message that crashes its process takes no others with it.
    /// - The cost grows with the open messages, not with the ledger. Call it after the start, and from time to time.
    /// - Dropping the future drops the runs, which leaves their messages open.
    pub async fn recover(self: &Arc<Self>) -> Result<Vec<Recovered>> {
        self.recover_from(None).await
    }

    /// Like [`recover`](Self::recover), but for one room only, for a service whose platform reaches no other.
    pub async fn recover_room(self: &Arc<Self>, room: &RoomId) -> Result<Vec<Recovered>> {
        self.recover_from(Some(room)).await
    }

    async fn recover_from(self: &Arc<Self>, room: Option<&RoomId>) -> Result<Vec<Recovered>> {
        let (mut runs, mut ended) = (JoinSet::new(), Vec::new());
        let looked = self.take_up(room, &mut runs, &mut ended).await;
        // Even after an error of the ledger, the claimed messages run to their end.
        while let Some(run) = runs.join_next().await {
            ended.extend(run.ok());
        }
        looked.map(|()| ended)
    }

    async fn take_up(
        self: &Arc<Self>,
        room: Option<&RoomId>,
        runs: &mut JoinSet<Recovered>,
        ended: &mut Vec<Recovered>,
    ) -> Result<()> {
        let (mut cursor, free) = (None, self.leases.free());
        loop {
            let services = self.composer.services();
            let messages = services.records().messages();
            let page = self.in_time(messages.free(room, &free, cursor.as_ref())).await?;
            for row in page.unreadable {
                tracing::error!(id = row.id, reason = row.reason, "an open message can't be read, and stays as it is");
            }
            for memory in page.memories {
                let is_last = self.is_last_begin(&memory);
                let at_once = if is_last { 1 } else { AT_ONCE };
                while runs.len() >= at_once {
                    ended.extend(runs.join_next().await.and_then(|run| run.ok()));
                }
                let (id, left) = (memory.id, self.in_time(self.take(&memory)).await?);
                if let Some(run) = left.map(|left| self.go_on(left, None, Tap::default())) {
                    runs.spawn(async move { Recovered { message: id, end: run.await } });
                }
                while is_last && !runs.is_empty() {
                    ended.extend(runs.join_next().await.and_then(|run| run.ok()));
                }
            }
            cursor = page.next;
            if cursor.is_none() {
                return Ok(());
            }
        }
    }

    /// Whether the next attempt is the last one of a message. The message may have crashed the processes that tried it before.
    fn is_last_begin(&self, memory: &Memory) -> bool {
        Claim::read(memory).is_ok_and(|claim| claim.runs().saturating_add(1) >= self.limits.runs)
    }

    /// Claims an open message; `None` if somebody else has claimed or ended it.
    pub(super) async fn take(&self, memory: &Memory) -> Result<Option<Left>> {
        let entered = self.door.enter()?;
        if !self.leases.is_free(memory) {
            return Ok(None);
        }
        let open = match self.composer.services().records().messages().open(memory) {
            Ok(open) => open,
            Err(error) => {
                tracing::error!(id = %memory.id, %error, "an open message can't be read, and stays as it is");
                return Ok(None);
            }
        };
        let claim = self.leases.claim(Claim::read(memory)?.runs().saturating_add(1));
        let lease = self.leases.take(memory, claim).await?;
        Ok(lease.map(|lease| Left { open, lease, entered }))
    }

    /// Continues the run of a message. The author, if given, is stored unless it exists. The call itself enters the message into its room's
    /// queue, at its time; the future does the work.
    pub(super) fn go_on(
        self: &Arc<Self>,
        left: Left,
        author: Option<Entity>,
        tap: Tap,
    ) -> impl Future<Output = End> + Send + use<> {
        let (service, Left { open, lease, entered }) = (Arc::clone(self), left);
        let (content, id) = (&open.message.content, open.run.unwrap_or_else(MemoryId::generate));
        let ticket = self.queues.enter_again(&content.room, open.message.created_at);
        let run = Run::go_on(&self.events, id, content.room.clone(), content.author.clone()).with_tap(tap);
        let task = Task { journal: Journal::new(lease, &open), open, author, is_left: true };
        async move {
            let end = run.drive(async |run| Ok(Box::pin(service.work(run, ticket, task)).await)).await;
            drop(entered);
            end
        }
    }
}
