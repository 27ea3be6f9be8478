//! Lines that come one after the other, from a running process or connection.

// Each test binary uses a part of this.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Instant;

use serde_json::Value;

use super::PATIENCE;

/// Lines that a thread reads, so that a test that waits in vain ends.
pub(crate) struct Lines(Receiver<String>);

impl Lines {
    pub(crate) fn of(source: impl Read + Send + 'static) -> Self {
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(source).lines().map_while(Result::ok);
            // Also ends when nobody wants them any more.
            lines.all(|line| sender.send(line).is_ok())
        });
        Self(receiver)
    }

    /// The next line; `None` at the end.
    pub(crate) fn next(&self) -> Option<String> {
        match self.0.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("no line came"),
        }
    }
}

/// A running command. Killed when it is dropped.
pub(crate) struct Running {
    child: Child,
    pub(crate) lines: Lines,
    errors: Lines,
}

impl Running {
    pub(crate) fn start(mut command: Command, args: &[&str]) -> Self {
        command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary runs");
        let lines = Lines::of(child.stdout.take().expect("it is piped"));
        let errors = Lines::of(child.stderr.take().expect("it is piped"));
        Self { child, lines, errors }
    }

    /// The next line.
    pub(crate) fn line(&self) -> String {
        self.lines.next().unwrap_or_else(|| panic!("it ended: {:?}", self.errors.next()))
    }

    /// The next line on standard error.
    pub(crate) fn error(&self) -> String {
        self.errors.next().expect("a line")
    }

    /// The next line as JSON.
    pub(crate) fn json(&self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).expect(&line)
    }

    /// The next line, which must be of this kind; reports of progress may come at any time.
    pub(crate) fn expect(&self, kind: &str) -> Value {
        let limit = Instant::now() + PATIENCE;
        loop {
            let change = self.json();
            if change["kind"] == kind {
                return change;
            }
            assert!(matches!(change["kind"].as_str(), Some("reached" | "progress")), "{kind}: {change}");
            assert!(Instant::now() < limit, "in vain: {kind}");
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(status.expect("kill runs").success());
    }

    /// Its exit status, and its standard error.
    pub(crate) fn wait(mut self) -> (ExitStatus, Vec<String>) {
        let errors = std::iter::from_fn(|| self.errors.next()).collect();
        (self.child.wait().expect("it ends"), errors)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until a process has ended.
pub(crate) fn wait_for(child: &mut Child) -> ExitStatus {
    let limit = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().expect("a child") {
            return status;
        }
        assert!(Instant::now() < limit, "it does not end");
        std::thread::yield_now();
    }
}
