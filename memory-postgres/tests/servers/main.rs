//! PostgreSQL as it is in operation: refusals, crashes, a pooler, and plans at size.

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use conformance::server::Missing;
use conformance::server::postgres::{LocalPostgres, PgBouncer};
use libtest_mimic::{Arguments, Trial};
use memory_core::{
    Error, ErrorKind, IdempotencyKey, MemoryId, MemoryProvider, MemoryQuery, NewMemory, Order, Outcome, SpaceId,
    Timestamp, Trigger,
};
use memory_postgres::{Host, Password, PostgresConfig, PostgresMemory};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, Connection, Executor, Row};

type Case = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Stands in payloads and passwords; no error may show it.
const SECRET: &str = "xyzzy";
/// How often the server is killed.
const ROUNDS: usize = 10;

fn main() -> ExitCode {
    let server = LocalPostgres::start();
    let pooler = server.as_ref().map_err(Missing::clone).and_then(|server| PgBouncer::start(server.url()));
    let missing = [server.err(), pooler.err()];
    let trial = |name: &str, missing: &Option<Missing>, test: fn() -> Case| match missing {
        Some(missing) => missing.trial(name),
        None => Trial::test(name, move || test().map_err(|error| format!("{error:?}").into())),
    };
    let trials = vec![
        trial("postgres::each_refusal_has_its_kind", &missing[0], || run(each_refusal_has_its_kind())),
        trial("postgres::acknowledged_stores_survive_kills", &missing[0], || run(acknowledged_stores_survive_kills())),
        trial("postgres::calls_work_again_after_a_restart", &missing[0], || run(calls_work_again_after_a_restart())),
        trial("postgres::the_primary_is_found_among_hosts", &missing[0], || run(the_primary_is_found_among_hosts())),
        trial("postgres::no_recall_scans_the_ledger", &missing[0], || run(no_recall_scans_the_ledger())),
        trial("pgbouncer::each_call_gets_its_own_answer", &missing[1], || run(each_call_gets_its_own_answer())),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn run(case: impl Future<Output = Case>) -> Case {
    tokio::runtime::Runtime::new()?.block_on(case)
}

async fn each_refusal_has_its_kind() -> Case {
    // Few enough to take them all.
    let server = LocalPostgres::start_with(&[("max_connections", "12"), ("superuser_reserved_connections", "3")])?;
    let mut admin = PgConnection::connect(server.url()).await?;
    let admin_config = config(server.url());
    let provider = open(admin_config.clone()).await?;

    let mut wrong = admin_config.clone();
    wrong.server.password = Some(Password(format!("{SECRET}-wrong")));
    check(&init(wrong).await, ErrorKind::Unauthorized, "refused the role or its password");

    let mut nowhere = admin_config.clone();
    nowhere.server.database = Some("nowhere".to_owned());
    check(&init(nowhere).await, ErrorKind::Unavailable, "the database does not exist");

    let mut unreachable = admin_config.clone();
    unreachable.server.hosts = vec![Host { name: "127.0.0.1".to_owned(), port: 1 }];
    unreachable.acquire_timeout = Duration::from_millis(100);
    check(&init(unreachable).await, ErrorKind::Unavailable, "no connection to the server");

    // A lock that is held makes the statement wait until the server gives up.
    let mut hasty = admin_config.clone();
    hasty.statement_timeout = Some(Duration::from_millis(50));
    let hasty = open(hasty).await?;
    let mut lock = admin.begin().await?;
    lock.execute("LOCK TABLE agent_memory.memories IN ACCESS EXCLUSIVE MODE").await?;
    let late = hasty.store(event("a-b", 1)).await.expect_err("a statement timeout");
    check(&late, ErrorKind::Timeout, "took too long");
    assert_eq!(late.outcome(), Outcome::NotDone);
    lock.rollback().await?;
    hasty.shutdown().await?;

    admin.execute("ALTER DATABASE postgres SET default_transaction_read_only = on").await?;
    let read_only = open(admin_config.clone()).await?;
    check(&read_only.store(event("a-b", 1)).await.expect_err("read-only"), ErrorKind::Unauthorized, "read-only");
    read_only.shutdown().await?;
    admin.execute("SET default_transaction_read_only = off").await?;
    admin.execute("ALTER DATABASE postgres RESET default_transaction_read_only").await?;

    admin.execute(AssertSqlSafe(format!("CREATE ROLE guest LOGIN PASSWORD '{SECRET}'"))).await?;
    let mut guest = admin_config.clone();
    guest.server.user = Some("guest".to_owned());
    guest.server.password = Some(Password(SECRET.to_owned()));
    guest.namespace = "not_allowed".to_owned();
    check(&init(guest.clone()).await, ErrorKind::Unauthorized, "lacks a permission");

    // All connections that are not reserved are taken.
    let mut taken = Vec::new();
    let mut options: PgConnectOptions = server.url().parse()?;
    options = options.username("guest").password(SECRET);
    while let Ok(connection) = PgConnection::connect_with(&options).await {
        taken.push(connection);
    }
    guest.acquire_timeout = Duration::from_millis(200);
    check(&init(guest).await, ErrorKind::Unavailable, "no connection to the server");
    drop(taken);

    admin.execute("ALTER TABLE agent_memory.memories RENAME TO lost").await?;
    check(&provider.store(event("a-b", 1)).await.expect_err("no table"), ErrorKind::SchemaMismatch, "is gone");
    admin.execute("ALTER TABLE agent_memory.lost RENAME TO memories").await?;

    admin
        .execute(AssertSqlSafe(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF NEW.status = 'failed' THEN RAISE EXCEPTION 'full' USING ERRCODE = 'disk_full'; END IF;
                IF nextval('attempts') < 3 THEN RAISE EXCEPTION 'again' USING ERRCODE = 'serialization_failure'; END IF;
                RETURN NEW; END $$",
        ))
        .await?;
    admin.execute("CREATE SEQUENCE attempts").await?;
    admin
        .execute("CREATE TRIGGER refuse BEFORE INSERT ON agent_memory.memories FOR EACH ROW EXECUTE FUNCTION refuse()")
        .await?;
    let full = event("a-b", 1).with_status(memory_core::Status::Failed);
    check(&provider.store(full).await.expect_err("a full disk"), ErrorKind::Unavailable, "disk of the server is full");
    provider.store(event("a-b", 2)).await?;
    assert_eq!(all(&provider).await?.len(), 1, "a serialization failure is tried again");
    Ok(())
}

async fn acknowledged_stores_survive_kills() -> Case {
    let mut server = LocalPostgres::start()?;
    let mut config = config(server.url());
    config.pool_size = const { NonZeroU32::new(8).unwrap() };
    let provider = Arc::new(open(config).await?);
    let mut acknowledged = HashSet::new();
    for round in 0..ROUNDS {
        let tasks: Vec<_> = (0..8)
            .map(|task| {
                let provider = Arc::clone(&provider);
                tokio::spawn(async move {
                    let mut stored = Vec::new();
                    for number in 0..40 {
                        let key = IdempotencyKey::parse(format!("{round}-{task}-{number}")).expect("a key");
                        let event = event("a-b", number).with_idempotency_key(key);
                        // What is not acknowledged may be there or not.
                        stored.extend(provider.store(event).await.ok());
                    }
                    stored
                })
            })
            .collect();
        // In the middle of the work, wherever that is.
        tokio::task::yield_now().await;
        server.restart()?;
        for task in tasks {
            acknowledged.extend(task.await?);
        }
        assert_eq!(provider.check_health().await?.engine, "postgres");
    }
    let found = all(&provider).await?;
    let ids: HashSet<_> = found.iter().copied().collect();
    assert_eq!(ids.len(), found.len(), "an id came twice");
    assert!(acknowledged.is_subset(&ids), "an acknowledged store is lost");
    assert!(found.len() <= ROUNDS * 8 * 40, "a store was done twice");
    assert!(!acknowledged.is_empty());
    Ok(())
}

async fn calls_work_again_after_a_restart() -> Case {
    let mut server = LocalPostgres::start()?;
    let mut config = config(server.url());
    config.acquire_timeout = Duration::from_millis(500);
    let provider = open(config).await?;
    let id = provider.store(event("a-b", 1)).await?;
    server.kill()?;
    let down = provider.check_health().await.expect_err("the server is down");
    assert_eq!(down.kind(), ErrorKind::Unavailable, "{down:?}");
    let down = provider.store(event("a-b", 2)).await.expect_err("the server is down");
    assert_eq!(down.kind(), ErrorKind::Unavailable, "{down:?}");
    server.restart()?;
    provider.check_health().await?;
    assert_eq!(provider.get(id).await?.map(|memory| memory.id), Some(id));
    // Connections that have ended with the server don't make an update fail.
    server.restart()?;
    let patch = memory_core::MemoryPatch::new().with_status(memory_core::Status::Completed);
    assert_eq!(provider.update(id, patch).await?.revision.get(), 2);
    Ok(())
}

async fn the_primary_is_found_among_hosts() -> Case {
    let server = LocalPostgres::start()?;
    let mut config = config(server.url());
    let primary = config.server.hosts[0].clone();
    config.server.hosts = vec![Host { name: "127.0.0.1".to_owned(), port: 1 }, primary];
    let provider = open(config).await?;
    let id = provider.store(event("a-b", 1)).await?;
    assert_eq!(all(&provider).await?, [id]);
    Ok(())
}

async fn each_call_gets_its_own_answer() -> Case {
    let server = LocalPostgres::start()?;
    let pooler = PgBouncer::start(server.url())?;
    let mut config = config(pooler.url());
    config.pooler = true;
    config.pool_size = const { NonZeroU32::new(32).unwrap() };
    let provider = Arc::new(open(config).await?);
    let mut ids = Vec::new();
    for number in 0..64 {
        ids.push(provider.store(event(&format!("space-{number}"), number)).await?);
    }
    let tasks = ids.into_iter().zip(0..).map(|(id, number)| {
        let provider = Arc::clone(&provider);
        tokio::spawn(async move {
            let query = MemoryQuery::builder().exact(format!("space-{number}")).build().expect("a query");
            for _ in 0..20 {
                let got = provider.get(id).await?.map(|memory| (memory.id, memory.created_at));
                assert_eq!(got, Some((id, at(number))));
                let page = provider.query(&query).await?;
                assert_eq!(page.memories.iter().map(|memory| memory.id).collect::<Vec<_>>(), [id]);
            }
            Ok::<_, Error>(())
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await??;
    }
    Ok(())
}

/// At 100,000 rows the server itself counts its sequential scans: a recall of any kind makes none.
async fn no_recall_scans_the_ledger() -> Case {
    const ROWS: i64 = 100_000;
    let server = LocalPostgres::start()?;
    let provider = open(config(server.url())).await?;
    for start in (0..ROWS).step_by(10_000) {
        let space = |number| format!("plugin-discord-{}-{}-{number}", number % 100, number % 1_000);
        let status = |number| if number % 1_000 == 0 { "pending" } else { "completed" };
        let batch = (start..start + 10_000).map(|number| {
            let status = memory_core::Status::parse(status(number)).expect("a status");
            event(&space(number), number).with_status(status)
        });
        provider.store_many(batch.collect()).await?;
    }
    let mut admin = PgConnection::connect(server.url()).await?;
    admin.execute("ANALYZE").await?;
    let before = scans(&mut admin).await?;
    let query = || MemoryQuery::builder();
    for builder in [
        query().all(),
        query().under("plugin"),
        query().under("plugin-discord-7"),
        query().exact("plugin-discord-7-7-7"),
        query().prefix("plugin-discord-1"),
        query().glob("plugin-discord-1?-*"),
        query().under("plugin-discord-7").under("plugin-discord-8").exact("plugin-discord-9-9-9"),
        query().all().status(memory_core::Status::Pending),
        query().under("plugin-discord-7").status(memory_core::Status::Running),
        query().under("plugin").created_before(at(50_000)).created_after(at(40_000)),
    ] {
        for order in [Order::NewestFirst, Order::OldestFirst] {
            let page = provider.query(&builder.clone().order(order).build()?).await?;
            let next = page.next.map(|cursor| builder.clone().order(order).cursor(cursor).build()).transpose()?;
            if let Some(next) = next {
                provider.query(&next).await?;
            }
        }
    }
    provider.shutdown().await?;
    assert_eq!(scans(&mut admin).await?, before, "a recall made a sequential scan");
    Ok(())
}

/// How many sequential scans of the ledger's tables the server has counted.
async fn scans(admin: &mut PgConnection) -> Result<i64, sqlx::Error> {
    // What connections have counted is visible once they tell it.
    admin.execute("SELECT pg_stat_force_next_flush()").await.map(drop).or_else(ignore_missing)?;
    admin.execute("SELECT pg_stat_clear_snapshot()").await?;
    let sql = "SELECT sum(seq_scan)::bigint FROM pg_stat_user_tables WHERE relname IN ('memories', 'memory_paths')";
    admin.fetch_one(sql).await?.try_get(0)
}

/// The function came with PostgreSQL 15.
fn ignore_missing(error: sqlx::Error) -> Result<(), sqlx::Error> {
    match error.as_database_error().and_then(|error| error.code()) {
        Some(code) if code == "42883" => Ok(()),
        _ => Err(error),
    }
}

fn config(url: &str) -> PostgresConfig {
    let mut config = PostgresConfig::from_url(url).expect("the URL of a test server");
    config.pool_size = const { NonZeroU32::new(2).unwrap() };
    config
}

async fn open(config: PostgresConfig) -> Result<PostgresMemory, Error> {
    let provider = PostgresMemory::open(config)?;
    provider.init().await?;
    Ok(provider)
}

async fn init(config: PostgresConfig) -> Error {
    PostgresMemory::open(config).expect("a provider").init().await.expect_err("a refusal")
}

fn event(space: &str, millis: i64) -> NewMemory {
    let trigger = Trigger::parse(&format!(r#"{{"text":"{SECRET}"}}"#)).expect("valid");
    NewMemory::new(SpaceId::parse(space).expect("valid"), trigger, at(millis))
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis).expect("valid")
}

/// The ids of the whole ledger.
async fn all(provider: &PostgresMemory) -> Result<Vec<MemoryId>, Error> {
    let query = || MemoryQuery::builder().all().limit(1_000);
    let mut page = provider.query(&query().build()?).await?;
    let mut ids: Vec<_> = page.memories.iter().map(|memory| memory.id).collect();
    while let Some(cursor) = page.next {
        page = provider.query(&query().cursor(cursor).build()?).await?;
        ids.extend(page.memories.iter().map(|memory| memory.id));
    }
    Ok(ids)
}

#[track_caller]
fn check(error: &Error, kind: ErrorKind, message: &str) {
    assert_eq!(error.kind(), kind, "{error:?}");
    assert!(error.message().contains(message), "{error:?}");
    for text in [error.to_string(), format!("{error:?}")] {
        assert!(!text.contains(SECRET), "an error tells a secret: {text}");
    }
}
