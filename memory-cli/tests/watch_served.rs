//! The feed of changes over HTTP.

use std::io::{Read as _, Write as _};

use common::events::{Events, open_watches, store, store_as};
use common::server::{Response, Server};
use common::{Cli, TOKENS};
use serde_json::json;

mod common;

const AS_RUNTIME: (&str, &str) = ("authorization", "Bearer runtime-0123456789abcdef");
const AS_MODEL: (&str, &str) = ("authorization", "Bearer model-0123456789abcdef");

#[test]
fn changes_come_as_events() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let events = Events::begun(&server, "/v1/watch?under=a&of=both&collection=notes", &[]);
    for header in ["content-type: text/event-stream", "cache-control: no-cache, no-transform", "x-accel-buffering: no"]
    {
        assert!(events.head.iter().any(|line| line == header), "{:?}", events.head);
    }
    store(&server, "b");
    let id = store(&server, "a-1");
    let stored = events.expect("stored");
    let memory = server.get(&format!("/v1/memories/{id}")).json();
    assert_eq!(stored.data, json!({"kind": "stored", "memory": memory}));
    assert!(stored.id.is_some_and(|id| id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))));

    let put = |collection: &str, space: &str| {
        let path = format!("/v1/documents/{collection}/x");
        server.request("PUT", &path, &[], &json!({"spaceId": space, "content": "line\r\nline"}).to_string()).json()
    };
    put("others", "a");
    let document = put("notes", "a");
    assert_eq!(events.expect("stored").data, json!({"kind": "stored", "document": document}));
    put("notes", "b");
    assert_eq!(events.expect("left").data, json!({"kind": "left", "collection": "notes", "id": "x"}));
    put("notes", "a");
    assert_eq!(events.expect("updated").data["document"]["revision"], 3);
    server.request("DELETE", "/v1/documents/notes/x", &[], "");
    assert_eq!(events.expect("removed").data, json!({"kind": "removed", "collection": "notes", "id": "x"}));
}

#[test]
fn the_id_of_an_event_goes_on_behind_it() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let first = store(&server, "a");
    let path = "/v1/watch?all=true&from=start";
    let events = Events::open(&server, path, &[]);
    let told = events.expect("stored");
    assert_eq!(told.data["memory"]["id"], json!(first));
    drop(events);
    let missed = [store(&server, "a"), store(&server, "b")];
    let id = told.id.expect("an id");
    drop(server);

    let server = Server::start(&cli, &[]);
    for (path, headers) in [
        // The header wins.
        (path.to_owned(), vec![("last-event-id", id.as_str())]),
        (format!("/v1/watch?all=true&from={id}"), vec![]),
        (format!("/v1/watch?all=true&from={id}"), vec![("last-event-id", "")]),
    ] {
        let events = Events::open(&server, &path, &headers);
        let told = missed.each_ref().map(|_| events.expect("stored").data["memory"]["id"].clone());
        assert_eq!(json!(told), json!(missed));
    }
    // A token belongs to its watch, and a text that is not a token is refused.
    let refused = |path: &str, headers: &[(&str, &str)]| server.request("GET", path, headers, "").problem(422);
    refused("/v1/watch?under=a", &[("last-event-id", &id)]);
    refused("/v1/watch?all=true", &[("last-event-id", "start")]);
    refused("/v1/watch?all=true&from=never", &[]);
    refused("/v1/watch", &[]);
    refused("/v1/watch?all=true&collection=notes", &[]);
    refused("/v1/watch?all=true&of=documents&status=failed", &[]);
    server.get("/v1/watch?all=true&of=everything").problem(400);
    server.get("/v1/watch?all=true&limit=1").problem(400);
    server.post("/v1/watch?all=true", "{}").problem(405);
}

#[test]
fn a_watch_outlasts_the_time_of_a_request_and_shows_that_it_goes_on() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--timeout", "1", "--heartbeat-ms", "100", "--concurrency", "1"]);
    let events = Events::begun(&server, "/v1/watch?under=a", &[]);
    // Comments for two seconds, and others are served meanwhile.
    for _ in 0..20 {
        events.comment();
    }
    let id = store(&server, "a");
    assert_eq!(events.expect("stored").data["memory"]["id"], json!(id));
}

#[test]
fn a_token_watches_what_it_may_read() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--tokens", &cli.write("tokens.toml", TOKENS)]);
    let put = |collection: &str, id: &str, space: &str| {
        let path = format!("/v1/documents/{collection}/{id}");
        server.request("PUT", &path, &[AS_RUNTIME], &json!({"spaceId": space, "content": "x"}).to_string())
    };
    server.get("/v1/watch?all=true").problem(401);
    let path = "/v1/watch?all=true&of=both";
    let events = Events::begun(&server, path, &[AS_MODEL]);
    for space in ["guild1", "guild1-a", "guild1-modelling"] {
        store_as(&server, &[AS_RUNTIME], space);
        assert_eq!(put("notes", space, space).status, 201);
    }
    let id = store_as(&server, &[AS_RUNTIME], "guild1-model-x");
    let told = events.expect("stored");
    assert_eq!(told.data["memory"]["id"], json!(id));
    // A document that moves into the scope, and out of it again.
    put("notes", "guild1", "guild1-model");
    assert_eq!(events.expect("updated").data["document"]["id"], "guild1");
    put("notes", "guild1", "guild1");
    assert_eq!(events.expect("left").data, json!({"kind": "left", "collection": "notes", "id": "guild1"}));
    put("notes", "guild1", "guild1-a");
    let id = store_as(&server, &[AS_RUNTIME], "guild1-model");
    assert_eq!(events.expect("stored").data["memory"]["id"], json!(id));

    for (of, headers) in [("documents", [AS_MODEL]), ("both", [AS_RUNTIME])] {
        server.request("GET", &format!("/v1/watch?all=true&of={of}&collection=private"), &headers, "").problem(403);
    }
    // The token of one caller continues for no other caller.
    let (theirs, id) = (Events::begun(&server, path, &[AS_RUNTIME]), told.id.expect("an id"));
    drop(theirs);
    server.request("GET", path, &[AS_RUNTIME, ("last-event-id", &id)], "").problem(422);
    let ids = |name: &str| {
        Events::open(&server, path, &[(AS_MODEL.0, name)]).next().expect("an event").id.expect("an id").len()
    };
    assert_eq!(ids(AS_MODEL.1), ids(AS_RUNTIME.1), "an id tells nothing by its length");
}

#[test]
fn a_client_that_leaves_frees_its_watch_at_once() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let events: Vec<_> = (0..3).map(|_| Events::begun(&server, "/v1/watch?all=true", &[])).collect();
    open_watches(&server, &[], 3);
    drop(events);
    open_watches(&server, &[], 0);
}

#[test]
fn a_client_that_takes_nothing_is_given_up() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--stall-ms", "500"]);
    // More than the buffers of a connection take.
    let memory = json!({"spaceId": "a", "trigger": "x".repeat(3 << 20)});
    let batch = json!({"memories": vec![memory; 8]}).to_string();
    for _ in 0..3 {
        assert_eq!(server.post("/v1/memories/batch", &batch).status, 201);
    }
    let mut stalled = server.connect();
    stalled
        .write_all(server.raw("GET", "/v1/watch?all=true&from=start", &[], "").as_bytes())
        .expect("the server reads");
    let mut begin = [0; 15];
    stalled.read_exact(&mut begin).expect("the server answers");
    assert_eq!(&begin, b"HTTP/1.1 200 OK");
    open_watches(&server, &[], 0);
    // The connection is closed with it: the data in flight is followed by no end of the stream.
    let mut rest = Vec::new();
    let end = stalled.read_to_end(&mut rest);
    assert!(end.is_err() || !rest.ends_with(b"0\r\n\r\n"), "{end:?}");
    // A client that reads everything gets all of it.
    let events = Events::open(&server, "/v1/watch?all=true&from=start", &[]);
    for _ in 0..24 {
        assert_eq!(events.expect("stored").data["memory"]["spaceId"], "a");
    }
}

#[test]
fn a_feed_that_has_lost_something_says_so_and_ends() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let events = Events::begun(&server, "/v1/watch?all=true", &[]);
    store(&server, "a");
    let last = events.expect("stored");
    // As if the file had gone back to an earlier state, and others had written since.
    cli.database("memory.db").execute_batch("UPDATE changes SET epoch = epoch + 1").expect("the feed");
    let reset = events.expect("error");
    assert_eq!((reset.id, &reset.data["error"], &reset.data["status"]), (None, &json!("FeedReset"), &json!(410)));
    assert!(events.next().is_none(), "the stream ends");
    let id = last.id.expect("an id");
    let refused = server.request("GET", "/v1/watch?all=true", &[("last-event-id", &id)], "");
    refused.problem(410);
    assert_eq!(refused.json()["error"], "FeedReset");
    let events = Events::open(&server, "/v1/watch?all=true&from=start", &[]);
    assert_eq!(events.expect("stored").data["memory"]["spaceId"], "a");
}

#[test]
fn a_shutdown_ends_watches_without_an_error() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let events = Events::begun(&server, "/v1/watch?all=true", &[]);
    server.terminate();
    assert!(events.next().is_none(), "it is cut, so that the client goes on elsewhere");
    let (status, log) = server.wait();
    assert!(status.success() && !log.contains("still open"), "{log}");
}

#[test]
fn no_token_takes_the_watches_of_all_others() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--tokens", &cli.write("tokens.toml", TOKENS)]);
    // Patterns take memory and time as long as the watch is open, and count for more.
    let globs = |count: usize| format!("/v1/watch?{}", "glob=guild?-*&".repeat(count));
    let open = Events::begun(&server, &globs(30), &[AS_MODEL]);
    let full = |headers: &[(&str, &str)]| -> Response { server.request("GET", &globs(20), headers, "") };
    let refused = full(&[AS_MODEL]);
    refused.problem(429);
    assert_eq!((refused.json()["error"].as_str(), refused.header("retry-after")), (Some("LimitExceeded"), Some("1")));
    let theirs = Events::begun(&server, &globs(20), &[AS_RUNTIME]);
    let under = format!("under={}&", "x".repeat(120)).repeat(500);
    server.request("GET", &format!("/v1/watch?{under}"), &[AS_MODEL], "").problem(429);
    drop(open);
    open_watches(&server, &[AS_RUNTIME], 1);
    drop(Events::begun(&server, &globs(20), &[AS_MODEL]));
    drop(theirs);
    server.request("GET", &globs(33), &[AS_MODEL], "").problem(413);
}

#[test]
fn watches_that_catch_up_wait_for_those_of_their_own_token_alone() {
    let cli = Cli::new();
    let memory = json!({"spaceId": "guild1-model", "trigger": "x".repeat(3 << 20)});
    let batch = json!({"memories": vec![memory; 8]}).to_string();
    let server = Server::start(&cli, &["--tokens", &cli.write("tokens.toml", TOKENS), "--heartbeat-ms", "100"]);
    for _ in 0..2 {
        assert_eq!(server.request("POST", "/v1/memories/batch", &[AS_RUNTIME], &batch).status, 201);
    }
    let path = "/v1/watch?under=guild1&from=start";
    // These have begun with the existing records, and read no more.
    let mut slow: Vec<_> = (0..16).map(|_| server.connect()).collect();
    for stream in &mut slow {
        stream.write_all(server.raw("GET", path, &[AS_MODEL], "").as_bytes()).expect("the server reads");
        let mut text = Vec::new();
        while !text.ends_with(b"event: stored") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("the server answers");
            text.push(byte[0]);
        }
    }
    let waiting = Events::open(&server, path, &[AS_MODEL]);
    waiting.comment();
    assert_eq!(Events::open(&server, path, &[AS_RUNTIME]).next().expect("an event").kind, "stored");
    assert_eq!(Events::open(&server, "/v1/watch?under=guild1", &[AS_MODEL]).next().expect("an event").kind, "reached");
    slow.pop();
    assert_eq!(waiting.next().expect("an event").kind, "stored");
}

#[test]
fn events_are_logged_only_on_request() {
    for (args, is_logged) in [(vec!["--log", "info"], false), (vec!["--log", "info", "--log-payloads"], true)] {
        let cli = Cli::new();
        let server = Server::start(&cli, &args);
        let events = Events::begun(&server, "/v1/watch?all=true", &[]);
        cli.ok(&["store", "--space", "a", "--trigger", r#""in-an-event""#]);
        assert_eq!(events.expect("stored").data["memory"]["trigger"], "in-an-event");
        drop(events);
        server.terminate();
        let (status, log) = server.wait();
        assert!(status.success() && log.contains("in-an-event") == is_logged, "{log}");
    }
}
