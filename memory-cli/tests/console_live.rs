//! The pages that update in place, and the work of the engine in the last minutes.

use std::io::Write as _;
use std::net::TcpStream;

use common::console::{checked, page};
use common::events::{open_watches, store, store_as};
use common::server::{Server, read};
use common::{Cli, TOKENS, eventually};
use serde_json::json;

mod common;

const AS_RUNTIME: (&str, &str) = ("authorization", "Bearer runtime-0123456789abcdef");
const AS_MODEL: (&str, &str) = ("authorization", "Bearer model-0123456789abcdef");

/// A page for a request with these headers.
fn page_as(server: &Server, headers: &[(&str, &str)], path: &str) -> String {
    checked(server.request("GET", path, headers, ""), 200)
}

/// The first value of an attribute.
fn attribute(body: &str, name: &str) -> Option<String> {
    let (_, rest) = body.split_once(&format!(" {name}=\""))?;
    Some(rest.split('"').next()?.replace("&amp;", "&"))
}

/// The address at which a page waits for the next changes.
fn poll(body: &str) -> String {
    let (_, line) = body.split_once("<p id=\"poll\"").expect(body);
    let path = attribute(line, "hx-get").expect(body);
    assert!(path.contains("mode=poll") && path.contains("from="), "{path}");
    path
}

/// The address at which a page shows new changes to a reader without a script.
fn since(body: &str) -> String {
    let (_, link) = body.split_once("<a id=\"since\"").expect(body);
    attribute(link, "href").expect(body)
}

/// A poll that waits for a change, as the only one.
fn begun(server: &Server, headers: &[(&str, &str)], path: &str) -> TcpStream {
    begun_beside(0, server, headers, path)
}

/// A poll that waits for a change, beside so many others.
fn begun_beside(others: usize, server: &Server, headers: &[(&str, &str)], path: &str) -> TcpStream {
    let mut stream = server.connect();
    stream.write_all(server.raw("GET", path, headers, "").as_bytes()).expect("the server reads");
    open_watches(server, headers, others + 1);
    stream
}

/// How many changes of this kind a page shows.
fn changes(body: &str, kind: &str) -> usize {
    body.matches(&format!("<p class=\"change\"><strong>{kind}</strong>")).count()
}

#[test]
fn a_change_comes_to_who_waits_for_it() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    store(&server, "a");
    let live = page(&server, "/console/live?under=a");
    assert!(live.contains("role=\"log\"") && live.contains("value=\"a\"") && changes(&live, "Stored") == 0, "{live}");
    let path = poll(&live);
    let mut waiting = begun(&server, &[], &path);
    store(&server, "b");
    let id = store(&server, "a-1");
    let answer = checked(read(&mut waiting), 200);
    assert_eq!(changes(&answer, "Stored"), 1, "{answer}");
    assert!(answer.contains(&format!("/console/memory/{id}")) && !answer.contains("<bdi>b</bdi>"));
    open_watches(&server, &[], 0);

    // The token continues after it, and the earlier token delivers it again.
    let next = poll(&answer);
    let other = store(&server, "a-2");
    let body = page(&server, &next);
    assert!(body.contains(&other) && !body.contains(&id) && changes(&body, "Stored") == 1, "{body}");
    let body = page(&server, &path);
    assert!(body.find(&other).expect("both") < body.find(&id).expect("both"), "the newest on top: {body}");
    assert_eq!(changes(&body, "Stored"), 2, "{body}");
}

#[test]
fn all_kinds_of_changes_are_told_without_a_script() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let mut path = since(&page(&server, "/console/live?under=a&of=both&collection=notes"));
    let mut told = |kind: &str| {
        let body = page(&server, &path);
        assert_eq!((changes(&body, kind), body.matches("class=\"change\"").count()), (1, 1), "{kind}: {body}");
        path = since(&body);
        body
    };
    let put = |space: &str| {
        let body = json!({"spaceId": space, "content": "<script>alert(1)</script>\u{202E}"}).to_string();
        assert!(server.request("PUT", "/v1/documents/notes/x", &[], &body).status < 300);
    };
    put("a");
    let stored = told("Stored");
    assert!(stored.contains("<bdi>&lt;script&gt;alert(1)&lt;/script&gt;\u{202E}</bdi>"), "{stored}");
    assert!(stored.contains("/console/document?collection=notes&amp;id=x"), "{stored}");
    put("b");
    assert!(told("Left").contains("document <bdi>x</bdi> of notes"));
    put("a");
    assert!(told("Updated").contains("Revision 3"));
    assert_eq!(server.request("DELETE", "/v1/documents/notes/x", &[], "").status, 204);
    told("Removed");
    let id = store(&server, "a");
    told("Stored");
    let erased = server.post("/v1/erase", &json!({"ids": [id], "reason": "why"}).to_string());
    assert_eq!(erased.status, 200, "{erased:?}");
    let erased = page(&server, &path);
    assert!(changes(&erased, "Erased") == 1 && erased.contains(&id), "{erased}");
}

#[test]
fn a_pause_and_many_changes_keep_the_page_small() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let live = page(&server, "/console/live");
    let pause = poll(&live).replace("mode=poll", "mode=pause");
    let paused = page(&server, &pause);
    assert!(paused.contains("Paused") && !paused.contains("hx-trigger"), "{paused}");
    let memories: Vec<_> = (0..120).map(|number| json!({"spaceId": "a", "trigger": number})).collect();
    assert_eq!(server.post("/v1/memories/batch", &json!({"memories": memories}).to_string()).status, 201);
    let (_, turn) = paused.split_once("<a id=\"turn\"").expect("the way on");
    let mut path = attribute(turn, "hx-get").expect("a link");
    let (mut shown, mut told) = (0, 0);
    while told < 120 {
        let body = page(&server, &path);
        let new = changes(&body, "Stored");
        assert!((1..=50).contains(&new), "{body}");
        (told, shown) = (told + new, shown + new);
        path = poll(&body);
        assert!(path.contains(&format!("shown={shown}&")), "{path}");
    }
    assert_eq!(told, 120);
    // If the page is full, new lines replace those that it has.
    store(&server, "a");
    let full = server.get(&path.replace(&format!("shown={shown}"), "shown=200"));
    assert_eq!((full.header("hx-retarget"), full.header("hx-reswap")), (Some("#changes"), Some("innerHTML")));
    assert!(full.body.contains("Earlier changes have left") && poll(&full.body).contains("shown=1&"), "{full:?}");
    let room = server.get(&path.replace(&format!("shown={shown}"), "shown=199"));
    assert_eq!((room.header("hx-retarget"), changes(&room.body, "Stored")), (None, 1), "{room:?}");
}

#[test]
fn nothing_outside_of_a_token_ends_a_poll() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--tokens", &cli.write("tokens.toml", TOKENS)]);
    let live = page_as(&server, &[AS_MODEL], "/console/live?of=both");
    let mut waiting = server.connect();
    waiting.write_all(server.raw("GET", &poll(&live), &[AS_MODEL], "").as_bytes()).expect("the server reads");
    open_watches(&server, &[AS_RUNTIME], 1);
    for space in ["guild1", "guild1-a", "guild1-modelling"] {
        store_as(&server, &[AS_RUNTIME], space);
    }
    let id = store_as(&server, &[AS_RUNTIME], "guild1-model-x");
    let answer = read(&mut waiting);
    // An answer that one of the others had caused would be there without this one.
    assert_eq!((answer.status, changes(&answer.body, "Stored")), (200, 1), "{answer:?}");
    assert!(answer.body.contains(&id) && !answer.body.contains("guild1-a"), "{answer:?}");

    for path in ["/console/live?of=documents&collection=private", "/console/live?of=both&collection=private"] {
        assert_eq!(server.request("GET", path, &[AS_MODEL], "").status, 403, "{path}");
    }
    // The token of one caller continues for no other caller.
    assert_eq!(server.request("GET", &poll(&answer.body), &[AS_RUNTIME], "").status, 422);
    // A part of a page is no place for the form that signs in.
    let path = poll(&answer.body);
    assert_eq!(server.get(&path).status, 303);
    let led = server.request("GET", &path, &[("hx-request", "true")], "");
    assert_eq!((led.status, led.header("hx-redirect")), (401, Some("/console/login")), "{led:?}");
}

#[test]
fn a_poll_without_a_change_goes_on_with_a_token() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--heartbeat-ms", "50"]);
    let live = page(&server, "/console/live?under=a");
    let empty = page(&server, &poll(&live));
    assert!(changes(&empty, "Stored") == 0 && empty.contains("<p id=\"poll\""), "{empty}");
    let id = store(&server, "a");
    let body = page(&server, &poll(&empty));
    assert!(body.contains(&id), "{body}");
}

#[test]
fn what_is_wrong_is_told_and_ends_the_poll() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let told = |path: &str, status: u16| {
        let body = checked(server.get(path), status);
        assert!(
            body.contains("role=\"alert\"") && body.contains("Begin again") && !body.contains("hx-trigger"),
            "{body}"
        );
        assert!(body.contains("<form"), "{body}");
    };
    for query in ["filter=a+%3D", "status=done", "from=never", "collection=notes", "of=documents&status=failed"] {
        told(&format!("/console/live?{query}"), 422);
    }
    store(&server, "a");
    let path = poll(&page(&server, "/console/live?under=a"));
    told(&path.replace("under=a", "under=b"), 422);
    // As if the file had gone back to an earlier state, and others had written since.
    cli.database("memory.db").execute_batch("UPDATE changes SET epoch = epoch + 1").expect("the feed");
    told(&path, 410);
}

/// Waiting is no work.
#[test]
fn who_waits_takes_no_place_of_others() {
    let cli = Cli::new();
    // A poll and the request that looks whether it waits may come at the same time.
    let server = Server::start(&cli, &["--concurrency", "2"]);
    let path = poll(&page(&server, "/console/live"));
    let mut waiting = [0, 1].map(|others| begun_beside(others, &server, &[], &path));
    let id = store(&server, "a");
    for waiting in &mut waiting {
        assert!(checked(read(waiting), 200).contains(&id));
    }
    let path = poll(&page(&server, "/console/live?under=b"));
    open_watches(&server, &[], 0);
    let _waiting = [0, 1].map(|others| begun_beside(others, &server, &[], &path));
    page(&server, "/console/live");
}

#[test]
fn a_page_goes_on_when_the_server_has_a_place_again() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--concurrency", "1"]);
    let path = poll(&page(&server, "/console/live"));
    let body = r#"{"spaceId":"a","trigger":"takes the place"}"#;
    let busy = server.let_in("/v1/memories", &[], body);
    // The script keeps the line that asks, and asks again.
    let by_script = [("hx-request", "true")];
    let full = server.request("GET", &path, &by_script, "");
    assert_eq!((full.status, full.header("hx-reswap")), (503, Some("none")), "{full:?}");
    // Any other error is shown where the request was made.
    let level = server.request("GET", "/?under=a", &by_script, "");
    assert_eq!((level.status, level.header("hx-reswap")), (503, None), "{level:?}");
    assert_eq!(server.get(&path).header("hx-reswap"), None);
    drop(busy);
    eventually("the place", || server.get("/").status == 200);
}

#[test]
fn a_server_that_ends_answers_who_waits() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let mut waiting = begun(&server, &[], &poll(&page(&server, "/console/live")));
    server.terminate();
    let answer = read(&mut waiting);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.body.contains("The server ends") && !answer.body.contains("hx-trigger"), "{answer:?}");
    let (_, turn) = answer.body.split_once("<a id=\"turn\"").expect("a way on");
    let path = attribute(turn, "href").expect("a link");
    let (status, log) = server.wait();
    assert!(status.success() && !log.contains("still open"), "{log}");
    let server = Server::start(&cli, &[]);
    let id = store(&server, "a");
    assert!(page(&server, &path).contains(&id), "it goes on where it was");
}

#[test]
fn a_level_opens_in_its_row() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    for space in ["guild-a", "guild-b", "room"] {
        store(&server, space);
    }
    let top = page(&server, "/");
    let (_, row) = top.split_once("<details class=\"opens\"").expect("a level below");
    assert_eq!(attribute(row, "hx-get").as_deref(), Some("/?under=guild"));
    let row = row.split("</tr>").next().expect("a row");
    assert!(row.contains("hx-trigger=\"toggle once\""), "{row}");
    assert!(top.contains("<div class=\"level\" hx-target=\"next .below &gt; td\""), "{top}");
    assert!(row.contains("<summary>") && row.contains("<a href=\"/?under=guild\"><bdi>guild</bdi></a>"), "{row}");
    let rows = |body: &str| (body.matches("<details").count(), body.matches("<tr class=\"below\">").count());
    assert_eq!(rows(&top), (2, 2), "{top}");
    let level = page(&server, "/?under=guild");
    let (_, level) = level.split_once("<div class=\"level\" ").expect("the part that is shown there");
    assert!(level.contains("guild-a") && level.contains("guild-b"), "{level}");
    let wrong = server.get("/?under=guild&cursor=nonsense");
    let (_, level) = wrong.body.split_once("<div class=\"level\" ").expect("the part that is shown there");
    assert!(wrong.status == 422 && level.contains("><p class=\"error\" role=\"alert\">"), "{level}");
}

#[test]
fn the_script_is_ours_and_all_is_small() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--tokens", &cli.write("tokens.toml", TOKENS)]);
    let spaces: Vec<_> =
        (0..50).map(|number| json!({"spaceId": format!("guild1-{}{number}", "x".repeat(40)), "trigger": 1})).collect();
    let stored = json!({"memories": spaces}).to_string();
    assert_eq!(server.request("POST", "/v1/memories/batch", &[AS_RUNTIME], &stored).status, 201);
    let top = page_as(&server, &[AS_RUNTIME], "/?under=guild1");
    let path = attribute(&top, "src").expect("a script");
    let script = server.get(&path);
    assert_eq!((script.status, script.header("content-type")), (200, Some("text/javascript; charset=utf-8")));
    assert_eq!(script.header("cache-control"), Some("public, max-age=31536000, immutable"));
    assert!(top.contains("defer></script>") && top.contains("name=\"htmx-config\""), "{top}");
    let config = attribute(&top, "name=\"htmx-config\" content").expect("settings").replace("&quot;", "\"");
    let config: serde_json::Value = serde_json::from_str(&config).expect("JSON");
    for off in ["allowEval", "allowScriptTags", "includeIndicatorStyles", "historyEnabled"] {
        assert_eq!(config[off], json!(false), "{off}");
    }
    assert_eq!((&config["selfRequestsOnly"], &config["historyCacheSize"]), (&json!(true), &json!(0)));
    let sheet = server.get(&attribute(&top, "rel=\"stylesheet\" href").expect("a sheet"));
    let all = script.body.len() + sheet.body.len() + top.len();
    assert!(all < 100_000, "{all} bytes");
    for path in ["/console/memories", "/console/documents", "/console/recall", "/console/engine"] {
        assert!(!page_as(&server, &[AS_RUNTIME], path).contains("<script"), "{path}");
    }
    assert!(!server.get("/console/login").body.contains("<script"));
}

#[test]
fn the_last_minutes_are_drawn() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--sample-ms", "20"]);
    let figure = |title: &str| {
        let body = page(&server, "/console/engine");
        let (_, figure) = body.split_once(&format!("<strong>{title}</strong>")).expect(&body);
        figure.split("</figure>").next().expect("its end").to_owned()
    };
    let at_most = |title: &str| {
        let figure = figure(title);
        let words = figure.split(" in the mean, ").nth(1).and_then(|rest| rest.split(' ').next());
        words.and_then(|number| number.parse::<f64>().ok())
    };
    eventually("the engine answers", || at_most("Latency of the engine").is_some_and(|latency| latency > 0.0));
    assert!(at_most("Requests that store").is_none_or(|rate| rate == 0.0));
    store(&server, "a");
    eventually("a store is counted", || at_most("Requests that store").is_some_and(|rate| rate > 0.0));
    eventually("requests are counted", || at_most("Requests").is_some_and(|rate| rate > 0.0));
    eventually("a line has points", || {
        let figure = figure("Latency of the engine");
        attribute(&figure, "points").is_some_and(|points| points.split(' ').count() > 2)
    });
    let latency = figure("Latency of the engine");
    for shown in [
        "role=\"img\" aria-labelledby=\"latency-title\"",
        "<title id=\"latency-title\">",
        "<desc id=\"latency-words\">",
    ] {
        assert!(latency.contains(shown), "{shown}: {latency}");
    }
}

#[test]
fn the_doctor_looks_when_it_is_asked() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let id = store(&server, "a");
    assert!(page(&server, "/console/engine").contains("href=\"/console/doctor\""));
    let found = page(&server, "/console/doctor");
    for check in
        ["connection", "schema", "indexes", "feed", "clock", "version", "durability", "recall", "newest memory"]
    {
        assert!(
            found.contains(&format!("<th scope=\"row\">{check}</th><td class=\"word\">good</td>")),
            "{check}: {found}"
        );
    }
    assert!(!found.contains("write and read"), "nothing is written: {found}");
    let found = server.get("/v1/memories?all=true").json();
    assert_eq!((found["memories"].as_array().map(Vec::len), &found["memories"][0]["id"]), (Some(1), &json!(id)));
    cli.database("memory.db").execute("DROP INDEX memories_open", []).expect("dropped");
    let found = page(&server, "/console/doctor");
    assert!(found.contains("<td class=\"word\">bad</td>") && found.contains("memories_open"), "{found}");
}

#[test]
fn what_tells_of_all_tenants_is_for_who_reads_all() {
    let cli = Cli::new();
    // Reads all, and erases.
    let operator =
        "\n[[token]]\nname = \"operator\"\ntoken = \"operator-0123456789abcdef\"\nread = [\"all\"]\nerase = true\n";
    let tokens = cli.write("tokens.toml", format!("{TOKENS}{operator}"));
    let server = Server::start(&cli, &["--tokens", &tokens, "--sample-ms", "20"]);
    let operator = ("authorization", "Bearer operator-0123456789abcdef");
    let engine = |who| page_as(&server, &[who], "/console/engine");
    eventually("samples", || engine(AS_RUNTIME).contains("<polyline"));
    let body = engine(AS_MODEL);
    for never in ["<svg class=\"chart\"", "<polyline", "/console/doctor", "Requests that store"] {
        assert!(!body.contains(never), "{never}: {body}");
    }
    assert!(page_as(&server, &[operator], "/console/doctor").contains("all tables and indexes"));
    assert!(
        engine(operator).contains("href=\"/console/doctor\"")
            && !engine(AS_RUNTIME).contains("href=\"/console/doctor\"")
    );
    for who in [AS_MODEL, AS_RUNTIME] {
        let refused = server.request("GET", "/console/doctor", &[who], "");
        assert!(refused.status == 403 && !refused.body.contains("connection"), "{refused:?}");
    }
    assert_eq!(server.get("/console/doctor").status, 303);
}
