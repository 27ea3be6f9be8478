//! Changes by the pages of the server, sent as a browser sends their forms.

use common::console::{checked, encoded, store};
use common::server::{Response, Server};
use common::{Cli, TOKENS};
use serde_json::{Value, json};

mod common;

/// A text that must stay text wherever it is shown, and keep its bytes where it is stored.
const HOSTILE: &str = "<script>alert(1)</script>\"'&\u{202E}<textarea></textarea><img src=x onerror=alert(1)>";
/// Its beginning, as a page has it.
const ESCAPED: &str = "&lt;script&gt;alert(1)";

const RUNTIME: &str = "runtime-0123456789abcdef";
const MODEL: &str = "model-0123456789abcdef";
const OPERATOR: &str = "operator-0123456789abcdef";

/// A token that may erase below `guild1`, and those of the other tests.
fn tokens(cli: &Cli) -> String {
    let operator = format!(
        "\n[[token]]\nname = \"operator\"\ntoken = \"{OPERATOR}\"\nread = [{{ under = \"guild1\" }}]\nwrite = \"guild1\"\n\
         collections = [\"notes\"]\nledger = \"write\"\nerase = true\n"
    );
    cli.write("tokens.toml", format!("{TOKENS}{operator}"))
}

/// A browser: it names the page of a form, and may have a cookie.
struct Browser<'s> {
    server: &'s Server,
    cookie: Option<String>,
}

/// A form as it is on a page.
#[derive(Debug, Clone)]
struct Form {
    action: String,
    fields: Vec<(String, String)>,
}

impl<'s> Browser<'s> {
    fn new(server: &'s Server) -> Self {
        Self { server, cookie: None }
    }

    fn signed_in(server: &'s Server, token: &str) -> Self {
        let entered = server.post("/console/login", &format!("token={token}"));
        let set = entered.header("set-cookie").expect("a cookie");
        Self { server, cookie: set.split(';').next().map(str::to_owned) }
    }

    fn get(&self, path: &str) -> Response {
        let cookie = self.cookie.iter().map(|cookie| ("cookie", cookie.as_str())).collect::<Vec<_>>();
        self.server.request("GET", path, &cookie, "")
    }

    /// An existing page.
    fn page(&self, path: &str) -> String {
        checked(self.get(path), 200)
    }

    fn send(&self, form: &Form) -> Response {
        let origin = format!("http://{}", self.server.address);
        let mut headers = vec![("origin", origin.as_str()), ("sec-fetch-site", "same-origin")];
        headers.extend(self.cookie.iter().map(|cookie| ("cookie", cookie.as_str())));
        self.server.request("POST", &form.action, &headers, &form.encoded())
    }

    /// Sends a form that must succeed, and returns the address to which it leads.
    fn done(&self, form: &Form) -> String {
        let sent = self.send(form);
        assert_eq!(sent.status, 303, "{form:?}: {sent:?}");
        sent.header("location").expect("an address").to_owned()
    }
}

impl Form {
    /// The form of a page whose button has this label.
    fn on(page: &str, button: &str) -> Self {
        let forms = page.split("<form ").skip(1).filter_map(|rest| rest.split("</form>").next());
        let form = forms.into_iter().find(|form| form.contains(&format!(">{button}</button>")));
        let form = form.unwrap_or_else(|| panic!("no form says {button}: {page}"));
        assert!(form.starts_with("method=\"post\""), "{form}");
        let mut fields = Vec::new();
        for input in form.split("<input ").skip(1) {
            fields.push((attribute(input, "name"), attribute(input, "value")));
        }
        for area in form.split("<textarea ").skip(1) {
            let (tag, text) = area.split_once('>').expect("a tag");
            let text = text.split("</textarea>").next().expect("an end");
            fields.push((attribute(tag, "name"), plain(text.strip_prefix('\n').expect("a first line break"))));
        }
        for choice in form.split("<select ").skip(1) {
            let choice = choice.split("</select>").next().expect("an end");
            let chosen = choice.split("<option ").find(|option| option.contains(" selected>"));
            fields.push((attribute(choice, "name"), attribute(chosen.expect("a choice"), "value")));
        }
        Self { action: attribute(form, "action"), fields }
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        let field = self.fields.iter_mut().find(|(field, _)| field == name);
        field.unwrap_or_else(|| panic!("no field is called {name}")).1 = value.to_owned();
        self
    }

    fn value(&self, name: &str) -> &str {
        &self.fields.iter().find(|(field, _)| field == name).expect("the field").1
    }

    /// Browsers send CR LF for each line break.
    fn encoded(&self) -> String {
        let mut text = form_urlencoded::Serializer::new(String::new());
        for (name, value) in &self.fields {
            let value = value.replace("\r\n", "\n").replace('\r', "\n").replace('\n', "\r\n");
            text.append_pair(name, &value);
        }
        text.finish()
    }
}

/// The value of a tag's attribute.
fn attribute(tag: &str, name: &str) -> String {
    let value = tag.split_once(&format!("{name}=\"")).unwrap_or_else(|| panic!("{name} of {tag}")).1;
    plain(value.split('"').next().expect("an end"))
}

fn plain(html: &str) -> String {
    html.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

fn in_path(value: &str) -> String {
    encoded(value).replace('+', "%20")
}

fn put(server: &Server, id: &str, body: &Value) {
    let path = format!("/v1/documents/notes/{}", in_path(id));
    let stored = server.request("PUT", &path, &[], &body.to_string());
    assert!(matches!(stored.status, 200 | 201), "{stored:?}");
}

fn memory(server: &Server, id: &str) -> Value {
    server.get(&format!("/v1/memories/{id}")).json()
}

fn document(server: &Server, id: &str) -> Value {
    server.get(&format!("/v1/documents/notes/{}", in_path(id))).json()
}

/// The actor of each version of a memory, newest first.
fn actors(server: &Server, id: &str) -> Vec<Value> {
    let history = server.get(&format!("/v1/memories/{id}/history")).json();
    history["versions"].as_array().expect("versions").iter().map(|version| version["actor"].clone()).collect()
}

/// Every address that changes something.
fn changes(id: &str) -> Vec<String> {
    let of_memory = ["", "/put-back", "/erase"].map(|end| format!("/console/change/memory/{id}{end}"));
    let of_document = ["", "/put-back", "/remove", "/erase"]
        .map(|end| format!("/console/change/document{end}?collection=notes&id=x"));
    let of_many = ["memories?under=a", "documents?collection=notes&under=a", "prompt?id=x"];
    let of_many = of_many.map(|path| format!("/console/change/{path}"));
    of_memory.into_iter().chain(of_document).chain(of_many).collect()
}

#[test]
fn nothing_is_changed_unless_the_server_is_told_so() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let browser = Browser::new(&server);
    let id = store(&server, &json!({"spaceId": "a", "trigger": 1}));
    put(&server, "x", &json!({"spaceId": "a", "content": "one"}));
    put(&server, "x", &json!({"spaceId": "a", "content": "two"}));
    for path in [
        "/?under=a",
        "/console/memories?under=a",
        &format!("/console/memory/{id}"),
        "/console/documents?collection=notes",
        "/console/document?collection=notes&id=x",
        "/console/prompt",
    ] {
        let body = browser.page(path);
        assert!(!body.contains("/console/change") && !body.contains("method=\"post\""), "{path}: {body}");
    }
    for action in changes(&id) {
        checked(browser.get(&action), 404);
        checked(browser.send(&Form { action, fields: vec![("seen".into(), "1".into())] }), 404);
    }
    assert_eq!(
        (memory(&server, &id)["revision"].as_u64(), document(&server, "x")["revision"].as_u64()),
        (Some(1), Some(2))
    );
    for with in ["--no-console", "--stdio"] {
        cli.fails(2, &["serve", "--console-write", with]);
    }
}

#[test]
fn a_memory_is_edited_as_it_was_seen() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--console-write"]);
    let browser = Browser::new(&server);
    let context = r#"{"n":1.50,"big":12345678901234567890123}"#;
    let stored = format!(
        r#"{{"spaceId":"a","trigger":1,"context":{context},"metadata":{{"topic":"rust"}},"expiresAt":4102444800123}}"#
    );
    let stored = server.post("/v1/memories", &stored).json();
    let id = stored["id"].as_str().expect("an id");
    let record = format!("/console/memory/{id}");
    assert!(browser.page(&record).contains(&format!("href=\"/console/change/memory/{id}\">Edit</a>")));
    let edit = format!("/console/change/memory/{id}");
    let form = Form::on(&browser.page(&edit), "Save");
    assert_eq!((form.value("context"), form.value("status")), (context, "pending"));
    assert_eq!(form.value("expires"), "2100-01-01 00:00:00.123Z");

    // A form without a change makes no version, and a form that is sent twice makes one.
    assert_eq!(browser.done(&form), record);
    let changed = form.clone().with("status", "failed").with("metadata", r#"{"topic": "<i>", "more": [1]}"#);
    assert_eq!((browser.done(&changed), browser.done(&changed)), (record.clone(), record.clone()));
    let raw = server.get(&format!("/v1/memories/{id}")).body;
    assert!(raw.contains(context) && raw.contains(r#""metadata":{"more":[1],"topic":"<i>"}"#), "{raw}");
    assert!(raw.contains("4102444800123") && raw.contains("\"failed\""), "{raw}");
    assert_eq!(actors(&server, id), [json!("local"), Value::Null]);

    // The record is not as it was seen any more.
    let late = form.clone().with("context", HOSTILE).with("metadata", r#"{"late": true}"#);
    let wrong = checked(browser.send(&late), 422);
    assert!(wrong.contains("role=\"alert\"") && Form::on(&wrong, "Save").value("context") == HOSTILE, "{wrong}");
    let late = late.with("context", &json!(HOSTILE).to_string());
    let told = checked(browser.send(&late), 412);
    assert!(told.contains("Nothing was overwritten") && told.contains(ESCAPED) && told.contains("late"), "{told}");
    assert_eq!(memory(&server, id)["revision"], 2);

    // After the page is loaded again, the text is stored byte for byte; and an empty field clears.
    let form = Form::on(&browser.page(&edit), "Save");
    browser.done(&form.clone().with("context", &json!(HOSTILE).to_string()).with("expires", "2099-01-01T12:00"));
    let now = memory(&server, id);
    assert_eq!((&now["context"], &now["expiresAt"]), (&json!(HOSTILE), &json!(4_070_952_000_000_i64)));
    assert!(browser.page(&record).contains(ESCAPED));
    let form = Form::on(&browser.page(&edit), "Save");
    browser.done(&form.with("context", " ").with("expires", ""));
    let now = memory(&server, id);
    assert!(now.get("context").is_none() && now.get("expiresAt").is_none(), "{now}");

    let form = Form::on(&browser.page(&edit), "Save");
    for (name, value) in [("metadata", "[]"), ("metadata", ""), ("status", HOSTILE), ("expires", "tomorrow")] {
        let again = checked(browser.send(&form.clone().with(name, value)), 422);
        assert!(again.contains("role=\"alert\""), "{name}: {again}");
    }
    for revision in ["", "0", "x", "-1"] {
        checked(browser.send(&form.clone().with("status", "running").with("revision", revision)), 400);
    }
    assert_eq!(memory(&server, id)["revision"], 4);
}

#[test]
fn an_earlier_version_of_a_memory_is_put_back() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--console-write"]);
    let browser = Browser::new(&server);
    let id = store(&server, &json!({"spaceId": "a", "trigger": 1, "metadata": {"n": 0}}));
    let patch = |body: Value| {
        let patched = server.request("PATCH", &format!("/v1/memories/{id}"), &[], &body.to_string());
        assert_eq!(patched.status, 200, "{patched:?}");
    };
    for n in 1..=12 {
        patch(json!({"metadata": {"replace": {"n": n}}, "context": {"set": n}, "status": "running"}));
    }
    let record = format!("/console/memory/{id}");
    let page = browser.page(&record);
    assert!(!page.contains("Put revision 13 back"), "{page}");
    let form = Form::on(&page, "Put revision 5 back");
    assert_eq!((browser.done(&form), browser.done(&form)), (record.clone(), record.clone()));
    let now = memory(&server, &id);
    assert_eq!((&now["metadata"]["n"], &now["context"], &now["revision"]), (&json!(4), &json!(4), &json!(14)));

    // From a further page, the first version: without a context.
    let page = browser.page(&record);
    let next = page.split_once("\" rel=\"next\"").expect("a further page").0.rsplit_once("href=\"").expect("a link").1;
    let form = Form::on(&browser.page(&plain(next)), "Put revision 1 back");
    browser.done(&form);
    let now = memory(&server, &id);
    assert_eq!((&now["metadata"]["n"], now.get("context"), &now["status"]), (&json!(0), None, &json!("pending")));
    assert_eq!(actors(&server, &id)[..3], [json!("local"), json!("local"), json!("local")]);

    let form = Form::on(&browser.page(&record), "Put revision 8 back");
    patch(json!({"status": "failed"}));
    assert!(checked(browser.send(&form), 412).contains("Nothing was overwritten"));
    checked(browser.send(&form.clone().with("version", "99")), 404);
    assert_eq!(memory(&server, &id)["status"], "failed");
}

/// The history has no lease, and an operator does not put back who works on a memory.
#[test]
fn what_is_put_back_leaves_a_worker_its_work() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--console-write"]);
    let browser = Browser::new(&server);
    let id = store(&server, &json!({"spaceId": "a", "trigger": 1, "metadata": {"n": 0}}));
    let patch = |metadata: Value| {
        let body = json!({"metadata": {"merge": metadata}}).to_string();
        assert_eq!(server.request("PATCH", &format!("/v1/memories/{id}"), &[], &body).status, 200);
    };
    // Over by now.
    let task = json!({"instance": "i", "holder": "h", "runs": 1, "leaseUntil": 1});
    patch(json!({"n": 1, "task": task}));
    patch(json!({"n": 2}));
    let record = format!("/console/memory/{id}");
    for (revision, n) in [(2, 1), (1, 0)] {
        browser.done(&Form::on(&browser.page(&record), &format!("Put revision {revision} back")));
        assert_eq!(memory(&server, &id)["metadata"], json!({"n": n, "task": task}));
    }
}

/// Its context is the journal from which another program would continue.
#[test]
fn what_a_worker_holds_is_not_changed() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--console-write"]);
    let browser = Browser::new(&server);
    let task = json!({"instance": "i", "holder": "h", "runs": 1, "leaseUntil": 4_102_444_800_000_i64});
    let held =
        json!({"spaceId": "a", "trigger": 1, "status": "running", "context": ["one"], "metadata": {"task": task}});
    let id = store(&server, &held);
    let (record, edit) = (format!("/console/memory/{id}"), format!("/console/change/memory/{id}"));
    let patch = |body: Value| {
        let patched = server.request("PATCH", &format!("/v1/memories/{id}"), &[], &body.to_string());
        assert_eq!(patched.status, 200, "{patched:?}");
    };
    patch(json!({"context": {"set": ["one", "two"]}}));
    let forms = || {
        let save = Form::on(&browser.page(&edit), "Save").with("context", "[\"mine\"]");
        (Form::on(&browser.page(&record), "Put revision 1 back"), save)
    };
    let (put_back, save) = forms();
    for form in [&put_back, &save] {
        let told = checked(browser.send(form), 409);
        assert!(told.contains("holds it until 2100-01-01 00:00:00Z"), "{told}");
    }
    let told = checked(browser.send(&save), 409);
    assert_eq!(Form::on(&told, "Save").value("context"), "[\"mine\"]");
    assert_eq!(memory(&server, &id)["context"], json!(["one", "two"]));

    // Nobody works on it any more, whatever its claim says.
    patch(json!({"status": "completed"}));
    browser.done(&forms().1);
    assert_eq!(memory(&server, &id)["context"], json!(["mine"]));
}

#[test]
fn work_is_done_again_when_that_is_confirmed() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--console-write"]);
    let browser = Browser::new(&server);
    let task = json!({"instance": "i", "holder": "h", "runs": 1, "leaseUntil": 1});
    let open = json!({"spaceId": "a", "trigger": HOSTILE, "metadata": {"task": task}});
    let id = store(&server, &open);
    let (record, edit) = (format!("/console/memory/{id}"), format!("/console/change/memory/{id}"));
    let end = |status: &str| {
        let body = json!({"status": status, "context": {"set": HOSTILE}}).to_string();
        assert_eq!(server.request("PATCH", &format!("/v1/memories/{id}"), &[], &body).status, 200);
    };
    let ask = |form: &Form, ended: &str| {
        let asked = checked(browser.send(form), 200);
        assert!(asked.contains(&format!("<strong>{ended}</strong>")) && asked.contains(ESCAPED), "{asked}");
        assert_eq!(memory(&server, &id)["status"], ended);
        Form::on(&asked, "Do it again")
    };
    end("completed");
    let again = ask(&Form::on(&browser.page(&record), "Put revision 1 back"), "completed");
    assert_eq!((browser.done(&again), memory(&server, &id)["status"].as_str()), (record.clone(), Some("pending")));
    end("failed");
    // A confirmation does not overwrite later changes either.
    checked(browser.send(&again), 412);
    let edited = Form::on(&browser.page(&edit), "Save").with("status", "running").with("context", "\"a\\nb\"");
    browser.done(&ask(&edited, "failed"));
    let now = memory(&server, &id);
    assert_eq!((&now["status"], &now["context"]), (&json!("running"), &json!("a\nb")));
    assert_eq!(now["metadata"]["task"], task);
    // Ending work needs no confirmation, and neither does another change of ended work.
    browser.done(&Form::on(&browser.page(&edit), "Save").with("status", "failed"));
    browser.done(&Form::on(&browser.page(&edit), "Save").with("status", "completed"));
    assert_eq!(memory(&server, &id)["status"], "completed");
}

/// If a browser goes back to a page, the typed text is lost.
#[test]
fn a_form_that_was_not_taken_can_be_sent_again() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--tokens", &tokens(&cli), "--console-write"]);
    let of_runtime = format!("Bearer {RUNTIME}");
    let body = json!({"spaceId": "guild1", "trigger": 1}).to_string();
    let stored = server.request("POST", "/v1/memories", &[("authorization", &of_runtime)], &body);
    assert_eq!(stored.status, 201, "{stored:?}");
    let id = stored.json()["id"].as_str().expect("an id").to_owned();
    let browser = Browser::signed_in(&server, OPERATOR);
    let edit = Form::on(&browser.page(&format!("/console/change/memory/{id}")), "Save").with("status", "running");
    let outside = Browser { server: &server, cookie: Some("agent_memory_console_0=0".to_owned()) };
    let refused = checked(outside.send(&edit), 401);
    assert!(refused.contains("in another tab, then reload this page"), "{refused}");
    assert!(refused.contains("href=\"/console/login\""), "what it is sent to may be no page: {refused}");
    browser.done(&edit);
    let page = server.request("GET", "/console/memories", &[("authorization", "Bearer wrong")], "");
    assert!(!checked(page, 401).contains("reload this page"));
}

#[test]
fn an_erased_memory_leaves_no_version() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--console-write"]);
    let browser = Browser::new(&server);
    let id = store(&server, &json!({"spaceId": "a-b", "trigger": {"text": HOSTILE}}));
    let path = format!("/v1/memories/{id}");
    assert_eq!(server.request("PATCH", &path, &[], r#"{"status":"failed"}"#).status, 200);
    let ask = format!("/console/change/memory/{id}/erase");
    assert!(browser.page(&format!("/console/memory/{id}")).contains(&ask));
    let page = browser.page(&ask);
    assert!(page.contains(ESCAPED) && page.contains("<strong>2 versions</strong>"), "{page}");
    let form = Form::on(&page, "Erase 1 memory").with("reason", "asked for");
    for reason in ["", " ", "expired"] {
        let again = browser.send(&form.clone().with("reason", reason));
        let status = again.status;
        assert!(checked(again, 422).contains("role=\"alert\""), "{reason}: {status}");
    }
    assert_eq!(server.request("PATCH", &path, &[], r#"{"status":"running"}"#).status, 200);
    let told = checked(browser.send(&form), 409);
    assert!(told.contains("This form has done nothing") && told.contains("<strong>3 versions</strong>"), "{told}");
    assert_eq!(memory(&server, &id)["revision"], 3);

    let form = Form::on(&told, "Erase 1 memory");
    assert_eq!(form.value("reason"), "asked for");
    assert_eq!(browser.done(&form), "/console/memories?space=a-b");
    assert!(browser.page("/console/memories?space=a-b").contains("No memories on this page"));
    for gone in [path.clone(), format!("{path}/history")] {
        server.get(&gone).problem(410);
    }
    checked(browser.send(&form), 410);
}

#[test]
fn a_document_is_edited_and_put_back() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--console-write"]);
    let browser = Browser::new(&server);
    let content = format!("\n{HOSTILE}\nsecond\n\u{1b}[31m");
    put(
        &server,
        HOSTILE,
        &json!({"spaceId": HOSTILE, "content": content, "metadata": {HOSTILE: "\u{7f}"}, "expiresAt": 4_102_444_800_000_i64}),
    );
    let record = format!("/console/document?collection=notes&id={}", encoded(HOSTILE));
    let page = browser.page(&record);
    assert!(page.contains(">Edit</a>") && page.contains(">Remove</a>") && page.contains(">Erase</a>"), "{page}");
    let edit = format!("/console/change/document?collection=notes&id={}", encoded(HOSTILE));
    let form = Form::on(&browser.page(&edit), "Save");
    assert_eq!((form.value("content"), form.value("space"), &form.action), (&content[..], HOSTILE, &edit));
    assert_eq!(browser.done(&form), record);
    assert_eq!(document(&server, HOSTILE)["revision"], 1, "nothing differs");

    let other = format!("{HOSTILE}\n\nlast");
    let changed = form.clone().with("content", &other).with("space", "elsewhere").with("expires", "");
    assert_eq!((browser.done(&changed), browser.done(&changed)), (record.clone(), record.clone()));
    let now = document(&server, HOSTILE);
    assert_eq!((&now["content"], &now["spaceId"], &now["revision"]), (&json!(other), &json!("elsewhere"), &json!(2)));
    assert_eq!((&now["metadata"], now.get("expiresAt")), (&json!({HOSTILE: "\u{7f}"}), None));
    let told = checked(browser.send(&form.clone().with("content", "overwritten")), 412);
    assert!(told.contains("<pre dir=\"auto\">overwritten</pre>"), "{told}");
    for (name, value) in [("space", ""), ("metadata", "null")] {
        assert!(checked(browser.send(&changed.clone().with(name, value)), 422).contains("role=\"alert\""), "{name}");
    }
    assert_eq!(document(&server, HOSTILE)["revision"], 2);

    // An undo is a change like others, and undone by another one.
    let form = Form::on(&browser.page(&record), "Put revision 1 back");
    assert_eq!((browser.done(&form), browser.done(&form)), (record.clone(), record.clone()));
    let now = document(&server, HOSTILE);
    assert_eq!((&now["content"], &now["spaceId"], &now["revision"]), (&json!(content), &json!(HOSTILE), &json!(3)));
    let form = Form::on(&browser.page(&record), "Put revision 2 back");
    put(&server, HOSTILE, &json!({"spaceId": "a", "content": "between"}));
    checked(browser.send(&form), 412);
    assert_eq!(document(&server, HOSTILE)["content"], "between");
    let history = server.get(&format!("/v1/documents/notes/{}/history", in_path(HOSTILE))).json();
    assert_eq!(history["versions"][1]["actor"], "local", "{history}");

    // Lines keep their line breaks.
    put(&server, "dos", &json!({"spaceId": "a", "content": "one\r\ntwo"}));
    let form = Form::on(&browser.page("/console/change/document?collection=notes&id=dos"), "Save");
    browser.done(&form.clone().with("metadata", "{\"a\": 1}"));
    assert_eq!(document(&server, "dos")["content"], "one\r\ntwo");
}

#[test]
fn a_document_is_removed_and_erased() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--console-write"]);
    let browser = Browser::new(&server);
    for (id, text) in [("away", "one"), ("away", "two"), ("gone", "one"), ("gone", "two"), ("gone", "three")] {
        put(&server, id, &json!({"spaceId": "a", "content": text}));
    }
    let ask = |id: &str, how: &str| format!("/console/change/document/{how}?collection=notes&id={id}");
    let page = browser.page(&ask("away", "remove"));
    assert!(page.contains("<strong>2 versions</strong>"), "{page}");
    let form = Form::on(&page, "Remove 1 document");
    put(&server, "away", &json!({"spaceId": "a", "content": "between"}));
    let told = checked(browser.send(&form), 409);
    assert_eq!(browser.done(&Form::on(&told, "Remove 1 document")), "/console/documents?collection=notes");
    server.get("/v1/documents/notes/away").problem(404);
    let kept = server.get("/v1/documents/notes/away/history?removed=true").json();
    assert_eq!(kept["versions"].as_array().map(Vec::len), Some(4), "{kept}");
    assert_eq!(kept["versions"][0]["actor"], "local", "{kept}");

    let page = browser.page(&ask("gone", "erase"));
    assert!(page.contains("<strong>3 versions</strong>"), "{page}");
    let form = Form::on(&page, "Erase 1 document");
    checked(browser.send(&form), 422);
    assert_eq!(browser.done(&form.clone().with("reason", HOSTILE)), "/console/documents?collection=notes");
    let history = server.get("/v1/documents/notes/gone/history?removed=true");
    assert!(matches!(history.status, 404 | 410), "{history:?}");
    let sent = browser.send(&form.with("reason", "again"));
    assert!(matches!(sent.status, 404 | 410), "{sent:?}");
}

#[test]
fn prompt_memory_is_shown_and_undone() {
    let cli = Cli::new();
    for text in ["one", "<b>two</b>"] {
        cli.ok(&["prompt", "add", "--session", "cli:test", "--user", "ana", text]);
    }
    cli.ok(&["prompt", "add", "--session", "cli:test", "--user", "ana", "--agent", "ada", "--store", "user", "tea"]);
    let server = Server::start(&cli, &[]);
    let page = Browser::new(&server).page("/console/prompt");
    assert!(
        page.contains("<bdi>cli:test</bdi>") && page.contains("<bdi>ada</bdi>") && page.contains("Profile of a user")
    );
    let texts: Vec<_> = page.split("href=\"").filter_map(|rest| rest.split('"').next()).collect();
    let texts: Vec<_> = texts.into_iter().filter(|href| href.starts_with("/console/prompt?id=")).map(plain).collect();
    let [_, _] = &texts[..] else { panic!("two texts: {page}") };
    let text = texts.iter().find(|text| text.contains("id=memory-")).expect("the memory of the session");
    let shown = Browser::new(&server).page(text);
    assert!(
        shown.contains("&lt;b&gt;two&lt;/b&gt;") && shown.contains("Revision 2") && !shown.contains("Undo"),
        "{shown}"
    );
    drop(server);

    let server = Server::start(&cli, &["--console-write"]);
    let browser = Browser::new(&server);
    assert!(browser.page("/console/documents").contains("href=\"/console/prompt\""));
    let form = Form::on(&browser.page(text), "Undo revision 2");
    assert_eq!(&browser.done(&form), text);
    let undone = browser.page(text);
    assert!(
        undone.contains("undoes revision 2") && undone.contains("session <bdi>local</bdi> on <bdi>console</bdi>"),
        "{undone}"
    );
    // A second click undoes nothing more.
    checked(browser.send(&form), 412);
    let kept = || cli.ok(&["prompt", "show", "--session", "cli:test", "--store", "memory"]);
    assert_eq!(kept(), "one\n");
    browser.done(&Form::on(&browser.page(text), "Undo revision 1"));
    assert_eq!(kept(), "nothing is kept\n");
    assert!(!browser.page(text).contains("Undo revision"), "nothing is left");
    checked(browser.get("/console/prompt?id=nothing"), 404);
    // A document that only programs read has no form to edit it.
    let document = text.replace("/console/prompt?", "/console/document?collection=_prompt&");
    assert!(!browser.page(&document).contains(">Edit</a>"));
    checked(browser.get(&document.replace("/console/document?", "/console/change/document?")), 403);
}

#[test]
fn many_memories_are_erased_step_by_step() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--console-write"]);
    let browser = Browser::new(&server);
    let memory = |place: usize| json!({"spaceId": format!("g-{}", place % 7), "trigger": place, "createdAt": place});
    let batch = json!({"memories": (0..1_003).map(memory).collect::<Vec<_>>()});
    assert_eq!(server.post("/v1/memories/batch", &batch.to_string()).status, 201);
    let other = store(&server, &json!({"spaceId": "g2", "trigger": 1}));
    assert!(browser.page("/?under=g").contains("href=\"/console/change/memories?under=g\""));
    assert!(browser.page("/console/memories?under=g").contains("href=\"/console/change/memories?under=g\""));

    let page = browser.page("/console/change/memories?under=g");
    assert!(page.contains("The oldest <strong>1,000 memories</strong> of this selection, which has more"), "{page}");
    let first = Form::on(&page, "Erase 1,000 memories").with("reason", "test");
    assert!(first.value("confirmed").starts_with("1000-more-"), "{first:?}");
    let next = browser.done(&first);
    assert!(next.starts_with("/console/change/memories?under=g&done=1000-"), "{next}");
    let page = browser.page(&next);
    assert!(page.contains("1,000 memories were erased.") && page.contains("<strong>3 memories</strong>"), "{page}");
    let second = Form::on(&page, "Erase 3 memories").with("reason", "test");

    // The confirmed records differ from the present ones: the page asks again, with the present ones.
    store(&server, &json!({"spaceId": "g-1", "trigger": "late"}));
    let told = checked(browser.send(&second), 409);
    assert!(told.contains("This form has done nothing") && told.contains("<strong>4 memories</strong>"), "{told}");
    // A form that is sent twice takes nothing more.
    checked(browser.send(&first), 409);
    // The same number of records, but others.
    let erased = server.post("/v1/erase", r#"{"query":{"under":["g"],"text":"late"},"reason":"test"}"#);
    assert_eq!(erased.status, 200, "{erased:?}");
    let third = Form::on(&browser.page("/console/change/memories?under=g"), "Erase 3 memories");
    checked(browser.send(&third), 422);
    let next = browser.done(&third.with("reason", "test"));
    // No link can claim something that was not done.
    for claimed in [next.replace("done=3-", "done=4-"), next.replace("under=g", "under=h"), next.replace("=3-", "=")] {
        assert!(!browser.page(&claimed).contains("were erased"), "{claimed}");
    }
    let page = browser.page(&next);
    assert!(
        page.contains("3 memories were erased.")
            && page.contains("Nothing is left")
            && !page.contains("<button type=\"submit\" class")
    );
    assert_eq!(cli.count(&["--all"]), 1);
    assert_eq!(server.get(&format!("/v1/memories/{other}")).status, 200);

    for everything in ["", "?space=&under=&filter=&text=&since=2020-01-01&until="] {
        let told = checked(browser.get(&format!("/console/change/memories{everything}")), 422);
        assert!(told.contains("everything"), "{told}");
    }
}

/// A proxy sends the form to one server, and the browser from there to another.
#[test]
fn another_server_tells_what_a_step_has_erased() {
    let cli = Cli::new();
    let tokens = tokens(&cli);
    let [erasing, telling] = [(), ()].map(|()| Server::start(&cli, &["--console-write", "--tokens", &tokens]));
    let body = json!({"spaceId": "guild1", "trigger": 1}).to_string();
    let bearer = format!("Bearer {OPERATOR}");
    assert_eq!(erasing.request("POST", "/v1/memories", &[("authorization", &bearer)], &body).status, 201);
    let [browser, other] = [&erasing, &telling].map(|server| Browser::signed_in(server, OPERATOR));
    let form = Form::on(&browser.page("/console/change/memories?under=guild1"), "Erase 1 memory");
    let next = browser.done(&form.with("reason", "test"));
    assert!(other.page(&next).contains("1 memory was erased."));
}

#[test]
fn many_documents_are_removed_step_by_step() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--console-write"]);
    let browser = Browser::new(&server);
    let document = |place: usize| {
        json!({"collection": "notes", "id": format!("d{place:04}"), "spaceId": "a-b", "content": HOSTILE,
               "createdAt": place, "metadata": {"odd": place % 2 == 1}})
    };
    let batch = json!({"documents": (0..1_002).map(document).collect::<Vec<_>>()});
    assert_eq!(server.post("/v1/documents", &batch.to_string()).status, 200);
    let list = "/console/documents?collection=notes&under=a&filter=metadata.odd+%3D+true";
    let link = "/console/change/documents?under=a&amp;collection=notes&amp;filter=metadata.odd+%3D+true";
    let page = browser.page(list);
    assert!(page.contains(link), "{page}");
    let page = browser.page(&plain(link));
    assert!(page.contains(ESCAPED) && page.contains("<bdi>metadata.odd = true</bdi>"), "{page}");
    let form = Form::on(&page, "Remove 501 documents");
    let emptied = server.request("DELETE", "/v1/documents/notes?id=d0001", &[], "");
    assert_eq!(emptied.status, 200, "{emptied:?}");
    let told = checked(browser.send(&form), 409);
    let next = browser.done(&Form::on(&told, "Remove 500 documents"));
    assert!(next.contains("&done=500-"), "{next}");
    assert!(browser.page(&next).contains("500 documents were removed."));

    put(&server, "more", &json!({"spaceId": "a", "content": "more"}));
    let all = "/console/change/documents?collection=notes&under=a";
    let form = Form::on(&browser.page(all), "Remove 502 documents");
    assert!(form.value("confirmed").starts_with("502-all-"), "{form:?}");
    browser.done(&form);
    assert!(browser.page("/console/documents?collection=notes").contains("No documents on this page"));
    let told = checked(browser.get("/console/change/documents?collection=notes"), 422);
    assert!(told.contains("everything"), "{told}");
    assert!(!browser.page("/console/change/documents?collection=notes&under=a&done=500").contains("were removed"));
}

/// More bytes than one removal takes.
#[test]
fn large_documents_go_in_several_steps() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--console-write"]);
    let browser = Browser::new(&server);
    let content = "x".repeat(1 << 20);
    let document = |id: usize| json!({"collection": "notes", "id": id.to_string(), "spaceId": "a", "content": content});
    for batch in [0..35, 35..70] {
        let documents: Vec<_> = batch.map(document).collect();
        let stored = server.post("/v1/documents", &json!({"documents": documents}).to_string());
        assert_eq!(stored.status, 200, "{stored:?}");
    }
    let form = Form::on(&browser.page("/console/change/documents?collection=notes&under=a"), "Remove 63 documents");
    let next = browser.done(&form);
    browser.done(&Form::on(&browser.page(&next), "Remove 7 documents"));
    assert!(browser.page("/console/documents?collection=notes").contains("No documents on this page"));
}

#[test]
fn no_other_page_changes_anything() {
    let cli = Cli::new();
    let opened = Server::start(&cli, &["--console-write", "--allow-origin", "https://app.example"]);
    let id = store(&opened, &json!({"spaceId": "guild1-a", "trigger": 1}));
    let path = format!("/console/change/memory/{id}");
    let body = "revision=1&status=failed&metadata=%7B%7D";
    let refused = |server: &Server, more: &[(&str, &str)]| {
        let own = format!("http://{}", server.address);
        for headers in [
            vec![],
            vec![("origin", "http://evil.example")],
            vec![("origin", "null")],
            vec![("origin", "https://app.example")],
            vec![("sec-fetch-site", "cross-site")],
            vec![("sec-fetch-site", "same-site")],
            vec![("origin", own.as_str()), ("sec-fetch-site", "cross-site")],
            vec![("origin", own.as_str()), ("origin", "http://evil.example")],
        ] {
            for action in changes(&id) {
                checked(server.request("POST", &action, &[&headers[..], more].concat(), body), 403);
            }
        }
    };
    refused(&opened, &[]);
    assert_eq!(memory(&opened, &id)["revision"], 1);
    let own = format!("http://{}", opened.address);
    assert_eq!(opened.request("POST", &path, &[("origin", &own)], body).status, 303);
    assert_eq!(memory(&opened, &id)["revision"], 2);
    drop(opened);

    let server =
        Server::start(&cli, &["--console-write", "--tokens", &tokens(&cli), "--allow-origin", "https://app.example"]);
    let browser = Browser::signed_in(&server, RUNTIME);
    let cookie = browser.cookie.clone().expect("a cookie");
    refused(&server, &[("cookie", &cookie)]);
    let body = "revision=2&status=running&metadata=%7B%7D";
    let own = format!("http://{}", server.address);
    // No cookie, and an invalid one.
    let (name, _) = cookie.split_once('=').expect("a name");
    for cookie in ["a=b".to_owned(), format!("{name}={}", "0".repeat(64)), format!("{name}={RUNTIME}")] {
        checked(server.request("POST", &path, &[("origin", &own), ("cookie", &cookie)], body), 401);
    }
    let bearer = format!("Bearer {RUNTIME}");
    let read = || server.request("GET", &format!("/v1/memories/{id}"), &[("authorization", &bearer)], "").json();
    assert_eq!(read()["revision"], 2);
    // A cookie still opens no other call.
    for (method, path) in
        [("POST", "/v1/memories"), ("POST", "/v1/erase"), ("POST", "/mcp"), ("DELETE", "/v1/documents/notes")]
    {
        server.request(method, path, &[("origin", &own), ("cookie", &cookie)], "{}").problem(401);
    }
    assert_eq!(server.request("POST", &path, &[("origin", &own), ("cookie", &cookie)], body).status, 303);
    // A token in the header suffices, except for a request from another page.
    let body = "revision=3&status=completed&metadata=%7B%7D";
    let foreign = [("authorization", bearer.as_str()), ("origin", "https://app.example")];
    checked(server.request("POST", &path, &foreign, body), 403);
    assert_eq!(server.request("POST", &path, &[("authorization", &bearer)], body).status, 303);
    let history =
        server.request("GET", &format!("/v1/memories/{id}/history"), &[("authorization", &bearer)], "").json();
    assert_eq!(history["versions"][0]["actor"], "runtime", "{history}");
    assert_eq!(history["versions"][1]["actor"], "runtime", "{history}");
}

#[test]
fn a_token_changes_what_it_may_alone() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let own = store(&server, &json!({"spaceId": "guild1-model", "trigger": "ours"}));
    let task =
        store(&server, &json!({"spaceId": "guild1-model", "trigger": "task", "metadata": {"task": {"step": 1}}}));
    let foreign = store(&server, &json!({"spaceId": "guild2", "trigger": "theirs"}));
    for (id, space) in [("own", "guild1-model"), ("foreign", "guild2"), ("moved", "guild2"), ("moved", "guild1-model")]
    {
        put(&server, id, &json!({"spaceId": space, "content": format!("{id} in {space}")}));
    }
    cli.ok(&["prompt", "add", "--session", "s", "kept"]);
    drop(server);
    let server = Server::start(&cli, &["--console-write", "--tokens", &tokens(&cli)]);
    let [model, runtime, operator] = [MODEL, RUNTIME, OPERATOR].map(|token| Browser::signed_in(&server, token));
    let at = |id: &str, end: &str| format!("/console/change/memory/{id}{end}");
    let of = |id: &str, end: &str| format!("/console/change/document{end}?collection=notes&id={id}");
    let send = |browser: &Browser, action: String, body: &str| {
        let fields = form_urlencoded::parse(body.as_bytes()).into_owned().collect();
        let sent = browser.send(&Form { action, fields });
        let status = sent.status;
        (!matches!(status, 303)).then(|| checked(sent, status));
        status
    };
    let change = "revision=1&status=failed&metadata=%7B%7D";
    let erase = "seen=1&reason=test";
    let write = "revision=1&space=guild1-model&content=other&metadata=%7B%7D";

    // It may only recall from the ledger, and writes documents.
    let page = model.page(&format!("/console/memory/{own}"));
    assert!(!page.contains("/console/change"), "{page}");
    for (action, body) in
        [(at(&own, ""), change), (at(&own, "/erase"), erase), (at(&own, "/put-back"), "revision=1&version=1")]
    {
        assert_eq!(send(&model, action.clone(), body), 403, "{action}");
    }
    let page = model.page("/console/document?collection=notes&id=own");
    assert!(page.contains(">Edit</a>") && page.contains(">Remove</a>") && !page.contains(">Erase</a>"), "{page}");
    for (action, body, status) in [
        (of("own", "/erase"), erase, 403),
        (of("own", ""), "revision=1&space=guild2&content=other&metadata=%7B%7D", 403),
        (of("foreign", ""), write, 404),
        (of("foreign", "/remove"), "revision=1", 404),
        // This token may not see the version in another space.
        (of("moved", "/put-back"), "revision=2&version=1", 404),
        ("/console/change/memories?under=guild1".to_owned(), "confirmed=x&reason=test", 403),
        ("/console/change/prompt?id=x".to_owned(), "revision=1", 403),
        ("/console/change/document?collection=private&id=own".to_owned(), write, 403),
    ] {
        assert_eq!(send(&model, action.clone(), body), status, "{action}");
    }
    checked(model.get("/console/prompt"), 403);
    assert_eq!(send(&model, of("own", ""), write), 412, "it does not say what was seen");
    model.done(&Form::on(&model.page(&of("own", "")), "Save").with("content", "other"));

    // It sees all, writes below guild1, and does not erase.
    let page = runtime.page(&format!("/console/memory/{own}"));
    assert!(page.contains(">Edit</a>") && !page.contains(">Erase</a>"), "{page}");
    for (id, body, status) in [
        (&foreign, change, 403),
        (&task, change, 403),
        (&own, "revision=1&status=failed&metadata=%7B%22task%22%3A1%7D", 403),
    ] {
        assert_eq!(send(&runtime, at(id, ""), body), status, "{id}");
    }
    assert!(!runtime.page(&format!("/console/memory/{foreign}")).contains("/console/change"));
    assert_eq!(send(&runtime, of("foreign", "/remove"), "revision=1"), 403);
    assert_eq!(send(&runtime, at(&own, "/erase"), erase), 403);
    // A removal skips records that it may not write.
    let page = runtime.page("/console/change/documents?collection=notes&text=moved+foreign");
    assert!(page.contains("<strong>1 document</strong>") && !page.contains("in guild2"), "{page}");

    // It erases only below guild1.
    assert_eq!(send(&operator, at(&foreign, "/erase"), erase), 404);
    let page = operator.page("/console/change/memories?under=guild2");
    assert!(page.contains("Nothing is left"), "{page}");
    checked(operator.get("/console/change/memories"), 422);
    assert_eq!(send(&operator, at(&own, "/erase"), erase), 303);
    let bearer = format!("Bearer {RUNTIME}");
    let status = |path: String| server.request("GET", &path, &[("authorization", &bearer)], "").status;
    // A caller who may not erase is not told that something was erased.
    assert_eq!((status(format!("/v1/memories/{own}")), status(format!("/v1/memories/{foreign}"))), (404, 200));
    assert_eq!(status("/v1/documents/notes/foreign".to_owned()), 200);
}

#[test]
fn what_is_too_long_for_a_page_stays() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--console-write"]);
    let browser = Browser::new(&server);
    let long = "é<b>".repeat(1 << 16);
    let id = store(
        &server,
        &json!({"spaceId": "a", "trigger": 1, "context": long, "metadata": {"long": "x".repeat(20_000)}}),
    );
    put(&server, "long", &json!({"spaceId": "a", "content": long}));
    let (edit, edit_document) =
        (format!("/console/change/memory/{id}"), "/console/change/document?collection=notes&id=long");
    let page = browser.page(&edit);
    assert!(page.len() < 100_000 && page.matches("too long for a form").count() == 2, "{page}");
    let form = Form::on(&page, "Save").with("status", "failed");
    browser.done(&form);
    let form = Form::on(&browser.page(edit_document), "Save").with("space", "b");
    assert!(form.fields.iter().all(|(name, _)| name != "content"), "{form:?}");
    browser.done(&form);
    assert_eq!((&memory(&server, &id)["context"], &document(&server, "long")["content"]), (&json!(long), &json!(long)));
    assert_eq!(
        (&memory(&server, &id)["status"], &document(&server, "long")["spaceId"]),
        (&json!("failed"), &json!("b"))
    );
    let large = Form { fields: vec![("content".to_owned(), "x".repeat(600 << 10))], ..form };
    checked(browser.send(&large), 413);
    // The text was short when its sender saw it, and is long by now: nothing is saved, and nothing is lost silently.
    put(&server, "grown", &json!({"spaceId": "a", "content": "short"}));
    let form = Form::on(&browser.page("/console/change/document?collection=notes&id=grown"), "Save");
    put(&server, "grown", &json!({"spaceId": "a", "content": long}));
    assert!(checked(browser.send(&form.with("content", "mine")), 412).contains("mine"));
    assert_eq!(document(&server, "grown")["content"], json!(long));
}

#[test]
fn a_space_with_a_name_of_blanks_is_one() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--console-write"]);
    let browser = Browser::new(&server);
    for space in [" ", "\u{3000}", "guild1", "guild2"] {
        store(&server, &json!({"spaceId": space, "trigger": format!("in {space}"), "status": "failed"}));
    }
    for space in ["%20", "%E3%80%80"] {
        let page = browser.page(&format!("/console/change/memories?space={space}&status=failed&text=%20&filter=+"));
        assert!(page.contains("<strong>1 memory</strong>") && !page.contains("in guild"), "{page}");
        assert!(!page.contains("One of these words") && !page.contains("<dt>Condition"), "{page}");
        browser.done(&Form::on(&page, "Erase 1 memory").with("reason", "test"));
    }
    assert!(browser.page("/console/memories").contains("in guild2"));
}

/// A document that is removed and put again begins with the first revision, like the one that was seen.
#[test]
fn another_document_in_the_place_of_the_seen_one_stays() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--console-write"]);
    let browser = Browser::new(&server);
    let seen = json!({"spaceId": "a", "content": "seen"});
    let path = |end: &str| format!("/console/change/document{end}?collection=notes&id=d");
    put(&server, "d", &json!({"spaceId": "a", "content": "before"}));
    put(&server, "d", &seen);
    let put_back = Form::on(&browser.page("/console/document?collection=notes&id=d"), "Put revision 1 back");
    let edit = Form::on(&browser.page(&path("")), "Save").with("content", "edited");
    let remove = Form::on(&browser.page(&path("/remove")), "Remove 1 document");
    let erase = Form::on(&browser.page(&path("/erase")), "Erase 1 document").with("reason", "test");
    let step = Form::on(&browser.page("/console/change/documents?collection=notes&under=a"), "Remove 1 document");
    assert_eq!(server.request("DELETE", "/v1/documents/notes?id=d", &[], "").status, 200);
    put(&server, "d", &json!({"spaceId": "a", "content": "before another"}));
    put(&server, "d", &json!({"spaceId": "a", "content": "another"}));
    for (form, status) in [(edit, 412), (put_back, 412), (remove, 409), (erase, 409), (step, 409)] {
        checked(browser.send(&form), status);
        assert_eq!(document(&server, "d")["content"], "another", "{form:?}");
    }
}

#[test]
fn a_step_takes_nothing_that_has_changed() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--console-write"]);
    let browser = Browser::new(&server);
    let id = store(&server, &json!({"spaceId": "a", "trigger": 1}));
    put(&server, "d", &json!({"spaceId": "a", "content": "one"}));
    let memories = Form::on(&browser.page("/console/change/memories?under=a"), "Erase 1 memory").with("reason", "test");
    let documents = "/console/change/documents?collection=notes&under=a";
    let documents = Form::on(&browser.page(documents), "Remove 1 document");
    let patched = server.request("PATCH", &format!("/v1/memories/{id}"), &[], r#"{"status":"running"}"#);
    assert_eq!(patched.status, 200, "{patched:?}");
    put(&server, "d", &json!({"spaceId": "a", "content": "two"}));
    for form in [memories, documents] {
        checked(browser.send(&form), 409);
    }
    assert_eq!((&memory(&server, &id)["revision"], &document(&server, "d")["content"]), (&json!(2), &json!("two")));
}

#[test]
fn what_was_written_stays_where_it_is_not_saved() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--console-write"]);
    let browser = Browser::new(&server);
    let id = store(&server, &json!({"spaceId": "a", "trigger": 1}));
    let edit = format!("/console/change/memory/{id}");
    let long = format!("\"{}\"", "x".repeat(20_000));
    let form = Form::on(&browser.page(&edit), "Save").with("context", &long);
    // The engine refuses a time in the past.
    let again = checked(browser.send(&form.clone().with("expires", "1970-01-02")), 422);
    assert_eq!(Form::on(&again, "Save").value("context"), long);
    let patched = server.request("PATCH", &format!("/v1/memories/{id}"), &[], r#"{"status":"running"}"#);
    assert_eq!(patched.status, 200, "{patched:?}");
    let told = checked(browser.send(&form), 412);
    assert!(told.contains(&plain_text(&long)), "all of it is there");
    // Fields that a form does not send stay unchanged.
    let sent = Form { action: edit, fields: vec![("revision".into(), "2".into()), ("status".into(), "failed".into())] };
    let patched = server.request("PATCH", &format!("/v1/memories/{id}"), &[], r#"{"context":{"set":7}}"#);
    assert_eq!(patched.status, 200, "{patched:?}");
    checked(browser.send(&sent), 412);
    browser.done(&Form { fields: vec![("revision".into(), "3".into()), ("status".into(), "failed".into())], ..sent });
    let now = memory(&server, &id);
    assert_eq!((&now["status"], &now["context"]), (&json!("failed"), &json!(7)));
}

/// A text as a page has it.
fn plain_text(text: &str) -> String {
    text.replace('"', "&quot;")
}

#[test]
fn what_a_browser_sends_by_itself_is_no_token() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--console-write"]);
    let id = store(&server, &json!({"spaceId": "a", "trigger": 1}));
    let path = format!("/console/change/memory/{id}");
    let basic = [("authorization", "Basic eDp5")];
    checked(server.request("POST", &path, &basic, "revision=1&status=failed"), 403);
    assert_eq!(memory(&server, &id)["revision"], 1);
}
