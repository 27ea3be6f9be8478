//! The process of a server.

use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long a server may take to start or to end.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// The script of the guardian. It waits for a line; if its input ends without one, this program was killed, so the guardian ends the server
/// and removes its folder. The server does not end as long as its workers are stopped.
const GUARDIAN: &str = r#"
read -r _ && exit
kill -"$3" "$1"
tries=100
while kill -0 "$1" && [ $((tries -= 1)) -gt 0 ]; do sleep 0.1; done
kill -0 "$1" && kill -KILL $(cat "/proc/$1/task/$1/children") "$1"
rm -rf "$2"
"#;

/// A running server. It ends when dropped, and also when this program is killed.
#[derive(Debug)]
pub(super) struct Process {
    server: Child,
    /// The signal that ends the server for good.
    last_signal: Signal,
    guardian: Child,
    /// The input of the guardian, which closes when this program ends.
    lifeline: Option<ChildStdin>,
}

impl Process {
    /// Starts a server whose data is in this folder. `last_signal` ends it once nobody needs the data.
    pub(super) fn start(mut command: Command, folder: &Path, last_signal: Signal) -> io::Result<Self> {
        // A process group of its own, so that Ctrl-C in a terminal reaches this program alone.
        let mut server = command.process_group(0).spawn()?;
        let guardian = Command::new("sh")
            .args(["-c", GUARDIAN, "guardian", &server.id().to_string()])
            .arg(folder)
            .arg((last_signal as i32).to_string())
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match guardian {
            Ok(mut guardian) => Ok(Self { server, last_signal, lifeline: guardian.stdin.take(), guardian }),
            Err(error) => {
                server.kill().and_then(|()| server.wait())?;
                Err(error)
            }
        }
    }

    pub(super) fn id(&self) -> u32 {
        self.server.id()
    }

    /// Whether the server has ended by itself.
    pub(super) fn has_ended(&mut self) -> io::Result<bool> {
        Ok(self.server.try_wait()?.is_some())
    }

    /// Sends a signal that ends the server, and returns when its process is gone.
    pub(super) fn end(&mut self, signal: Signal) -> io::Result<()> {
        // The guardian ends first: once the server was waited for, its id may belong to another process.
        if let Some(mut lifeline) = self.lifeline.take() {
            lifeline.write_all(b"\n")?;
            self.guardian.wait()?;
        }
        if self.has_ended()? {
            return Ok(());
        }
        let sent = match signal {
            Signal::SIGKILL => kill_all(self.id()),
            signal => kill(Pid::from_raw(self.id().cast_signed()), signal).map_err(io::Error::from),
        };
        if sent.is_err() || !holds(|| self.has_ended())? {
            self.server.kill()?;
            self.server.wait()?;
        }
        sent
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.end(self.last_signal) {
            eprintln!("the test server with the process id {} could not be ended: {error}", self.id());
        }
    }
}

/// Stops a running process and its workers for this long, as a machine that stands still does.
pub fn pause(process: u32, time: Duration) -> io::Result<()> {
    let (all, stopped) = stop_all(process);
    if stopped.is_ok() {
        thread::sleep(time);
    }
    stopped.and(send_all(&all, Signal::SIGCONT))
}

/// Kills a running process and its workers at once, as a loss of its machine does, and returns when the workers are gone. A worker that
/// survives could still answer, or commit what a replica does not have.
fn kill_all(process: u32) -> io::Result<()> {
    let (all, stopped) = stop_all(process);
    stopped.and(send_all(&all, Signal::SIGKILL))?;
    // A process that nobody has waited for yet has no command line any more.
    let is_gone = |id: &Pid| fs::read(format!("/proc/{id}/cmdline")).map_or(true, |line| line.is_empty());
    match holds(|| Ok(all.iter().all(is_gone)))? {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::TimedOut, "a process of a killed server is still there")),
    }
}

/// Stops a process and then its workers, so that it starts no more of them. Returns all that were stopped, also if that failed.
fn stop_all(process: u32) -> (Vec<Pid>, io::Result<()>) {
    let main = Pid::from_raw(process.cast_signed());
    let mut all = vec![main];
    let stopped = kill(main, Signal::SIGSTOP).map_err(io::Error::from).and_then(|()| {
        holds(|| Ok(stands_still(process)))?;
        loop {
            let known = all.len();
            // The list lacks some workers if others end while it is read.
            for worker in workers_of(process)? {
                if !all.contains(&worker) {
                    sent(kill(worker, Signal::SIGSTOP))?;
                    all.push(worker);
                }
            }
            if all.len() == known {
                return Ok(());
            }
        }
    });
    (all, stopped)
}

/// Sends a signal to each of these, the main process last: as long as it stands still, no id of its workers is given to another process.
fn send_all(all: &[Pid], signal: Signal) -> io::Result<()> {
    all.iter().rev().map(|process| sent(kill(*process, signal))).fold(Ok(()), io::Result::and)
}

/// Whether a process starts no more workers. On systems that don't tell, it counts as still.
fn stands_still(process: u32) -> bool {
    let is_running =
        |line: &str| line.starts_with("State:") && !line.contains("(stopped)") && !line.contains("(zombie)");
    fs::read_to_string(format!("/proc/{process}/status")).map_or(true, |status| !status.lines().any(is_running))
}

fn workers_of(process: u32) -> io::Result<Vec<Pid>> {
    match fs::read_to_string(format!("/proc/{process}/task/{process}/children")) {
        Ok(ids) => Ok(ids.split_whitespace().filter_map(|id| id.parse().ok()).map(Pid::from_raw).collect()),
        Err(error) if cfg!(target_os = "linux") => Err(error),
        // Other systems do not have this file, so the workers are unknown.
        Err(_) => Ok(Vec::new()),
    }
}

/// A process that has ended meanwhile needs no signal.
fn sent(result: nix::Result<()>) -> io::Result<()> {
    match result {
        Err(Errno::ESRCH) => Ok(()),
        result => Ok(result?),
    }
}

/// Waits until a condition holds; `false` if it does not within [`PATIENCE`].
pub(super) fn holds(mut condition: impl FnMut() -> io::Result<bool>) -> io::Result<bool> {
    let deadline = Instant::now() + PATIENCE;
    while !condition()? {
        if Instant::now() > deadline {
            return Ok(false);
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(true)
}
