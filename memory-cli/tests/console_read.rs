//! The pages of the server that read, as a browser gets them.

use common::console::{checked, cookie, encoded};
use common::server::Server;
use common::{Cli, TOKENS};

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
