//! The servers that engines are tested on: they start, answer, survive a crash, and leave nothing behind.

use std::collections::HashSet;
use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader};
use std::panic;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use conformance::server::mongo::LocalMongo;
use conformance::server::postgres::{LocalPostgres, PgBouncer};
use conformance::server::redis::{LocalRedis, LocalSentinel};
use conformance::server::redis_cluster::RedisCluster;
use conformance::server::{TestServer, trial};
use libtest_mimic::Arguments;

/// Makes this program start a server, print its process and its folder, and wait to be killed.
const VICTIM: &str = "MEMORY_TEST_SERVER_VICTIM";

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

fn main() -> ExitCode {
    if std::env::var_os(VICTIM).is_some() {
        return wait_to_be_killed();
    }
    let trials = vec![
        trial("postgres::answers_and_is_gone_with_its_guard", answers_and_is_gone_with_its_guard),
        trial("postgres::is_gone_after_a_panic", is_gone_after_a_panic),
        trial("postgres::is_gone_after_the_program_was_killed", is_gone_after_the_program_was_killed),
        trial("postgres::comes_back_with_its_data_after_a_crash", comes_back_with_its_data_after_a_crash),
        trial("postgres::takes_settings_and_reports_wrong_ones", takes_settings_and_reports_wrong_ones),
        trial("postgres::sorts_in_another_order_than_bytes", sorts_in_another_order_than_bytes),
        trial("postgres::is_found_for_a_whole_program", is_found_for_a_whole_program),
        trial("pgbouncer::shares_few_connections_among_many_clients", shares_few_connections_among_many_clients),
        trial("redis::answers_and_is_gone_with_its_guard", redis_answers_and_is_gone_with_its_guard),
        trial("redis::comes_back_with_its_data_after_a_crash", redis_comes_back_with_its_data_after_a_crash),
        trial("redis::takes_settings_and_reports_wrong_ones", redis_takes_settings_and_reports_wrong_ones),
        trial("redis::is_found_for_a_whole_program", redis_is_found_for_a_whole_program),
        trial("redis-sentinel::knows_the_replicas", sentinel_knows_the_replicas),
        trial("redis-cluster::moves_slots_and_replaces_a_primary", cluster_moves_slots_and_replaces_a_primary),
        trial("mongo::is_gone_with_its_guard", mongo_is_gone_with_its_guard),
        trial("mongo::elects_another_primary", mongo_elects_another_primary),
        trial("mongo::reports_wrong_arguments", mongo_reports_wrong_arguments),
        trial("mongo::is_found_for_a_whole_program", mongo_is_found_for_a_whole_program),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn answers_and_is_gone_with_its_guard() -> Outcome {
    let server = LocalPostgres::start()?;
    assert_eq!(query(&server, server.url(), "SELECT 1 + 1")?, "2");
    assert_eq!(query(&server, server.url(), "SHOW fsync")?, "on");
    let remains = Remains::of(&server);
    assert!(remains.is_running() && remains.folder.exists(), "{remains:?}");
    drop(server);
    assert!(!remains.exist(), "{remains:?}");
    Ok(())
}

fn is_gone_after_a_panic() -> Outcome {
    let server = LocalPostgres::start()?;
    let remains = Remains::of(&server);
    let panicked = thread::spawn(move || {
        let _server = server;
        // Unwinds as a panic does, without its message in the output.
        panic::resume_unwind(Box::new("on purpose"));
    });
    assert!(panicked.join().is_err());
    assert!(!remains.exist(), "{remains:?}");
    Ok(())
}

fn is_gone_after_the_program_was_killed() -> Outcome {
    let mut victim = Command::new(std::env::current_exe()?).env(VICTIM, "1").stdout(Stdio::piped()).spawn()?;
    let output = victim.stdout.take().ok_or("no output")?;
    let mut lines = BufReader::new(output).lines();
    let id = lines.next().ok_or("no process id")??.parse()?;
    let remains = Remains { id, folder: PathBuf::from(lines.next().ok_or("no folder")??) };
    assert!(remains.is_running() && remains.folder.exists(), "{remains:?}");
    victim.kill()?;
    victim.wait()?;
    eventually("the server and its folder are gone", || !remains.exist())
}

fn comes_back_with_its_data_after_a_crash() -> Outcome {
    let mut server = LocalPostgres::start()?;
    let url = server.url().to_owned();
    query(&server, &url, "CREATE TABLE kept (id int)")?;
    for round in 1..=3 {
        query(&server, &url, &format!("INSERT INTO kept VALUES ({round})"))?;
        let before = Remains::of(&server);
        server.kill()?;
        assert!(!before.is_running(), "{before:?}");
        assert_eq!(server.process_id(), None);
        assert!(query(&server, &url, "SELECT 1").is_err(), "a killed server answers");
        server.restart()?;
        assert_eq!(server.url(), url);
        assert_eq!(query(&server, &url, "SELECT count(*) FROM kept")?, round.to_string());
    }
    Ok(())
}

fn takes_settings_and_reports_wrong_ones() -> Outcome {
    let server = LocalPostgres::start_with(&[("max_connections", "7"), ("work_mem", "5MB")])?;
    assert_eq!(query(&server, server.url(), "SHOW max_connections")?, "7");
    assert_eq!(query(&server, server.url(), "SHOW work_mem")?, "5MB");
    let missing = LocalPostgres::start_with(&[("no_such_setting", "1")]).err().ok_or("it started")?;
    assert!(missing.reason().contains("no_such_setting"), "{missing}");
    Ok(())
}

fn sorts_in_another_order_than_bytes() -> Outcome {
    let server = LocalPostgres::start()?;
    assert_eq!(query(&server, server.url(), "SHOW server_encoding")?, "UTF8");
    assert_eq!(query(&server, server.url(), "SELECT 'a' < 'B', 'a' < 'B' COLLATE \"C\"")?, "t|f");
    Ok(())
}

fn is_found_for_a_whole_program() -> Outcome {
    let shared = TestServer::postgres()?;
    let local = LocalPostgres::start()?;
    assert_eq!(query(&local, shared.url(), "SELECT 1 + 1")?, "2");
    Ok(())
}

fn shares_few_connections_among_many_clients() -> Outcome {
    let server = LocalPostgres::start()?;
    let pooler = PgBouncer::start(server.url())?;
    let connections = thread::scope(|scope| {
        let client =
            || query(&server, pooler.url(), "SELECT pg_backend_pid() FROM pg_sleep(0.01)").map_err(|e| e.to_string());
        let clients: Vec<_> = (0..32).map(|_| scope.spawn(client)).collect();
        clients
            .into_iter()
            .map(|client| client.join().map_err(|_| "a panic".to_owned())?)
            .collect::<Result<Vec<_>, _>>()
    })?;
    let different: HashSet<_> = connections.iter().collect();
    assert!(different.len() <= 8, "{} connections for {} clients", different.len(), connections.len());
    Ok(())
}

fn mongo_is_gone_with_its_guard() -> Outcome {
    let server = LocalMongo::start()?;
    assert_eq!(server.primary()?, 0);
    let id = server.process_id(0).ok_or("it does not run")?;
    let remains = Remains { id, folder: server.folder(0).to_owned() };
    assert!(remains.is_running() && remains.folder.exists(), "{remains:?}");
    drop(server);
    assert!(!remains.exist(), "{remains:?}");
    Ok(())
}

fn mongo_elects_another_primary() -> Outcome {
    let mut set = LocalMongo::start_with(3, &[])?;
    let url = set.url();
    let first = set.primary()?;
    set.kill(first)?;
    assert_eq!(set.process_id(first), None);
    let second = set.primary()?;
    assert_ne!(second, first);
    set.restart(first)?;
    assert!(set.process_id(first).is_some());
    assert_eq!(set.url(), url);
    Ok(())
}

fn mongo_reports_wrong_arguments() -> Outcome {
    let missing = LocalMongo::start_with(1, &["--noSuchArgument"]).err().ok_or("it started")?;
    assert!(missing.reason().contains("noSuchArgument"), "{missing}");
    Ok(())
}

fn mongo_is_found_for_a_whole_program() -> Outcome {
    assert!(TestServer::mongo()?.url().starts_with("mongodb://"));
    Ok(())
}

fn redis_answers_and_is_gone_with_its_guard() -> Outcome {
    let server = LocalRedis::start()?;
    assert_eq!(server.command(&["PING"])?, "PONG");
    let remains = Remains { id: server.process_id().ok_or("it runs")?, folder: server.folder().to_owned() };
    assert!(remains.is_running() && remains.folder.exists(), "{remains:?}");
    drop(server);
    assert!(!remains.exist(), "{remains:?}");
    Ok(())
}

fn redis_comes_back_with_its_data_after_a_crash() -> Outcome {
    let mut server = LocalRedis::start_with(&[("appendonly", "yes"), ("appendfsync", "always")])?;
    let url = server.url();
    for round in 1..=3 {
        assert_eq!(server.command(&["INCR", "rounds"])?, round.to_string());
        server.kill()?;
        assert_eq!(server.process_id(), None);
        assert!(server.command(&["PING"]).is_err(), "a killed server answers");
        server.restart()?;
        assert_eq!(server.url(), url);
    }
    Ok(())
}

fn redis_takes_settings_and_reports_wrong_ones() -> Outcome {
    let server = LocalRedis::start_with(&[("maxclients", "77")])?;
    assert!(server.command(&["CONFIG", "GET", "maxclients"])?.contains("77"));
    let missing = LocalRedis::start_with(&[("no-such-setting", "1")]).err().ok_or("it started")?;
    assert!(missing.reason().contains("no-such-setting"), "{missing}");
    Ok(())
}

fn redis_is_found_for_a_whole_program() -> Outcome {
    let shared = TestServer::redis()?;
    assert!(shared.url().starts_with("redis"), "{}", shared.url());
    Ok(())
}

fn sentinel_knows_the_replicas() -> Outcome {
    let primary = LocalRedis::start()?;
    let _replica = LocalRedis::start_replica(&primary)?;
    let sentinel = LocalSentinel::start(&primary)?;
    eventually("the sentinel knows the replica", || sentinel.replicas().is_ok_and(|count| count == 1))
}

fn cluster_moves_slots_and_replaces_a_primary() -> Outcome {
    let mut cluster = RedisCluster::start_with(&[("cluster-node-timeout", "1000")])?;
    let (key, before) = ("{here}:x", cluster.primary_of("{here}")?);
    cluster.move_slots(0, 1, 50)?;
    cluster.move_slots(1, 2, 50)?;
    cluster.kill(before)?;
    eventually("a replica takes over", || cluster.primary_of(key).is_ok_and(|port| port != before))?;
    cluster.restart(before)?;
    assert_ne!(cluster.primary_of(key)?, before);
    Ok(())
}

fn wait_to_be_killed() -> ExitCode {
    match LocalPostgres::start() {
        Ok(server) => {
            let remains = Remains::of(&server);
            println!("{}\n{}", remains.id, remains.folder.display());
            loop {
                thread::park();
            }
        }
        Err(missing) => {
            eprintln!("{missing}");
            ExitCode::FAILURE
        }
    }
}

/// The traces that a server must not leave.
#[derive(Debug)]
struct Remains {
    id: u32,
    folder: PathBuf,
}

impl Remains {
    fn of(server: &LocalPostgres) -> Self {
        let id = server.process_id().expect("it runs");
        Self { id, folder: server.folder().to_owned() }
    }

    fn is_running(&self) -> bool {
        // A process that has ended and was not waited for still has a folder there, but no command line.
        fs::read(format!("/proc/{}/cmdline", self.id)).is_ok_and(|command_line| !command_line.is_empty())
    }

    fn exist(&self) -> bool {
        self.is_running() || self.folder.exists()
    }
}

/// The single row that a query returns.
fn query(client: &LocalPostgres, url: &str, statement: &str) -> Result<String, Box<dyn Error + Send + Sync>> {
    let arguments = ["--no-psqlrc", "--tuples-only", "--no-align", "--command", statement, "--dbname", url];
    let output = Command::new(client.binaries().join("psql")).args(arguments).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn eventually(what: &str, condition: impl Fn() -> bool) -> Outcome {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        if Instant::now() > deadline {
            return Err(format!("not in good time: {what}").into());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
