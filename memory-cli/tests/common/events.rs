//! A client of server-sent events.

// Each test binary uses a part of this.
#![allow(dead_code)]

use std::io::Write as _;
use std::net::{Shutdown, TcpStream};

use serde_json::{Value, json};

use super::eventually;
use super::lines::Lines;
use super::server::Server;

/// A stream of events that has begun. The connection ends when it is dropped.
pub(crate) struct Events {
    stream: TcpStream,
    lines: Lines,
    /// The head of the answer, in small letters.
    pub(crate) head: Vec<String>,
}

/// One event.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) kind: String,
    pub(crate) data: Value,
}

impl Events {
    /// Asks for a stream, which the server begins.
    pub(crate) fn open(server: &Server, path: &str, headers: &[(&str, &str)]) -> Self {
        let mut stream = server.connect();
        stream.write_all(server.raw("GET", path, headers, "").as_bytes()).expect("the server reads");
        let lines = Lines::of(stream.try_clone().expect("a connection"));
        let line = || lines.next().expect("a head").to_ascii_lowercase();
        let head: Vec<_> = std::iter::repeat_with(line).take_while(|line| !line.is_empty()).collect();
        assert_eq!(head.first().map(String::as_str), Some("http/1.1 200 ok"), "{head:?}");
        Self { stream, lines, head }
    }

    /// The watch of a path, after it has delivered all existing records.
    pub(crate) fn begun(server: &Server, path: &str, headers: &[(&str, &str)]) -> Self {
        let events = Self::open(server, path, headers);
        assert_eq!(events.next().expect("an event").kind, "reached");
        events
    }

    /// The next event; `None` when the stream has ended. Skips comments and the sizes of chunks.
    pub(crate) fn next(&self) -> Option<Event> {
        let (mut id, mut kind) = (None, None);
        loop {
            let line = self.lines.next()?;
            match line.split_once(": ") {
                Some(("id", value)) => id = Some(value.to_owned()),
                Some(("event", value)) => kind = Some(value.to_owned()),
                Some(("data", value)) => {
                    let data = if value.is_empty() { Value::Null } else { serde_json::from_str(value).expect(value) };
                    return Some(Event { id, kind: kind.unwrap_or_default(), data });
                }
                _ => {}
            }
        }
    }

    /// The next event, which must be of this kind; *progress* and *reached* may come at any time.
    pub(crate) fn expect(&self, kind: &str) -> Event {
        loop {
            let event = self.next().expect("the stream goes on");
            if event.kind == kind {
                return event;
            }
            assert!(matches!(event.kind.as_str(), "reached" | "progress"), "{kind}: {event:?}");
        }
    }

    /// Waits for a comment, and skips the events before it.
    pub(crate) fn comment(&self) {
        while !self.lines.next().expect("the stream goes on").starts_with(':') {}
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // The thread that reads has the connection too.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// Stores a memory, and returns its id.
pub(crate) fn store_as(server: &Server, headers: &[(&str, &str)], space: &str) -> String {
    let body = json!({"spaceId": space, "trigger": {"text": space}}).to_string();
    let stored = server.request("POST", "/v1/memories", headers, &body);
    assert_eq!(stored.status, 201, "{stored:?}");
    stored.json()["id"].as_str().expect("an id").to_owned()
}

/// The same without a token.
pub(crate) fn store(server: &Server, space: &str) -> String {
    store_as(server, &[], space)
}

/// Waits until this many watches are open.
pub(crate) fn open_watches(server: &Server, headers: &[(&str, &str)], count: usize) {
    let counted = format!("\nagent_memory_watches_open {count}\n");
    eventually(&counted, || server.request("GET", "/metrics", headers, "").body.contains(&counted));
}
