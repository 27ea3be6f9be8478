//! Tasks on engines: each case runs in memory, on SQLite and on PostgreSQL, with as many handles as it wants.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use conformance::server::{TestServer, trial};
use futures::future::BoxFuture;
use libtest_mimic::Arguments;
use memory_core::{DEFAULT_DEADLINE, InMemory, ManualClock, MemoryProvider};
use memory_postgres::{PostgresConfig, PostgresMemory};
use memory_sqlite::{SqliteConfig, SqliteMemory};
use sqlx::postgres::PgPool;
use sqlx::{AssertSqlSafe, Executor};
use tempfile::TempDir;

#[path = "../common/mod.rs"]
mod common;
mod recovery;
mod tasks;

/// How long a case may take. Well above what any takes; it ends a case that hangs.
const TIME_LIMIT: Duration = Duration::from_secs(120);

#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    run: fn(Arc<Engine>) -> BoxFuture<'static, ()>,
}

/// Lists cases by their functions.
macro_rules! cases {
    ($($module:ident::$name:ident,)+) => {
        vec![$(Case {
            name: concat!(stringify!($module), ".", stringify!($name)),
            run: |engine| Box::pin($module::$name(engine)),
        }),+]
    };
}

/// Data of its own for one case, which any number of handles share.
#[derive(Debug)]
enum Engine {
    InMemory(InMemory),
    Sqlite { _folder: TempDir, file: PathBuf },
    Postgres { config: Box<PostgresConfig>, pool: PgPool },
}

impl Engine {
    /// A handle on the data, not initialised.
    fn open(&self) -> Arc<dyn MemoryProvider> {
        let clock = Arc::new(ManualClock::new(common::at(0)));
        match self {
            Self::InMemory(memory) => Arc::new(memory.reopen(clock, DEFAULT_DEADLINE)),
            Self::Sqlite { file, .. } => {
                Arc::new(SqliteMemory::open(SqliteConfig::new(file)).expect("a valid configuration"))
            }
            Self::Postgres { config, .. } => {
                Arc::new(PostgresMemory::open((**config).clone()).expect("a valid configuration"))
            }
        }
    }

    async fn remove(&self) {
        if let Self::Postgres { config, pool } = self {
            let sql = AssertSqlSafe(format!(r#"DROP SCHEMA IF EXISTS "{}" CASCADE"#, config.namespace));
            pool.execute(sql).await.expect("the schema is removed");
        }
    }
}

fn in_memory() -> Engine {
    Engine::InMemory(InMemory::new())
}

fn sqlite() -> Engine {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("memory.db");
    Engine::Sqlite { _folder: folder, file }
}

fn postgres(url: &str) -> Engine {
    let mut config = Box::new(PostgresConfig::from_url(url).expect("the URL of a test server"));
    config.namespace = conformance::Namespace::unique().name;
    Engine::Postgres { config, pool: PgPool::connect_lazy(url).expect("the URL of a test server") }
}

/// A case on an engine that `make` makes inside of the asynchronous runtime, since pools belong to it.
fn play(case: Case, make: impl FnOnce() -> Engine) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let engine = Arc::new(make());
        let played = tokio::spawn(tokio::time::timeout(TIME_LIMIT, (case.run)(Arc::clone(&engine)))).await;
        engine.remove().await;
        match played {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err("not over in time".into()),
            // The panic itself is on standard error.
            Err(error) => Err(error.to_string().into()),
        }
    })
}

fn main() -> ExitCode {
    let cases = cases![
        tasks::a_container_keeps_its_order_and_others_run_beside_it,
        tasks::no_more_tasks_run_than_may,
        tasks::submit_waits_for_a_place_and_has_persisted_before,
        tasks::a_failed_step_ends_the_task_with_the_error,
        tasks::wrong_arguments_never_reach_an_executor,
        tasks::what_is_foreign_can_not_break_a_task,
        tasks::what_is_observed_is_never_worked_on,
        tasks::related_memories_are_those_of_the_selector,
        tasks::steps_use_memory_within_their_container,
        recovery::of_many_runtimes_one_gets_a_task,
        recovery::a_task_goes_on_behind_its_last_step,
        recovery::a_live_lease_is_left_alone_and_renewed,
        recovery::an_instance_takes_its_own_tasks_at_once,
        recovery::two_living_runtimes_of_one_instance_keep_their_tasks,
        recovery::a_lost_task_is_dropped_and_its_row_left_alone,
        recovery::a_task_that_is_erased_is_dropped,
        recovery::a_task_that_is_erased_while_it_waits_ends_for_who_submits_it,
        recovery::a_task_survives_the_loss_of_every_answer,
        recovery::a_task_that_is_lost_while_it_waits_keeps_none_from_recovery,
        recovery::a_task_that_is_erased_while_it_waits_keeps_none_from_recovery,
        recovery::a_task_that_never_ends_is_given_up,
        recovery::rows_that_are_no_tasks_are_left_alone,
        recovery::a_chain_recalls_only_what_is_related,
        recovery::a_patch_of_somebody_else_does_no_harm,
    ];
    let server = Arc::new(LazyLock::new(TestServer::postgres_without_fsync));
    let mut trials = Vec::new();
    for case in cases {
        trials.push(trial(format!("in-memory::{}", case.name), move || play(case, in_memory)));
        trials.push(trial(format!("sqlite::{}", case.name), move || play(case, sqlite)));
        let server = Arc::clone(&server);
        trials.push(trial(format!("postgres::{}", case.name), move || {
            let server = (**server).clone()?;
            play(case, || postgres(server.url()))
        }));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
