//! The feed under kills. Programs write, one of them through `agent-memory serve`; others watch, and record each change
//! with its token. All of them, `serve` and the engine's own server are killed again and again, and continue where they
//! were. In the end each watch has delivered everything that was acknowledged, and in order.
//!
//! The programs are this test again, with a role. `MEMORY_TEST_KILLS` sets the number of kills on each engine; 20 by
//! default.

#[path = "../common/mod.rs"]
mod common;
mod consumer;
mod journal;
mod judge;
mod writer;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use conformance::CaseResult;
use conformance::fault::Server as EngineServer;
use conformance::server::mongo::LocalMongo;
use conformance::server::postgres::LocalPostgres;
use conformance::server::redis::LocalRedis;
use conformance::server::trial;
use libtest_mimic::Arguments;
use memory_core::WatchFrom;
use tokio::runtime::Runtime;

use crate::common::server::Server;
use crate::common::{Cli, PATIENCE, Random};
use crate::judge::Seen;
use crate::writer::Door;

/// The role of a program, its target, and the folder of its files.
const ROLE: &str = "MEMORY_TEST_ROLE";
const URL: &str = "MEMORY_TEST_URL";
const FOLDER: &str = "MEMORY_TEST_FOLDER";
/// How often something is killed on each engine.
const KILLS: &str = "MEMORY_TEST_KILLS";
/// The longest time before the next kill, in milliseconds.
const PAUSE: usize = 150;
/// The file that tells writers to end, and the file with the address of `serve`.
const STOP: &str = "stop";
const ADDRESS: &str = "address";

/// The programs, by their roles, which are also the names of their journals. The second watching program begins with a
/// snapshot, when there are some records.
const WRITERS: [&str; 2] = ["writes", "writes-served"];
const CONSUMERS: [&str; 2] = ["watches", "watches-all"];

fn main() -> ExitCode {
    if let (Ok(role), Ok(url), Some(folder)) = (env::var(ROLE), env::var(URL), env::var_os(FOLDER)) {
        let lived = Runtime::new().map_err(Into::into).and_then(|runtime| runtime.block_on(live(&role, &url, folder)));
        if let Err(error) = &lived {
            eprintln!("{role}: {error:?}");
        }
        return if lived.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let trials = vec![
        trial("judge::finds_gaps_and_disorders", judge::finds_gaps_and_disorders),
        trial("sqlite::a_feed_loses_nothing_by_kills", || {
            let cli = Cli::new();
            let url = format!("sqlite://{}", cli.path("memory.db").display());
            check(&cli, &url, None)
        }),
        trial("postgres::a_feed_loses_nothing_by_kills", || on_server(Box::new(LocalPostgres::start()?))),
        trial("redis::a_feed_loses_nothing_by_kills", || {
            let durable = [("appendonly", "yes"), ("appendfsync", "always")];
            on_server(Box::new(LocalRedis::start_with(&durable)?))
        }),
        trial("mongo::a_feed_loses_nothing_by_kills", || on_server(Box::new(LocalMongo::start()?))),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn on_server(server: Box<dyn EngineServer>) -> CaseResult {
    let url = server.url();
    check(&Cli::new(), &url, Some(server))
}

/// The life of a program.
async fn live(role: &str, url: &str, folder: impl AsRef<Path>) -> CaseResult {
    let file = |name: &str| folder.as_ref().join(name);
    let journal = file(role);
    if let Some(number) = WRITERS.iter().position(|writer| *writer == role) {
        let door = Door::of(url, (number == 1).then(|| file(ADDRESS))).await?;
        return writer::write(role, door, &journal, &file(STOP)).await;
    }
    let first = if role == CONSUMERS[0] { WatchFrom::Now } else { WatchFrom::Beginning };
    consumer::consume(url, &journal, first).await
}

/// What can be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Program(usize),
    Served,
    Engine,
}

fn check(cli: &Cli, url: &str, engine: Option<Box<dyn EngineServer>>) -> CaseResult {
    let kills = env::var(KILLS).map_or(Ok(20), |kills| kills.parse::<usize>())?;
    let (mut random, start) = (Random::new(), Instant::now());
    let scheme = url.split(':').next().unwrap_or_default();
    println!("{scheme}: {random:?}");
    cli.ok(&["--url", url, "migrate"]);
    let mut stage = Stage { cli, url, engine, served: None, programs: Vec::new() };
    stage.serve()?;
    // The first watch begins before anything is written.
    stage.start(CONSUMERS[0])?;
    let journal = stage.journal(0);
    stage.wait("a watch begins", || journal::size(&journal) > 0);
    for writer in WRITERS {
        stage.start(writer)?;
    }
    stage.grown();
    stage.start(CONSUMERS[1])?;
    stage.grown();

    let victims = [Victim::Program(0), Victim::Program(1), Victim::Program(2), Victim::Program(3), Victim::Served];
    let mut victims = victims.to_vec();
    victims.extend(stage.engine.iter().map(|_| Victim::Engine));
    let mut killed = 0;
    for _ in 0..kills {
        // At any moment of their calls.
        thread::sleep(Duration::from_millis(random.below(PAUSE) as u64));
        let victim = victims[random.below(victims.len())];
        killed += usize::from(victim == Victim::Engine);
        stage.kill(victim)?;
        stage.grown();
    }
    fs::write(cli.path(STOP), "")?;
    let told = stage.judge()?;
    println!(
        "{scheme}: {kills} kills, {killed} of them of the engine's server; {told}; 0 gaps, 0 disorders; {:.1?}",
        start.elapsed()
    );
    Ok(())
}

/// All that runs.
struct Stage<'c> {
    cli: &'c Cli,
    url: &'c str,
    engine: Option<Box<dyn EngineServer>>,
    served: Option<Server>,
    programs: Vec<Program>,
}

/// A program, killed when it is dropped.
struct Program {
    role: &'static str,
    child: Child,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Stage<'_> {
    /// Starts `serve`, and writes its address to a file.
    fn serve(&mut self) -> CaseResult {
        let mut command = self.cli.command();
        command.env("AGENT_MEMORY_URL", self.url);
        let served = Server::start_as(command, &[]);
        // Nobody reads half of it.
        let new = self.cli.write("new-address", &served.address);
        fs::rename(new, self.cli.path(ADDRESS))?;
        self.served = Some(served);
        Ok(())
    }

    fn start(&mut self, role: &'static str) -> CaseResult {
        let child = self.spawn(role)?;
        self.programs.push(Program { role, child });
        Ok(())
    }

    fn spawn(&self, role: &str) -> std::io::Result<Child> {
        let mut command = Command::new(env::current_exe()?);
        command.env(ROLE, role).env(URL, self.url).env(FOLDER, self.cli.path("")).spawn()
    }

    fn kill(&mut self, victim: Victim) -> CaseResult {
        match victim {
            Victim::Program(number) => {
                let role = self.programs[number].role;
                let program = &mut self.programs[number];
                program.child.kill()?;
                program.child.wait()?;
                let child = self.spawn(role)?;
                self.programs[number] = Program { role, child };
            }
            Victim::Served => {
                self.served = None;
                self.serve()?;
            }
            Victim::Engine => {
                let engine = self.engine.as_mut().ok_or("it has no server")?;
                engine.kill()?;
                engine.restart()?;
            }
        }
        Ok(())
    }

    fn journal(&self, program: usize) -> PathBuf {
        self.cli.path(self.programs[program].role)
    }

    /// Waits until each program has gone on from here.
    fn grown(&mut self) {
        let journals: Vec<_> = (0..self.programs.len()).map(|program| self.journal(program)).collect();
        let before: Vec<_> = journals.iter().map(|journal| journal::size(journal)).collect();
        self.wait("all programs go on", || {
            journals.iter().zip(&before).all(|(journal, before)| journal::size(journal) > *before)
        });
    }

    /// Waits until a condition holds. No program may end by itself meanwhile.
    fn wait(&mut self, what: &str, is_so: impl Fn() -> bool) {
        let limit = Instant::now() + PATIENCE;
        while !is_so() {
            for program in &mut self.programs {
                let ended = program.child.try_wait().expect("a child");
                assert!(ended.is_none(), "{} has ended: {ended:?}", program.role);
            }
            assert!(Instant::now() < limit, "in vain: {what}");
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Compares the delivered changes with the records, once the writers have ended and the watches have delivered the
    /// rest.
    fn judge(&mut self) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
        for program in &mut self.programs {
            if WRITERS.contains(&program.role) {
                assert!(program.child.wait()?.success(), "{} failed", program.role);
            }
        }
        let runtime = Runtime::new()?;
        let provider = runtime.block_on(consumer::opened(self.url))?;
        let limit = Instant::now() + PATIENCE;
        let seen = loop {
            let there = runtime.block_on(judge::there(&*provider))?;
            let journals = CONSUMERS.map(|role| journal::read::<consumer::Told>(&self.cli.path(role)));
            let seen = journals.iter().map(|journal| Seen::of(journal)).collect::<Result<Vec<_>, _>>()?;
            let gaps: Vec<_> = seen.iter().flat_map(|seen| seen.gaps(&there)).collect();
            if gaps.is_empty() {
                let told = journals.map(|journal| journal.len());
                break (seen, told, there.len());
            }
            assert!(Instant::now() < limit, "the feed has gaps: {gaps:?}");
            thread::sleep(Duration::from_millis(20));
        };
        let (seen, told, there) = seen;
        let mut acknowledged = 0;
        for writer in WRITERS {
            let calls = journal::read::<writer::Called>(&self.cli.path(writer));
            let untold = seen[0].untold(&calls);
            assert!(untold.is_empty(), "acknowledged to {writer}, and not told: {untold:?}");
            acknowledged += calls.iter().filter(|call| call.end != writer::End::Nothing).count();
        }
        runtime.block_on(provider.shutdown())?;
        Ok(format!("{acknowledged} changes acknowledged, {there} records, {told:?} changes told"))
    }
}
