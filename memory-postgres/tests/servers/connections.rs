//! The connections of a provider.

use std::future::pending;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use conformance::server::postgres::LocalPostgres;
use memory_core::{
    Collection, Content, DocumentWrite, Error, ErrorKind, Health, MemoryPage, MemoryProvider, MemoryQuery, Outcome,
};
use memory_postgres::{Password, PostgresMemory};
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Connection, Executor, Row};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::common::{
    Case, LOCK, NOBODY_WAITS, SECRET, WAITS_FOR_A_LOCK, all, at, check, config, event, holds, open, run, until,
};

const NOBODY_IS_CONNECTED: &str =
    "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'agent-memory')";
const TWO_WAIT: &str = "SELECT count(*) = 2 FROM pg_stat_activity WHERE wait_event_type = 'Lock'";

/// Those that were opened for many calls are closed when there are few; the next call opens another one.
pub(crate) fn idle() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let mut config = config(server.url());
        config.idle_timeout = Duration::from_millis(200);
        let provider = Arc::new(open(config).await?);
        while_two_wait(server.url(), &provider, async || Ok(())).await?;
        holds(server.url(), NOBODY_IS_CONNECTED).await?;
        provider.store(event("a-b", 1)).await?;
        assert_eq!(all(&provider).await?.len(), 1);
        Ok(())
    })
}

/// The health check has a connection of its own, while all others wait for a lock.
pub(crate) fn busy() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let provider = Arc::new(open(config(server.url())).await?);
        while_two_wait(server.url(), &provider, async || {
            assert_eq!(health(&provider).await?.schema_version, 8);
            Ok(())
        })
        .await?;
        Ok(())
    })
}

/// If the pool has all connections that its role may have, the health check uses one of these.
pub(crate) fn full() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let mut admin = PgConnection::connect(server.url()).await?;
        let role = format!("CREATE ROLE guest LOGIN PASSWORD '{SECRET}' CONNECTION LIMIT 2");
        admin.execute(AssertSqlSafe(role)).await?;
        admin.execute("GRANT CREATE ON DATABASE postgres TO guest").await?;
        let mut guest = config(server.url());
        guest.server.user = Some("guest".to_owned());
        guest.server.password = Some(Password(SECRET.to_owned()));
        let provider = Arc::new(open(guest).await?);
        while_two_wait(server.url(), &provider, async || Ok(())).await?;
        assert_eq!(provider.check_health().await?.schema_version, 8);
        Ok(())
    })
}

/// A firewall that forgets all connections costs one call its deadline, and not each connection one.
pub(crate) fn forgotten() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let mut config = config(server.url());
        let address = &mut config.server.hosts[0];
        let firewall = Firewall::before(format!("{}:{}", address.name, address.port)).await?;
        address.port = firewall.port;
        config.deadline = Duration::from_secs(5);
        let provider = Arc::new(open(config).await?);
        while_two_wait(server.url(), &provider, async || Ok(())).await?;
        firewall.forgotten.send_modify(|times| *times += 1);
        let lost = provider.store(event("a-b", 1)).await.expect_err("no answer");
        assert_eq!((lost.kind(), lost.outcome()), (ErrorKind::Timeout, Outcome::Unknown));
        let stored = provider.store(event("a-b", 2)).await?;
        assert_eq!(all(&provider).await?.iter().map(|memory| memory.id).collect::<Vec<_>>(), [stored]);
        Ok(())
    })
}

/// One call asks a server without a free connection on behalf of all, less and less often; meanwhile the calls share
/// the open connections.
pub(crate) fn refused() -> Case {
    const CALLS: u32 = 16;
    let server = LocalPostgres::start_with(&[("max_connections", "12")])?;
    run(async {
        let mut config = config(server.url());
        config.pool_size = NonZeroU32::new(CALLS).ok_or("it is not 0")?;
        let provider = Arc::new(open(config).await?);
        let mut admin = PgConnection::connect(server.url()).await?;
        let mut lock = admin.begin().await?;
        lock.execute(LOCK).await?;
        // From now on there is a connection beside the pool that cancels abandoned statements.
        let given_up = queries(&provider, 1);
        holds(server.url(), WAITS_FOR_A_LOCK).await?;
        drop(given_up);
        holds(server.url(), NOBODY_WAITS).await?;
        let mut taken = Vec::new();
        while let Ok(connection) = PgConnection::connect(server.url()).await {
            taken.push(connection);
        }
        let queries = queries(&provider, CALLS as usize);
        let log = server.folder().join("log");
        let refusals = || Ok::<_, std::io::Error>(std::fs::read_to_string(&log)?.matches("too many clients").count());
        until(|| Ok(refusals()? >= 5)).await?;
        assert_eq!(health(&provider).await?.schema_version, 8);
        lock.rollback().await?;
        for page in queries.join_all().await {
            page?;
        }
        // One for each call that came before the first refusal, and some for each second.
        let refusals = refusals()?;
        assert!(refusals < 4 * CALLS as usize, "the server was asked {refusals} times");
        Ok(())
    })
}

/// Connections that take no writes are not used again, since others may.
pub(crate) fn read_only() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        open(config(server.url())).await?.shutdown().await?;
        let mut admin = PgConnection::connect(server.url()).await?;
        admin.execute("ALTER DATABASE postgres SET default_transaction_read_only = on").await?;
        let mut config = config(server.url());
        config.pool_size = const { NonZeroU32::new(3).unwrap() };
        let provider = Arc::new(open(config).await?);
        let refused = async || {
            let note = DocumentWrite::new(Collection::parse("notes")?, "a-b".parse()?, Content::parse("x")?, at(1));
            let refused = provider.documents().put(note).await.expect_err("read-only");
            check(&refused, ErrorKind::Unauthorized, "read-only");
            Ok(())
        };
        // Also those that are in use at that time.
        while_two_wait(server.url(), &provider, refused).await?;
        admin.execute("ALTER DATABASE postgres RESET default_transaction_read_only").await?;
        provider.store(event("a-b", 2)).await?;
        Ok(())
    })
}

/// A server that takes no writes at all closes the idle connections of its readers now and then, and not at each write that it refuses.
pub(crate) fn read_only_for_all() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        open(config(server.url())).await?.shutdown().await?;
        let mut admin = PgConnection::connect(server.url()).await?;
        admin.execute("ALTER DATABASE postgres SET default_transaction_read_only = on").await?;
        let provider = Arc::new(open(config(server.url())).await?);
        let processes = "SELECT pid FROM pg_stat_activity WHERE application_name = 'agent-memory'";
        // Repeats until two writes come close enough to each other on a busy machine. Those of the previous round must
        // be long ago.
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(1_100)).await;
            let start = Instant::now();
            provider.store(event("a-b", 1)).await.expect_err("read-only");
            while_two_wait(server.url(), &provider, async || Ok(())).await?;
            let before = admin.fetch_all(processes).await?;
            provider.store(event("a-b", 2)).await.expect_err("read-only");
            all(&provider).await?;
            let is_close = start.elapsed() < Duration::from_millis(900);
            let after = admin.fetch_all(processes).await?;
            if is_close {
                let process = |row: &PgRow| row.get::<i32, _>(0);
                let stays = |row| after.iter().any(|other| process(other) == process(row));
                assert!(before.iter().any(stays), "the connection that nobody wrote on is closed");
                return Ok(());
            }
        }
        Err("no two writes came close to each other".into())
    })
}

/// Forwards connections to a server until it forgets the existing ones: then it forwards nothing more, and closes
/// nothing.
struct Firewall {
    port: u16,
    forgotten: watch::Sender<u32>,
}

impl Firewall {
    async fn before(server: String) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (port, forgotten) = (listener.local_addr()?.port(), watch::Sender::new(0));
        let times = forgotten.subscribe();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let (server, mut times) = (server.clone(), times.clone());
                tokio::spawn(async move {
                    let known = *times.borrow();
                    let Ok(mut server) = TcpStream::connect(server).await else { return };
                    let is_over = tokio::select! {
                        _ = copy_bidirectional(&mut client, &mut server) => true,
                        forgotten = times.wait_for(|times| *times != known) => forgotten.is_err(),
                    };
                    if !is_over {
                        pending().await
                    }
                });
            }
        });
        Ok(Self { port, forgotten })
    }
}

/// Does something while two queries of the provider wait for a lock, each on a connection.
async fn while_two_wait(url: &str, provider: &Arc<PostgresMemory>, meanwhile: impl AsyncFnOnce() -> Case) -> Case {
    let mut admin = PgConnection::connect(url).await?;
    let mut lock = admin.begin().await?;
    lock.execute(LOCK).await?;
    let queries = queries(provider, 2);
    holds(url, TWO_WAIT).await?;
    meanwhile().await?;
    lock.rollback().await?;
    for page in queries.join_all().await {
        page?;
    }
    Ok(())
}

/// Checks a server's health, several times if the machine is busy.
async fn health(provider: &PostgresMemory) -> Result<Health, Error> {
    let mut health = provider.check_health().await;
    for _ in 0..10 {
        if health.is_err() {
            health = provider.check_health().await;
        }
    }
    health
}

/// Begins some queries of the whole ledger.
fn queries(provider: &Arc<PostgresMemory>, count: usize) -> JoinSet<Result<MemoryPage, Error>> {
    let query = |_| {
        let provider = Arc::clone(provider);
        async move { provider.query(&MemoryQuery::builder().all().build()?).await }
    };
    (0..count).map(query).collect()
}
