//! The pages of the server that read, as a browser gets them.

use common::console::{ESCAPED, HOSTILE, checked, cookie, encoded, links, next, page, page_of, put, store};
use common::server::Server;
use common::{Cli, TOKENS};
use serde_json::json;

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

/// What the links of a page name that begin with this, without it.
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
    for wrong in ["regex=%28", "glob=%5B", "regex=%28a%7Bbb"] {
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
