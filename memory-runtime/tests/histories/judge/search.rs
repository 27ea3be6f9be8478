//! The search for an order of the calls on one record in which each answer is right (Wing and Gong's, with a memory).

use std::collections::HashSet;

use super::record::{State, step};
use crate::log::{Answer, What, is_document};

/// How many orders are looked at before the search gives up.
const MAX_NODES: usize = 200_000;

/// A call on the record, or a failover.
#[derive(Debug, Clone)]
pub(crate) struct Op {
    /// The number of its call.
    pub(crate) number: u32,
    /// `None` for a failover.
    pub(crate) what: Option<What>,
    pub(crate) started: u64,
    pub(crate) ended: u64,
    /// Without one the call may have its effect at any time behind its start, or never.
    pub(crate) answer: Option<Answer>,
}

/// What the setting of an engine lets a failover take back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    Nothing,
    /// Writes without an answer, which a read may have shown before.
    Unacknowledged,
    /// The latest writes, also those that were acknowledged.
    Any,
}

/// How far an order has come.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Node {
    /// Which calls are in it, a bit each.
    done: Vec<u64>,
    state: State,
    /// The writes so far, each with the state before it. Kept where a failover can take them back.
    trail: Vec<(State, usize)>,
}

/// What the search says of the calls on a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finding {
    /// There is an order in which each answer is right.
    Explained,
    /// There is none.
    Unexplained,
    /// The search has looked at too many orders, and knows neither.
    GivenUp,
}

/// Searches an order of the calls in which each answer is right; calls that were not concurrent keep their order.
pub(crate) fn find_order(record: &str, ops: &[Op], loss: Loss) -> Finding {
    Search { record, ops, loss }.run()
}

struct Search<'a> {
    record: &'a str,
    ops: &'a [Op],
    loss: Loss,
}

impl Search<'_> {
    fn run(&self) -> Finding {
        let mut nodes = vec![Node { done: vec![0; self.ops.len() / 64 + 1], state: State::Absent, trail: Vec::new() }];
        let mut seen = HashSet::new();
        while let Some(mut node) = nodes.pop() {
            self.settle(&mut node);
            if self.open(&node).all(|op| self.ops[op].is_optional()) {
                return Finding::Explained;
            }
            if seen.len() == MAX_NODES {
                return Finding::GivenUp;
            }
            if seen.insert(node.clone()) {
                let next = self.ready(&node).flat_map(|op| self.next(&node, op)).collect::<Vec<_>>();
                nodes.extend(next);
            }
        }
        Finding::Unexplained
    }

    /// Adds the calls that are right now and change nothing: what is right behind them is right without them, too.
    fn settle(&self, node: &mut Node) {
        loop {
            let is_settled =
                |op: &usize| self.ops[*op].settles(self.record) && self.after(node, *op).as_ref() == Some(&node.state);
            let ready: Vec<_> = self.ready(node).filter(is_settled).collect();
            if ready.is_empty() {
                return;
            }
            ready.into_iter().for_each(|op| node.add(op));
        }
    }

    /// The nodes behind a call.
    fn next(&self, node: &Node, op: usize) -> Vec<Node> {
        if self.ops[op].what.is_none() {
            return self.behind_failover(node, op);
        }
        let matters = |state: &State| *state != node.state || self.ops[op].answer.is_some();
        let Some(state) = self.after(node, op).filter(matters) else { return Vec::new() };
        let mut next = node.clone();
        next.add(op);
        if self.loss != Loss::Nothing {
            next.trail.push((node.state.clone(), op));
        }
        vec![Node { state, ..next }]
    }

    /// A failover leaves all, or takes back the latest writes. Those that were under way then can still have their effect.
    fn behind_failover(&self, node: &Node, failover: usize) -> Vec<Node> {
        let mut next = node.clone();
        next.add(failover);
        let mut nodes = vec![next.clone()];
        while let Some((state, op)) = next.trail.pop() {
            let was_over = self.ops[op].answer.is_some() && self.ops[op].ended < self.ops[failover].started;
            if was_over && self.loss != Loss::Any {
                break;
            }
            next.state = state;
            if !was_over {
                next.remove(op);
            }
            nodes.push(next.clone());
        }
        nodes
    }

    fn after(&self, node: &Node, op: usize) -> Option<State> {
        let Op { number, what, answer, .. } = &self.ops[op];
        step(&node.state, self.record, *number, what.as_ref()?, answer.as_ref())
    }

    fn open(&self, node: &Node) -> impl Iterator<Item = usize> {
        (0..self.ops.len()).filter(move |op| !node.has(*op))
    }

    /// The calls that may come next: those that no other one is entirely before.
    fn ready(&self, node: &Node) -> impl Iterator<Item = usize> {
        let first_end = self.open(node).map(|op| self.ops[op].ended).min().unwrap_or(u64::MAX);
        self.open(node).filter(move |op| self.ops[*op].started <= first_end)
    }
}

impl Op {
    /// Whether it does nothing at any time, once its answer is right where it does nothing. Of a document that is not there its history may be
    /// erased, which answers as the erasure of one that is.
    fn settles(&self, record: &str) -> bool {
        let erases_document = is_document(record) && matches!(self.what, Some(What::Erase { .. }));
        self.answer.is_some() && !erases_document
    }

    fn is_optional(&self) -> bool {
        self.what.is_some() && self.answer.is_none()
    }
}

impl Node {
    fn has(&self, op: usize) -> bool {
        self.done[op / 64] & (1 << (op % 64)) != 0
    }

    fn add(&mut self, op: usize) {
        self.done[op / 64] |= 1 << (op % 64);
    }

    fn remove(&mut self, op: usize) {
        self.done[op / 64] &= !(1 << (op % 64));
    }
}
