//! TOML configuration files, in which any value may be a secret.

use std::path::Path;

use anyhow::Context as _;
use serde::de::DeserializeOwned;

use super::unquoted::unquoted;
use crate::input;

/// Reads a file as text; an error names the file.
pub(super) fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("can't read {}", input::name(path)))
}

/// Parses a text. Errors name the line and never show it.
pub(super) fn parse<T: DeserializeOwned>(text: &str) -> anyhow::Result<T> {
    toml::from_str(text).map_err(|error| {
        let end = error.span().map_or(0, |span| span.start).min(text.len());
        let line = text.as_bytes()[..end].iter().filter(|byte| **byte == b'\n').count() + 1;
        anyhow::anyhow!("line {line}: {}", unquoted(error.message()))
    })
}
