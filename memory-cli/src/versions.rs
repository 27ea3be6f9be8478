//! The versions of a record, oldest first.

use std::io::{self, Read, Seek, SeekFrom};

use memory_core::{History, MAX_LIMIT, MemoryProvider, Record, RestoreReport, Version};
use tempfile::SpooledTempFile;

use crate::line;

/// How many bytes of the versions of a record stay in memory; more lie in a temporary file.
const IN_MEMORY: usize = 8 << 20;
/// How many versions, and about how many bytes of them, are restored in one call, but for its last one.
const AT_ONCE: usize = MAX_LIMIT;
const BYTES_AT_ONCE: usize = 8 << 20;

/// The versions of a record as lines of an export. A history gives the newest first, and may be larger than memory.
#[derive(Debug)]
pub(crate) struct Versions {
    lines: SpooledTempFile,
    /// Where each line begins and how long it is, the newest version first.
    places: Vec<(u64, usize)>,
}

impl Versions {
    /// Reads the history of a record as it was found.
    pub(crate) async fn read(provider: &dyn MemoryProvider, record: &Record) -> anyhow::Result<Self> {
        let mut versions = Self { lines: SpooledTempFile::new(IN_MEMORY), places: Vec::new() };
        let whole = History::of(record.id()).limit(MAX_LIMIT)?;
        let mut history = whole.clone();
        loop {
            let page = provider.history(&history).await?;
            for mut version in page.versions {
                if version.revision == record.revision() {
                    // With what is transient, which no version has.
                    version.record = Some(record.clone());
                }
                versions.push(&version)?;
            }
            let Some(next) = page.next else { return Ok(versions) };
            history = whole.clone().cursor(next);
        }
    }

    fn push(&mut self, version: &Version) -> io::Result<()> {
        let start = self.lines.stream_position()?;
        line::write_version(&mut self.lines, version)?;
        let length = usize::try_from(self.lines.stream_position()? - start).map_err(io::Error::other)?;
        self.places.push((start, length));
        Ok(())
    }

    /// The line of the next version; `None` when there are no more.
    pub(crate) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some((start, length)) = self.places.pop() else { return Ok(None) };
        let mut line = vec![0; length];
        self.lines.seek(SeekFrom::Start(start))?;
        self.lines.read_exact(&mut line)?;
        Ok(Some(line))
    }

    /// Restores them, a few at a time, and tells what became of the record.
    pub(crate) async fn restore(mut self, target: &dyn MemoryProvider) -> anyhow::Result<RestoreReport> {
        let (mut given, mut bytes) = (Vec::new(), 0);
        let mut whole = RestoreReport::default();
        while let Some(line) = self.next()? {
            bytes += line.len();
            given.push(parsed(&line)?);
            if self.places.is_empty() || given.len() == AT_ONCE || bytes >= BYTES_AT_ONCE {
                // The next call goes on behind the last one.
                let last: Vec<_> = given.last().cloned().into_iter().collect();
                let report = target.restore_versions(std::mem::replace(&mut given, last)).await?;
                (whole.written, bytes) = (whole.written + report.written, 0);
                if !report.conflicts.is_empty() {
                    whole.conflicts = vec![0];
                    return Ok(whole);
                }
            }
        }
        Ok(whole)
    }
}

fn parsed(line: &[u8]) -> anyhow::Result<Version> {
    match line::parse(line).map_err(anyhow::Error::msg)? {
        line::Record::Version(version) => Ok(version),
        _ => anyhow::bail!("a line of another kind"),
    }
}
