//! Which page has sent a form.

use axum::http::{HeaderMap, HeaderName, StatusCode, header};

use crate::serve::guard::{bearer, is_own};
use crate::serve::problem::Problem;

/// Tell which page a request comes from, and what it is for; scripts can't set them.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// Whether no page of another server asks, as far as a browser tells.
pub(crate) fn is_of_own_site(headers: &HeaderMap) -> bool {
    headers.get_all(FETCH_SITE).iter().all(|site| site == "same-origin" || site == "none")
}

/// Whether a browser asks for a page to show.
pub(crate) fn is_for_people(headers: &HeaderMap) -> bool {
    headers.get(FETCH_DEST).is_some_and(|dest| dest == "document")
}

/// Refuses a form that another page sends, also one that may call REST, so that nobody signs in, signs out or changes something without
/// knowing. Where a browser itself says that the page is of this server, the origin may name the server as `--allow-origin` does: a proxy may
/// have put another host in its place.
pub(super) fn check_own(headers: &HeaderMap) -> Result<(), Problem> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let is_own_origin =
        headers.get_all(header::ORIGIN).iter().all(|origin| is_own(origin.to_str().unwrap_or_default(), host));
    if is_of_own_site(headers) && (is_own_origin || headers.contains_key(FETCH_SITE)) {
        return Ok(());
    }
    Err(Problem::new(StatusCode::FORBIDDEN, "this form was sent by another page"))
}

/// The same of a form that changes something. It has to say where it comes from, as those of browsers do, unless it shows a token, which no
/// browser sends by itself: other things in the same header they do.
pub(crate) fn check_form(headers: &HeaderMap) -> Result<(), Problem> {
    check_own(headers)?;
    if [header::ORIGIN, FETCH_SITE].iter().any(|name| headers.contains_key(name)) || bearer(headers).is_some() {
        return Ok(());
    }
    Err(Problem::new(StatusCode::FORBIDDEN, "this form does not say which page has sent it"))
}
