//! MongoDB: a replica set of one or several nodes.

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bson::{Bson, Document, doc};
use nix::sys::signal::Signal;

use super::container::Container;
use super::home::Home;
use super::local::Local;
use super::process::holds;
use super::{Missing, TestServer, find_program, variable};
use crate::fault::Server;

const ENGINE: &str = "mongo";
const NODES_VARIABLE: &str = "MEMORY_TEST_MONGO_NODES";
const USUAL_IMAGE: &str = "mongo:7.0";
/// The port of the server in a container.
const PORT: u16 = 27_017;
/// The name of the replica sets that are made here.
const SET: &str = "rs0";
/// Where `.ci/test` installs the server, below the user's cache folder.
const CACHED: &str = "agent-memory/mongodb/mongod";

impl TestServer {
    /// A replica set of MongoDB. `MEMORY_TEST_MONGO_NODES` sets its number of nodes; without a URL it is then started from the binary.
    pub fn mongo() -> Result<Self, Missing> {
        Self::find(ENGINE, USUAL_IMAGE, in_container, local)
    }
}

/// A replica set of MongoDB from the binary of this machine, for tests that kill servers or need settings of their own.
///
/// Its nodes listen on 127.0.0.1. [`LocalMongo::start_standalone`] makes a single server without a replica set instead.
#[derive(Debug)]
pub struct LocalMongo {
    nodes: Vec<Local>,
    options: String,
    credentials: String,
    /// The folder of its certificates, if it uses TLS.
    certificates: Option<Home>,
}

impl LocalMongo {
    /// Whether this machine has the binary.
    pub fn is_installed() -> bool {
        binary().is_some()
    }

    /// Starts a replica set of one node.
    pub fn start() -> Result<Self, Missing> {
        Self::start_with(1, &[])
    }

    /// Starts a replica set of `nodes` nodes, with additional arguments of `mongod`.
    pub fn start_with(nodes: usize, arguments: &[&str]) -> Result<Self, Missing> {
        Self::with_binary(|binary| Self::replica_set(binary, nodes, arguments))
    }

    /// Starts a replica set of one node that requires this user and password.
    pub fn start_with_user(user: &str, password: &str) -> Result<Self, Missing> {
        Self::with_binary(|binary| {
            let mut server = Self::replica_set(binary, 1, &["--auth", "--keyFile", "key"])?;
            server.command(0, doc! { "createUser": user, "pwd": password, "roles": ["root"], "$db": "admin" })?;
            server.credentials = format!("{user}:{password}@");
            server.options += "&authSource=admin";
            Ok(server)
        })
    }

    /// Starts a replica set of one node for encrypted connections. Its URL names the certificate authority to trust.
    pub fn start_with_tls() -> Result<Self, Missing> {
        Self::with_binary(|binary| {
            let home = Home::of_this_user()?;
            create_certificates(&home)?;
            let file = |name: &str| home.path().join(name).display().to_string();
            let (authority, certificate) = (file("ca.pem"), file("server.pem"));
            // The commands of this module are not encrypted; only the connections of tests are.
            let arguments = ["--tlsMode", "preferTLS", "--tlsCertificateKeyFile", &certificate];
            let mut server = Self::replica_set(binary, 1, &arguments)?;
            server.options += &format!("&tls=true&tlsCAFile={authority}");
            server.certificates = Some(home);
            Ok(server)
        })
    }

    /// Starts a server that belongs to no replica set.
    pub fn start_standalone() -> Result<Self, Missing> {
        Self::with_binary(|binary| {
            let nodes = vec![start_node(binary, &[])?];
            Ok(Self { nodes, options: String::new(), credentials: String::new(), certificates: None })
        })
    }

    /// Adds a node with additional arguments, and returns its number once it has copied the data of the replica set. It has no vote, so
    /// that no majority waits for it.
    pub fn add_node(&mut self, arguments: &[&str]) -> io::Result<usize> {
        let binary = binary().ok_or_else(|| io::Error::other("its server's binary is not installed"))?;
        let (number, primary) = (self.nodes.len(), self.primary()?);
        let node = start_node(&binary, &[&["--replSet", SET][..], arguments].concat())?;
        let answer = self.command(primary, doc! { "replSetGetConfig": 1, "$db": "admin" })?;
        let mut config = answer.get_document("config").map_err(io::Error::other)?.clone();
        let version = config.get_i32("version").map_err(io::Error::other)?;
        let mut members = config.get_array("members").map_err(io::Error::other)?.clone();
        let host = format!("127.0.0.1:{}", node.port());
        members.push(Bson::from(doc! { "_id": number as i32, "host": host, "priority": 0, "votes": 0 }));
        config.insert("version", version + 1);
        config.insert("members", members);
        self.command(primary, doc! { "replSetReconfig": config, "$db": "admin" })?;
        self.nodes.push(node);
        self.wait_for_members()?;
        Ok(number)
    }

    /// The URL of the servers, without a database. It stays the same after a restart.
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("mongodb://{}{}/?{}", self.credentials, hosts.join(","), self.options)
    }

    /// The URL of one node, whether or not it is the primary.
    pub fn url_of(&self, node: usize) -> String {
        format!("mongodb://{}127.0.0.1:{}/?directConnection=true", self.credentials, self.nodes[node].port())
    }

    /// The folder of a node, which is removed when the servers are dropped.
    pub fn folder(&self, node: usize) -> &Path {
        self.nodes[node].home().path()
    }

    /// The process id of a node; `None` after it was killed.
    pub fn process_id(&self, node: usize) -> Option<u32> {
        self.nodes[node].process_id()
    }

    /// The number of the primary. Waits until there is one.
    pub fn primary(&self) -> io::Result<usize> {
        let mut primary = None;
        holds(|| {
            primary = (0..self.nodes.len()).find(|node| is_primary((Ipv4Addr::LOCALHOST, self.nodes[*node].port())));
            Ok(primary.is_some())
        })?;
        primary.ok_or_else(|| io::Error::other("the replica set has no primary"))
    }

    /// Kills a node by SIGKILL, as a crash does, and returns when its process is gone.
    pub fn kill(&mut self, node: usize) -> io::Result<()> {
        self.nodes[node].kill()
    }

    /// Starts a node again on the same port and data, killing it first if it runs, and returns when it is a member of the replica set
    /// again.
    pub fn restart(&mut self, node: usize) -> io::Result<()> {
        self.nodes[node].restart()?;
        self.wait_for_members()
    }

    fn with_binary(start: impl Fn(&Path) -> io::Result<Self>) -> Result<Self, Missing> {
        let binary = binary().ok_or_else(|| Missing::new(ENGINE, "its server's binary is not installed"))?;
        start(&binary).map_err(|error| Missing::new(ENGINE, error.to_string()))
    }

    fn replica_set(binary: &Path, nodes: usize, arguments: &[&str]) -> io::Result<Self> {
        let arguments = [&["--replSet", SET][..], arguments].concat();
        let nodes = (0..nodes).map(|_| start_node(binary, &arguments)).collect::<io::Result<Vec<_>>>()?;
        let set = Self { nodes, options: format!("replicaSet={SET}"), credentials: String::new(), certificates: None };
        let member = |(number, node): (usize, &Local)| {
            doc! { "_id": number as i32, "host": format!("127.0.0.1:{}", node.port()) }
        };
        let members: Vec<_> = set.nodes.iter().enumerate().map(member).collect();
        // Short timeouts, so that a new primary is elected soon after the old one is gone.
        let settings = doc! { "electionTimeoutMillis": 2_000, "heartbeatIntervalMillis": 500 };
        let config = doc! { "_id": SET, "members": members, "settings": settings };
        set.command(0, doc! { "replSetInitiate": config, "$db": "admin" })?;
        set.wait_for_members()?;
        Ok(set)
    }

    /// Waits until one node is the primary and all others follow it.
    fn wait_for_members(&self) -> io::Result<()> {
        if self.options.is_empty() {
            return Ok(());
        }
        self.primary()?;
        let are_members = holds(|| Ok(self.nodes.iter().all(|node| is_member((Ipv4Addr::LOCALHOST, node.port())))))?;
        if are_members { Ok(()) } else { Err(io::Error::other("a node does not join the replica set")) }
    }

    /// Sends a command to a node.
    fn command(&self, node: usize, command: Document) -> io::Result<Document> {
        let answer = send((Ipv4Addr::LOCALHOST, self.nodes[node].port()), &command)?;
        let is_done = answer.get_f64("ok").is_ok_and(|ok| ok == 1.0);
        if is_done { Ok(answer) } else { Err(io::Error::other(format!("the server refused a command: {answer}"))) }
    }
}

fn start_node(binary: &Path, arguments: &[&str]) -> io::Result<Local> {
    // Any user, root included, may run `mongod`, and its binary may lie where other users can't read it.
    let home = Home::of_this_user()?;
    home.write("key", "0123456789abcdef")?;
    let arguments: Vec<_> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    let arguments = |_: &Home, port: u16| {
        let port = port.to_string();
        let own = ["--dbpath", ".", "--bind_ip", "127.0.0.1", "--nounixsocket", "--port", &port];
        // Less than the default, which is half of the machine's memory, and enough for two of the largest batches at once.
        let small = ["--wiredTigerCacheSizeGB", "2", "--setParameter", "diagnosticDataCollectionEnabled=false"];
        // No test reads old snapshots, and thousands of dropped namespaces that are kept for them slow the server down.
        let forgetful = ["--setParameter", "minSnapshotHistoryWindowInSeconds=0"];
        // Dropping a database waits for the journal to be written, which is once in 100 ms by default.
        let prompt = ["--journalCommitInterval", "1"];
        Ok(own
            .into_iter()
            .chain(small)
            .chain(forgetful)
            .chain(prompt)
            .map(str::to_owned)
            .chain(arguments.iter().cloned())
            .collect())
    };
    let answers = |port| hello((Ipv4Addr::LOCALHOST, port)).is_ok();
    Local::start(home, binary.to_owned(), arguments, answers, Signal::SIGKILL)
}

/// Creates a certificate authority, and a certificate for 127.0.0.1 that it signs.
fn create_certificates(home: &Home) -> io::Result<()> {
    let create = |name: &str, arguments: &[&str]| {
        let mut openssl = home.command(&find_program("openssl").unwrap_or("openssl".into()))?;
        openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-noenc", "-days", "2"]).args(arguments);
        openssl.args([
            "-subj",
            &format!("/CN={name}"),
            "-keyout",
            &format!("{name}.key"),
            "-out",
            &format!("{name}.pem"),
        ]);
        if openssl.status()?.success() { Ok(()) } else { Err(home.error("openssl failed")) }
    };
    create("ca", &[])?;
    let leaf = ["-addext", "basicConstraints=critical,CA:FALSE", "-addext", "subjectAltName=IP:127.0.0.1"];
    create("server", &[&leaf[..], &["-CA", "ca.pem", "-CAkey", "ca.key"]].concat())?;
    let parts = ["server.pem", "server.key"].map(|name| std::fs::read_to_string(home.path().join(name)));
    let [certificate, key] = parts;
    home.write("server.pem", &(certificate? + &key?)).map(drop)
}

/// The server on the search path, or the one in the cache folder.
fn binary() -> Option<PathBuf> {
    let caches = variable("XDG_CACHE_HOME").map(PathBuf::from);
    let caches = caches.or_else(|| variable("HOME").map(|home| Path::new(&home).join(".cache")));
    find_program("mongod").or_else(|| caches.map(|caches| caches.join(CACHED)).filter(|binary| binary.is_file()))
}

fn local() -> Result<TestServer, Missing> {
    let nodes = variable(NODES_VARIABLE).map_or(Ok(1), |nodes| nodes.parse());
    let nodes = nodes.map_err(|_| Missing::new(ENGINE, format!("{NODES_VARIABLE} must be a number")))?;
    LocalMongo::start_with(nodes, &[]).map(|set| TestServer::new(set.url(), set))
}

fn in_container(image: &str) -> Result<TestServer, Box<dyn Error>> {
    if variable(NODES_VARIABLE).is_some() {
        return Err(format!("{NODES_VARIABLE} is set, but a container has one node").into());
    }
    let container = Container::start(image, PORT, &[], &["--replSet", SET], |address| hello(address).is_ok())?;
    let (host, port) = container.address();
    // The server knows itself by an address that its clients can't reach, so clients connect to it directly.
    let url = format!("mongodb://{host}:{port}/?directConnection=true");
    let config = doc! { "_id": SET, "members": [{ "_id": 0, "host": format!("127.0.0.1:{PORT}") }] };
    send((host, port), &doc! { "replSetInitiate": config, "$db": "admin" })?;
    if holds(|| Ok(is_primary((host, port))))? {
        Ok(TestServer::new(url, container))
    } else {
        Err("the replica set has no primary".into())
    }
}

fn is_primary(address: impl ToSocketAddrs) -> bool {
    hello(address).is_ok_and(|answer| answer.get_bool("isWritablePrimary").unwrap_or(false))
}

fn is_member(address: impl ToSocketAddrs) -> bool {
    let is_so = |answer: &Document, what| answer.get_bool(what).unwrap_or(false);
    hello(address).is_ok_and(|answer| is_so(&answer, "isWritablePrimary") || is_so(&answer, "secondary"))
}

impl Server for LocalMongo {
    fn url(&self) -> String {
        self.url()
    }

    fn kill(&mut self) -> io::Result<()> {
        (0..self.nodes.len()).try_for_each(|node| self.kill(node))
    }

    fn restart(&mut self) -> io::Result<()> {
        self.nodes.iter_mut().try_for_each(Local::restart)?;
        self.primary().map(drop)
    }
}

fn hello(address: impl ToSocketAddrs) -> io::Result<Document> {
    send(address, &doc! { "hello": 1, "$db": "admin" })
}

/// Sends a command and reads the answer.
///
/// <https://www.mongodb.com/docs/manual/reference/mongodb-wire-protocol/#op_msg>
fn send(address: impl ToSocketAddrs, command: &Document) -> io::Result<Document> {
    const OP_MSG: i32 = 2013;
    /// The length of the header, the flags and the kind of the only section, in bytes.
    const HEAD: usize = 16 + 4 + 1;
    let mut connection = TcpStream::connect(address)?;
    connection.set_read_timeout(Some(Duration::from_secs(30)))?;
    let body = command.to_vec().map_err(io::Error::other)?;
    let mut message = Vec::with_capacity(HEAD + body.len());
    for field in [(HEAD + body.len()) as i32, 1, 0, OP_MSG, 0] {
        message.extend(field.to_le_bytes());
    }
    message.push(0);
    message.extend(body);
    connection.write_all(&message)?;
    connection.read_exact(&mut [0; HEAD])?;
    Document::from_reader(connection).map_err(io::Error::other)
}
