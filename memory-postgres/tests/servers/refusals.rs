//! The kinds of errors for what a server refuses.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use conformance::server::postgres::LocalPostgres;
use memory_core::{Error, ErrorKind, IdempotencyKey, MemoryPatch, MemoryProvider, Metadata, Outcome, Status, Trigger};
use memory_postgres::{Host, Password, PostgresConfig, PostgresMemory};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, Connection, Executor};
use tokio::task::JoinHandle;

use crate::common::{Case, LOCK, SECRET, all, check, config, event, open, run};

/// `init`, `migrate` and `plan` answer alike, long before the deadline.
pub(crate) fn unreachable() -> Case {
    run(async {
        let nobody_listens = Host { name: "127.0.0.1".to_owned(), port: 1 };
        let no_socket = Host { name: "/there/is/no/such/folder".to_owned(), port: 1 };
        for host in [nobody_listens, no_socket] {
            for count in [1, 2] {
                let mut config = config(&format!("postgres://user:{SECRET}@127.0.0.1/database"));
                config.server.hosts = vec![host.clone(); count];
                for error in [
                    init(config.clone()).await,
                    memory_postgres::migrate(&config).await.expect_err("no server"),
                    memory_postgres::plan(&config).await.expect_err("no server"),
                ] {
                    check(&error, ErrorKind::Unavailable, "the connection to the server failed");
                    assert!(std::error::Error::source(&error).is_some(), "the cause is missing: {error:?}");
                }
            }
        }
        Ok(())
    })
}

pub(crate) fn roles_and_databases() -> Case {
    // Few enough to take them all.
    let server = LocalPostgres::start_with(&[("max_connections", "12"), ("superuser_reserved_connections", "3")])?;
    run(async {
        let mut admin = PgConnection::connect(server.url()).await?;
        let admin_config = config(server.url());

        let mut wrong = admin_config.clone();
        wrong.server.password = Some(Password(format!("{SECRET}-wrong")));
        check(&init(wrong).await, ErrorKind::Unauthorized, "refused the role or its password");

        let mut nowhere = admin_config.clone();
        nowhere.server.database = Some("nowhere".to_owned());
        check(&init(nowhere).await, ErrorKind::Unavailable, "the database does not exist");

        admin.execute(AssertSqlSafe(format!("CREATE ROLE guest LOGIN PASSWORD '{SECRET}'"))).await?;
        let mut guest = admin_config.clone();
        guest.server.user = Some("guest".to_owned());
        guest.server.password = Some(Password(SECRET.to_owned()));
        check(&init(guest.clone()).await, ErrorKind::Unauthorized, "lacks a permission");

        // All connections that are not reserved are taken.
        let mut taken = Vec::new();
        let options: PgConnectOptions = server.url().parse()?;
        let options = options.username("guest").password(SECRET);
        while let Ok(connection) = PgConnection::connect_with(&options).await {
            taken.push(connection);
        }
        check(&init(guest).await, ErrorKind::Unavailable, "the server has no connection left");
        Ok(())
    })
}

pub(crate) fn statements() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let mut admin = PgConnection::connect(server.url()).await?;
        let provider = open(config(server.url())).await?;
        let kept = provider.store(event("a-b", 1)).await?;

        // A lock makes the statement wait until the server ends it.
        let mut hasty = config(server.url());
        hasty.statement_timeout = Some(Duration::from_millis(50));
        let hasty = open(hasty).await?;
        let mut lock = admin.begin().await?;
        lock.execute(LOCK).await?;
        let late = hasty.store(event("a-b", 2)).await.expect_err("a statement timeout");
        check(&late, ErrorKind::Timeout, "took too long");
        assert_eq!(late.outcome(), Outcome::NotDone);
        lock.rollback().await?;
        hasty.shutdown().await?;

        admin.execute("ALTER DATABASE postgres SET default_transaction_read_only = on").await?;
        let read_only = open(config(server.url())).await?;
        check(&read_only.store(event("a-b", 2)).await.expect_err("read-only"), ErrorKind::Unauthorized, "read-only");
        assert!(read_only.get(kept).await?.is_some());
        read_only.shutdown().await?;
        admin.execute("SET default_transaction_read_only = off").await?;
        admin.execute("ALTER DATABASE postgres RESET default_transaction_read_only").await?;

        admin.execute("ALTER TABLE agent_memory.memories RENAME TO lost").await?;
        check(&provider.store(event("a-b", 1)).await.expect_err("no table"), ErrorKind::SchemaMismatch, "is gone");
        Ok(())
    })
}

/// The SQLSTATE of an error, and the kind that an update returns, which is not repeated after any of these.
pub(crate) fn states() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let mut admin = PgConnection::connect(server.url()).await?;
        let mut config = config(server.url());
        config.namespace = "a$$b".to_owned();
        check(
            &PostgresMemory::open(config.clone()).expect_err("its steps could not be taken"),
            ErrorKind::InvalidInput,
            "$$",
        );
        config.namespace = "{name} of '{schema}'".to_owned();
        let provider = open(config).await?;
        let id = provider.store(event("a-b", 1)).await?;
        for (state, kind, is_retryable) in [
            ("08006", ErrorKind::Unavailable, true),
            ("23505", ErrorKind::Conflict, true),
            ("25006", ErrorKind::Unauthorized, false),
            ("25P03", ErrorKind::Unavailable, true),
            ("28P01", ErrorKind::Unauthorized, false),
            ("3D000", ErrorKind::Unavailable, false),
            ("42601", ErrorKind::Unexpected, false),
            ("53100", ErrorKind::Unavailable, true),
            ("55P03", ErrorKind::Unavailable, true),
            ("57014", ErrorKind::Timeout, true),
            ("57P01", ErrorKind::Unavailable, true),
            ("AM002", ErrorKind::SchemaMismatch, false),
            ("AM004", ErrorKind::SchemaMismatch, false),
            ("XX001", ErrorKind::Corrupt, false),
        ] {
            let refuse = format!(
                r#"CREATE OR REPLACE FUNCTION "{{name}} of '{{schema}}'".check_writer() RETURNS trigger LANGUAGE plpgsql AS
                    $$ BEGIN RAISE EXCEPTION '{SECRET}' USING ERRCODE = '{state}'; END $$"#
            );
            admin.execute(AssertSqlSafe(refuse)).await?;
            let patch = MemoryPatch::new().with_status(Status::Running);
            let refused = provider.update(id, patch).await.expect_err(state);
            assert_eq!((refused.kind(), refused.is_retryable()), (kind, is_retryable), "{state}: {refused:?}");
        }
        Ok(())
    })
}

/// A store that waits for a transaction with its key makes no other store wait.
pub(crate) fn one_failure() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let mut config = config(server.url());
        config.pool_size = const { NonZeroU32::new(8).unwrap() };
        let provider = Arc::new(open(config).await?);
        let key = |number: i64| IdempotencyKey::parse(number.to_string()).expect("a key");
        let keyed = |number| event("a-b", number).with_idempotency_key(key(number));
        let first = provider.store(keyed(8)).await?;
        let taken = provider.store(event("a-b", 0).with_idempotency_key(key(7))).await?;
        let mut admin = PgConnection::connect(server.url()).await?;
        let mut lock = admin.begin().await?;
        lock.execute("DELETE FROM agent_memory.memories WHERE idempotency_key = '8'").await?;

        let store = |number| {
            let (provider, event) = (Arc::clone(&provider), keyed(number));
            tokio::spawn(async move { provider.store(event).await })
        };
        // Two that are sent alone, and one in a batch.
        let mut held = vec![store(8), store(8)];
        let mut stores: Vec<_> = (0..32).map(store).collect();
        held.push(stores.remove(8));
        let conflict = stores.remove(7);
        for store in stores {
            store.await??;
        }
        check(&conflict.await?.expect_err("a key that is taken"), ErrorKind::Conflict, "another trigger or space");
        assert!(provider.get(taken).await?.is_some() && !held.iter().any(JoinHandle::is_finished));
        lock.rollback().await?;
        for store in held {
            assert_eq!(store.await??, first);
        }
        Ok(())
    })
}

/// A statement that the server aborts in favour of another is run again; each update succeeds in the end.
pub(crate) fn lost_race() -> Case {
    const WRITERS: u32 = 8;
    const GIVES_WAY: &str = "
        CREATE SEQUENCE agent_memory.writes;
        CREATE OR REPLACE FUNCTION agent_memory.check_writer() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF nextval('agent_memory.writes') % 3 = 0 THEN
                RAISE EXCEPTION 'could not serialize access' USING ERRCODE = '40001';
            END IF;
            RETURN NULL;
        END $$";
    let server = LocalPostgres::start()?;
    run(async {
        let mut config = config(server.url());
        config.pool_size = const { NonZeroU32::new(WRITERS).unwrap() };
        let provider = Arc::new(open(config).await?);
        let id = provider.store(event("a-b", 1)).await?;
        sqlx::raw_sql(GIVES_WAY).execute(&mut PgConnection::connect(server.url()).await?).await?;
        let mut revisions = 1;
        // Until the server has really refused one.
        loop {
            let patch = |writer| {
                let provider = Arc::clone(&provider);
                let patch = Metadata::parse(&format!(r#"{{"key{writer}":{revisions}}}"#));
                tokio::spawn(async move { provider.update(id, MemoryPatch::new().merge_metadata(patch?)).await })
            };
            for task in (0..WRITERS).map(patch).collect::<Vec<_>>() {
                task.await??;
            }
            revisions += u64::from(WRITERS);
            assert_eq!(provider.get(id).await?.map(|memory| memory.revision.get()), Some(revisions));
            if std::fs::read_to_string(server.folder().join("log"))?.contains("could not serialize access") {
                return Ok(());
            }
        }
    })
}

/// Whether [`full_disk`] can have its disk.
pub(crate) fn can_mount() -> bool {
    SmallDisk::mount().is_some()
}

pub(crate) fn full_disk() -> Case {
    let server = LocalPostgres::start()?;
    let disk = SmallDisk::mount().ok_or("the disk can't be mounted")?;
    let done = run(async {
        let mut admin = PgConnection::connect(server.url()).await?;
        let folder = disk.0.join("tablespace");
        std::fs::create_dir(&folder)?;
        let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(server.folder())?);
        std::os::unix::fs::chown(&folder, Some(owner), None)?;
        let sql = format!("CREATE TABLESPACE small LOCATION '{}'", folder.display());
        admin.execute(AssertSqlSafe(sql)).await?;
        admin.execute("CREATE DATABASE small TABLESPACE small").await?;
        let mut config = config(server.url());
        config.server.database = Some("small".to_owned());
        let provider = open(config).await?;

        let large = |number| {
            // Half of it is random, so that compression can't shrink it to nothing.
            let text: String = (0..50_000).map(|_| uuid::Uuid::now_v7().simple().to_string()).collect();
            let mut event = event("a-b", number);
            event.trigger = Trigger::parse(&format!(r#"{{"text":"{text}"}}"#)).expect("valid");
            event
        };
        let mut stored = Vec::new();
        let full = loop {
            match provider.store(large(stored.len() as i64)).await {
                Ok(id) => stored.insert(0, id),
                Err(error) => break error,
            }
        };
        check(&full, ErrorKind::Unavailable, "the disk of the server is full");
        assert_eq!(full.outcome(), Outcome::NotDone);
        assert!(full.is_retryable() && !stored.is_empty());
        let there =
            || async { Ok::<_, Error>(all(&provider).await?.iter().map(|memory| memory.id).collect::<Vec<_>>()) };
        assert_eq!(there().await?, stored);

        // There is room again.
        std::fs::remove_file(disk.0.join("ballast"))?;
        stored.insert(0, provider.store(large(stored.len() as i64)).await?);
        assert_eq!(there().await?, stored);
        provider.shutdown().await?;
        Ok(())
    });
    drop(server);
    done
}

/// A disk in memory of 24 MiB, 8 of them taken by a file named `ballast`. Goes when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let folder = std::env::temp_dir().join(format!("memory-test-disk-{}", std::process::id()));
        std::fs::create_dir(&folder).ok()?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=24m", "tmpfs"]).arg(&folder);
        if !mount.output().is_ok_and(|output| output.status.success()) {
            let _ = std::fs::remove_dir(&folder);
            return None;
        }
        let disk = Self(folder);
        std::fs::write(disk.0.join("ballast"), vec![0; 8 << 20]).ok()?;
        Some(disk)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).output();
        let _ = std::fs::remove_dir(&self.0);
    }
}

async fn init(config: PostgresConfig) -> Error {
    PostgresMemory::open(config).expect("a provider").init().await.expect_err("a refusal")
}
