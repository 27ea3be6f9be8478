//! The parameters, in parts that several paths share.

use std::collections::BTreeSet;

use memory_core::{
    Collection, DocumentId, Error, Kind, Ledger, MemoryId, Order, QueryBuilder, Recall, RecallOptions, Timestamp,
    WatchFrom,
};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::wire::memories::StatusName;
use crate::serve::watching::{WatchedName, begins};

/// How many hits a recall has unless the caller says otherwise.
const DEFAULT_HITS: usize = 10;

/// What the records hold.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct SearchParams {
    /// A condition, as in `metadata.topic = 'rust' AND text ILIKE '%birthday%'`.
    pub(crate) r#where: Option<String>,
    /// Words, of which a record must hold at least one.
    pub(crate) text: Option<String>,
}

/// When memories were created, and how far their tasks are.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct LedgerParams {
    /// Memories created after this time (exclusive), in milliseconds since 1970 UTC.
    #[param(minimum = -8_640_000_000_000_i64, maximum = 8_640_000_000_000_i64)]
    pub(super) after: Option<i64>,
    /// Memories created before this time (exclusive), in milliseconds since 1970 UTC.
    #[param(minimum = -8_640_000_000_000_i64, maximum = 8_640_000_000_000_i64)]
    pub(super) before: Option<i64>,
    /// Memories with this status. Repeat it to accept several.
    #[param(inline)]
    pub(super) status: Vec<StatusName>,
    /// Excludes the memory with this id.
    pub(super) exclude: Vec<String>,
}

/// What is asked in words, and how it is read.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct RecallParams {
    /// The question, of at most 16 KiB.
    #[param(required = true)]
    pub(super) text: Option<String>,
    /// Searches the documents of this collection instead of the ledger.
    #[param(pattern = "^[a-z0-9_-]{1,64}$")]
    pub(super) collection: Option<String>,
    /// A condition that every hit must satisfy, as in `metadata.topic = 'rust'`.
    pub(super) r#where: Option<String>,
    /// The limit of hits: 10 by default, at most 1,000.
    #[param(maximum = 1000)]
    pub(super) limit: Option<usize>,
    /// The number of records to show on each side of a hit in its container: 0 by default, at most 10.
    #[param(maximum = 10)]
    pub(super) neighbours: usize,
    /// Whether to show the terms that matched and the divisors of the scores.
    pub(super) explain: bool,
    /// The language of the question: `english`, `german` or another that the README lists, or `none`; by default that of the database.
    pub(super) language: Option<String>,
    /// What groups records into containers: `parent` (the space above, the default), `depth:N` (the first N segments) or `metadata:KEY`.
    pub(super) container: Option<String>,
    /// The metadata key that names the speaker; `speaker` by default.
    pub(super) speaker: Option<String>,
    /// Whether to search by meaning, too; by default if the server has an embedding model.
    pub(super) meaning: Option<bool>,
}

/// Which page of what was found.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageParams {
    #[param(inline)]
    order: Option<OrderParam>,
    /// The limit of the page: 50 by default, at most 1,000.
    #[param(maximum = 1000)]
    limit: Option<usize>,
    /// Skips this many records at the start, at most 10,000; not with a cursor.
    #[param(maximum = 10000)]
    offset: Option<usize>,
    /// `next` of an earlier page of the same query.
    cursor: Option<String>,
}

/// What is watched, and from where on.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct WatchParams {
    /// The kinds of records to watch; `memories` by default.
    #[param(inline)]
    pub(crate) of: WatchedName,
    /// Only documents of this collection. Repeat it to accept several; by default all that the caller may use.
    collection: Vec<String>,
    /// Where to begin: `now` (the default); `start`, with all existing records before the changes; or the `id` of an event of this watch.
    from: Option<String>,
}

/// How documents are removed. They satisfy all that is named; `all` alone removes nothing.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", default)]
#[into_params(parameter_in = Query)]
pub(crate) struct RemovalParams {
    /// The document with this id. Repeat it to remove several.
    id: Vec<String>,
    /// The limit of the removal: if more are found, none is removed. 10 by default, at most 10,000.
    #[param(maximum = 10000)]
    pub(crate) max: Option<usize>,
    /// Shows what would be removed, and removes nothing.
    pub(crate) dry_run: bool,
}

/// The collection in a path.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct CollectionPath {
    #[param(value_type = String, pattern = "^[a-z0-9_-]{1,64}$")]
    pub(crate) collection: Collection,
}

/// The document in a path, beside its collection.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct DocumentPath {
    #[param(value_type = String, pattern = "^[a-z0-9_-]{1,64}$")]
    pub(crate) collection: Collection,
    #[param(value_type = String, min_length = 1, max_length = 256)]
    pub(crate) id: DocumentId,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
enum OrderParam {
    Newest,
    Oldest,
}

impl From<OrderParam> for Order {
    fn from(order: OrderParam) -> Self {
        match order {
            OrderParam::Newest => Self::NewestFirst,
            OrderParam::Oldest => Self::OldestFirst,
        }
    }
}

impl SearchParams {
    pub(crate) fn apply<K: Kind>(&self, mut query: QueryBuilder<K>) -> QueryBuilder<K> {
        if let Some(predicate) = &self.r#where {
            query = query.filter_text(predicate);
        }
        match &self.text {
            Some(text) => query.text(text),
            None => query,
        }
    }
}

impl RecallParams {
    /// The collection that is asked, if it is not the ledger.
    pub(crate) fn collection(&self) -> memory_core::Result<Option<Collection>> {
        self.collection.as_deref().map(Collection::parse).transpose()
    }

    /// The question within the spaces of a query.
    pub(crate) fn recall<K: Kind>(&self, mut query: QueryBuilder<K>) -> memory_core::Result<Recall<K>> {
        if let Some(predicate) = &self.r#where {
            query = query.filter_text(predicate);
        }
        let query = query.limit(self.limit.unwrap_or(DEFAULT_HITS)).build()?;
        let mut options =
            RecallOptions { neighbours: self.neighbours, explain: self.explain, ..RecallOptions::default() };
        options.language = self.language.as_deref().map(str::parse).transpose()?;
        if let Some(container) = &self.container {
            options.container = container.parse()?;
        }
        if let Some(speaker) = &self.speaker {
            options.speaker = speaker.clone();
        }
        let question = self.text.as_deref().ok_or_else(|| Error::invalid("text is missing: give the question"))?;
        Recall::with(question, query, options)
    }
}

impl LedgerParams {
    /// Whether nothing is asked that only memories have.
    pub(crate) fn is_empty(&self) -> bool {
        self.after.is_none() && self.before.is_none() && self.status.is_empty() && self.exclude.is_empty()
    }

    pub(crate) fn apply(self, mut query: QueryBuilder<Ledger>) -> memory_core::Result<QueryBuilder<Ledger>> {
        if let Some(after) = self.after {
            query = query.created_after(Timestamp::from_millis(after)?);
        }
        if let Some(before) = self.before {
            query = query.created_before(Timestamp::from_millis(before)?);
        }
        for id in &self.exclude {
            query = query.exclude(MemoryId::parse(id)?);
        }
        Ok(self.status.into_iter().fold(query, |query, status| query.status(status.into())))
    }
}

impl PageParams {
    pub(crate) fn apply<K: Kind>(self, mut query: QueryBuilder<K>) -> QueryBuilder<K> {
        if let Some(order) = self.order {
            query = query.order(order.into());
        }
        if let Some(limit) = self.limit {
            query = query.limit(limit);
        }
        if let Some(offset) = self.offset {
            query = query.offset(offset);
        }
        match self.cursor {
            Some(cursor) => query.cursor(cursor),
            None => query,
        }
    }
}

impl WatchParams {
    pub(crate) fn collections(&self) -> memory_core::Result<BTreeSet<Collection>> {
        self.collection.iter().map(Collection::parse).collect()
    }

    /// Where it begins.
    pub(crate) fn begins(&self) -> WatchFrom {
        match self.from.as_deref() {
            None => WatchFrom::Now,
            Some(from) => begins(from),
        }
    }

    /// How much of the request says where it begins.
    pub(crate) fn bytes_of_begin(&self) -> usize {
        self.from.as_deref().map_or(0, str::len)
    }
}

impl RemovalParams {
    /// The ids, if some are named.
    pub(crate) fn ids(&self) -> memory_core::Result<Option<Vec<DocumentId>>> {
        let ids: Vec<_> = self.id.iter().map(DocumentId::parse).collect::<memory_core::Result<_>>()?;
        Ok((!ids.is_empty()).then_some(ids))
    }
}
