//! Reads the lines of standard input.

use std::io;
use std::thread;

use tokio::sync::mpsc;

use crate::line_reader::{Line, LineReader, MAX_LINE};

/// A line with its number, from 1.
#[derive(Debug)]
pub(super) struct Typed {
    pub(super) number: u64,
    /// The text, or why it can't be read.
    pub(super) text: Result<String, String>,
}

/// Reads the lines that are not blank, each after the previous one was taken.
///
/// A separate thread reads them. It is abandoned at the end, since a read from a terminal can't be interrupted.
pub(super) fn lines() -> mpsc::Receiver<Typed> {
    let (sender, receiver) = mpsc::channel(1);
    thread::spawn(move || {
        let (mut lines, mut last) = (LineReader::new(io::stdin().lock()), 0);
        loop {
            let (typed, is_last) = match lines.next() {
                Ok(Some((number, line))) => read(number, line),
                Ok(None) => return,
                Err(error) => (Typed { number: last + 1, text: Err(error.to_string()) }, true),
            };
            last = typed.number;
            if sender.blocking_send(typed).is_err() || is_last {
                return;
            }
        }
    });
    receiver
}

/// Returns the line, and whether nothing can be read after it.
fn read(number: u64, line: Line<'_>) -> (Typed, bool) {
    let (text, is_last) = match line {
        Line::Text(bytes) => (str::from_utf8(bytes).map(str::trim_end).map_err(|_| "not UTF-8".to_owned()), false),
        Line::TooLong => (Err(format!("longer than {MAX_LINE} bytes, and the rest is not read")), true),
    };
    (Typed { number, text: text.map(str::to_owned) }, is_last)
}
