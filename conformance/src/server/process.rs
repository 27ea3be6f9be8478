//! The process of a server.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long a server may take to start or to end.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for a line. The end of the input without one is the end of the program that should have written it: then nobody
/// else ends the server and removes its folder.
const GUARDIAN: &str = r#"
read -r _ && exit
kill -"$3" "$1"
tries=100
while kill -0 "$1" && [ $((tries -= 1)) -gt 0 ]; do sleep 0.1; done
kill -KILL "$1"
rm -rf "$2"
"#;

/// A running server. Ended when dropped, and also when this program is killed.
#[derive(Debug)]
pub(super) struct Process {
    server: Child,
    /// What ends it for good.
    last_signal: Signal,
    guardian: Child,
    /// The guardian reads it; closes with this program.
    lifeline: Option<ChildStdin>,
}

impl Process {
    /// Starts a server whose data is in this folder, and which this signal ends when nobody needs the data any more.
    pub(super) fn start(mut command: Command, folder: &Path, last_signal: Signal) -> io::Result<Self> {
        // Groups of their own, so that Ctrl-C in a terminal reaches this program alone.
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

    /// Whether it ended by itself.
    pub(super) fn has_ended(&mut self) -> io::Result<bool> {
        Ok(self.server.try_wait()?.is_some())
    }

    /// Sends a signal that ends the server, and returns when it is gone.
    pub(super) fn end(&mut self, signal: Signal) -> io::Result<()> {
        // The guardian goes first: once the server was waited for, its id may belong to another process.
        if let Some(mut lifeline) = self.lifeline.take() {
            lifeline.write_all(b"\n")?;
            self.guardian.wait()?;
        }
        if !self.has_ended()? {
            kill(Pid::from_raw(self.id().cast_signed()), signal)?;
            if !holds(|| self.has_ended())? {
                self.server.kill()?;
                self.server.wait()?;
            }
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.end(self.last_signal) {
            eprintln!("the test server with the process id {} could not be ended: {error}", self.id());
        }
    }
}

/// Waits until a condition holds; `false` when it does not in good time.
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
