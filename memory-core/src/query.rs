//! Queries: one type for the ledger and for documents.

mod builder;

use std::collections::BTreeSet;
use std::fmt;

use sha2::{Digest, Sha256};

use crate::cursor::Fingerprint;
use crate::filter::{Filter, RecordSource};
use crate::{Collection, MemoryId, Spaces, Status, Timestamp};

pub use builder::QueryBuilder;

/// A query of the ledger.
///
/// ```
/// use memory_core::{MemoryQuery, Status};
///
/// let query = MemoryQuery::builder()
///     .under("plugin-discord-42")
///     .status(Status::Completed)
///     .filter_text("metadata.topic = 'rust'")
///     .limit(20)
///     .build()?;
/// # Ok::<(), memory_core::Error>(())
/// ```
pub type MemoryQuery = Query<Ledger>;

/// A query of one collection of documents.
pub type DocumentQuery = Query<Documents>;

/// Selects records by spaces, bounds, filter and text, and sets order and page size.
///
/// Only a [`QueryBuilder`] makes one, so every query is valid.
#[derive(Debug, Clone)]
pub struct Query<K> {
    pub(crate) spaces: Spaces,
    pub(crate) within: Option<Spaces>,
    pub(crate) filter: Option<Filter>,
    pub(crate) text: Option<String>,
    /// The distinct words of `text`, lower-cased.
    pub(crate) words: BTreeSet<String>,
    pub(crate) order: Order,
    pub(crate) limit: usize,
    pub(crate) offset: usize,
    pub(crate) cursor: Option<String>,
    /// Maximum bytes of the records on a page; the first record always fits.
    pub(crate) page_bytes: usize,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) of: K,
}

/// Conditions that only a query of the ledger has.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    pub(crate) created_after: Option<Timestamp>,
    pub(crate) created_before: Option<Timestamp>,
    pub(crate) statuses: BTreeSet<Status>,
    pub(crate) exclude: BTreeSet<MemoryId>,
}

/// What only a query of documents has.
#[derive(Debug, Clone)]
pub struct Documents {
    pub(crate) collection: Collection,
}

/// The order of records: by (createdAt, bytes of the id), the same on every engine (Q4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Order {
    /// The latest createdAt first.
    #[default]
    NewestFirst,
    /// The earliest createdAt first.
    OldestFirst,
}

impl Order {
    /// Returns the value for this order.
    pub fn choose<T>(self, newest_first: T, oldest_first: T) -> T {
        match self {
            Self::NewestFirst => newest_first,
            Self::OldestFirst => oldest_first,
        }
    }
}

/// Maximum number of records on a page (Q5).
pub const MAX_LIMIT: usize = 1_000;
/// Number of records on a page if the query sets none (Q5).
pub const DEFAULT_LIMIT: usize = 50;
/// Maximum offset (Q5).
pub const MAX_OFFSET: usize = 10_000;
/// Maximum bytes of the texts on a page; the first record always fits (Q5).
pub const MAX_PAGE_BYTES: usize = 16 << 20;
/// Maximum length of a query's text, in bytes (T2).
pub const MAX_TEXT: usize = 16 << 10;
/// Maximum number of distinct words in a query's text (T2).
pub const MAX_WORDS: usize = 256;
/// Maximum number of selectors that a query names, and of those in its `within` (Q1).
pub const MAX_SELECTORS: usize = 1_000;
/// Maximum number of globs and regexes among the selectors that a query names (Q1): compiling one may take 1 MiB and
/// some milliseconds.
pub const MAX_PATTERNS: usize = 32;
/// Maximum number of memories that a query excludes (Q7).
pub const MAX_EXCLUDED: usize = 10_000;
/// Maximum number of records, skipped and excluded ones included, of a page that needs no permit (L8).
const MAX_LIGHT_RECORDS: usize = 200;

impl<K> Query<K> {
    /// Returns the spaces that it searches.
    pub fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    /// Returns the spaces to which the host confines the query, if any.
    pub fn within(&self) -> Option<&Spaces> {
        self.within.as_ref()
    }

    /// Returns the condition that records must satisfy, if any.
    pub fn filter(&self) -> Option<&Filter> {
        self.filter.as_ref()
    }

    /// Returns the raw text whose words are searched, if any.
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Returns the order of the records.
    pub fn order(&self) -> Order {
        self.order
    }

    /// Returns the maximum number of records on a page.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Returns the cursor at which the page begins, still sealed. [`PageBuilder`](crate::PageBuilder) opens it.
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }
}

impl<K: Kind> Query<K> {
    /// Returns whether it asks for less than all spaces.
    pub(crate) fn names_places(&self) -> bool {
        std::iter::once(&self.spaces).chain(&self.within).any(|spaces| !matches!(spaces, Spaces::All))
    }

    /// Returns whether the page is empty without reading anything.
    pub(crate) fn finds_nothing(&self) -> bool {
        self.limit == 0 || self.has_no_word()
    }

    /// Returns whether its text has no word; such a text matches nothing (T2).
    pub(crate) fn has_no_word(&self) -> bool {
        self.text.is_some() && self.words.is_empty()
    }

    /// Returns whether matching needs more than the head of a record.
    pub(crate) fn has_conditions(&self) -> bool {
        self.filter.is_some() || self.text.is_some()
    }

    /// Returns whether the page may cost much more than a short one, so that the call takes a permit (L8). Decided from
    /// the query alone: it is light if nearly every candidate is on the page.
    pub(crate) fn is_heavy(&self) -> bool {
        let spaces = std::iter::once(&self.spaces).chain(&self.within);
        let is_light = !self.has_conditions()
            && spaces.into_iter().all(Spaces::are_light)
            && self.of.left_out().is_some_and(|left_out| self.limit + self.offset + left_out <= MAX_LIGHT_RECORDS);
        !self.finds_nothing() && !is_light
    }
}

impl Query<Ledger> {
    /// Returns the exclusive lower bound of createdAt, if any (Q2).
    pub fn created_after(&self) -> Option<Timestamp> {
        self.of.created_after
    }

    /// Returns the exclusive upper bound of createdAt, if any (Q2).
    pub fn created_before(&self) -> Option<Timestamp> {
        self.of.created_before
    }

    /// Returns the accepted statuses; empty for all.
    pub fn statuses(&self) -> &BTreeSet<Status> {
        &self.of.statuses
    }
}

impl Query<Documents> {
    /// Returns the collection that it searches.
    pub fn collection(&self) -> &Collection {
        &self.of.collection
    }
}

/// The part of a query that differs between the ledger and documents. Sealed.
pub trait Kind: fmt::Debug + sealed::Sealed {
    /// The source whose fields a filter may name.
    const SOURCE: RecordSource;

    /// Returns how many candidates in its spaces the query passes over at most; `None` if that can't be bounded.
    fn left_out(&self) -> Option<usize>;

    /// Describes the conditions that only this kind has, for the fingerprint. Cursors outlive the program, so the text
    /// must be the same in every version.
    fn describe(&self) -> String;
}

impl Ledger {
    /// Returns whether it accepts every memory.
    pub(crate) fn is_unconditional(&self) -> bool {
        let Self { created_after, created_before, statuses, exclude } = self;
        created_after.is_none() && created_before.is_none() && statuses.is_empty() && exclude.is_empty()
    }
}

impl Kind for Ledger {
    const SOURCE: RecordSource = RecordSource::Ledger;

    fn left_out(&self) -> Option<usize> {
        // Engines index open memories by status (Q9), and scan for memories of any other status.
        self.statuses.iter().all(|status| status.is_open()).then_some(self.exclude.len())
    }

    fn describe(&self) -> String {
        let millis = |time: Option<Timestamp>| time.map(|time| time.to_string()).unwrap_or_default();
        let (after, before) = (millis(self.created_after), millis(self.created_before));
        let statuses: Vec<_> = self.statuses.iter().map(|status| status.as_str()).collect();
        let excluded: Vec<_> = self.exclude.iter().map(MemoryId::to_string).collect();
        format!("ledger;{after};{before};{};{}", statuses.join(","), excluded.join(","))
    }
}

impl Kind for Documents {
    const SOURCE: RecordSource = RecordSource::Documents;

    fn left_out(&self) -> Option<usize> {
        Some(0)
    }

    fn describe(&self) -> String {
        format!("documents;{}", self.collection)
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Ledger {}
    impl Sealed for super::Documents {}
}

impl<K: Kind> Query<K> {
    /// Hashes everything that decides which records match and in which order, so that a cursor belongs to its query
    /// (Q6).
    fn fingerprint_of_parts(&self) -> Fingerprint {
        let parts = [
            self.of.describe(),
            self.spaces.to_string(),
            self.within.as_ref().map(Spaces::to_string).unwrap_or_default(),
            self.filter.as_ref().map(Filter::to_string).unwrap_or_default(),
            self.order.choose("newest", "oldest").to_owned(),
        ];
        let mut hash = Sha256::new();
        for part in &parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        // Added only for a query with a text, so that cursors of other queries stay valid.
        if self.text.is_some() {
            for word in &self.words {
                hash.update((word.len() as u64).to_be_bytes());
                hash.update(word);
            }
            hash.update([1]);
        }
        Fingerprint(hash.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::MAX_LIGHT_SELECTORS;
    use crate::{ErrorKind, SpaceSelector};

    fn kind(builder: QueryBuilder<Ledger>) -> Option<ErrorKind> {
        builder.build().err().map(|error| error.kind())
    }

    #[test]
    fn selectors_are_counted_before_they_are_made() {
        let patterns = |count| (1..count).fold(MemoryQuery::builder().glob("a*"), |query, _| query.regex("a"));
        assert_eq!(kind(patterns(MAX_PATTERNS)), None);
        // The one too many is not looked at.
        assert_eq!(kind(patterns(MAX_PATTERNS).regex("(")), Some(ErrorKind::TooLarge));
        assert_eq!(kind(patterns(MAX_PATTERNS).glob("")), Some(ErrorKind::TooLarge));
        let exact = |count: usize| (0..count).fold(MemoryQuery::builder(), |query, _| query.exact("a"));
        assert_eq!(kind(exact(MAX_SELECTORS)), None);
        assert_eq!(kind(exact(MAX_SELECTORS).exact("")), Some(ErrorKind::TooLarge));
    }

    #[test]
    fn a_query_tells_its_cursor() {
        let query = |builder: QueryBuilder<Ledger>| builder.all().build().expect("valid");
        assert_eq!(query(MemoryQuery::builder()).cursor(), None);
        assert_eq!(query(MemoryQuery::builder().cursor("sealed")).cursor(), Some("sealed"));
    }

    #[test]
    fn spaces_must_be_named() {
        assert_eq!(kind(MemoryQuery::builder()), Some(ErrorKind::InvalidInput));
        assert_eq!(kind(MemoryQuery::builder().all().exact("a")), Some(ErrorKind::InvalidInput));
        assert_eq!(kind(MemoryQuery::builder().all().within(Vec::new())), Some(ErrorKind::InvalidInput));
        assert_eq!(kind(MemoryQuery::builder().all()), None);
    }

    #[test]
    fn a_short_page_of_few_places_is_light() {
        let is_heavy = |builder: QueryBuilder<Ledger>| builder.build().expect("valid").is_heavy();
        let (all, under) = (|| MemoryQuery::builder().all(), || MemoryQuery::builder().under("a"));
        let within = |count| vec![SpaceSelector::under("a").expect("valid"); count];
        for light in [
            all(),
            under().exact("b").within(within(MAX_LIGHT_SELECTORS)).order(Order::OldestFirst),
            all().limit(MAX_LIGHT_RECORDS - 1).exclude(MemoryId::from_bytes([0; 16])),
            under().status(Status::Pending).created_after(Timestamp::MIN),
            all().filter_text("id = 'x'").limit(0),
        ] {
            assert!(!is_heavy(light.clone()), "{light:?}");
        }
        for heavy in [
            under().filter_text("id = 'x'"),
            under().text("x"),
            MemoryQuery::builder().prefix("a"),
            MemoryQuery::builder().glob("a*"),
            under().within(SpaceSelector::regex("^a").expect("valid")),
            under().within(within(MAX_LIGHT_SELECTORS + 1)),
            all().status(Status::Completed),
            all().limit(MAX_LIGHT_RECORDS).offset(1),
        ] {
            assert!(is_heavy(heavy.clone()), "{heavy:?}");
        }
    }

    #[test]
    fn bounds_hold_at_the_limit_and_one_over() {
        assert_eq!(kind(MemoryQuery::builder().all().limit(MAX_LIMIT).offset(MAX_OFFSET)), None);
        assert_eq!(kind(MemoryQuery::builder().all().limit(MAX_LIMIT + 1)), Some(ErrorKind::InvalidInput));
        assert_eq!(kind(MemoryQuery::builder().all().offset(MAX_OFFSET + 1)), Some(ErrorKind::InvalidInput));
        assert_eq!(kind(MemoryQuery::builder().all().offset(1).cursor("x")), Some(ErrorKind::InvalidInput));
    }

    #[test]
    fn words_are_counted_once_each() {
        let words = |count: usize| (0..count).map(|word| format!("w{word} W{word} ")).collect::<String>();
        assert_eq!(kind(MemoryQuery::builder().all().text(words(MAX_WORDS))), None);
        assert_eq!(kind(MemoryQuery::builder().all().text(words(MAX_WORDS + 1))), Some(ErrorKind::TooLarge));
        let long = |bytes: usize| MemoryQuery::builder().all().text("x".repeat(bytes));
        assert_eq!((kind(long(MAX_TEXT)), kind(long(MAX_TEXT + 1))), (None, Some(ErrorKind::TooLarge)));
    }

    #[test]
    fn selectors_and_excluded_ids_are_counted() {
        let selectors = |count: usize| {
            let exact = |number| SpaceSelector::exact(format!("a-{number}")).expect("a valid id");
            (0..count).map(exact).collect::<Vec<_>>()
        };
        let union = |count| selectors(count).into_iter().fold(MemoryQuery::builder(), QueryBuilder::selector);
        let within = |count| MemoryQuery::builder().all().within(selectors(count));
        assert_eq!(kind(union(MAX_SELECTORS).within(selectors(MAX_SELECTORS))), None);
        assert_eq!(kind(union(MAX_SELECTORS + 1)), Some(ErrorKind::TooLarge));
        assert_eq!(kind(within(MAX_SELECTORS + 1)), Some(ErrorKind::TooLarge));
        let ids = |count: usize| (0..count as u128).map(|number| MemoryId::from_bytes(number.to_be_bytes()));
        let excluding = |count| ids(count).fold(MemoryQuery::builder().all(), QueryBuilder::exclude);
        assert_eq!(kind(excluding(MAX_EXCLUDED).exclude(MemoryId::from_bytes([0; 16]))), None, "one of them twice");
        assert_eq!(kind(excluding(MAX_EXCLUDED + 1)), Some(ErrorKind::TooLarge));
    }

    /// A cursor that another version of the program gave goes on here.
    #[test]
    fn fingerprints_stay_as_they_are() {
        let time = |millis| Timestamp::from_millis(millis).expect("in range");
        let memories = MemoryQuery::builder()
            .under("guild-1")
            .glob("a*")
            .within(SpaceSelector::prefix("g").expect("a valid prefix"))
            .filter_text("metadata.topic = 'rust' AND createdAt > 5")
            .order(Order::OldestFirst)
            .created_after(time(-1))
            .created_before(time(1_000))
            .status(Status::Running)
            .status(Status::Completed)
            .exclude(MemoryId::from_bytes([1; 16]))
            .exclude(MemoryId::from_bytes([2; 16]))
            .build()
            .expect("a valid query");
        assert_eq!(memories.fingerprint.0[..6], [0x5a, 0x0a, 0x08, 0x36, 0x10, 0x41]);
        let notes = Collection::parse("notes").expect("a valid name");
        let documents = DocumentQuery::builder(notes).all().build().expect("a valid query");
        assert_eq!(documents.fingerprint.0[..6], [0xec, 0x1c, 0xc3, 0x1c, 0x9a, 0x53]);
        let of_text =
            |text: &str| MemoryQuery::builder().all().text(text).build().expect("a valid query").fingerprint.0;
        assert_eq!(of_text("b, A"), of_text("a b"), "the same words");
        assert_ne!(of_text("ab"), of_text("a b"));
        assert_ne!(of_text(""), MemoryQuery::builder().all().build().expect("a valid query").fingerprint.0);
    }

    #[test]
    fn the_first_mistake_comes_out() {
        let error = MemoryQuery::builder().under("").regex("(").build().expect_err("two mistakes");
        assert!(error.message().contains("empty path"), "{error}");
    }
}
