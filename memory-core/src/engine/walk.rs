//! Walks: the candidates that a session offers, and their order.

use crate::page::{Head, Selects, Verdict};
use crate::{BOUNDARIES, Document, Memory, Order, Result, Status, Timestamp};

/// A walk over candidates in the order (createdAt, id).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walk<'w> {
    /// The candidates. An engine may offer other records too; the matcher decides.
    pub source: Source<'w>,
    /// The order in which candidates are offered.
    pub order: Order,
    /// Exclusive lower bound of createdAt.
    pub created_after: Option<Timestamp>,
    /// Exclusive upper bound of createdAt.
    pub created_before: Option<Timestamp>,
    /// Only records after this one in the order.
    pub behind: Option<&'w Mark>,
    /// Approximate number of candidates wanted. An engine offers at least one if there is one. An engine that reads
    /// ahead for free may continue until it is stopped, unless `is_shared`.
    pub count: usize,
    /// Whether other walks take turns with this one, so that it must return after about `count` candidates.
    pub is_shared: bool,
    /// Whether the visitor reads only heads, so that an engine need not read payloads.
    pub is_for_heads: bool,
    /// Whether the visitor also reads vectors, even if it reads only heads otherwise.
    pub has_vectors: bool,
}

/// The candidates of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source<'w> {
    /// All records.
    Everything,
    /// Memories with one of these open statuses; at least one status.
    Open(&'w [Status]),
    /// Records in any of these places: at least one, at most [`Reader::PLACES`](super::Reader::PLACES). No place lies
    /// inside another.
    Places(&'w [Place]),
}

/// A range of the path index.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// The space with this id.
    Space(String),
    /// The spaces that have this ancestor, which may be empty.
    Below(String),
}

/// A position in the order (createdAt, id); a damaged row has one too.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// The creation time, in milliseconds since 1970.
    pub millis: i64,
    /// The bytes of the id.
    pub id: Vec<u8>,
}

/// A stored row that a session offers.
pub trait Row<K: Selects> {
    /// Returns the fields that are known before the payload is read. `Corrupt` if they are damaged.
    fn head(&self) -> Result<Head<'_>>;
    /// Reads the whole record, given its head. `Corrupt` if it is damaged.
    fn read(&self, head: &Head<'_>) -> Result<K::Record>;
    /// Returns the id, as far as it is readable, for the report of a damaged row (Q8): [`shown_id`] of its bytes.
    fn id(&self) -> String;
    /// Returns the record's stored vector, if it has one and [`Walk::has_vectors`] is set.
    fn vector(&self) -> Result<Option<&[u8]>> {
        Ok(None)
    }
}

/// Formats the bytes of an id, or `unknown` if they can't be read.
pub fn shown_id<K: Selects>(id: Result<&[u8]>) -> String {
    id.map_or_else(|_| "unknown".to_owned(), K::shown_id)
}

/// The visitor that looks at each offered row. The session stops at [`Verdict::Stop`].
pub type Visit<'v, K> = dyn FnMut(&dyn Row<K>) -> Result<Verdict> + Send + 'v;

impl Walk<'_> {
    /// A walk over everything at once, newest first.
    pub const EVERYTHING: Self = Self {
        source: Source::Everything,
        order: Order::NewestFirst,
        created_after: None,
        created_before: None,
        behind: None,
        count: usize::MAX,
        is_shared: false,
        is_for_heads: false,
        has_vectors: false,
    };

    /// Returns whether the source contains a memory.
    pub fn wants(&self, memory: &Memory) -> bool {
        match self.source {
            Source::Everything => true,
            Source::Open(statuses) => statuses.contains(&memory.status),
            Source::Places(places) => places.iter().any(|place| place.holds(memory.space_id.as_str())),
        }
    }

    /// Returns whether the source contains a document of the walked collection.
    pub fn wants_document(&self, document: &Document) -> bool {
        match self.source {
            Source::Everything => true,
            // Documents have no status.
            Source::Open(_) => false,
            Source::Places(places) => places.iter().any(|place| place.holds(document.space_id.as_str())),
        }
    }
}

impl Place {
    /// Returns the sibling that contains a space starting with `prefix`, as
    /// [`Reader::siblings`](super::Reader::siblings) lists them; `None` if the space does not start with it.
    pub fn sibling(prefix: &str, space: &str) -> Option<Self> {
        let rest = space.strip_prefix(prefix)?;
        Some(match rest.find(BOUNDARIES) {
            Some(end) => Self::Below(space[..prefix.len() + end].to_owned()),
            None => Self::Space(space.to_owned()),
        })
    }

    /// Returns the lowest text after all spaces that equal this one up to and including the first boundary after
    /// `prefix`; after this space itself if no boundary follows.
    pub fn behind_sibling(prefix: &str, space: &str) -> String {
        let end = space.get(prefix.len()..).and_then(|rest| rest.find(BOUNDARIES));
        match end.map(|end| space.split_at(prefix.len() + end)) {
            Some((path, rest)) => format!("{path}{}", char::from(rest.as_bytes()[0] + 1)),
            None => Self::behind_space(space),
        }
    }

    /// Returns the lowest text after a space or path, given that none holds a control character.
    pub fn behind_space(space: &str) -> String {
        format!("{space}\u{1}")
    }

    /// Returns the path of the place.
    pub fn path(&self) -> &str {
        let (Self::Space(path) | Self::Below(path)) = self;
        path
    }

    /// Returns whether a space lies in this place.
    pub fn holds(&self, space: &str) -> bool {
        match self {
            Self::Space(id) => space == id,
            Self::Below(path) => space.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with(BOUNDARIES)),
        }
    }
}
