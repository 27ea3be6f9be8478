//! The page that a visitor requested before signing in.

use axum::http::Uri;

use super::entrance::Entrance;
use super::links::link;
use super::paths::{LOGIN, is_console};

/// The longest path with its parameters, in bytes.
const MAX_BYTES: usize = 2 << 10;

/// A page of the console, as a path with parameters, which browsers resolve to this server and no other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Destination(String);

impl Destination {
    /// The page of a request, if it needs a token.
    pub(super) fn of(uri: &Uri) -> Option<Self> {
        Self::parse(uri.path_and_query()?.as_str())
    }

    /// Parses a path that a client sends. It must not have characters by which browsers could resolve it to another path or host: a
    /// backslash, a dot or a percent sign; nor an empty segment.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (path, query) = text.split_once('?').unwrap_or((text, ""));
        let is_plain = path.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'_'));
        let is_of_console = is_console(path) && Entrance::of(path) != Entrance::Everybody;
        // Nothing in it can end the line of a header.
        let is_text = query.bytes().all(|byte| byte.is_ascii_graphic());
        let is_taken = text.len() <= MAX_BYTES && is_plain && !path.contains("//") && is_of_console && is_text;
        is_taken.then(|| Self(text.to_owned()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// The address of the sign-in form that leads to this page.
    pub(super) fn login(this: Option<&Self>) -> String {
        link(LOGIN, &[("next", this.map_or("", Self::as_str))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_the_console_alone_are_taken() {
        let longest = format!("/console/memories?text={}", "x".repeat(MAX_BYTES - 23));
        for page in [
            "/",
            "/?under=a%2Fb&cursor=%5C%2F%2Fx",
            "/console",
            "/console/memories?filter=a//b%0D%0A",
            "/console/memory/0190-1",
            &longest,
        ] {
            assert_eq!(Destination::parse(page).as_ref().map(Destination::as_str), Some(page), "{page}");
        }
        for other in [
            "",
            "console",
            "//evil.example",
            "///evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "https://evil.example/console",
            "https:/console",
            "javascript:alert(1)",
            "/v1/health",
            "/consoles",
            "/console/../v1/health",
            "/console/%2e%2e/v1/health",
            "/console/%2E./v1/health",
            "/console//evil.example",
            "/console/\\evil.example",
            "/console/\tx",
            "/\t/evil.example",
            " /console",
            "/console/memories?a\r\nset-cookie: x",
            "/console/memories?é",
            "/#/console",
            "/console/login",
            "/console/logout?x",
            "/console/style.css",
            &format!("{longest}x"),
        ] {
            assert_eq!(Destination::parse(other), None, "{other}");
        }
    }

    #[test]
    fn the_form_is_asked_for_with_the_page() {
        let login = |page: &str| Destination::login(Destination::parse(page).as_ref());
        assert_eq!(login("/console/memories?text=a+b"), "/console/login?next=%2Fconsole%2Fmemories%3Ftext%3Da%2Bb");
        assert_eq!(login("//evil.example"), "/console/login");
    }
}
