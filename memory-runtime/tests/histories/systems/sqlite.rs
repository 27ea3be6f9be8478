//! SQLite: several processes on one file. All trouble is theirs.

use fastrand::Rng;
use tempfile::TempDir;

use super::{PARAMETERS, System};
use crate::Fallible;

/// A file of its own for each history.
#[derive(Debug, Default)]
pub(crate) struct Sqlite {
    folder: Option<TempDir>,
}

impl System for Sqlite {
    fn begin(&mut self) -> Fallible<String> {
        let folder = self.folder.insert(TempDir::new()?);
        Ok(format!("sqlite://{}?{PARAMETERS}", folder.path().join("memory.db").display()))
    }

    fn has_servers(&self) -> bool {
        false
    }

    fn disturb(&mut self, _: &mut Rng, _: &dyn Fn(usize)) -> Fallible<String> {
        Err("SQLite has no server".into())
    }

    fn fail_over(&mut self, _: &mut Rng, _: &dyn Fn(usize)) -> Fallible<String> {
        Err("SQLite has no server".into())
    }
}
