//! Reads the lines of a file with their numbers, holding one line at a time.

use std::io::{self, BufRead, Read};

/// The longest line, in bytes: a memory with the largest trigger and context, with room for escapes.
pub(crate) const MAX_LINE: usize = 20 << 20;

#[derive(Debug)]
pub(crate) struct LineReader<R> {
    source: R,
    buffer: Vec<u8>,
    number: u64,
}

/// One line without its line break.
#[derive(Debug)]
pub(crate) enum Line<'a> {
    /// The text of the line.
    Text(&'a [u8]),
    /// The line is longer than [`MAX_LINE`]; the rest was not read.
    TooLong,
}

impl<R: BufRead> LineReader<R> {
    pub(crate) fn new(source: R) -> Self {
        Self { source, buffer: Vec::new(), number: 0 }
    }

    /// Returns the next line that is not blank.
    pub(crate) fn next(&mut self) -> io::Result<Option<(u64, Line<'_>)>> {
        // Blank lines are skipped.
        self.buffer.clear();
        while self.buffer.trim_ascii().is_empty() {
            self.buffer.clear();
            let cap = MAX_LINE as u64 + 1;
            if self.source.by_ref().take(cap).read_until(b'\n', &mut self.buffer)? == 0 {
                return Ok(None);
            }
            self.number += 1;
            if self.buffer.last() == Some(&b'\n') {
                self.buffer.pop();
            } else if self.buffer.len() > MAX_LINE {
                return Ok(Some((self.number, Line::TooLong)));
            }
        }
        Ok(Some((self.number, Line::Text(&self.buffer))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers_and_sizes(text: &[u8]) -> Vec<(u64, Option<usize>)> {
        let mut lines = LineReader::new(text);
        let mut seen = Vec::new();
        while let Some((number, line)) = lines.next().expect("memory can be read") {
            match line {
                Line::Text(text) => seen.push((number, Some(text.len()))),
                Line::TooLong => {
                    seen.push((number, None));
                    break;
                }
            }
        }
        seen
    }

    #[test]
    fn blank_lines_count_and_are_not_given() {
        assert_eq!(numbers_and_sizes(b"\na\n \r\nbc"), [(2, Some(1)), (4, Some(2))]);
        assert_eq!(numbers_and_sizes(b""), []);
    }

    #[test]
    fn the_longest_line_is_given_and_a_longer_one_is_not() {
        let mut text = vec![b'a'; MAX_LINE];
        assert_eq!(numbers_and_sizes(&text), [(1, Some(MAX_LINE))]);
        text.push(b'\n');
        assert_eq!(numbers_and_sizes(&text), [(1, Some(MAX_LINE))]);
        text[MAX_LINE] = b'a';
        assert_eq!(numbers_and_sizes(&text), [(1, None)]);
    }
}
