//! Signing in with a token, and out again.

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;
use utoipa::IntoParams;

use super::destination::Destination;
use super::page::{self, Page};
use super::paths::{HOME, LOGIN};
use crate::serve::callers::door::Door;
use crate::serve::callers::pass::Pass;
use crate::serve::callers::sender::check_own;
use crate::serve::extract::Parameters;
use crate::serve::problem::Problem;
use crate::serve::state::Server;

/// The parameters of the form.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct LoginFields {
    /// The page to go to afterwards; the spaces if it is not a page of the console.
    next: String,
}

/// Shows the form for a token, if one is needed.
pub(super) async fn show(State(server): State<Server>, Parameters((fields,)): Parameters<(LoginFields,)>) -> Response {
    let next = Destination::parse(&fields.next);
    match server.callers.door {
        Door::Open => lead(next.as_ref()).into_response(),
        Door::Secret(_) | Door::Tokens(_) => Page::outside("Sign in", form(next.as_ref(), None)).into_response(),
    }
}

/// Signs in with a valid token, and redirects to the requested page.
pub(super) async fn enter(
    State(server): State<Server>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    check_own(&headers)?;
    // A body over the limit of a form holds no token.
    let body = body.unwrap_or_default();
    let field = |wanted| form_urlencoded::parse(&body).find(|(name, _)| name == wanted).map(|(_, value)| value);
    let (token, next) = (field("token"), field("next"));
    let token = token.as_deref().unwrap_or_default().trim();
    let next = next.as_deref().and_then(Destination::parse);
    if server.callers.by_token(token).is_none() {
        let page = Page::outside("Sign in", form(next.as_ref(), Some("This token is not valid.")));
        return Ok(page.with_status(StatusCode::UNAUTHORIZED).into_response());
    }
    let cookie = Pass::of(token, &server.callers.key).cookie(&headers);
    Ok((AppendHeaders([(header::SET_COOKIE, cookie)]), lead(next.as_ref())).into_response())
}

/// Signs out: expires the pass in the cookies, and leads to the form.
pub(super) async fn leave(headers: HeaderMap) -> Result<Response, Problem> {
    check_own(&headers)?;
    let cookies = Pass::no_cookies(&headers).map(|cookie| (header::SET_COOKIE, cookie));
    Ok((AppendHeaders(cookies), Redirect::to(LOGIN)).into_response())
}

fn lead(next: Option<&Destination>) -> Redirect {
    Redirect::to(next.map_or(HOME, Destination::as_str))
}

fn form(next: Option<&Destination>, mistake: Option<&str>) -> Markup {
    html! {
        h1 { "Sign in" }
        @if let Some(mistake) = mistake { (page::alert(mistake)) }
        form method="post" action=(LOGIN) class="fields" {
            @if let Some(next) = next { input type="hidden" name="next" value=(next.as_str()); }
            p {
                label for="token" { "Token" }
                input type="password" id="token" name="token" autocomplete="current-password" required autofocus;
            }
            p { button type="submit" { "Sign in" } }
        }
        p class="note" { "Tokens are those of the server's configuration. The console shows what a token may read." }
    }
}
