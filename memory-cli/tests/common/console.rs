//! Pages of the server, as a browser gets them.

use serde_json::{Value, json};

use super::server::{Response, Server};

/// A text that must stay text wherever it is shown.
pub(crate) const HOSTILE: &str = "<script>alert(1)</script>\"'&\u{202E}<img src=x onerror=alert(1)>";
/// Its beginning, as a page has it.
pub(crate) const ESCAPED: &str = "&lt;script&gt;alert(1)";

/// A page, after checks that all pages must pass.
pub(crate) fn page(server: &Server, path: &str) -> String {
    checked(server.get(path), 200)
}

/// A page for the holder of this cookie.
pub(crate) fn page_of(server: &Server, cookie: &str, path: &str) -> Response {
    server.request("GET", path, &[("cookie", cookie)], "")
}

/// The body of a page with this status, which runs and loads only our files.
pub(crate) fn checked(response: Response, status: u16) -> String {
    assert_eq!(response.status, status, "{response:?}");
    assert_eq!(response.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(response.header("cache-control"), Some("no-store"));
    protected(&response);
    let body = response.body;
    for (place, _) in body.match_indices("<script") {
        assert!(body[place..].starts_with("<script src=\"/console/htmx.js?v="), "a script of others: {body}");
    }
    for never in ["<style", " style=", " onerror=alert(1)>", "javascript:", "https://"] {
        assert!(!body.contains(never), "{never}: {body}");
    }
    for always in ["<!DOCTYPE html>", "<html lang=\"en\">", "href=\"#main\"", "<main id=\"main\"", "<h1>"] {
        assert!(body.contains(always), "{always}: {body}");
    }
    isolated(&body);
    body
}

/// The headers of all answers of the console.
pub(crate) fn protected(response: &Response) {
    let policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; \
                  form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
    assert_eq!(response.header("content-security-policy"), Some(policy), "{response:?}");
    assert_eq!(response.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(response.header("referrer-policy"), Some("same-origin"));
}

/// Checks that a text that changes its direction is isolated in an element of its own.
pub(crate) fn isolated(body: &str) {
    for (place, _) in body.match_indices('\u{202E}') {
        let tag = &body[..place];
        let tag = &tag[tag.rfind('<').expect("a tag")..];
        let isolates = [
            "<bdi>",
            "<pre dir=\"auto\">",
            "<ins>",
            "<del>",
            "<mark>",
            "</mark>",
            "</del>",
            "</ins>",
            "<input ",
            "<textarea ",
        ];
        assert!(isolates.iter().any(|isolate| tag.starts_with(isolate)), "{tag}");
    }
}

/// The addresses of all links that begin so.
pub(crate) fn links(body: &str, begin: &str) -> Vec<String> {
    let hrefs = body.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    hrefs.map(|href| href.replace("&amp;", "&")).filter(|href| href.starts_with(begin)).collect()
}

/// The address of the next page.
pub(crate) fn next(body: &str) -> Option<String> {
    let (head, _) = body.split_once("\" rel=\"next\"")?;
    Some(head.rsplit_once("href=\"")?.1.replace("&amp;", "&"))
}

pub(crate) fn encoded(value: &str) -> String {
    form_urlencoded::byte_serialize(value.as_bytes()).collect()
}

pub(crate) fn store(server: &Server, body: &Value) -> String {
    let stored = server.post("/v1/memories", &body.to_string());
    assert_eq!(stored.status, 201, "{stored:?}");
    stored.json()["id"].as_str().expect("an id").to_owned()
}

pub(crate) fn put(server: &Server, id: &str, body: &Value) {
    let mut document = body.clone();
    document["collection"] = json!("notes");
    document["id"] = json!(id);
    let stored = server.post("/v1/documents", &json!({"documents": [document]}).to_string());
    assert_eq!(stored.status, 200, "{stored:?}");
}

/// The cookie that the server sets after signing in with a token.
pub(crate) fn cookie(server: &Server, token: &str) -> String {
    let entered = server.post("/console/login", &format!("token={token}"));
    assert_eq!((entered.status, entered.header("location")), (303, Some("/")), "{entered:?}");
    protected(&entered);
    let set = entered.header("set-cookie").expect("a cookie");
    assert!(set.ends_with("; HttpOnly; SameSite=Strict; Path=/") && !set.contains(token), "{set}");
    set.split(';').next().expect("a first part").to_owned()
}
