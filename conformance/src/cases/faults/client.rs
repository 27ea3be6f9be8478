//! A client that keeps a journal of its calls and of their answers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use memory_core::{MemoryProvider, Result};
use tokio::task::{JoinError, JoinHandle};

use super::attempt::{Attempt, CALLS};

/// The size of a restore, in records.
const RECORDS: usize = 5;

/// Makes writes of every kind, each with unique names.
#[derive(Debug)]
pub(super) struct Client {
    name: String,
    /// How many calls were prepared.
    count: usize,
    /// The next calls.
    prepared: VecDeque<Attempt>,
    journal: Vec<Attempt>,
}

impl Client {
    /// A client with one prepared call of each kind.
    pub(super) async fn new(name: &str, provider: &dyn MemoryProvider) -> Result<Self> {
        let (prepared, journal) = Default::default();
        let mut client = Self { name: name.to_owned(), count: 0, prepared, journal };
        for _ in CALLS {
            let attempt = client.prepare(provider).await?;
            client.prepared.push_back(attempt);
        }
        Ok(client)
    }

    /// How many calls it has made.
    pub(super) fn calls(&self) -> usize {
        self.journal.len()
    }

    /// How many calls were acknowledged.
    pub(super) fn acknowledged(&self) -> usize {
        self.journal.iter().filter(|attempt| attempt.is_done()).count()
    }

    /// Makes the next call, and notes the answer. A call that can't be prepared is skipped.
    pub(super) async fn call(&mut self, provider: &dyn MemoryProvider) {
        let next = match self.prepared.pop_front() {
            Some(attempt) => Ok(attempt),
            None => self.prepare(provider).await,
        };
        if let Ok(mut attempt) = next {
            attempt.make(provider).await;
            self.journal.push(attempt);
        }
    }

    /// How the ledger contradicts the journal, read through a working provider.
    pub(super) async fn mistakes(&self, provider: &dyn MemoryProvider) -> Result<Vec<String>> {
        let mut mistakes = Vec::new();
        for attempt in &self.journal {
            mistakes.extend(attempt.mistake(provider).await?);
            if attempt.can_be_repeated() {
                mistakes.extend(attempt.mistake_repeated(provider).await?);
            }
        }
        Ok(mistakes)
    }

    async fn prepare(&mut self, provider: &dyn MemoryProvider) -> Result<Attempt> {
        let (call, name) = (CALLS[self.count % CALLS.len()], format!("{}-{}", self.name, self.count));
        self.count += 1;
        Attempt::prepare(call, name, RECORDS, provider).await
    }
}

/// Clients that write until they are stopped.
pub(super) struct Load {
    tasks: Vec<JoinHandle<Client>>,
    calls: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
}

impl Load {
    pub(super) fn start(clients: Vec<Client>, provider: &Arc<dyn MemoryProvider>) -> Self {
        let (calls, is_over) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let task = |mut client: Client| {
            let (provider, calls, is_over) = (Arc::clone(provider), Arc::clone(&calls), Arc::clone(&is_over));
            tokio::spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    client.call(&*provider).await;
                    calls.fetch_add(1, Ordering::Relaxed);
                }
                client
            })
        };
        Self { tasks: clients.into_iter().map(task).collect(), calls, is_over }
    }

    /// Returns when the clients have made this many further calls.
    pub(super) async fn makes(&self, calls: usize) {
        let end = self.calls.load(Ordering::Relaxed) + calls;
        while self.calls.load(Ordering::Relaxed) < end {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Stops the clients, each after its present call, and returns them.
    pub(super) async fn stop(self) -> Result<Vec<Client>, JoinError> {
        self.is_over.store(true, Ordering::Relaxed);
        futures::future::try_join_all(self.tasks).await
    }
}
