//! `erase`: erases records for good, and certifies it.

mod args;
mod certificate;
mod engine_rest;
mod eraser;
mod presence;
mod preview;
mod selection;
mod verify;

use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;

use memory_core::{Clock as _, MemoryProvider, Reason, SystemClock};

pub(crate) use self::args::EraseArgs;
use self::certificate::{Certificate, Certified};
use self::eraser::{End, Eraser};
use self::presence::note_absent;
use self::selection::Selection;
use self::verify::Verdict;
use super::copy::reads_from_replica;
use super::exit_code;
use crate::output::{self, Output};
use crate::progress::Progress;
use crate::signal;
use crate::usage::Usage;

/// Erases slice by slice, until nothing is left, a signal comes, or the limit is reached.
pub(crate) async fn run(
    shared: &Arc<dyn MemoryProvider>,
    url: &str,
    args: &EraseArgs,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    let selection = Selection::new(shared, args)?;
    if reads_from_replica(url) {
        let message = "--url: an erasure is verified by reads, and a replica may lack what was just written: leave out read_url \
                       and readPreference";
        return Err(Usage(message.to_owned()).into());
    }
    let Some(reason) = args.reason.as_deref().filter(|_| !args.dry_run) else {
        return preview::run(shared.as_ref(), &selection, output).await;
    };
    let reason = Reason::parse(reason).map_err(|error| Usage(format!("--reason: {}", error.message())))?;
    let (parts, rest) = (selection.find().await?.parts, engine_rest::of(url)?);
    let certificate = Certificate::new(&reason, args.by.as_ref(), selection.to_json(), SystemClock.now(), rest);
    // Opened before anything is erased, to make sure that it can be written.
    let mut certified = Certified::open(certificate, args.certificate.as_deref())?;
    // From here on, a signal ends the erasure only between two slices.
    let mut asked = pin!(signal::asked_to_end()?);
    let progress = Progress::new(None, args.progress);
    let mut eraser = Eraser::new(shared.as_ref(), &reason, args.by.as_ref(), args.at_most, &mut certified);
    let ended = async {
        let lists = selection.leave_lists().await?;
        if lists > 0 {
            progress.note(&format!("took the person out of {lists} lists of others"));
        }
        eraser.run(&parts, &progress, asked.as_mut()).await
    };
    let ended = ended.await;
    let count = eraser.count();
    let ended = match ended {
        Err(error) if count == 0 && !certified.certificate.has_unknown() => return Err(error),
        ended => ended,
    };
    // Saved before the verification, which may take long and does not change what was erased.
    if let Err(error) = certified.save() {
        progress.note(&format!("error: {}", output::describe(&error)));
    }
    let verified = match &ended {
        Ok(end) => {
            if *end == End::Asked {
                // The first signal has ended the erasure; the next one ends the verification.
                asked.set(signal::asked_to_end()?);
            }
            let certificate = &certified.certificate;
            let verification = verify::run(shared.as_ref(), &selection, &parts, certificate, *end, &progress);
            tokio::select! {
                biased;
                () = asked.as_mut() => Ok(Verdict::stopped()),
                verdict = verification => verdict,
            }
        }
        // The failure is reported below; the certificate has what was erased before it.
        Err(_) => Ok(Verdict::default()),
    };
    progress.finish();
    if let Ok(verdict) = &verified {
        certified.certificate.verified.clone_from(&verdict.held);
        certified.certificate.absent = verdict.absent;
    }
    let written = certified.save();
    tell(&certified.certificate, matches!(written, Ok(true)), output)?;
    output.flush()?;
    written?;
    let (end, verdict) = (ended?, verified?);
    note_absent(verdict.absent);
    let left = match end {
        End::Complete => None,
        End::Asked => Some("it was stopped, and more may be left: repeat the command to continue".to_owned()),
        End::Limit if verdict.is_done || verdict.is_stopped => None,
        End::Limit => Some(format!("{count} records are erased, and more are left: repeat the command to continue")),
    };
    let unverified =
        verdict.is_stopped.then(|| "it was stopped before it was verified: repeat the command to verify it".to_owned());
    let has_failures = left.is_some() || unverified.is_some() || !verdict.failed.is_empty();
    for failure in left.iter().chain(&unverified).chain(&verdict.failed) {
        output::note(&format!("error: {failure}"));
    }
    Ok(exit_code(has_failures))
}

/// Prints the result; programs get the certificate, unless a file has it.
fn tell(certificate: &Certificate, is_filed: bool, output: &mut Output) -> anyhow::Result<()> {
    if output.is_json() {
        match is_filed {
            true => output.json(&certificate.counts)?,
            false => output.json(certificate)?,
        }
        return Ok(());
    }
    let certificate::Counts { memories, documents } = certificate.counts;
    output.line(format!("erased {memories} memories and {documents} documents"))?;
    for held in &certificate.verified {
        output.line(format!("verified: {held}"))?;
    }
    output.line(format!("the engine: {}", certificate.engine))?;
    Ok(())
}
