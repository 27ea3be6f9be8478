//! The Python packages with which tests act as clients, in an environment that is made once and kept outside of the
//! project.

// Each test binary uses a part of this.
#![allow(dead_code)]

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

const REQUIREMENTS: &str = include_str!("../python/requirements.txt");

/// A script or a file of the tests.
pub(crate) fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python").join(name)
}

/// An interpreter that has the packages of `requirements.txt`.
pub(crate) fn interpreter() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").expect("a home")).join(".cache");
    let mut hasher = DefaultHasher::new();
    REQUIREMENTS.hash(&mut hasher);
    let folder = cache.unwrap_or_else(home).join("agent-memory").join(format!("python-{:016x}", hasher.finish()));
    fs::create_dir_all(&folder).expect("a folder in the cache");
    let complete = folder.join("complete");
    // Test programs run side by side, and one of them makes the environment.
    let lock = File::create(folder.join("lock")).expect("a lock file");
    lock.lock().expect("the lock");
    if !complete.exists() {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder.join("venv")));
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"];
        run(Command::new(folder.join("venv/bin/python")).args(pip).arg(file("requirements.txt")));
        fs::write(&complete, "").expect("a marker");
    }
    folder.join("venv/bin/python")
}

/// Runs a command that must succeed; if it does not, the message has its output.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}\n{out}\n{errors}");
    out.into_owned()
}
