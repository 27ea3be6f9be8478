//! The pages of the server that read, as a browser gets them.

use common::console::{ESCAPED, HOSTILE, checked, cookie, encoded, links, next, page, page_of, put, store};
use common::server::Server;
use common::{Cli, TOKENS};
use serde_json::{Value, json};

mod common;

const RUNTIME: &str = "runtime-0123456789abcdef";
const MODEL: &str = "model-0123456789abcdef";

#[test]
fn who_signs_in_comes_to_the_page_that_was_asked_for() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--tokens", &cli.write("tokens.toml", TOKENS)]);
    let asked = "/console/memories?under=a%26b&text=%22x%22+y&filter=a%2F%2Fb";
    let led = server.get(asked);
    let login = format!("/console/login?next={}", encoded(asked));
    assert_eq!((led.status, led.header("location")), (303, Some(&login[..])), "{led:?}");
    let form = checked(server.get(&login), 200);
    let kept = format!("<input type=\"hidden\" name=\"next\" value=\"{}\">", asked.replace('&', "&amp;"));
    assert!(form.contains(&kept), "{form}");
    let enter =
        |token: &str, next: &str| server.post("/console/login", &format!("token={token}&next={}", encoded(next)));
    assert!(checked(enter("wrong", asked), 401).contains(&kept), "a mistake does not lose the page");
    let entered = enter(MODEL, asked);
    assert_eq!((entered.status, entered.header("location")), (303, Some(asked)), "{entered:?}");

    let long = format!("/console/memories?text={}", "x".repeat(2_100));
    for strange in [
        "//evil.example",
        "/\\evil.example",
        "https://evil.example",
        "https:evil.example",
        "/console/../v1/health",
        "/console/%2e%2e/v1/health",
        "/console\r\nset-cookie: a=b",
        "/v1/health",
        "/console/login",
        &long,
    ] {
        let form = checked(server.get(&format!("/console/login?next={}", encoded(strange))), 200);
        assert!(!form.contains("name=\"next\""), "{strange}: {form}");
        let entered = enter(MODEL, strange);
        assert_eq!((entered.status, entered.header("location")), (303, Some("/")), "{strange}: {entered:?}");
    }
    assert_eq!(server.get(&long).header("location"), Some("/console/login"));
    // A part of a page leads to the whole one.
    let current = format!("http://{}/console/live?under=a", server.address);
    let part = [("hx-request", "true"), ("hx-current-url", &current[..])];
    let led = server.request("GET", "/console/live?under=a&mode=poll&from=x", &part, "");
    assert_eq!(led.header("hx-redirect"), Some("/console/login?next=%2Fconsole%2Flive%3Funder%3Da"), "{led:?}");
    let left = server.request("POST", "/console/logout", &[("cookie", &cookie(&server, RUNTIME))], "");
    assert_eq!(left.header("location"), Some("/console/login"), "{left:?}");
}

#[test]
fn a_server_without_tokens_asks_for_none() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    for (next, to) in [("/console/engine", "/console/engine"), ("//evil.example", "/"), ("", "/")] {
        let led = server.get(&format!("/console/login?next={}", encoded(next)));
        assert_eq!((led.status, led.header("location")), (303, Some(to)), "{led:?}");
    }
}

/// The links of a page that begin with this, without that beginning.
fn named(body: &str, begin: &str) -> Vec<String> {
    links(body, begin).iter().map(|link| link[begin.len()..].to_owned()).collect()
}

#[test]
fn spaces_are_named_by_prefix_glob_and_regex() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    for space in ["guild1-a", "guild12-a", "guild2-b", "guild2-m1"] {
        store(&server, &json!({"spaceId": space, "trigger": {"text": "canoe"}}));
        put(&server, space, &json!({"spaceId": space, "content": "canoe"}));
    }
    for (scope, mut expected) in [
        ("prefix=guild1", vec!["guild1-a", "guild12-a"]),
        ("under=guild1", vec!["guild1-a"]),
        ("glob=guild?-%5Ba-b%5D", vec!["guild1-a", "guild2-b"]),
        ("regex=m%5B0-9%5D$", vec!["guild2-m1"]),
        ("space=guild1-a&regex=-b$&glob=*-m*&prefix=", vec!["guild1-a", "guild2-b", "guild2-m1"]),
    ] {
        let body = page(&server, &format!("/console/memories?{scope}"));
        let mut found = named(&body, "/console/memories?space=");
        found.sort();
        expected.sort_unstable();
        assert_eq!(found, expected, "{scope}");
        let is_open = body.contains("<details class=\"more\" open>");
        assert_eq!(is_open, !scope.starts_with("under"), "{scope}: the fields that are filled in show");
        let body = page(&server, &format!("/console/documents?collection=notes&{scope}"));
        let mut found = named(&body, "/console/document?collection=notes&id=");
        found.sort();
        assert_eq!(found, expected, "{scope}");
        let body = page(&server, &format!("/console/recall?text=canoe&{scope}&neighbours=0"));
        assert_eq!(body.matches("<table class=\"parts\">").count(), expected.len(), "{scope}: {body}");
        page(&server, &format!("/console/live?{scope}"));
    }
    let field = "value=\"guild?-[a-b]\"";
    assert!(page(&server, "/console/memories?glob=guild?-%5Ba-b%5D").contains(field), "the field keeps its pattern");
    for wrong in ["regex=%28", "glob=a&regex=%28a%7Bbb", "prefix=a&regex=%5B"] {
        for at in
            ["/console/memories?", "/console/documents?collection=notes&", "/console/recall?text=x&", "/console/live?"]
        {
            let body = checked(server.get(&format!("{at}{wrong}")), 422);
            assert!(body.contains("role=\"alert\"") && body.contains("<details class=\"more\" open>"), "{at}{wrong}");
        }
    }
    let hostile = encoded(HOSTILE);
    let body = page(&server, &format!("/console/memories?prefix={hostile}"));
    assert!(body.contains(ESCAPED) && body.contains("No memories on this page"), "{body}");
}

#[test]
fn a_list_goes_on_within_its_pattern() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let memories: Vec<_> = (0..120)
        .map(|place| json!({"spaceId": format!("g-{}{}", ["a", "b"][place % 2], place), "trigger": place, "createdAt": place}))
        .collect();
    assert_eq!(server.post("/v1/memories/batch", &json!({"memories": memories}).to_string()).status, 201);
    let first = page(&server, "/console/memories?regex=-a");
    let second = page(&server, &next(&first).expect("a second page"));
    let spaces = [named(&first, "/console/memories?space="), named(&second, "/console/memories?space=")].concat();
    assert_eq!((spaces.len(), next(&second)), (60, None));
    assert!(spaces.iter().all(|space| space.starts_with("g-a")), "{spaces:?}");
}

#[test]
fn a_pattern_finds_nothing_beyond_a_token() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--tokens", &cli.write("tokens.toml", TOKENS)]);
    let bearer = format!("Bearer {RUNTIME}");
    for space in ["guild1-model", "guild1-other"] {
        let body = json!({"spaceId": space, "trigger": "canoe"}).to_string();
        assert_eq!(server.request("POST", "/v1/memories", &[("authorization", &bearer)], &body).status, 201);
    }
    let (all, some) = (cookie(&server, RUNTIME), cookie(&server, MODEL));
    for scope in ["regex=guild", "glob=*", "prefix=g", "regex=other"] {
        let path = format!("/console/memories?{scope}");
        let found = |cookie: &str| named(&checked(page_of(&server, cookie, &path), 200), "/console/memories?space=");
        assert!(found(&all).contains(&"guild1-other".to_owned()), "{scope}");
        assert!(!found(&some).contains(&"guild1-other".to_owned()), "{scope}");
    }
}

/// A new message of an agent, as a runtime stores it.
fn message(space: &str, text: &str, run: &str, in_reply_to: Option<&str>) -> Value {
    let trigger = json!({"room": "garden", "author": "ana", "channelType": "group", "source": "discord", "text": text,
                         "inReplyTo": in_reply_to});
    json!({"spaceId": space, "trigger": trigger, "metadata": {"author": "ana", "run": run, "why": "it was asked"}})
}

#[test]
fn a_memory_tells_where_it_came_from() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let run = "it's a \"run\"";
    let question = store(&server, &message("guild1-model-a", "Which canoe?", run, None));
    let answer = store(&server, &message("guild1-model-a", "The red one.", run, Some(&question)));
    store(&server, &message("guild1-model-a", "Of another run.", "other", None));
    let foreign = store(&server, &message("guild2", "secret theirs", run, None));
    let reply = store(&server, &message("guild1-model-a", "To whom?", run, Some(&foreign)));
    let task = json!({"spaceId": "b", "trigger": {"id": "1", "kind": "trigger", "pluginId": "chat", "content": "hi", "timestamp": 7}});
    let task = store(&server, &task);
    let result = json!({"text": "Watered.", "actionResult": {"run": "r7", "action": "WATER", "status": "completed", "step": 1, "steps": 2}});
    let result = store(&server, &json!({"spaceId": "b", "trigger": result}));
    let plain = store(
        &server,
        &json!({"spaceId": "b", "trigger": {"source": 5, "author": [], "inReplyTo": "x", "actionResult": 1}}),
    );

    let body = page(&server, &format!("/console/memory/{answer}"));
    for shown in [
        "<h2>Where it came from</h2>",
        "<dd><bdi>discord</bdi></dd>",
        "<dd><bdi>ana</bdi></dd>",
        "<bdi>it was asked</bdi>",
    ] {
        assert!(body.contains(shown), "{shown}: {body}");
    }
    assert_eq!(links(&body, "/console/memory/"), [format!("/console/memory/{question}")]);
    let [of_run] = &links(&body, "/console/memories?space=guild1-model-a&filter=")[..] else { panic!("{body}") };
    let timeline = page(&server, of_run);
    let found = ["Which canoe?", "The red one.", "To whom?", "Of another run.", "secret theirs"]
        .map(|text| timeline.contains(text));
    assert_eq!(found, [true, true, true, false, false], "{timeline}");

    let body = page(&server, &format!("/console/memory/{task}"));
    assert!(body.contains("<dt>Plugin</dt><dd><bdi>chat</bdi></dd>"), "{body}");
    let body = page(&server, &format!("/console/memory/{result}"));
    assert!(body.contains("<dd><bdi>WATER</bdi></dd>") && !body.contains("of this run"), "{body}");
    assert!(!page(&server, &format!("/console/memory/{plain}")).contains("Where it came from"));
    drop(server);

    let server = Server::start(&cli, &["--tokens", &cli.write("tokens.toml", TOKENS)]);
    let (all, some) = (cookie(&server, RUNTIME), cookie(&server, MODEL));
    let path = format!("/console/memory/{reply}");
    assert!(checked(page_of(&server, &all, &path), 200).contains("secret theirs"), "who reads it sees what it answers");
    let body = checked(page_of(&server, &some, &path), 200);
    assert!(!body.contains("secret theirs") && links(&body, "/console/memory/").is_empty(), "{body}");
}

#[test]
fn a_context_chain_is_a_list() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let item = |place: usize| {
        json!({"id": format!("i{place}"), "kind": "result", "pluginId": "chat", "action": format!("step{place:03}"),
               "content": {"said": place}, "timestamp": place})
    };
    let with = |context: Value| store(&server, &json!({"spaceId": "a", "trigger": 1, "context": context}));
    let chain = format!("/console/memory/{}", with(json!((0..45).map(item).collect::<Vec<_>>())));
    let mut path = chain.clone();
    let mut walked = Vec::new();
    loop {
        let body = page(&server, &path);
        let (_, list) = body.split_once("<ol class=\"chain\"").expect("a list");
        let (list, behind) = list.split_once("</ol>").expect("its end");
        assert!(list.starts_with(&format!(" start=\"{}\">", walked.len() + 1)), "{list}");
        walked.extend(list.split("<bdi>step").skip(1).map(|rest| rest[..3].parse::<usize>().expect("a number")));
        assert!(list.contains("by <bdi>chat</bdi>") && list.contains("&quot;said&quot;: "), "{list}");
        assert!(behind.contains("<summary>As JSON</summary>"), "{behind}");
        match next(&body) {
            Some(next) => path = next.split('#').next().expect("a path").to_owned(),
            None => break,
        }
    }
    assert_eq!(walked, (0..45).collect::<Vec<_>>());
    for wrong in ["-1", "x", "99999999999"] {
        let body = checked(server.get(&format!("{chain}?past={wrong}")), 422);
        assert!(body.contains("role=\"alert\"") && body.contains("step000"), "{wrong}: {body}");
    }
    let body = page(&server, &format!("{chain}?past=45"));
    assert!(body.contains("<h2 id=\"context\">") && !body.contains("<ol class=\"chain\""), "nothing is left: {body}");

    let journal = json!({"attachments": [], "journal": [{"step": "answer", "state": {"done": "yes"}}, {"step": "say", "state": "begun"}]});
    let body = page(&server, &format!("/console/memory/{}", with(journal)));
    assert!(body.contains("<p><bdi>answer</bdi> </p>") && body.contains("<pre dir=\"auto\">begun</pre>"), "{body}");
    for other in [json!([{"executor": "reply"}]), json!([]), json!("pluginId"), json!([{"pluginId": 5}])] {
        let body = page(&server, &format!("/console/memory/{}", with(other.clone())));
        assert!(!body.contains("<ol class=\"chain\""), "{other}: {body}");
    }
}

#[test]
fn a_hostile_chain_is_bounded_text() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let long = "é<b>\u{202E}".repeat(50_000);
    let item =
        json!({"kind": HOSTILE, "pluginId": long, "action": HOSTILE, "content": long, "timestamp": 7, HOSTILE: 1});
    let trigger = json!({"pluginId": long, "source": HOSTILE, "author": HOSTILE, "actionResult": {"action": HOSTILE, "run": HOSTILE}});
    let id = store(
        &server,
        &json!({"spaceId": "a", "trigger": trigger, "context": [item, item, item], "metadata": {"why": HOSTILE, "run": HOSTILE}}),
    );
    let body = page(&server, &format!("/console/memory/{id}"));
    assert!(
        body.contains(ESCAPED) && body.contains("<ol class=\"chain\"") && body.len() < 100_000,
        "{} bytes",
        body.len()
    );
    let [of_run] = &links(&body, "/console/memories?space=a&filter=")[..] else { panic!("{body}") };
    page(&server, of_run);
    let run = "<b>".repeat(20_000);
    let id = store(&server, &json!({"spaceId": "a", "trigger": 1, "metadata": {"run": run}}));
    let body = page(&server, &format!("/console/memory/{id}"));
    assert!(body.contains("<dt>Run</dt>") && links(&body, "/console/memories?space=a&filter=").is_empty(), "{body}");
    let many = vec![json!({"pluginId": "x", "content": long}); 20];
    let id = store(&server, &json!({"spaceId": "a", "trigger": 1, "context": many}));
    let body = page(&server, &format!("/console/memory/{id}"));
    assert!(body.len() < 200_000, "{} bytes", body.len());
}

#[test]
fn the_spaces_of_a_collection_open_level_by_level() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    for number in 0..60 {
        put(
            &server,
            &format!("d{number}"),
            &json!({"spaceId": format!("room-{number:02}"), "content": "x", "createdAt": 5}),
        );
    }
    put(&server, "guild", &json!({"spaceId": "guild2-theirs", "content": "x", "createdAt": 86_400_000}));
    store(&server, &json!({"spaceId": "ledger-a", "trigger": 1}));
    assert!(page(&server, "/console/documents?collection=notes").contains("href=\"/?collection=notes\""));
    let top = page(&server, "/?collection=notes");
    assert_eq!(
        links(&top, "/?collection=notes&under="),
        ["/?collection=notes&under=guild2", "/?collection=notes&under=room"]
    );
    assert_eq!(named(&top, "/console/documents?collection=notes&under="), ["guild2", "room"]);
    assert!(top.contains(">Documents</th>") && top.contains(">60</a>") && !top.contains("ledger"), "{top}");
    let first = page(&server, "/?collection=notes&under=room");
    let second = page(&server, &next(&first).expect("a second page"));
    let of = |body: &str| named(body, "/console/documents?collection=notes&under=room-").len();
    assert_eq!((of(&first), of(&second), next(&second)), (50, 10, None));
    assert!(
        first.contains("Documents of this space and all below it")
            && first.contains("href=\"/?collection=notes\">All spaces")
    );
    assert!(page(&server, "/?collection=other").contains("No space holds a document of this collection"));
    assert!(checked(server.get("/?collection=A%20B"), 422).contains("role=\"alert\""));
    let hostile = encoded(HOSTILE);
    assert!(checked(server.get(&format!("/?collection={hostile}&under={hostile}")), 422).contains(ESCAPED));
    drop(server);

    let server = Server::start(&cli, &["--tokens", &cli.write("tokens.toml", TOKENS)]);
    let some = cookie(&server, MODEL);
    let level = checked(page_of(&server, &some, "/?collection=notes"), 200);
    assert!(!level.contains("guild2") && !level.contains("room"), "{level}");
    checked(page_of(&server, &some, "/?collection=private"), 403);
}
