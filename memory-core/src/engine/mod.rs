//! What an engine implements, and the provider that makes the whole contract of it. For implementors only.
//!
//! An [`Engine`] knows how to open its storage and how to run work in a session. A session is a [`Reader`] and a [`Writer`]: it finds
//! candidates and carries out single atomic steps, and decides nothing. [`Provider`] does everything else once for all engines: life
//! cycle, deadlines, limits, idempotency, the loops of updates and puts, restore, removal, the planning of a query, pages, retries
//! and batches.
//!
//! A backend whose storage does not fit these traits may implement [`MemoryProvider`](crate::MemoryProvider) and
//! [`DocumentStore`](crate::DocumentStore) as a whole instead; [`Gate`], [`PageBuilder`](crate::PageBuilder) and the other pieces that
//! are exported for engines serve it too.

mod batch;
mod feed;
mod gate;
mod heavy;
mod history;
mod load;
mod pages;
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

pub use feed::{FeedEnd, FeedEntry, FeedPage, FeedPosition, FeedWrite};
pub use gate::{DEFAULT_DEADLINE, Gate, record_rows};
pub use heavy::{HeavyWork, Permit, heavy_calls};
pub use history::{HistoryRow, Removal, VersionEntry};
pub use load::{Load, load};
pub use provider::{HEARTBEAT, Provider, SHORT_BACKFILL};
pub use recall::{MAX_RECALLED, MAX_RECALLED_BYTES, MAX_RECALLED_NUMBERS, MAX_RECALLED_TERMS};
pub use retry::Retry;
pub use scan::{Scanned, offer_in_order};
pub use session::{
    Append, Appended, Atomicity, DocumentsFound, Embed, EmbedRecord, Erasing, ErasingRecord, Found, MemoriesFound, Put,
    Reader, Steps, Work, Writer,
};
pub use settings::{Config, EngineSettings, KeptChanges, parameter};
pub use stored::{StoredDocument, StoredMemory, corrupt};
pub use walk::{Mark, Place, Row, Source, Visit, Walk, shown_id};

/// A storage that is open: what [`Provider`] builds the contract on.
///
/// # To ensure correctness
/// - An error says `NotDone` only of what was certainly not done; a lost connection behind a write is `Unknown` (W11).
/// - A future that is dropped leaves each step that it had begun done as a whole or not at all (W10).
pub trait Engine: fmt::Debug + Send + Sync + Sized + 'static {
    /// The name in errors, spans and [`Health`].
    const NAME: &'static str;
    /// The most memories, and about the most bytes, that concurrent stores share in one [`Writer::append`]. `None` where the engine
    /// batches its writes by itself.
    const BATCH: Option<(usize, usize)>;
    /// The most records, and about the most bytes, that one step of a restore writes.
    const RESTORE: (usize, usize);
    /// Whether the engine runs work on threads of its own. Where it does not, [`Provider`] keeps heavy work off those of the executor.
    const OWN_THREADS: bool = false;
    /// Whether the engine keeps a history (H1 to H6). Where it does not, [`Provider`] says so, and gives its writes no entries.
    const HISTORY: bool = false;

    /// Whether the engine can erase (E1). Where it can't, [`Provider`] says so.
    const ERASES: bool = false;

    /// Whether the engine keeps vectors beside records (M2). Where it does not, [`Provider`] says so.
    const VECTORS: bool = false;

    /// How the storage is opened.
    type Config: Config;
    /// What work is run in.
    type Session: Writer;

    /// Creates or migrates the schema, and opens the storage (L1, L4).
    fn open(config: &Self::Config) -> impl Future<Output = Result<Self>> + Send;

    /// How far the backfills are that the schema and the configuration want, without those that are complete, in the order in which they are
    /// done. Changes nothing.
    fn pending(&self) -> impl Future<Output = Result<Vec<Backfill>>> + Send {
        async { Ok(Vec::new()) }
    }

    /// Takes the next slice of the first backfill that is pending, in well below a second. What a slice has done is not done again,
    /// whoever takes the next one; two that are taken at once do no harm.
    fn backfill(&self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// Keeps this text as the secret of the namespace unless it has one, and gives the one that it has, to every handle and for good. Writes
    /// nothing where it has one, since it may be opened by somebody who may only read. It is no part of an export, and stays out of errors and
    /// logs (Q6).
    fn secret(&self, proposed: &str) -> impl Future<Output = Result<String>> + Send;

    /// Makes the namespace read-only for every program, of whatever version, or takes that back. Each step of a [`Writer`] that would write
    /// is then [`Error::read_only`], or what an older program makes of it; nothing that was begun before is committed after this call has
    /// returned (L9). To repeat it changes nothing.
    fn set_read_only(&self, is_read_only: bool) -> impl Future<Output = Result<()>> + Send {
        let _ = is_read_only;
        async { Err(Error::new(ErrorKind::Unsupported, "this engine can't be made read-only")) }
    }

    /// Whether the namespace is read-only.
    fn is_read_only(&self) -> impl Future<Output = Result<bool>> + Send {
        async { Ok(false) }
    }

    /// Keeps this time as the beginning of the history, or that there is none, unless either was kept before; gives what is kept, as
    /// [`Engine::secret`] does. Every program that writes from then on leaves entries, or none does. Called only where the engine can keep
    /// a history.
    fn history_since(&self, proposed: Option<Timestamp>) -> impl Future<Output = Result<Option<Timestamp>>> + Send {
        let _ = proposed;
        async { Err(history::no_history()) }
    }

    /// Keeps this text as the key of the namespace's tombstones unless it has one, and gives the one that it has, as [`Engine::secret`] does.
    /// Called only where the engine can erase.
    fn hash_key(&self, proposed: &str) -> impl Future<Output = Result<String>> + Send {
        let _ = proposed;
        async { Err(session::no_erasure()) }
    }

    /// The text that was kept last as the rules of retention, if one was. Seen by every handle from when [`Engine::set_retention`] has returned.
    fn retention(&self) -> impl Future<Output = Result<Option<String>>> + Send {
        async { Ok(None) }
    }

    /// Keeps this text in the place of the one that it has. Called only where the engine can erase.
    fn set_retention(&self, rules: &str) -> impl Future<Output = Result<()>> + Send {
        let _ = rules;
        async { Err(session::no_erasure()) }
    }

    /// The text that was kept last as the model of the namespace's vectors, if one was. Seen by every handle from when
    /// [`Engine::set_vector_model`] has returned.
    fn vector_model(&self) -> impl Future<Output = Result<Option<String>>> + Send {
        async { Ok(None) }
    }

    /// Keeps this text in the place of the one that it has. Called only where the engine keeps vectors.
    fn set_vector_model(&self, model: &str) -> impl Future<Output = Result<()>> + Send {
        let _ = model;
        async { Err(session::no_vectors()) }
    }

    /// Closes the storage. No session is under way, but for some that nobody waits for any more.
    fn close(&self) -> impl Future<Output = Result<()>> + Send;

    /// Tells how the engine is, without a trace in it (L3).
    fn health(&self) -> impl Future<Output = Result<Health>> + Send;

    /// Runs work in a session. One that only reads has one view of the storage if the engine can give one. In one that writes, each step
    /// is atomic by itself; the work as a whole need not be.
    ///
    /// Past `until` nobody waits for the answer. The engine may run work that writes again after it has rolled back all of it. Work never
    /// goes on after a step that failed, so an engine may do all of its steps in one transaction.
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

    /// Waits until the feed may have entries behind a place, or until then at most. One waits for all watches of a provider, and nobody where
    /// nothing is watched. What other processes write is noticed within 100 ms where the engine can.
    ///
    /// Here it waits for a second, or less: an engine that is told of changes overrides it.
    fn changed(&self, after: &FeedPosition, until: Instant) -> impl Future<Output = Result<()>> + Send {
        let _ = after;
        async move {
            tokio::time::sleep(until.saturating_duration_since(Instant::now()).min(Duration::from_secs(1))).await;
            Ok(())
        }
    }

    /// Called when nobody watches any more, behind the last [`Engine::changed`]: ends what that has begun and kept for the next one.
    fn unwatched(&self) {}

    /// Whether the cause of an error is temporary, so that [`Provider`] tries again what is safe to repeat. Never, where the engine waits
    /// for such causes itself.
    fn is_temporary(&self, error: &Error) -> bool {
        let _ = error;
        false
    }
}

/// What a session is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// To read whatever the configuration allows, such as a replica that lags behind.
    Read,
    /// To read everything that was acknowledged before, through any handle.
    ReadLatest,
    /// To write, and before that to read the same.
    Write,
}
