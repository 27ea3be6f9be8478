//! The versions of a record, oldest first.

use std::io::{self, Read, Seek, SeekFrom};

use memory_core::{ErrorKind, History, MAX_LIMIT, MemoryProvider, Record, RecordId, RestoreReport, Version};
use tempfile::SpooledTempFile;

use crate::line;

/// How many bytes of a record's versions are kept in memory; more go to a temporary file.
const IN_MEMORY: usize = 8 << 20;
/// The approximate number of bytes of versions that one call restores, without the last version.
const BYTES_AT_ONCE: usize = 8 << 20;

/// The versions of a record as export lines, oldest first. A history has the newest first, and may be larger than memory.
#[derive(Debug)]
pub(crate) struct Versions {
    lines: SpooledTempFile,
    /// The offset and the length of each line, the newest version first.
    places: Vec<(u64, usize)>,
}

impl Versions {
    /// Reads the history of a record.
    pub(crate) async fn read(provider: &dyn MemoryProvider, record: &Record) -> anyhow::Result<Self> {
        let mut versions = Self { lines: SpooledTempFile::new(IN_MEMORY), places: Vec::new() };
        let whole = History::of(record.id()).limit(MAX_LIMIT)?;
        let mut history = whole.clone();
        loop {
            let page = provider.history(&history).await?;
            for mut version in page.versions {
                if matches!(record, Record::Memory(_)) && version.revision == record.revision() {
                    // The record itself, with its transient metadata, which no version has.
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

    /// Returns the line of the next version; `None` if there are no more.
    pub(crate) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some((start, length)) = self.places.pop() else { return Ok(None) };
        let mut line = vec![0; length];
        self.lines.seek(SeekFrom::Start(start))?;
        self.lines.read_exact(&mut line)?;
        Ok(Some(line))
    }

    /// Whether there are no more versions.
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Restores the versions in batches, and returns the result.
    pub(crate) async fn restore(mut self, target: &dyn MemoryProvider) -> anyhow::Result<RestoreReport> {
        let (mut whole, mut before) = (RestoreReport::default(), None);
        let (mut given, mut bytes) = (Vec::new(), 0);
        while let Some(line) = self.next()? {
            bytes += line.len();
            given.push(parsed(&line)?);
            if self.places.is_empty() || given.len() == AT_ONCE || bytes >= BYTES_AT_ONCE {
                let last = given.last().cloned();
                let report = restore_behind(target, before, std::mem::take(&mut given)).await?;
                (before, bytes, whole.written) = (last, 0, whole.written + report.written);
                if !report.erased.is_empty() {
                    whole.erased = vec![0];
                    break;
                }
                if !report.conflicts.is_empty() {
                    whole.conflicts = vec![0];
                    break;
                }
            }
        }
        Ok(whole)
    }
}

/// The most versions in one call of [`restore_behind`]. Each is committed separately, and all share the deadline of one call.
pub(crate) const AT_ONCE: usize = 100;

/// Restores versions of one record, oldest first, after those that the target has. `before` is the version before them, if there is one.
pub(crate) async fn restore_behind(
    target: &dyn MemoryProvider,
    before: Option<Version>,
    versions: Vec<Version>,
) -> memory_core::Result<RestoreReport> {
    let (count, Some(last)) = (versions.len(), versions.last()) else { return Ok(RestoreReport::default()) };
    let Some(id) = last.record.as_ref().map(Record::id) else { return target.restore_versions(versions).await };
    let present = match &id {
        RecordId::Memory(id) => match target.get(*id).await {
            // What was erased does not come back.
            Err(error) if error.kind() == ErrorKind::Erased => {
                return Ok(RestoreReport { erased: (0..count).collect(), ..RestoreReport::default() });
            }
            found => found?.map(Record::Memory),
        },
        RecordId::Document { collection, id } => target.documents().get(collection, id).await?.map(Record::Document),
    };
    if present.is_none() && before.is_some() {
        // Somebody has removed the record meanwhile. It is not restored without its first versions.
        return Ok(RestoreReport { conflicts: (0..count).collect(), ..RestoreReport::default() });
    }
    let revision = present.map(|present| present.revision());
    if revision.is_some_and(|revision| revision > last.revision) {
        // The target is ahead of these versions; then its history has the last of them.
        return Ok(match has(target, id, last).await? {
            true => RestoreReport { equal: count, ..RestoreReport::default() },
            false => RestoreReport { conflicts: (0..count).collect(), ..RestoreReport::default() },
        });
    }
    let known = versions.iter().take_while(|version| Some(version.revision) < revision).count();
    let skipped = known.saturating_sub(1);
    let before = if known == 0 { before } else { None };
    let overlap = usize::from(before.is_some());
    let given: Vec<_> = before.into_iter().chain(versions.into_iter().skip(skipped)).collect();
    let (is_behind, total) = (overlap + known > 0, given.len());
    let report = target.restore_versions(given).await?;
    if is_behind && report.written == total {
        // Somebody has removed the record since the check, and it was put again without its first versions.
        return Ok(RestoreReport { conflicts: (0..count).collect(), ..RestoreReport::default() });
    }
    let placed = |places: &[usize]| -> Vec<usize> {
        places.iter().filter_map(|place| place.checked_sub(overlap)).map(|place| place + skipped).collect()
    };
    let (conflicts, erased) = (placed(&report.conflicts), placed(&report.erased));
    // Versions that were written before a removal during the call are counted, too.
    let written = report.written.min(count - conflicts.len() - erased.len());
    let equal = count - written - conflicts.len() - erased.len();
    Ok(RestoreReport { written, equal, conflicts, erased })
}

/// Whether the history of a record has a version. The newest version may have a higher revision by now, since changes of transient
/// metadata raise it.
async fn has(target: &dyn MemoryProvider, of: RecordId, wanted: &Version) -> memory_core::Result<bool> {
    let whole = History::of(of);
    let mut history = whole.clone();
    loop {
        let page = target.history(&history).await?;
        for found in &page.versions {
            let is_same = found.record == wanted.record || is_same_commit(found, wanted);
            if is_same || found.revision <= wanted.revision {
                return Ok(is_same);
            }
        }
        let Some(next) = page.next else { return Ok(false) };
        history = whole.clone().cursor(next);
    }
}

/// Whether two versions of a memory are of the same commit, so that only transient metadata differ, which versions don't keep.
fn is_same_commit(one: &Version, other: &Version) -> bool {
    let (Some(Record::Memory(first)), Some(Record::Memory(second))) = (&one.record, &other.record) else {
        return false;
    };
    one.committed_at.is_some()
        && (one.committed_at, &one.actor) == (other.committed_at, &other.actor)
        && (first.status, &first.context) == (second.status, &second.context)
}

fn parsed(line: &[u8]) -> anyhow::Result<Version> {
    match line::parse(line).map_err(anyhow::Error::msg)?.record {
        line::Record::Version(version) => Ok(version),
        _ => anyhow::bail!("a line of another kind"),
    }
}
