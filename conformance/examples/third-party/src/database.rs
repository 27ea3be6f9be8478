//! One open file for all providers of a process: redb takes a file once.

use std::collections::HashMap;
use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use memory_core::{Error, ErrorKind, Result};
use redb::Database;

use crate::error::native;
use crate::tables;

/// An open file. It closes with the last provider on it, and whoever opens it again waits for that.
pub(crate) struct File {
    path: PathBuf,
    /// `None` only while it is dropped.
    database: Option<Database>,
}

/// The files that are open, or about to be closed.
static FILES: LazyLock<Mutex<HashMap<PathBuf, Weak<File>>>> = LazyLock::new(Mutex::default);
/// Tells that one was closed.
static CLOSED: Condvar = Condvar::new();

impl File {
    /// Opens a file, makes it with its folder and its tables when it is missing, or shares it when it is open. Blocks.
    pub(crate) fn open(path: &Path) -> Result<Arc<Self>> {
        let unavailable = |error| Error::new(ErrorKind::Unavailable, "the folder can't be made").with_source(error);
        let path = std::path::absolute(path).map_err(unavailable)?;
        let mut files = files();
        while let Some(file) = files.get(&path) {
            match file.upgrade() {
                Some(file) => return Ok(file),
                None => files = CLOSED.wait(files).unwrap_or_else(PoisonError::into_inner),
            }
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(unavailable)?;
        }
        let database = Database::create(&path).map_err(native)?;
        tables::prepare(&database)?;
        let file = Arc::new(Self { path: path.clone(), database: Some(database) });
        files.insert(path, Arc::downgrade(&file));
        Ok(file)
    }
}

impl Deref for File {
    type Target = Database;

    fn deref(&self) -> &Database {
        // Only `drop` takes it, and nobody has the file then.
        self.database.as_ref().expect("the file is open")
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let mut files = files();
        drop(self.database.take());
        files.remove(&self.path);
        CLOSED.notify_all();
    }
}

fn files() -> MutexGuard<'static, HashMap<PathBuf, Weak<File>>> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}
