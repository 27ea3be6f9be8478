//! Real servers to test engines on. Those that the suite finds or starts itself need its feature `servers`; [`on_demand`], [`trial`] and
//! [`async_trial`] work with any server.
//!
//! A `TestServer` is the first of these, for each engine: the URL in `MEMORY_TEST_<ENGINE>_URL`, if it is set, which is
//! not tried; a container, if a Docker engine answers (`MEMORY_TEST_<ENGINE>_IMAGE` names another image, and then
//! nothing else is tried); the binaries of this machine, started in a temporary folder. If there is none, the engine is
//! [`Missing`].
//!
//! The first case that needs a server starts it ([`on_demand`]), and dropping the server ends it. If the program is killed, a guardian
//! process ends a local server, and a signal handler removes a container (but not on SIGKILL). Servers exist on Unix only.

#[cfg(all(feature = "servers", unix))]
#[cfg_attr(not(feature = "containers"), path = "no_container.rs")]
mod container;
#[cfg(all(feature = "servers", unix))]
mod home;
#[cfg(all(feature = "servers", unix))]
mod local;
#[cfg(feature = "servers")]
mod marks;
mod missing;
#[cfg(all(feature = "servers", unix))]
pub mod mongo;
mod on_demand;
#[cfg(all(feature = "servers", unix))]
pub mod postgres;
#[cfg(all(feature = "servers", unix))]
mod process;
#[cfg(all(feature = "servers", feature = "power", target_os = "linux"))]
mod recorded_redis;
#[cfg(all(feature = "servers", unix))]
pub mod redis;
#[cfg(all(feature = "servers", unix))]
pub mod redis_cluster;
#[cfg(all(feature = "servers", unix))]
mod test_server;

#[cfg(feature = "servers")]
pub use marks::Marks;
pub use missing::{Missing, async_trial, run_waiting, trial};
pub use on_demand::on_demand;
#[cfg(all(feature = "servers", unix))]
pub use process::pause;
#[cfg(all(feature = "servers", unix))]
pub use test_server::TestServer;

use std::env;
#[cfg(all(feature = "servers", unix))]
use std::path::{Path, PathBuf};

/// A new password for a server that is started here, since other users of the machine can reach it too.
#[cfg(all(feature = "servers", unix))]
fn new_password() -> String {
    uuid::Uuid::now_v7().simple().to_string()
}

/// The value of an environment variable; `None` if it is unset or empty.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// The path of a program: on the search path, or in the folders where Debian puts servers, which are not on the search path of ordinary
/// users.
#[cfg(all(feature = "servers", unix))]
fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/local/sbin", "/usr/sbin"].map(|folder| Path::new(folder).to_owned());
    env::split_paths(&path).chain(system).map(|folder| folder.join(name)).find(|program| program.is_file())
}
