//! Runs random sequences for a given time, with progress lines.

use std::cell::{Cell, RefCell};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use conformance::{Harness, Soak, SoakState};
use futures::future::{FutureExt as _, join_all};
use indicatif::ProgressBar;

use crate::output::{self, Output};
use crate::resident;

/// The time of the first progress line without a terminal: soon, to show that it works.
const FIRST_LINE: Duration = Duration::from_secs(5);
/// The time between progress lines.
const BETWEEN_LINES: Duration = Duration::from_secs(60);

/// Soaks all engines at once.
pub(super) async fn run(
    harnesses: &[Arc<dyn Harness>],
    soak: Soak,
    end: impl Future<Output = ()>,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    let end = end.shared();
    let bar = ProgressBar::new_spinner();
    let states = RefCell::new(vec![SoakState::default(); harnesses.len()]);
    let next_line = Cell::new(FIRST_LINE);
    let soaks = harnesses.iter().enumerate().map(|(place, harness)| {
        let (bar, states, next_line) = (&bar, &states, &next_line);
        let tell = move |state: SoakState| {
            states.borrow_mut()[place] = state;
            if !bar.is_hidden() {
                bar.set_message(line(harnesses, &states.borrow()));
                bar.tick();
            } else if state.time >= next_line.get() {
                next_line.set(state.time + BETWEEN_LINES);
                output::note(&line(harnesses, &states.borrow()));
            }
        };
        conformance::soak(harness, soak, end.clone(), tell)
    });
    let ended = join_all(soaks).await;
    bar.finish_and_clear();
    let states: Vec<_> = ended.iter().map(|(state, _)| *state).collect();
    for (harness, (state, reports)) in harnesses.iter().zip(&ended) {
        if output.is_json() {
            output.json(&serde_json::json!({
                "engine": harness.name(),
                "seed": soak.seed,
                "seconds": state.time.as_secs_f64(),
                "sequences": state.sequences,
                "calls": state.calls,
                "differences": reports,
                "interrupted": state.interrupted,
            }))?;
        } else {
            reports.iter().try_for_each(|report| output.line(format!("{}: {report}", harness.name())))?;
        }
    }
    if !output.is_json() {
        output.line(line(harnesses, &states))?;
    }
    // A run without calls, or that was interrupted, proves nothing.
    let is_sound = |state: &SoakState| state.calls > 0 && state.differences == 0 && !state.interrupted;
    Ok(super::super::exit_code(!states.iter().all(is_sound)))
}

/// The progress of all engines: `90 s; sqlite 120 sequences, 3600 calls, 0 differences; memory 64 MiB`.
fn line(harnesses: &[Arc<dyn Harness>], states: &[SoakState]) -> String {
    let time = states.iter().map(|state| state.time.as_secs()).max().unwrap_or_default();
    let engines = harnesses.iter().zip(states).map(|(harness, state)| {
        let SoakState { sequences, calls, differences, .. } = state;
        format!("; {} {sequences} sequences, {calls} calls, {differences} differences", harness.name())
    });
    let interrupted = if states.iter().any(|state| state.interrupted) { ", interrupted" } else { "" };
    let memory = resident::now_mib().map(|mib| format!("; memory {mib} MiB")).unwrap_or_default();
    format!("{time} s{interrupted}{}{memory}", engines.collect::<String>())
}
