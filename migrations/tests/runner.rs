//! The runner, on a target that keeps its bookkeeping in memory.

use std::error::Error as _;
use std::io;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use memory_core::{Error, ErrorKind, Outcome, Result};
use migrations::{Applied, Kind, Report, Step, Target, migrate, plan};
use tokio::sync::{Mutex as Lock, OwnedMutexGuard};
use tokio::task::{JoinSet, yield_now};

const STEPS: [Step; 3] =
    [Step::quick(1, "ledger", "one"), Step::quick(2, "documents", "two"), Step::quick(3, "words", "three")];

/// The state that all connections share.
#[derive(Default)]
struct Database {
    lock: Arc<Lock<()>>,
    applied: Mutex<Vec<Applied>>,
}

impl Database {
    fn versions(&self) -> Vec<u32> {
        self.applied.lock().expect("no test panics in it").iter().map(|step| step.version).collect()
    }

    fn is_locked(&self) -> bool {
        self.lock.try_lock().is_err()
    }
}

/// One connection.
#[derive(Default)]
struct Connection {
    database: Arc<Database>,
    held: Option<OwnedMutexGuard<()>>,
    /// The version that can't be applied.
    broken: Option<u32>,
    /// Whether the lock can't be given back.
    broken_unlock: bool,
    /// The calls so far, in order.
    calls: Vec<&'static str>,
}

impl Connection {
    fn to(database: &Arc<Database>) -> Self {
        Self { database: Arc::clone(database), ..Self::default() }
    }
}

#[async_trait]
impl Target for Connection {
    async fn lock(&mut self) -> Result<()> {
        self.calls.push("lock");
        self.held = Some(Arc::clone(&self.database.lock).lock_owned().await);
        Ok(())
    }

    async fn applied(&mut self) -> Result<Vec<Applied>> {
        self.calls.push("applied");
        let applied = self.database.applied.lock().expect("no test panics in it").clone();
        // Without the lock, another task would run here.
        yield_now().await;
        Ok(applied)
    }

    async fn apply(&mut self, step: &Step) -> Result<()> {
        self.calls.push("apply");
        assert!(self.held.is_some(), "a step without the lock");
        yield_now().await;
        if self.broken == Some(step.version) {
            let error = Error::new(ErrorKind::Unavailable, "the disk is full").with_outcome(Outcome::Unknown);
            return Err(error.retryable().with_source(io::Error::from(io::ErrorKind::StorageFull)));
        }
        self.database.applied.lock().expect("no test panics in it").push(Applied {
            version: step.version,
            name: step.name.to_owned(),
            checksum: step.checksum(),
            complete: step.kind == Kind::Quick,
        });
        Ok(())
    }

    async fn unlock(&mut self) -> Result<()> {
        self.calls.push("unlock");
        if self.broken_unlock {
            return Err(Error::new(ErrorKind::Unavailable, "the connection is gone"));
        }
        self.held = None;
        Ok(())
    }
}

#[tokio::test]
async fn an_empty_database_gets_every_step_and_a_second_run_none() {
    let mut connection = Connection::default();
    let report = migrate(&mut connection, &STEPS).await.expect("the first run");
    let every_step = vec![(1, "ledger"), (2, "documents"), (3, "words")];
    assert_eq!(report, Report { before: 0, applied: every_step, now: 3 });
    assert_eq!(connection.calls, ["lock", "applied", "apply", "apply", "apply", "unlock"]);

    let report = migrate(&mut connection, &STEPS).await.expect("the second run");
    assert_eq!(report, Report { before: 3, applied: vec![], now: 3 });
    assert_eq!(connection.database.versions(), [1, 2, 3]);
}

#[tokio::test]
async fn an_older_database_gets_the_steps_that_it_lacks() {
    let mut connection = Connection::default();
    migrate(&mut connection, &STEPS[..1]).await.expect("the older program");
    let report = migrate(&mut connection, &STEPS).await.expect("the newer program");
    assert_eq!(report, Report { before: 1, applied: vec![(2, "documents"), (3, "words")], now: 3 });
}

#[tokio::test]
async fn a_dry_run_tells_the_same_and_changes_nothing() {
    let mut connection = Connection::default();
    let planned = plan(&mut connection, &STEPS).await.expect("a plan");
    assert_eq!(connection.calls, ["applied"]);
    assert!(connection.database.versions().is_empty());
    assert_eq!(planned, migrate(&mut connection, &STEPS).await.expect("the run"));
}

#[tokio::test]
async fn a_failing_step_leaves_those_before_it_and_gives_the_lock_back() {
    let mut connection = Connection { broken: Some(2), ..Connection::default() };
    let error = migrate(&mut connection, &STEPS).await.expect_err("step 2 is broken");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(error.message(), r#"version 2 "documents" could not be applied: the disk is full"#);
    assert_eq!((error.outcome(), error.is_retryable()), (Outcome::Unknown, true));
    let cause =
        error.source().and_then(|cause| cause.downcast_ref::<io::Error>()).expect("what the engine knows it by");
    assert_eq!(cause.kind(), io::ErrorKind::StorageFull);
    assert_eq!(connection.database.versions(), [1]);
    assert_eq!(connection.calls, ["lock", "applied", "apply", "apply", "unlock"]);
    assert!(!connection.database.is_locked());

    connection.broken = None;
    let report = migrate(&mut connection, &STEPS).await.expect("the repaired run");
    assert_eq!(report, Report { before: 1, applied: vec![(2, "documents"), (3, "words")], now: 3 });
}

#[tokio::test]
async fn a_newer_database_is_refused_untouched_and_unlocked() {
    let mut connection = Connection::default();
    migrate(&mut connection, &STEPS).await.expect("the newer program");
    connection.calls.clear();

    let error = migrate(&mut connection, &STEPS[..2]).await.expect_err("the older program");
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
    assert_eq!(connection.calls, ["lock", "applied", "unlock"]);
    assert!(!connection.database.is_locked());

    let error = plan(&mut connection, &STEPS[..2]).await.expect_err("its dry run");
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
}

#[tokio::test]
async fn a_lock_that_stays_is_an_error_and_a_failing_step_comes_before_it() {
    let mut connection = Connection { broken_unlock: true, ..Connection::default() };
    let error = migrate(&mut connection, &STEPS[..1]).await.expect_err("the lock stays");
    assert_eq!(error.message(), "the connection is gone");

    let mut connection = Connection { broken: Some(2), broken_unlock: true, ..Connection::default() };
    let error = migrate(&mut connection, &STEPS).await.expect_err("step 2 is broken");
    assert_eq!(error.message(), r#"version 2 "documents" could not be applied: the disk is full"#);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_at_once_apply_each_step_once() {
    let database = Arc::new(Database::default());
    let mut runs = JoinSet::new();
    for _ in 0..8 {
        let mut connection = Connection::to(&database);
        runs.spawn(async move { migrate(&mut connection, &STEPS).await });
    }
    let reports: Vec<_> = runs.join_all().await.into_iter().map(|report| report.expect("a run")).collect();
    assert_eq!(database.versions(), [1, 2, 3]);
    assert_eq!(reports.iter().filter(|report| report.before == 0).count(), 1);
    assert!(reports.iter().all(|report| report.now == 3));
}

#[tokio::test]
async fn what_a_backfill_completes_is_begun_once() {
    let steps = [STEPS[0], Step { kind: Kind::Backfill, ..STEPS[1] }];
    let mut connection = Connection::default();
    for applied in [vec![(1, "ledger"), (2, "documents")], vec![]] {
        let report = migrate(&mut connection, &steps).await.expect("the run");
        assert_eq!(report.applied, applied);
    }
    assert_eq!(connection.database.versions(), [1, 2]);
}
