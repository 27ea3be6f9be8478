//! The parameters of queries.

use memory_core::{
    Collection, DocumentQuery, Documents, Ledger, MemoryId, MemoryQuery, Order, QueryBuilder, Result, Timestamp,
};
use memory_core::{DocumentId, Kind};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::wire::StatusName;

/// Which memories: at least one of `space`, `under`, `prefix`, `glob` and `regex` (their union), or `all`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
#[derive(Default)]
pub(crate) struct MemoryParams {
    /// The space with this id.
    space: Vec<String>,
    /// This space and all below it: the safe choice to keep tenants apart.
    under: Vec<String>,
    /// Spaces that start with these bytes; `guild1` also finds `guild12`.
    prefix: Vec<String>,
    /// Spaces that match a pattern of `*`, `?` and `[a-z]` as a whole.
    glob: Vec<String>,
    /// Spaces in which a regular expression finds something.
    regex: Vec<String>,
    /// Every space.
    all: bool,
    /// Created after this many milliseconds since 1970 UTC, exclusively.
    #[param(minimum = -8_640_000_000_000_i64, maximum = 8_640_000_000_000_i64)]
    after: Option<i64>,
    /// Created before this, exclusively.
    #[param(minimum = -8_640_000_000_000_i64, maximum = 8_640_000_000_000_i64)]
    before: Option<i64>,
    /// Of this status, or of another that is named.
    #[param(inline)]
    status: Vec<StatusName>,
    /// A condition, as in `metadata.topic = 'rust' AND text ILIKE '%birthday%'`.
    r#where: Option<String>,
    /// Words to look for, best first; needs a text index of the ledger. Goes without `order` and `cursor`.
    text: Option<String>,
    /// Leaves out this memory.
    exclude: Vec<String>,
    #[param(inline)]
    order: Option<OrderParam>,
    /// How many at most; 50 by default.
    #[param(maximum = 1000)]
    limit: Option<usize>,
    /// Leaves out this many at the start; not with a cursor.
    #[param(maximum = 10000)]
    offset: Option<usize>,
    /// `next` of an earlier page of the same query.
    cursor: Option<String>,
}

/// Which documents: at least one of `space`, `under`, `prefix`, `glob` and `regex` (their union), or `all`.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct DocumentParams {
    /// The space with this id.
    space: Vec<String>,
    /// This space and all below it.
    under: Vec<String>,
    /// Spaces that start with these bytes.
    prefix: Vec<String>,
    /// Spaces that match a pattern of `*`, `?` and `[a-z]` as a whole.
    glob: Vec<String>,
    /// Spaces in which a regular expression finds something.
    regex: Vec<String>,
    /// Every space.
    all: bool,
    /// A condition, as in `metadata.topic = 'rust'`.
    r#where: Option<String>,
    /// Words to look for, best first. Goes without `order` and `cursor`.
    text: Option<String>,
    #[param(inline)]
    order: Option<OrderParam>,
    /// How many at most; 50 by default.
    #[param(maximum = 1000)]
    limit: Option<usize>,
    /// Leaves out this many at the start; not with a cursor.
    #[param(maximum = 10000)]
    offset: Option<usize>,
    /// `next` of an earlier page of the same query.
    cursor: Option<String>,
}

/// Which documents to remove: what satisfies all of `id`, spaces, `where` and `text`; `all` alone removes nothing.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct RemovalParams {
    /// The document with this id, or with another that is named.
    pub(crate) id: Vec<String>,
    /// The space with this id.
    space: Vec<String>,
    /// This space and all below it.
    under: Vec<String>,
    /// Spaces that start with these bytes.
    prefix: Vec<String>,
    /// Spaces that match a pattern of `*`, `?` and `[a-z]` as a whole.
    glob: Vec<String>,
    /// Spaces in which a regular expression finds something.
    regex: Vec<String>,
    /// Every space.
    all: bool,
    /// A condition.
    pub(crate) r#where: Option<String>,
    /// Words to look for.
    text: Option<String>,
    /// If more are found, none is removed; 10 by default.
    #[param(maximum = 10000)]
    pub(crate) max: Option<usize>,
    /// Only tells what would be removed.
    pub(crate) dry_run: bool,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum OrderParam {
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

impl MemoryParams {
    /// The query before it is confined.
    pub(crate) fn into_query(self) -> Result<QueryBuilder<Ledger>> {
        let Self { space, under, prefix, glob, regex, all, .. } = &self;
        let mut query = spaces(MemoryQuery::builder(), *all, [space, under, prefix, glob, regex]);
        if let Some(after) = self.after {
            query = query.created_after(Timestamp::from_millis(after)?);
        }
        if let Some(before) = self.before {
            query = query.created_before(Timestamp::from_millis(before)?);
        }
        query = self.status.into_iter().fold(query, |query, status| query.status(status.into()));
        for id in &self.exclude {
            query = query.exclude(MemoryId::parse(id)?);
        }
        query = condition(query, self.r#where.as_deref(), self.text.as_deref());
        Ok(page(query, self.order, self.limit, self.offset, self.cursor))
    }
}

impl DocumentParams {
    /// The query before it is confined.
    pub(crate) fn into_query(self, collection: Collection) -> QueryBuilder<Documents> {
        let Self { space, under, prefix, glob, regex, all, .. } = &self;
        let query = spaces(DocumentQuery::builder(collection), *all, [space, under, prefix, glob, regex]);
        let query = condition(query, self.r#where.as_deref(), self.text.as_deref());
        page(query, self.order, self.limit, self.offset, self.cursor)
    }
}

impl RemovalParams {
    /// The ids, if some are named.
    pub(crate) fn ids(&self) -> Result<Option<Vec<DocumentId>>> {
        let ids: Vec<_> = self.id.iter().map(DocumentId::parse).collect::<Result<_>>()?;
        Ok((!ids.is_empty()).then_some(ids))
    }

    /// The spaces and the text before they are confined. With ids alone, everywhere.
    pub(crate) fn query(&self, collection: Collection) -> QueryBuilder<Documents> {
        let Self { space, under, prefix, glob, regex, all, .. } = self;
        let named = [space, under, prefix, glob, regex];
        let all = *all || (!self.id.is_empty() && named.iter().all(|names| names.is_empty()));
        condition(spaces(DocumentQuery::builder(collection), all, named), None, self.text.as_deref())
    }
}

fn spaces<K: Kind>(mut query: QueryBuilder<K>, all: bool, named: [&Vec<String>; 5]) -> QueryBuilder<K> {
    if all {
        query = query.all();
    }
    let [exact, under, prefix, glob, regex] = named;
    query = exact.iter().fold(query, QueryBuilder::exact);
    query = under.iter().fold(query, QueryBuilder::under);
    query = prefix.iter().fold(query, QueryBuilder::prefix);
    query = glob.iter().fold(query, QueryBuilder::glob);
    regex.iter().fold(query, QueryBuilder::regex)
}

fn condition<K: Kind>(mut query: QueryBuilder<K>, predicate: Option<&str>, text: Option<&str>) -> QueryBuilder<K> {
    if let Some(predicate) = predicate {
        query = query.filter_text(predicate);
    }
    match text {
        Some(text) => query.text(text),
        None => query,
    }
}

fn page<K: Kind>(
    mut query: QueryBuilder<K>,
    order: Option<OrderParam>,
    limit: Option<usize>,
    offset: Option<usize>,
    cursor: Option<String>,
) -> QueryBuilder<K> {
    if let Some(order) = order {
        query = query.order(order.into());
    }
    if let Some(limit) = limit {
        query = query.limit(limit);
    }
    if let Some(offset) = offset {
        query = query.offset(offset);
    }
    match cursor {
        Some(cursor) => query.cursor(cursor),
        None => query,
    }
}
