//! Connections: the collections of a namespace, sessions, and transactions.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::TryStreamExt;

use memory_core::engine::Retry;
use memory_core::{Error, ErrorKind, MemoryId, Outcome, Result};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, RawDocumentBuf, doc};
use mongodb::error::{TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT};
use mongodb::event::EventHandler;
use mongodb::event::sdam::SdamEvent;
use mongodb::options::{
    Acknowledgment, CollectionOptions, DatabaseOptions, ReadConcern, ReadPreference, SelectionCriteria,
    TransactionOptions, WriteConcern,
};
use mongodb::{Client, ClientSession, Collection, Database};
use tokio::sync::Mutex;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::config::{LONGEST, MongoConfig, program};
use crate::election::Elections;
use crate::error::{WRITE_CONFLICT, code, is_ended, is_of_server, is_temporary, native, replaced};
use crate::statements::abandoned;

/// The pause before retrying a commit or the lock.
pub(crate) const PAUSE: Duration = Duration::from_millis(20);
/// After this time a write counts as held up, perhaps by a transaction whose program is gone.
const HELD_UP: Duration = Duration::from_millis(500);
/// The pause between two searches for such transactions while they find some.
const BETWEEN: Duration = Duration::from_millis(200);
/// The longest pause: each search that finds none doubles the pause, up to this. So a server that is merely slow isn't
/// searched constantly, and a dead program still blocks others for less than five seconds.
const BETWEEN_AT_MOST: Duration = Duration::from_millis(3_200);
/// How long the server may take for such a search, and for ending the transactions it finds.
const SEARCH: Duration = Duration::from_secs(1);

/// The collections of a namespace and the connections of an open provider.
#[derive(Debug)]
pub(crate) struct Connections {
    client: Client,
    pub(crate) database: Database,
    elections: Arc<Elections>,
    reads_from_primary: bool,
    /// Reads majority-committed data, from the members that the URL prefers.
    pub(crate) configured: Arc<Collections>,
    /// Reads majority-committed data from the primary.
    pub(crate) latest: Arc<Collections>,
    /// Reads the current data of the primary; also for all writes.
    pub(crate) primary: Arc<Collections>,
    /// The tasks that are running, including those that no caller waits for any more.
    running: TaskTracker,
    /// Locked by a search for transactions whose programs are gone.
    searches: Arc<Mutex<Searches>>,
    /// The server's `admin` database, and the name that marks the connections of programs on this namespace there.
    admin: Database,
    program: String,
    /// Locked while the indexes of a backfill are being built: each attempt holds a connection until it ends.
    pub(crate) indexing: Arc<Mutex<()>>,
    /// The owner of the lock while these connections migrate. It is the same in every attempt, so a later attempt owns
    /// the lock that an earlier one left.
    pub(crate) owner: String,
    deadline: Duration,
}

#[derive(Debug)]
pub(crate) struct Collections {
    pub(crate) memories: Rows,
    /// Maps each idempotency key to the id of its memory, and holds the mark of each key, which says whether the key is
    /// erased.
    pub(crate) keys: Rows,
    pub(crate) documents: Rows,
    /// The earlier versions of records.
    pub(crate) history: Rows,
    /// The tombstones of erased records.
    pub(crate) tombstones: Rows,
    /// The applied migrations, the lock of the migrating program, and settings.
    pub(crate) bookkeeping: Rows,
}

/// When the next search for transactions whose programs are gone may run, and the pause after it if it finds none.
#[derive(Debug)]
struct Searches {
    next: Instant,
    pause: Duration,
}

/// A collection whose rows stay as the server sent them until they are read.
pub(crate) type Rows = Collection<RawDocumentBuf>;

/// What one piece of work uses: the connections, the collections it reads from, and its deadline.
#[derive(Debug)]
pub struct MongoSession {
    pub(crate) on: Arc<Connections>,
    reads: Arc<Collections>,
    until: Instant,
    /// Whether it has read since its last confirmed write: a majority may lack what it has seen.
    is_ahead: AtomicBool,
    /// Whether it has written something, or may have.
    has_written: AtomicBool,
    /// The number of transactions that it has begun.
    begun: AtomicUsize,
    /// The last known election when it began.
    election: Option<ObjectId>,
}

impl Connections {
    /// Creates the client, which connects when the first command is sent.
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

    /// Runs work in a task of its own, so that it finishes even if its caller stops waiting: dropping a future of the
    /// driver costs its connection, and would end a write between two steps.
    pub(crate) async fn run<T>(&self, work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T>
    where
        T: Send + 'static,
    {
        self.spawn(work).await.unwrap_or_else(|panic| Err(ended_early(panic)))
    }

    /// Starts work in a task of its own, which a shutdown waits for.
    pub(crate) fn spawn<T>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T>
    where
        T: Send + 'static,
    {
        self.running.spawn(work)
    }

    /// Runs a read in the caller's task: processing what it reads may keep its thread busy for long (L8).
    pub(crate) async fn run_read<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.running.track_future(work).await
    }

    /// Waits until the primary that a session reads from knows what is majority-committed. Returns its election, to
    /// compare with the last one when the read ends; `None` if the session doesn't read from the primary.
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

    /// Whether no later election is known.
    pub(crate) fn is_last(&self, election: Option<ObjectId>) -> bool {
        election.is_none() || election == self.elections.over()
    }

    /// Runs a write as [`Self::run`] does. While the write is held up, or once it has yielded to a transaction,
    /// transactions whose programs are gone are ended.
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

    /// Starts to end the transactions whose programs are gone, unless a search ran just now. Otherwise the server would
    /// keep their locks for a minute.
    fn end_abandoned(&self) {
        let Ok(mut searches) = Arc::clone(&self.searches).try_lock_owned() else { return };
        if Instant::now() < searches.next {
            return;
        }
        // The result of an old search says nothing about now.
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
            // If this fails, the server ends them after its own timeout.
            if end.await.unwrap_or(false) {
                searches.pause = BETWEEN;
            }
            searches.next = Instant::now() + searches.pause;
            searches.pause = (searches.pause * 2).min(BETWEEN_AT_MOST);
        });
    }

    /// A session on the primary for work that is no user's call: set-up, migrations and health.
    pub(crate) fn session(self: &Arc<Self>) -> MongoSession {
        MongoSession::new(self, &self.primary, self.until())
    }

    /// The deadline of work that begins now.
    pub(crate) fn until(&self) -> Instant {
        Instant::now() + self.deadline.min(LONGEST)
    }

    /// Closes the connections. Running work may finish first: the server would keep the locks of a transaction that is
    /// cut off for a minute.
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
        let election = on.elections.last();
        let (is_ahead, has_written, begun) = Default::default();
        Self { on: Arc::clone(on), reads: Arc::clone(reads), until, is_ahead, has_written, begun, election }
    }

    /// The collections to read from.
    pub(crate) fn reads(&self) -> &Collections {
        self.is_ahead.store(true, Ordering::Relaxed);
        &self.reads
    }

    /// Notes that a write is being sent, which may be done from now on.
    pub(crate) fn sends_write(&self) {
        self.has_written.store(true, Ordering::Relaxed);
    }

    /// Notes that a majority has a write that is later than all that was read so far, or that no caller is told of what
    /// was read. A new primary may lack what was read from the one before it.
    pub(crate) fn caught_up(&self) {
        if self.check_election().is_ok() {
            self.is_ahead.store(false, Ordering::Relaxed);
        }
    }

    /// Returns the result of a call that writes, once a majority has what the result was decided from. Otherwise a
    /// refusal could be about a write that other reads don't show yet and that an election takes back. An error of the
    /// server is about no record, so it is returned at once.
    pub(crate) async fn settled<T>(&self, result: Result<T>) -> Result<T> {
        if !self.is_ahead.load(Ordering::Relaxed) || result.as_ref().is_err_and(is_of_server) {
            return result;
        }
        let outcome = match &result {
            Err(error) => error.outcome(),
            Ok(_) => Outcome::unknown_if(self.has_written.load(Ordering::Relaxed)),
        };
        self.settle().await.map_err(|error| error.with_outcome(outcome))?;
        result
    }

    /// Waits until a majority has all that the primary has now.
    async fn settle(&self) -> Result<()> {
        let concern = WriteConcern::builder().w(Acknowledgment::Majority).w_timeout(self.left()?).journal(true);
        // A deletion that finds nothing writes nothing, but the server confirms it only after all earlier writes.
        let nothing = self.on.primary.bookkeeping.delete_one(doc! { "_id": Bson::MinKey });
        nothing.write_concern(concern.build()).await.map_err(native)?;
        self.check_election()
    }

    /// Fails if the primary was replaced since the session began: a new one may lack what was read before.
    fn check_election(&self) -> Result<()> {
        if self.on.elections.last() == self.election { Ok(()) } else { Err(replaced()) }
    }

    /// Runs work that can safely be repeated, until it meets no temporary failure.
    pub(crate) async fn retry<T, F: Future<Output = Result<T>>>(&self, work: impl Fn() -> F) -> Result<T> {
        Retry::until(self.until).repeatable().run(is_temporary, |_| work()).await
    }

    /// How much time is left, as the limit for the server, which ends a command that takes longer. `Timeout` once the
    /// deadline is over.
    pub(crate) fn left(&self) -> Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now()).min(LONGEST);
        // The server counts milliseconds, and zero would mean no limit.
        if left < Duration::from_millis(1) {
            return Err(Error::new(ErrorKind::Timeout, "the call was not over at its deadline").retryable());
        }
        Ok(left)
    }

    /// Waits before a retry, unless the deadline is over.
    pub(crate) async fn pause(&self, pause: Duration) -> Result<()> {
        tokio::time::sleep(pause.min(self.left()?)).await;
        self.left().map(drop)
    }

    /// Begins a transaction. Dropping the driver's session aborts it.
    pub(crate) async fn begin(&self) -> Result<ClientSession> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        let mut transaction = self.on.client.start_session().await.map_err(native)?;
        let options = TransactionOptions::builder().read_concern(ReadConcern::snapshot()).selection_criteria(primary());
        // The write concern is the client's.
        let options = options.max_commit_time(self.left()?).build();
        transaction.start_transaction().with_options(options).await.map_err(native)?;
        Ok(transaction)
    }

    /// Commits, and retries while the outcome is unknown. The driver itself tries twice and reports the second answer,
    /// so only one answer proves that nothing was done: that the server has aborted the transaction.
    async fn commit(&self, mut transaction: ClientSession) -> Result<()> {
        loop {
            match transaction.commit_transaction().await {
                Ok(()) => return Ok(()),
                Err(error) if error.contains_label(TRANSIENT_TRANSACTION_ERROR) => return Err(native(error)),
                // Another program may have ended it as abandoned, before or after its commit.
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

    /// Commits a transaction that is done, unless the deadline is over, or the primary was replaced since the session
    /// began: then the call begins anew, since what it has read may be gone. Aborts any other at once; a failure to abort
    /// doesn't matter, since the server ends abandoned transactions.
    pub(crate) async fn end(&self, mut transaction: ClientSession, is_done: Result<bool>) -> Result<bool> {
        let is_done = is_done.and_then(|is_done| self.left().and_then(|_| self.check_election()).map(|()| is_done));
        if let Ok(true) = is_done {
            self.sends_write();
            self.commit(transaction).await?;
            self.caught_up();
            return Ok(true);
        }
        let _ = transaction.abort_transaction().await;
        // A call that loses its first step has decided nothing yet, and reads everything again.
        let is_first = self.begun.load(Ordering::Relaxed) == 1 && !self.has_written.load(Ordering::Relaxed);
        if let Ok(false) = is_done
            && is_first
        {
            self.caught_up();
        }
        is_done.map_err(|error| error.with_outcome(Outcome::NotDone))
    }
}

pub(crate) fn ended_early(panic: JoinError) -> Error {
    Error::new(ErrorKind::Unexpected, "a task of the provider ended early").with_source(panic)
}
