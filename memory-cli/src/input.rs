//! Values that come from the command line, a file or standard input.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, bail};
use memory_core::Result;

use crate::usage::Usage;

/// A value as the user gives it: the text itself, `@FILE`, or `-` for standard input.
#[derive(Debug, Clone)]
pub(crate) enum Input {
    Text(String),
    File(PathBuf),
    Stdin,
}

/// The most bytes of a value: more than any limit of the contract, with room for white space and escapes.
const MAX_BYTES: u64 = 64 << 20;

/// Whether an option reads standard input already, which is possible only once.
static STDIN_IS_TAKEN: AtomicBool = AtomicBool::new(false);

impl FromStr for Input {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.strip_prefix('@') {
            Some(path) => Self::File(path.into()),
            None if text == "-" => Self::Stdin,
            None => Self::Text(text.to_owned()),
        })
    }
}

impl Input {
    /// Reads and parses the value; a value that `parse` refuses is a mistake in the arguments.
    pub(crate) fn read<T>(&self, option: &str, parse: impl FnOnce(&str) -> Result<T>) -> anyhow::Result<T> {
        let text = match self {
            Self::Text(text) => text.clone(),
            Self::File(path) => read(open(path)?).with_context(|| name(path))?,
            Self::Stdin if STDIN_IS_TAKEN.swap(true, Ordering::Relaxed) => {
                return Err(Usage(format!("{option}: another option reads standard input already; use @FILE")).into());
            }
            Self::Stdin => read(io::stdin().lock()).context("standard input")?,
        };
        parse(&text).map_err(|error| Usage(format!("{option}: {}", error.message())).into())
    }
}

/// Opens a file for reading. A folder is refused here, since reading it would fail with a less helpful message.
pub(crate) fn open(path: &Path) -> anyhow::Result<File> {
    let file = File::open(path).with_context(|| format!("can't open {}", name(path)))?;
    if file.metadata()?.is_dir() {
        bail!("{} is a folder; name a file in it", name(path));
    }
    Ok(file)
}

/// A path as errors show it. A URL that was given instead of a path is not shown, since it may hold a password.
pub(crate) fn name(path: &Path) -> String {
    let text = path.display().to_string();
    if text.contains("://") { "a file that is named like a URL".to_owned() } else { text }
}

fn read(source: impl Read) -> anyhow::Result<String> {
    let mut text = String::new();
    source.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        bail!("more than {MAX_BYTES} bytes");
    }
    Ok(text)
}
