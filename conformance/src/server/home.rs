//! The temporary folder of a server, and the user that runs it.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::unistd::{Uid, User};
use tempfile::TempDir;

/// How many lines from the end of the log an error quotes.
const LOG_LINES: usize = 3;

/// A temporary folder with the files that a server needs and writes. It is removed when dropped.
#[derive(Debug)]
pub(super) struct Home {
    folder: TempDir,
    /// The user that owns the folder and runs the programs; `None` for the user that runs this program.
    user: Option<User>,
    /// Environment variables of the programs.
    variables: Vec<(&'static str, PathBuf)>,
}

impl Home {
    /// An empty folder. If this program runs as root, it belongs to the first of these users that exists, or to `nobody`, since most
    /// servers refuse to run as root.
    pub(super) fn new(users: &[&str]) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("memory-test-").tempdir()?;
        let user = if Uid::effective().is_root() { Some(unprivileged(users)?) } else { None };
        let home = Self { folder, user, variables: Vec::new() };
        home.give_away(home.path())?;
        Ok(home)
    }

    /// An empty folder that belongs to the user that runs this program.
    pub(super) fn of_this_user() -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("memory-test-").tempdir()?;
        Ok(Self { folder, user: None, variables: Vec::new() })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file that only the server's user can read.
    pub(super) fn write(&self, name: &str, content: &str) -> io::Result<PathBuf> {
        let path = self.path().join(name);
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        io::Write::write_all(&mut file, content.as_bytes())?;
        self.give_away(&path)?;
        Ok(path)
    }

    /// Sets environment variables of all programs that start from now on.
    #[cfg(all(feature = "power", target_os = "linux"))]
    pub(super) fn set_variables<'v>(&mut self, variables: impl IntoIterator<Item = (&'static str, &'v Path)>) {
        self.variables = variables.into_iter().map(|(name, value)| (name, value.to_owned())).collect();
    }

    /// A program that runs in this folder as the server's user. Its output goes to the log.
    pub(super) fn command(&self, program: &Path) -> io::Result<Command> {
        let log = OpenOptions::new().create(true).append(true).mode(0o644).open(self.log_path())?;
        let mut command = Command::new(program);
        command.current_dir(self.path()).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(user) = &self.user {
            command.uid(user.uid.as_raw()).gid(user.gid.as_raw()).env("HOME", self.path());
        }
        Ok(command)
    }

    /// An error with this message and the end of the log.
    pub(super) fn error(&self, what: &str) -> io::Error {
        let log = fs::read_to_string(self.log_path()).unwrap_or_default();
        let lines: Vec<_> = log.lines().filter(|line| !line.trim().is_empty()).collect();
        let end = lines[lines.len().saturating_sub(LOG_LINES)..].join(" | ");
        io::Error::other(if end.is_empty() { what.to_owned() } else { format!("{what}: {end}") })
    }

    fn log_path(&self) -> PathBuf {
        self.path().join("log")
    }

    /// Makes the server's user the owner of a file.
    pub(super) fn give_away(&self, path: &Path) -> io::Result<()> {
        match &self.user {
            Some(user) => chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw())),
            None => Ok(()),
        }
    }
}

fn unprivileged(users: &[&str]) -> io::Result<User> {
    for name in users.iter().chain(&["nobody"]) {
        if let Some(user) = User::from_name(name)? {
            return Ok(user);
        }
    }
    Err(io::Error::other("there is no unprivileged user to run a server as"))
}
