//! Runs the real server, and speaks HTTP to it byte by byte.

// Each test binary uses a part of this.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

use serde_json::{Value, json};

use super::{Cli, PATIENCE};

/// A server on a free port, on the database of a [`Cli`]. Killed when it is dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
    /// Its standard error, read by a thread: an unread pipe would block it in the end.
    log: Option<JoinHandle<String>>,
}

/// An answer of the server.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Server {
    pub(crate) fn start(cli: &Cli, args: &[&str]) -> Self {
        Self::start_as(cli.command(), args)
    }

    /// A server of a binary with this environment.
    pub(crate) fn start_as(mut command: Command, args: &[&str]) -> Self {
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(args).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary runs");
        let mut errors = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut log = String::new();
        let address = loop {
            let before = log.len();
            assert_ne!(errors.read_line(&mut log).expect("a line"), 0, "it ended early: {log}");
            // Other threads may have logged something before.
            if let Some(address) = log[before..].trim().strip_prefix("listening on http://") {
                break address.to_owned();
            }
        };
        let log = std::thread::spawn(move || {
            errors.read_to_string(&mut log).expect("UTF-8");
            log
        });
        Self { child, address, log: Some(log) }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.address).expect("the server listens")
    }

    /// One request on a connection of its own.
    pub(crate) fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
        let mut stream = self.connect();
        stream.write_all(self.raw(method, path, headers, body).as_bytes()).expect("the server reads");
        read(&mut stream)
    }

    /// The bytes of a request. `host` among the headers takes the place of the server's own.
    pub(crate) fn raw(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
        raw(&self.address, method, path, headers, body)
    }

    /// The connection of a request that has its place, and whose body is awaited.
    pub(crate) fn let_in(&self, path: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
        let headers = [headers, &[("expect", "100-continue")]].concat();
        let request = self.raw("POST", path, &headers, body);
        let mut waiting = self.connect();
        waiting.write_all(&request.as_bytes()[..request.len() - body.len()]).expect("the server reads");
        let mut go_on = [0; 25];
        waiting.read_exact(&mut go_on).expect("the server answers");
        assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
        waiting
    }

    pub(crate) fn get(&self, path: &str) -> Response {
        self.request("GET", path, &[], "")
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Response {
        self.request("POST", path, &[], body)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks the server to end.
    pub(crate) fn terminate(&self) {
        let status = std::process::Command::new("kill").args(["-TERM", &self.id().to_string()]).status();
        assert!(status.expect("kill runs").success());
    }

    /// Its exit status, and its log.
    pub(crate) fn wait(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().expect("it ends");
        (status, self.log.take().expect("it is taken once").join().expect("the log is read"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Response {
    /// A whole answer; `None` if the server broke it off.
    fn parse(bytes: Vec<u8>) -> Option<Self> {
        let text = String::from_utf8(bytes).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some(Self { status, head: head.to_owned(), body: body.to_owned() })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect(&self.body)
    }

    /// The body as problem details, which name this status.
    pub(crate) fn problem(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        assert_eq!(self.json()["status"], status);
        self.json()["detail"].as_str().expect("a detail").to_owned()
    }
}

/// A client of MCP over HTTP with only the calls that the tests need.
pub(crate) struct Mcp<'a> {
    server: &'a Server,
    pub(crate) session: String,
}

impl<'a> Mcp<'a> {
    pub(crate) fn connect(server: &'a Server) -> Self {
        let session = Self::introduce(server, &[]).header("mcp-session-id").expect("a session").to_owned();
        let client = Self { server, session };
        let ready = client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert_eq!(ready.status, 202, "{ready:?}");
        client
    }

    /// The server's answer to one more client with these headers.
    pub(crate) fn introduce(server: &Server, headers: &[(&str, &str)]) -> Response {
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello});
        server.request("POST", "/mcp", &[headers, &[ACCEPT]].concat(), &hello.to_string())
    }

    /// The server's answer to a call, as the events of a stream.
    pub(crate) fn call(&self, tool: &str, arguments: &Value) -> String {
        self.send(&call(tool, arguments)).body
    }

    /// The server's answer to another request.
    pub(crate) fn ask(&self, method: &str, params: &Value) -> String {
        self.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})).body
    }

    /// Answers a question of the server.
    pub(crate) fn answer(&self, id: &Value) {
        let answered = self.send(&json!({"jsonrpc": "2.0", "id": id, "result": {}}));
        assert_eq!(answered.status, 202, "{answered:?}");
    }

    /// A call whose answer has begun: the server has sent the headers, and runs the tool.
    pub(crate) fn begin(&self, tool: &str, arguments: &Value) -> BufReader<TcpStream> {
        let mut stream = self.server.connect();
        let request = self.server.raw("POST", "/mcp", &self.headers(), &call(tool, arguments).to_string());
        stream.write_all(request.as_bytes()).expect("the server reads");
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).expect("the server answers");
        assert_eq!(line, "HTTP/1.1 200 OK\r\n");
        reader
    }

    /// Ends the session.
    pub(crate) fn end(self) {
        let ended = self.server.request("DELETE", "/mcp", &self.headers(), "");
        assert!((200..300).contains(&ended.status), "{ended:?}");
    }

    fn send(&self, message: &Value) -> Response {
        self.server.request("POST", "/mcp", &self.headers(), &message.to_string())
    }

    fn headers(&self) -> [(&str, &str); 2] {
        [ACCEPT, ("mcp-session-id", &self.session)]
    }
}

/// The answers that a client of MCP accepts.
const ACCEPT: (&str, &str) = ("accept", "application/json, text/event-stream");

fn call(tool: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

/// The bytes of a request to the server at an address, unless the headers name another host.
fn raw(address: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
    let mut text = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
    if !headers.iter().any(|(name, _)| *name == "host") {
        text += &format!("host: {address}\r\n");
    }
    if !body.is_empty() {
        text += &format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    }
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    text + "\r\n" + body
}

/// Sends a body to a server that may be killed meanwhile: then there is no answer.
pub(crate) fn try_post(address: &str, path: &str, body: &str) -> Option<Response> {
    try_send(address, "POST", path, body)
}

/// Sends a request to a server that may be killed meanwhile: then there is no answer.
pub(crate) fn try_send(address: &str, method: &str, path: &str, body: &str) -> Option<Response> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(raw(address, method, path, &[], body).as_bytes()).ok()?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).ok()?;
    Response::parse(bytes)
}

/// The rest of an answer.
pub(crate) fn read_rest(stream: &mut impl Read) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("UTF-8");
    text
}

/// Reads until the server closes the connection.
pub(crate) fn read(stream: &mut TcpStream) -> Response {
    let mut bytes = Vec::new();
    // A server that refuses a body closes before it has read it, and that may reset the connection.
    let _ = stream.read_to_end(&mut bytes);
    Response::parse(bytes).expect("a head and a body")
}
