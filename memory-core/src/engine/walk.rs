//! Walks: where a session looks for candidates, and how it offers them.

use crate::page::{Head, Selects, Verdict};
use crate::{BOUNDARIES, Document, Memory, Order, Result, Status, Timestamp};

/// A part of a collection of records that an engine can go along in the order (createdAt, id).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walk<'w> {
    /// Which records are candidates. An engine may offer others too, since the matcher has the last word.
    pub source: Source<'w>,
    /// In which order they are offered.
    pub order: Order,
    /// Only records created after this, exclusively.
    pub created_after: Option<Timestamp>,
    /// Only records created before this, exclusively.
    pub created_before: Option<Timestamp>,
    /// Only records behind this one in the order.
    pub behind: Option<&'w Mark>,
    /// About how many candidates are wanted. An engine offers at least one if there is one. An engine that reads ahead at no cost may
    /// go on until it is stopped, unless `is_shared`.
    pub count: usize,
    /// Whether another walk waits for its turn, so that this one must return after about `count` candidates.
    pub is_shared: bool,
    /// Whether the visitor asks rows for their heads alone, so that an engine need not read payloads.
    pub is_for_heads: bool,
    /// Whether the visitor asks rows for their vectors, too, also where it asks for heads alone.
    pub has_vectors: bool,
}

/// Which records a walk goes along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source<'w> {
    /// All of them.
    Everything,
    /// Memories of these open statuses; at least one.
    Open(&'w [Status]),
    /// Records in any of these places; at least one, at most [`Reader::PLACES`](super::Reader::PLACES). None of them lies in another.
    Places(&'w [Place]),
}

/// A part of the path index.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// The space with this id.
    Space(String),
    /// The spaces that have this ancestor, which may be the empty one.
    Below(String),
}

/// A position in the order (createdAt, id), as the engine has it: of a damaged row too.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// When the record was created, in milliseconds since 1970.
    pub millis: i64,
    /// The bytes of its id.
    pub id: Vec<u8>,
}

/// A stored row that a session offers.
pub trait Row<K: Selects> {
    /// What can be told before the payload is read. `Corrupt` when it is damaged.
    fn head(&self) -> Result<Head<'_>>;
    /// The whole record, given its head. `Corrupt` when it is damaged.
    fn read(&self, head: &Head<'_>) -> Result<K::Record>;
    /// The id, as far as it can be read, to report a damaged row (Q8): [`shown_id`] of its bytes.
    fn id(&self) -> String;
    /// The vector that the record has, if it has one, where the walk is with vectors.
    fn vector(&self) -> Result<Option<&[u8]>> {
        Ok(None)
    }
}

/// How the bytes of an id are shown, if they can be read.
pub fn shown_id<K: Selects>(id: Result<&[u8]>) -> String {
    id.map_or_else(|_| "unknown".to_owned(), K::shown_id)
}

/// Who looks at each row that a session offers. The session stops at [`Verdict::Stop`].
pub type Visit<'v, K> = dyn FnMut(&dyn Row<K>) -> Result<Verdict> + Send + 'v;

impl Walk<'_> {
    /// Along everything in one go, newest first.
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

    /// Whether the source has memories like this one.
    pub fn wants(&self, memory: &Memory) -> bool {
        match self.source {
            Source::Everything => true,
            Source::Open(statuses) => statuses.contains(&memory.status),
            Source::Places(places) => places.iter().any(|place| place.holds(memory.space_id.as_str())),
        }
    }

    /// Whether the source has documents like this one, of the collection that is walked.
    pub fn wants_document(&self, document: &Document) -> bool {
        match self.source {
            Source::Everything => true,
            // Only memories have a status.
            Source::Open(_) => false,
            Source::Places(places) => places.iter().any(|place| place.holds(document.space_id.as_str())),
        }
    }
}

impl Place {
    /// The sibling in which a space lies that starts with `prefix`, as [`Reader::siblings`](super::Reader::siblings) tells them; `None` when
    /// it starts otherwise.
    pub fn sibling(prefix: &str, space: &str) -> Option<Self> {
        let rest = space.strip_prefix(prefix)?;
        Some(match rest.find(BOUNDARIES) {
            Some(end) => Self::Below(space[..prefix.len() + end].to_owned()),
            None => Self::Space(space.to_owned()),
        })
    }

    /// The lowest text behind a space that starts with `prefix`, and behind all other spaces that lie in its sibling by the same boundary.
    pub fn behind_sibling(prefix: &str, space: &str) -> String {
        let end = space.get(prefix.len()..).and_then(|rest| rest.find(BOUNDARIES));
        match end.map(|end| space.split_at(prefix.len() + end)) {
            Some((path, rest)) => format!("{path}{}", char::from(rest.as_bytes()[0] + 1)),
            None => Self::behind_space(space),
        }
    }

    /// The lowest text behind a space or a path. None of them holds a control character.
    pub fn behind_space(space: &str) -> String {
        format!("{space}\u{1}")
    }

    /// The path of the place.
    pub fn path(&self) -> &str {
        let (Self::Space(path) | Self::Below(path)) = self;
        path
    }

    /// Whether a space lies there.
    pub fn holds(&self, space: &str) -> bool {
        match self {
            Self::Space(id) => space == id,
            Self::Below(path) => space.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with(BOUNDARIES)),
        }
    }
}
