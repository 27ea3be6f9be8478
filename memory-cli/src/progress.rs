//! The progress of long commands, on standard error.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

use crate::output::note;

/// Shows how many lines are done: to people as a bar, to programs (`--progress`) as lines.
#[derive(Debug)]
pub(crate) enum Progress {
    Bar(ProgressBar),
    Lines,
    Quiet,
}

impl Progress {
    /// Makes lines if they are wanted, otherwise a bar on a terminal, and otherwise nothing. `bytes` is the total
    /// size, if known.
    pub(crate) fn new(bytes: Option<u64>, wants_lines: bool) -> Self {
        if wants_lines {
            return Self::Lines;
        }
        if !std::io::stderr().is_terminal() {
            return Self::Quiet;
        }
        let (bar, template) = match bytes {
            Some(bytes) => (ProgressBar::new(bytes), "{wide_bar} {bytes}/{total_bytes} {msg} lines, {eta} left"),
            None => (ProgressBar::new_spinner(), "{spinner} {msg} lines"),
        };
        // The templates are constants; a mistake in them falls back to the default style.
        Self::Bar(match ProgressStyle::with_template(template) {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        })
    }

    /// Reports how many lines are done.
    pub(crate) fn done(&self, lines: u64, bytes: u64) {
        match self {
            Self::Bar(bar) => {
                bar.set_message(lines.to_string());
                bar.set_position(bytes);
            }
            Self::Lines => note(&format!("done: {lines}")),
            Self::Quiet => {}
        }
    }

    /// Reports how many lines are verified.
    pub(crate) fn verified(&self, lines: u64) {
        match self {
            Self::Bar(bar) => bar.set_message(format!("{lines} verified")),
            Self::Lines => note(&format!("verified: {lines}")),
            Self::Quiet => {}
        }
    }

    /// Prints a line without breaking the bar.
    pub(crate) fn note(&self, text: &str) {
        match self {
            Self::Bar(bar) => bar.suspend(|| note(text)),
            Self::Lines | Self::Quiet => note(text),
        }
    }

    /// Removes the bar, before the result is printed.
    pub(crate) fn finish(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
