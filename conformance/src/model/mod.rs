//! Random sequences of calls, played on an engine and on the reference, which must give the same answers.

mod op;
mod play;

use std::env;
use std::fmt::Write as _;
use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use proptest::collection::vec;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};
use tokio::runtime::Runtime;

use crate::harness::Harness;
use op::Op;

const DEFAULT_SEED: u64 = 20_260_101;
const DEFAULT_SEQUENCES: u32 = 60;
/// How long a failure is made smaller before it is told as it is, in milliseconds.
const SHRINK_TIME: u32 = 60_000;

/// The model-based part of the suite as one test. `MEMORY_TEST_SEED` and `MEMORY_TEST_SEQUENCES` choose other sequences
/// and another number of them.
pub(crate) fn trial(runtime: &Arc<Runtime>, harness: &Arc<dyn Harness>) -> Trial {
    let name = format!("{}::model.random_sequences", harness.name());
    if let Some(missing) = harness.missing() {
        return missing.trial(&name);
    }
    let (runtime, harness) = (Arc::clone(runtime), Arc::clone(harness));
    Trial::test(name, move || {
        let seed = setting("MEMORY_TEST_SEED", DEFAULT_SEED)?;
        let sequences = setting("MEMORY_TEST_SEQUENCES", DEFAULT_SEQUENCES)?;
        play_random_sequences(&runtime, &harness, seed, sequences).map_err(Failed::from)
    })
}

/// Plays random sequences of up to 60 calls; `Err` tells the smallest one that was found to be answered in another way than
/// the reference answers it, and how to play it again.
pub fn play_random_sequences(
    runtime: &Runtime,
    harness: &Arc<dyn Harness>,
    seed: u64,
    sequences: u32,
) -> Result<(), String> {
    let config = Config {
        cases: sequences,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_time: SHRINK_TIME,
        ..Config::default()
    };
    let strategy = (proptest::bool::ANY, vec(op::any(), 1..60));
    let played = TestRunner::new(config).run(&strategy, |(ledger_text, ops)| {
        runtime.block_on(play::play(harness, ledger_text, ops)).map_err(TestCaseError::fail)
    });
    match played {
        Ok(()) => Ok(()),
        Err(TestError::Abort(reason)) => Err(format!("the sequences could not be played: {reason}")),
        Err(TestError::Fail(reason, (ledger_text, ops))) => {
            Err(report(seed, sequences, &reason.to_string(), ledger_text, &ops))
        }
    }
}

fn report(seed: u64, sequences: u32, reason: &str, ledger_text: bool, ops: &[Op]) -> String {
    let index = if ledger_text { "with" } else { "without" };
    let mut report = format!("{reason}\nafter these calls, {index} the ledger's text index:\n");
    for (number, op) in ops.iter().enumerate() {
        // Writing to a string can't fail.
        let _ = writeln!(report, "{number:4}: {op:?}");
    }
    let _ = write!(report, "play it again with MEMORY_TEST_SEED={seed} MEMORY_TEST_SEQUENCES={sequences}");
    report
}

fn setting<T: std::str::FromStr>(name: &str, default: T) -> Result<T, String> {
    match env::var(name) {
        Ok(text) => text.parse().map_err(|_| format!("{name} must be a number")),
        Err(_) => Ok(default),
    }
}
