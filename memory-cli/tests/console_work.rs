//! The pages for operators of agents: open work, and the prompt of a model.

use std::io::ErrorKind;
use std::net::TcpListener;

use common::console::{ESCAPED, HOSTILE, checked, next, page};
use common::server::{Response, Server};
use common::{Cli, TOKENS};
use serde_json::{Value, json};

mod common;

const RUNTIME: &str = "runtime-0123456789abcdef";
const MODEL: &str = "model-0123456789abcdef";

/// A page for the holder of this token.
fn page_of(server: &Server, token: &str, path: &str) -> Response {
    server.request("GET", path, &[("authorization", &format!("Bearer {token}"))], "")
}

fn store_all(server: &Server, memories: &[Value]) {
    let stored = server.post("/v1/memories/batch", &json!({ "memories": memories }).to_string());
    assert_eq!(stored.status, 201, "{stored:?}");
}

/// A memory with a runtime's record of who works on it.
fn task(space: &str, trigger: &Value, created_at: i64, task: &Value) -> Value {
    json!({"spaceId": space, "trigger": trigger, "createdAt": created_at, "metadata": {"task": task}})
}

/// The row of the table that shows this.
fn row<'a>(body: &'a str, shown: &str) -> &'a str {
    let rows = body.split("<tr>").filter_map(|rest| rest.split("</tr>").next());
    rows.into_iter().find(|row| row.contains(shown)).unwrap_or_else(|| panic!("no row shows {shown}: {body}"))
}

#[test]
fn open_work_shows_its_lease() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    assert!(page(&server, "/console/work").contains("No open work on this page"));
    let claim = |instance: &str, until: Option<i64>, runs: u32| {
        let mut claim = json!({"instance": instance, "holder": "h", "runs": runs});
        if let Some(until) = until {
            claim["leaseUntil"] = json!(until);
        }
        claim
    };
    let over = |status: &str| {
        let mut over = task("g-over", &json!("over"), 1, &claim("x", None, 1));
        over["status"] = json!(status);
        over
    };
    let running = |mut memory: Value| {
        memory["status"] = json!("running");
        memory
    };
    store_all(
        &server,
        &[
            task("g-new", &json!("held"), 9, &claim("web-1", Some(4_102_444_800_000), 1)),
            running(task("g-old", &json!("late"), 3, &claim("web-2", Some(86_400_000), 1_200))),
            task("h-back", &json!("back"), 5, &claim(HOSTILE, None, 0)),
            task("h-odd", &json!(HOSTILE), 7, &json!({"holder": [1]})),
            over("completed"),
            over("failed"),
            json!({"spaceId": "g-plain", "trigger": "only remembered", "createdAt": 1}),
        ],
    );
    let body = page(&server, "/console/work");
    for (shown, cells) in [
        (
            "&quot;held&quot;",
            ["Until <time datetime=\"2100-01-01T00:00:00Z\">", "<bdi>web-1</bdi>", ">once<", "pending"],
        ),
        (
            "&quot;late&quot;",
            ["Ran out <time datetime=\"1970-01-02T00:00:00Z\">", "<bdi>web-2</bdi>", ">1,200 times<", "running"],
        ),
        ("&quot;back&quot;", ["Given back by <bdi>", ESCAPED, ">0 times<", "pending"]),
        (">h-odd<", [ESCAPED, "Can't be read", "<bdi>", "pending"]),
    ] {
        for cell in cells {
            assert!(row(&body, shown).contains(cell), "{cell}: {}", row(&body, shown));
        }
    }
    let places = ["&quot;late&quot;", "&quot;back&quot;", ">h-odd<", "&quot;held&quot;"].map(|shown| body.find(shown));
    assert!(places.is_sorted(), "oldest first: {body}");
    for closed in ["g-over", "g-plain"] {
        assert!(!body.contains(closed), "{closed}: {body}");
    }
    let below = page(&server, "/console/work?under=h");
    assert!(below.contains(">h-back<") && !below.contains("web-1") && below.contains("value=\"h\""), "{below}");
    let wrong = checked(server.get("/console/work?cursor=nonsense"), 422);
    assert!(wrong.contains("role=\"alert\"") && wrong.contains("<form"), "{wrong}");
}

#[test]
fn open_work_is_walked_page_by_page() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let claim = json!({"instance": "web-1", "holder": "h", "leaseUntil": 7, "runs": 1});
    let tasks: Vec<_> = (0..120).map(|place| task("g", &json!(format!("task{place:03}")), place, &claim)).collect();
    store_all(&server, &tasks);
    let (mut path, mut walked) = ("/console/work?under=g".to_owned(), Vec::new());
    loop {
        let body = page(&server, &path);
        let found: Vec<_> = body.split("&quot;task").skip(1).map(|rest| rest[..3].to_owned()).collect();
        assert!(found.len() <= 50, "{}", found.len());
        walked.extend(found);
        match next(&body) {
            Some(next) => path = next,
            None => break,
        }
    }
    assert_eq!(walked, (0..120).map(|place| format!("{place:03}")).collect::<Vec<_>>());
}

#[test]
fn a_token_sees_the_work_of_its_spaces() {
    let cli = Cli::new();
    let claim = json!({"instance": "web-1", "holder": "h", "leaseUntil": 7, "runs": 1});
    let tasks = ["guild1-model-a", "guild1-b"].map(|space| task(space, &json!("x"), 1, &claim));
    store_all(&Server::start(&cli, &[]), &tasks);
    let server = Server::start(&cli, &["--tokens", &cli.write("tokens.toml", TOKENS)]);
    let all = checked(page_of(&server, RUNTIME, "/console/work"), 200);
    assert!(all.contains(">guild1-model-a<") && all.contains(">guild1-b<"), "{all}");
    let own = checked(page_of(&server, MODEL, "/console/work"), 200);
    assert!(own.contains(">guild1-model-a<") && !own.contains("guild1-b"), "{own}");
    for asked in ["/console/work?space=guild1-b", "/console/work?under=guild1"] {
        let shown = checked(page_of(&server, MODEL, asked), 200);
        assert!(!shown.contains(">guild1-b<"), "{asked}: {shown}");
    }
    assert_eq!(server.get("/console/work").status, 303, "to the login");
}

/// A server with the agent `ada`, whose model listens here and gets no request.
fn with_agent(cli: &Cli, lines: &str, args: &[&str]) -> (Server, TcpListener) {
    let model = TcpListener::bind("127.0.0.1:0").expect("a port");
    model.set_nonblocking(true).expect("a listener that does not wait");
    let url = format!("http://{}/v1", model.local_addr().expect("an address"));
    let file = format!("{lines}\nname = \"ada\"\nmodel = {{ url = \"{url}\", model = \"m\" }}\n");
    let agent = cli.write("agent.toml", file);
    (Server::start(cli, &[&["--agent", &agent], args].concat()), model)
}

/// A message to `ada`, as the agent stores it.
fn said(room: &str, space: &str, text: &str, created_at: i64) -> Value {
    let trigger = json!({"room": room, "author": "ana", "channelType": "DM", "text": text});
    json!({"spaceId": format!("agent/ada/room/{space}/messages"), "trigger": trigger, "createdAt": created_at,
           "status": "observed"})
}

/// All that is stored.
fn stored(cli: &Cli) -> String {
    cli.ok(&["export", "--documents", "--history"])
}

fn encoded(value: &str) -> String {
    form_urlencoded::byte_serialize(value.as_bytes()).collect()
}

#[test]
fn a_composition_shows_what_a_model_would_see() {
    let cli = Cli::new();
    let (server, model) = with_agent(&cli, "system = \"You are terse.\"", &[]);
    let messages = [
        said("dm:ana", "dm%3Aana", HOSTILE, 1_700_000_000_000),
        said("kitchen", "kitchen", "Tea is up", 1_700_000_060_000),
    ];
    store_all(&server, &messages);
    let before = stored(&cli);
    let form = page(&server, "/console/compose");
    assert!(form.contains("<bdi>ada</bdi>") && !form.contains("<h2>Providers</h2>"), "nothing is asked yet: {form}");
    let asked = format!("/console/compose?user=ana&text={}", encoded(&format!("Where is my cup? {HOSTILE}")));
    let body = page(&server, &asked);
    assert!(row(&body, "<bdi>TIME</bdi>").contains(">ok<"), "{body}");
    assert!(row(&body, "<bdi>CHOICE</bdi>").contains(">empty<"), "{body}");
    let (_, text) = body.split_once("<h2>Text</h2>").expect("the text");
    for shown in
        ["<h3><bdi>RECENT_MESSAGES</bdi></h3>", "# Received Message", "ana: Where is my cup?", " characters in all."]
    {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    assert!(text.matches(ESCAPED).count() >= 2, "what was said before and what is asked: {text}");
    assert!(!text.contains("Tea is up"), "what was said elsewhere: {text}");
    let kitchen = page(&server, "/console/compose?user=ana&room=kitchen&text=And+now");
    assert!(kitchen.contains("Tea is up") && kitchen.contains("value=\"kitchen\""), "{kitchen}");
    for wrong in ["user=ada&text=x", &format!("user={}&text=x", "u".repeat(81)), "user=ana&room=dm:eva&text=x"] {
        let response = server.get(&format!("/console/compose?{wrong}"));
        let status = response.status;
        assert!((400..500).contains(&status), "{wrong}: {response:?}");
        let told = checked(response, status);
        assert!(told.contains("role=\"alert\"") && told.contains("value=\"x\""), "{wrong}: {told}");
    }
    assert_eq!(stored(&cli), before, "nothing is kept");
    let asked = model.accept().expect_err("no model is asked").kind();
    assert_eq!(asked, ErrorKind::WouldBlock);
}

#[test]
fn a_composition_shows_what_was_cut_and_stays_small() {
    let cli = Cli::new();
    let (server, _model) = with_agent(&cli, "budget = 400\noptions = { only = [\"RECENT_MESSAGES\"] }", &[]);
    let line = "many words ".repeat(20);
    let messages: Vec<_> = (0..20).map(|minute| said("dm:ana", "dm%3Aana", &line, minute * 60_000)).collect();
    store_all(&server, &messages);
    let body = page(&server, "/console/compose?user=ana&text=x");
    let row = row(&body, "<bdi>RECENT_MESSAGES</bdi>");
    assert!(row.contains(" lines, ") && row.contains(" bytes<"), "{row}");
    assert!(body.contains("[...truncated]") && body.contains("; left out: "), "{body}");
    drop(server);
    let (server, _model) = with_agent(&cli, "", &[]);
    let long: Vec<_> =
        (20..30).map(|minute| said("dm:ana", "dm%3Aana", &"x".repeat(20_000), minute * 60_000)).collect();
    store_all(&server, &long);
    let body = page(&server, "/console/compose?user=ana&text=x");
    assert!(body.len() < 80_000 && body.contains("Cut: the first 10,000 bytes"), "{} bytes", body.len());
}

#[test]
fn a_composition_is_for_who_may_read_everything() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    assert!(page(&server, "/console/compose?text=x").contains("serve --agent FILE"), "no agent");
    drop(server);
    let tokens = cli.write("tokens.toml", TOKENS);
    let (server, _model) = with_agent(&cli, "", &["--tokens", &tokens]);
    for token in [RUNTIME, MODEL] {
        let refused = checked(page_of(&server, token, "/console/compose?user=ana&text=x"), 403);
        assert!(refused.contains("role=\"alert\"") && !refused.contains("RECENT_MESSAGES"), "{refused}");
    }
    assert_eq!(server.get("/console/compose").status, 303, "to the login");
}
