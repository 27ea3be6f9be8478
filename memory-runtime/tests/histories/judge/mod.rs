//! Finds the anomalies of a history.

pub(crate) mod record;
pub(crate) mod rules;
pub(crate) mod search;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::log::{Action, Answer, Call, History, Outcome, What, is_document};
use search::{Loss, Op, Order, order};

/// An answer that no engine may give, or none with this setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Anomaly {
    pub(crate) rule: &'static str,
    pub(crate) record: String,
    /// The smallest part of the history that shows it.
    pub(crate) shown_by: Vec<String>,
}

/// The result for a history.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) anomalies: Vec<Anomaly>,
    /// Those that the setting of the engine allows.
    pub(crate) allowed: Vec<Anomaly>,
    /// Those of which nobody knows whether it allows them, because the search for an order with losses was given up. Only where a failover
    /// may lose acknowledged writes: each of these doubles the orders.
    pub(crate) undecided: Vec<Anomaly>,
    /// How many calls were put in an order, reads by actions on many records among them.
    pub(crate) ordered: usize,
}

const NO_ORDER: &str = "no order of the calls explains the answers";
const GIVEN_UP: &str = "the search for an order was given up";

/// The losses that an engine's setting allows around a failover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) loss: Loss,
    pub(crate) past: Past,
}

/// The answers that a replaced server may give from an earlier state, before it knows that it is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Past {
    Nothing,
    Reads,
    /// Refused writes, too.
    Refusals,
}

impl Setting {
    /// Nothing.
    pub(crate) const STRICT: Self = Self { loss: Loss::Nothing, past: Past::Nothing };
}

pub(crate) fn judge(history: &History, setting: Setting) -> Verdict {
    let mut verdict = Verdict { anomalies: rules::broken(history), ..Verdict::default() };
    for (record, ops) in by_record(history) {
        verdict.ordered += ops.len();
        let anomaly = |rule, ops: &[Op]| {
            let shown_by = ops.iter().map(ToString::to_string).collect();
            Anomaly { rule, record: record.clone(), shown_by }
        };
        match order(&record, &ops, Loss::Nothing) {
            Order::Found => {}
            Order::Unknown => verdict.anomalies.push(anomaly(GIVEN_UP, &ops)),
            Order::Missing => {
                let shown_by = smallest(&record, &ops);
                let found = anomaly(NO_ORDER, &shown_by);
                let allowed = match setting {
                    Setting::STRICT => Order::Missing,
                    _ => order(&record, &with_failovers(&ops, history, setting), setting.loss),
                };
                match allowed {
                    Order::Found => verdict.allowed.push(found),
                    Order::Missing => verdict.anomalies.push(found),
                    Order::Unknown if setting.loss != Loss::Any => verdict.anomalies.push(anomaly(GIVEN_UP, &ops)),
                    Order::Unknown if meets_failover(&shown_by, history) => verdict.undecided.push(found),
                    // Nothing was lost yet.
                    Order::Unknown => verdict.anomalies.push(found),
                }
            }
        }
    }
    verdict
}

/// Whether a failover began before the last of these answers.
fn meets_failover(ops: &[Op], history: &History) -> bool {
    let last = ops.iter().filter(|op| op.answer.is_some()).map(|op| op.ended).max();
    history.failovers.iter().any(|(started, _)| Some(*started) <= last)
}

/// The calls on each record that matter to its order, by their starts.
fn by_record(history: &History) -> BTreeMap<String, Vec<Op>> {
    let mut records = BTreeMap::<_, Vec<Op>>::new();
    for call in history.calls.values() {
        if let Action::One { record, what } = &call.action {
            records.entry(record.clone()).or_default().extend(Op::of(call, what));
        }
    }
    for call in history.calls.values() {
        add_reads(call, &mut records);
    }
    for ops in records.values_mut() {
        let first_write = ops.iter().filter(|op| !op.is_read()).map(|op| op.started).min().unwrap_or(u64::MAX);
        let is_trivial = |op: &Op| op.ended < first_write && op.answer == Some(Answer::Found(None));
        ops.retain(|op| !is_trivial(op));
        ops.sort_by_key(|op| op.started);
    }
    records
}

/// A page reads each record that it shows; all pages together have read that the others did not exist.
fn add_reads(call: &Call, records: &mut BTreeMap<String, Vec<Op>>) {
    let (Action::Many { documents, under, .. }, Outcome::Done(Answer::Pages { pages, is_complete })) =
        (&call.action, &call.outcome)
    else {
        return;
    };
    let read = |version, started, ended| {
        let what = Some(What::Read { under: under.clone() });
        Op { number: call.number, what, started, ended, answer: Some(Answer::Found(version)) }
    };
    let mut found = BTreeSet::new();
    for page in pages {
        for row in &page.rows {
            found.insert(&row.record);
            let op = read(Some(row.version.clone()), page.started, page.ended);
            records.entry(row.record.clone()).or_default().push(op);
        }
    }
    if *is_complete {
        let others = records.iter_mut().filter(|(name, _)| is_document(name) == *documents && !found.contains(name));
        others.for_each(|(_, ops)| ops.push(read(None, call.started, call.ended.unwrap_or(u64::MAX))));
    }
}

/// Adds the failovers, and leaves out calls that may have read the past.
fn with_failovers(ops: &[Op], history: &History, setting: Setting) -> Vec<Op> {
    let failover = |(started, ended): &(u64, u64)| {
        let (number, what, started, ended) = (u32::MAX, None, *started, *ended);
        Op { number, what, started, ended, answer: None }
    };
    let meets_one =
        |op: &Op| history.failovers.iter().any(|(started, ended)| op.started <= *ended && op.ended >= *started);
    let may_be_past = |op: &Op| match setting.past {
        Past::Nothing => false,
        Past::Reads => op.is_read(),
        Past::Refusals => op.changes_nothing(),
    };
    let kept = ops.iter().filter(|op| !(may_be_past(op) && meets_one(op))).cloned();
    let mut all: Vec<_> = kept.chain(history.failovers.iter().map(failover)).collect();
    all.sort_by_key(|op| op.started);
    all
}

/// The shortest prefix without an order, with only those of its calls without an effect that are needed.
fn smallest(record: &str, ops: &[Op]) -> Vec<Op> {
    let mut ends: Vec<_> = ops.iter().map(|op| op.ended).collect();
    ends.sort_unstable();
    let is_refused = |ops: &[Op]| order(record, ops, Loss::Nothing) == Order::Missing;
    let beginnings = ends.into_iter().map(|end| ops.iter().filter_map(|op| op.until(end)).collect::<Vec<_>>());
    let mut small = beginnings.into_iter().find(|ops| is_refused(ops)).unwrap_or_else(|| ops.to_vec());
    let mut place = small.len();
    while place > 0 {
        place -= 1;
        if small[place].changes_nothing() {
            let op = small.remove(place);
            if !is_refused(&small) {
                small.insert(place, op);
            }
        }
    }
    small
}

impl Op {
    /// `None` of a call that had no effect and no answer.
    fn of(call: &Call, what: &What) -> Option<Self> {
        let Call { number, started, .. } = *call;
        let (what, ended) = (Some(what.clone()), call.ended.unwrap_or(u64::MAX));
        let op = Self { number, what, started, ended, answer: None };
        match &call.outcome {
            Outcome::Done(answer) => Some(Self { answer: Some(answer.clone()), ..op }),
            Outcome::Unknown(_) if !op.is_read() => Some(Self { ended: u64::MAX, ..op }),
            Outcome::Unknown(_) | Outcome::NotDone(_) => None,
        }
    }

    fn is_read(&self) -> bool {
        matches!(self.what, Some(What::Get { .. } | What::Read { .. }))
    }

    fn changes_nothing(&self) -> bool {
        let refused = [Answer::Conflict, Answer::Erased, Answer::NotFound, Answer::Gone(false)];
        self.is_read() || self.answer.as_ref().is_some_and(|answer| refused.contains(answer))
    }

    /// The call as it was known at that time.
    fn until(&self, end: u64) -> Option<Self> {
        match self.ended <= end {
            true => Some(self.clone()),
            false if self.started > end || self.is_read() => None,
            false => Some(Self { ended: u64::MAX, answer: None, ..self.clone() }),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = |nanos| nanos / 1_000;
        write!(f, "call {} from {}", self.number, micros(self.started))?;
        match &self.answer {
            Some(answer) => write!(f, " to {}: {:?} -> {answer:?}", micros(self.ended), self.what),
            None => write!(f, " without an answer: {:?}", self.what),
        }
    }
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.record, self.rule)?;
        self.shown_by.iter().try_for_each(|line| write!(f, "\n    {line}"))
    }
}
