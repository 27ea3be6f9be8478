//! Spaces as a tree: which spaces lie below another one, and how much each holds.

use sha2::{Digest, Sha256};

use crate::cursor::Fingerprint;
use crate::query::{DEFAULT_LIMIT, MAX_LIMIT, MAX_SELECTORS};
use crate::{BOUNDARIES, Collection, Cursor, Error, Result, SpaceId, SpaceSelector, Spaces, Timestamp};

/// The deepest level that one call answers, and how many levels it answers at most (S10).
pub const MAX_SPACE_DEPTH: usize = 8;
/// Up to so many records of a space are counted (S9).
pub const MAX_SPACE_COUNT: usize = 1_000;

/// Which spaces to list: those right below a path, or the top-level ones (S8).
///
/// ```
/// use memory_core::SpaceQuery;
///
/// let query = SpaceQuery::builder().under("plugin-discord-42").limit(20).build()?;
/// # Ok::<(), memory_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SpaceQuery {
    pub(crate) under: Option<String>,
    pub(crate) within: Option<Spaces>,
    pub(crate) depth: usize,
    pub(crate) limit: usize,
    pub(crate) cursor: Option<String>,
}

/// Makes a [`SpaceQuery`].
#[derive(Debug, Clone)]
pub struct SpaceQueryBuilder(SpaceQuery);

/// The spaces right below one, in ascending order of the bytes of their ids: all, or a page of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpaceLevel {
    /// What they lie below; `None` for top-level spaces.
    pub under: Option<String>,
    /// The spaces.
    pub spaces: Vec<SpaceSummary>,
    /// Where the level goes on: a cursor of the query of its `under`. A page may be short or empty and still have one.
    pub next: Option<Cursor>,
}

/// What a space and everything below it hold, as far as the caller may see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpaceSummary {
    /// The id: what `under` takes to find the records that are counted, or `exact` where it ends with a boundary (S8).
    pub id: SpaceId,
    /// How many records lie at the space or below it.
    pub count: Count,
    /// When the newest of them was created.
    pub newest: Timestamp,
}

/// A number that is told exactly up to a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// This many.
    Exactly(usize),
    /// More than this many.
    MoreThan(usize),
}

impl SpaceQuery {
    /// Starts a query of the top-level spaces, one level deep.
    pub fn builder() -> SpaceQueryBuilder {
        let limit = DEFAULT_LIMIT;
        SpaceQueryBuilder(Self { under: None, within: None, depth: 1, limit, cursor: None })
    }

    /// What the spaces lie below; `None` for top-level ones.
    pub fn under(&self) -> Option<&str> {
        self.under.as_deref()
    }

    /// To which spaces a host confines the query.
    pub fn within(&self) -> Option<&Spaces> {
        self.within.as_ref()
    }

    /// How many levels are listed.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// How many spaces each level has at most.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Whether it may cost much more than a short list does, so that the call takes a permit (L8).
    pub(crate) fn is_heavy(&self) -> bool {
        let is_light = self.depth == 1 && self.limit <= MAX_LIGHT_SPACES;
        !is_light || !self.within.iter().all(Spaces::are_light)
    }

    /// What a cursor of a level knows its query by (Q6).
    pub(crate) fn fingerprint(&self, of: Option<&Collection>, under: Option<&str>) -> Fingerprint {
        let within = self.within.as_ref().map(Spaces::to_string);
        let parts = [Some("spaces"), of.map(Collection::as_str), under, within.as_deref()];
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.map_or(u64::MAX, |part| part.len() as u64)).to_be_bytes());
            hash.update(part.unwrap_or_default());
        }
        Fingerprint(hash.finalize().into())
    }
}

/// The most spaces of a list that needs no permit (L8).
const MAX_LIGHT_SPACES: usize = 200;

impl SpaceQueryBuilder {
    /// The spaces below this path: see [`SpaceSelector::under`].
    #[must_use]
    pub fn under(mut self, path: impl Into<String>) -> Self {
        self.0.under = Some(path.into());
        self
    }

    /// Counts and shows what lies in these spaces alone; at most [`MAX_SELECTORS`].
    #[must_use]
    pub fn within(mut self, spaces: impl Into<Spaces>) -> Self {
        self.0.within = Some(spaces.into());
        self
    }

    /// How many levels are listed: 1 by default, [`MAX_SPACE_DEPTH`] at most.
    #[must_use]
    pub fn depth(mut self, depth: usize) -> Self {
        self.0.depth = depth;
        self
    }

    /// How many spaces each level has at most: 50 by default, [`MAX_LIMIT`] at most.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.0.limit = limit;
        self
    }

    /// Goes on where a level ended that was listed for the same path and the same `within`.
    #[must_use]
    pub fn cursor(mut self, cursor: impl AsRef<str>) -> Self {
        self.0.cursor = Some(cursor.as_ref().to_owned());
        self
    }

    /// The query, or the first mistake in it: `InvalidInput`, or `TooLarge` with too many selectors.
    pub fn build(self) -> Result<SpaceQuery> {
        let Self(query) = self;
        if let Some(path) = &query.under {
            SpaceSelector::under(path)?;
        }
        match &query.within {
            Some(Spaces::Any(selectors)) if selectors.is_empty() => {
                return Err(Error::invalid("a query is confined to no space at all"));
            }
            Some(Spaces::Any(selectors)) if selectors.len() > MAX_SELECTORS => {
                return Err(Error::too_large(format!("too many selectors; at most {MAX_SELECTORS} are allowed")));
            }
            _ => {}
        }
        if !(1..=MAX_SPACE_DEPTH).contains(&query.depth) {
            let depth = query.depth;
            return Err(Error::invalid(format!("a depth of {depth}; it must be from 1 to {MAX_SPACE_DEPTH}")));
        }
        if query.limit > MAX_LIMIT {
            let limit = query.limit;
            return Err(Error::invalid(format!("a limit of {limit}; at most {MAX_LIMIT} are allowed")));
        }
        Ok(query)
    }
}

/// The space right below a path, or the top-level space, in which or below which an id lies: its shortest prefix that is longer than the
/// path and ends before a boundary, but not with one; or else the id itself. `None` for an id that is the path.
///
/// `id` starts with the path and a boundary, or with the path if that ends with one.
pub(crate) fn space_below<'i>(path: &str, id: &'i str) -> Option<&'i str> {
    let rest = id.get(path.len()..).filter(|rest| !rest.is_empty())?;
    let start = rest.find(|char| !BOUNDARIES.contains(&char)).unwrap_or(rest.len());
    let end = rest[start..].find(BOUNDARIES).map_or(rest.len(), |end| start + end);
    Some(&id[..path.len() + end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn a_space_below_ends_before_its_next_boundary() {
        for (path, id, below) in [
            ("", "a", Some("a")),
            ("", "a-b", Some("a")),
            ("", "-a/b", Some("-a")),
            ("", "--", Some("--")),
            ("a", "a", None),
            ("a", "a-b", Some("a-b")),
            ("a", "a/b-c", Some("a/b")),
            ("a", "a-", Some("a-")),
            ("a", "a--b-c", Some("a--b")),
            ("a-", "a-", None),
            ("a-", "a-b:c", Some("a-b")),
            ("a-", "a--b", Some("a--b")),
        ] {
            assert_eq!(space_below(path, id), below, "{id} below {path:?}");
        }
    }

    #[test]
    fn mistakes_are_told() {
        let kind = |query: SpaceQueryBuilder| query.build().err().map(|error| error.kind());
        let query = SpaceQuery::builder;
        assert_eq!(kind(query()), None);
        assert_eq!(kind(query().depth(MAX_SPACE_DEPTH).limit(MAX_LIMIT)), None);
        for wrong in [
            query().under(""),
            query().depth(0),
            query().depth(MAX_SPACE_DEPTH + 1),
            query().limit(MAX_LIMIT + 1),
            query().within(Vec::new()),
        ] {
            assert_eq!(kind(wrong.clone()), Some(ErrorKind::InvalidInput), "{wrong:?}");
        }
    }
}
