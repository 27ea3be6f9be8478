//! Connections: the collections of a namespace, sessions, and transactions.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::TryStreamExt;

use memory_core::engine::Retry;
use memory_core::{Error, ErrorKind, MemoryId, Outcome, Result};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{RawDocumentBuf, doc};
use mongodb::error::{TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT};
use mongodb::event::EventHandler;
use mongodb::event::sdam::SdamEvent;
use mongodb::options::{
    CollectionOptions, DatabaseOptions, ReadConcern, ReadPreference, SelectionCriteria, TransactionOptions,
};
use mongodb::{Client, ClientSession, Collection, Database};
use tokio::sync::Mutex;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::config::{MongoConfig, program};
use crate::election::Elections;
use crate::error::{WRITE_CONFLICT, code, is_ended, is_temporary, native};
use crate::statements::abandoned;

/// The pause before a commit or the lock is asked for again.
pub(crate) const PAUSE: Duration = Duration::from_millis(20);
/// The longest time for a set-up, or for a write to be confirmed, however long calls may take.
pub(crate) const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// After this time a write is held up, perhaps by a transaction whose program is gone.
const HELD_UP: Duration = Duration::from_millis(500);
/// How much time lies between two searches for such transactions while they find some. Each that finds none doubles it,
const BETWEEN: Duration = Duration::from_millis(200);
/// up to this: a server that is merely slow is not asked again and again, and a dead program still holds nobody up for five seconds.
const BETWEEN_AT_MOST: Duration = Duration::from_millis(3_200);
/// How long the server may take for such a search, and for ending what it finds.
const SEARCH: Duration = Duration::from_secs(1);

/// The collections of a namespace, as an open provider has them.
#[derive(Debug)]
pub(crate) struct Connections {
    client: Client,
    pub(crate) database: Database,
    elections: Arc<Elections>,
    reads_from_primary: bool,
    /// What a majority has, from where the URL says.
    pub(crate) configured: Arc<Collections>,
    /// What a majority has, from the primary.
    pub(crate) latest: Arc<Collections>,
    /// What the primary has at this moment, and all writes.
    pub(crate) primary: Arc<Collections>,
    /// What is under way, also when nobody waits for it any more.
    running: TaskTracker,
    /// Locked by a search for transactions whose programs are gone.
    searches: Arc<Mutex<Searches>>,
    /// The database of the server itself, and what marks the connections of programs on this namespace there.
    admin: Database,
    program: String,
    /// Locked while the places of documents are being indexed: each attempt holds a connection to its end.
    pub(crate) indexing: Arc<Mutex<()>>,
    /// Who has the lock while these connections migrate: the same in each attempt, so that the next one has what one left locked.
    pub(crate) owner: String,
    deadline: Duration,
}

#[derive(Debug)]
pub(crate) struct Collections {
    pub(crate) memories: Rows,
    /// From the idempotency key to the id of the memory, and the marks of the keys.
    pub(crate) keys: Rows,
    pub(crate) documents: Rows,
    /// What writes have left of the versions before.
    pub(crate) history: Rows,
    /// What stays of records that were erased.
    pub(crate) tombstones: Rows,
    /// Which migrations were applied, and the lock of who migrates.
    pub(crate) bookkeeping: Rows,
}

/// When it may be searched again for transactions whose programs are gone, and how long to pause after that if none is found.
#[derive(Debug)]
struct Searches {
    next: Instant,
    pause: Duration,
}

/// A collection whose rows stay as the server sends them until they are read.
pub(crate) type Rows = Collection<RawDocumentBuf>;

/// What one piece of work uses: the connections, the collections that it reads from, and when it has to end.
#[derive(Debug)]
pub struct MongoSession {
    pub(crate) on: Arc<Connections>,
    pub(crate) reads: Arc<Collections>,
    until: Instant,
}

impl Connections {
    /// Connects, which is done when the first command is sent.
    pub(crate) async fn new(config: &MongoConfig) -> Result<Self> {
        let mut options = config.client_options().await?;
        let read_from = options.selection_criteria.clone().unwrap_or(primary());
        let elections = Arc::new(Elections::default());
        let seen = Arc::clone(&elections);
        options.sdam_event_handler = Some(EventHandler::callback(move |event| {
            if let SdamEvent::ServerHeartbeatSucceeded(heartbeat) = event {
                seen.see(&heartbeat.reply);
            }
        }));
        let client = Client::with_options(options).map_err(native)?;
        let database = DatabaseOptions::builder().selection_criteria(primary()).build();
        let database = client.database_with_options(&config.namespace, database);
        let admin = DatabaseOptions::builder().selection_criteria(primary()).read_concern(ReadConcern::local()).build();
        let majority = |from| CollectionOptions::builder().selection_criteria(from).build();
        let local = CollectionOptions::builder().selection_criteria(primary()).read_concern(ReadConcern::local());
        Ok(Self {
            reads_from_primary: read_from == primary(),
            elections,
            configured: Collections::new(&database, &majority(read_from)),
            latest: Collections::new(&database, &majority(primary())),
            primary: Collections::new(&database, &local.build()),
            searches: Arc::new(Mutex::new(Searches { next: Instant::now(), pause: BETWEEN })),
            admin: client.database_with_options("admin", admin),
            program: program(&config.namespace),
            client,
            database,
            running: TaskTracker::new(),
            indexing: Arc::default(),
            owner: MemoryId::generate().to_string(),
            deadline: config.deadline,
        })
    }

    /// Runs work in a task of its own, so that it comes to its end also when nobody waits any more: a future of the driver that is dropped
    /// takes its connection with it, and a write would end between two steps.
    pub(crate) async fn run<T>(&self, work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T>
    where
        T: Send + 'static,
    {
        self.spawn(work).await.unwrap_or_else(|panic| Err(ended_early(panic)))
    }

    /// Begins work in a task of its own, for which a shutdown waits.
    pub(crate) fn spawn<T>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T>
    where
        T: Send + 'static,
    {
        self.running.spawn(work)
    }

    /// Runs a read where it is waited for: what it does with what it has read may keep its thread busy for long (L8).
    pub(crate) async fn run_read<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.running.track_future(work).await
    }

    /// Waits until the primary that a session reads from knows what a majority has. Gives its election, which a read compares with the last
    /// one at its end; `None` where it reads from elsewhere.
    pub(crate) async fn election(&self, session: &MongoSession) -> Result<Option<ObjectId>> {
        if Arc::ptr_eq(&session.reads, &self.configured) && !self.reads_from_primary {
            return Ok(None);
        }
        loop {
            if let Some(election) = self.elections.over() {
                return Ok(Some(election));
            }
            let hello = doc! { "hello": 1, "maxTimeMS": session.left()?.as_millis() as i64 };
            self.elections.see(&self.admin.run_command(hello).await.map_err(native)?);
            if self.elections.over().is_none() {
                session.pause(PAUSE).await?;
            }
        }
    }

    /// Whether there was none since.
    pub(crate) fn is_last(&self, election: Option<ObjectId>) -> bool {
        election.is_none() || election == self.elections.over()
    }

    /// Runs a write as [`Self::run`] does. While it is held up, and when it has given way to a transaction, those are ended whose programs
    /// are gone.
    pub(crate) async fn run_write<T>(&self, work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T>
    where
        T: Send + 'static,
    {
        let mut work = pin!(self.run(work));
        let written = loop {
            match timeout(HELD_UP, &mut work).await {
                Ok(written) => break written,
                Err(_) => self.end_abandoned(),
            }
        };
        if written.as_ref().is_err_and(|error| code(error) == Some(WRITE_CONFLICT)) {
            self.end_abandoned();
        }
        written
    }

    /// Begins to end the transactions whose programs are gone, unless that was just done: the server would keep what they hold for a minute.
    fn end_abandoned(&self) {
        let Ok(mut searches) = Arc::clone(&self.searches).try_lock_owned() else { return };
        if Instant::now() < searches.next {
            return;
        }
        // What was looked for long ago tells nothing of now.
        if searches.next.elapsed() > BETWEEN_AT_MOST {
            searches.pause = BETWEEN;
        }
        let (admin, program) = (self.admin.clone(), self.program.clone());
        self.running.spawn(async move {
            let end = async {
                let mut found = admin.aggregate(abandoned(&program)).max_time(SEARCH).await?;
                let found = found.try_next().await?;
                if let Some(found) = &found {
                    let sessions = found.get("sessions");
                    admin
                        .run_command(doc! { "killSessions": sessions, "maxTimeMS": SEARCH.as_millis() as i64 })
                        .await?;
                }
                Ok::<_, mongodb::error::Error>(found.is_some())
            };
            // Where that fails, the server ends them in time.
            if end.await.unwrap_or(false) {
                searches.pause = BETWEEN;
            }
            searches.next = Instant::now() + searches.pause;
            searches.pause = (searches.pause * 2).min(BETWEEN_AT_MOST);
        });
    }

    /// A session on the primary for what is no call of a user: set-up, migrations and health.
    pub(crate) fn session(self: &Arc<Self>) -> MongoSession {
        MongoSession::new(self, &self.primary, self.until())
    }

    /// When work that begins now has to end.
    pub(crate) fn until(&self) -> Instant {
        Instant::now() + self.deadline.min(LONGEST)
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
    fn new(database: &Database, options: &CollectionOptions) -> Arc<Self> {
        let collection = |name: &str| database.collection_with_options(name, options.clone());
        Arc::new(Self {
            memories: collection("memories"),
            keys: collection("idempotency_keys"),
            documents: collection("documents"),
            history: collection("history"),
            tombstones: collection("tombstones"),
            bookkeeping: collection("schema_migrations"),
        })
    }
}

fn primary() -> SelectionCriteria {
    SelectionCriteria::ReadPreference(ReadPreference::Primary)
}

impl MongoSession {
    pub(crate) fn new(on: &Arc<Connections>, reads: &Arc<Collections>, until: Instant) -> Self {
        Self { on: Arc::clone(on), reads: Arc::clone(reads), until }
    }

    /// Runs work that can be done twice and has its effect once, until it meets no temporary failure.
    pub(crate) async fn retry<T, F: Future<Output = Result<T>>>(&self, work: impl Fn() -> F) -> Result<T> {
        Retry::until(self.until).repeatable().run(is_temporary, |_| work()).await
    }

    /// How much time is left, for the server to keep to: it ends by itself what takes longer. `Timeout` when nobody waits any more.
    pub(crate) fn left(&self) -> Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now()).min(LONGEST);
        // The server counts milliseconds, of which none would be no limit.
        if left < Duration::from_millis(1) {
            return Err(Error::new(ErrorKind::Timeout, "the call was not over at its deadline").retryable());
        }
        Ok(left)
    }

    /// Waits before something is tried again, unless nobody waits for it any more.
    pub(crate) async fn pause(&self, pause: Duration) -> Result<()> {
        tokio::time::sleep(pause.min(self.left()?)).await;
        self.left().map(drop)
    }

    /// Begins a transaction. It is given up when the driver's session is dropped.
    pub(crate) async fn begin(&self) -> Result<ClientSession> {
        let mut transaction = self.on.client.start_session().await.map_err(native)?;
        let options = TransactionOptions::builder().read_concern(ReadConcern::snapshot()).selection_criteria(primary());
        // The write concern is that of the client.
        let options = options.max_commit_time(self.left()?).build();
        transaction.start_transaction().with_options(options).await.map_err(native)?;
        Ok(transaction)
    }

    /// Asks again while it is not known whether that was done. The driver itself asks twice and tells of the second answer, so that only
    /// one shows that nothing was done: that the server has given up the transaction.
    async fn commit(&self, mut transaction: ClientSession) -> Result<()> {
        loop {
            match transaction.commit_transaction().await {
                Ok(()) => return Ok(()),
                Err(error) if error.contains_label(TRANSIENT_TRANSACTION_ERROR) => return Err(native(error)),
                // Another program may have taken it for one that nobody goes on with, before or behind its commit.
                Err(error)
                    if !error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) && !is_ended(&error)
                        || Instant::now() + PAUSE >= self.until =>
                {
                    return Err(native(error).with_outcome(Outcome::Unknown));
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Commits a transaction that is done while somebody waits for it. Gives up any other, at once: the failure of that says nothing, since
    /// the server ends what nobody goes on with.
    pub(crate) async fn end(&self, mut transaction: ClientSession, is_done: Result<bool>) -> Result<bool> {
        let is_done = is_done.and_then(|is_done| self.left().map(|_| is_done));
        if let Ok(true) = is_done {
            return self.commit(transaction).await.map(|()| true);
        }
        let _ = transaction.abort_transaction().await;
        is_done.map_err(|error| error.with_outcome(Outcome::NotDone))
    }
}

pub(crate) fn ended_early(panic: JoinError) -> Error {
    Error::new(ErrorKind::Unexpected, "a task of the provider ended early").with_source(panic)
}
