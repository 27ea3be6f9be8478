//! What a program has done, written down before it continues.

use std::fs::{self, File, OpenOptions};
use std::io::{Result, Seek as _, SeekFrom, Write as _};
use std::marker::PhantomData;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Lines of JSON in a file. A line that a kill has truncated does not count.
pub(crate) struct Journal<T> {
    file: File,
    of: PhantomData<T>,
}

impl<T: Serialize + DeserializeOwned> Journal<T> {
    /// Continues after the last whole line, and returns the lines.
    pub(crate) fn open(path: &Path) -> Result<(Self, Vec<T>)> {
        let mut file = OpenOptions::new().create(true).write(true).truncate(false).open(path)?;
        let text = fs::read(path)?;
        let whole = whole(&text).len();
        file.set_len(whole as u64)?;
        file.seek(SeekFrom::End(0))?;
        Ok((Self { file, of: PhantomData }, lines(&text)))
    }

    /// Appends a line, which is on the disk when this has returned.
    pub(crate) fn write(&mut self, line: &T) -> Result<()> {
        self.file.write_all(&[&serde_json::to_vec(line)?, b"\n".as_slice()].concat())?;
        self.file.sync_data()
    }
}

/// The lines of a journal so far; none if the file does not exist.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Vec<T> {
    lines(&fs::read(path).unwrap_or_default())
}

/// How many bytes a journal has by now.
pub(crate) fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |file| file.len())
}

fn whole(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    &text[..end]
}

fn lines<T: DeserializeOwned>(text: &[u8]) -> Vec<T> {
    let lines = whole(text).split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).expect("a line of a journal")).collect()
}
