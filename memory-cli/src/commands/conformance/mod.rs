//! `conformance`: runs the suite on the engines of URLs.

mod engine;
mod junit;
#[cfg(test)]
mod sample;
mod soak;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use conformance::{Harness, Plan, Report, Settings, Verdict};
use indicatif::ProgressBar;

use crate::output::Output;
use crate::signal;
use crate::usage::Usage;

#[derive(Debug, Args)]
pub(crate) struct ConformanceArgs {
    /// Run only these cases, by the id of a case, a chapter, or a rule of the contract. May be repeated.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Skip these cases, with a reason for the report. May be repeated.
    #[arg(long, value_name = "NAME=REASON", value_parser = skip)]
    skip: Vec<(String, String)>,
    /// The seed of random choices; a failure prints the seed that repeats it.
    #[arg(long, value_name = "NUMBER", default_value_t = Settings::default().seed)]
    seed: u64,
    /// The number of random call sequences to compare with the reference.
    #[arg(long, value_name = "NUMBER", default_value_t = Settings::default().sequences)]
    sequences: u32,
    /// The most calls of a random sequence. By default, most sequences have fewer than 40, and a few up to 500.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    calls: Option<u32>,
    /// Also write the report to a file, as JSON.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Also write the report to a file, in the format of JUnit.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Play random sequences for this long instead: 90s, 10m, 8h.
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with_all = ["only", "skip", "sequences", "calls", "report", "junit"])]
    soak: Option<Duration>,
    /// With --soak: the number of clients of each engine.
    #[arg(long, value_name = "NUMBER", default_value_t = 4, requires = "soak")]
    clients: usize,
}

pub(crate) async fn run(urls: &[String], args: &ConformanceArgs, output: &mut Output) -> anyhow::Result<ExitCode> {
    let harnesses = engine::harnesses(urls)?;
    let settings = Settings { seed: args.seed, sequences: args.sequences, calls: args.calls };
    let plan = Plan { settings, only: args.only.clone(), skip: args.skip.clone() };
    if let Some(name) = plan.unknown_name() {
        return Err(Usage(format!("{name}: neither a case nor a chapter nor a rule of the contract")).into());
    }
    let end = signal::asked_to_end()?;
    // Cases fail by panics; their messages are in the report.
    std::panic::set_hook(Box::new(|_| {}));
    if let Some(time) = args.soak {
        let soak = conformance::Soak { time, clients: args.clients, seed: args.seed };
        return soak::run(&harnesses, soak, end, output).await;
    }
    let report = make(&harnesses, &plan, end).await;
    if let Some(file) = &args.report {
        super::report::write(file, serde_json::to_vec_pretty(&report)?)?;
    }
    if let Some(file) = &args.junit {
        super::report::write(file, junit::write(&report)?)?;
    }
    output.value(&report, table::write(&report))?;
    Ok(super::exit_code(report.verdict != Verdict::Green))
}

/// Runs the cases, with a progress bar on a terminal.
async fn make(harnesses: &[Arc<dyn Harness>], plan: &Plan, end: impl Future<Output = ()>) -> Report {
    let bar = ProgressBar::new((plan.count() * harnesses.len()) as u64);
    let report = Report::make(harnesses, plan, end, |engine, case, result| {
        bar.inc(1);
        if result.outcome.is_failure() {
            bar.suspend(|| crate::output::note(&format!("{engine}::{case}: {}", result.outcome.name())));
        }
    });
    let report = report.await;
    bar.finish_and_clear();
    report
}

/// Parses a name and a reason.
fn skip(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, reason)) if !reason.trim().is_empty() => Ok((name.to_owned(), reason.trim().to_owned())),
        _ => Err("a name, =, and the reason".to_owned()),
    }
}

/// Parses a time with s, m or h.
fn time(text: &str) -> Result<Duration, String> {
    let wrong = || "a whole number with s, m or h behind it".to_owned();
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        _ => return Err(wrong()),
    };
    number.parse::<u32>().map(|number| Duration::from_secs(u64::from(number) * seconds)).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_has_a_reason() {
        assert_eq!(skip("W3=no keys = no use"), Ok(("W3".to_owned(), "no keys = no use".to_owned())));
        assert!(skip("W3").is_err() && skip("W3= ").is_err());
    }

    #[test]
    fn times_have_a_unit() {
        assert_eq!(time("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(time("2h"), Ok(Duration::from_secs(7_200)));
        for wrong in ["", "m", "10", "1.5h", "-1s", "10é"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
