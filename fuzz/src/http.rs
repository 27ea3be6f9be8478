use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, BodyDataStream, to_bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode, Uri, header};
use axum::response::Response;
use futures::{FutureExt, StreamExt};
use memory_cli::fuzzing::router;
use memory_core::MemoryProvider;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;
use tokio::time::timeout;
use tower::ServiceExt;

use crate::PAYLOAD;
use crate::ledger::{SECRET, assert_untouched, ledger};

/// Two callers who both see only guild1: one for a model, and one with all rights there that a token can have.
const TOKENS: &str = r#"
[[token]]
name = "bot"
token = "bot-0123456789abcdef"
read = [{ under = "guild1" }]
write = "guild1-bot"
collections = ["notes"]

[[token]]
name = "keeper"
token = "keeper-0123456789abcdef"
read = [{ under = "guild1" }, { regex = "^guild1($|-)" }]
write = "guild1"
collections = ["notes", "other"]
ledger = "write"
erase = true
"#;

const MAX_REQUESTS: usize = 8;

/// How long a call may take, which is longer than the server allows.
const PATIENCE: Duration = Duration::from_secs(10);

thread_local! {
    static SERVER: RefCell<Option<Server>> = const { RefCell::new(None) };
}

/// A server over a fresh ledger.
struct Server {
    runtime: Runtime,
    provider: Arc<dyn MemoryProvider>,
    router: Router,
}

/// The parts of earlier answers that a later request can name.
#[derive(Default)]
struct Answered {
    session: String,
    next: String,
    id: String,
}

/// Requests as in a `.http` file, separated by `###`: a line of method and path, headers, an empty line and a body. No
/// answer is a server error, each refusal gives its reason in JSON, no text becomes a tag, and no caller sees or
/// changes anything outside of its spaces.
///
/// In a head, `{session}`, `{next}` and `{id}` stand for those of the earlier answers.
pub fn http(data: &[u8]) {
    SERVER.with_borrow_mut(|slot| {
        // A server whose ledger was changed is not reused for the next input, and neither is one that has panicked.
        let server = slot.take().unwrap_or_else(Server::new);
        if !server.runtime.block_on(server.answers(data)) {
            *slot = Some(server);
        }
    });
}

impl Server {
    fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
        let provider = runtime.block_on(ledger()).expect("a ledger");
        let router = router(&provider, TOKENS).expect("valid tokens");
        Self { runtime, provider, router }
    }

    /// Answers the requests; whether something may have been written.
    async fn answers(&self, data: &[u8]) -> bool {
        let knows_secret = contains(data, &SECRET.as_bytes()[..4]);
        let (mut answered, mut is_written) = (Answered::default(), false);
        for request in split(data, b"###\n").into_iter().take(MAX_REQUESTS) {
            let Some(request) = parse(request, &answered) else { continue };
            let (method, path) = (request.method().clone(), request.uri().path().to_owned());
            let answering = timeout(PATIENCE, self.router.clone().oneshot(request)).await;
            let Ok(response) = answering.expect("an answer in time");
            is_written |= !method.is_safe() && !response.status().is_client_error();
            let (status, headers) = (response.status(), response.headers().clone());
            let body = read(response, &method, &path).await;
            assert!(!status.is_server_error(), "{method} {path}: {status} {}", body.escape_ascii());
            if !knows_secret {
                let shown = format!("{headers:?} {}", String::from_utf8_lossy(&body));
                assert!(!shown.contains(SECRET), "{method} {path} shows what lies outside: {shown}");
            }
            assert_well_formed(&method, &path, status, &headers, &body);
            answered.note(&headers, &body);
        }
        assert_untouched(&*self.provider).await.expect("a ledger");
        is_written
    }
}

impl Answered {
    fn note(&mut self, headers: &HeaderMap, body: &[u8]) {
        if let Some(session) = headers.get("mcp-session-id").and_then(|id| id.to_str().ok()) {
            session.clone_into(&mut self.session);
        }
        let value: Value = serde_json::from_slice(body).unwrap_or_default();
        for (member, slot) in [("next", &mut self.next), ("id", &mut self.id)] {
            if let Some(text) = value[member].as_str() {
                text.clone_into(slot);
            }
        }
    }
}

/// The request; `None` if no server would read the text as one.
fn parse(text: &[u8], answered: &Answered) -> Option<Request<Body>> {
    let (head, body) = match text.windows(2).position(|ends| ends == b"\n\n") {
        Some(at) => (&text[..=at], &text[at + 2..]),
        None => (text, &b""[..]),
    };
    let head = std::str::from_utf8(head).ok()?;
    let head = head.replace("{session}", &answered.session).replace("{next}", &answered.next);
    let head = head.replace("{id}", &answered.id);
    let mut lines = head.lines();
    let (method, path) = lines.next()?.split_once(' ')?;
    let uri = path.parse::<Uri>().ok().filter(|uri| uri.path().starts_with('/'))?;
    let mut request = Request::builder().method(Method::from_bytes(method.as_bytes()).ok()?).uri(uri);
    for line in lines {
        let (name, value) = line.split_once(": ")?;
        request = request.header(name, value.as_bytes());
    }
    request.body(Body::from(body.to_vec())).ok()
}

/// The body of an answer. If the body has no end, returns what is available at once.
async fn read(response: Response, method: &Method, path: &str) -> Vec<u8> {
    let is_stream = is_of(response.headers(), "text/event-stream");
    if is_stream && (method == Method::GET || !path.starts_with("/mcp")) {
        return begin(response.into_body().into_data_stream()).await;
    }
    let whole = timeout(PATIENCE, to_bytes(response.into_body(), usize::MAX)).await.expect("a body in time");
    whole.expect("a whole body").to_vec()
}

async fn begin(mut stream: BodyDataStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..16 {
        match stream.next().now_or_never() {
            Some(Some(Ok(frame))) => bytes.extend_from_slice(&frame),
            Some(_) => break,
            None => yield_now().await,
        }
    }
    bytes
}

fn assert_well_formed(method: &Method, path: &str, status: StatusCode, headers: &HeaderMap, body: &[u8]) {
    if is_of(headers, "text/html") {
        assert!(!contains(body, b"<x-"), "{method} {path} has a tag of somebody else: {}", body.escape_ascii());
        return;
    }
    // The library of the protocol reports errors of the protocol in its own format. A script of the console gets no
    // body.
    let is_other = path.starts_with("/mcp") && !is_of(headers, "application/problem+json");
    if method == Method::HEAD || is_other || path == "/" || path.starts_with("/console") {
        return;
    }
    if status.is_client_error() {
        let problem: Value = serde_json::from_slice(body).unwrap_or_default();
        let is_problem = is_of(headers, "application/problem+json") && problem["status"] == status.as_u16();
        let is_told = problem["detail"].as_str().is_some_and(|detail| !detail.is_empty());
        assert!(is_problem && is_told, "{method} {path}: {status} {headers:?} {}", body.escape_ascii());
        assert!(!contains(body, PAYLOAD.as_bytes()), "{method} {path} quotes: {}", body.escape_ascii());
    } else if is_of(headers, "application/json") {
        let json = serde_json::from_slice::<&serde_json::value::RawValue>(body);
        assert!(json.is_ok(), "{method} {path} is not JSON: {}", body.escape_ascii());
    }
}

fn is_of(headers: &HeaderMap, kind: &str) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(kind.as_bytes()))
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn split<'d>(mut data: &'d [u8], separator: &[u8]) -> Vec<&'d [u8]> {
    let mut parts = Vec::new();
    while let Some(at) = data.windows(separator.len()).position(|window| window == separator) {
        parts.push(&data[..at]);
        data = &data[at + separator.len()..];
    }
    parts.push(data);
    parts
}
