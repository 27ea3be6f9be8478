//! A client that keeps a journal of what it asked for and what it was told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use memory_core::{
    Error, ErrorKind, Expect, MemoryId, MemoryPatch, MemoryProvider, NewMemory, Outcome, Result, Revision,
};
use tokio::task::{JoinError, JoinHandle};

use super::in_good_time;
use crate::fixture::{collection, document_id, key, metadata, new_document, new_memory, the, walk};

/// How many memories a batch has.
const BATCH: usize = 5;
/// The collection that the documents go to.
const COLLECTION: &str = "faults";

/// Writes in all ways that there are, each time under a name of its own.
#[derive(Debug)]
pub(super) struct Client {
    name: String,
    /// What all its updates change.
    memory: MemoryId,
    /// Which of the ways to write comes first.
    first: usize,
    journal: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    what: What,
    name: String,
    told: Told,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Store,
    StoreWithKey,
    Batch,
    Update,
    Put,
}

/// The ways in which a client writes, in turn.
const TURNS: [What; 5] = [What::Store, What::StoreWithKey, What::Batch, What::Update, What::Put];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Done,
    NotDone,
    Unknown,
    /// An error that trouble with the server does not explain.
    Wrong(ErrorKind),
}

impl Client {
    /// A client with a memory to update, which it stores.
    pub(super) async fn new(name: &str, provider: &dyn MemoryProvider) -> Result<Self> {
        let memory = provider.store(new_memory(&format!("{name}-updated"), 1)).await?;
        Ok(Self { name: name.to_owned(), memory, first: 0, journal: Vec::new() })
    }

    /// Leaves out some of its first calls.
    pub(super) fn skip(&mut self, calls: usize) {
        self.first += calls;
    }

    /// How many calls it made.
    pub(super) fn calls(&self) -> usize {
        self.journal.len()
    }

    /// How many of them were acknowledged.
    pub(super) fn acknowledged(&self) -> usize {
        self.journal.iter().filter(|entry| entry.told == Told::Done).count()
    }

    /// Makes the next call, and notes what it is told.
    pub(super) async fn call(&mut self, provider: &dyn MemoryProvider) {
        let (what, name) =
            (TURNS[(self.first + self.calls()) % TURNS.len()], format!("{}-{}", self.name, self.calls()));
        let result = match what {
            What::Store => provider.store(new_memory(&name, 1)).await.map(drop),
            What::StoreWithKey => provider.store(with_key(&name)).await.map(drop),
            What::Batch => provider.store_many(vec![new_memory(&name, 1); BATCH]).await.map(drop),
            What::Update => {
                let patch = MemoryPatch::new().merge_metadata(metadata(&format!(r#"{{"{name}":1}}"#)));
                provider.update(self.memory, patch).await.map(drop)
            }
            What::Put => {
                let write = new_document(COLLECTION, &name, &name, "text").expect(Expect::Absent);
                provider.documents().put(write).await.map(drop)
            }
        };
        self.journal.push(Entry { what, name, told: told(result) });
    }

    /// What is not as the journal has it, given a provider that works: an acknowledged write that is not there, one that is
    /// there twice or in half, or one that is there though it was said not to be.
    pub(super) async fn mistakes(&self, provider: &dyn MemoryProvider) -> Result<Vec<String>> {
        let mut mistakes = Vec::new();
        let updated = the(provider, self.memory).await?;
        let patched = updated.metadata.to_object();
        for Entry { what, name, told } in &self.journal {
            let (found, whole) = match what {
                What::Update => (usize::from(patched.contains_key(name)), 1),
                What::Put => {
                    let document = provider.documents().get(&collection(COLLECTION), &document_id(name)).await?;
                    (usize::from(document.is_some_and(|document| document.revision == Revision::FIRST)), 1)
                }
                What::Store | What::StoreWithKey => (walk(provider, |query| query.exact(name)).await?.len(), 1),
                What::Batch => (walk(provider, |query| query.exact(name)).await?.len(), BATCH),
            };
            let fits = match told {
                Told::Done => found == whole,
                Told::NotDone => found == 0,
                Told::Unknown => found == 0 || found == whole,
                Told::Wrong(_) => false,
            };
            if !fits {
                mistakes.push(format!("{what:?} {name}: told {told:?}, and {found} of {whole} are there"));
            }
            // Whatever became of it, to repeat it with its key makes one of it.
            if *what == What::StoreWithKey {
                in_good_time(|| async { provider.store(with_key(name)).await.map(drop) }).await?;
                let found = walk(provider, |query| query.exact(name)).await?.len();
                if found != 1 {
                    mistakes.push(format!("{name}: {found} memories of one key"));
                }
            }
        }
        let revision = patched.len() as u64 + 1;
        if updated.revision.get() != revision {
            mistakes.push(format!("{} updates make the revision {}", patched.len(), updated.revision));
        }
        Ok(mistakes)
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

fn with_key(name: &str) -> NewMemory {
    new_memory(name, 1).with_idempotency_key(key(name))
}

fn told(result: Result<()>) -> Told {
    let Err(error) = result else { return Told::Done };
    match (error.kind(), error.outcome()) {
        (ErrorKind::Unavailable | ErrorKind::Timeout, Outcome::NotDone) => Told::NotDone,
        (ErrorKind::Unavailable | ErrorKind::Timeout, Outcome::Unknown) => Told::Unknown,
        (kind, _) => Told::Wrong(kind),
    }
}

/// Whether an error is what a call gets while its server can't be reached.
pub(super) fn is_trouble(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout)
}
