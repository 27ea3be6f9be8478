//! The middleware of every request: authentication, concurrency limits and deadlines.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tracing::field::Empty;
use tracing::{Instrument, Span};

use super::access::Access;
use super::callers::Callers;
use super::callers::door::Door;
use super::callers::pass::Pass;
use super::callers::sender::{bearer, check_form, is_for_people, is_of_own_site, is_own};
use super::console::entrance::Entrance;
use super::limits::STRANGER_TIME;
use super::problem::Problem;
use super::request::{RequestPlace, RequestSpan};
use super::state::Server;

/// Authenticates a request, applies the limits, counts it, and gives it a span.
pub(crate) async fn guard(State(server): State<Server>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let method = known(request.method());
    let span = span(&route, method);
    let _in_flight = server.metrics.in_flight();
    let entrance = Entrance::of(&route);
    let response = match admit(&server.callers, entrance, &request) {
        Ok(access) => {
            span.record("caller", &access.name);
            let caller = access.name.clone();
            request.extensions_mut().insert(access);
            request.extensions_mut().insert(RequestSpan(span.clone()));
            bounded(&server, entrance, &caller, request, next).instrument(span.clone()).await
        }
        Err(problem) => problem.into_response(),
    };
    let (status, took) = (response.status(), started.elapsed());
    span.record("http.response.status_code", status.as_u16());
    if status.is_server_error() {
        span.record("otel.status_code", "ERROR");
    }
    span.in_scope(|| tracing::info!(milliseconds = took.as_secs_f64() * 1_000.0, "answered"));
    server.metrics.request(&route, method, status.as_u16(), took);
    response
}

/// Makes a span with the attribute names of OpenTelemetry. It has the route instead of the path, which may hold an id.
fn span(route: &str, method: &str) -> Span {
    tracing::info_span!(
        "request",
        otel.name = format!("{method} {route}"),
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = method,
        http.route = route,
        http.response.status_code = Empty,
        caller = Empty
    )
}

async fn bounded(server: &Server, entrance: Entrance, caller: &str, mut request: Request, next: Next) -> Response {
    let limits = &server.limits;
    let (places, time) = match entrance {
        // Such a response is static, and costs nothing.
        Entrance::Everybody if request.method().is_safe() => return next.run(request).await,
        Entrance::Everybody => (&limits.strangers, limits.time.min(STRANGER_TIME)),
        Entrance::Pass | Entrance::Form | Entrance::Token => (&limits.requests, limits.time),
    };
    let Some(place) = places.take(caller) else {
        let detail = "the server or this token has reached its limit of concurrent requests: try again later";
        return Problem::busy(detail).into_response();
    };
    let place = Arc::new(Mutex::new(Some(place)));
    request.extensions_mut().insert(RequestPlace::new(&place));
    match tokio::time::timeout(time, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let problem = Problem::new(StatusCode::GATEWAY_TIMEOUT, "the request took longer than the server allows");
            Problem { outcome: Some("unknown"), retryable: true, ..problem }.into_response()
        }
    }
}

/// Returns the rights of the caller, or why the request is refused.
fn admit(callers: &Callers, entrance: Entrance, request: &Request) -> Result<Access, Problem> {
    let headers = request.headers();
    let host = check_host(callers, headers)?;
    check_origin(callers, entrance, headers, host)?;
    // A request that only reads may come from a link on any page.
    let is_sent = entrance == Entrance::Form && !request.method().is_safe();
    if is_sent {
        check_form(headers)?;
    }
    match entrance {
        Entrance::Everybody => return Ok(Access::nothing()),
        // The cookie authorises reads, and forms that the console itself has sent. A token in the header takes precedence.
        Entrance::Pass | Entrance::Form
            if (request.method().is_safe() || is_sent) && !headers.contains_key(header::AUTHORIZATION) =>
        {
            if let Some(access) = Pass::all_in(headers).find_map(|pass| callers.by_pass(&pass)) {
                return Ok(access.clone());
            }
        }
        Entrance::Pass | Entrance::Form | Entrance::Token => {}
    }
    let unauthorized = || Problem::new(StatusCode::UNAUTHORIZED, "send Authorization: Bearer and a valid token");
    let access = match &callers.door {
        Door::Tokens(tokens) => tokens.find(bearer(headers).ok_or_else(unauthorized)?).ok_or_else(unauthorized)?,
        Door::Secret(secret) if !bearer(headers).is_some_and(|token| secret.is(token)) => return Err(unauthorized()),
        Door::Secret(_) | Door::Open if request.uri().path().starts_with("/mcp") => &callers.mcp,
        Door::Secret(_) | Door::Open => &callers.rest,
    };
    Ok(access.clone())
}

/// Refuses unknown host names, which somebody else may have pointed to this server (DNS rebinding).
fn check_host<'a>(callers: &Callers, headers: &'a HeaderMap) -> Result<&'a str, Problem> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let refused = || {
        Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            "the server does not accept this Host; its operator can add it with --allow-host",
        )
    };
    let host =
        hosts.next().filter(|_| hosts.next().is_none()).and_then(|host| host.to_str().ok()).ok_or_else(refused)?;
    let name = name_of(host);
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let is_known = address.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || callers.hosts.iter().any(|known| known.eq_ignore_ascii_case(name));
    if is_known { Ok(host) } else { Err(refused()) }
}

/// Refuses requests of web pages, except the server's own pages and allowed origins. Browsers send the origin of a page.
fn check_origin(callers: &Callers, entrance: Entrance, headers: &HeaderMap, host: &str) -> Result<(), Problem> {
    for origin in headers.get_all(header::ORIGIN) {
        let origin = origin.to_str().unwrap_or_default();
        if !is_own(origin, host) && !callers.origins.iter().any(|known| known.eq_ignore_ascii_case(origin)) {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "pages of this Origin may not call; the operator can add it with --allow-origin",
            ));
        }
    }
    // Without an `Origin`, a page can load what it can't read, and could learn from the response time what exists. Following a link to the
    // console is allowed.
    let is_led = entrance != Entrance::Token && is_for_people(headers);
    if !headers.contains_key(header::ORIGIN) && !is_of_own_site(headers) && !is_led {
        return Err(Problem::new(StatusCode::FORBIDDEN, "a page of another server may not load this"));
    }
    Ok(())
}

/// Returns a host without its port.
fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Returns the method as a metric label with few values.
fn known(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::super::callers::key::ConsoleKey;
    use super::super::callers::tokens::Secret;
    use super::*;

    fn status(headers: &[(&str, &str)]) -> Option<u16> {
        status_at(Door::Open, headers)
    }

    fn status_at(door: Door, headers: &[(&str, &str)]) -> Option<u16> {
        let callers = Callers {
            key: ConsoleKey::of(&door),
            door,
            rest: Access::unlimited(),
            mcp: Access::unlimited(),
            hosts: vec!["memory.example".to_owned()],
            origins: vec!["https://app.example".to_owned()],
        };
        let mut request = Request::builder().uri("/v1/health");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).expect("a request");
        admit(&callers, Entrance::Token, &request).err().map(|problem| problem.status)
    }

    #[test]
    fn only_known_hosts_are_answered() {
        for host in ["localhost", "LOCALHOST:7700", "127.0.0.1:7700", "[::1]:7700", "10.0.0.7", "memory.example:443"] {
            assert_eq!(status(&[("host", host)]), None, "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "memory.example.evil:80", "", "[::1", "127.0.0.1.evil"] {
            assert_eq!(status(&[("host", host)]), Some(421), "{host}");
        }
        assert_eq!(status(&[]), Some(421));
        assert_eq!(status(&[("host", "localhost"), ("host", "evil.example")]), Some(421));
    }

    #[test]
    fn a_secret_lets_in_who_shows_it() {
        let at = |authorization: &[(&str, &str)]| {
            let secret = Secret::new("0123456789abcdef").expect("long enough");
            status_at(Door::Secret(secret), &[&[("host", "localhost")], authorization].concat())
        };
        assert_eq!(at(&[("authorization", "bearer 0123456789abcdef")]), None);
        for other in ["Bearer 0123456789abcdeg", "Bearer ", "Basic 0123456789abcdef", "0123456789abcdef"] {
            assert_eq!(at(&[("authorization", other)]), Some(401), "{other}");
        }
        assert_eq!(at(&[]), Some(401));
        assert!(Secret::new("0123456789abcde").is_err());
    }

    #[test]
    fn only_known_pages_may_call() {
        let from = |origin| status(&[("host", "localhost:7700"), ("origin", origin)]);
        for origin in ["http://localhost:7700", "https://app.example"] {
            assert_eq!(from(origin), None, "{origin}");
        }
        for origin in
            ["http://evil.example", "null", "http://localhost:7701", "https://app.example.evil", "file://", ""]
        {
            assert_eq!(from(origin), Some(403), "{origin}");
        }
    }
}
