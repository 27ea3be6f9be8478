//! Watches in the name of a caller, for REST, the console and the command line.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{FutureExt as _, Stream, StreamExt as _};
use memory_core::{Change, ChangeKind, Changes, Collection, Collections, Error, ErrorKind, Watch, WatchFrom, Watched};
use serde::Deserialize;
use utoipa::ToSchema;

use super::access::Access;
use super::problem::Problem;
use super::state::Server;

/// A change, or why no more of them come.
pub(crate) type Told = memory_core::Result<Change>;

/// Which records are watched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema, clap::ValueEnum)]
#[serde(rename_all = "camelCase")]
pub(crate) enum WatchedName {
    /// Those of the ledger.
    #[default]
    Memories,
    /// Those of collections.
    Documents,
    /// Both.
    Both,
}

/// Where a watch begins that is asked for as `start`, `now` or a token.
pub(crate) fn begins(from: &str) -> WatchFrom {
    match from {
        "start" => WatchFrom::Beginning,
        "now" => WatchFrom::Now,
        token => WatchFrom::Token(token.to_owned()),
    }
}

impl WatchedName {
    /// These records, with documents of these collections.
    pub(crate) fn of(self, collections: Collections) -> Watched {
        match self {
            Self::Memories => Watched::Memories,
            Self::Documents => Watched::Documents(collections),
            Self::Both => Watched::Both(collections),
        }
    }
}

/// The changes of a watch, until the server ends. It takes so many of the caller's places for watches as long as it goes on.
pub(crate) async fn changes(
    server: &Server,
    access: &Access,
    watch: &Watch,
    places: u32,
) -> Result<impl Stream<Item = Told> + Send + use<>, Problem> {
    let place = server.limits.watches.take_many(&access.name, places);
    let place = place.ok_or_else(|| {
        Problem::too_many(
            "too many watches are open, or this one names too many spaces and conditions: end one, or name fewer",
        )
    })?;
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
        return Err(Error::invalid("of: must be documents or both, since collection selects documents"));
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
