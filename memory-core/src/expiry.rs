//! Expiry: until when records are kept, as they say themselves and as the rules of an operator have it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::page::Head;
use crate::{BOUNDARIES, Collection, Document, Error, Memory, MemoryId, RecordId, Result, SpaceSelector, Timestamp};

/// How long the tombstones of what has expired are kept, in milliseconds: 90 days (X4).
pub(crate) const KEPT_TOMBSTONES: i64 = 90 * 24 * 60 * 60 * 1_000;
/// The most rules of a namespace (X3).
pub const MAX_RETENTION: usize = 1_000;

/// A rule of an operator: how long records are kept in and below a space (X3).
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
    /// Keeps what lies under a path, as the selector *under* has it (S3), for so long from the time of its storing. `InvalidInput` for a path
    /// that no selector takes, for less than a millisecond, and for more than the times of the contract have.
    pub fn new(under: impl Into<String>, keep: Duration) -> Result<Self> {
        let keep = i64::try_from(keep.as_millis()).unwrap_or(i64::MAX);
        Self { under: under.into(), keep }.checked()
    }

    /// The path.
    pub fn under(&self) -> &str {
        &self.under
    }

    /// For how long, in milliseconds.
    pub fn keep_millis(&self) -> i64 {
        self.keep
    }

    fn checked(self) -> Result<Self> {
        SpaceSelector::under(&self.under)?;
        match (1..=Timestamp::MAX.as_millis()).contains(&self.keep) {
            true => Ok(self),
            false => Err(Error::invalid(format!("a rule keeps records for 1 to {} ms", Timestamp::MAX.as_millis()))),
        }
    }
}

/// Where a round of sweeping goes on. One is for one provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sweep {
    pub(crate) stage: Stage,
    /// Whether the round ends with what says itself when it expires.
    pub(crate) is_due: bool,
}

/// What a sweep looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Records that say themselves when they expire: those that were over when the round began, behind one of them. `None` at its beginning.
    Scheduled(Option<(Timestamp, (Timestamp, RecordId))>),
    /// What lies under the path of the first of these rules, as they were when the round came to them.
    Ruled(Arc<[Retention]>, Ruled),
    /// Tombstones, behind a page.
    Tombstones(Option<String>),
}

/// What a sweep looks at under a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ruled {
    /// Where it begins.
    Beginning,
    /// Memories that say that they were created before this, behind a cursor.
    Memories(Timestamp, String),
    /// Documents: of the collections behind one, or of one behind a cursor.
    Documents(Option<Collection>, Option<String>),
}

impl Sweep {
    /// The beginning of a round over all that has expired, and over the tombstones whose time is over.
    pub const fn all() -> Self {
        Self { stage: Stage::Scheduled(None), is_due: false }
    }

    /// The beginning of a round over the records alone that say themselves when they expire, which costs what it finds.
    pub const fn due() -> Self {
        Self { stage: Stage::Scheduled(None), is_due: true }
    }
}

/// What one slice of a sweep has done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Swept {
    /// The records that it has erased, in ascending order.
    pub records: Vec<RecordId>,
    /// How many tombstones it has taken away.
    pub tombstones: usize,
    /// Where the round goes on; `None` at its end.
    pub next: Option<Sweep>,
}

/// The rules of a namespace.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// In the order of their paths.
    rules: Vec<Retention>,
    /// For how many milliseconds each path is kept.
    keeps: HashMap<String, i64>,
}

impl Rules {
    /// These rules. `InvalidInput` for one that is none and for two of one path, `TooLarge` for too many.
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
            false => Err(Error::invalid("two rules are for one path")),
        }
    }

    /// Rules as they were kept. `Corrupt` for anything else.
    pub(crate) fn parse(text: Option<&str>) -> Result<Self> {
        let Some(text) = text else { return Ok(Self::default()) };
        let corrupt = || Error::corrupt("the rules of retention can't be read");
        let rules = serde_json::from_str(text).map_err(|error| corrupt().with_source(error))?;
        Self::new(rules).map_err(|error| corrupt().with_source(error))
    }

    /// The rules as a text to keep.
    pub(crate) fn to_text(&self) -> String {
        serde_json::to_string(&self.rules).expect("texts and numbers are JSON")
    }

    /// The rules, in the order of their paths.
    pub(crate) fn to_vec(&self) -> Vec<Retention> {
        self.rules.clone()
    }

    /// How long records of a space are kept: as the rule with the longest path has it under which the space lies (S3).
    pub(crate) fn keep(&self, space: &str) -> Option<i64> {
        if self.rules.is_empty() {
            return None;
        }
        // A boundary is one byte, so what ends before and behind it is text.
        let boundaries = space.rmatch_indices(BOUNDARIES).map(|(at, _)| at);
        let paths = std::iter::once(space).chain(boundaries.flat_map(|at| [&space[..=at], &space[..at]]));
        paths.into_iter().find_map(|path| self.keeps.get(path)).copied()
    }
}

/// Whose time is over at a moment.
#[derive(Debug, Clone)]
pub(crate) struct Lifetimes {
    pub(crate) now: Timestamp,
    pub(crate) rules: Arc<Rules>,
}

impl Lifetimes {
    /// When a memory has expired, if it has.
    pub(crate) fn end_of_memory(&self, memory: &Memory) -> Option<Timestamp> {
        self.end(&memory.head(), true)
    }

    /// When a document has expired, if it has.
    pub(crate) fn end_of_document(&self, document: &Document) -> Option<Timestamp> {
        self.end(&document.head(), false)
    }

    /// When a record has expired, if it has: then, or when its rule says, whichever comes first.
    pub(crate) fn end(&self, head: &Head<'_>, is_memory: bool) -> Option<Timestamp> {
        let by_rule = self.rules.keep(head.space).map(|keep| {
            let stored_at = if is_memory { stored_at(head) } else { head.updated_at.unwrap_or(head.created_at) };
            // What is kept beyond the end of time never expires.
            Timestamp::from_millis(stored_at.as_millis().saturating_add(keep)).unwrap_or(Timestamp::MAX)
        });
        let end = [head.expires_at, by_rule].into_iter().flatten().min();
        end.filter(|end| *end <= self.now)
    }
}

/// When a memory was stored: as its id tells where a provider made it, which no caller can choose, else its createdAt.
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
