//! The memory that this process uses, if the system reports it.

use std::fs;

/// The resident memory now, in MiB.
#[cfg(feature = "suite")]
pub(crate) fn now_mib() -> Option<u64> {
    status("VmRSS:")
}

/// The peak of the resident memory, in MiB.
#[cfg(feature = "bench")]
pub(crate) fn peak_mib() -> Option<u64> {
    status("VmHWM:")
}

fn status(name: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib / 1_024)
}
