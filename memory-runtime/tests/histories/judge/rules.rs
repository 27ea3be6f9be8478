//! The rules across records.

use std::collections::{BTreeMap, BTreeSet};

use super::Anomaly;
use crate::log::{Action, Answer, Call, History, How, Outcome, Row, Told};

/// The client that reads everything in the end, when all others are gone and all servers are well.
pub(crate) const LAST: u32 = u32::MAX;

const ROW_TWICE: &str = "a walk gives a row twice";
const LONG_PAGE: &str = "a page is longer than its limit";
const WRONG_ERROR: &str = "an error that no trouble explains";
const REVISION_HOLE: &str = "the revisions of the history have a hole";
const LAST_REVISION: &str = "the history lacks the last revision";
const FEED_DISORDER: &str = "the feed goes back to an earlier revision";
const FEED_GAP: &str = "the feed does not tell of the last change";
const FEED_RESET: &str = "the feed is reset before a failover";

pub(crate) fn broken(history: &History) -> Vec<Anomaly> {
    let mut anomalies: Vec<_> =
        history.calls.values().flat_map(|call| pages(call).into_iter().chain(error(call))).collect();
    let there = last_versions(history);
    anomalies.extend(history.versions.iter().filter_map(|(record, revisions)| {
        hole(record, revisions).or_else(|| lacks_last(record, revisions, there.get(record.as_str()).copied()))
    }));
    anomalies.extend(feed_disorders(&history.told));
    anomalies.extend(feed_gaps(history));
    anomalies.extend(feed_resets(history));
    anomalies
}

/// Records whose last delivered change differs from their state in the end.
pub(crate) fn feed_gaps(history: &History) -> Vec<Anomaly> {
    let mut told = BTreeMap::new();
    for change in &history.told {
        match change {
            Told::Now { id, revision } => drop(told.insert(id.as_str(), *revision)),
            Told::Gone { id } => drop(told.remove(id.as_str())),
            Told::Reset { .. } => told.clear(),
        }
    }
    let there = last_rows(history);
    let names: BTreeSet<_> = there.keys().chain(told.keys()).copied().collect();
    let differs = |name: &&str| there.get(*name) != told.get(*name);
    let gap = |name: &str| {
        let line = format!("there is {:?}, and told was {:?}", there.get(name), told.get(name));
        anomaly(FEED_GAP, name, line)
    };
    names.into_iter().filter(differs).map(gap).collect()
}

/// The revisions that the last reads have found, by the ids of memories and the names of documents.
fn last_rows(history: &History) -> BTreeMap<&str, u64> {
    let rows = read_last(history);
    rows.map(|row| (row.version.id.as_deref().unwrap_or(&row.record), row.version.revision)).collect()
}

/// The same by the names of the records.
fn last_versions(history: &History) -> BTreeMap<&str, u64> {
    read_last(history).map(|row| (row.record.as_str(), row.version.revision)).collect()
}

fn read_last(history: &History) -> impl Iterator<Item = &Row> {
    let last = history.calls.values().filter(|call| call.client == LAST);
    let pages = last.filter_map(|call| match &call.outcome {
        Outcome::Done(Answer::Pages { pages, .. }) => Some(pages),
        _ => None,
    });
    pages.flatten().flat_map(|page| &page.rows)
}

fn pages(call: &Call) -> Vec<Anomaly> {
    let (Action::Many { how, .. }, Outcome::Done(Answer::Pages { pages, .. })) = (&call.action, &call.outcome) else {
        return Vec::new();
    };
    let (mut seen, mut anomalies) = (BTreeSet::new(), Vec::new());
    for page in pages {
        if matches!(how, How::Walk(limit) if page.rows.len() > *limit) {
            anomalies.push(anomaly(LONG_PAGE, "", format!("{call:?}")));
        }
        // A document that was removed and put again is another one, with another time.
        let twice = page.rows.iter().filter(|row| !seen.insert((&row.record, row.created_at)));
        anomalies.extend(twice.map(|row| anomaly(ROW_TWICE, &row.record, format!("{call:?}"))));
    }
    anomalies
}

fn error(call: &Call) -> Option<Anomaly> {
    let (Outcome::NotDone(kind) | Outcome::Unknown(kind)) = &call.outcome else { return None };
    let is_repeated =
        matches!(call.outcome, Outcome::Unknown(_)) && ["Conflict", "Erased", "NotFound"].contains(&kind.as_str());
    let is_trouble = call.outcome.is_trouble() && call.client != LAST;
    (call.ended.is_some() && !is_repeated && !is_trouble).then(|| anomaly(WRONG_ERROR, "", format!("{call:?}")))
}

fn hole(record: &str, revisions: &[u64]) -> Option<Anomaly> {
    let is_whole = revisions.iter().rev().copied().eq(1..=revisions.len() as u64);
    (!is_whole).then(|| anomaly(REVISION_HOLE, record, format!("{revisions:?}")))
}

/// A record that is there has its revision in its history, too (H1).
fn lacks_last(record: &str, revisions: &[u64], there: Option<u64>) -> Option<Anomaly> {
    let there = there.filter(|there| revisions.first() != Some(there))?;
    Some(anomaly(LAST_REVISION, record, format!("there is {there}, and the history has {revisions:?}")))
}

/// A failover may leave an earlier state (C6), and nothing else.
fn feed_resets(history: &History) -> impl Iterator<Item = Anomaly> {
    let first = history.failovers.iter().map(|(started, _)| *started).min().unwrap_or(u64::MAX);
    let early = history.told.iter().filter(move |told| matches!(told, Told::Reset { at } if *at < first));
    early.map(|told| anomaly(FEED_RESET, "", format!("{told:?}")))
}

fn feed_disorders(told: &[Told]) -> Vec<Anomaly> {
    let (mut revisions, mut anomalies) = (BTreeMap::new(), Vec::new());
    for change in told {
        match change {
            Told::Now { id, revision } => {
                if revisions.insert(id, *revision).is_some_and(|before| before > *revision) {
                    anomalies.push(anomaly(FEED_DISORDER, id, format!("{change:?}")));
                }
            }
            Told::Gone { id } => drop(revisions.remove(id)),
            Told::Reset { .. } => revisions.clear(),
        }
    }
    anomalies
}

fn anomaly(rule: &'static str, record: &str, line: String) -> Anomaly {
    Anomaly { rule, record: record.to_owned(), shown_by: vec![line] }
}
