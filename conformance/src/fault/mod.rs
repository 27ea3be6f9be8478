//! What goes wrong between an engine and its server: connections that break, and a server that dies.
//!
//! The chapter `faults` of the suite uses this for every engine whose harness has [`Harness::faults`](crate::Harness::faults).

mod proxy;

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{MemoryProvider, Result};

use crate::namespace::Namespace;

pub use proxy::{Fault, Place, Proxy};

/// How an engine that is a server is brought into trouble.
#[async_trait]
pub trait Faults: Debug + Send + Sync + 'static {
    /// Where the server is that the namespaces of [`Harness::open`](crate::Harness::open) lie on. One host, without TLS: a [`Proxy`]
    /// is put before it.
    fn url(&self) -> &str;

    /// The same as [`Harness::open`](crate::Harness::open), by another URL: through a proxy, or to a server of its own.
    async fn open(&self, url: &str, namespace: &Namespace) -> Result<Arc<dyn MemoryProvider>>;

    /// Whether [`Faults::start`] works.
    fn can_start(&self) -> bool {
        false
    }

    /// Starts an empty server for one case to kill. Blocks.
    fn start(&self) -> io::Result<Box<dyn Server>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A server that belongs to one case. Ended when dropped.
pub trait Server: Send {
    /// Where it is reached; stays the same over a restart.
    fn url(&self) -> String;

    /// Ends it as a crash does, and returns when its process is gone. Blocks.
    fn kill(&mut self) -> io::Result<()>;

    /// Starts it again on the same data, and returns when it answers. Blocks.
    fn restart(&mut self) -> io::Result<()>;
}
