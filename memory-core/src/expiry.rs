//! Expiry: when records expire, by their own time or by an operator's retention rules.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::page::Head;
use crate::{BOUNDARIES, Collection, Document, Error, Memory, MemoryId, RecordId, Result, SpaceSelector, Timestamp};

/// How long tombstones of expired records are kept, in milliseconds: 90 days (X4).
pub(crate) const KEPT_TOMBSTONES: i64 = 90 * 24 * 60 * 60 * 1_000;
/// Maximum number of retention rules in a namespace (X3).
pub const MAX_RETENTION: usize = 1_000;

/// A retention rule: how long records at and below a path are kept (X3).
///
/// ```
/// use std::time::Duration;
///
/// use memory_core::Retention;
///
/// let month = Retention::new("guild-1", Duration::from_secs(30 * 24 * 60 * 60))?;
/// # Ok::<(), memory_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Retention {
    under: String,
    keep: i64,
}

impl Retention {
    /// Keeps records under a path (as the selector *under* has it, S3) for this time from their store or last put.
    /// `InvalidInput` for an invalid path, for less than 1 ms, and for more than [`Timestamp::MAX`] in milliseconds.
    pub fn new(under: impl Into<String>, keep: Duration) -> Result<Self> {
        let keep = i64::try_from(keep.as_millis()).unwrap_or(i64::MAX);
        Self { under: under.into(), keep }.checked()
    }

    /// Returns the path.
    pub fn under(&self) -> &str {
        &self.under
    }

    /// Returns how long records are kept, in milliseconds.
    pub fn keep_millis(&self) -> i64 {
        self.keep
    }

    fn checked(self) -> Result<Self> {
        SpaceSelector::under(&self.under)?;
        match (1..=Timestamp::MAX.as_millis()).contains(&self.keep) {
            true => Ok(self),
            false => {
                Err(Error::invalid(format!("a rule must keep records for 1 to {} ms", Timestamp::MAX.as_millis())))
            }
        }
    }
}

/// The position of a sweep round. It is valid only for the provider that gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sweep {
    pub(crate) stage: Stage,
    /// Whether the round ends after the records that have an expiry time of their own.
    pub(crate) is_due: bool,
}

/// The stage of a sweep round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Records with an expiry time of their own, expired by the first time (when the round began) and after the given
    /// record. `None` at the beginning.
    Scheduled(Option<(Timestamp, (Timestamp, RecordId))>),
    /// Records under the path of the first of these rules. The rules are read once, when the round reaches this stage.
    Ruled(Arc<[Retention]>, Ruled),
    /// Tombstones, from this page on; `None` for the first page.
    Tombstones(Option<String>),
}

/// The position of a sweep under the path of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ruled {
    /// Nothing is swept yet.
    Beginning,
    /// Memories created before this time, from this cursor on.
    Memories(Timestamp, String),
    /// Documents: of the collections after this one, or, with a cursor, of this one from there on.
    Documents(Option<Collection>, Option<String>),
}

impl Sweep {
    /// Starts a round over all expired records and all tombstones that are due.
    pub const fn all() -> Self {
        Self { stage: Stage::Scheduled(None), is_due: false }
    }

    /// Starts a round over the records with an expiry time of their own only. It costs what it finds.
    pub const fn due() -> Self {
        Self { stage: Stage::Scheduled(None), is_due: true }
    }
}

/// Result of one slice of a sweep.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Swept {
    /// The records that it erased, in ascending order.
    pub records: Vec<RecordId>,
    /// Number of tombstones that it removed.
    pub tombstones: usize,
    /// The position of the next slice; `None` at the end of the round.
    pub next: Option<Sweep>,
}

/// The retention rules of a namespace.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// Sorted by path.
    rules: Vec<Retention>,
    /// The retention of each path, in milliseconds.
    keeps: HashMap<String, i64>,
}

impl Rules {
    /// Checks and sorts the rules. `InvalidInput` for an invalid rule and for two of one path, `TooLarge` for too many.
    pub(crate) fn new(rules: Vec<Retention>) -> Result<Self> {
        if rules.len() > MAX_RETENTION {
            let count = rules.len();
            return Err(Error::too_large(format!("{count} rules; at most {MAX_RETENTION} are allowed")));
        }
        let mut rules = rules.into_iter().map(Retention::checked).collect::<Result<Vec<_>>>()?;
        rules.sort_by(|one, other| one.under.cmp(&other.under));
        let keeps: HashMap<_, _> = rules.iter().map(|rule| (rule.under.clone(), rule.keep)).collect();
        match keeps.len() == rules.len() {
            true => Ok(Self { rules, keeps }),
            false => Err(Error::invalid("two rules have the same space")),
        }
    }

    /// Parses stored rules. `Corrupt` for any other text.
    pub(crate) fn parse(text: Option<&str>) -> Result<Self> {
        let Some(text) = text else { return Ok(Self::default()) };
        let corrupt = || Error::corrupt("the retention rules can't be read");
        let rules = serde_json::from_str(text).map_err(|error| corrupt().with_source(error))?;
        Self::new(rules).map_err(|error| corrupt().with_source(error))
    }

    /// Returns the rules as a text to store.
    pub(crate) fn to_text(&self) -> String {
        serde_json::to_string(&self.rules).expect("texts and numbers are JSON")
    }

    /// Returns the rules, sorted by path.
    pub(crate) fn to_vec(&self) -> Vec<Retention> {
        self.rules.clone()
    }

    /// Returns how long records of a space are kept, in milliseconds: by the rule with the longest path that the space
    /// lies under (S3).
    pub(crate) fn keep(&self, space: &str) -> Option<i64> {
        if self.rules.is_empty() {
            return None;
        }
        // A boundary is one byte, so both sides of it are character boundaries.
        let boundaries = space.rmatch_indices(BOUNDARIES).map(|(at, _)| at);
        let paths = std::iter::once(space).chain(boundaries.flat_map(|at| [&space[..=at], &space[..at]]));
        paths.into_iter().find_map(|path| self.keeps.get(path)).copied()
    }
}

/// Decides which records have expired at a moment.
#[derive(Debug, Clone)]
pub(crate) struct Lifetimes {
    pub(crate) now: Timestamp,
    pub(crate) rules: Arc<Rules>,
}

impl Lifetimes {
    /// Returns when a memory expired; `None` if it has not.
    pub(crate) fn end_of_memory(&self, memory: &Memory) -> Option<Timestamp> {
        self.end(&memory.head(), true)
    }

    /// Returns when a document expired; `None` if it has not.
    pub(crate) fn end_of_document(&self, document: &Document) -> Option<Timestamp> {
        self.end(&document.head(), false)
    }

    /// Returns when a record expired: by its own time or by its rule, whichever is earlier; `None` if it has not.
    pub(crate) fn end(&self, head: &Head<'_>, is_memory: bool) -> Option<Timestamp> {
        let by_rule = self.rules.keep(head.space).map(|keep| {
            let stored_at = if is_memory { stored_at(head) } else { head.updated_at.unwrap_or(head.created_at) };
            // A retention that ends after the last valid time never ends.
            Timestamp::from_millis(stored_at.as_millis().saturating_add(keep)).unwrap_or(Timestamp::MAX)
        });
        let end = [head.expires_at, by_rule].into_iter().flatten().min();
        end.filter(|end| *end <= self.now)
    }
}

/// Returns when a memory was stored: by the time in its id if a provider made that (no caller can choose it), else by
/// its createdAt.
fn stored_at(head: &Head<'_>) -> Timestamp {
    let made_at = <[u8; 16]>::try_from(head.id).ok().and_then(|id| MemoryId::from_bytes(id).made_at());
    made_at.unwrap_or(head.created_at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn rule(under: &str, keep: u64) -> Retention {
        Retention::new(under, Duration::from_millis(keep)).expect("a rule")
    }

    #[test]
    fn the_rule_with_the_longest_path_holds() {
        let paths = ["guild", "guild-1", "guild-1/", "guild-1/ana:x", "é"];
        let rules = Rules::new(paths.iter().zip(1..).map(|(under, keep)| rule(under, keep)).collect()).expect("rules");
        for space in
            ["guild", "guilds", "guild-1", "guild-12", "guild-1/b", "guild-1/ana:x:y", "guild-1/ana", "é:é", "x"]
        {
            let longest =
                paths.iter().zip(1..).filter(|(under, _)| SpaceSelector::under(under).expect("a path").matches(space));
            let longest = longest.max_by_key(|(under, _)| under.len()).map(|(_, keep)| keep);
            assert_eq!(rules.keep(space), longest, "{space}");
        }
        let again = Rules::parse(Some(&rules.to_text())).expect("rules");
        assert_eq!(again.to_vec(), rules.to_vec());
        assert_eq!(Rules::parse(Some("[{}]")).expect_err("no rules").kind(), ErrorKind::Corrupt);
        assert_eq!(Rules::new(vec![rule("a", 1), rule("a", 2)]).expect_err("two").kind(), ErrorKind::InvalidInput);
        let many = (0..=MAX_RETENTION).map(|number| rule(&format!("a-{number}"), 1)).collect();
        assert_eq!(Rules::new(many).expect_err("too many").kind(), ErrorKind::TooLarge);
        assert!(Retention::new("", Duration::from_secs(1)).is_err() && Retention::new("a", Duration::ZERO).is_err());
    }
}
