//! The search for an order of the calls on one record in which each answer is right (Wing and Gong's, with a memory).

use std::collections::HashSet;

use super::record::{State, step};
use crate::log::{Answer, What, is_document};

/// The number of nodes after which the search gives up.
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
    /// Without an answer, the call may take effect at any time after its start, or never.
    pub(crate) answer: Option<Answer>,
}

/// The writes that a failover may lose with an engine's setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    Nothing,
    /// Writes without an answer, which a read may have shown before.
    Unacknowledged,
    /// The latest writes, including acknowledged ones.
    Any,
}

/// The result of the search for an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Found,
    /// There is none.
    Missing,
    /// The search has given up.
    Unknown,
}

/// A prefix of an order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Node {
    /// Which calls are in it, a bit each.
    done: Vec<u64>,
    state: State,
    /// The writes so far, each with the state before it. Kept as long as a failover can undo them.
    trail: Vec<(State, usize)>,
}

/// Searches for such an order. An order keeps calls in sequence that were not concurrent.
pub(crate) fn order(record: &str, ops: &[Op], loss: Loss) -> Order {
    Search { record, ops, loss }.run()
}

struct Search<'a> {
    record: &'a str,
    ops: &'a [Op],
    loss: Loss,
}

impl Search<'_> {
    fn run(&self) -> Order {
        let mut nodes = vec![Node { done: vec![0; self.ops.len() / 64 + 1], state: State::Absent, trail: Vec::new() }];
        let mut seen = HashSet::new();
        while let Some(mut node) = nodes.pop() {
            self.settle(&mut node);
            if self.open(&node).all(|op| self.ops[op].is_optional()) {
                return Order::Found;
            }
            if seen.len() == MAX_NODES || nodes.len() > MAX_NODES {
                return Order::Unknown;
            }
            if seen.insert(node.clone()) {
                let next = self.ready(&node).flat_map(|op| self.next(&node, op)).collect::<Vec<_>>();
                nodes.extend(next);
            }
        }
        Order::Missing
    }

    /// Adds the calls that are correct now and change nothing: everything that is correct after them is correct without
    /// them, too.
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

    /// The nodes after a call.
    fn next(&self, node: &Node, op: usize) -> Vec<Node> {
        if self.ops[op].what.is_none() {
            return self.behind_failover(node, op);
        }
        let matters = |state: &State| *state != node.state || self.ops[op].answer.is_some();
        let Some(state) = self.after(node, op).filter(matters) else { return Vec::new() };
        let mut next = node.clone();
        next.add(op);
        // A call that only teaches the id of a memory leaves nothing to undo.
        if self.may_lose(node) && !self.ops[op].changes_nothing() {
            next.trail.push((node.state.clone(), op));
        }
        vec![Node { state, ..next }]
    }

    /// A failover leaves all, or takes back the latest writes. Those that were under way then can still have their effect.
    fn behind_failover(&self, node: &Node, failover: usize) -> Vec<Node> {
        let mut next = node.clone();
        next.add(failover);
        let (mut trail, mut nodes) = (next.trail.clone(), vec![next.clone()]);
        let mut undone = vec![next];
        // Each answered write may double them; the search gives up then.
        while let Some((state, op)) = trail.pop().filter(|_| nodes.len() <= MAX_NODES) {
            let is_answered = self.ops[op].answer.is_some();
            let was_over = is_answered && self.ops[op].ended < self.ops[failover].started;
            if was_over && self.loss != Loss::Any {
                break;
            }
            let lost = |node: &Node| Node { state: state.clone(), trail: trail.clone(), ..node.clone() };
            let repeated = |node: &Node| {
                let mut next = lost(node);
                next.remove(op);
                next
            };
            undone = match self.loss {
                _ if was_over => undone.iter().map(lost).collect(),
                // Acknowledged before the failover, or done again after it.
                Loss::Any if is_answered => undone.iter().map(lost).chain(undone.iter().map(repeated)).collect(),
                _ => undone.iter().map(repeated).collect(),
            };
            nodes.extend(undone.iter().cloned());
        }
        // After the last failover, orders that differ only in their trails are equal.
        for node in nodes.iter_mut().filter(|node| !self.may_lose(node)) {
            node.trail.clear();
        }
        nodes
    }

    /// Whether a later failover can undo writes.
    fn may_lose(&self, node: &Node) -> bool {
        self.loss != Loss::Nothing && self.open(node).any(|op| self.ops[op].what.is_none())
    }

    fn after(&self, node: &Node, op: usize) -> Option<State> {
        let Op { number, what, answer, .. } = &self.ops[op];
        step(&node.state, self.record, *number, what.as_ref()?, answer.as_ref())
    }

    fn open(&self, node: &Node) -> impl Iterator<Item = usize> {
        (0..self.ops.len()).filter(move |op| !node.has(*op))
    }

    /// The possible next calls: those that no other call is entirely before.
    fn ready(&self, node: &Node) -> impl Iterator<Item = usize> {
        let first_end = self.open(node).map(|op| self.ops[op].ended).min().unwrap_or(u64::MAX);
        self.open(node).filter(move |op| self.ops[*op].started <= first_end)
    }
}

impl Op {
    /// Whether the call, if its answer is correct without an effect, has no effect at any time. If a document does not
    /// exist, its history may be erased, with the same answer as the erasure of an existing one.
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
