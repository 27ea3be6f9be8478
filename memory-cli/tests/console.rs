//! The pages of the server, as a browser gets them.

use std::collections::BTreeSet;

use common::console::{ESCAPED, HOSTILE, checked, cookie, encoded, links, next, page, page_of, protected, put, store};
use common::embeddings::Embeddings;
use common::server::Server;
use common::{Cli, TOKENS, eventually};
use serde_json::{Value, json};

mod common;

const RUNTIME: &str = "runtime-0123456789abcdef";
const MODEL: &str = "model-0123456789abcdef";

#[test]
fn spaces_open_level_by_level() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    assert!(page(&server, "/").contains("No space holds a memory"));
    let many = |count: usize| {
        (0..count).map(|_| json!({"spaceId": "guild-big", "trigger": 1, "createdAt": 86_400_000})).collect()
    };
    let mut memories: Vec<_> = many(1_001);
    memories.extend((0..60).map(|place| json!({"spaceId": format!("room-{place:02}"), "trigger": 1, "createdAt": 5})));
    assert_eq!(server.post("/v1/memories/batch", &json!({"memories": memories}).to_string()).status, 201);
    let top = page(&server, "/");
    assert!(top.contains("more than 1,000") && top.contains("1970-01-02 00:00:00Z"), "{top}");
    assert!(top.contains(">60</a>") && !top.contains("guild-big"), "{top}");
    assert_eq!(links(&top, "/?"), ["/?under=guild", "/?under=room"]);
    let guild = page(&server, "/?under=guild");
    assert!(guild.contains("/?under=guild-big") && guild.contains("All spaces"), "{guild}");
    assert!(page(&server, "/?under=guild-big").contains("No space lies below"), "a leaf");

    let first = page(&server, "/?under=room");
    let second = page(&server, &next(&first).expect("a second page"));
    let of = |body: &str| links(body, "/console/memories?under=room-").len();
    assert_eq!((of(&first), of(&second), next(&second)), (50, 10, None));
    assert!(second.contains(">First page</a>"), "{second}");
    let wrong = checked(server.get("/?under=room&cursor=nonsense"), 422);
    assert!(wrong.contains("role=\"alert\"") && wrong.contains("cursor"), "{wrong}");
}

#[test]
fn a_timeline_is_narrowed_and_walked() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let memory = |place: usize| {
        let status = if place == 7 { "failed" } else { "pending" };
        let topic = ["even", "odd"][place % 2];
        json!({"spaceId": format!("g-m{}", place % 3), "trigger": {"text": format!("word{place:03}")}, "createdAt": place,
               "status": status, "metadata": {"topic": topic}})
    };
    let batch = json!({"memories": (0..120).map(memory).collect::<Vec<_>>()});
    assert_eq!(server.post("/v1/memories/batch", &batch.to_string()).status, 201);
    let mut path = "/console/memories?under=g&order=oldest&filter=&text=&since=&until=&status=&space=".to_owned();
    let mut walked = Vec::new();
    let pages = loop {
        let body = page(&server, &path);
        walked.extend(links(&body, "/console/memory/"));
        assert!(body.contains("value=\"g\"") && body.contains("<option value=\"oldest\" selected>"), "{body}");
        match next(&body) {
            Some(next) => path = next,
            None => break body,
        }
    };
    assert_eq!((walked.len(), walked.iter().collect::<BTreeSet<_>>().len()), (120, 120));
    assert!(pages.contains("word119") && !pages.contains("word000"), "the newest come last: {pages}");

    for (query, expected) in [
        ("status=failed", vec!["word007"]),
        ("text=WORD003+word004", vec!["word004", "word003"]),
        ("space=g-m0&until=1970-01-01T00:00:00.004", vec!["word003", "word000"]),
        ("since=1970-01-01T00:00:00.118Z", vec!["word119", "word118"]),
        ("since=117&filter=metadata.topic+%3D+%27even%27", vec!["word118"]),
        ("space=elsewhere", vec![]),
    ] {
        let body = page(&server, &format!("/console/memories?{query}"));
        let found: Vec<_> = body.split("&quot;word").skip(1).map(|rest| format!("word{}", &rest[..3])).collect();
        assert_eq!(found, expected, "{query}");
        assert_eq!(expected.is_empty(), body.contains("No memories on this page"), "{query}");
    }
}

#[test]
fn mistakes_are_told_beside_the_form() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let id = store(&server, &json!({"spaceId": "a", "trigger": 1}));
    put(&server, "x", &json!({"spaceId": "a", "content": "x"}));
    for (path, kept) in [
        ("/console/memories?filter=metadata.a+%3D", "value=\"metadata.a =\""),
        ("/console/memories?cursor=nonsense", "<form"),
        ("/console/memories?status=done", "<form"),
        ("/console/memories?since=tomorrow", "value=\"tomorrow\""),
        ("/console/memories?until=9999999999999999", "value=\"9999999999999999\""),
        ("/console/documents?collection=notes&filter=%28", "value=\"(\""),
        ("/console/documents?collection=notes&cursor=nonsense", "<form"),
        ("/console/documents?collection=A%20B", "<form"),
        ("/console/recall?text=x&limit=51", "value=\"51\""),
        ("/console/recall?text=x&limit=many", "value=\"many\""),
        ("/console/recall?text=x&neighbours=11", "value=\"11\""),
        ("/console/recall?text=x&filter=%28", "value=\"(\""),
        (&format!("/console/memory/{id}?cursor=nonsense"), "<h2>Trigger</h2>"),
        ("/console/document?collection=notes&id=x&cursor=nonsense", "<h2>Content</h2>"),
    ] {
        let body = checked(server.get(path), 422);
        assert!(body.contains("role=\"alert\"") && body.contains(kept), "{path}: {body}");
    }
    for (path, status) in [
        ("/console/nothing", 404),
        ("/console/memory/00000000-0000-7000-8000-000000000000", 404),
        ("/console/memory/x", 422),
        ("/console/document?collection=notes&id=y", 404),
        ("/console/memories?colour=red", 400),
    ] {
        assert!(checked(server.get(path), status).contains("role=\"alert\""), "{path}");
    }
    assert!(checked(server.post("/", "x"), 405).contains("role=\"alert\""));
    let other = server.request("GET", "/", &[("host", "evil.example")], "");
    assert!(checked(other, 421).contains("--allow-host"));
}

#[test]
fn a_memory_is_shown_with_what_its_versions_changed() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let id = store(
        &server,
        &json!({"spaceId": "a-b", "trigger": {"text": "hello"}, "metadata": {"topic": "cat", "n": 1}, "createdAt": 7, "idempotencyKey": "k1"}),
    );
    let path = format!("/console/memory/{id}");
    let body = page(&server, &path);
    for shown in
        [&id, "a-b", "pending", "1970-01-01 00:00:00.007Z", "k1", "{\n  &quot;text&quot;: &quot;hello&quot;\n}"]
    {
        assert!(body.contains(shown), "{shown}: {body}");
    }
    assert!(!body.contains("<ins>") && !body.contains("Context"), "{body}");
    let patch = |patch: Value| {
        let patched = server.request("PATCH", &format!("/v1/memories/{id}"), &[], &patch.to_string());
        assert_eq!(patched.status, 200, "{patched:?}");
    };
    patch(
        json!({"metadata": {"merge": {"topic": "cats"}}, "context": {"set": {"reply": "hi"}}, "status": "completed"}),
    );
    let body = page(&server, &path);
    for shown in [
        "<del>  &quot;topic&quot;: &quot;cat&quot;</del>",
        "<ins>  &quot;topic&quot;: &quot;cat<mark>s</mark>&quot;</ins>",
        "<del><mark>pending</mark></del>",
        "<ins><mark>completed</mark></ins>",
        "<ins>  &quot;reply&quot;: &quot;hi&quot;</ins>",
        ", by <bdi>local</bdi>",
        "None",
    ] {
        assert!(body.contains(shown), "{shown}: {body}");
    }
    assert!(!body.contains("<del>  &quot;n&quot;: 1"), "what stays is not marked: {body}");
    for number in 0..12 {
        patch(json!({"context": {"set": number}}));
    }
    let first = page(&server, &path);
    let second = page(&server, &next(&first).expect("older versions"));
    let compared = |body: &str| body.matches("<table class=\"versions\">").count();
    let revisions = |body: &str| body.matches("<h3>Revision ").count();
    assert_eq!((revisions(&first), compared(&first)), (10, 10), "the last one is compared with the next page's first");
    assert_eq!((revisions(&second), compared(&second), next(&second)), (4, 3, None));
}

#[test]
fn documents_are_shown_by_collection() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    assert!(page(&server, "/console/documents").contains("No collection"));
    for number in 0..60 {
        let document = json!({"spaceId": format!("s-{}", number % 2), "content": format!("text number{number:02}"), "createdAt": number});
        put(&server, &format!("doc{number:02}"), &document);
    }
    let id = "people/ana b%2F..";
    for pet in ["cat", "dog"] {
        let content = format!("Ana has a {pet}");
        put(&server, id, &json!({"spaceId": "s-9", "content": content, "metadata": {"topic": "pets"}}));
    }
    assert_eq!(
        links(&page(&server, "/console/documents"), "/console/documents?"),
        ["/console/documents?collection=notes"]
    );
    let first = page(&server, "/console/documents?collection=notes");
    let second = page(&server, &next(&first).expect("a second page"));
    let of = |body: &str| links(body, "/console/document?collection=notes&id=");
    assert_eq!((of(&first).len(), of(&second).len(), next(&second)), (50, 11, None));
    let found =
        page(&server, "/console/documents?collection=notes&under=s-9&text=DOG&filter=metadata.topic+%3D+%27pets%27");
    let [link] = &of(&found)[..] else { panic!("one document: {found}") };
    let body = page(&server, link);
    for shown in [
        id,
        "Ana has a dog",
        "s-9",
        "pets",
        "<del>Ana has a <mark>cat</mark></del>",
        "<ins>Ana has a <mark>dog</mark></ins>",
    ] {
        assert!(body.contains(shown), "{shown}: {body}");
    }
}

#[test]
fn a_recall_shows_why() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    for number in 0..8 {
        let trigger = json!({"text": format!("the canoe number {}", "rain ".repeat(number))});
        store(&server, &json!({"spaceId": format!("g-r{}", number % 2), "trigger": trigger, "createdAt": number}));
    }
    put(&server, "boat", &json!({"spaceId": "g", "content": "a canoe is a boat"}));
    assert!(!page(&server, "/console/recall").contains("<h2>Hits</h2>"), "nothing is asked yet");
    let body = page(&server, "/console/recall?text=canoe+rain&under=g&limit=2&neighbours=1");
    assert!(body.contains("8 records examined.") && body.contains("All of the scope was looked at."), "{body}");
    assert!(body.contains("Asked by words alone"), "{body}");
    for shown in ["<h2>Hits</h2>", "<h2>Just below</h2>", "Terms: ", "Words", "Meaning", "Records of the scope"] {
        assert!(body.contains(shown), "{shown}: {body}");
    }
    assert!(body.contains("Before it") || body.contains("Behind it"), "{body}");
    assert_eq!(body.matches("<table class=\"parts\">").count(), 5, "two hits and three below");
    assert!(body.contains("<rect class=\"plus\" x=\"0\" y=\"0\" width=\"200.0\""), "the longest bar: {body}");
    assert!(!body.contains("Asked by</label>"), "there is no model: {body}");
    let documents = page(&server, "/console/recall?text=canoe&collection=notes");
    assert_eq!(links(&documents, "/console/document?"), ["/console/document?collection=notes&id=boat"]);
    drop(server);

    let embeddings = Embeddings::start();
    let server = Server::start(&cli, &embeddings.options("test"));
    let question = "/console/recall?text=vessel&collection=notes";
    assert!(page(&server, question).contains("Asked by</label>"));
    eventually("the document has a vector", || {
        let answer = page(&server, question);
        answer.contains(" 0 of them have no vector yet.") && !links(&answer, "/console/document?").is_empty()
    });
    let by_words = page(&server, "/console/recall?text=vessel&collection=notes&by=words");
    assert!(by_words.contains("Asked by words alone") && by_words.contains("Nothing answers"), "{by_words}");
}

#[test]
fn the_engine_tells_how_it_is() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let health = server.get("/v1/health").json();
    let body = page(&server, "/console/engine");
    for name in ["engine", "serverVersion", "durability"] {
        assert!(body.contains(health[name].as_str().expect("a text")), "{name}: {body}");
    }
    for shown in [" ms</dd>", "<dd>Taken</dd>", "agent_memory_heavy_calls_limit", "agent_memory_records_examined_total"]
    {
        assert!(body.contains(shown), "{shown}: {body}");
    }
    assert!(body.contains("route=&quot;/v1/health&quot;") && !body.contains("_bucket"), "{body}");
    assert!(body.contains(" aria-current=\"page\">Engine</a>"), "{body}");
}

#[test]
fn hostile_texts_are_shown_as_text() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let mut metadata = serde_json::Map::new();
    metadata.insert(HOSTILE.to_owned(), json!(HOSTILE));
    let id = store(
        &server,
        &json!({"spaceId": HOSTILE, "trigger": {HOSTILE: HOSTILE}, "context": HOSTILE, "metadata": metadata, "idempotencyKey": HOSTILE}),
    );
    let patch = json!({"context": {"set": [HOSTILE, "more"]}});
    assert_eq!(server.request("PATCH", &format!("/v1/memories/{id}"), &[], &patch.to_string()).status, 200);
    for content in [HOSTILE.to_owned(), format!("{HOSTILE}\n{HOSTILE}")] {
        put(&server, HOSTILE, &json!({"spaceId": HOSTILE, "content": content, "metadata": metadata}));
    }
    let hostile = encoded(HOSTILE);
    for path in [
        "/".to_owned(),
        "/?under=%3Cscript%3Ealert(1)%3C".to_owned(),
        format!("/?under={hostile}"),
        "/console/memories".to_owned(),
        format!("/console/memories?space={hostile}&under={hostile}&text={hostile}"),
        format!("/console/memory/{id}"),
        "/console/documents?collection=notes".to_owned(),
        format!("/console/documents?collection=notes&space={hostile}&text={hostile}"),
        format!("/console/document?collection=notes&id={hostile}"),
        format!("/console/recall?text={hostile}&space={hostile}"),
        format!("/console/recall?text={hostile}&collection=notes"),
    ] {
        let body = page(&server, &path);
        assert!(body.contains(ESCAPED), "{path}: {body}");
    }
    for path in [
        format!("/console/memories?filter={hostile}&status={hostile}&since={hostile}&cursor={hostile}"),
        format!("/console/documents?collection={hostile}"),
        format!("/console/recall?text={hostile}&filter={hostile}&limit={hostile}"),
    ] {
        let body = checked(server.get(&path), 422);
        assert!(body.contains(ESCAPED), "{path}: {body}");
    }
    for path in [
        format!("/?under=a&cursor={hostile}"),
        format!("/console/document?collection=notes&id={hostile}x&cursor={hostile}"),
    ] {
        let response = server.get(&path);
        let status = response.status;
        assert!(matches!(status, 404 | 422), "{path}: {response:?}");
        checked(response, status);
    }
}

#[test]
fn a_long_text_is_cut() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let long = "é<b>".repeat(1 << 18);
    let id = store(&server, &json!({"spaceId": "a", "trigger": long, "context": long}));
    put(&server, "long", &json!({"spaceId": "a", "content": long[..1_000_000]}));
    for path in [
        &format!("/console/memory/{id}"),
        "/console/document?collection=notes&id=long",
        "/console/memories",
        "/console/recall?text=b",
    ] {
        let body = page(&server, path);
        assert!(body.len() < 100_000, "{path}: {} bytes", body.len());
        assert!(body.contains("Cut: the first 10,000 bytes") || body.contains("…</bdi>"), "{path}: {body}");
    }
}

#[test]
fn a_token_sees_its_spaces_alone() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let own = store(&server, &json!({"spaceId": "guild1-model-own", "trigger": {"text": "secret ours"}}));
    let foreign = store(&server, &json!({"spaceId": "guild2-theirs", "trigger": {"text": "secret theirs"}}));
    put(&server, "own", &json!({"spaceId": "guild1-model-own", "content": "secret ours"}));
    put(&server, "foreign", &json!({"spaceId": "guild2-theirs", "content": "secret theirs"}));
    put(&server, "moved", &json!({"spaceId": "guild2-theirs", "content": "secret theirs before"}));
    put(&server, "moved", &json!({"spaceId": "guild1-model-own", "content": "secret ours"}));
    let private =
        server.request("PUT", "/v1/documents/private/x", &[], r#"{"spaceId":"guild1-model-own","content":"secret"}"#);
    assert_eq!(private.status, 201);
    drop(server);

    let server = Server::start(&cli, &["--tokens", &cli.write("tokens.toml", TOKENS)]);
    let (runtime, model) = (cookie(&server, RUNTIME), cookie(&server, MODEL));
    let paths = [
        "/",
        "/?under=guild2",
        "/console/memories",
        "/console/memories?space=guild2-theirs",
        "/console/documents?collection=notes",
        "/console/document?collection=notes&id=moved",
        "/console/recall?text=secret&limit=50",
        "/console/recall?text=secret&collection=notes",
    ];
    for path in paths {
        let (all, some) = (page_of(&server, &runtime, path), page_of(&server, &model, path));
        let (all, some) = (checked(all, 200), checked(some, 200));
        let count = |body: &str| body.replace("value=\"guild2-theirs\"", "").matches("theirs").count();
        let guilds = |body: &str| body.matches("/?under=guild2").count();
        assert_eq!(count(&some), 0, "{path}: {some}");
        // The page shows the records that the address names, and no others.
        assert_eq!(guilds(&some), path.matches("/?under=guild2").count(), "{path}: {some}");
        assert!(count(&all) > 0 || guilds(&all) > 0, "{path}: {all}");
        assert!(all.contains("Signed in as <bdi>runtime</bdi>") && some.contains("Signed in as <bdi>model</bdi>"));
    }
    for (path, status) in [
        (format!("/console/memory/{own}"), 200),
        (format!("/console/memory/{foreign}"), 404),
        ("/console/document?collection=notes&id=own".to_owned(), 200),
        ("/console/document?collection=notes&id=foreign".to_owned(), 404),
        ("/console/document?collection=private&id=x".to_owned(), 403),
        ("/console/documents?collection=private".to_owned(), 403),
        ("/console/recall?text=secret&collection=private".to_owned(), 403),
        ("/console/engine".to_owned(), 200),
    ] {
        let body = checked(page_of(&server, &model, &path), status);
        assert!(!body.contains("theirs"), "{path}: {body}");
    }
    assert_eq!(links(&page_of(&server, &model, "/console/documents").body, "/console/documents?").len(), 1);
    assert!(checked(page_of(&server, &runtime, &format!("/console/memory/{foreign}")), 200).contains("secret theirs"));
    // A caller with the header needs no cookie.
    let shown = server.request("GET", "/console/memories", &[("authorization", &format!("Bearer {MODEL}"))], "");
    assert!(checked(shown, 200).contains("secret ours"));
}

#[test]
fn who_is_not_signed_in_is_asked_to() {
    let cli = Cli::new();
    let tokens = cli.write("tokens.toml", TOKENS);
    let server = Server::start(&cli, &["--tokens", &tokens, "--allow-origin", "https://app.example"]);
    let valid = cookie(&server, MODEL);
    let forged = format!("{}0", &valid[..valid.len() - 1]);
    let forged = if forged == valid { format!("{}1", &valid[..valid.len() - 1]) } else { forged };
    let token = format!("{}={MODEL}", valid.split_once('=').expect("a name").0);
    for path in [
        "/",
        "/console",
        "/console/memories",
        "/console/memory/00000000-0000-7000-8000-000000000000",
        "/console/documents",
        "/console/document?collection=notes&id=x",
        "/console/recall",
        "/console/live",
        "/console/engine",
        "/console/doctor",
        "/console/nothing",
    ] {
        for headers in [&[][..], &[("cookie", &forged[..])], &[("cookie", &token[..])]] {
            let sent = server.request("GET", path, headers, "");
            let login = format!("/console/login?next={}", encoded(path));
            assert_eq!((sent.status, sent.header("location")), (303, Some(&login[..])), "{path} {headers:?}");
            assert_eq!(sent.header("cache-control"), Some("no-store"));
            protected(&sent);
        }
        // A caller with a token is not redirected to the form, and a cookie beside it does not count.
        let shown = server.request("GET", path, &[("authorization", "Bearer wrong"), ("cookie", &valid)], "");
        assert!(shown.header("www-authenticate").is_some(), "{shown:?}");
        checked(shown, 401);
    }
    let form = checked(server.get("/console/login"), 200);
    assert!(form.contains("<label for=\"token\">") && form.contains("type=\"password\""), "{form}");

    for wrong in ["token=wrong", "token=", "", "tokens=model-0123456789abcdef"] {
        let refused = server.post("/console/login", wrong);
        assert_eq!(refused.header("set-cookie"), None, "{refused:?}");
        assert!(checked(refused, 401).contains("not valid"));
    }
    let body = format!("token={MODEL}");
    let host = server.address.clone();
    let (own, secure) = (format!("http://{host}"), format!("https://{host}"));
    for (headers, status) in [
        (vec![("origin", &own[..]), ("sec-fetch-site", "same-origin")], 303),
        (vec![("sec-fetch-site", "none")], 303),
        (vec![("origin", "http://evil.example")], 403),
        (vec![("origin", "null")], 403),
        // It may call REST, and not sign anybody in.
        (vec![("origin", "https://app.example")], 403),
        (vec![("origin", "https://app.example"), ("sec-fetch-site", "same-site")], 403),
        // Behind a proxy the server has another name than the one that the browser knows.
        (vec![("origin", "https://app.example"), ("sec-fetch-site", "same-origin")], 303),
        (vec![("origin", "https://other.example"), ("sec-fetch-site", "same-origin")], 403),
        (vec![("sec-fetch-site", "same-site")], 403),
        (vec![("origin", &own[..]), ("sec-fetch-site", "cross-site")], 403),
    ] {
        let entered = server.request("POST", "/console/login", &headers, &body);
        assert_eq!((entered.status, entered.header("set-cookie").is_some()), (status, status == 303), "{headers:?}");
        let left = server.request("POST", "/console/logout", &headers, "");
        assert_eq!((left.status, left.header("set-cookie").is_some()), (status, status == 303), "{headers:?}");
    }
    let over_tls = server.request("POST", "/console/login", &[("origin", &secure)], &body);
    assert!(over_tls.header("set-cookie").is_some_and(|set| set.ends_with("; Secure")), "{over_tls:?}");
    let left = server.request("POST", "/console/logout", &[("cookie", &valid)], "");
    assert!(left.header("set-cookie").is_some_and(|set| set.contains("=; ") && set.contains("Max-Age=0")));
}

#[test]
fn a_cookie_opens_pages_alone() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--tokens", &cli.write("tokens.toml", TOKENS)]);
    let cookie = cookie(&server, RUNTIME);
    checked(page_of(&server, &cookie, "/console/memories"), 200);
    let bearer = format!("Bearer {}", cookie.split_once('=').expect("a value").1);
    for (method, path) in [
        ("GET", "/v1/health"),
        ("GET", "/v1/memories?all=true"),
        ("POST", "/v1/memories"),
        ("GET", "/v1/openapi.json"),
        ("GET", "/metrics"),
        ("POST", "/mcp"),
        ("GET", "/nothing"),
    ] {
        for headers in [[("cookie", &cookie[..])], [("authorization", &bearer[..])]] {
            server.request(method, path, &headers, "{}").problem(401);
        }
    }
    // This page can't be changed, and the cookie would not allow it.
    assert_eq!(server.request("POST", "/console/memories", &[("cookie", &cookie)], "x").status, 401);
}

#[test]
fn servers_with_the_same_tokens_share_their_visitors() {
    let cli = Cli::new();
    let tokens = cli.write("tokens.toml", TOKENS);
    let [first, second] = [(), ()].map(|()| Server::start(&cli, &["--tokens", &tokens]));
    // A proxy in front of them has one name.
    let host = ("host", "localhost");
    let entered = first.request("POST", "/console/login", &[host], &format!("token={MODEL}"));
    let cookie = entered.header("set-cookie").and_then(|set| set.split(';').next()).expect("a cookie");
    let asked = |server: &Server| server.request("GET", "/console/memories", &[host, ("cookie", cookie)], "");
    checked(asked(&second), 200);
    drop(first);
    let restarted = Server::start(&cli, &["--tokens", &tokens]);
    checked(asked(&restarted), 200);
    for (name, other) in [
        ("withdrawn.toml", TOKENS.replace(MODEL, "other-0123456789abcdef")),
        ("changed.toml", TOKENS.replace(RUNTIME, "other-0123456789abcdef")),
    ] {
        let changed = Server::start(&cli, &["--tokens", &cli.write(name, other)]);
        assert_eq!(asked(&changed).header("location"), Some("/console/login?next=%2Fconsole%2Fmemories"), "{name}");
    }
}

#[test]
fn the_secret_of_a_program_signs_in_too() {
    let cli = Cli::new();
    let mut command = cli.command();
    command.env("AGENT_MEMORY_TOKEN", "0123456789abcdef");
    let server = Server::start_as(command, &[]);
    assert_eq!(server.get("/").status, 303);
    let cookie = cookie(&server, "0123456789abcdef");
    assert!(checked(page_of(&server, &cookie, "/"), 200).contains("Signed in as <bdi>local</bdi>"));
    server.request("GET", "/v1/health", &[("cookie", &cookie)], "").problem(401);
}

#[test]
fn the_console_can_be_left_out() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--no-console"]);
    for path in ["/", "/console/login", "/console/memories", "/console/live", "/console/style.css", "/console/htmx.js"]
    {
        server.get(path).problem(404);
    }
    drop(server);
    let tokens = cli.write("tokens.toml", TOKENS);
    let with_console = Server::start(&cli, &["--tokens", &tokens]);
    let cookie = cookie(&with_console, RUNTIME);
    drop(with_console);
    let server = Server::start(&cli, &["--no-console", "--tokens", &tokens]);
    page_of(&server, &cookie, "/").problem(401);
}

/// Pages of other servers can't read an answer, but could measure its time to learn what exists.
#[test]
fn pages_of_others_lead_here_and_load_nothing() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--allow-origin", "https://app.example"]);
    let statuses = |headers: &[(&str, &str)]| {
        ["/console/memories?text=a", "/v1/memories?all=true", "/metrics"]
            .map(|path| server.request("GET", path, headers, "").status)
    };
    let asked = |headers: &[(&str, &str)]| {
        let statuses = statuses(headers);
        assert!(statuses.iter().all(|status| *status == statuses[0]), "{statuses:?}");
        statuses[0]
    };
    for site in ["cross-site", "same-site"] {
        for dest in ["empty", "image", "iframe", "script"] {
            assert_eq!(asked(&[("sec-fetch-site", site), ("sec-fetch-dest", dest)]), 403, "{site} {dest}");
        }
        // People follow links only to pages.
        assert_eq!(statuses(&[("sec-fetch-site", site), ("sec-fetch-dest", "document")]), [200, 403, 403], "{site}");
        let allowed = [("origin", "https://app.example"), ("sec-fetch-site", site), ("sec-fetch-dest", "empty")];
        assert_eq!(asked(&allowed), 200);
    }
    assert_eq!(asked(&[("sec-fetch-site", "same-origin"), ("sec-fetch-dest", "empty")]), 200);
    assert_eq!(asked(&[("sec-fetch-site", "none")]), 200);
}

/// These requests have no token, so nothing else limits them.
#[test]
fn who_signs_in_takes_no_place_of_others() {
    let cli = Cli::new();
    let tokens = cli.write("tokens.toml", TOKENS);
    let server = Server::start(&cli, &["--tokens", &tokens, "--concurrency", "1"]);
    let _waiting = server.let_in("/console/login", &[], &"x".repeat(100));
    let bearer = format!("Bearer {MODEL}");
    assert_eq!(server.request("GET", "/v1/health", &[("authorization", &bearer)], "").status, 200);
}

#[test]
fn the_sheet_is_kept_and_loads_nothing() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--tokens", &cli.write("tokens.toml", TOKENS)]);
    let login = checked(server.get("/console/login"), 200);
    let [href] = &links(&login, "/console/style.css?v=")[..] else { panic!("one sheet: {login}") };
    let sheet = server.get(href);
    assert_eq!((sheet.status, sheet.header("content-type")), (200, Some("text/css; charset=utf-8")));
    assert_eq!(sheet.header("cache-control"), Some("public, max-age=31536000, immutable"));
    protected(&sheet);
    assert!(sheet.body.contains("prefers-color-scheme: dark"));
    for never in ["url(", "@import", "//"] {
        assert!(!sheet.body.contains(never), "{never}");
    }
    assert!(sheet.body.len() < 20_000, "{} bytes", sheet.body.len());
    let api = server.request("GET", "/v1/openapi.json", &[("authorization", &format!("Bearer {MODEL}"))], "").json();
    let paths = api["paths"].as_object().expect("paths");
    assert!(paths.keys().all(|path| path != "/" && !path.starts_with("/console")), "{:?}", paths.keys());
}
