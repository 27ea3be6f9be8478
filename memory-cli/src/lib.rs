//! The `agent-memory` command: store, recall, import and export what an agent remembers.
//!
//! The program is the interface. Nothing of this library is one: it changes with the program.

use std::io;
use std::process::ExitCode;

use anyhow::Error;
use clap::Parser;

use crate::cli::Cli;
use crate::output::{Output, OutputFailed};
use crate::usage::Usage;

mod args;
mod backfill;
mod cli;
mod collections;
mod command;
mod commands;
mod diagnosis;
mod engine;
#[doc(hidden)]
pub mod fuzzing;
mod input;
mod keeper;
mod line;
mod line_reader;
mod line_writer;
mod model_key;
mod observed;
mod output;
mod precision;
mod progress;
#[cfg(any(feature = "bench", feature = "suite"))]
mod resident;
mod serve;
mod signal;
mod sweeper;
mod telemetry;
mod tombstones;
mod usage;
mod vectors;
mod versions;

/// Runs the command that the arguments of the process ask for.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage::answer(&error),
    };
    let mut output = Output::new(cli.json);
    match run(&cli, &mut output) {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::note(&format!("error: {}", output::describe(&error)));
            if error.is::<Usage>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

fn run(cli: &Cli, output: &mut Output) -> anyhow::Result<ExitCode> {
    let mut builder = match cli.command.is_parallel() {
        true => tokio::runtime::Builder::new_multi_thread(),
        false => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = builder.enable_all().build()?;
    let code = runtime.block_on(cli.run(output))?;
    output.flush()?;
    Ok(code)
}

/// A reader such as `head` that has seen enough is no failure.
fn is_broken_pipe(error: &Error) -> bool {
    error.downcast_ref::<OutputFailed>().is_some_and(|failed| failed.kind() == io::ErrorKind::BrokenPipe)
}
