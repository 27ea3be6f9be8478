//! MongoDB: a replica set, of one node or of several.

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
/// Where it listens in a container.
const PORT: u16 = 27_017;
/// The replica set that is made here.
const SET: &str = "rs0";
/// Where the script that prepares a machine for tests puts the server, in the folder for caches.
const CACHED: &str = "agent-memory/mongodb/mongod";

impl TestServer {
    /// MongoDB, a replica set. With `MEMORY_TEST_MONGO_NODES` and without a URL it has so many nodes, from the binary.
    pub fn mongo() -> Result<Self, Missing> {
        Self::find(ENGINE, USUAL_IMAGE, in_container, local)
    }
}

/// MongoDB servers from the binary of this machine, for tests that kill them or need settings of their own.
///
/// They are reached at 127.0.0.1 and make a replica set, unless they are asked not to.
#[derive(Debug)]
pub struct LocalMongo {
    nodes: Vec<Local>,
    options: String,
    credentials: String,
    /// The folder of its certificates, if it has any.
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

    /// Starts a replica set of some nodes, with further arguments, as those of `mongod`.
    pub fn start_with(nodes: usize, arguments: &[&str]) -> Result<Self, Missing> {
        Self::with_binary(|binary| Self::replica_set(binary, nodes, arguments))
    }

    /// Starts a replica set of one node that asks for a user and a password.
    pub fn start_with_user(user: &str, password: &str) -> Result<Self, Missing> {
        Self::with_binary(|binary| {
            let mut server = Self::replica_set(binary, 1, &["--auth", "--keyFile", "key"])?;
            server.command(0, doc! { "createUser": user, "pwd": password, "roles": ["root"], "$db": "admin" })?;
            server.credentials = format!("{user}:{password}@");
            server.options += "&authSource=admin";
            Ok(server)
        })
    }

    /// Starts a replica set of one node that takes encrypted connections only. Its URL names the authority to trust.
    pub fn start_with_tls() -> Result<Self, Missing> {
        Self::with_binary(|binary| {
            let home = Home::of_this_user()?;
            create_certificates(&home)?;
            let file = |name: &str| home.path().join(name).display().to_string();
            let (authority, certificate) = (file("ca.pem"), file("server.pem"));
            // The commands of this file come in plain; only those of tests are encrypted.
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

    /// Starts another node, with further arguments, and returns its number when it has copied what the replica set has. It has no vote, so
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

    /// Where it is reached, without a database. Stays the same over a restart.
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("mongodb://{}{}/?{}", self.credentials, hosts.join(","), self.options)
    }

    /// Where one node is reached, whether or not it is the primary.
    pub fn url_of(&self, node: usize) -> String {
        format!("mongodb://{}127.0.0.1:{}/?directConnection=true", self.credentials, self.nodes[node].port())
    }

    /// The folder of a node, removed in the end.
    pub fn folder(&self, node: usize) -> &Path {
        self.nodes[node].home().path()
    }

    /// The id of the process of a node; `None` after it was killed.
    pub fn process_id(&self, node: usize) -> Option<u32> {
        self.nodes[node].process_id()
    }

    /// Which node takes writes; waits until there is one.
    pub fn primary(&self) -> io::Result<usize> {
        let mut primary = None;
        holds(|| {
            primary = (0..self.nodes.len()).find(|node| is_primary((Ipv4Addr::LOCALHOST, self.nodes[*node].port())));
            Ok(primary.is_some())
        })?;
        primary.ok_or_else(|| io::Error::other("the replica set has no primary"))
    }

    /// Ends a node by SIGKILL, as a crash does, and returns when its process is gone.
    pub fn kill(&mut self, node: usize) -> io::Result<()> {
        self.nodes[node].kill()
    }

    /// Starts a node again on the same port and data, after it was killed if it still runs, and returns when it takes part in
    /// the replica set.
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
        // A new primary is elected soon after the old one is gone.
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
    // It runs as any user, root included, and may lie where others can't read.
    let home = Home::of_this_user()?;
    home.write("key", "0123456789abcdef")?;
    let arguments: Vec<_> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    let arguments = |_: &Home, port: u16| {
        let port = port.to_string();
        let own = ["--dbpath", ".", "--bind_ip", "127.0.0.1", "--nounixsocket", "--port", &port];
        // Less than the half of the machine's memory that it would take, and enough for two of the largest batches at once.
        let small = ["--wiredTigerCacheSizeGB", "2", "--setParameter", "diagnosticDataCollectionEnabled=false"];
        // Nobody reads the past, and thousands of namespaces that were dropped and wait for it slow the server down.
        let forgetful = ["--setParameter", "minSnapshotHistoryWindowInSeconds=0"];
        Ok(own.into_iter().chain(small).chain(forgetful).map(str::to_owned).chain(arguments.iter().cloned()).collect())
    };
    let answers = |port| hello((Ipv4Addr::LOCALHOST, port)).is_ok();
    Local::start(home, binary.to_owned(), arguments, answers, Signal::SIGKILL)
}

/// An authority, and a certificate of it for 127.0.0.1.
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

/// The server on the path, or the one that was put into the folder for caches.
fn binary() -> Option<PathBuf> {
    let caches = variable("XDG_CACHE_HOME").map(PathBuf::from);
    let caches = caches.or_else(|| variable("HOME").map(|home| Path::new(&home).join(".cache")));
    find_program("mongod").or_else(|| caches.map(|caches| caches.join(CACHED)).filter(|binary| binary.is_file()))
}

fn local() -> Result<TestServer, Missing> {
    let nodes = variable(NODES_VARIABLE).map_or(Ok(1), |nodes| nodes.parse());
    let nodes = nodes.map_err(|_| Missing::new(ENGINE, format!("{NODES_VARIABLE} is no number")))?;
    LocalMongo::start_with(nodes, &[]).map(|set| TestServer::new(set.url(), set))
}

fn in_container(image: &str) -> Result<TestServer, Box<dyn Error>> {
    if variable(NODES_VARIABLE).is_some() {
        return Err(format!("{NODES_VARIABLE} is set").into());
    }
    let container = Container::start(image, PORT, &[], &["--replSet", SET], |address| hello(address).is_ok())?;
    let (host, port) = container.address();
    // The server knows itself by another address than its clients, so these connect to it directly.
    let url = format!("mongodb://{host}:{port}/?directConnection=true");
    let config = doc! { "_id": SET, "members": [{ "_id": 0, "host": format!("127.0.0.1:{PORT}") }] };
    send((host, port), &doc! { "replSetInitiate": config, "$db": "admin" })?;
    if holds(|| Ok(is_primary((host, port))))? {
        Ok(TestServer::new(url, container))
    } else {
        Err("it elects no primary".into())
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

/// Sends a command, and reads the answer.
/// <https://www.mongodb.com/docs/manual/reference/mongodb-wire-protocol/#op_msg>
fn send(address: impl ToSocketAddrs, command: &Document) -> io::Result<Document> {
    const OP_MSG: i32 = 2013;
    /// The header, the flags and the kind of the only section.
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
