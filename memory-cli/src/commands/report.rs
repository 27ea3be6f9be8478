//! Writes reports to files.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use crate::input;

/// Writes a report to the file that an option names.
pub(super) fn write(file: &Path, report: impl AsRef<[u8]>) -> anyhow::Result<()> {
    fs::write(file, report).with_context(|| format!("{} can't be written", input::name(file)))
}
