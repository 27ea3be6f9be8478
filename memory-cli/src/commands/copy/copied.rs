//! What a copy has done and found.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, Write};

use memory_core::RecordId;
use sha2::{Digest, Sha256};

/// The most missing records that are looked up to find out why.
pub(super) const MOST_MISSING: usize = 1_000;

/// The result of a copy.
#[derive(Debug, Default)]
pub(super) struct Copied {
    pub(super) memories: u64,
    pub(super) documents: u64,
    /// The number of records that were new in the target.
    pub(super) written: u64,
    /// The number of records that differ in the target.
    pub(super) conflicts: u64,
    /// The number of records that can't be read in the source, and so are not in the target.
    pub(super) unreadable: u64,
    /// The number of records that were erased in the target, and so are not restored there.
    pub(super) erased: u64,
    /// The number of tombstones of the source that were new in the target.
    pub(super) tombstones: u64,
    /// The number of vectors that were written.
    pub(super) vectors: u64,
    /// The number of vectors that the target does not take.
    pub(super) vectors_left_out: u64,
    /// The records that the last transfer left out, which the comparison skips.
    pub(super) passed_over: BTreeSet<String>,
    /// The hashes of the source's records, read from the source and from the target, as the lines of an export.
    pub(super) source: Hash,
    pub(super) target: Hash,
    /// The name of the first record that is missing in the target or differs.
    pub(super) differs: Option<String>,
    /// The records that are missing in the target, up to [`MOST_MISSING`].
    pub(super) missing: Vec<RecordId>,
}

/// A writer that hashes what is written to it.
#[derive(Debug, Default)]
pub(super) struct Hash(Sha256);

impl Write for Hash {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Hash {
    /// Returns the hash in hexadecimal digits.
    pub(super) fn text(&self) -> String {
        self.0.clone().finalize().iter().fold(String::new(), |mut text, byte| {
            // Writing into a String can't fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

impl Copied {
    pub(super) fn records(&self) -> u64 {
        self.memories + self.documents
    }

    /// Whether the target has everything that the source has.
    pub(super) fn is_verified(&self) -> bool {
        self.unreadable == 0 && self.conflicts == 0 && self.source.text() == self.target.text()
    }
}
