//! A server from the binaries of this machine.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;

use nix::sys::signal::Signal;

use super::home::Home;
use super::process::{Process, holds};

/// Below the range that systems assign to outgoing connections. Otherwise a client that tries to reach a killed server could be assigned
/// the server's port, and be connected to itself.
const PORTS: std::ops::Range<u16> = 15_000..22_000;

/// How many ports are tried, since another program may take a free port first.
const TRIES: usize = 3;

/// A server on a port of 127.0.0.1. It ends when dropped.
pub(super) struct Local {
    // Fields are dropped in this order: the process ends before its folder is removed.
    process: Option<Process>,
    home: Home,
    program: PathBuf,
    arguments: Vec<String>,
    port: u16,
    answers: fn(u16) -> bool,
    last_signal: Signal,
}

impl Local {
    /// Starts a program with the arguments for a port, and returns when the server answers. `last_signal` ends it once nobody needs its
    /// data: SIGKILL, unless the server has workers that it must end itself.
    pub(super) fn start(
        home: Home,
        program: PathBuf,
        arguments: impl Fn(&Home, u16) -> io::Result<Vec<String>>,
        answers: fn(u16) -> bool,
        last_signal: Signal,
    ) -> io::Result<Self> {
        let mut local = Self { process: None, home, program, arguments: Vec::new(), port: 0, answers, last_signal };
        let mut result = Ok(());
        for _ in 0..TRIES {
            local.port = free_port()?;
            local.arguments = arguments(&local.home, local.port)?;
            result = local.spawn();
            if result.is_ok() {
                break;
            }
        }
        result.map(|()| local)
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn home(&self) -> &Home {
        &self.home
    }

    /// The id of the running process.
    pub(super) fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Kills the server and its workers as a crash of the machine does, without a loss of written data.
    pub(super) fn kill(&mut self) -> io::Result<()> {
        match self.process.take() {
            Some(mut process) => process.end(Signal::SIGKILL),
            None => Ok(()),
        }
    }

    /// Ends the server if it runs, and starts it again on the same port and folder.
    pub(super) fn restart(&mut self) -> io::Result<()> {
        self.kill()?;
        let mut last = Ok(());
        // What a killed server leaves behind may block the next one for a moment.
        let started = holds(|| {
            last = self.spawn();
            Ok(last.is_ok())
        })?;
        if started { Ok(()) } else { last }
    }

    fn spawn(&mut self) -> io::Result<()> {
        let mut command = self.home.command(&self.program)?;
        command.args(&self.arguments);
        let mut process = Process::start(command, self.home.path(), self.last_signal)?;
        let name = self.program.display();
        let mut ended = false;
        let over = holds(|| {
            ended = process.has_ended()?;
            Ok(ended || (self.answers)(self.port))
        })?;
        if ended {
            return Err(self.home.error(&format!("{name} ended at once")));
        }
        if !over {
            return Err(self.home.error(&format!("{name} does not answer")));
        }
        self.process = Some(process);
        Ok(())
    }
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { process, home, program, port, .. } = self;
        f.debug_struct("Local")
            .field("program", program)
            .field("port", port)
            .field("home", home)
            .field("process", process)
            .finish_non_exhaustive()
    }
}

fn free_port() -> io::Result<u16> {
    // The random part of an id, so that test programs that start at the same time try different ports.
    let (_, random) = uuid::Uuid::now_v7().as_u64_pair();
    let start = (random % PORTS.len() as u64) as usize;
    let mut ports = PORTS.cycle().skip(start).take(PORTS.len());
    ports
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .ok_or_else(|| io::Error::other("no port is free"))
}
