//! Reports of a provider about itself: health, inspection, backfills and durability.

use std::fmt;
use std::time::Duration;

use crate::Timestamp;

/// The health of an engine (L3).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// The name of the engine, such as `sqlite`.
    pub engine: &'static str,
    /// The version of the engine's server or library.
    pub server_version: String,
    /// The version of the schema in the namespace.
    pub schema_version: u32,
    /// How long the engine took to answer.
    pub latency: Duration,
    /// What an acknowledged write survives.
    pub durability: Durability,
}

impl Health {
    /// Makes a report.
    pub fn new(
        engine: &'static str,
        server_version: impl Into<String>,
        schema_version: u32,
        latency: Duration,
        durability: Durability,
    ) -> Self {
        Self { engine, server_version: server_version.into(), schema_version, latency, durability }
    }
}

/// What an operator checks beyond the health of an engine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Inspection {
    /// Tables and indexes of the schema that are missing or invalid; empty on an engine that creates them as it writes.
    pub missing: Vec<String>,
    /// The time by the server's clock; `None` if the engine has no clock of its own.
    pub server_time: Option<Timestamp>,
    /// Size of the data with its indexes, in bytes: of the namespace, or of the whole server if the engine reports no
    /// less.
    pub bytes: Option<u64>,
    /// What delays the feed of changes (C6); `None` if nothing does.
    pub held_back: Option<HeldBack>,
}

impl Inspection {
    /// Makes a report of an engine whose feed is not held back.
    pub fn new(missing: Vec<String>, server_time: Option<Timestamp>, bytes: Option<u64>) -> Self {
        Self { missing, server_time, bytes, held_back: None }
    }

    /// Sets what holds the feed back.
    #[must_use]
    pub fn with_held_back(mut self, held_back: Option<HeldBack>) -> Self {
        self.held_back = held_back;
        self
    }
}

/// What the feed of changes waits for before it delivers later writes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldBack {
    /// The cause, in words by which an operator finds it. Never a payload, nor the text of a statement, which may hold
    /// one.
    pub by: String,
    /// How long the oldest has waited; `None` if the engine does not tell.
    pub longest: Option<Duration>,
}

impl HeldBack {
    /// Makes a report of a feed that is held back.
    pub fn new(by: impl Into<String>, longest: Option<Duration>) -> Self {
        Self { by: by.into(), longest }
    }
}

/// Progress of a backfill: a schema change that grows with the ledger and runs in slices beside running programs (L7).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backfill {
    /// What the records gain by it, for people: `the places of documents`.
    pub name: &'static str,
    /// Number of records done, approximately.
    pub done: u64,
    /// Number of records in all, approximately.
    pub total: u64,
    /// Which calls wait for it.
    pub blocks: Blocks,
}

/// Which calls wait for a backfill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocks {
    /// None: it only frees storage.
    Nothing,
    /// Listings of the spaces of documents, and recalls of documents that name places (S10, R5). Until it is complete,
    /// queries and removals of documents scan their whole collection.
    DocumentPlaces,
    /// All, except those of the life cycle.
    Everything,
}

impl Blocks {
    /// Returns whether it blocks a call that needs a backfill of kind `wanted`.
    pub(crate) fn stops(self, wanted: Self) -> bool {
        self == wanted || self == Self::Everything
    }
}

impl Backfill {
    /// Makes a progress report.
    pub fn new(name: &'static str, done: u64, total: u64, blocks: Blocks) -> Self {
        Self { name, done, total, blocks }
    }

    /// Progress of the removal of the word index that older programs made.
    pub fn of_no_words(done: u64, total: u64) -> Self {
        Self::new("the removal of the index of words", done, total, Blocks::Nothing)
    }

    /// Progress of the backfill of the documents' places.
    pub fn of_places(done: u64, total: u64) -> Self {
        Self::new("the places of documents", done, total, Blocks::DocumentPlaces)
    }

    /// Returns the approximate number of records that are left.
    pub fn left(&self) -> u64 {
        self.total.saturating_sub(self.done)
    }
}

impl fmt::Display for Backfill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} of {} records are done", self.name, self.done, self.total)
    }
}

/// What an acknowledged write survives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Durability {
    /// The end of the process, and a power failure of the machine.
    Durable,
    /// Less than [`Durable`](Self::Durable).
    AtRisk {
        /// Why writes can be lost.
        reason: String,
        /// How much of the latest work can be lost, in time; `None` if there is no bound.
        bound: Option<Duration>,
    },
    /// The engine does not report it.
    Unknown {
        /// Why it is unknown.
        reason: String,
    },
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Durable => f.write_str("durable"),
            Self::AtRisk { reason, bound: Some(bound) } => write!(f, "at risk (up to {bound:?}): {reason}"),
            Self::AtRisk { reason, bound: None } => write!(f, "at risk: {reason}"),
            Self::Unknown { reason } => write!(f, "unknown: {reason}"),
        }
    }
}
