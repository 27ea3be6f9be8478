//! PostgreSQL, and the connection pooler PgBouncer.

use std::error::Error;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use percent_encoding::percent_decode_str;
use url::Url;

use super::container::Container;
use super::home::Home;
use super::local::Local;
use super::{Missing, TestServer, find_program, new_password};
use crate::fault::Server;

const ENGINE: &str = "postgres";
const USUAL_IMAGE: &str = "postgres:17-alpine";
/// The port of the server in a container.
const PORT: u16 = 5432;
/// The superuser of the servers that are started here, and the database that always exists.
const USER: &str = "postgres";
/// The cases of a suite run in parallel, and each opens more than one pool.
const MAX_CONNECTIONS: &str = "max_connections=300";

impl TestServer {
    /// A PostgreSQL server. The URL of one that is started here names a superuser and the password.
    pub fn postgres() -> Result<Self, Missing> {
        Self::find(ENGINE, USUAL_IMAGE, in_container, local)
    }

    /// Like [`TestServer::postgres`], for tests that measure no write. A server from the binaries of this machine runs without `fsync`,
    /// which halves the time of the suite: its writes survive the end of its processes, and no test crashes the machine.
    pub fn postgres_without_fsync() -> Result<Self, Missing> {
        Self::find(ENGINE, USUAL_IMAGE, in_container, local_without_fsync)
    }
}

/// A PostgreSQL server from the binaries of this machine, for tests that kill it or need settings of their own.
///
/// Its encoding is UTF-8. Texts sort as in English instead of by their bytes, if PostgreSQL or the system supports that.
#[derive(Debug)]
pub struct LocalPostgres {
    local: Local,
    binaries: PathBuf,
    settings: Vec<String>,
    url: String,
}

impl LocalPostgres {
    /// Whether this machine has the binaries.
    pub fn is_installed() -> bool {
        binaries().is_some()
    }

    /// Starts a server on an empty cluster.
    pub fn start() -> Result<Self, Missing> {
        Self::start_with(&[])
    }

    /// Starts a server on an empty cluster, with settings as in `postgresql.conf`: `[("max_connections", "5")]`.
    pub fn start_with(settings: &[(&str, &str)]) -> Result<Self, Missing> {
        let Some(binaries) = binaries() else {
            return Err(Missing::new(ENGINE, "its server's binaries are not installed"));
        };
        Self::with_binaries(binaries, settings).map_err(|error| Missing::new(ENGINE, error.to_string()))
    }

    /// The URL for the superuser, with the password. It stays the same after a restart.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Starts a standby of this server: a copy that follows it by streaming replication and can be promoted.
    pub fn standby(&self) -> Result<Self, Missing> {
        Self::copy(self).map_err(|error| Missing::new(ENGINE, error.to_string()))
    }

    /// A folder of the server's user, such as for a tablespace, which is removed when the server is dropped. The file `log` in it is the
    /// server's log, and the folder `data` is the cluster.
    pub fn folder(&self) -> &Path {
        self.local.home().path()
    }

    /// Writes a file into that folder that only the server's user can read, such as a key.
    pub fn write(&self, name: &str, content: &str) -> io::Result<PathBuf> {
        self.local.home().write(name, content)
    }

    /// The folder of the binaries of this version, including those of the clients.
    pub fn binaries(&self) -> &Path {
        &self.binaries
    }

    /// The id of the server's process; `None` after [`LocalPostgres::kill`].
    pub fn process_id(&self) -> Option<u32> {
        self.local.process_id()
    }

    /// Kills the server and its backends by SIGKILL, as a crash of the machine does, and returns when they are gone.
    pub fn kill(&mut self) -> io::Result<()> {
        self.local.kill()
    }

    /// Starts the server again on the same port and data, killing it first if it runs, and returns when it answers.
    pub fn restart(&mut self) -> io::Result<()> {
        self.local.restart()
    }

    fn with_binaries(binaries: PathBuf, settings: &[(&str, &str)]) -> io::Result<Self> {
        let home = Home::new(&["postgres"])?;
        let password = new_password();
        create_cluster(&home, &binaries, &password)?;
        let settings = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let url = |port| url("127.0.0.1", port, &password);
        Self::over(home, binaries, settings, url)
    }

    fn copy(of: &Self) -> io::Result<Self> {
        let home = Home::new(&["postgres"])?;
        let mut backup = home.command(&of.binaries.join("pg_basebackup"))?;
        backup.args(["-D", "data", "--write-recovery-conf", "--checkpoint=fast", "--no-sync", "-d", &of.url]);
        if !backup.status()?.success() {
            return Err(home.error("pg_basebackup failed"));
        }
        let url = |port| of.url.replace(&format!(":{}/", of.local.port()), &format!(":{port}/"));
        Self::over(home, of.binaries.clone(), of.settings.clone(), url)
    }

    /// Starts a server on the cluster in a folder.
    fn over(home: Home, binaries: PathBuf, settings: Vec<String>, url: impl Fn(u16) -> String) -> io::Result<Self> {
        let arguments = |_: &Home, port: u16| {
            let mut arguments: Vec<String> =
                ["-D", "data", "-c", "listen_addresses=127.0.0.1"].map(String::from).into();
            arguments.extend(["-c".to_owned(), format!("port={port}")]);
            // No Unix socket: its usual folder belongs to the server of the system, if there is one.
            arguments.extend(["-c", "unix_socket_directories=", "-c", MAX_CONNECTIONS].map(String::from));
            arguments.extend(settings.iter().flat_map(|setting| ["-c".to_owned(), setting.clone()]));
            Ok(arguments)
        };
        let answers = |port| answers((Ipv4Addr::LOCALHOST, port));
        let local = Local::start(home, binaries.join("postgres"), arguments, answers, Signal::SIGQUIT)?;
        let url = url(local.port());
        Ok(Self { local, binaries, settings, url })
    }
}

impl Server for LocalPostgres {
    fn url(&self) -> String {
        self.url.clone()
    }

    fn kill(&mut self) -> io::Result<()> {
        self.kill()
    }

    fn restart(&mut self) -> io::Result<()> {
        self.restart()
    }
}

/// Debian's `pgbouncer` in transaction mode: each transaction of a client may run on another connection.
#[derive(Debug)]
pub struct PgBouncer {
    _local: Local,
    url: String,
}

impl PgBouncer {
    /// Starts a pooler in front of the server with this URL, which must name one host and a password.
    pub fn start(server: &str) -> Result<Self, Missing> {
        Self::before(server).map_err(|error| Missing::new(ENGINE, error.to_string()))
    }

    /// The URL that reaches the same database as the same user through the pooler.
    pub fn url(&self) -> &str {
        &self.url
    }

    fn before(server: &str) -> io::Result<Self> {
        let program = find_program("pgbouncer").ok_or_else(|| io::Error::other("pgbouncer is not installed"))?;
        let mut url = Url::parse(server).map_err(io::Error::other)?;
        let text = |encoded: &str| percent_decode_str(encoded).decode_utf8_lossy().into_owned();
        let user = text(url.username());
        let password = text(url.password().unwrap_or_default());
        let host = url.host_str().unwrap_or("127.0.0.1").to_owned();
        let server_port = url.port().unwrap_or(5432);

        let home = Home::new(&["postgres"])?;
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        home.write("users.txt", &format!("{} {}\n", quoted(&user), quoted(&password)))?;
        let arguments = |home: &Home, port: u16| {
            home.write("pgbouncer.ini", &pooler_settings(&host, server_port, port))?;
            Ok(vec!["pgbouncer.ini".to_owned()])
        };
        let local =
            Local::start(home, program, arguments, |port| answers((Ipv4Addr::LOCALHOST, port)), Signal::SIGKILL)?;
        url.set_host(Some("127.0.0.1")).map_err(io::Error::other)?;
        url.set_port(Some(local.port())).map_err(|()| io::Error::other("the URL can't have a port"))?;
        Ok(Self { _local: local, url: url.into() })
    }
}

/// Fewer connections than clients, so that clients really share them.
fn pooler_settings(host: &str, server_port: u16, port: u16) -> String {
    format!(
        "[databases]
* = host={host} port={server_port}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = users.txt
pool_mode = transaction
default_pool_size = 8
max_client_conn = 1000
ignore_startup_parameters = extra_float_digits,options
"
    )
}

fn local() -> Result<TestServer, Missing> {
    LocalPostgres::start().map(|server| TestServer::new(server.url().to_owned(), server))
}

fn local_without_fsync() -> Result<TestServer, Missing> {
    LocalPostgres::start_with(&[("fsync", "off")]).map(|server| TestServer::new(server.url().to_owned(), server))
}

fn in_container(image: &str) -> Result<TestServer, Box<dyn Error>> {
    let password = new_password();
    let variables = [("POSTGRES_USER", USER), ("POSTGRES_PASSWORD", &password)];
    let container = Container::start(image, PORT, &variables, &["-c", MAX_CONNECTIONS], |address| answers(address))?;
    let (host, port) = container.address();
    Ok(TestServer::new(url(host, port, &password), container))
}

/// The folder of the server's binaries: those on the search path, or else the newest that Debian has installed.
fn binaries() -> Option<PathBuf> {
    let on_path = || Some(fs::canonicalize(find_program("initdb")?).ok()?.parent()?.to_owned());
    let versions = || {
        let folders = fs::read_dir("/usr/lib/postgresql").ok()?;
        let version = |folder: &PathBuf| folder.file_name()?.to_str()?.parse::<u32>().ok();
        folders.flatten().map(|entry| entry.path()).max_by_key(version).map(|folder| folder.join("bin"))
    };
    let complete = |folder: &PathBuf| folder.join("initdb").is_file() && folder.join("postgres").is_file();
    on_path().filter(complete).or_else(|| versions().filter(complete))
}

/// Creates the cluster in the first of the [`locales`] that this PostgreSQL and this system support.
fn create_cluster(home: &Home, binaries: &Path, password: &str) -> io::Result<()> {
    home.write("password", password)?;
    for locale in locales() {
        let mut initdb = home.command(&binaries.join("initdb"))?;
        initdb.args(["-D", "data", "-U", USER, "--pwfile=password", "--auth=scram-sha-256", "--encoding=UTF8"]);
        // No test crashes the machine while the cluster is created; the server itself runs with `fsync`, unless a test turns it off.
        initdb.arg("--no-sync").args(&locale);
        if initdb.status()?.success() {
            return Ok(());
        }
    }
    Err(home.error("initdb failed"))
}

/// Locales for `initdb`, in order of preference. Those that don't sort by bytes come first, since users have these.
fn locales() -> Vec<Vec<String>> {
    // Works since PostgreSQL 15, if it is built with ICU.
    let icu = ["--locale-provider=icu", "--icu-locale=en-US", "--locale=C.UTF-8"].map(String::from).into();
    let installed = Command::new("locale").arg("-a").output().map(|output| output.stdout).unwrap_or_default();
    let installed = String::from_utf8_lossy(&installed).into_owned();
    let is_natural = |name: &&str| name.to_lowercase().replace('-', "").ends_with(".utf8") && !name.starts_with("C.");
    let natural = installed.lines().find(is_natural).into_iter();
    let others = natural.chain(["C.UTF-8", "C"]).map(|name| vec![format!("--locale={name}")]);
    std::iter::once(icu).chain(others).collect()
}

fn url(host: &str, port: u16, password: &str) -> String {
    format!("postgres://{USER}:{password}@{host}:{port}/{USER}")
}

/// Whether a server asks for the password. While it starts or shuts down, it sends an error instead.
fn answers(address: impl ToSocketAddrs) -> bool {
    ask(address).is_ok_and(|answer| answer == b'R')
}

/// Sends a startup message, and returns the type of the server's first message.
///
/// <https://www.postgresql.org/docs/current/protocol-message-formats.html>
fn ask(address: impl ToSocketAddrs) -> io::Result<u8> {
    const PROTOCOL_3_0: i32 = 196_608;
    let mut connection = TcpStream::connect(address)?;
    connection.set_read_timeout(Some(Duration::from_secs(5)))?;
    let parameters = format!("user\0{USER}\0database\0{USER}\0\0");
    let length = parameters.len() as i32 + 8;
    connection.write_all(&[&length.to_be_bytes()[..], &PROTOCOL_3_0.to_be_bytes(), parameters.as_bytes()].concat())?;
    let mut answer = [0];
    connection.read_exact(&mut answer)?;
    Ok(answer[0])
}
