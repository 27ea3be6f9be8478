//! The heading in the help of options that have several files.

/// The heading for the options that all commands share.
pub(crate) const GLOBAL: &str = "Global options";
