//! Failures as pages, and the headers that every page has.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};

use super::destination::Destination;
use super::is_console;
use super::live::is_poll;
use super::page::{self, Page};
use crate::serve::problem::Problem;

/// Nothing from another host, no inline script or style, and no frame around it.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Says that a part of a page is asked for, by the script.
const BY_SCRIPT: HeaderName = HeaderName::from_static("hx-request");
/// The page whose script asks.
const CURRENT: HeaderName = HeaderName::from_static("hx-current-url");
/// Has the script leave what is there.
const LEAVE: [(HeaderName, &str); 1] = [(HeaderName::from_static("hx-reswap"), "none")];
/// Has the script go to another page.
const LEAD: HeaderName = HeaderName::from_static("hx-redirect");

/// Makes a page of what is wrong with a request on the paths of the console, whoever found it, and sets the headers of all answers there.
/// Who is not signed in is sent to do that, and from there to the page.
pub(crate) async fn in_pages(request: Request, next: Next) -> Response {
    if !is_console(request.uri().path()) {
        return next.run(request).await;
    }
    // Who shows a token is told that it is not valid.
    let is_led = request.method().is_safe() && !request.headers().contains_key(header::AUTHORIZATION);
    let is_of_script = request.headers().contains_key(BY_SCRIPT);
    let is_asked_again = is_of_script && is_poll(request.uri());
    // What a form is sent to may be no page.
    let is_form = !request.method().is_safe();
    let page = match is_of_script {
        true => current(request.headers()),
        false => Destination::of(request.uri()).filter(|_| !is_form),
    };
    let login = Destination::login(page.as_ref());
    let mut response = next.run(request).await;
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        response = match response.status() {
            // A script would take the form for what it has asked for.
            StatusCode::UNAUTHORIZED if is_led && is_of_script => {
                (StatusCode::UNAUTHORIZED, [(LEAD, login)]).into_response()
            }
            StatusCode::UNAUTHORIZED if is_led => Redirect::to(&login).into_response(),
            // It tries again after some time.
            _ if is_asked_again && problem.retryable => (LEAVE, told(response, &problem, None)).into_response(),
            StatusCode::UNAUTHORIZED => told(response, &problem, is_form.then(|| resend(Some(&login)))),
            _ => told(response, &problem, (is_form && problem.retryable).then(|| resend(None))),
        };
    }
    protect(response.headers_mut());
    response
}

/// The page that a part is asked for by: the part alone would be a strange page.
fn current(headers: &HeaderMap) -> Option<Destination> {
    Destination::of(&headers.get(CURRENT)?.to_str().ok()?.parse::<Uri>().ok()?)
}

/// How a form is sent again with what was written in it: the page before it has forgotten that. What it has seen keeps it from being done twice.
fn resend(login: Option<&str>) -> Markup {
    html! {
        p {
            @if let Some(login) = login { a href=(login) target="_blank" { "Sign in" } " in another tab, then reload " }
            @else { "Reload " }
            "this page: your browser sends the same form again."
        }
    }
}

/// The same answer with a page as its body.
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
        // Other hosts get no referrer. With `no-referrer`, browsers would send the forms of these pages with the origin `null`, which
        // is refused.
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}
