//! Queries of the parts that options name.

use memory_core::{Error, ErrorKind, Filter, Kind, Query, QueryBuilder};

use crate::usage::Usage;

/// The query, if its parts go together.
pub(crate) fn build<K: Kind>(query: QueryBuilder<K>) -> Result<Query<K>, Usage> {
    Ok(query.build()?)
}

/// An error of a query: a cursor that is none of its own shows only when the query is put.
pub(crate) fn refused(error: Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::InvalidInput => Usage::from(error).into(),
        _ => error.into(),
    }
}

/// Adds a condition if there is one.
pub(crate) fn with_filter<K: Kind>(query: QueryBuilder<K>, filter: Option<&Filter>) -> QueryBuilder<K> {
    match filter {
        Some(filter) => query.filter(filter.clone()),
        None => query,
    }
}
