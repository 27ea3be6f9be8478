//! A parser of server-sent events.

use std::collections::VecDeque;
use std::mem;

/// Parses events from chunks of any size. It keeps the data of an event and drops its other fields.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// The bytes of an unfinished line.
    line: Vec<u8>,
    /// The data of an unfinished event.
    data: Option<Vec<u8>>,
    ended: VecDeque<Vec<u8>>,
}

impl Events {
    /// Takes the next bytes. Lines end with LF or CRLF.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.end_line();
            }
        }
    }

    /// Marks the end of the stream, which ends an event even if its empty line is missing.
    pub(super) fn close(&mut self) {
        self.end_line();
        self.ended.extend(self.data.take());
    }

    /// Returns the data of the next finished event that has data.
    pub(super) fn pop(&mut self) -> Option<Vec<u8>> {
        self.ended.pop_front()
    }

    fn end_line(&mut self) {
        let mut line = mem::take(&mut self.line);
        while let Some(b'\n' | b'\r') = line.last() {
            line.pop();
        }
        if line.is_empty() {
            self.ended.extend(self.data.take());
        } else if let Some(value) = line.strip_prefix(b"data:") {
            let value = value.strip_prefix(b" ").unwrap_or(value);
            match &mut self.data {
                Some(data) => data.extend([b"\n", value].concat()),
                data => *data = Some(value.to_vec()),
            }
        }
        // Anything else is a comment or another field.
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(pieces: &[&[u8]]) -> Vec<String> {
        let mut events = Events::default();
        pieces.iter().for_each(|piece| events.push(piece));
        events.close();
        std::iter::from_fn(|| events.pop()).map(|data| String::from_utf8(data).expect("text")).collect()
    }

    #[test]
    fn events_are_found_whatever_the_pieces() {
        let text = ": a comment\r\nretry: 5\r\n\r\ndata: tea\r\n\r\nevent: x\ndata:\u{e9}\u{1f375}\ndata:  two\nid: 1\n\n\n\
                    data\nodd\n\ndata: last";
        for size in 1..=text.len() {
            let pieces: Vec<_> = text.as_bytes().chunks(size).collect();
            assert_eq!(all(&pieces), ["tea", "\u{e9}\u{1f375}\n two", "last"], "pieces of {size}");
        }
        assert_eq!(all(&[b"data: \n\n"]), [""]);
        assert_eq!(all(&[b": nothing\n\n"]), [""; 0]);
    }
}
