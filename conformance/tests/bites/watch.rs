//! The watches of the reference with one bug.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use futures::{StreamExt as _, future, stream};
use memory_core::{
    Change, ChangeKind, Changes, Error, ErrorKind, InMemory, MemoryProvider, Record, RecordId, Result, Spaces,
    Timestamp, Watch, WatchFrom,
};

use crate::flaw::Flaw;
use crate::naive::again;

/// The tokens that a handle has given.
pub(crate) type Given = Arc<Mutex<HashSet<String>>>;

/// A watch that passes every change on, apart from its flaw.
pub(crate) async fn watch(inner: &InMemory, flaw: Flaw, given: &Given, watch: &Watch) -> Result<Changes> {
    let now = || watch.clone().from(WatchFrom::Now);
    match (flaw, watch.begins()) {
        (Flaw::WatchIgnoresWithin, from) => {
            let conditions = again(watch.conditions(), |query| query.within(Spaces::All));
            let unconfined = Watch::new(watch.of().clone(), conditions)?.from(from.clone());
            inner.watch(&unconfined).await
        }
        (Flaw::WatchTokenMeansNow, WatchFrom::Token(_)) => inner.watch(&now()).await,
        (Flaw::WatchTokensEndWithTheirHandle, WatchFrom::Token(token))
            if !given.lock().unwrap_or_else(PoisonError::into_inner).contains(token) =>
        {
            Err(Error::invalid("nobody knows this token"))
        }
        (Flaw::WatchGoesOnAfterALoss, _) => match inner.watch(watch).await {
            Err(error) if error.kind() == ErrorKind::FeedReset => inner.watch(&now()).await,
            begun => begun,
        },
        (Flaw::WatchHasAGapBehindItsSnapshot, WatchFrom::Beginning) => {
            let mut snapshot = Vec::new();
            let mut changes = inner.watch(watch).await?;
            while let Some(change) = changes.next().await {
                let change = change?;
                if change.kind == ChangeKind::Reached {
                    break;
                }
                snapshot.push(Ok(change));
            }
            let (inner, now) = (inner.clone(), now());
            let rest = stream::once(async move { inner.watch(&now).await }).flat_map(|rest| match rest {
                Ok(rest) => rest,
                Err(error) => stream::iter([Err(error)]).boxed(),
            });
            Ok(stream::iter(snapshot).chain(rest).boxed())
        }
        _ => {
            let (given, mut seen) = (Arc::clone(given), Seen::default());
            let changes = inner.watch(watch).await?.flat_map(move |change| {
                let told: Vec<_> = match change {
                    Ok(change) => {
                        given.lock().unwrap_or_else(PoisonError::into_inner).insert(change.token.to_string());
                        seen.told(flaw, change).into_iter().map(Ok).collect()
                    }
                    Err(error) => vec![Err(error)],
                };
                stream::iter(told)
            });
            match flaw {
                Flaw::WatchEndsWithoutAWord => Ok(changes.take_while(|change| future::ready(change.is_ok())).boxed()),
                _ => Ok(changes.boxed()),
            }
        }
    }
}

/// What a broken watch remembers of its deliveries.
#[derive(Default)]
struct Seen {
    newest: Option<Timestamp>,
    first: HashMap<RecordId, Change>,
    told: usize,
}

impl Seen {
    /// The changes that it delivers for a change.
    fn told(&mut self, flaw: Flaw, change: Change) -> Vec<Change> {
        self.told += 1;
        match (flaw, &change.kind) {
            (Flaw::WatchOmitsLeft, ChangeKind::Left(_))
            | (Flaw::WatchOmitsRemovals, ChangeKind::Removed(_))
            | (Flaw::WatchOmitsErasures, ChangeKind::Erased(_)) => vec![],
            (Flaw::WatchLooksForWhatIsNew, ChangeKind::Stored(record) | ChangeKind::Updated(record)) => {
                let created_at = match record {
                    Record::Memory(memory) => memory.created_at,
                    Record::Document(document) => document.created_at,
                };
                let is_late = self.newest.is_some_and(|newest| newest > created_at);
                self.newest = self.newest.max(Some(created_at));
                if is_late { vec![] } else { vec![change] }
            }
            (Flaw::WatchTellsTwiceInDisorder, ChangeKind::Stored(record) | ChangeKind::Updated(record)) => {
                match self.first.insert(record.id(), change.clone()) {
                    Some(earlier) => vec![change, earlier],
                    None => vec![change],
                }
            }
            (Flaw::WatchTellsOfStoresAlone, ChangeKind::Updated(record)) => {
                vec![Change { kind: ChangeKind::Stored(record.clone()), ..change }]
            }
            (Flaw::WatchIsReachedTooSoon, _) if self.told == 10 => {
                vec![Change { token: change.token.clone(), kind: ChangeKind::Reached }, change]
            }
            _ => vec![change],
        }
    }
}
