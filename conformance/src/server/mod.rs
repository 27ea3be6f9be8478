//! Real servers to test engines on. Those that the suite finds or starts itself need its feature `servers`; [`on_demand`], [`trial`]
//! and [`async_trial`] take any.
//!
//! A `TestServer` is found in the same order for each engine: the URL in `MEMORY_TEST_<ENGINE>_URL`; a container, when a Docker
//! engine answers (`MEMORY_TEST_<ENGINE>_IMAGE` names another image); the binaries that this machine has, started in a temporary
//! folder. What none of them gives is [`Missing`].
//!
//! A server is started by the first case that wants it ([`on_demand`]), and ended when it is dropped. When the program is killed, a
//! process that waits for that ends a local server, and a signal handler removes a container (not on SIGKILL). Servers are there
//! on Unix only.

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
pub use missing::{Missing, async_trial, trial};
pub use on_demand::on_demand;
#[cfg(all(feature = "servers", unix))]
pub use test_server::TestServer;

use std::env;
#[cfg(all(feature = "servers", unix))]
use std::path::{Path, PathBuf};

/// What guards a server that is started here, and that programs of other users can reach too.
#[cfg(all(feature = "servers", unix))]
fn new_password() -> String {
    uuid::Uuid::now_v7().simple().to_string()
}

/// The value of an environment variable; `None` also when it is empty.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Where a program is: on the path, or where Debian puts servers and an ordinary user's path does not lead.
#[cfg(all(feature = "servers", unix))]
fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/local/sbin", "/usr/sbin"].map(|folder| Path::new(folder).to_owned());
    env::split_paths(&path).chain(system).map(|folder| folder.join(name)).find(|program| program.is_file())
}
