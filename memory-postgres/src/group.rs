//! Stores that wait at the same time travel together, so that they share a statement and a flush.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use memory_core::{Memory, MemoryId, Outcome, Result};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;

use crate::connection::Connections;

/// How many groups are under way at the same time: the next gathers while these are flushed.
const LANES: usize = 2;
/// How many memories, and about how many bytes, a group has at most.
const GROUP: (usize, usize) = (256, 4 << 20);

/// The stores of one provider.
#[derive(Debug)]
pub(crate) struct Group {
    lanes: Arc<Semaphore>,
    waiting: Mutex<VecDeque<Call>>,
    /// How long a group may take.
    deadline: Duration,
}

#[derive(Debug)]
struct Call {
    memory: Memory,
    /// What became of it, or what the failure of its group has left.
    reply: oneshot::Sender<Result<Result<MemoryId>, Outcome>>,
}

impl Group {
    pub(crate) fn new(deadline: Duration) -> Self {
        Self { lanes: Arc::new(Semaphore::new(LANES)), waiting: Mutex::default(), deadline }
    }

    /// Stores a memory: at once while a lane is free, else with the others that wait for one.
    pub(crate) async fn store(connections: &Arc<Connections>, memory: Memory) -> Result<MemoryId> {
        let group = &connections.group;
        if let Ok(_lane) = group.lanes.try_acquire() {
            return alone(connections, &memory).await;
        }
        let (reply, mut answer) = oneshot::channel();
        group.waiting().push_back(Call { memory: memory.clone(), reply });
        let answered = tokio::select! {
            answer = &mut answer => answer,
            lane = Arc::clone(&group.lanes).acquire_owned() => {
                let calls = group.next();
                if !calls.is_empty() {
                    // In a task of its own: others depend on it, and this call may be dropped.
                    tokio::spawn(lead(Arc::clone(connections), calls, lane));
                }
                answer.await
            }
        };
        match answered.unwrap_or(Err(Outcome::Unknown)) {
            Ok(answer) => answer,
            // Nobody fails because of another. Its own id makes sure that it is stored once (W11).
            Err(outcome) => alone(connections, &memory).await.map_err(|error| error.after(outcome)),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Call>> {
        // Nothing panics while it is held.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next calls that somebody still waits for.
    fn next(&self) -> Vec<Call> {
        let (mut waiting, mut calls, mut bytes) = (self.waiting(), Vec::new(), 0);
        while calls.len() < GROUP.0 && bytes < GROUP.1 {
            match waiting.pop_front() {
                Some(call) if call.reply.is_closed() => {}
                Some(call) => {
                    bytes += call.memory.size();
                    calls.push(call);
                }
                None => break,
            }
        }
        calls
    }
}

async fn alone(connections: &Connections, memory: &Memory) -> Result<MemoryId> {
    Ok(connections.store_all(&[memory]).await?.remove(0))
}

/// Stores a group. What is not answered in time has an unknown outcome.
async fn lead(connections: Arc<Connections>, calls: Vec<Call>, _lane: Result<OwnedSemaphorePermit, AcquireError>) {
    let memories: Vec<_> = calls.iter().map(|call| &call.memory).collect();
    let stored = timeout(connections.group.deadline, connections.store_group(&memories)).await;
    match stored {
        Ok(Ok(stored)) => calls.into_iter().zip(stored).for_each(|(call, stored)| drop(call.reply.send(Ok(stored)))),
        Ok(Err(error)) => calls.into_iter().for_each(|call| drop(call.reply.send(Err(error.outcome())))),
        Err(_) => {}
    }
}
