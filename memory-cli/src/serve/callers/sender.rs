//! Tells by its headers who has sent a request, and from which page.

use axum::http::{HeaderMap, HeaderName, StatusCode, header};

use crate::serve::problem::Problem;

/// The headers by which browsers say which page a request comes from and what it is for; scripts can't set them.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// Whether the request is not from a page of another server, as far as the browser says.
pub(crate) fn is_of_own_site(headers: &HeaderMap) -> bool {
    headers.get_all(FETCH_SITE).iter().all(|site| site == "same-origin" || site == "none")
}

/// Whether a browser requests a page to show.
pub(crate) fn is_for_people(headers: &HeaderMap) -> bool {
    headers.get(FETCH_DEST).is_some_and(|dest| dest == "document")
}

/// Refuses a form of any other page, even of one that may call REST, so that nobody signs in, signs out or changes something unknowingly.
/// If the browser itself says that the page is of this server, the origin may be one of `--allow-origin`: a proxy may have replaced the host.
pub(crate) fn check_own(headers: &HeaderMap) -> Result<(), Problem> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let is_own_origin =
        headers.get_all(header::ORIGIN).iter().all(|origin| is_own(origin.to_str().unwrap_or_default(), host));
    if is_of_own_site(headers) && (is_own_origin || headers.contains_key(FETCH_SITE)) {
        return Ok(());
    }
    Err(Problem::new(StatusCode::FORBIDDEN, "this form was sent by another page"))
}

/// Like [`check_own`], for a form that changes something. It must have a header with its origin, as browsers send it, or a bearer token,
/// which no browser sends by itself (other credentials in the same header it may).
pub(crate) fn check_form(headers: &HeaderMap) -> Result<(), Problem> {
    check_own(headers)?;
    if [header::ORIGIN, FETCH_SITE].iter().any(|name| headers.contains_key(name)) || bearer(headers).is_some() {
        return Ok(());
    }
    Err(Problem::new(StatusCode::FORBIDDEN, "this form does not say which page has sent it"))
}

/// Returns the bearer token of a request.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// Whether a page is the server's own.
pub(crate) fn is_own(origin: &str, host: &str) -> bool {
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}
