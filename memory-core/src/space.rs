//! Spaces, the selectors that name sets of them, and the one matcher that defines what a selector finds.

use std::fmt;

use regex::Regex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::id::{check_text, checked_string};
use crate::{Error, Result, pattern};

/// The characters that separate a space from the narrower spaces below it.
pub const BOUNDARIES: [char; 3] = ['-', '/', ':'];

/// Maximum number of selectors in a list of a call that needs no permit (L8).
pub(crate) const MAX_LIGHT_SELECTORS: usize = 64;
/// Maximum length of a selector's pattern, in bytes.
const MAX_PATTERN: usize = 1 << 10;

checked_string! {
    /// The address of an event, from broad to narrow: `plugin-discord-<guild>-<channel>-<user>-<message>`.
    ///
    /// 1 to 512 bytes without control characters and with at most 32 boundaries (`-`, `/`, `:`). Ids are compared byte for
    /// byte; nothing is normalised, folded or trimmed.
    SpaceId, |id: &str| {
        check_text("a space id", id, Self::MAX_BYTES)?;
        let (boundaries, limit) = (id.matches(BOUNDARIES).count(), Self::MAX_BOUNDARIES);
        if boundaries > limit {
            return Err(Error::too_large(format!("a space id with {boundaries} boundaries; at most {limit} are allowed")));
        }
        Ok(())
    }
}

impl SpaceId {
    /// Maximum length of an id, in bytes.
    pub const MAX_BYTES: usize = 512;
    /// Maximum number of boundaries in an id.
    pub const MAX_BOUNDARIES: usize = 32;

    /// Iterates over every prefix of the id that ends before a boundary, broadest first. The id itself is not included;
    /// an id that starts with a boundary has the empty prefix as an ancestor.
    ///
    /// ```
    /// let space = memory_core::SpaceId::parse("plugin-discord/42")?;
    /// assert_eq!(space.ancestors().collect::<Vec<_>>(), ["plugin", "plugin-discord"]);
    /// # Ok::<(), memory_core::Error>(())
    /// ```
    pub fn ancestors(&self) -> impl Iterator<Item = &str> {
        self.as_str().match_indices(BOUNDARIES).map(|(at, _)| &self.as_str()[..at])
    }
}

/// The key of a path in the path index of engines with numeric keys: the first 8 bytes of the path's SHA-256.
///
/// Two paths may share a key, so the caller applies the matcher to each row that it finds.
///
/// ```
/// assert_ne!(memory_core::path_hash("plugin-discord"), memory_core::path_hash("plugin/discord"));
/// ```
pub fn path_hash(path: &str) -> i64 {
    let digest = Sha256::digest(path);
    let mut head = [0; 8];
    head.copy_from_slice(&digest[..8]);
    i64::from_be_bytes(head)
}

/// A set of spaces. [`SpaceSelector::matches`] defines what is in it, for every engine.
///
/// Its JSON is an object with one member, the kind and its pattern: `{"under":"plugin-discord-42"}`. Deserializing
/// validates it as the constructors do.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct SpaceSelector(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Exact(SpaceId),
    Under(Box<str>),
    Prefix(Box<str>),
    Glob { pattern: Box<str>, regex: Option<Regex>, head: Box<str> },
    Regex { pattern: Box<str>, regex: Regex, head: Box<str> },
}

/// An upper bound of the spaces that a selector matches. An engine looks these up; the matcher then decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpaceRange<'a> {
    /// Only the space with this id.
    Exact(&'a str),
    /// Only the space with this id and its descendants.
    Under(&'a str),
    /// Only ids that have this ancestor.
    Below(&'a str),
    /// Only ids that start with these bytes, which are not empty and don't end with a boundary.
    Prefix(&'a str),
    /// Any id.
    Everywhere,
    /// No id.
    Nowhere,
}

/// A path that a selector names without a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpacePlace<'a> {
    /// The space with this id.
    Exact(&'a str),
    /// The space with this id and everything below it; if the path ends with a boundary, every id that starts with it.
    Under(&'a str),
}

impl SpaceSelector {
    /// Selects the one space with this id (S1).
    pub fn exact(id: impl AsRef<str>) -> Result<Self> {
        Ok(Self(Kind::Exact(SpaceId::parse(id)?)))
    }

    /// Selects the space `path` and everything below it: ids that equal `path`, or that continue it with a boundary. If
    /// `path` ends with a boundary, selects the ids that start with it (S3).
    ///
    /// This is the selector for tenancy: `under("guild-1")` never finds `guild-12`.
    pub fn under(path: impl AsRef<str>) -> Result<Self> {
        Ok(Self(Kind::Under(checked_pattern("path", path.as_ref())?.into())))
    }

    /// Selects the ids that start with these bytes (S2). **Leaks siblings**: `prefix("guild-1")` also finds `guild-12`;
    /// for tenancy use [`SpaceSelector::under`].
    pub fn prefix(prefix: impl AsRef<str>) -> Result<Self> {
        Ok(Self(Kind::Prefix(checked_pattern("prefix", prefix.as_ref())?.into())))
    }

    /// Selects the ids that match the whole pattern, with the syntax of SQLite's GLOB (S4): `*` any run, `?` one
    /// character, `[a-z]` and `[^a-z]` one character of a class, in which a `]` that comes first is literal. A class
    /// that isn't closed matches nothing.
    pub fn glob(pattern: impl AsRef<str>) -> Result<Self> {
        let pattern = checked_pattern("glob", pattern.as_ref())?;
        let regex = pattern::glob(pattern)?;
        let head = pattern.split(['*', '?', '[']).next().unwrap_or_default().into();
        Ok(Self(Kind::Glob { pattern: pattern.into(), regex, head }))
    }

    /// Selects the ids in which the expression finds a match, with the syntax and the linear time of the `regex` crate
    /// (S5). Anchor it with `^` and `$` to match whole ids.
    ///
    /// Compiling an untrusted expression may take many milliseconds: do it on a blocking thread, not on an executor's.
    pub fn regex(pattern: impl AsRef<str>) -> Result<Self> {
        let pattern = checked_pattern("regex", pattern.as_ref())?;
        let regex = pattern::regex(pattern)?;
        let head = pattern::anchored_head(pattern).into();
        Ok(Self(Kind::Regex { pattern: pattern.into(), regex, head }))
    }

    /// Returns the path that it names; `None` for a prefix or a pattern.
    pub(crate) fn place(&self) -> Option<SpacePlace<'_>> {
        match &self.0 {
            Kind::Exact(id) => Some(SpacePlace::Exact(id.as_str())),
            Kind::Under(path) => Some(SpacePlace::Under(path)),
            Kind::Prefix(_) | Kind::Glob { .. } | Kind::Regex { .. } => None,
        }
    }

    /// Returns whether it is compiled: a glob or a regular expression.
    pub(crate) fn is_pattern(&self) -> bool {
        matches!(self.0, Kind::Glob { .. } | Kind::Regex { .. })
    }

    /// Returns whether a space is in the set.
    pub fn matches(&self, space: &str) -> bool {
        match &self.0 {
            Kind::Exact(id) => id.as_str() == space,
            Kind::Under(path) => match space.strip_prefix(&**path) {
                Some(rest) => rest.is_empty() || rest.starts_with(BOUNDARIES) || path.ends_with(BOUNDARIES),
                None => false,
            },
            Kind::Prefix(prefix) => space.starts_with(&**prefix),
            Kind::Glob { regex, .. } => regex.as_ref().is_some_and(|regex| regex.is_match(space)),
            Kind::Regex { regex, .. } => regex.is_match(space),
        }
    }

    /// Returns where an engine looks: a range that contains every space of the set, and perhaps others.
    pub fn range(&self) -> SpaceRange<'_> {
        match &self.0 {
            Kind::Exact(id) => SpaceRange::Exact(id.as_str()),
            Kind::Under(path) => match path.strip_suffix(BOUNDARIES) {
                Some(ancestor) => SpaceRange::Below(ancestor),
                None => SpaceRange::Under(path),
            },
            Kind::Prefix(head) => range_of_head(head),
            Kind::Glob { regex: None, .. } => SpaceRange::Nowhere,
            Kind::Glob { head, pattern, .. } if head == pattern => SpaceRange::Exact(head),
            Kind::Glob { head, .. } | Kind::Regex { head, .. } => range_of_head(head),
        }
    }
}

impl fmt::Display for SpaceSelector {
    /// Writes the kind and the pattern. Two selectors with the same output are equal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, text) = match &self.0 {
            Kind::Exact(id) => ("exact", id.as_str()),
            Kind::Under(path) => ("under", path.as_ref()),
            Kind::Prefix(prefix) => ("prefix", prefix.as_ref()),
            Kind::Glob { pattern, .. } => ("glob", pattern.as_ref()),
            Kind::Regex { pattern, .. } => ("regex", pattern.as_ref()),
        };
        // Cursors depend on this output, so the pattern is quoted as JSON, which does not vary with the compiler.
        write!(f, "{kind}({})", serde_json::Value::from(text))
    }
}

impl PartialEq for SpaceSelector {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

/// The JSON form of a selector.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Written {
    Exact(String),
    Under(String),
    Prefix(String),
    Glob(String),
    Regex(String),
}

impl TryFrom<Written> for SpaceSelector {
    type Error = Error;

    fn try_from(written: Written) -> Result<Self> {
        match written {
            Written::Exact(id) => Self::exact(id),
            Written::Under(path) => Self::under(path),
            Written::Prefix(prefix) => Self::prefix(prefix),
            Written::Glob(pattern) => Self::glob(pattern),
            Written::Regex(pattern) => Self::regex(pattern),
        }
    }
}

impl From<SpaceSelector> for Written {
    fn from(selector: SpaceSelector) -> Self {
        match selector.0 {
            Kind::Exact(id) => Self::Exact(id.into()),
            Kind::Under(path) => Self::Under(path.into()),
            Kind::Prefix(prefix) => Self::Prefix(prefix.into()),
            Kind::Glob { pattern, .. } => Self::Glob(pattern.into()),
            Kind::Regex { pattern, .. } => Self::Regex(pattern.into()),
        }
    }
}

/// The spaces that a query searches. No empty form can mean "everything" by accident (Q1).
#[derive(Debug, Clone, PartialEq)]
pub enum Spaces {
    /// Every space, requested explicitly.
    All,
    /// The union of these selectors; never empty in a query that was built.
    Any(Vec<SpaceSelector>),
}

impl Spaces {
    /// Returns whether a space is in the union.
    pub fn matches(&self, space: &str) -> bool {
        match self {
            Self::All => true,
            Self::Any(selectors) => selectors.iter().any(|selector| selector.matches(space)),
        }
    }

    /// Returns whether an engine finds these spaces without examining others: at most 64 selectors, each *exact* or
    /// *under* (L8).
    pub(crate) fn are_light(&self) -> bool {
        match self {
            Self::All => true,
            Self::Any(selectors) => {
                let is_place = |selector: &SpaceSelector| matches!(selector.0, Kind::Exact(_) | Kind::Under(_));
                selectors.len() <= MAX_LIGHT_SELECTORS && selectors.iter().all(is_place)
            }
        }
    }
}

impl From<SpaceSelector> for Spaces {
    fn from(selector: SpaceSelector) -> Self {
        Self::Any(vec![selector])
    }
}

impl From<Vec<SpaceSelector>> for Spaces {
    fn from(selectors: Vec<SpaceSelector>) -> Self {
        Self::Any(selectors)
    }
}

impl fmt::Display for Spaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Any(selectors) => selectors.iter().try_for_each(|selector| write!(f, "{selector};")),
        }
    }
}

fn range_of_head(head: &str) -> SpaceRange<'_> {
    match head.strip_suffix(BOUNDARIES) {
        Some(ancestor) => SpaceRange::Below(ancestor),
        None if head.is_empty() => SpaceRange::Everywhere,
        None => SpaceRange::Prefix(head),
    }
}

fn checked_pattern<'a>(what: &str, pattern: &'a str) -> Result<&'a str> {
    if pattern.is_empty() {
        return Err(Error::invalid(format!("an empty {what} finds nothing; ask for all spaces by name")));
    }
    if pattern.len() > MAX_PATTERN {
        return Err(Error::invalid(format!("a {what} of {} bytes; at most {MAX_PATTERN} are allowed", pattern.len())));
    }
    Ok(pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_is_written_as_one_member() {
        for json in
            [r#"{"exact":"a-1"}"#, r#"{"under":"a"}"#, r#"{"prefix":"a"}"#, r#"{"glob":"a*"}"#, r#"{"regex":"^a"}"#]
        {
            let selector: SpaceSelector = serde_json::from_str(json).expect(json);
            assert_eq!(serde_json::to_string(&selector).expect(json), json);
        }
        for json in [r#"{"under":""}"#, r#"{"regex":"("}"#, r#"{"exact":"\n"}"#, r#"{"below":"a"}"#, "{}", r#""a""#] {
            assert!(serde_json::from_str::<SpaceSelector>(json).is_err(), "{json}");
        }
    }
}
