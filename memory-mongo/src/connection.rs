//! Connections: the collections of a namespace, transactions, and what is tried again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use memory_core::{Error, ErrorKind, Group, Outcome, Result};
use mongodb::bson::{RawDocumentBuf, doc};
use mongodb::error::UNKNOWN_TRANSACTION_COMMIT_RESULT;
use mongodb::options::{
    CollectionOptions, DatabaseOptions, ReadConcern, ReadPreference, SelectionCriteria, TransactionOptions,
};
use mongodb::{Client, ClientSession, Collection, Database};
use tokio_util::task::TaskTracker;

use crate::config::MongoConfig;
use crate::error::{is_passing, native, native_write};
use crate::writing::GROUP;

/// The refusal of a server that is no member of a replica set, with the way out.
const STANDALONE: &str = "the server is standalone, so it has no transactions: restart it with `mongod --replSet rs0` and run \
                          `mongosh --eval 'rs.initiate()'` once, which make it a replica set of one node";
/// How long to wait before the next attempt; twice as long each time, up to the second.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(200));

/// The collections of a namespace, as an open provider has them.
#[derive(Debug)]
pub(crate) struct Connections {
    client: Client,
    /// For commands to the primary.
    pub(crate) database: Database,
    /// What a majority has, from where the URL says: the primary, unless it says otherwise.
    pub(crate) reads: Collections,
    /// What the primary has at this moment, and all writes.
    pub(crate) primary: Collections,
    /// Whether the words of the ledger are indexed, as far as this provider has heard. Never goes back.
    pub(crate) has_ledger_text: AtomicBool,
    /// Stores that travel together.
    pub(crate) group: Group,
    /// What is under way, also when nobody waits for it any more.
    pub(crate) running: TaskTracker,
    deadline: Duration,
}

/// Each collection of a namespace.
#[derive(Debug)]
pub(crate) struct Collections {
    pub(crate) memories: Collection<RawDocumentBuf>,
    /// From the idempotency key to the id of the memory.
    pub(crate) keys: Collection<RawDocumentBuf>,
    pub(crate) documents: Collection<RawDocumentBuf>,
}

impl Connections {
    /// Connects, which is done when the first command is sent.
    pub(crate) async fn new(config: &MongoConfig) -> Result<Self> {
        let options = config.client_options().await?;
        let read_from = options.selection_criteria.clone().unwrap_or(primary());
        let client = Client::with_options(options).map_err(native)?;
        let database = DatabaseOptions::builder().selection_criteria(primary()).build();
        let database = client.database_with_options(&config.namespace, database);
        let majority = CollectionOptions::builder().selection_criteria(read_from).build();
        let local = CollectionOptions::builder().selection_criteria(primary()).read_concern(ReadConcern::local());
        Ok(Self {
            reads: Collections::new(&database, &majority),
            primary: Collections::new(&database, &local.build()),
            client,
            database,
            has_ledger_text: AtomicBool::new(false),
            group: Group::new(GROUP.0, GROUP.1),
            running: TaskTracker::new(),
            deadline: config.deadline,
        })
    }

    /// A call from now on.
    pub(crate) fn call(self: &Arc<Self>) -> Call {
        Call { on: Arc::clone(self), end: Instant::now() + self.deadline }
    }

    /// Ends the connections. What is still under way may come to its end before: of a transaction that is cut off, the server
    /// would keep the locks for a minute.
    pub(crate) async fn close(&self) {
        self.running.close();
        let _ = tokio::time::timeout(self.deadline / 2, self.running.wait()).await;
        self.client.clone().shutdown().immediate(true).await;
    }
}

impl Collections {
    fn new(database: &Database, options: &CollectionOptions) -> Self {
        let collection = |name: &str| database.collection_with_options(name, options.clone());
        Self {
            memories: collection("memories"),
            keys: collection("idempotency_keys"),
            documents: collection("documents"),
        }
    }
}

fn primary() -> SelectionCriteria {
    SelectionCriteria::ReadPreference(ReadPreference::Primary)
}

/// One call of the contract: what it works with, and when it has to end.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) on: Arc<Connections>,
    end: Instant,
}

impl Call {
    /// Runs the call in a task of its own: a future of the driver that is dropped can leave its connection in the middle of
    /// an answer, so it comes to its end also when nobody waits any more.
    pub(crate) async fn run<T, F>(&self, work: impl FnOnce(Self) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let ended = self.on.running.spawn(work(self.clone())).await;
        ended.unwrap_or_else(|panic| {
            Err(Error::new(ErrorKind::Unexpected, "a task of the provider ended early").with_source(panic))
        })
    }

    /// Does the work again while what prevented it is passing and nothing of it can have been done (W11).
    pub(crate) async fn retry<T, F: Future<Output = Result<T>>>(&self, work: impl Fn() -> F) -> Result<T> {
        self.repeat(work, |error| error.outcome() == Outcome::NotDone && is_passing(error)).await
    }

    /// As [`Call::retry`], for work that can be done twice and has its effect once.
    pub(crate) async fn retry_repeatable<T, F: Future<Output = Result<T>>>(&self, work: impl Fn() -> F) -> Result<T> {
        self.repeat(work, is_passing).await
    }

    async fn repeat<T, F: Future<Output = Result<T>>>(
        &self,
        work: impl Fn() -> F,
        is_worth_it: impl Fn(&Error) -> bool,
    ) -> Result<T> {
        let (mut pause, mut earlier) = (PAUSE.0, Outcome::NotDone);
        loop {
            let attempt = async {
                self.check_deadline()?;
                work().await
            };
            // Boxed, since futures of the driver are large.
            match Box::pin(attempt).await.map_err(|error| error.after(earlier)) {
                Err(error) if is_worth_it(&error) && Instant::now() + pause < self.end => {
                    earlier = error.outcome();
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE.1);
                }
                result => return result,
            }
        }
    }

    /// Ends a call that nobody waits for any more.
    pub(crate) fn check_deadline(&self) -> Result<()> {
        if Instant::now() < self.end {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Timeout, "the call was not over at its deadline").retryable())
    }

    /// Begins a transaction. It is given up when the session is dropped.
    pub(crate) async fn begin(&self) -> Result<ClientSession> {
        let mut session = self.on.client.start_session().await.map_err(native)?;
        let options =
            TransactionOptions::builder().read_concern(ReadConcern::snapshot()).selection_criteria(primary()).build();
        // The write concern is that of the client.
        session.start_transaction().with_options(options).await.map_err(native)?;
        Ok(session)
    }

    /// Completes a transaction; asks again while it is not known whether that was done.
    pub(crate) async fn commit(&self, mut session: ClientSession) -> Result<()> {
        let mut pause = PAUSE.0;
        loop {
            match session.commit_transaction().await {
                Err(error)
                    if error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) && Instant::now() + pause < self.end =>
                {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE.1);
                }
                Err(error) if error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) => {
                    return Err(native_write(error).with_outcome(Outcome::Unknown));
                }
                Err(error) => return Err(native(error)),
                Ok(()) => return Ok(()),
            }
        }
    }

    /// Gives a transaction up, at once. The failure to do so says nothing: the server ends what nobody goes on with.
    pub(crate) async fn roll_back(&self, mut session: ClientSession) {
        let _ = session.abort_transaction().await;
    }

    /// Refuses a server that has no transactions.
    pub(crate) async fn check_topology(&self) -> Result<()> {
        let answer = self.on.database.run_command(doc! { "hello": 1 }).await.map_err(native)?;
        let is_router = answer.get_str("msg").is_ok_and(|message| message == "isdbgrid");
        if is_router || answer.contains_key("setName") {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Unsupported, STANDALONE))
    }

    pub(crate) fn has_ledger_text(&self) -> bool {
        self.on.has_ledger_text.load(Ordering::Relaxed)
    }
}
