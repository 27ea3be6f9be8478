//! The trait that an engine implements, and [`Provider`], which builds the whole contract on it. For implementors only.
//!
//! An [`Engine`] opens its storage and runs work in sessions. A session is a [`Reader`] and a [`Writer`]: it finds
//! candidates and executes single atomic steps, and decides nothing. [`Provider`] implements everything else once for
//! all engines: life cycle, deadlines, limits, idempotency, the loops of updates and puts, restore, removal, query
//! planning, pages, retries and batches.
//!
//! A backend whose storage does not fit these traits may implement [`MemoryProvider`](crate::MemoryProvider) and
//! [`DocumentStore`](crate::DocumentStore) itself, with the help of [`Gate`], [`PageBuilder`](crate::PageBuilder) and
//! the other pieces that are exported for engines.

mod batch;
mod feed;
mod gate;
mod heavy;
mod history;
mod load;
mod pages;
mod parameter;
mod places;
mod provider;
mod recall;
mod retry;
mod scan;
mod session;
mod settings;
mod spaces;
mod stored;
mod walk;
mod watch;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::{Backfill, Error, ErrorKind, Health, Result, Timestamp};

pub use feed::{FeedEnd, FeedEntry, FeedPage, FeedPosition, FeedWrite, Timeline};
pub use gate::{DEFAULT_DEADLINE, Gate, record_rows};
pub use heavy::{HeavyWork, Permit, heavy_calls};
pub use history::{HistoryRow, VersionEntry};
pub use load::{Load, load};
pub use parameter::parameter;
pub use provider::{HEARTBEAT, Provider, SHORT_BACKFILL};
pub use recall::{MAX_RECALLED, MAX_RECALLED_BYTES, MAX_RECALLED_NUMBERS, MAX_RECALLED_TERMS};
pub use retry::Retry;
pub use scan::{Scanned, offer_in_order};
pub use session::{
    Append, Appended, Atomicity, DocumentsFound, Embed, EmbedRecord, Erasing, ErasingRecord, Found, MemoriesFound, Put,
    Reader, Removal, Steps, Work, Writer,
};
pub use settings::{Config, EngineSettings, KeptChanges};
pub use stored::{StoredDocument, StoredMemory, corrupt};
pub use walk::{Mark, Place, Row, Source, Visit, Walk, shown_id};

/// An open storage, on which [`Provider`] builds the contract.
///
/// # To ensure correctness
/// - An error has outcome `NotDone` only if certainly nothing was done; a connection lost during a write is `Unknown`
///   (W11).
/// - If a future is dropped, each step that it had begun is done as a whole or not at all (W10).
pub trait Engine: fmt::Debug + Send + Sync + Sized + 'static {
    /// The engine's name in errors, spans and [`Health`].
    const NAME: &'static str;
    /// Limits of the batch in which concurrent stores share one [`Writer::append`]: rows, and approximate bytes. `None`
    /// if the engine batches writes itself.
    const BATCH: Option<(usize, usize)>;
    /// Limits of one step of a restore: records, and approximate bytes.
    const RESTORE: (usize, usize);
    /// Whether the engine runs work on threads of its own. If not, [`Provider`] moves heavy work off the executor's
    /// threads.
    const OWN_THREADS: bool = false;
    /// Whether the engine keeps a history (H1 to H6). If not, [`Provider`] answers `Unsupported` and passes no entries
    /// to writes.
    const HISTORY: bool = false;

    /// Whether the engine can erase (E1). If not, [`Provider`] answers `Unsupported`.
    const ERASES: bool = false;

    /// Whether the engine keeps vectors beside records (M2). If not, [`Provider`] answers `Unsupported`.
    const VECTORS: bool = false;

    /// The configuration that opens the storage.
    type Config: Config;
    /// The session in which work runs.
    type Session: Writer;

    /// Creates or migrates the schema, and opens the storage (L1, L4).
    fn open(config: &Self::Config) -> impl Future<Output = Result<Self>> + Send;

    /// Returns the progress of the incomplete backfills that the schema and the configuration need, in the order in
    /// which they run. Writes nothing.
    fn pending(&self) -> impl Future<Output = Result<Vec<Backfill>>> + Send {
        async { Ok(Vec::new()) }
    }

    /// Runs the next slice of the first pending backfill, in well under a second. Finished slices are never repeated,
    /// whichever program runs the next; two concurrent slices do no harm.
    fn backfill(&self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// Stores this text as the namespace's secret unless it has one, and returns the one that it has; every handle gets
    /// the same for good. Writes nothing if there is one, because the caller may have read access only. The secret is
    /// not exported, and stays out of errors and logs (Q6).
    fn secret(&self, proposed: &str) -> impl Future<Output = Result<String>> + Send;

    /// Makes the namespace read-only for programs of every version, or writable again. Each step of a [`Writer`] that
    /// would write then fails with [`Error::read_only`], or with what an older program makes of it; nothing begun
    /// earlier commits after this call has returned (L9). Repeating it changes nothing.
    fn set_read_only(&self, is_read_only: bool) -> impl Future<Output = Result<()>> + Send {
        let _ = is_read_only;
        async { Err(Error::new(ErrorKind::Unsupported, "this engine can't be made read-only")) }
    }

    /// Returns whether the namespace is read-only.
    fn is_read_only(&self) -> impl Future<Output = Result<bool>> + Send {
        async { Ok(false) }
    }

    /// Stores this time as the beginning of the history, or `None` for no history, unless that was decided before;
    /// returns the decision, as [`Engine::secret`] does. From then on either every program writes entries, or none
    /// does. Called only if the engine can keep a history.
    fn history_since(&self, proposed: Option<Timestamp>) -> impl Future<Output = Result<Option<Timestamp>>> + Send {
        let _ = proposed;
        async { Err(history::no_history()) }
    }

    /// Stores this text as the key of the namespace's tombstones unless it has one, and returns the one that it has, as
    /// [`Engine::secret`] does. Called only if the engine can erase.
    fn hash_key(&self, proposed: &str) -> impl Future<Output = Result<String>> + Send {
        let _ = proposed;
        async { Err(session::no_erasure()) }
    }

    /// Returns the stored retention rules, if any. Every handle sees the new ones once [`Engine::set_retention`] has
    /// returned.
    fn retention(&self) -> impl Future<Output = Result<Option<String>>> + Send {
        async { Ok(None) }
    }

    /// Replaces the stored retention rules. Called only if the engine can erase.
    fn set_retention(&self, rules: &str) -> impl Future<Output = Result<()>> + Send {
        let _ = rules;
        async { Err(session::no_erasure()) }
    }

    /// Returns the stored model of the namespace's vectors, if any. Every handle sees the new one once
    /// [`Engine::set_vector_model`] has returned.
    fn vector_model(&self) -> impl Future<Output = Result<Option<String>>> + Send {
        async { Ok(None) }
    }

    /// Replaces the stored model. Called only if the engine keeps vectors.
    fn set_vector_model(&self, model: &str) -> impl Future<Output = Result<()>> + Send {
        let _ = model;
        async { Err(session::no_vectors()) }
    }

    /// Closes the storage. No session runs, except sessions that no caller waits for.
    fn close(&self) -> impl Future<Output = Result<()>> + Send;

    /// Reports the engine's health without leaving a trace (L3).
    fn health(&self) -> impl Future<Output = Result<Health>> + Send;

    /// Runs work in a session. A session that only reads has one snapshot of the storage if the engine can provide one.
    /// In a session that writes, each step is atomic by itself; the work as a whole need not be. Its result is as
    /// durable as its writes, even if it has written nothing: a refusal is about no write that can still be lost.
    ///
    /// After `until` no caller waits for the result. The engine may rerun work that writes after rolling all of it
    /// back. Work never continues after a failed step, so an engine may run all its steps in one transaction.
    fn run<A, T>(
        &self,
        access: Access,
        until: Instant,
        argument: Arc<A>,
        work: Work<Self::Session, A, T>,
    ) -> impl Future<Output = Result<T>> + Send
    where
        A: Send + Sync + 'static,
        T: Send + 'static;

    /// Waits until the feed may have entries after a position, at most until the given time. One call waits for all
    /// watches of a provider; none is made while nothing is watched. An engine should notice writes of other processes
    /// within 100 ms.
    ///
    /// The default waits for a second or less; an engine that is notified of changes overrides it.
    fn changed(&self, after: &FeedPosition, until: Instant) -> impl Future<Output = Result<()>> + Send {
        let _ = after;
        async move {
            tokio::time::sleep(until.saturating_duration_since(Instant::now()).min(Duration::from_secs(1))).await;
            Ok(())
        }
    }

    /// Called when the task that waits in [`Engine::changed`] has ended, such as after the last watch or an error:
    /// releases what that keeps open for its next call.
    fn unwatched(&self) {}

    /// Returns whether the cause of an error is temporary, so that [`Provider`] retries work that is safe to repeat.
    /// Always `false` on an engine that waits for such causes itself.
    fn is_temporary(&self, error: &Error) -> bool {
        let _ = error;
        false
    }
}

/// The purpose of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads; a replica that lags behind may answer, if the configuration allows one.
    Read,
    /// Reads everything that was acknowledged before, through any handle.
    ReadLatest,
    /// Reads as [`ReadLatest`](Self::ReadLatest) does, for a call that writes: if it finds nothing to write, its answer
    /// must survive whatever an acknowledged write survives, such as a failover.
    ReadConfirmed,
    /// Reads as [`ReadLatest`](Self::ReadLatest) does, and writes.
    Write,
}
