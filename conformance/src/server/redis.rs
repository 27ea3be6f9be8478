//! A single Redis server.

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::container::Container;
use super::home::Home;
use super::local::Local;
use super::{Missing, TestServer, find_program, new_password};
use crate::fault::Server;

pub(super) const ENGINE: &str = "redis";
const USUAL_IMAGE: &str = "redis:7-alpine";
/// The user that runs the server if this program runs as root.
pub(super) const USERS: &[&str] = &["redis"];
/// The port of the server in a container.
const PORT: u16 = 6379;

impl TestServer {
    /// A Redis server. The URL names the default user and the password.
    pub fn redis() -> Result<Self, Missing> {
        Self::find(ENGINE, USUAL_IMAGE, in_container, local)
    }
}

/// A Redis server from the binary of this machine, for tests that kill it or need settings of their own.
#[derive(Debug)]
pub struct LocalRedis {
    pub(super) local: Local,
    password: String,
}

impl LocalRedis {
    /// Whether this machine has the binary.
    pub fn is_installed() -> bool {
        find_program("redis-server").is_some()
    }

    /// Starts a server that keeps nothing on disk.
    pub fn start() -> Result<Self, Missing> {
        Self::start_with(&[])
    }

    /// Starts a server with settings as in `redis.conf`: `[("appendonly", "yes")]`.
    pub fn start_with(settings: &[(&str, &str)]) -> Result<Self, Missing> {
        Self::start_on(new_password(), settings).map_err(|error| Missing::new(ENGINE, error.to_string()))
    }

    /// Starts a replica of another server, with the same password.
    pub fn start_replica(primary: &Self) -> Result<Self, Missing> {
        let address = format!("127.0.0.1 {}", primary.port());
        let replica = Self::start_on(primary.password.clone(), &[("replicaof", &address)]);
        replica.map_err(|error| Missing::new(ENGINE, error.to_string()))
    }

    /// The URL for the default user, with the password. It stays the same after a restart.
    pub fn url(&self) -> String {
        format!("redis://:{}@{}", self.password, self.address())
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.local.port()
    }

    /// The password of the default user.
    pub fn password(&self) -> &str {
        &self.password
    }

    /// A folder of the server's user, which is removed when the server is dropped.
    pub fn folder(&self) -> &Path {
        self.local.home().path()
    }

    /// The id of the server's process; `None` after [`LocalRedis::kill`].
    pub fn process_id(&self) -> Option<u32> {
        self.local.process_id()
    }

    /// Kills the server by SIGKILL, as a crash does, and returns when its process is gone.
    pub fn kill(&mut self) -> io::Result<()> {
        self.local.kill()
    }

    /// Starts the server again on the same port and data, killing it first if it runs, and returns when it answers.
    pub fn restart(&mut self) -> io::Result<()> {
        self.local.restart()
    }

    /// Sends a command as the default user, and returns what `redis-cli` prints.
    pub fn command(&self, arguments: &[&str]) -> io::Result<String> {
        cli(self.port(), &self.password, arguments)
    }

    pub(super) fn start_on(password: String, settings: &[(&str, &str)]) -> io::Result<Self> {
        Self::start_in(Home::new(USERS)?, ".", password, settings)
    }

    /// Starts a server whose data lies in this folder of its home.
    pub(super) fn start_in(home: Home, folder: &str, password: String, settings: &[(&str, &str)]) -> io::Result<Self> {
        let program = find_program("redis-server").ok_or_else(|| io::Error::other("redis-server is not installed"))?;
        let arguments = |_: &Home, port: u16| {
            let port = port.to_string();
            let own = [("port", port.as_str()), ("bind", "127.0.0.1"), ("dir", folder), ("save", "")];
            let passwords = [("requirepass", password.as_str()), ("masterauth", password.as_str())];
            let all = own.iter().chain(&passwords).chain(settings);
            Ok(all.flat_map(|(name, value)| [format!("--{name}"), (*value).to_owned()]).collect())
        };
        let answers = |port| answers((Ipv4Addr::LOCALHOST, port));
        let local = Local::start(home, program, arguments, answers, Signal::SIGKILL)?;
        Ok(Self { local, password })
    }

    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }
}

impl Server for LocalRedis {
    fn url(&self) -> String {
        self.url()
    }

    fn kill(&mut self) -> io::Result<()> {
        self.kill()
    }

    fn restart(&mut self) -> io::Result<()> {
        self.restart()
    }
}

/// A sentinel from the binary of this machine. It watches one primary, and its own vote is enough for a failover.
#[derive(Debug)]
pub struct LocalSentinel {
    local: Local,
    password: String,
}

impl LocalSentinel {
    /// The name of the primary in the sentinel's settings.
    pub const PRIMARY: &str = "main";

    /// Starts a sentinel for this primary. It counts the primary as failed after one second without an answer.
    pub fn start(primary: &LocalRedis) -> Result<Self, Missing> {
        Self::watch(primary).map_err(|error| Missing::new(ENGINE, error.to_string()))
    }

    /// The URL that finds the primary through the sentinel, for the default user, with the password.
    pub fn url(&self) -> String {
        format!("redis+sentinel://:{}@127.0.0.1:{}/{}", self.password, self.local.port(), Self::PRIMARY)
    }

    /// How many replicas the sentinel knows.
    pub fn replicas(&self) -> io::Result<usize> {
        let found = cli(self.local.port(), "", &["SENTINEL", "REPLICAS", Self::PRIMARY])?;
        Ok(found.lines().filter(|line| *line == "master-link-status").count())
    }

    /// The port of the server that it takes for the primary.
    pub fn primary(&self) -> io::Result<u16> {
        let address = cli(self.local.port(), "", &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", Self::PRIMARY])?;
        address.lines().last().unwrap_or_default().parse().map_err(io::Error::other)
    }

    fn watch(primary: &LocalRedis) -> io::Result<Self> {
        let program = find_program("redis-server").ok_or_else(|| io::Error::other("redis-server is not installed"))?;
        let (name, primary_port, password) = (Self::PRIMARY, primary.port(), primary.password().to_owned());
        let arguments = |home: &Home, port: u16| {
            let settings = format!(
                "port {port}\nbind 127.0.0.1\nsentinel monitor {name} 127.0.0.1 {primary_port} 1\n\
                 sentinel auth-pass {name} {password}\nsentinel down-after-milliseconds {name} 1000\n\
                 sentinel failover-timeout {name} 10000\n"
            );
            // The sentinel writes what it learns into this file.
            home.write("sentinel.conf", &settings)?;
            Ok(vec!["sentinel.conf".to_owned(), "--sentinel".to_owned()])
        };
        let answers = |port| answers((Ipv4Addr::LOCALHOST, port));
        let local = Local::start(Home::new(USERS)?, program, arguments, answers, Signal::SIGKILL)?;
        Ok(Self { local, password })
    }
}

/// The output of `redis-cli`. An error reply is an `Err`.
pub(super) fn cli(port: u16, password: &str, arguments: &[&str]) -> io::Result<String> {
    let program = find_program("redis-cli").ok_or_else(|| io::Error::other("redis-cli is not installed"))?;
    let output = Command::new(program)
        .args(["-e", "-p", &port.to_string()])
        .args(arguments)
        .env("REDISCLI_AUTH", password)
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() {
        return Ok(text);
    }
    // The last line with a word says what went wrong; color codes end on lines of their own.
    let has_words = |line: &&str| line.trim_start_matches("\u{1b}[0m").contains(char::is_alphabetic);
    let failure = String::from_utf8_lossy(&output.stderr).into_owned();
    let reason = text.lines().rfind(has_words).or_else(|| failure.lines().rfind(has_words));
    Err(io::Error::other(reason.unwrap_or("redis-cli failed").to_owned()))
}

fn local() -> Result<TestServer, Missing> {
    LocalRedis::start().map(|server| TestServer::new(server.url(), server))
}

fn in_container(image: &str) -> Result<TestServer, Box<dyn Error>> {
    let password = new_password();
    let container = Container::start(image, PORT, &[], &["--requirepass", &password], |address| answers(address))?;
    let (host, port) = container.address();
    Ok(TestServer::new(format!("redis://:{password}@{host}:{port}"), container))
}

/// Whether a server takes commands, at least from clients with the password. While it loads its data it does not.
fn answers(address: impl ToSocketAddrs) -> bool {
    ask(address).is_ok_and(|answer| answer.starts_with(b"+PONG") || answer.starts_with(b"-NOAUTH"))
}

fn ask(address: impl ToSocketAddrs) -> io::Result<Vec<u8>> {
    let mut connection = TcpStream::connect(address)?;
    connection.set_read_timeout(Some(Duration::from_secs(5)))?;
    connection.write_all(b"PING\r\n")?;
    let mut answer = vec![0; 64];
    let length = connection.read(&mut answer)?;
    answer.truncate(length);
    Ok(answer)
}
