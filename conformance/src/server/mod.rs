//! Real servers to test engines on.
//!
//! Each engine has a module that finds a server in the same order: the URL in `MEMORY_TEST_<ENGINE>_URL`; a container, when
//! a Docker engine answers (`MEMORY_TEST_<ENGINE>_IMAGE` names another image); the binaries that this machine has, started
//! in a temporary folder. What none of them gives is [`Missing`].
//!
//! A server is started once in a test program, owned by its `main`, and ended when it is dropped. When the program is
//! killed, a process that waits for that ends a local server, and a signal handler removes a container (not on SIGKILL).
//! Unix only.

#[cfg(feature = "containers")]
mod container;
mod home;
mod local;
mod missing;
pub mod mongo;
pub mod postgres;
mod process;

pub use missing::Missing;

use std::env;
use std::path::{Path, PathBuf};

/// The value of an environment variable; `None` also when it is empty.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Where a program is: on the path, or where Debian puts servers and an ordinary user's path does not lead.
fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/local/sbin", "/usr/sbin"].map(|folder| Path::new(folder).to_owned());
    env::split_paths(&path).chain(system).map(|folder| folder.join(name)).find(|program| program.is_file())
}
