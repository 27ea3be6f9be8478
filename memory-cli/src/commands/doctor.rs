//! `doctor`: checks a database.

use std::process::ExitCode;

use clap::Args;

use super::exit_code;
use crate::diagnosis::{self, Finding, Verdict};
use crate::engine;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Write nothing: skip the probe, which stores, finds and removes in a temporary database.
    #[arg(long)]
    read_only: bool,
}

pub(crate) async fn run(url: &str, args: &DoctorArgs, output: &mut Output) -> anyhow::Result<ExitCode> {
    let database = diagnosis::of_database(url).await?;
    let mut has_failures = tell(&database.findings, output)?;
    if !database.is_usable {
        return Ok(ExitCode::FAILURE);
    }
    let provider = engine::open(url).await?;
    let findings = diagnosis::of_memory(&*provider).await;
    let probe = if args.read_only { None } else { Some(diagnosis::of_probe(url).await) };
    let closed = provider.shutdown().await;
    has_failures |= tell(&findings?, output)?;
    has_failures |= tell(probe.as_slice(), output)?;
    closed?;
    Ok(exit_code(has_failures))
}

/// Prints findings. Returns whether one of them is bad.
fn tell(findings: &[Finding], output: &mut Output) -> anyhow::Result<bool> {
    for Finding { check, verdict, detail } in findings {
        let sign = match verdict {
            Verdict::Good => "ok  ",
            Verdict::Doubtful => "note",
            Verdict::Bad => "BAD ",
        };
        let json = serde_json::json!({ "check": check, "finding": verdict.as_str(), "detail": detail });
        output.value(&json, format!("{sign} {check}: {detail}"))?;
    }
    Ok(findings.iter().any(|finding| finding.verdict == Verdict::Bad))
}
