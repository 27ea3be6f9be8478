//! Faults between an engine and its server: connections that break, and a server that crashes.
//!
//! The chapter `faults` of the suite uses them on every engine whose harness returns [`Harness::faults`](crate::Harness::faults).

mod proxy;

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{MemoryProvider, Result};

use crate::namespace::Namespace;

pub use proxy::{Fault, Place, Proxy};

/// How to cause faults between an engine and its server.
#[async_trait]
pub trait Faults: Debug + Send + Sync + 'static {
    /// The URL of the server that holds the namespaces of [`Harness::open`](crate::Harness::open). It names one host and uses no TLS, since
    /// a [`Proxy`] is put in front of it.
    fn url(&self) -> &str;

    /// Does what [`Harness::open`](crate::Harness::open) does, at another URL: that of a proxy, or of a server of the case's own.
    async fn open(&self, url: &str, namespace: &Namespace) -> Result<Arc<dyn MemoryProvider>>;

    /// Whether [`Faults::start`] works. The cases that need it are ignored otherwise.
    fn can_start(&self) -> bool {
        false
    }

    /// Starts an empty server that one case may kill. Blocks the calling thread.
    fn start(&self) -> io::Result<Box<dyn Server>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A server that belongs to one case. It ends when dropped.
pub trait Server: Send {
    /// The URL of the server, which stays the same after a restart.
    fn url(&self) -> String;

    /// Kills the server as a crash does, and returns when its process is gone. Blocks the calling thread.
    fn kill(&mut self) -> io::Result<()>;

    /// Starts the server again on the same data, and returns when it answers. Blocks the calling thread.
    fn restart(&mut self) -> io::Result<()>;
}
