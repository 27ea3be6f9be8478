//! The calls that are made while an engine is recorded.

use proptest::strategy::{Strategy, ValueTree as _};
use proptest::test_runner::{Config, RngSeed, TestRunner};

use crate::model::op::{Call, Op, Slices, call};

/// The limit of a batch, in rows; every state of the model is kept in memory.
const MAX_BATCH: usize = 20;

/// One step of the workload.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) call: Call,
    /// Whether the step writes to the engine, rather than only reading or setting the clock.
    pub(super) writes: bool,
}

/// Random calls on one handle, `writing` of which write. Each call writes in one step, so that it is clear what a loss of power may leave
/// of it: calls that write several records one by one are reduced to one record.
pub(super) fn tasks(seed: u64, writing: usize) -> Result<Vec<Task>, String> {
    let config = Config { rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..Config::default() };
    let (mut runner, strategy) = (TestRunner::new(config), call());
    let (mut tasks, mut written) = (Vec::new(), 0);
    while written < writing {
        let made =
            strategy.new_tree(&mut runner).map_err(|reason| format!("no call could be made: {reason}"))?.current();
        let Some(task) = task(made.op) else { continue };
        written += usize::from(task.writes);
        tasks.push(task);
    }
    Ok(tasks)
}

fn task(op: Op) -> Option<Task> {
    let one_slice = |slices| Slices { to_the_end: false, ..slices };
    let op = match op {
        Op::StoreRun { item, count } => Op::StoreRun { item, count: count.min(MAX_BATCH) },
        Op::Restore { mut memories, .. } => {
            memories.truncate(1);
            Op::Restore { memories, twice: false }
        }
        Op::RestoreDocuments { mut writes, .. } => {
            writes.truncate(1);
            Op::RestoreDocuments { writes, twice: false }
        }
        Op::Embed { mut whose, number } => {
            whose.truncate(1);
            Op::Embed { whose, number }
        }
        Op::EraseMemories { question, slices, why } => Op::EraseMemories { question, slices: one_slice(slices), why },
        Op::EraseDocuments { collection, ask, slices, why } => {
            Op::EraseDocuments { collection, ask, slices: one_slice(slices), why }
        }
        op => op,
    };
    let writes = match op {
        Op::SetClock(_) | Op::Advance(_) | Op::WatchOn { .. } => false,
        Op::Store(_)
        | Op::StoreMany(_)
        | Op::StoreRun { .. }
        | Op::Update { .. }
        | Op::Restore { .. }
        | Op::RestoreAgain { .. }
        | Op::RestoreDocuments { .. }
        | Op::RestoreErased { .. }
        | Op::Put(_)
        | Op::PutMany(_)
        | Op::Remove { .. }
        | Op::EraseRecords { .. }
        | Op::EraseMemories { .. }
        | Op::EraseDocuments { .. }
        | Op::Embed { .. }
        | Op::Sweep { .. } => true,
        _ => return None,
    };
    Some(Task { call: Call { handle: 0, op }, writes })
}
