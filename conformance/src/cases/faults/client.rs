//! A client that keeps a journal of what it asked for and what it was told.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use memory_core::{MemoryProvider, Result};
use tokio::task::{JoinError, JoinHandle};

use super::attempt::{Attempt, CALLS};

/// How many records a restore has.
const RECORDS: usize = 5;

/// Writes in all ways that there are, each time under a name of its own.
#[derive(Debug)]
pub(super) struct Client {
    name: String,
    /// How many of its calls were prepared.
    count: usize,
    /// What it calls next.
    prepared: VecDeque<Attempt>,
    journal: Vec<Attempt>,
}

impl Client {
    /// A client whose first call in each way is prepared.
    pub(super) async fn new(name: &str, provider: &dyn MemoryProvider) -> Result<Self> {
        let (prepared, journal) = Default::default();
        let mut client = Self { name: name.to_owned(), count: 0, prepared, journal };
        for _ in CALLS {
            let attempt = client.prepare(provider).await?;
            client.prepared.push_back(attempt);
        }
        Ok(client)
    }

    /// How many calls it made.
    pub(super) fn calls(&self) -> usize {
        self.journal.len()
    }

    /// How many of them were acknowledged.
    pub(super) fn acknowledged(&self) -> usize {
        self.journal.iter().filter(|attempt| attempt.is_done()).count()
    }

    /// Makes the next call, and notes what it is told. One that can't be prepared is left out.
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

    /// What is not as the journal has it, given a provider that works.
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

/// Clients that write until they are told to stop.
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

    /// Returns when the clients have made so many calls more.
    pub(super) async fn makes(&self, calls: usize) {
        let end = self.calls.load(Ordering::Relaxed) + calls;
        while self.calls.load(Ordering::Relaxed) < end {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// The clients, each after its last call.
    pub(super) async fn stop(self) -> Result<Vec<Client>, JoinError> {
        self.is_over.store(true, Ordering::Relaxed);
        futures::future::try_join_all(self.tasks).await
    }
}
