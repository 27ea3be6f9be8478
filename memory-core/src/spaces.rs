//! The tree of spaces: which spaces lie below a path, and how many records each holds.

use sha2::{Digest, Sha256};

use crate::cursor::Fingerprint;
use crate::query::{DEFAULT_LIMIT, MAX_LIMIT, MAX_SELECTORS};
use crate::{BOUNDARIES, Collection, Cursor, Error, Result, SpaceId, SpaceSelector, Spaces, Timestamp};

/// Maximum number of levels that one call lists (S10).
pub const MAX_SPACE_DEPTH: usize = 8;
/// Counts are exact up to this number of records (S9).
pub const MAX_SPACE_COUNT: usize = 1_000;

/// A query of the spaces right below a path, or of the top-level ones (S8).
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

/// Builds a [`SpaceQuery`].
#[derive(Debug, Clone)]
pub struct SpaceQueryBuilder(SpaceQuery);

/// A page of the spaces right below a path, in the byte order of their ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpaceLevel {
    /// The path that the spaces lie below; `None` for top-level spaces.
    pub under: Option<String>,
    /// The spaces on this page.
    pub spaces: Vec<SpaceSummary>,
    /// The cursor of the next page, for a query of this level's `under`. A page may be short or empty and still have
    /// one.
    pub next: Option<Cursor>,
}

/// The records at and below a space, as far as the caller may see them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpaceSummary {
    /// The id. Pass it to `under` to find the counted records, or to `exact` if it ends with a boundary (S8).
    pub id: SpaceId,
    /// The number of records at the space and below it.
    pub count: Count,
    /// The creation time of the newest of them.
    pub newest: Timestamp,
}

/// A count that is exact up to a limit.
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

    /// Returns the path that the spaces lie below; `None` for top-level ones.
    pub fn under(&self) -> Option<&str> {
        self.under.as_deref()
    }

    /// Returns the spaces to which the host confines the query, if any.
    pub fn within(&self) -> Option<&Spaces> {
        self.within.as_ref()
    }

    /// Returns how many levels are listed.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Returns the maximum number of spaces on each level.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Returns whether it may cost much more than a short list, so that the call takes a permit (L8).
    pub(crate) fn is_heavy(&self) -> bool {
        let is_light = self.depth == 1 && self.limit <= MAX_LIGHT_SPACES;
        !is_light || !self.within.iter().all(Spaces::are_light)
    }

    /// Returns the hash that binds a level's cursor to its query (Q6).
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

/// Maximum number of spaces in a list that needs no permit (L8).
const MAX_LIGHT_SPACES: usize = 200;

impl SpaceQueryBuilder {
    /// Lists the spaces below this path: see [`SpaceSelector::under`].
    #[must_use]
    pub fn under(mut self, path: impl Into<String>) -> Self {
        self.0.under = Some(path.into());
        self
    }

    /// Lists and counts only what lies in these spaces; at most [`MAX_SELECTORS`].
    #[must_use]
    pub fn within(mut self, spaces: impl Into<Spaces>) -> Self {
        self.0.within = Some(spaces.into());
        self
    }

    /// Sets how many levels are listed: 1 by default, [`MAX_SPACE_DEPTH`] at most.
    #[must_use]
    pub fn depth(mut self, depth: usize) -> Self {
        self.0.depth = depth;
        self
    }

    /// Sets the maximum number of spaces on each level: 50 by default, [`MAX_LIMIT`] at most.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.0.limit = limit;
        self
    }

    /// Continues where a level of the same path and the same `within` ended.
    #[must_use]
    pub fn cursor(mut self, cursor: impl AsRef<str>) -> Self {
        self.0.cursor = Some(cursor.as_ref().to_owned());
        self
    }

    /// Returns the query, or the first mistake: `InvalidInput`, or `TooLarge` with too many selectors.
    pub fn build(self) -> Result<SpaceQuery> {
        let Self(query) = self;
        if let Some(path) = &query.under {
            SpaceSelector::under(path)?;
        }
        match &query.within {
            Some(Spaces::Any(selectors)) if selectors.is_empty() => {
                return Err(Error::invalid("the caller may read no space"));
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

/// Returns the listed space that an id lies in: its shortest prefix that is longer than the path and ends before a
/// boundary, but not with one; else the id itself. `None` if the id is the path.
///
/// `id` must start with the path and a boundary, or with the path if that ends with one.
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
