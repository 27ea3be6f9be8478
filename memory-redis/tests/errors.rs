//! One provoked error for each kind that Redis' own are mapped to.

use std::process::ExitCode;
use std::time::Duration;

use conformance::server::redis::LocalRedis;
use conformance::server::trial;
use libtest_mimic::Arguments;
use memory_core::{
    Context, Error, ErrorKind, IdempotencyKey, MemoryId, MemoryPatch, MemoryProvider, MemoryQuery, Outcome, Status,
};
use memory_redis::{Login, Password, RedisConfig, RedisMemory};
use uuid::Uuid;

mod common;
use common::{Admin, Case, event, open, run};

/// Stands in payloads and passwords; no error may show it.
const SECRET: &str = common::PAYLOAD;

fn main() -> ExitCode {
    let trials = vec![
        trial("redis::a_wrong_password_is_unauthorized", || run(a_wrong_password_is_unauthorized())),
        trial("redis::a_missing_permission_is_unauthorized", || run(a_missing_permission_is_unauthorized())),
        trial("redis::an_error_behind_a_write_leaves_it_unknown", || run(an_error_behind_a_write_leaves_it_unknown())),
        trial("redis::a_refusal_leaves_no_half_of_a_script", || run(a_refusal_leaves_no_half_of_a_script())),
        trial("redis::a_primary_that_steps_down_leaves_it_unknown", || {
            run(a_primary_that_steps_down_leaves_it_unknown())
        }),
        trial(
            "redis::what_the_server_cannot_take_is_unavailable",
            || run(what_the_server_cannot_take_is_unavailable()),
        ),
        trial("redis::a_read_only_replica_is_unavailable", || run(a_read_only_replica_is_unavailable())),
        trial("redis::a_server_that_loads_is_unavailable", || run(a_server_that_loads_is_unavailable())),
        trial("redis::a_script_that_is_killed_has_done_nothing", || run(a_script_that_is_killed_has_done_nothing())),
        trial("redis::a_slot_that_is_not_served_is_unavailable", || run(a_slot_that_is_not_served_is_unavailable())),
        trial("redis::a_single_server_is_no_cluster", || run(a_single_server_is_no_cluster())),
        trial("redis::a_value_of_another_type_is_corrupt", || run(a_value_of_another_type_is_corrupt())),
        trial("redis::a_row_that_is_cut_anywhere_is_corrupt", || run(a_row_that_is_cut_anywhere_is_corrupt())),
        trial("redis::an_operator_waits_no_longer_than_a_call", || run(an_operator_waits_no_longer_than_a_call())),
        trial("redis::nobody_at_the_port_is_unavailable", || run(nobody_at_the_port_is_unavailable())),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

async fn a_wrong_password_is_unauthorized() -> Case {
    let server = LocalRedis::start()?;
    for (user, password) in
        [(None, Some(format!("{SECRET}-wrong"))), (None, None), (Some("nobody"), Some(SECRET.into()))]
    {
        let mut config = config(&server.url());
        config.login = Login { user: user.map(str::to_owned), password: password.map(Password) };
        check(&refused(config).await, ErrorKind::Unauthorized, "refused the user or the password");
    }
    Ok(())
}

async fn a_missing_permission_is_unauthorized() -> Case {
    let server = LocalRedis::start_with(&[("appendonly", "yes")])?;
    open(config(&server.url())).await?.shutdown().await?;
    // Without the right to read the configuration, and without rights on the keys of another namespace.
    let rights = ["+@read", "+@write", "+@transaction", "+eval", "+evalsha", "+script|load", "+info"];
    let password = format!(">{SECRET}");
    let user = ["ACL", "SETUSER", "guest", "on", &password, "~{agent_memory}:*"];
    server.command(&[&user[..], &rights].concat())?;
    let mut guest = config(&server.url());
    guest.login = Login { user: Some("guest".to_owned()), password: Some(Password(SECRET.to_owned())) };
    let provider = open(guest.clone()).await?;
    provider.store(event("a-b", 1)).await?;
    let health = provider.check_health().await?;
    assert!(health.durability.to_string().starts_with("unknown"), "{}", health.durability);
    // The output of `INFO` is enough to recognize a risk.
    for (setting, value, risk) in [
        ("appendonly", "no", "at risk: appendonly is off"),
        ("maxmemory-policy", "allkeys-lfu", "at risk: appendonly is off"),
        ("maxmemory", "1gb", "at risk: maxmemory-policy lets the server drop keys"),
    ] {
        server.command(&["CONFIG", "SET", setting, value])?;
        assert_eq!(provider.check_health().await?.durability.to_string(), risk, "{setting}");
    }
    guest.namespace = "elsewhere".to_owned();
    check(&refused(guest).await, ErrorKind::Unauthorized, "lacks a permission");
    server.command(&["ACL", "SETUSER", "guest", "-zadd"])?;
    let error = provider.store(event("a-b", 2)).await.expect_err("no permission to write");
    check(&error, ErrorKind::Unauthorized, "lacks a permission");
    // An error in the middle of a script, which is not rolled back.
    assert_eq!(error.outcome(), Outcome::Unknown);
    let query = MemoryQuery::builder().all().build()?;
    assert_eq!(provider.query(&query).await?.memories.len(), 1, "half of a memory was stored");
    Ok(())
}

/// A command that is refused after a write in the same pipeline, in the middle of a script, or among scripts of which
/// others were executed.
async fn an_error_behind_a_write_leaves_it_unknown() -> Case {
    let server = LocalRedis::start()?;
    let all = open(config(&server.url())).await?;
    let password = format!(">{SECRET}");
    server.command(&["ACL", "SETUSER", "guest", "on", &password, "~{agent_memory}:*", "+@all", "-wait"])?;
    let mut guest = config(&format!("{}?wait_replicas=1", server.url()));
    guest.login = Login { user: Some("guest".to_owned()), password: Some(Password(SECRET.to_owned())) };
    let unknown = |error: &Error| {
        check(error, ErrorKind::Unauthorized, "lacks a permission");
        assert_eq!(error.outcome(), Outcome::Unknown, "{error:?}");
    };
    // Not only scripts write: `init` stores the secret of a new namespace, and of a migrated one.
    server.command(&["DEL", "{agent_memory}:secret"])?;
    unknown(&refused(guest.clone()).await);
    assert!(!server.command(&["GET", "{agent_memory}:secret"])?.is_empty(), "it was written all the same");
    // Everything exists now, so `init` writes nothing.
    let waiting = open(guest.clone()).await?;
    unknown(&waiting.store(event("a-b", 1)).await.expect_err("no permission to wait"));
    let query = MemoryQuery::builder().all().build()?;
    assert_eq!(all.query(&query).await?.memories.len(), 1, "it was stored all the same");

    guest.wait = None;
    let provider = open(guest).await?;
    server.command(&["ACL", "SETUSER", "guest", "-zadd"])?;
    let keyed = event("a-b", 2).with_idempotency_key(IdempotencyKey::parse("k")?);
    unknown(&provider.store(keyed).await.expect_err("no permission to index"));

    // The first exists already and needs no index, and the second does.
    let present = all.query(&query).await?.memories.remove(0);
    let absent = event("a-b", 3).into_memory(MemoryId::generate());
    unknown(&provider.restore(vec![present, absent]).await.expect_err("no permission to index"));
    Ok(())
}

/// One script is refused as a whole, and the next before its first write, since it asks for its permissions.
async fn a_refusal_leaves_no_half_of_a_script() -> Case {
    let server = LocalRedis::start()?;
    let all = open(config(&server.url())).await?;
    let password = format!(">{SECRET}");
    let keys = ["~{agent_memory}:[^n]*", "~{agent_memory}:n", "~{agent_memory}:n:a"];
    let rights = ["+@all", "-mset"];
    server.command(&[&["ACL", "SETUSER", "guest", "on", &password][..], &keys, &rights].concat())?;
    let mut guest = config(&server.url());
    guest.login = Login { user: Some("guest".to_owned()), password: Some(Password(SECRET.to_owned())) };
    let guest = open(guest).await?;
    // The keys of the one are forbidden, and the rows of the other.
    let memories = ["b-b", "a-b"].map(|space| event(space, 1).into_memory(MemoryId::generate()));
    let error = guest.restore(memories.into()).await.expect_err("no permission");
    check(&error, ErrorKind::Unauthorized, "lacks a permission");
    assert_eq!(error.outcome(), Outcome::NotDone, "{error:?}");
    for node in ["{agent_memory}:n:a", "{agent_memory}:n:b"] {
        assert_eq!(server.command(&["EXISTS", node])?, "0", "a script has written");
    }
    assert_eq!(all.query(&MemoryQuery::builder().all().build()?).await?.memories.len(), 0);
    Ok(())
}

/// While a write waits for a replica, the server becomes one: it has the write, and nobody knows for how long.
async fn a_primary_that_steps_down_leaves_it_unknown() -> Case {
    let server = LocalRedis::start()?;
    let provider = open(config(&server.url())).await?;
    let id = provider.store(event("a-b", 1)).await?;
    let waiting = open(config(&format!("{}?wait_replicas=1&wait_timeout_ms=3600000", server.url()))).await?;
    let update =
        tokio::spawn(async move { waiting.update(id, MemoryPatch::new().with_status(Status::Completed)).await });
    while !server.command(&["INFO", "clients"])?.contains("blocked_clients:1") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.command(&["REPLICAOF", "127.0.0.1", "1"])?;
    let error = update.await?.expect_err("it waits no more");
    check(&error, ErrorKind::Unavailable, "not the primary any more");
    assert!(error.is_retryable() && error.outcome() == Outcome::Unknown, "{error:?}");
    server.command(&["REPLICAOF", "NO", "ONE"])?;
    assert_eq!(provider.get(id).await?.ok_or("gone")?.revision.get(), 2, "it was done, once");
    Ok(())
}

async fn what_the_server_cannot_take_is_unavailable() -> Case {
    let server = LocalRedis::start()?;
    let provider = open(config(&server.url())).await?;
    for (setting, message) in
        [(["maxmemory", "1"], "out of memory"), (["min-replicas-to-write", "1"], "too few replicas")]
    {
        server.command(&["CONFIG", "SET", setting[0], setting[1]])?;
        let error = provider.store(event("a-b", 1)).await.expect_err(message);
        check(&error, ErrorKind::Unavailable, message);
        assert!(error.is_retryable() && error.outcome() == Outcome::NotDone, "{error:?}");
        server.command(&["CONFIG", "SET", setting[0], "0"])?;
        provider.store(event("a-b", 1)).await?;
    }
    // The server sends the error and closes the connection, and either may be noticed first.
    server.command(&["CONFIG", "SET", "maxclients", "1"])?;
    check(&refused(config(&server.url())).await, ErrorKind::Unavailable, "connection");
    Ok(())
}

async fn a_read_only_replica_is_unavailable() -> Case {
    let server = LocalRedis::start()?;
    let provider = open(config(&server.url())).await?;
    // The primary does not exist, so the server keeps its data.
    server.command(&["CONFIG", "SET", "replica-serve-stale-data", "yes"])?;
    server.command(&["REPLICAOF", "127.0.0.1", "1"])?;
    let error = provider.store(event("a-b", 1)).await.expect_err("a replica");
    check(&error, ErrorKind::Unavailable, "read-only replica");
    assert_eq!(error.outcome(), Outcome::NotDone);
    server.command(&["REPLICAOF", "NO", "ONE"])?;
    provider.store(event("a-b", 1)).await?;
    Ok(())
}

async fn a_server_that_loads_is_unavailable() -> Case {
    let server = LocalRedis::start_with(&[("enable-debug-command", "yes")])?;
    let mut config = config(&server.url());
    config.connect_timeout = Duration::from_millis(100);
    let provider = open(config).await?;
    for time in 0..300 {
        provider.store(event("a-b", time)).await?;
    }
    // In microseconds: loading the rows takes some seconds, during which the server answers other clients.
    server.command(&["CONFIG", "SET", "key-load-delay", "10000"])?;
    server.command(&["CONFIG", "SET", "loading-process-events-interval-bytes", "1024"])?;
    let (reload, refused) = std::thread::scope(|scope| {
        let reload = scope.spawn(|| server.command(&["DEBUG", "RELOAD"]));
        let runtime = tokio::runtime::Handle::current();
        let refused = tokio::task::block_in_place(|| {
            runtime.block_on(async {
                while !reload.is_finished() {
                    if let Err(error) = provider.store(event("a-b", 1)).await {
                        return Some(error);
                    }
                }
                None
            })
        });
        (reload.join(), refused)
    });
    check(&refused.ok_or("the server never refused")?, ErrorKind::Unavailable, "loading its data");
    reload.map_err(|_| "the reload panicked")??;
    provider.store(event("a-b", 1)).await?;
    Ok(())
}

async fn a_script_that_is_killed_has_done_nothing() -> Case {
    let server = LocalRedis::start_with(&[("busy-reply-threshold", "1")])?;
    let provider = open(config(&server.url())).await?;
    // So many keys to look up that the script runs for a long time before it writes.
    let key = |place: i64| {
        IdempotencyKey::parse(Uuid::now_v7().to_string()).map(|key| event("a-b", place).with_idempotency_key(key))
    };
    let batch = || (0..10_000).map(key).collect::<Result<Vec<_>, _>>();
    let killer = Admin::of(&server.url());
    let killing = tokio::spawn(async move {
        loop {
            // Nothing to kill is no failure here.
            let _ = killer.query::<()>(redis::cmd("SCRIPT").arg("KILL")).await;
        }
    });
    let mut stored = 0;
    let error = loop {
        match provider.store_many(batch()?).await {
            Ok(ids) => stored += ids.len(),
            // The server tells other clients, too, that it is busy.
            Err(error) if error.message().contains("busy") => {
                check(&error, ErrorKind::Unavailable, "busy with a script")
            }
            Err(error) => break error,
        }
    };
    check(&error, ErrorKind::Unavailable, "killed");
    assert_eq!(error.outcome(), Outcome::NotDone);
    killing.abort();
    let _ = killing.await;
    let admin = Admin::of(&server.url());
    assert_eq!(admin.query::<usize>(redis::cmd("ZCARD").arg("{agent_memory}:steps")).await?, stored);
    Ok(())
}

async fn a_slot_that_is_not_served_is_unavailable() -> Case {
    let server = LocalRedis::start_with(&[("cluster-enabled", "yes"), ("cluster-require-full-coverage", "no")])?;
    server.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"])?;
    let url = server.url().replace("redis://", "redis+cluster://");
    let provider = loop {
        // The node needs a moment to call itself a cluster.
        match open(patient(&url)).await {
            Ok(provider) => break provider,
            Err(error) => check(&error, ErrorKind::Unavailable, ""),
        }
    };
    let id = provider.store(event("a-b", 1)).await?;
    // As on a node that has only half of the slots: nobody has this half, and later another node has it.
    server.command(&["CLUSTER", "DELSLOTSRANGE", "0", "16383"])?;
    let error = provider.store(event("a-b", 2)).await.expect_err("nobody serves the slot");
    check(&error, ErrorKind::Unavailable, "cluster is down");
    server.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"])?;
    while let Err(error) = provider.get(id).await {
        check(&error, ErrorKind::Unavailable, "cluster is down");
    }

    // A node without slots does not hide the next one, and a node that has left the cluster does not stay the one that is asked.
    let lost = LocalRedis::start_with(&[("cluster-enabled", "yes")])?;
    // Its second password.
    lost.command(&["ACL", "SETUSER", "default", &format!(">{}", server.password())])?;
    let both = url.replace("@", &format!("@127.0.0.1:{},", lost.port()));
    let provider = open(patient(&both)).await?;
    server.command(&["CLUSTER", "DELSLOTSRANGE", "0", "16383"])?;
    let error = provider.get(id).await.expect_err("nobody serves the slot");
    check(&error, ErrorKind::Unavailable, "cluster is down");
    lost.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"])?;
    while let Err(error) = provider.get(id).await {
        check(&error, ErrorKind::Unavailable, "cluster is down");
    }
    lost.command(&["CLUSTER", "DELSLOTSRANGE", "0", "16383"])?;
    server.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"])?;

    // A client that connects to a node as to a single server is told where the slot is.
    let other = LocalRedis::start_with(&[("cluster-enabled", "yes")])?;
    other.command(&["CLUSTER", "MEET", "127.0.0.1", &server.port().to_string()])?;
    let error = loop {
        let error = refused(config(&other.url())).await;
        match error.message().contains("cluster is down") {
            true => check(&error, ErrorKind::Unavailable, ""),
            false => break error,
        }
    };
    check(&error, ErrorKind::Unavailable, "another node");
    Ok(())
}

async fn a_single_server_is_no_cluster() -> Case {
    let server = LocalRedis::start()?;
    let error = refused(patient(&server.url().replace("redis://", "redis+cluster://"))).await;
    check(&error, ErrorKind::Unexpected, "the server refused a command");
    assert_eq!(Admin::of(&server.url()).query::<usize>(&redis::cmd("DBSIZE")).await?, 0, "nothing is written there");
    Ok(())
}

async fn a_value_of_another_type_is_corrupt() -> Case {
    let server = LocalRedis::start()?;
    let provider = open(config(&server.url())).await?;
    // Before the first store it checks the pending steps.
    provider.store(event("a-b", 0)).await?;
    server.command(&["SET", "{agent_memory}:steps", SECRET])?;
    let error = provider.store(event("a-b", 1)).await.expect_err("no sorted set");
    check(&error, ErrorKind::Corrupt, "another type");
    assert_eq!(error.outcome(), Outcome::Unknown);
    let query = MemoryQuery::builder().all().build()?;
    check(&provider.query(&query).await.expect_err("no sorted set"), ErrorKind::Corrupt, "another type");
    Ok(())
}

/// A truncated row is never read as a whole one, and neither is a row that no program has written.
async fn a_row_that_is_cut_anywhere_is_corrupt() -> Case {
    let server = LocalRedis::start()?;
    let (provider, admin) = (open(config(&server.url())).await?, Admin::of(&server.url()));
    let full = event("a-b", 1).with_idempotency_key(IdempotencyKey::parse("k")?);
    let id = provider.store(full.with_context(Context::parse(r#""é""#)?)).await?;
    provider.update(id, MemoryPatch::new().with_status(Status::Observed)).await?;
    let key = [b"{agent_memory}:r:".as_slice(), id.as_bytes()].concat();
    let row: Vec<u8> = admin.query(redis::cmd("GET").arg(&key)).await?;
    let whole = provider.get(id).await?;
    // Rows of older programs end before the time of the store, which takes seven bytes.
    let older = row.len() - 7;
    admin.query::<()>(redis::cmd("SET").arg(&key).arg(&row[..older])).await?;
    assert_eq!(provider.get(id).await?, whole);
    let cuts = (0..row.len()).filter(|end| *end != older).map(|end| &row[..end]);
    for cut in cuts.chain([b"{\"cut".as_slice()]) {
        admin.query::<()>(redis::cmd("SET").arg(&key).arg(cut)).await?;
        let error = provider.get(id).await.expect_err("cut");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "after {} bytes", cut.len());
    }
    admin.query::<()>(redis::cmd("SET").arg(&key).arg(&row)).await?;
    assert_eq!(provider.get(id).await?.ok_or("gone")?.status, Status::Observed);
    Ok(())
}

/// No setting overflows a clock either.
async fn an_operator_waits_no_longer_than_a_call() -> Case {
    let server = LocalRedis::start()?;
    let mut config = config(&server.url());
    config.connect_timeout = Duration::MAX;
    assert_eq!(memory_redis::migrate(&config).await?.now, 8);
    config.deadline = Duration::from_millis(300);
    server.command(&["CLIENT", "PAUSE", "3600000"])?;
    for (name, error, outcome) in [
        ("plan", memory_redis::plan(&config).await.map(drop), Outcome::NotDone),
        ("inspect", memory_redis::inspect(&config).await.map(drop), Outcome::NotDone),
        ("migrate", memory_redis::migrate(&config).await.map(drop), Outcome::Unknown),
        ("remove", memory_redis::remove(&config).await, Outcome::Unknown),
    ] {
        let error = error.expect_err(name);
        check(&error, ErrorKind::Timeout, "no answer within 300 ms");
        assert_eq!((error.outcome(), error.is_retryable()), (outcome, true), "{name}");
    }
    Ok(())
}

async fn nobody_at_the_port_is_unavailable() -> Case {
    for url in ["redis://127.0.0.1:1", "redis+sentinel://127.0.0.1:1/main", "redis+cluster://127.0.0.1:1"] {
        let error = refused(config(url)).await;
        check(&error, ErrorKind::Unavailable, "connection to the server failed");
        assert!(error.is_retryable(), "{error:?}");
    }
    Ok(())
}

/// Settings with short time limits, so that a test waits only briefly for what does not come.
fn config(url: &str) -> RedisConfig {
    let mut config = RedisConfig::from_url(url).expect("the URL of a test server");
    config.connect_timeout = Duration::from_millis(300);
    config
}

/// For a search among nodes, which are slow on a busy machine.
fn patient(url: &str) -> RedisConfig {
    let mut config = config(url);
    config.connect_timeout = Duration::from_secs(2);
    config
}

async fn refused(config: RedisConfig) -> Error {
    RedisMemory::open(config).expect("a provider").init().await.expect_err("a refusal")
}

#[track_caller]
fn check(error: &Error, kind: ErrorKind, message: &str) {
    assert_eq!(error.kind(), kind, "{error:?}");
    assert!(error.message().contains(message), "{error:?}");
    for text in [error.to_string(), format!("{error:?}")] {
        assert!(!text.contains(SECRET), "an error tells a secret: {text}");
    }
}
