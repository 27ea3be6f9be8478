//! The HTTP route that starts tasks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use memory_core::{Erasure, ErrorKind, InMemory, MemoryId, MemoryProvider, MemoryQuery, Status, SystemClock, Trigger};
use memory_runtime::{ContextContent, ContextItem, HttpTrigger, NewTask, Runtime, Space};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

mod common;
use common::{Event, Log, Recording, TestPlugin, at, chain, fixed, space};

/// The posted JSON.
#[derive(Deserialize)]
struct Posted {
    space: Space,
    text: String,
}

fn read(content: ContextContent) -> memory_core::Result<NewTask> {
    let posted: Posted = content.to_value()?;
    let content = ContextContent::from_value(&json!({ "text": posted.text }))?;
    Ok(NewTask::new(posted.space, ContextItem::trigger("http", content, at(7))))
}

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

const JSON: &str = "content-type: application/json";

/// Sends a request with these headers on a connection of its own, and reads status and body.
async fn send(address: SocketAddr, method: &str, path: &str, headers: &str, body: &[u8]) -> (u16, Value) {
    let mut connection = TcpStream::connect(address).await.expect("a listener");
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n\r\n"
    );
    connection.write_all(head.as_bytes()).await.expect("sent");
    // A body that is too large may be refused before its end.
    let _ = connection.write_all(body).await;
    let mut answer = Vec::new();
    let _ = connection.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).expect("text");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
    (status, serde_json::from_str(body).unwrap_or_default())
}

#[tokio::test]
async fn what_is_posted_is_persisted_and_worked_on() {
    let log = Log::new();
    let provider = InMemory::new();
    let aside = provider.reopen(Arc::new(SystemClock), memory_core::DEFAULT_DEADLINE);
    aside.init().await.expect("opens");
    let (listener, address) = listener().await;
    let trigger = HttpTrigger::new("events", listener, "/events", read).expect("a route");
    let runtime = Runtime::builder()
        .memory(Arc::new(provider))
        .plugin(TestPlugin::new("test", &log).saying().build())
        .planner(fixed(&[("say", json!({ "text": { "$task": "/trigger/text" } }))]))
        .trigger(Arc::new(trigger))
        .build()
        .await
        .expect("starts");
    let event = br#"{"space":{"id":"chat-1","container":"chat"},"text":"hello"}"#;
    let (status, body) = send(address, "POST", "/events", JSON, event).await;
    assert_eq!(status, 202, "{body}");
    let id: MemoryId = body["id"].as_str().expect("an id").parse().expect("an id");
    assert!(aside.get(id).await.expect("reads").is_some(), "it is persisted when the answer comes");

    let too_large = format!(r#"{{"text":"{}"}}"#, "x".repeat(Trigger::MAX_BYTES));
    for (method, path, body, expected) in [
        ("POST", "/events", &b"{"[..], 400),
        ("POST", "/events", br#"{"text":"no space"}"#, 400),
        ("POST", "/events", br#"{"space":{"id":""},"text":"x"}"#, 400),
        ("POST", "/events", b"\xff", 400),
        ("POST", "/events", too_large.as_bytes(), 413),
        ("GET", "/events", b"", 405),
        ("POST", "/else", b"{}", 404),
    ] {
        assert_eq!(send(address, method, path, JSON, body).await.0, expected, "{method} {path}");
    }
    for (headers, expected) in [
        ("accept: */*", 415),
        ("content-type: text/plain", 415),
        ("content-type: application/x-www-form-urlencoded", 415),
        ("content-type: application/json\r\norigin: https://evil.example", 403),
        ("content-type: application/json\r\norigin: null", 403),
        ("content-type: application/json\r\norigin: http://test", 403),
    ] {
        assert_eq!(send(address, "POST", "/events", headers, event).await.0, expected, "{headers}");
    }
    runtime.shutdown().await.expect("ends");
    assert_eq!(log.plugins(), ["test init", "hello", "test shutdown"]);
    let memory = aside.get(id).await.expect("reads").expect("is there");
    assert_eq!((memory.status, chain(&memory).is_empty()), (Status::Completed, false));
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn a_client_does_not_learn_that_its_task_was_erased() {
    let (log, over) = (Log::new(), watch::Sender::new(false));
    let provider = InMemory::new();
    let aside = provider.reopen(Arc::new(SystemClock), memory_core::DEFAULT_DEADLINE);
    aside.init().await.expect("opens");
    let (listener, address) = listener().await;
    let trigger = HttpTrigger::new("events", listener, "/events", read).expect("a route");
    let runtime = Runtime::builder()
        .memory(Recording::new(Arc::new(provider), &log))
        .plugin(TestPlugin::new("test", &log).waiting(over.subscribe()).build())
        .planner(fixed(&[("wait", json!({}))]))
        .queue(1)
        .lease(Duration::from_millis(300))
        .trigger(Arc::new(trigger))
        .build()
        .await
        .expect("starts");
    let first = br#"{"space":{"id":"chat-1"},"text":"hello"}"#;
    assert_eq!(send(address, "POST", "/events", JSON, first).await.0, 202);
    log.wait_for_plugin("waiting").await;
    // It waits for the one place.
    let second = br#"{"space":{"id":"chat-2"},"text":"hello"}"#;
    let second = tokio::spawn(async move { send(address, "POST", "/events", JSON, second).await });
    let is_second = |event: &Event| matches!(event, Event::Stored(memory) if memory.space_id == space("chat-2"));
    log.wait_for(|events| events.iter().any(is_second)).await;
    let stored = MemoryQuery::builder().exact(space("chat-2")).build().expect("valid");
    let id = aside.query(&stored).await.expect("a page").memories[0].id;
    let erasure = Erasure::records([id.into()], "a test").expect("valid");
    assert_eq!(aside.erase(&erasure).await.expect("erased").records.len(), 1);
    let (status, body) = second.await.expect("no panic");
    assert_eq!((status, body), (409, json!({ "error": "the task was given up, since it no longer exists" })));
    over.send_replace(true);
    runtime.shutdown().await.expect("ends");
}

#[tokio::test]
async fn a_path_that_is_none_is_refused() {
    for path in ["", "events", "/{id}"] {
        let error = HttpTrigger::new("events", listener().await.0, path, read).expect_err(path);
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}
