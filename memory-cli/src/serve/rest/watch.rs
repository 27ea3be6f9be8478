//! The feed of changes, as server-sent events.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, Uri, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::{FutureExt as _, Stream, StreamExt as _};
use memory_core::{
    Change, ChangeKind, Changes, Collection, Collections, Error, ErrorKind, MemoryQuery, Spaces, Watch, WatchFrom,
    Watched,
};
use serde::Serialize;

use super::changes::{ChangeBody, WatchedName};
use super::params::{LedgerParams, SearchParams, SpaceParams, WatchParams};
use crate::serve::access::Access;
use crate::serve::extract::{Parameters, last_event_id};
use crate::serve::problem::Problem;
use crate::serve::state::Server;
use crate::telemetry::PAYLOADS;

/// A change, or why no more of them come.
pub(crate) type Told = memory_core::Result<Change>;

/// What is answered beside the events: no proxy keeps or changes them, and none waits for more of them.
const HEADERS: [(HeaderName, &str); 2] =
    [(header::CACHE_CONTROL, "no-cache, no-transform"), (HeaderName::from_static("x-accel-buffering"), "no")];

/// Tells what changes, until the client leaves.
///
/// The `event` of each event is the `kind` of its `data`, and its `id` goes on behind it, as `Last-Event-ID` or `from`. An error behind the
/// beginning is an event `error` with a problem as `data`, and the stream ends; a stream that ends without one was cut, and may go on. Where
/// the feed has lost what came behind an id, the answer or the event is the problem `FeedReset` (410): begin anew with `from=start`.
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
        ("Last-Event-ID" = Option<String>, Header, description = "The `id` of the last event that came; wins over `from`")
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

/// The changes of a watch, until the server ends. It takes so many of the caller's places for watches as long as it goes on.
pub(crate) async fn changes(
    server: &Server,
    access: &Access,
    watch: &Watch,
    places: u32,
) -> Result<impl Stream<Item = Told> + Send + use<>, Problem> {
    let place = server.limits.watches.take_many(&access.name, places);
    let place = place.ok_or_else(|| Problem::too_many("as many watches are open as there may be: end one"))?;
    let changes = server.provider.watch(watch).await.map_err(|error| match error.kind() {
        ErrorKind::LimitExceeded => Problem::too_many(error.message()),
        _ => error.into(),
    })?;
    let changes = in_turn(changes, Arc::clone(server), access.name.clone(), *watch.begins() == WatchFrom::Now);
    // Held as long as the stream is.
    let held = (place, server.metrics.watch());
    let changes = changes.inspect(move |_| {
        let _ = &held;
    });
    Ok(changes.take_until(server.stopping.clone().cancelled_owned()))
}

/// What is watched, as far as the caller may use it.
pub(crate) fn watched(of: WatchedName, named: BTreeSet<Collection>, access: &Access) -> memory_core::Result<Watched> {
    if of == WatchedName::Memories && !named.is_empty() {
        return Err(Error::invalid(
            "collections hold documents, and this watches memories: name what is watched with of",
        ));
    }
    named.iter().try_for_each(|collection| access.check_collection(collection))?;
    let collections = match (&access.collections, named.is_empty()) {
        (_, false) => Collections::Named(named),
        (None, true) => Collections::All,
        (Some(usable), true) if usable.is_empty() && of != WatchedName::Memories => {
            return Err(Error::new(ErrorKind::Unauthorized, "no collection may be used"));
        }
        (Some(usable), true) => Collections::Named(usable.iter().cloned().collect()),
    };
    Ok(of.of(collections))
}

/// The changes of a watch, which catches up when it is its turn among those of its caller, unless there is nothing to catch up with.
fn in_turn(changes: Changes, server: Server, caller: String, is_caught_up: bool) -> impl Stream<Item = Told> + Send {
    let begin = async move {
        let mut turn = if is_caught_up { None } else { server.limits.turn_to_catch_up(&caller).await };
        changes.inspect(move |change| {
            if matches!(change, Ok(Change { kind: ChangeKind::Reached, .. })) {
                drop(turn.take());
            }
        })
    };
    begin.flatten_stream()
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
