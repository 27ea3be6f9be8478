//! Random sequences of calls, played on an engine and on a model of the contract, which must give the same answers.
//!
//! The model is the suite's own ([`naive`]). The in-memory provider can't serve as one, since it shares its decisions with the engines.

pub(crate) mod condition;
pub(crate) mod naive;
pub(crate) mod op;
pub(crate) mod play;
pub(crate) mod replica;
mod sequence;
mod soak;

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use tokio::runtime::Handle;

use crate::case::{CaseResult, Settings, Stage, chapter};
use crate::harness::Harness;
use play::NOT_OVER;
use sequence::{Sequence, Shrinkable};
pub use soak::{Soak, SoakState, soak};

/// How many sequences run concurrently; an engine waits for its disk most of the time.
const AT_ONCE: usize = 4;

chapter!("model":
    random_sequences [
        "V7", "L1", "W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8", "W12", "Q1", "Q2", "Q3", "Q4", "Q5", "Q6", "Q7", "S1",
        "S2", "S3", "S4", "S5", "S8", "S9", "S10", "F1", "F2", "F3", "F4", "F5", "D1", "D3", "D4", "D5", "T2", "T3", "C1", "C2",
        "C3", "C4", "C5", "H1", "H2", "H3", "H4", "H5", "H8", "R1", "R5", "R6", "E1", "E2", "E3", "E4", "M2", "M3", "X1", "X2", "X4"
    ],
);

/// Random sequences of calls get the answers that the model gives. The report of a difference holds its seed and the smallest failing
/// sequence that was found.
async fn random_sequences(stage: Stage) -> CaseResult {
    let (handle, harness, settings) = (Handle::current(), Arc::clone(stage.harness()), stage.settings());
    // Generating sequences is synchronous code.
    let played = move || play_random_sequences(&handle, &harness, settings);
    match tokio::task::spawn_blocking(played).await? {
        Ok(()) => Ok(()),
        Err(difference) => panic!("{difference}"),
    }
}

/// Plays random sequences of calls, a few concurrently. The first has the seed of the settings, and each further one the next
/// number. Up to three handles are open on the same data, and each call goes to one of them.
///
/// `Err` describes the smallest sequence that was found to get an answer other than the model's, and how to play it again. Must not be
/// called on a thread of an asynchronous runtime.
pub fn play_random_sequences(runtime: &Handle, harness: &Arc<dyn Harness>, settings: Settings) -> Result<(), String> {
    let (calls, next, difference) = (AtomicU64::default(), AtomicU64::default(), OnceLock::new());
    let client = || {
        while difference.get().is_none() {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= settings.sequences.into() {
                break;
            }
            if let Err(report) = play_one(runtime, harness, settings, number, &calls) {
                // Of two concurrent differences, one is reported.
                let _ = difference.set(report);
            }
        }
    };
    thread::scope(|scope| (0..AT_ONCE).for_each(|_| drop(scope.spawn(client))));
    difference.into_inner().map_or(Ok(()), Err)
}

/// Plays the sequence with this number, and adds its calls to the counter.
fn play_one(
    runtime: &Handle,
    harness: &Arc<dyn Harness>,
    settings: Settings,
    number: u64,
    calls: &AtomicU64,
) -> Result<(), String> {
    let settings = Settings { seed: settings.seed.wrapping_add(number), sequences: 1, ..settings };
    let made = Shrinkable::generate(settings.seed, settings.calls)
        .map_err(|reason| format!("no sequence could be made: {reason}"))?;
    let play = |sequence: &Sequence| {
        calls.fetch_add(sequence.calls.len() as u64, Ordering::Relaxed);
        runtime.block_on(play::play(harness, settings, sequence.clone()))
    };
    play(made.sequence()).map_err(|failure| {
        // To shrink a sequence that hangs takes too long.
        if failure.starts_with(NOT_OVER) {
            return report(settings, &failure, made.sequence());
        }
        let (smallest, failure) = made.shrink(failure, play);
        report(settings, &failure, &smallest)
    })
}

fn report(settings: Settings, failure: &str, Sequence { handles, transient, calls }: &Sequence) -> String {
    let mut report = format!("{failure}\nafter these calls on {handles} handles, with {transient:?} transient:\n");
    for (number, call) in calls.iter().enumerate() {
        // Writing to a string can't fail.
        let _ = writeln!(report, "{number:4}: on handle {}: {:?}", call.handle % handles, call.op);
    }
    let Settings { seed, calls: most, .. } = settings;
    let (option, variable) =
        most.map(|most| (format!(" --calls {most}"), format!(" MEMORY_TEST_CALLS={most}"))).unwrap_or_default();
    let _ = write!(
        report,
        "play it again with --seed {seed} --sequences 1{option}, or MEMORY_TEST_SEED={seed} MEMORY_TEST_SEQUENCES=1{variable}"
    );
    report
}
