//! The files that a loss of power has left.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Files with their contents, by name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Image {
    files: BTreeMap<PathBuf, Vec<u8>>,
}

impl Image {
    pub(super) fn new(files: BTreeMap<PathBuf, Vec<u8>>) -> Self {
        Self { files }
    }

    /// Reads the files of a folder and of all folders below it.
    pub fn read(folder: &Path) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        read_into(&mut files, folder, Path::new(""))?;
        Ok(Self { files })
    }

    /// Writes the files into a folder.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        for (name, content) in &self.files {
            let path = folder.join(name);
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(path, content)?;
        }
        Ok(())
    }

    /// A hash of the names and contents.
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    /// The content of a file; `None` if there is no such file.
    pub fn file(&self, name: &Path) -> Option<&[u8]> {
        self.files.get(name).map(Vec::as_slice)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &Path> {
        self.files.keys().map(PathBuf::as_path)
    }
}

fn read_into(files: &mut BTreeMap<PathBuf, Vec<u8>>, folder: &Path, below: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder.join(below))? {
        let entry = entry?;
        let name = below.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => read_into(files, folder, &name)?,
            false => drop(files.insert(name, fs::read(entry.path())?)),
        }
    }
    Ok(())
}
