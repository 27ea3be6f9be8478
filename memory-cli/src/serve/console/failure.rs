//! Shows failures as pages, and sets the headers of every page.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};

use super::destination::Destination;
use super::live::is_poll;
use super::page::{self, Page};
use super::paths::is_console;
use crate::serve::problem::Problem;

/// The content security policy: nothing from other hosts, no inline script or style, and no frames.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The header by which the script requests a part of a page.
const BY_SCRIPT: HeaderName = HeaderName::from_static("hx-request");
/// The header with the page whose script makes the request.
const CURRENT: HeaderName = HeaderName::from_static("hx-current-url");
/// Tells the script to change nothing.
const LEAVE: [(HeaderName, &str); 1] = [(HeaderName::from_static("hx-reswap"), "none")];
/// Tells the script to go to another page.
const LEAD: HeaderName = HeaderName::from_static("hx-redirect");

/// Converts problems on the paths of the console to pages, whatever their source, and sets the headers of all answers there. A visitor who
/// is not signed in is redirected to sign in, and from there to the page.
pub(crate) async fn in_pages(request: Request, next: Next) -> Response {
    if !is_console(request.uri().path()) {
        return next.run(request).await;
    }
    // A visitor with a token in the header is told that it is not valid.
    let is_led = request.method().is_safe() && !request.headers().contains_key(header::AUTHORIZATION);
    let is_of_script = request.headers().contains_key(BY_SCRIPT);
    let is_asked_again = is_of_script && is_poll(request.uri());
    // The address of a form may not be a page.
    let is_form = !request.method().is_safe();
    let page = match is_of_script {
        true => current(request.headers()),
        false => Destination::of(request.uri()).filter(|_| !is_form),
    };
    let login = Destination::login(page.as_ref());
    let mut response = next.run(request).await;
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        response = match response.status() {
            // The script would insert the sign-in form in place of the part.
            StatusCode::UNAUTHORIZED if is_led && is_of_script => {
                (StatusCode::UNAUTHORIZED, [(LEAD, login)]).into_response()
            }
            StatusCode::UNAUTHORIZED if is_led => Redirect::to(&login).into_response(),
            // The script retries after some time.
            _ if is_asked_again && problem.retryable => (LEAVE, told(response, &problem, None)).into_response(),
            StatusCode::UNAUTHORIZED => told(response, &problem, is_form.then(|| resend(Some(&login)))),
            _ => told(response, &problem, (is_form && problem.retryable).then(|| resend(None))),
        };
    }
    protect(response.headers_mut());
    response
}

/// The page that requests a part, since the part alone is not a page.
fn current(headers: &HeaderMap) -> Option<Destination> {
    Destination::of(&headers.get(CURRENT)?.to_str().ok()?.parse::<Uri>().ok()?)
}

/// Explains how to send a form again with its contents, which the page before has lost. The revision in the form keeps it from being
/// applied twice.
fn resend(login: Option<&str>) -> Markup {
    html! {
        p {
            @if let Some(login) = login { a href=(login) target="_blank" { "Sign in" } " in another tab, then reload " }
            @else { "Reload " }
            "this page: your browser sends the same form again."
        }
    }
}

/// Returns the same answer with a page as its body.
fn told(mut response: Response, problem: &Problem, further: Option<Markup>) -> Response {
    let title = response.status().canonical_reason().unwrap_or("Error");
    let main = html! { h1 { (title) } (page::failed(problem)) @if let Some(further) = further { (further) } };
    let page = Page::of_failure(title, main);
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_TYPE, page::MEDIA_TYPE);
    *response.body_mut() = page.into_response().into_body();
    response
}

fn protect(headers: &mut HeaderMap) {
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // Other hosts get no referrer. With `no-referrer`, browsers would send the forms of these pages with the origin `null`,
        // which is refused.
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}
