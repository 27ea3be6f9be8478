//! Builds queries from options.

use memory_core::{Error, ErrorKind, Filter, Kind, Query, QueryBuilder};

use crate::usage::Usage;

/// Builds a query. Parts that don't go together are a mistake in the arguments.
pub(crate) fn build<K: Kind>(query: QueryBuilder<K>) -> Result<Query<K>, Usage> {
    Ok(query.build()?)
}

/// Reports a query that was refused as a mistake in the arguments. A foreign cursor shows only when the query runs.
pub(crate) fn refused(error: Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::InvalidInput => Usage::from(error).into(),
        _ => error.into(),
    }
}

/// Adds a condition, if there is one.
pub(crate) fn with_filter<K: Kind>(query: QueryBuilder<K>, filter: Option<&Filter>) -> QueryBuilder<K> {
    match filter {
        Some(filter) => query.filter(filter.clone()),
        None => query,
    }
}
