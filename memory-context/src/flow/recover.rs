//! Taking up the messages that nobody works on any more.

use std::sync::Arc;

use memory_core::{Memory, MemoryId, Result};
use memory_runtime::{Claim, Lease};
use tokio::task::JoinSet;

use super::door::Entered;
use super::way::Task;
use super::{End, Journal, MessageService, Tap};
use crate::records::{OpenMessage, RoomId};

/// What became of a message that was taken up again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// The message.
    pub message: MemoryId,
    /// How its run ended.
    pub end: End,
}

/// A message that somebody left open, and that this service holds now.
#[derive(Debug)]
pub(super) struct Left {
    open: OpenMessage,
    lease: Arc<Lease>,
    /// From before it was taken, so that a shutdown waits until it is given back.
    entered: Entered,
}

/// How many messages are taken up at once.
const AT_ONCE: usize = 64;

impl MessageService {
    /// Goes on with the messages of the agent that were stored and are not done with, and that nobody works on: those whose lease has
    /// run out, that were given back, or that an earlier run of this instance held. Ends when all of them are over.
    ///
    /// # Behavior
    /// - Of several services on one ledger one gets a message. Others that are received meanwhile go on as ever.
    /// - A run goes on behind what its message has of it. An answer that was decided on is said, under the id that it has; an action
    ///   whose result is kept is not done again, and one that may have been done is done again only where it may be repeated.
    /// - The messages of a room are taken up in the order of their times. One that was not decided on is superseded by a newer one of its
    ///   room that was answered meanwhile. Where that was answered because the agent follows the room, it supersedes only others of this kind.
    /// - A message that was begun as often as [`Limits`](super::Limits) say and never came to its end has failed. The last time it is
    ///   recovered alone, so that one that kills its process takes no others with it.
    /// - Costs what is open, not what the ledger holds. Call it after the start, and from time to time.
    /// - Dropping the future drops the runs, which leaves their messages open.
    pub async fn recover(self: &Arc<Self>) -> Result<Vec<Recovered>> {
        self.recover_from(None).await
    }

    /// The same for one room alone: for a service whose platform reaches no other.
    pub async fn recover_room(self: &Arc<Self>, room: &RoomId) -> Result<Vec<Recovered>> {
        self.recover_from(Some(room)).await
    }

    async fn recover_from(self: &Arc<Self>, room: Option<&RoomId>) -> Result<Vec<Recovered>> {
        let (mut runs, mut ended) = (JoinSet::new(), Vec::new());
        let looked = self.take_up(room, &mut runs, &mut ended).await;
        // Whatever the ledger answers, what was taken comes to its end.
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
                if let Some(run) = left.map(|left| self.go_on(left, Tap::default())) {
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

    /// Whether a message may be begun only once more: it may have killed the processes that had it, and others with it.
    fn is_last_begin(&self, memory: &Memory) -> bool {
        Claim::read(memory).is_ok_and(|claim| claim.runs().saturating_add(1) >= self.limits.runs)
    }

    /// Takes an open message that nobody works on; `None` where somebody does, or did.
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

    /// Goes on with a message. It stands at its time in its room from this call on.
    pub(super) fn go_on(self: &Arc<Self>, left: Left, tap: Tap) -> impl Future<Output = End> + Send + use<> {
        let (service, Left { open, lease, entered }) = (Arc::clone(self), left);
        let (content, id) = (&open.message.content, open.run.unwrap_or_else(MemoryId::generate));
        let ticket = self.queues.enter_again(&content.room, open.message.created_at);
        let run = self.events.go_on(id, content.room.clone(), content.author.clone()).with_tap(tap);
        let task = Task { journal: Journal::new(lease, &open), open, is_left: true };
        async move {
            let end = run.drive(async |run| Ok(Box::pin(service.work(run, ticket, task)).await)).await;
            drop(entered);
            end
        }
    }
}
