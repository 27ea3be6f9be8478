//! Mistakes in the arguments: one line, and exit code 2.

use std::error::Error as _;
use std::fmt;
use std::num::ParseIntError;
use std::process::ExitCode;

use clap::error::{ContextKind, Error, ErrorKind};

use crate::output::{note, printable};

/// A mistake in the arguments that only shows after they are parsed.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

impl From<memory_core::Error> for Usage {
    fn from(error: memory_core::Error) -> Self {
        Self(error.message().to_owned())
    }
}

/// The commands that need a cargo feature, each with its feature.
const OPTIONAL: [(&str, &str); 2] = [("bench", "bench"), ("conformance", "suite")];

/// Prints the message of clap: help and version unchanged, a mistake on one line.
pub(crate) fn answer(error: &Error) -> ExitCode {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // A failure to print is ignored.
        let _ = error.print();
    } else {
        note(&format!("error: {}", describe(error)));
    }
    // Clap's codes are 0 and 2.
    if error.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS }
}

/// Reports an option whose value is invalid as a mistake in the arguments.
pub(crate) fn refused(option: &str, error: memory_core::Error) -> anyhow::Error {
    match error.kind() {
        memory_core::ErrorKind::InvalidInput => Usage(format!("{option}: {}", error.message())).into(),
        _ => error.into(),
    }
}

/// Describes the mistake without the given value, which may be a payload.
fn describe(error: &Error) -> String {
    let get = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let argument = get(ContextKind::InvalidArg);
    let name = argument.split(' ').next().unwrap_or_default();
    let valid = get(ContextKind::ValidValue);
    let unknown = get(ContextKind::InvalidSubcommand);
    let left_out = OPTIONAL.iter().find(|(command, _)| *command == unknown);
    match (error.kind(), error.source()) {
        (ErrorKind::InvalidSubcommand, _) if let Some((command, feature)) = left_out => {
            format!("this program was built without {command}: build it with --features {feature}")
        }
        (ErrorKind::ValueValidation, Some(reason)) if reason.is::<ParseIntError>() => {
            format!("{name}: must be a whole number")
        }
        (ErrorKind::ValueValidation, Some(reason)) => format!("{name}: {reason}"),
        (ErrorKind::InvalidValue, _) if !valid.is_empty() => format!("{name}: must be one of {valid}"),
        (ErrorKind::UnknownArgument, _) if !name.starts_with('-') => {
            "too many arguments: put quotes around values with spaces; see --help".into()
        }
        _ => format!("{}; see --help", first_paragraphs(&error.render().to_string())),
    }
}

/// Clap's own message on one line, without the usage that follows it.
fn first_paragraphs(text: &str) -> String {
    let mut line = String::new();
    for part in text.lines().map(str::trim).filter(|part| !part.is_empty()) {
        if part.starts_with("Usage:") || part.starts_with("For more information") {
            break;
        }
        if !line.is_empty() {
            line.push_str(if part.starts_with("tip:") { "; " } else { " " });
        }
        line.push_str(part.strip_prefix("error: ").unwrap_or(part));
    }
    printable(&line)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn mistakes_stand_on_one_line_without_the_value() {
        let cases: &[(&[&str], &str)] = &[
            (
                &["query", "--al"],
                "unexpected argument '--al' found; tip: a similar argument exists: '--all'; see --help",
            ),
            (&["query", "--all", "secret"], "too many arguments: put quotes around values with spaces; see --help"),
            (&["query", "--all", "--order", "secret"], "--order: must be one of newest, oldest"),
            (&["query", "--under"], "a value is required for '--under <SPACE>' but none was supplied; see --help"),
            (&["query", "--all", "--limit", "1001"], "--limit: must be a whole number from 0 to 1000"),
            (
                &["query", "--all", "--after", "secret"],
                "--after: must be a whole number of milliseconds since 1970 UTC",
            ),
            (&["export", "--limit", "secret"], "--limit: must be a whole number"),
            (&["get"], "the following required arguments were not provided: <ID>; see --help"),
        ];
        for (args, line) in cases {
            let error = Cli::try_parse_from([&["agent-memory"], *args].concat()).expect_err(line);
            assert_eq!(describe(&error), *line);
        }
    }
}
