//! The history of a record: its versions, when they were committed, and who made them.

mod actor;
mod image;
mod settings;

use sha2::{Digest, Sha256};

pub use actor::Actor;
pub(crate) use image::{Image, changes};
pub use settings::{HistorySettings, TransientKeys};

use crate::cursor::Fingerprint;
use crate::{Cursor, DEFAULT_LIMIT, Error, MAX_LIMIT, Record, RecordId, Result, Revision, Timestamp};

/// Which versions are asked for: those of one record, newest first (H2).
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
    /// The versions of a record, 50 a page, without those from before the removal of a document.
    pub fn of(record: impl Into<RecordId>) -> Self {
        Self { record: record.into(), limit: DEFAULT_LIMIT, cursor: None, with_removed: false }
    }

    /// How many versions a page has at most; 0 for none. `InvalidInput` for more than [`MAX_LIMIT`].
    pub fn limit(mut self, limit: usize) -> Result<Self> {
        if limit > MAX_LIMIT {
            return Err(Error::invalid(format!("a limit of {limit}; at most {MAX_LIMIT} are allowed")));
        }
        self.limit = limit;
        Ok(self)
    }

    /// Goes on where a page of the same history ended.
    #[must_use]
    pub fn cursor(mut self, cursor: impl AsRef<str>) -> Self {
        self.cursor = Some(cursor.as_ref().to_owned());
        self
    }

    /// Goes on behind the removals of a document, down to the versions that were there before. For operators (H5).
    #[must_use]
    pub fn with_removed(mut self) -> Self {
        self.with_removed = true;
        self
    }

    /// Whose versions they are.
    pub fn record(&self) -> &RecordId {
        &self.record
    }

    /// How many a page has at most.
    pub fn page_limit(&self) -> usize {
        self.limit
    }

    /// Where to go on, as the caller gave it.
    pub fn page_cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// Whether removals and what was before them are asked for.
    pub fn has_removed(&self) -> bool {
        self.with_removed
    }

    /// What a cursor of it belongs to.
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
    /// Where to go on. `None` on the last page.
    pub next: Option<Cursor>,
}

/// What a record was from one commit to the next.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Version {
    /// Its revision. A document that is put again after its removal begins anew.
    pub revision: Revision,
    /// When it was committed, by the provider's clock. `None` where that was not recorded, as before the ledger had a history.
    pub committed_at: Option<Timestamp>,
    /// Who made it, if the write said so.
    pub actor: Option<Actor>,
    /// The record as it was; `None` where the document was removed then.
    pub record: Option<Record>,
}

impl Version {
    /// A version of a record, to be restored.
    pub fn new(record: Record, committed_at: Option<Timestamp>, actor: Option<Actor>) -> Self {
        Self { revision: record.revision(), committed_at, actor, record: Some(record) }
    }
}
