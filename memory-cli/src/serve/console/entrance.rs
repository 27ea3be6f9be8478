//! What a route requires of its caller.

use super::paths::{CHANGE, LOGIN, LOGOUT, SCRIPT, STYLE, is_console};

/// The credentials that a route requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entrance {
    /// None: the route holds no data.
    Everybody,
    /// A token in the header, or a pass in the cookie.
    Pass,
    /// The same; a request that changes something must also come from a page of the console itself.
    Form,
    /// A token in the header.
    Token,
}

impl Entrance {
    /// The required credentials of a route.
    pub(crate) fn of(route: &str) -> Self {
        match route {
            LOGIN | LOGOUT | STYLE | SCRIPT => Self::Everybody,
            path if path.starts_with(CHANGE) => Self::Form,
            path if is_console(path) => Self::Pass,
            _ => Self::Token,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_opens_pages_alone() {
        for (route, entrance) in [
            ("/", Entrance::Pass),
            ("/console/memory/{id}", Entrance::Pass),
            ("/console/{*rest}", Entrance::Pass),
            ("/console/change/memory/{id}", Entrance::Form),
            ("/console/login", Entrance::Everybody),
            ("/console/style.css", Entrance::Everybody),
            ("/console/htmx.js", Entrance::Everybody),
            ("/v1/memories", Entrance::Token),
            ("/consoles", Entrance::Token),
            ("/mcp", Entrance::Token),
            ("/metrics", Entrance::Token),
        ] {
            assert_eq!(Entrance::of(route), entrance, "{route}");
        }
    }
}
