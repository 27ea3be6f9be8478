//! How far a long command is, on standard error.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

use crate::output::note;

/// Tells a person, or with `--progress` a program, how many lines are done.
#[derive(Debug)]
pub(crate) enum Progress {
    Bar(ProgressBar),
    Lines,
    Quiet,
}

impl Progress {
    /// A bar on a terminal, else lines if they are wanted. The length is in bytes, if it is known.
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
        // The templates are constant; a mistake in them falls back to the default style.
        Self::Bar(match ProgressStyle::with_template(template) {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        })
    }

    /// So many lines are safely done.
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

    /// So many lines are compared with what was done.
    pub(crate) fn verified(&self, lines: u64) {
        match self {
            Self::Bar(bar) => bar.set_message(format!("{lines} verified")),
            Self::Lines => note(&format!("verified: {lines}")),
            Self::Quiet => {}
        }
    }

    /// A line that must not tear the bar apart.
    pub(crate) fn note(&self, text: &str) {
        match self {
            Self::Bar(bar) => bar.suspend(|| note(text)),
            Self::Lines | Self::Quiet => note(text),
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
