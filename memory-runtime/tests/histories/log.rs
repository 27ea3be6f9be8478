//! A history: calls with their times and outcomes.
//!
//! Times are those of the machine's monotonic clock, which all of its processes share: an
//! [`Instant`](std::time::Instant) can't leave its process, and the time of day may go back.

use std::collections::{BTreeMap, BTreeSet};

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// One call, as its program reports it before and after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Call {
    /// Its place in the plan. A write leaves it in the record.
    pub(crate) number: u32,
    /// The client, which makes one call at a time.
    pub(crate) client: u32,
    pub(crate) action: Action,
    /// Nanoseconds.
    pub(crate) started: u64,
    /// `None` for a call without an answer, such as one of a killed program.
    pub(crate) ended: Option<u64>,
    pub(crate) outcome: Outcome,
}

impl Call {
    /// Whether it has an end and was in progress at some time between two. When a call without an end stopped, nobody knows.
    pub(crate) fn is_during(&self, (from, to): (u64, u64)) -> bool {
        self.started <= to && self.ended.is_some_and(|ended| ended >= from)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Action {
    /// On one record.
    One { record: String, what: What },
    /// On all records of a kind below a path.
    Many { documents: bool, under: String, how: How },
}

/// A call on a record. A memory is named by its idempotency key, a document by its id: see [`is_document`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum What {
    /// With one of two triggers.
    Store {
        space: String,
        variant: u8,
    },
    /// Adds the number of the call to the metadata.
    Update {
        id: String,
        if_revision: Option<u64>,
    },
    Get {
        id: Option<String>,
    },
    Erase {
        id: Option<String>,
    },
    Put {
        space: String,
        expect: Wanted,
    },
    Remove,
    /// A part of an action on many records.
    Read {
        under: String,
    },
}

/// The expectation of a put.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Wanted {
    Any,
    Absent,
    Revision(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum How {
    Query,
    /// In pages of this many records.
    Walk(usize),
    Recall,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    Done(Answer),
    /// Nothing was written.
    NotDone(String),
    /// It may have its effect at any later time, or never.
    Unknown(String),
}

impl Outcome {
    /// Whether a server that is away explains it.
    pub(crate) fn is_trouble(&self) -> bool {
        matches!(self, Self::NotDone(kind) | Self::Unknown(kind) if ["Unavailable", "Timeout"].contains(&kind.as_str()))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    Stored(String),
    Found(Option<Version>),
    /// The revision after an update or a put.
    Revision(u64),
    /// Whether the record existed.
    Gone(bool),
    Conflict,
    Erased,
    NotFound,
    Pages {
        pages: Vec<Page>,
        /// Whether they have all that there is.
        is_complete: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Page {
    pub(crate) started: u64,
    pub(crate) ended: u64,
    pub(crate) rows: Vec<Row>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) record: String,
    pub(crate) created_at: i64,
    pub(crate) version: Version,
}

/// A version of a record, as reads show it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Version {
    /// The id of a memory; `None` while it is not known.
    pub(crate) id: Option<String>,
    pub(crate) variant: u8,
    pub(crate) space: String,
    pub(crate) revision: u64,
    /// The numbers of the calls that made it: all updates of a memory, the last put of a document.
    pub(crate) writes: BTreeSet<u32>,
}

/// A change that a watch delivers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Told {
    /// A memory by the id that its provider made, a document by its name.
    Now {
        id: String,
        revision: u64,
    },
    Gone {
        id: String,
    },
    /// The feed has lost changes after the last token: the watch starts again.
    Reset {
        at: u64,
    },
}

/// A line of a program to its parent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Line {
    Started(Call),
    Ended { number: u32, at: u64, outcome: Outcome },
    Told { told: Option<Told>, token: Option<String> },
}

/// All that is known of a run.
#[derive(Debug, Default, Serialize)]
pub(crate) struct History {
    pub(crate) calls: BTreeMap<u32, Call>,
    pub(crate) told: Vec<Told>,
    /// The times between which servers were taken away and others took over.
    pub(crate) failovers: Vec<(u64, u64)>,
    /// The revisions that the history of each record has in the end, newest first.
    pub(crate) versions: BTreeMap<String, Vec<u64>>,
}

/// Nanoseconds of a clock that all processes share.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Unix has this clock");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// By the first letter of its name.
pub(crate) fn is_document(record: &str) -> bool {
    record.starts_with('d')
}
