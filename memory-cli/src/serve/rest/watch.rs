//! The feed of changes, as server-sent events.

use std::convert::Infallible;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, Uri, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use memory_core::{Change, MemoryQuery, Spaces, Watch, WatchFrom};
use serde::Serialize;

use super::changes::ChangeBody;
use super::params::{LedgerParams, SearchParams, WatchParams};
use crate::serve::access::Access;
use crate::serve::extract::{Parameters, last_event_id};
use crate::serve::problem::Problem;
use crate::serve::scope::SpaceParams;
use crate::serve::state::Server;
use crate::serve::watching::{Told, changes, watched};
use crate::telemetry::PAYLOADS;

/// What is answered beside the events: no proxy keeps or changes them, and none waits for more of them.
const HEADERS: [(HeaderName, &str); 2] =
    [(header::CACHE_CONTROL, "no-cache, no-transform"), (HeaderName::from_static("x-accel-buffering"), "no")];

/// Streams the changes of records until the client disconnects.
///
/// The `event` of each event is the `kind` of its `data`, and its `id` continues after it, as `Last-Event-ID` or `from`. A later error is
/// an event `error` with a problem as `data`, and ends the stream; a stream that ends without one was cut, and can be continued. If the
/// feed has lost the changes after an id, the answer or the event is the problem `FeedReset` (410): begin again with `from=start`.
#[utoipa::path(
    get,
    path = "/v1/watch",
    operation_id = "watch",
    tag = "watch",
    params(
        SpaceParams,
        SearchParams,
        LedgerParams,
        WatchParams,
        ("Last-Event-ID" = Option<String>, Header, description = "The `id` of the last event that was received; overrides `from`")
    ),
    responses((status = 200, body = ChangeBody, content_type = "text/event-stream"), Problem)
)]
pub(super) async fn watch(
    State(server): State<Server>,
    Extension(access): Extension<Access>,
    uri: Uri,
    headers: HeaderMap,
    Parameters((spaces, search, ledger, params)): Parameters<(SpaceParams, SearchParams, LedgerParams, WatchParams)>,
) -> Result<Response, Problem> {
    let of = watched(params.of, params.collections()?, &access)?;
    let from = match last_event_id(&headers)? {
        Some(id) => WatchFrom::Token(id.to_owned()),
        None => params.begins(),
    };
    let asked = uri.query().map_or(0, str::len).saturating_sub(params.bytes_of_begin());
    let places = server.limits.places_of_watch(asked, spaces.patterns());
    let (query, _patterns) = spaces.apply(MemoryQuery::builder(), &server.limits).await?;
    let watch = Watch::new(of, access.confine(ledger.apply(search.apply(query))?))?.from(from);
    let changes = changes(&server, &access, &watch, places).await?;
    let shows_ids = access.readable == Spaces::All;
    let events = changes.map(move |change| Ok::<_, Infallible>(event(change, shows_ids)));
    let keep_alive = KeepAlive::new().interval(server.limits.heartbeat);
    Ok((HEADERS, Sse::new(events).keep_alive(keep_alive)).into_response())
}

fn event(change: Told, shows_ids: bool) -> Event {
    match change {
        Ok(Change { token, kind }) => {
            let body = ChangeBody::new(kind, shows_ids);
            // A token has letters, digits, - and _.
            data(Event::default().id(token).event(body.kind().as_str()), &body)
        }
        Err(error) => data(Event::default().event("error"), &Problem::from(error)),
    }
}

/// Adds the data, as JSON on one line.
fn data(event: Event, body: &impl Serialize) -> Event {
    // These bodies have a JSON form.
    let text = serde_json::to_string(body).unwrap_or_default();
    tracing::info!(target: PAYLOADS, body = text, "told");
    event.data(text)
}
