//! What a provider tells of itself.

use std::fmt;
use std::time::Duration;

use crate::Timestamp;

/// How an engine is (L3).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// The name of the engine.
    pub engine: &'static str,
    /// The version of its server or library.
    pub server_version: String,
    /// The version of the schema that is in place.
    pub schema_version: u32,
    /// How long the engine took to answer.
    pub latency: Duration,
    /// What an acknowledged write survives.
    pub durability: Durability,
}

impl Health {
    /// The health of an engine.
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

/// What an operator looks at beyond the health of an engine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Inspection {
    /// The tables and indexes of the schema that are not there or not valid. An engine that makes them as it writes misses none.
    pub missing: Vec<String>,
    /// What the clock of the server said; `None` where the engine has no clock but that of its caller.
    pub server_time: Option<Timestamp>,
    /// How many bytes the data takes with its indexes: that of the namespace, or where an engine tells no less, of the whole server.
    pub bytes: Option<u64>,
    /// What keeps the feed of changes from telling what is written now (C6); `None` where nothing does.
    pub held_back: Option<HeldBack>,
}

impl Inspection {
    /// What was found.
    pub fn new(missing: Vec<String>, server_time: Option<Timestamp>, bytes: Option<u64>) -> Self {
        Self { missing, server_time, bytes, held_back: None }
    }

    /// The same, with what holds the feed back.
    #[must_use]
    pub fn with_held_back(mut self, held_back: Option<HeldBack>) -> Self {
        self.held_back = held_back;
        self
    }
}

/// What the feed of changes waits for before it tells of later writes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldBack {
    /// What that is, in words by which an operator finds it. Never a payload, nor the text of a statement, which may hold one.
    pub by: String,
    /// For how long at most some of them have waited; `None` where the engine may not tell.
    pub longest: Option<Duration>,
}

impl HeldBack {
    /// A feed that has waited for this, for so long at most.
    pub fn new(by: impl Into<String>, longest: Option<Duration>) -> Self {
        Self { by: by.into(), longest }
    }
}

/// How far a backfill of the schema is: work that grows with the ledger, and is done in slices beside running programs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backfill {
    /// What the records get by it, for people: `the places of documents`.
    pub name: &'static str,
    /// How many records it has gone over, about.
    pub done: u64,
    /// How many it goes over in all, about.
    pub total: u64,
    /// What has to wait for it.
    pub blocks: Blocks,
}

/// What has to wait for a backfill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocks {
    /// Nothing: it only gives space back.
    Nothing,
    /// No call, but until it is complete queries and removals of documents go over their whole collection.
    DocumentPlaces,
    /// Every call but those of the life cycle.
    Everything,
}

impl Blocks {
    /// Whether it stops what waits for a backfill that blocks `wanted`.
    pub(crate) fn stops(self, wanted: Self) -> bool {
        self == wanted || self == Self::Everything
    }
}

impl Backfill {
    /// A backfill that has gone over so many of so many records.
    pub fn new(name: &'static str, done: u64, total: u64, blocks: Blocks) -> Self {
        Self { name, done, total, blocks }
    }

    /// A removal of the index of words, which older programs made.
    pub fn of_no_words(done: u64, total: u64) -> Self {
        Self::new("the removal of the index of words", done, total, Blocks::Nothing)
    }

    /// A backfill of the places of documents.
    pub fn of_places(done: u64, total: u64) -> Self {
        Self::new("the places of documents", done, total, Blocks::DocumentPlaces)
    }

    /// How many records it still has to go over, about.
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
    /// The end of the process and of the machine's power.
    Durable,
    /// Less than that.
    AtRisk {
        /// Why.
        reason: String,
        /// How much of the latest work can be lost; `None` when there is no bound.
        bound: Option<Duration>,
    },
    /// The engine does not tell.
    Unknown {
        /// Why not.
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
