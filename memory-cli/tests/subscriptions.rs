//! The subscriptions of MCP.

use common::Cli;
use common::events::{Events, open_watches, store};
use common::server::{Mcp, Server};
use serde_json::{Value, json};

mod common;

const NEWEST: &str = "memory://newest";

/// The notifications of a session.
fn notifications(client: &Mcp<'_>, server: &Server) -> Events {
    Events::open(server, "/mcp", &[("accept", "text/event-stream"), ("mcp-session-id", &client.session)])
}

/// The URI that the next notification of an update names.
fn updated(events: &Events) -> Value {
    loop {
        let message = events.next().expect("the stream goes on").data;
        if message["method"] == "notifications/resources/updated" {
            return message["params"]["uri"].clone();
        }
    }
}

#[test]
fn a_session_is_told_of_the_resources_that_it_subscribes_to() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--read", "guild1"]);
    let hello = Mcp::introduce(&server, &[]);
    assert!(hello.body.contains(r#""subscribe":true"#), "{hello:?}");
    let client = Mcp::connect(&server);
    let events = notifications(&client, &server);
    let subscribe = |uri: &str| client.ask("resources/subscribe", &json!({"uri": uri}));
    for uri in ["memory://space/guild1-a", "memory://space/guild1%2Db", "memory://space/guild2"] {
        let answer = subscribe(uri);
        assert!(answer.contains(r#""result":{}"#), "{answer}");
    }
    // A second time is no second subscription.
    assert!(subscribe("memory://space/guild1-a").contains(r#""result":{}"#));
    open_watches(&server, &[], 3);
    // Changes outside of what the client may read are reported to nobody.
    store(&server, "guild2");
    store(&server, "guild1-b-x");
    assert_eq!(updated(&events), "memory://space/guild1%2Db");
    store(&server, "guild1-a");
    assert_eq!(updated(&events), "memory://space/guild1-a");
    assert!(client.ask("resources/unsubscribe", &json!({"uri": "memory://space/guild1-a"})).contains(r#""result":{}"#));
    open_watches(&server, &[], 2);
    store(&server, "guild1-a");
    assert!(subscribe(NEWEST).contains(r#""result":{}"#));
    let id = store(&server, "guild1-c");
    assert_eq!(updated(&events), NEWEST);
    assert_eq!(server.request("PATCH", &format!("/v1/memories/{id}"), &[], r#"{"status":"failed"}"#).status, 200);
    assert_eq!(updated(&events), NEWEST);

    for uri in ["memory://oldest", "memory://space/", "memory://space/%ff", ""] {
        assert!(subscribe(uri).contains(r#""error""#), "{uri}");
    }
    client.end();
    open_watches(&server, &[], 0);
}

#[test]
fn subscriptions_are_bounded_and_end_with_a_client_that_does_not_answer() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--stall-ms", "300"]);
    let client = Mcp::connect(&server);
    // Nobody reads the requests to the client.
    assert!(client.ask("resources/subscribe", &json!({"uri": NEWEST})).contains(r#""result":{}"#));
    open_watches(&server, &[], 0);
    drop(server);

    let server = Server::start(&cli, &[]);
    let client = Mcp::connect(&server);
    let subscribe =
        |number: usize| client.ask("resources/subscribe", &json!({"uri": format!("memory://space/a-{number}")}));
    for number in 0..16 {
        assert!(subscribe(number).contains(r#""result":{}"#));
    }
    assert!(subscribe(16).contains("16 resources at most"));
    open_watches(&server, &[], 16);
    client.ask("resources/unsubscribe", &json!({"uri": "memory://space/a-3"}));
    assert!(subscribe(16).contains(r#""result":{}"#));
}

#[test]
fn a_shutdown_does_not_wait_for_subscriptions() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let client = Mcp::connect(&server);
    let events = notifications(&client, &server);
    assert!(client.ask("resources/subscribe", &json!({"uri": NEWEST})).contains(r#""result":{}"#));
    server.terminate();
    while events.next().is_some() {}
    let (status, log) = server.wait();
    assert!(status.success() && !log.contains("still open"), "{log}");
}
