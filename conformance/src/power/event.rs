//! The records of the recorder's log.

use std::path::PathBuf;
use std::{fmt, io};

/// The length of a record without its content, in bytes: kind, file, offset and length take eight bytes each.
const HEADER: usize = 32;
/// The kind of record that the workload writes; `recorder.c` writes the others.
const ACKNOWLEDGED: u64 = 7;

/// One record of the log. A file is the number of its inode, which may be reused once the file is deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    /// A new file got a name.
    Create {
        file: u64,
        name: PathBuf,
    },
    Write {
        file: u64,
        offset: usize,
        bytes: Vec<u8>,
    },
    /// The length of a file changed.
    Cut {
        file: u64,
        length: usize,
    },
    /// Everything written to this file or folder before is on the disk.
    Sync {
        file: u64,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    Unlink {
        name: PathBuf,
    },
    /// This many calls of the workload have returned.
    Acknowledged {
        calls: usize,
    },
}

impl Event {
    /// Parses a whole log.
    pub(super) fn read_all(mut log: &[u8]) -> io::Result<Vec<Self>> {
        let mut events = Vec::new();
        while !log.is_empty() {
            let (event, rest) = Self::read(log).ok_or_else(|| io::Error::other("the recorder's log is damaged"))?;
            events.push(event);
            log = rest;
        }
        Ok(events)
    }

    /// The record that says that this many calls have returned.
    pub(super) fn acknowledgement(calls: usize) -> [u8; HEADER] {
        let mut record = [0; HEADER];
        record[..8].copy_from_slice(&ACKNOWLEDGED.to_ne_bytes());
        record[16..24].copy_from_slice(&(calls as u64).to_ne_bytes());
        record
    }

    fn read(log: &[u8]) -> Option<(Self, &[u8])> {
        let number = |place: usize| Some(u64::from_ne_bytes(log.get(8 * place..8 * place + 8)?.try_into().ok()?));
        let (kind, file, offset) = (number(0)?, number(1)?, usize::try_from(number(2)?).ok()?);
        let (content, rest) = log[HEADER..].split_at_checked(usize::try_from(number(3)?).ok()?)?;
        let name = |bytes: &[u8]| Some(PathBuf::from(std::str::from_utf8(bytes).ok()?));
        let event = match kind {
            1 => Self::Create { file, name: name(content)? },
            2 => Self::Write { file, offset, bytes: content.to_vec() },
            3 => Self::Cut { file, length: offset },
            4 => Self::Sync { file },
            5 => {
                let end = content.iter().position(|byte| *byte == 0)?;
                Self::Rename { from: name(&content[..end])?, to: name(&content[end + 1..])? }
            }
            6 => Self::Unlink { name: name(content)? },
            ACKNOWLEDGED => Self::Acknowledged { calls: offset },
            _ => return None,
        };
        Some((event, rest))
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { name, .. } => write!(f, "created {}", name.display()),
            Self::Write { offset, bytes, .. } => write!(f, "wrote {} bytes at {offset}", bytes.len()),
            Self::Cut { length, .. } => write!(f, "cut to {length}"),
            Self::Sync { .. } => f.write_str("synced"),
            Self::Rename { from, to } => write!(f, "renamed {} to {}", from.display(), to.display()),
            Self::Unlink { name } => write!(f, "unlinked {}", name.display()),
            Self::Acknowledged { calls } => write!(f, "acknowledged step {calls}"),
        }
    }
}
