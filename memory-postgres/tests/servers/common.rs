//! Helpers of all cases.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use memory_core::{Error, ErrorKind, Memory, MemoryProvider, MemoryQuery, NewMemory, SpaceId, Timestamp, Trigger};
use memory_postgres::{PostgresConfig, PostgresMemory};
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Row};

pub(crate) type Case<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Stands in payloads and passwords; no error may show it.
pub(crate) const SECRET: &str = "xyzzy";

/// Lets all calls on the ledger wait until the transaction ends.
pub(crate) const LOCK: &str = "LOCK TABLE agent_memory.memories IN ACCESS EXCLUSIVE MODE";
pub(crate) const WAITS_FOR_A_LOCK: &str = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock')";

pub(crate) const NOBODY_WAITS: &str = "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock')";

pub(crate) fn run(case: impl Future<Output = Case>) -> Case {
    tokio::runtime::Runtime::new()?.block_on(case)
}

/// Few connections, so that calls really share them.
pub(crate) fn config(url: &str) -> PostgresConfig {
    let mut config = PostgresConfig::from_url(url).expect("the URL of a test server");
    config.pool_size = const { NonZeroU32::new(2).unwrap() };
    config
}

pub(crate) async fn open(config: PostgresConfig) -> Result<PostgresMemory, Error> {
    let provider = PostgresMemory::open(config)?;
    provider.init().await?;
    Ok(provider)
}

pub(crate) fn event(space: &str, millis: i64) -> NewMemory {
    let trigger = Trigger::parse(&format!(r#"{{"text":"{SECRET}","n":{millis}}}"#)).expect("valid");
    NewMemory::new(SpaceId::parse(space).expect("valid"), trigger, at(millis))
}

pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis).expect("valid")
}

/// The whole ledger, newest first.
pub(crate) async fn all(provider: &PostgresMemory) -> Result<Vec<Memory>, Error> {
    let query = || MemoryQuery::builder().all().limit(1_000);
    let mut page = provider.query(&query().build()?).await?;
    let mut memories = page.memories;
    while let Some(cursor) = page.next {
        page = provider.query(&query().cursor(cursor).build()?).await?;
        memories.append(&mut page.memories);
    }
    Ok(memories)
}

#[track_caller]
pub(crate) fn check(error: &Error, kind: ErrorKind, message: &str) {
    assert_eq!(error.kind(), kind, "{error:?}");
    assert!(error.message().contains(message), "{error:?}");
    for text in [error.to_string(), format!("{error:?}")] {
        assert!(!text.contains(SECRET), "an error tells a secret: {text}");
    }
}

/// Waits until a statement on the server answers with `true`.
pub(crate) async fn holds(url: &str, condition: &'static str) -> Case {
    let mut connection = PgConnection::connect(url).await?;
    let until = Instant::now() + Duration::from_secs(60);
    while !sqlx::query(condition).fetch_one(&mut connection).await?.try_get::<bool, _>(0)? {
        assert!(Instant::now() < until, "it never holds that {condition}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// Waits until something is so on this side.
pub(crate) async fn until(mut is_so: impl FnMut() -> std::io::Result<bool>) -> Case {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so()? {
        assert!(Instant::now() < end, "it never is so");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}
