//! Shows the feed of changes.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::Extension;
use axum::http::{HeaderName, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt as _};
use maud::{Markup, html};
use memory_core::engine::Permit;
use memory_core::{Change, ChangeKind, Collection, MemoryQuery, Record, RecordId, Spaces, Status, Watch, WatchFrom};
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};
use utoipa::IntoParams;

use super::entry::line;
use super::fields::{ScopeFields, choice, filled, input, status_choice};
use super::links::{self, link};
use super::page::{Section, alert};
use super::paths::LIVE;
use super::text::{Shown, preview};
use super::visitor::Visitor;
use crate::serve::extract::Parameters;
use crate::serve::problem::Problem;
use crate::serve::request::RequestPlace;
use crate::serve::watching::{Told, WatchedName, changes, watched};

/// The parameters of the watch.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct LiveFields {
    /// `documents` or `both`; memories otherwise.
    of: String,
    /// The collection of the documents.
    collection: String,
    /// The status of memories.
    status: String,
    /// A condition on the records.
    filter: String,
    /// Words of which a record holds at least one.
    text: String,
    /// The token after which it continues; from now on without one.
    from: String,
    /// The number of changes that the requesting page has.
    shown: usize,
    /// `poll` waits for a change, `pause` stops; otherwise the changes so far are shown.
    mode: String,
}

/// The most changes in one answer.
const MAX_CHANGES: usize = 50;
/// The most changes on a page that updates itself.
const MAX_SHOWN: usize = 200;

/// Tells the script to put the error in place of the line that has requested it, so that it requests nothing more.
const STOP: [(HeaderName, &str); 1] = [(HeaderName::from_static("hx-reswap"), "outerHTML")];

/// Tells the script to replace all changes of the page.
const REPLACE: [(HeaderName, &str); 2] =
    [(HeaderName::from_static("hx-retarget"), "#changes"), (HeaderName::from_static("hx-reswap"), "innerHTML")];

/// Whether the page waits for changes by itself.
pub(super) fn is_poll(uri: &Uri) -> bool {
    uri.path() == LIVE
        && form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes())
            .any(|(name, value)| name == "mode" && value == "poll")
}

/// The progress of a watch.
struct News {
    /// The changes, in their order.
    changes: Vec<Markup>,
    /// The token after which it continues.
    token: String,
    /// Whether the server is shutting down.
    is_over: bool,
}

pub(super) async fn show(
    visitor: Visitor,
    Extension(place): Extension<RequestPlace>,
    uri: Uri,
    Parameters((scope, fields)): Parameters<(ScopeFields, LiveFields)>,
) -> Response {
    let to = |more: &[(&str, &str)]| {
        let LiveFields { of, collection, status, filter, text, .. } = &fields;
        let own = [("of", of), ("collection", collection), ("status", status), ("filter", filter), ("text", text)];
        let own = own.map(|(name, value)| (name, value.as_str()));
        link(LIVE, &[&scope.parameters()[..], &own, more].concat())
    };
    let asked = uri.query().map_or(0, str::len).saturating_sub(fields.from.len());
    let news = news(&visitor, &place, &scope, &fields, asked).await;
    let new = news.as_ref().map_or(0, |news| news.changes.len());
    let is_full = fields.shown.saturating_add(new) > MAX_SHOWN;
    let shown = if is_full { new } else { fields.shown + new };
    let main = html! {
        h1 { "Live" }
        (form(&scope, &fields))
        p { a href=(to(&[])) { "Begin again" } }
        // Each answer replaces the line that has requested it.
        div id="changes" role="log" aria-label="Changes" hx-target="#poll" hx-swap="outerHTML" hx-select="#changes > *, main > .error" {
            @match &news {
                Ok(news) => {
                    (state(news, &fields.mode, shown, &to))
                    @for change in news.changes.iter().rev() { (change) }
                    @if is_full { p class="note" { "Earlier changes have left this page." } }
                }
                Err(problem) => (alert(&problem.detail)),
            }
        }
    };
    let page = visitor.page(Section::Live, main).with_outcome(&news);
    match news {
        // The script requests again.
        Err(problem) if problem.retryable && fields.mode == "poll" => problem.into_response(),
        Err(_) => (STOP, page).into_response(),
        _ if is_full => (REPLACE, page).into_response(),
        _ => page.into_response(),
    }
}

async fn news(
    visitor: &Visitor,
    place: &RequestPlace,
    scope: &ScopeFields,
    fields: &LiveFields,
    asked: usize,
) -> Result<News, Problem> {
    if fields.mode == "pause" {
        return Ok(News { changes: Vec::new(), token: fields.from.clone(), is_over: false });
    }
    let (watch, patterns) = watch(visitor, scope, fields).await?;
    let (limits, shows_ids) = (&visitor.server.limits, visitor.access.readable == Spaces::All);
    let changes =
        changes(&visitor.server, &visitor.access, &watch, limits.places_of_watch(asked, scope.patterns())).await?;
    // The request holds watch permits by now, and may wait for long.
    drop(patterns);
    place.give_back();
    // Long before the deadline of the request.
    let patience = limits.heartbeat.min(limits.time / 2);
    come(changes, &fields.from, fields.mode == "poll", shows_ids, patience).await
}

async fn watch(
    visitor: &Visitor,
    scope: &ScopeFields,
    fields: &LiveFields,
) -> Result<(Watch, Option<Permit>), Problem> {
    let named = filled(&fields.collection).map(Collection::parse).transpose()?;
    let of = watched(of(&fields.of), named.into_iter().collect::<BTreeSet<_>>(), &visitor.access)?;
    let (mut query, patterns) = scope.apply(MemoryQuery::builder(), &visitor.server.limits).await?;
    if let Some(status) = filled(&fields.status) {
        query = query.status(Status::parse(status)?);
    }
    if let Some(filter) = filled(&fields.filter) {
        query = query.filter_text(filter);
    }
    if let Some(text) = filled(&fields.text) {
        query = query.text(text);
    }
    let from = match filled(&fields.from) {
        Some(token) => WatchFrom::Token(token.to_owned()),
        None => WatchFrom::Now,
    };
    Ok((Watch::new(of, visitor.access.confine(query))?.from(from), patterns))
}

/// The records of a choice.
fn of(name: &str) -> WatchedName {
    match name {
        "documents" => WatchedName::Documents,
        "both" => WatchedName::Both,
        _ => WatchedName::Memories,
    }
}

/// Reads the present changes. If there are none and it may wait, it waits for the next one, until the patience is over:
/// then the time of an answer without changes reveals nothing about records that are not watched.
async fn come(
    changes: impl Stream<Item = Told>,
    from: &str,
    waits: bool,
    shows_ids: bool,
    patience: Duration,
) -> Result<News, Problem> {
    let deadline = Instant::now() + patience;
    let mut changes = std::pin::pin!(changes);
    let mut news = News { changes: Vec::new(), token: from.to_owned(), is_over: false };
    let mut is_waiting = false;
    loop {
        match timeout_at(deadline, changes.next()).await {
            Err(_) => break,
            Ok(None) => {
                news.is_over = true;
                break;
            }
            // A watch that continues after the last token gets this change, too.
            Ok(Some(Err(_))) if !news.changes.is_empty() => break,
            Ok(Some(Err(error))) => return Err(error.into()),
            Ok(Some(Ok(Change { token, kind }))) => {
                news.token = token.to_string();
                match kind {
                    ChangeKind::Reached if waits && news.changes.is_empty() => is_waiting = true,
                    ChangeKind::Reached => break,
                    kind => news.changes.extend(told(&kind, shows_ids)),
                }
            }
        }
        if news.changes.len() == MAX_CHANGES || is_waiting && !news.changes.is_empty() {
            break;
        }
    }
    if news.token.is_empty() && !news.is_over {
        let detail = "the feed did not report its position in time: begin again";
        return Err(Problem { retryable: true, ..Problem::new(StatusCode::GATEWAY_TIMEOUT, detail) });
    }
    Ok(news)
}

/// Renders the link or the line that continues.
fn state(news: &News, mode: &str, shown: usize, to: &impl Fn(&[(&str, &str)]) -> String) -> Markup {
    let shown = shown.to_string();
    let at = |mode| to(&[("from", &news.token), ("shown", &shown), ("mode", mode)]);
    let since = to(&[("from", &news.token)]);
    html! {
        @if news.is_over || mode == "pause" {
            p id="poll" {
                @if news.is_over { "The server ends, and nothing more comes. " } @else { "Paused. " }
                a id="turn" href=(since) hx-get=(at("")) { "Go on" }
            }
        } @else {
            p id="poll" aria-live="off" hx-get=(at("poll")) hx-trigger="load delay:200ms, htmx:sendError delay:5s, htmx:responseError delay:5s" {
                span class="scripted" {
                    "Changes come in here by themselves. "
                    a id="turn" href=(at("pause")) hx-get=(at("pause")) { "Pause" } " "
                }
                a id="since" href=(since) { "Show what came since" }
            }
        }
    }
}

/// Renders a change; nothing for progress.
fn told(kind: &ChangeKind, shows_ids: bool) -> Option<Markup> {
    let (name, what) = match kind {
        ChangeKind::Stored(record) => ("Stored", record_line(record)),
        ChangeKind::Updated(record) => ("Updated", record_line(record)),
        ChangeKind::Removed(id) => ("Removed", id_line(id)),
        ChangeKind::Erased(id) => ("Erased", id_line(id)),
        ChangeKind::Left(id) => ("Left", id_line(id)),
        ChangeKind::Unreadable(row) => {
            ("Unreadable", html! { @if shows_ids { (preview(&row.id)) ": " } (preview(&row.reason)) })
        }
        _ => return None,
    };
    Some(html! { p class="change" { strong { (name) } " " (what) } })
}

fn record_line(record: &Record) -> Markup {
    let revision = record.revision();
    html! {
        @match record {
            Record::Memory(memory) => (line(memory)),
            Record::Document(document) => (line(document)),
        }
        span class="note" { " Revision " (revision) }
    }
}

fn id_line(id: &RecordId) -> Markup {
    html! {
        @match id {
            RecordId::Memory(id) => { "memory " a href=(links::memory(*id)) { (id) } },
            RecordId::Document { collection, id } => { "document " bdi { (Shown::of(id.as_str()).text) } " of " (collection.as_str()) },
        }
    }
}

fn form(scope: &ScopeFields, fields: &LiveFields) -> Markup {
    html! {
        form method="get" action=(LIVE) class="fields" role="search" aria-label="Changes" {
            (scope.inputs())
            (choice("of", "Changes of", &[("", "Memories"), ("documents", "Documents"), ("both", "Both")], &fields.of))
            (input("collection", "Collection of the documents", &fields.collection))
            (input("text", "One of these words", &fields.text))
            (input("filter", "Condition, as in metadata.topic = 'rust'", &fields.filter))
            (status_choice(&fields.status))
            p { button type="submit" { "Show" } }
        }
    }
}
