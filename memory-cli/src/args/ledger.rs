//! The conditions on memories.

use clap::Args;
use memory_core::{Filter, Ledger, MemoryId, MemoryQuery, QueryBuilder, Status, Timestamp};
use serde_json::{Map, Value, json};

use super::query::with_filter;
use super::spaces::SpaceArgs;
use super::values;

/// The conditions on memories in the selected spaces.
#[derive(Debug, Args)]
#[command(next_help_heading = "Conditions")]
pub(crate) struct LedgerArgs {
    /// Only memories created after this many milliseconds since 1970 UTC.
    #[arg(long, value_name = "MS", value_parser = values::timestamp, allow_negative_numbers = true)]
    after: Option<Timestamp>,
    /// Only memories created before this many milliseconds since 1970 UTC.
    #[arg(long, value_name = "MS", value_parser = values::timestamp, allow_negative_numbers = true)]
    before: Option<Timestamp>,
    /// Only memories with this status: pending, running, completed, failed or observed. Repeat it to accept several.
    #[arg(long, value_parser = values::status)]
    status: Vec<Status>,
    /// Only records that satisfy a condition, such as "metadata.topic = 'rust' AND text ILIKE '%borrow%'".
    #[arg(long = "where", value_name = "PREDICATE", value_parser = values::filter)]
    filter: Option<Filter>,
    /// Leave this memory out.
    #[arg(long, value_name = "ID", value_parser = values::memory_id)]
    exclude: Vec<MemoryId>,
}

impl LedgerArgs {
    /// Whether no condition is given.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_only_filter() && self.filter.is_none()
    }

    /// Whether the conditions also apply to documents.
    pub(crate) fn is_only_filter(&self) -> bool {
        self.after.is_none() && self.before.is_none() && self.status.is_empty() && self.exclude.is_empty()
    }

    /// The condition of `--where`, parsed.
    pub(crate) fn filter(&self) -> Option<&Filter> {
        self.filter.as_ref()
    }

    /// The given conditions as JSON.
    pub(crate) fn to_json(&self) -> Map<String, Value> {
        let Self { after, before, status, filter, exclude } = self;
        let mut given = Map::new();
        given.extend(after.map(|after| ("after".to_owned(), json!(after))));
        given.extend(before.map(|before| ("before".to_owned(), json!(before))));
        given.extend((!status.is_empty()).then(|| ("status".to_owned(), json!(status))));
        given.extend(filter.as_ref().map(|filter| ("where".to_owned(), json!(filter.to_string()))));
        given.extend((!exclude.is_empty()).then(|| ("exclude".to_owned(), json!(exclude))));
        given
    }

    /// Builds a query of these memories.
    pub(crate) fn query(&self, spaces: &SpaceArgs) -> QueryBuilder<Ledger> {
        let mut query = with_filter(spaces.apply(MemoryQuery::builder()), self.filter.as_ref());
        if let Some(after) = self.after {
            query = query.created_after(after);
        }
        if let Some(before) = self.before {
            query = query.created_before(before);
        }
        query = self.status.iter().fold(query, |query, status| query.status(*status));
        self.exclude.iter().fold(query, |query, id| query.exclude(*id))
    }
}
