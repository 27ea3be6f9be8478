//! One history: its programs, the disturbances of programs and servers, and the last reads.

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fastrand::Rng;
use tokio::runtime::Runtime;

use crate::client::{PAUSE, Part, is_trouble, opened, perform};
use crate::judge::rules::{LAST, feed_gaps};
use crate::log::{Action, Answer, Call, History, How, Line, Outcome, What, is_document, now};
use crate::memory::Memories;
use crate::systems::{PATIENCE, System, pause};
use crate::watcher::Post;
use crate::{Fallible, PART, ROLE};

/// How many programs make calls, and how many clients each of them has.
const PROGRAMS: u32 = 3;
const CLIENTS: u32 = 4;
/// How long a watch may lag in the end.
const FEED_PATIENCE: Duration = Duration::from_secs(20);

/// The events of a history, in an order by its seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    KillsProgram,
    StopsProgram,
    DisturbsServer,
    FailsOver,
}

/// The history so far, and the last token of the watch.
#[derive(Debug, Default)]
struct Log {
    history: History,
    ended: usize,
    token: Option<String>,
}

/// A program that runs. Killed when dropped.
struct Program {
    role: Role,
    child: Child,
    reader: Option<JoinHandle<()>>,
}

#[derive(Debug, Clone)]
enum Role {
    Calls(Part),
    Watches(Post),
}

struct Stage {
    log: Arc<Mutex<Log>>,
    programs: Vec<Program>,
    calls: usize,
}

/// Makes the history of a seed, and returns the disturbances.
pub(crate) fn play(system: &mut dyn System, seed: u64, calls: usize) -> Fallible<(History, Vec<String>)> {
    let (url, mut random, runtime) = (system.begin()?, Rng::with_seed(seed), Runtime::new()?);
    runtime.block_on(async { Fallible::Ok(opened(&url).await?.shutdown().await?) })?;
    let mut stage = Stage { log: Arc::default(), programs: Vec::new(), calls };
    stage.start(Role::Watches(Post { url: url.clone(), token: None }))?;
    let clients = PROGRAMS * CLIENTS;
    for program in 0..PROGRAMS {
        let own = (program * CLIENTS..(program + 1) * CLIENTS).map(|client| (client, 0)).collect();
        stage.start(Role::Calls(Part { url: url.clone(), seed, calls, clients, own }))?;
    }
    let mut troubles = vec![Trouble::KillsProgram, Trouble::StopsProgram];
    if system.has_servers() {
        troubles.extend([Trouble::DisturbsServer, Trouble::FailsOver]);
    } else {
        troubles.extend([Trouble::KillsProgram, Trouble::KillsProgram]);
    }
    random.shuffle(&mut troubles);
    let mut happened = Vec::new();
    for (number, trouble) in troubles.iter().enumerate() {
        stage.reach(calls * (number + 1) / (troubles.len() + 1));
        // The servers are installed: one that does not start is a failure, not a missing one.
        happened.push(stage.make(*trouble, system, &mut random).map_err(|error| error.to_string())?);
    }
    stage.wait_for_clients()?;
    runtime.block_on(stage.read_all(&url))?;
    let limit = Instant::now() + FEED_PATIENCE;
    while !feed_gaps(&lock(&stage.log).history).is_empty() && Instant::now() < limit {
        stage.check_watch()?;
        thread::sleep(Duration::from_millis(20));
    }
    Ok((stage.end(), happened))
}

impl Stage {
    fn start(&mut self, role: Role) -> Fallible {
        let program = Program::start(role, &self.log)?;
        self.programs.push(program);
        Ok(())
    }

    fn make(&mut self, trouble: Trouble, system: &mut dyn System, random: &mut Rng) -> Fallible<String> {
        let program = random.usize(0..self.programs.len());
        let log = Arc::clone(&self.log);
        let progress = move |calls: usize| {
            let (from, limit) = (lock(&log).ended, Instant::now() + Duration::from_secs(1));
            while lock(&log).ended.saturating_sub(from) < calls && Instant::now() < limit {
                thread::sleep(Duration::from_millis(2));
            }
        };
        match trouble {
            Trouble::KillsProgram => {
                self.restart(program)?;
                Ok(format!("program {program} killed"))
            }
            Trouble::StopsProgram => {
                let mut running: Vec<_> = (0..self.programs.len()).collect();
                running.retain(|number| self.programs[*number].is_running());
                let program = random.choice(running).ok_or("no program runs")?;
                let stopped = pause(Some(self.programs[program].child.id()), random.u64(100..1_000))?;
                Ok(format!("program {program} {stopped}"))
            }
            Trouble::DisturbsServer => system.disturb(random, &progress),
            Trouble::FailsOver => {
                let started = now();
                let what = system.fail_over(random, &progress)?;
                lock(&self.log).history.failovers.push((started, now()));
                Ok(what)
            }
        }
    }

    /// Kills a program, and starts another one that continues its work.
    fn restart(&mut self, program: usize) -> Fallible {
        let role = self.programs[program].end();
        let log = lock(&self.log);
        let next = match role {
            Role::Watches(post) => Role::Watches(Post { token: log.token.clone(), ..post }),
            Role::Calls(part) => {
                let begun = |client| {
                    log.history.calls.values().filter(move |call| call.client == client).map(|call| call.number + 1)
                };
                let own = part.own.keys().map(|client| (*client, begun(*client).max().unwrap_or(0))).collect();
                Role::Calls(Part { own, ..part })
            }
        };
        drop(log);
        self.programs[program] = Program::start(next, &self.log)?;
        Ok(())
    }

    fn check_watch(&mut self) -> Fallible {
        match self.programs[0].child.try_wait()? {
            Some(status) => Err(format!("the watch has ended: {status}").into()),
            None => Ok(()),
        }
    }

    /// Waits until this many calls have ended, or until all clients are done.
    fn reach(&mut self, calls: usize) {
        while lock(&self.log).ended < calls && !self.are_through() {
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn are_through(&mut self) -> bool {
        !self.programs[1..].iter_mut().any(Program::is_running)
    }

    fn wait_for_clients(&mut self) -> Fallible {
        let limit = Instant::now() + PATIENCE;
        while !self.are_through() {
            if Instant::now() > limit {
                return Err(format!("{} of {} calls have ended in time", lock(&self.log).ended, self.calls).into());
            }
            thread::sleep(Duration::from_millis(5));
        }
        for program in &mut self.programs[1..] {
            let status = program.child.wait()?;
            program.read();
            if !status.success() {
                return Err(format!("a program of clients failed: {status}").into());
            }
        }
        Ok(())
    }

    /// Reads everything, by all ways.
    async fn read_all(&self, url: &str) -> Fallible {
        let provider = opened(url).await?;
        let memories = Memories::of(Arc::clone(&provider));
        let ids = known_ids(&lock(&self.log).history);
        let both = |how| [true, false].map(|documents| Action::Many { documents, under: "h".to_owned(), how });
        let many = [How::Query, How::Walk(7), How::Recall].into_iter().flat_map(both);
        let get = |(record, id): (&String, &Option<String>)| Action::One {
            record: record.clone(),
            what: What::Get { id: id.clone() },
        };
        let actions: Vec<_> = many.chain(ids.iter().map(get)).collect();
        for (number, action) in (self.calls as u32..).zip(actions) {
            let limit = Instant::now() + PATIENCE;
            loop {
                let started = now();
                let outcome = perform(&memories, number, &action).await;
                if !outcome.is_trouble() || Instant::now() > limit {
                    let call = Call { number, client: LAST, action, started, ended: Some(now()), outcome };
                    lock(&self.log).history.calls.insert(number, call);
                    break;
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
        let ids = known_ids(&lock(&self.log).history);
        for (record, id) in ids {
            let limit = Instant::now() + PATIENCE;
            let revisions = loop {
                match memories.revisions(&record, id.as_deref()).await {
                    Err(error) if is_trouble(&error) && Instant::now() <= limit => tokio::time::sleep(PAUSE).await,
                    revisions => break revisions?,
                }
            };
            lock(&self.log).history.versions.insert(record, revisions);
        }
        Ok(provider.shutdown().await?)
    }

    fn end(mut self) -> History {
        self.programs.iter_mut().for_each(|program| drop(program.end()));
        std::mem::take(&mut lock(&self.log).history)
    }
}

/// All records, and the last known ids of memories: a failover may take back a store, and the next one of its key has another id.
pub(crate) fn known_ids(history: &History) -> BTreeMap<String, Option<String>> {
    let mut calls: Vec<_> = history.calls.values().collect();
    calls.sort_by_key(|call| call.ended);
    let mut ids = BTreeMap::new();
    for call in calls {
        match (&call.action, &call.outcome) {
            (Action::One { record, .. }, Outcome::Done(Answer::Stored(id))) => {
                drop(ids.insert(record.clone(), Some(id.clone())));
            }
            (Action::One { record, .. }, _) if is_document(record) => drop(ids.insert(record.clone(), None)),
            (Action::Many { .. }, Outcome::Done(Answer::Pages { pages, .. })) => {
                let rows = pages.iter().flat_map(|page| &page.rows);
                ids.extend(rows.map(|row| (row.record.clone(), row.version.id.clone())));
            }
            _ => {}
        }
    }
    ids
}

impl Program {
    fn start(role: Role, log: &Arc<Mutex<Log>>) -> Fallible<Self> {
        let (name, part) = match &role {
            Role::Calls(part) => ("calls", serde_json::to_string(part)?),
            Role::Watches(post) => ("watches", serde_json::to_string(post)?),
        };
        let mut command = Command::new(env::current_exe()?);
        let mut child = command.env(ROLE, name).env(PART, part).stdout(Stdio::piped()).spawn()?;
        let (out, log) = (child.stdout.take().ok_or("no output")?, Arc::clone(log));
        let reader = Some(thread::spawn(move || read(out, &log)));
        Ok(Self { role, child, reader })
    }

    fn is_running(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_none())
    }

    /// Kills it, and returns when all of its output is read.
    fn end(&mut self) -> Role {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.read();
        self.role.clone()
    }

    fn read(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.join().expect("a reader does not panic");
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
    }
}

impl Log {
    fn add(&mut self, line: Line) {
        match line {
            Line::Started(call) => drop(self.history.calls.insert(call.number, call)),
            Line::Ended { number, at, outcome } => {
                if let Some(call) = self.history.calls.get_mut(&number) {
                    (call.ended, call.outcome) = (Some(at), outcome);
                    self.ended += 1;
                }
            }
            Line::Told { told, token } => {
                self.history.told.extend(told);
                self.token = token;
            }
        }
    }
}

/// The last line of a killed program may be truncated: nobody has received it.
fn read(out: ChildStdout, log: &Mutex<Log>) {
    for line in BufReader::new(out).lines().map_while(Result::ok) {
        if let Ok(line) = serde_json::from_str(&line) {
            lock(log).add(line);
        }
    }
}

fn lock(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}
