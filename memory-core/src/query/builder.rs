//! The builder of queries, which checks their limits.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{
    DEFAULT_LIMIT, Documents, Kind, Ledger, MAX_EXCLUDED, MAX_LIMIT, MAX_OFFSET, MAX_PAGE_BYTES, MAX_PATTERNS,
    MAX_SELECTORS, MAX_TEXT, MAX_WORDS, Order, Query,
};
use crate::cursor::Fingerprint;
use crate::filter::{Filter, RecordSource};
use crate::{Collection, Error, MemoryId, Result, SpaceSelector, Spaces, Status, Timestamp, words};

/// Builds a [`Query`]. Keeps the first mistake, which `build` returns.
#[derive(Debug, Clone)]
pub struct QueryBuilder<K> {
    all: bool,
    selectors: Vec<SpaceSelector>,
    within: Option<Spaces>,
    filter: Option<Filter>,
    text: Option<String>,
    order: Order,
    limit: usize,
    offset: usize,
    cursor: Option<String>,
    of: K,
    // The first mistake, which `build` returns.
    mistake: Option<Arc<Error>>,
}

impl<K: Kind> QueryBuilder<K> {
    fn new(of: K) -> Self {
        Self {
            all: false,
            selectors: Vec::new(),
            within: None,
            filter: None,
            text: None,
            order: Order::default(),
            limit: DEFAULT_LIMIT,
            offset: 0,
            cursor: None,
            of,
            mistake: None,
        }
    }

    /// Selects every space (Q1).
    #[must_use]
    pub fn all(mut self) -> Self {
        self.all = true;
        self
    }

    /// Adds the spaces of this selector; a query takes at most [`MAX_SELECTORS`], of which at most [`MAX_PATTERNS`] are
    /// globs and regexes.
    #[must_use]
    pub fn selector(self, selector: SpaceSelector) -> Self {
        self.checked_selector(selector.is_pattern(), || Ok(selector))
    }

    /// Adds the space with this id: see [`SpaceSelector::exact`].
    #[must_use]
    pub fn exact(self, id: impl AsRef<str>) -> Self {
        self.checked_selector(false, || SpaceSelector::exact(id))
    }

    /// Adds this space and everything below it: see [`SpaceSelector::under`].
    #[must_use]
    pub fn under(self, path: impl AsRef<str>) -> Self {
        self.checked_selector(false, || SpaceSelector::under(path))
    }

    /// Adds the spaces that start with these bytes: see [`SpaceSelector::prefix`].
    #[must_use]
    pub fn prefix(self, prefix: impl AsRef<str>) -> Self {
        self.checked_selector(false, || SpaceSelector::prefix(prefix))
    }

    /// Adds the spaces that match this pattern: see [`SpaceSelector::glob`].
    #[must_use]
    pub fn glob(self, pattern: impl AsRef<str>) -> Self {
        self.checked_selector(true, || SpaceSelector::glob(pattern))
    }

    /// Adds the spaces that match this expression: see [`SpaceSelector::regex`].
    #[must_use]
    pub fn regex(self, pattern: impl AsRef<str>) -> Self {
        self.checked_selector(true, || SpaceSelector::regex(pattern))
    }

    /// Confines the query to these spaces, whatever else it selects; at most [`MAX_SELECTORS`].
    #[must_use]
    pub fn within(mut self, spaces: impl Into<Spaces>) -> Self {
        self.within = Some(spaces.into());
        self
    }

    /// Requires that records satisfy this filter (Q3). Replaces an earlier one.
    #[must_use]
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = Some(filter);
        self
    }

    /// Requires that records satisfy this filter, written as a predicate: see [`Filter::parse`]. Replaces an earlier
    /// one.
    #[must_use]
    pub fn filter_text(mut self, predicate: &str) -> Self {
        match Filter::parse(predicate) {
            Ok(filter) => self.filter = Some(filter),
            Err(error) => self.keep(error),
        }
        self
    }

    /// Requires that records hold at least one word of this text (T2): at most [`MAX_TEXT`] bytes and [`MAX_WORDS`]
    /// distinct words. A text without a word matches nothing.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// Sets the order; newest first by default.
    #[must_use]
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// Sets the maximum number of records on a page: 50 by default, 0 for an empty page, [`MAX_LIMIT`] at most.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Skips this many matching records, [`MAX_OFFSET`] at most. Can't be combined with a cursor.
    #[must_use]
    pub fn offset(mut self, offset: usize) -> Self {
        self.offset = offset;
        self
    }

    /// Continues where a page of the same query ended. The provider refuses a cursor of another query or namespace as
    /// `InvalidInput` (Q6).
    #[must_use]
    pub fn cursor(mut self, cursor: impl AsRef<str>) -> Self {
        self.cursor = Some(cursor.as_ref().to_owned());
        self
    }

    /// Returns the query, or the first mistake: `InvalidInput`, or `TooLarge` over a limit of selectors, filter, text
    /// or excluded ids.
    pub fn build(self) -> Result<Query<K>> {
        self.build_for(&[K::SOURCE])
    }

    /// Builds a query for several sources; the filter may name only fields that all of them have.
    pub(crate) fn build_for(self, sources: &[RecordSource]) -> Result<Query<K>> {
        if let Some(mistake) = self.mistake {
            return Err(Arc::try_unwrap(mistake).unwrap_or_else(|shared| Error::new(shared.kind(), shared.message())));
        }
        let spaces = match (self.all, self.selectors.is_empty()) {
            (true, true) => Spaces::All,
            (false, false) => Spaces::Any(self.selectors),
            (false, true) => return Err(Error::invalid("a query must name its spaces, or ask for all of them")),
            (true, false) => return Err(Error::invalid("a query asks for all spaces or names some, not both")),
        };
        if matches!(&self.within, Some(Spaces::Any(selectors)) if selectors.is_empty()) {
            return Err(Error::invalid("the caller may read no space"));
        }
        match &self.within {
            Some(Spaces::Any(selectors)) if selectors.len() > MAX_SELECTORS => {
                return Err(too_many("selectors", MAX_SELECTORS));
            }
            _ => {}
        }
        if self.limit > MAX_LIMIT {
            return Err(Error::invalid(format!("a limit of {}; at most {MAX_LIMIT} are allowed", self.limit)));
        }
        if self.offset > MAX_OFFSET {
            return Err(Error::invalid(format!("an offset of {}; at most {MAX_OFFSET} are allowed", self.offset)));
        }
        if self.cursor.is_some() && self.offset > 0 {
            return Err(Error::invalid("offset and cursor can't be combined: leave one out"));
        }
        let mut words = BTreeSet::new();
        if let Some(text) = &self.text {
            if text.len() > MAX_TEXT {
                return Err(Error::too_large(format!(
                    "a text of {} bytes; at most {MAX_TEXT} are allowed",
                    text.len()
                )));
            }
            words = words::distinct(text);
            if words.len() > MAX_WORDS {
                let count = words.len();
                return Err(Error::too_large(format!(
                    "a text of {count} distinct words; at most {MAX_WORDS} are allowed"
                )));
            }
        }
        if let Some(filter) = &self.filter {
            sources.iter().try_for_each(|source| filter.check(*source))?;
        }
        let mut query = Query {
            spaces,
            within: self.within,
            filter: self.filter,
            text: self.text,
            words,
            order: self.order,
            limit: self.limit,
            offset: self.offset,
            cursor: self.cursor,
            page_bytes: MAX_PAGE_BYTES,
            fingerprint: Fingerprint::default(),
            of: self.of,
        };
        query.fingerprint = query.fingerprint_of_parts();
        Ok(query)
    }

    /// Checks the counts before it makes the selector, because making a pattern compiles it (Q1).
    fn checked_selector(mut self, is_pattern: bool, make: impl FnOnce() -> Result<SpaceSelector>) -> Self {
        if self.mistake.is_some() {
            return self;
        }
        if self.selectors.len() == MAX_SELECTORS {
            self.keep(too_many("selectors", MAX_SELECTORS));
            return self;
        }
        if is_pattern && self.selectors.iter().filter(|selector| selector.is_pattern()).count() == MAX_PATTERNS {
            self.keep(too_many("globs and regexes", MAX_PATTERNS));
            return self;
        }
        match make() {
            Ok(selector) => self.selectors.push(selector),
            Err(error) => self.keep(error),
        }
        self
    }

    fn keep(&mut self, error: Error) {
        self.mistake.get_or_insert_with(|| Arc::new(error));
    }
}

impl QueryBuilder<Ledger> {
    /// Requires createdAt later than this time (exclusive, Q2).
    #[must_use]
    pub fn created_after(mut self, time: Timestamp) -> Self {
        self.of.created_after = Some(time);
        self
    }

    /// Requires createdAt earlier than this time (exclusive, Q2).
    #[must_use]
    pub fn created_before(mut self, time: Timestamp) -> Self {
        self.of.created_before = Some(time);
        self
    }

    /// Adds an accepted status; repeated calls are ORed.
    #[must_use]
    pub fn status(mut self, status: Status) -> Self {
        self.of.statuses.insert(status);
        self
    }

    /// Excludes this memory (Q7); at most [`MAX_EXCLUDED`] in one query.
    #[must_use]
    pub fn exclude(mut self, id: MemoryId) -> Self {
        self.of.exclude.insert(id);
        if self.of.exclude.len() > MAX_EXCLUDED {
            self.keep(Error::too_large(format!("more than {MAX_EXCLUDED} memories to leave out")));
        }
        self
    }
}

fn too_many(what: &str, most: usize) -> Error {
    Error::too_large(format!("too many {what}; at most {most} are allowed"))
}

impl Query<Ledger> {
    /// Starts a query of the ledger.
    pub fn builder() -> QueryBuilder<Ledger> {
        QueryBuilder::new(Ledger::default())
    }
}

impl Query<Documents> {
    /// Starts a query of one collection.
    pub fn builder(collection: Collection) -> QueryBuilder<Documents> {
        QueryBuilder::new(Documents { collection })
    }
}
