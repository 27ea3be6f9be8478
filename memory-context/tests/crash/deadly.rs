//! The points at which a process may be killed: before and after each write, and each effect on the world.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memory_core::{MemoryProvider, Result};

use crate::engine::{Around, Call, Wrapped};

/// The environment variable with the number of the point at which the process kills itself.
pub(crate) const KILL: &str = "MEMORY_TEST_KILL";

static PASSED: AtomicUsize = AtomicUsize::new(0);

/// A point.
fn point() {
    let kill = std::env::var(KILL).ok().and_then(|kill| kill.parse().ok());
    if kill == Some(PASSED.fetch_add(1, Ordering::SeqCst)) {
        std::process::abort();
    }
}

/// How many points the process has passed.
pub(crate) fn passed() -> usize {
    PASSED.load(Ordering::SeqCst)
}

/// Shows the world something, as a line of a file, between two points.
pub(crate) fn effect(folder: &Path, line: &str) {
    point();
    let file = OpenOptions::new().create(true).append(true).open(folder.join("effects"));
    file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes())).expect("a file");
    point();
}

/// The effects on the world so far.
pub(crate) fn effects(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("effects")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Each write is between two points.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadly;

impl Deadly {
    /// An engine with a point before and after each write.
    pub(crate) fn engine(engine: &Arc<dyn MemoryProvider>) -> Arc<dyn MemoryProvider> {
        Arc::new(Wrapped { engine: Arc::clone(engine), around: Self })
    }
}

impl Around for Deadly {
    async fn around<T: Send>(&self, call: Call, work: impl Future<Output = Result<T>> + Send) -> Result<T> {
        if let Call::OfTheHost | Call::Get | Call::Read | Call::GetDocument | Call::ReadDocuments = call {
            return work.await;
        }
        point();
        let written = work.await;
        point();
        written
    }
}
