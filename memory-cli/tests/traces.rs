//! The spans of the server, as a collector of OpenTelemetry receives them.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use common::Cli;
use common::server::{Mcp, Server};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};
use prost::Message;
use serde_json::json;

mod common;

/// Receives OTLP over HTTP.
struct Collector {
    address: SocketAddr,
    bodies: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let (address, bodies) = (listener.local_addr().expect("an address"), Arc::<Mutex<Vec<Vec<u8>>>>::default());
        let received = Arc::clone(&bodies);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.expect("a connection"));
                let body = read(&mut stream);
                received.lock().expect("no panic").push(body);
                let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                stream.get_mut().write_all(answer.as_bytes()).expect("the exporter reads");
            }
        });
        Self { address, bodies }
    }

    fn exports(&self) -> Vec<ResourceSpans> {
        let bodies = self.bodies.lock().expect("no panic");
        let exports = bodies.iter().map(|body| ExportTraceServiceRequest::decode(&body[..]).expect("OTLP"));
        exports.flat_map(|export| export.resource_spans).collect()
    }
}

/// The body of a request.
fn read(stream: &mut impl BufRead) -> Vec<u8> {
    let (mut line, mut length) = (String::new(), 0);
    stream.read_line(&mut line).expect("a request");
    assert_eq!(line, "POST /v1/traces HTTP/1.1\r\n");
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line).expect("a header");
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).expect("a body");
    body
}

/// An attribute as text.
fn attribute(span: &Span, key: &str) -> Option<String> {
    let value = span.attributes.iter().find(|attribute| attribute.key == key)?.value.clone()?.value?;
    Some(match value {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    })
}

#[test]
fn requests_tools_and_the_engine_are_spans_without_payloads() {
    let (cli, collector) = (Cli::new(), Collector::start());
    let mut command = cli.command();
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", collector.address)).env_remove("OTEL_SERVICE_NAME");
    // Whatever the log has, spans have no payloads.
    let server = Server::start_as(command, &["--log", "trace", "--log-payloads"]);
    assert_eq!(server.post("/v1/memories", r#"{"spaceId":"a-b","trigger":"xyzzy"}"#).status, 201);
    server.get("/v1/memories?under=a&where=text+%3D+%27xyzzy%27");
    server.get("/v1/memories/xyzzy").problem(422);
    let mcp = Mcp::connect(&server);
    mcp.call("memory_add_document", &json!({"content": "xyzzy"}));
    mcp.call("memory_query", &json!({"where": "xyzzy"}));
    server.terminate();
    let (status, log) = server.wait();
    assert!(status.success() && log.contains("xyzzy"), "{log}");

    let exports = collector.exports();
    let resource = format!("{:?}", exports[0].resource);
    assert!(resource.contains("agent-memory"), "{resource}");
    let spans: Vec<Span> =
        exports.into_iter().flat_map(|export| export.scope_spans).flat_map(|scope| scope.spans).collect();
    assert!(!format!("{spans:?}").contains("xyzzy"), "{spans:?}");
    let find = |name: &str, key: &str, value: &str| -> &Span {
        let is_it = |span: &&Span| span.name == name && attribute(span, key).as_deref() == Some(value);
        spans.iter().find(is_it).unwrap_or_else(|| panic!("no {name} with {key}={value} in {spans:?}"))
    };

    let request = find("POST /v1/memories", "http.response.status_code", "201");
    assert_eq!((request.parent_span_id.len(), attribute(request, "caller").as_deref()), (0, Some("local")));
    let store = find("memory", "operation", "store");
    assert_eq!((&store.parent_span_id, &store.trace_id), (&request.span_id, &request.trace_id));
    assert_eq!(attribute(store, "backend").as_deref(), Some("sqlite"));
    assert_eq!(attribute(store, "outcome").as_deref(), Some("ok"));
    let query = find("memory", "operation", "query");
    assert_eq!(attribute(query, "examined").as_deref(), Some("1"));
    assert!(attribute(query, "waited_ms").is_some(), "{query:?}");
    find("GET /v1/memories/{id}", "http.response.status_code", "422");

    let call = find("memory_add_document", "outcome", "ok");
    let put = find("memory", "operation", "documents.put");
    assert_eq!((&put.parent_span_id, &put.trace_id), (&call.span_id, &call.trace_id));
    let request = spans.iter().find(|span| span.span_id == call.parent_span_id).expect("the request of the call");
    assert_eq!(request.name, "POST /mcp");
    find("memory_query", "outcome", "InvalidInput");
}

#[test]
fn a_collector_that_is_down_does_no_harm() {
    let cli = Cli::new();
    let mut command = cli.command();
    // Nobody listens at the first port.
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");
    let server = Server::start_as(command, &[]);
    assert_eq!(server.post("/v1/memories", r#"{"spaceId":"a","trigger":"xyzzy"}"#).status, 201);
    server.terminate();
    let (status, log) = server.wait();
    assert!(status.success() && log.contains("OTLP export") && !log.contains("xyzzy"), "{log}");
}
