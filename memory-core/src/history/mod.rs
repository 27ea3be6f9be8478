//! The history of a record: its versions, with when they were committed and by whom.

mod actor;
mod image;
mod settings;

use sha2::{Digest, Sha256};

pub use actor::Actor;
pub(crate) use image::{Image, changes};
pub use settings::{HistorySettings, TransientKeys};

use crate::cursor::Fingerprint;
use crate::{Cursor, DEFAULT_LIMIT, Error, MAX_LIMIT, Record, RecordId, Result, Revision, Timestamp};

/// Query of the versions of one record, newest first (H2).
///
/// ```
/// use memory_core::{History, MemoryId};
///
/// let history = History::of(MemoryId::generate()).limit(10)?;
/// # Ok::<(), memory_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    record: RecordId,
    limit: usize,
    cursor: Option<String>,
    with_removed: bool,
}

impl History {
    /// Queries the versions of a record, 50 on a page, without those from before a document's removal.
    pub fn of(record: impl Into<RecordId>) -> Self {
        Self { record: record.into(), limit: DEFAULT_LIMIT, cursor: None, with_removed: false }
    }

    /// Sets the maximum number of versions on a page; 0 for an empty page. `InvalidInput` over [`MAX_LIMIT`].
    pub fn limit(mut self, limit: usize) -> Result<Self> {
        if limit > MAX_LIMIT {
            return Err(Error::invalid(format!("a limit of {limit}; at most {MAX_LIMIT} are allowed")));
        }
        self.limit = limit;
        Ok(self)
    }

    /// Continues where a page of the same history ended.
    #[must_use]
    pub fn cursor(mut self, cursor: impl AsRef<str>) -> Self {
        self.cursor = Some(cursor.as_ref().to_owned());
        self
    }

    /// Includes removals of a document, and the versions from before them. For operators (H5).
    #[must_use]
    pub fn with_removed(mut self) -> Self {
        self.with_removed = true;
        self
    }

    /// Returns the record whose versions are queried.
    pub fn record(&self) -> &RecordId {
        &self.record
    }

    /// Returns the maximum number of versions on a page.
    pub fn page_limit(&self) -> usize {
        self.limit
    }

    /// Returns the cursor, as the caller gave it.
    pub fn page_cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// Returns whether removals and earlier versions are included.
    pub fn has_removed(&self) -> bool {
        self.with_removed
    }

    /// Returns the hash that binds a cursor to this query.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        let mut hash = Sha256::new_with_prefix(format!("history;{};", self.with_removed));
        hash.update(self.record.to_key());
        Fingerprint(hash.finalize().into())
    }
}

/// One page of a history.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HistoryPage {
    /// The versions, newest first.
    pub versions: Vec<Version>,
    /// The cursor of the next page; `None` on the last page.
    pub next: Option<Cursor>,
}

/// A version: the state of a record from one commit to the next.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Version {
    /// The revision. A document that is put again after its removal starts at 1.
    pub revision: Revision,
    /// When it was committed, by the provider's clock; `None` if that was not recorded, as before the ledger had a
    /// history.
    pub committed_at: Option<Timestamp>,
    /// The actor who made it, if the write names one.
    pub actor: Option<Actor>,
    /// The record as it was; `None` for the removal of a document.
    pub record: Option<Record>,
}

impl Version {
    /// Makes a version to restore.
    pub fn new(record: Record, committed_at: Option<Timestamp>, actor: Option<Actor>) -> Self {
        Self { revision: record.revision(), committed_at, actor, record: Some(record) }
    }
}
