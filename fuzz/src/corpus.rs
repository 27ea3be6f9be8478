//! The inputs that are kept: a file for each target, an input on each line.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

/// An input as a line holds it: a text, or the numbers of its bytes if they are not UTF-8.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Entry {
    Text(String),
    Bytes(Vec<u8>),
}

/// The kept inputs of a target.
pub fn read(target: &str) -> anyhow::Result<Vec<Vec<u8>>> {
    let path = file(target);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let entries = text.lines().map(|line| match serde_json::from_str(line)? {
        Entry::Text(text) => anyhow::Ok(text.into_bytes()),
        Entry::Bytes(bytes) => Ok(bytes),
    });
    entries.collect()
}

/// Writes the kept inputs of a target to a folder, each into a file of its own.
pub fn unpack(target: &str, folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    for (number, input) in read(target)?.iter().enumerate() {
        fs::write(folder.join(format!("{number:04}")), input)?;
    }
    Ok(())
}

/// Replaces the kept inputs of a target by the files of a folder, shortest first. Returns their number.
pub fn pack(target: &str, folder: &Path) -> anyhow::Result<usize> {
    let mut inputs = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let input = fs::read(entry?.path())?;
        inputs.insert((input.len(), input));
    }
    let mut text = String::new();
    for (_, input) in &inputs {
        let entry = match String::from_utf8(input.clone()) {
            Ok(text) => Entry::Text(text),
            Err(error) => Entry::Bytes(error.into_bytes()),
        };
        text.push_str(&serde_json::to_string(&entry)?);
        text.push('\n');
    }
    fs::write(file(target), text)?;
    Ok(inputs.len())
}

fn file(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(format!("{target}.jsonl"))
}
