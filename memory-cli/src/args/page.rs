//! The options for a page of results.

use clap::{Args, ValueEnum};
use memory_core::{Kind, Order, QueryBuilder};

use super::values;

/// The options for a page of results.
#[derive(Debug, Args)]
#[command(next_help_heading = "Page")]
pub(crate) struct PageArgs {
    /// Only records that hold at least one word of this text.
    #[arg(long, allow_hyphen_values = true)]
    text: Option<String>,
    /// The order by time of creation; newest first by default.
    #[arg(long)]
    order: Option<OrderArg>,
    /// The most results, up to 1,000.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = values::limit)]
    limit: usize,
    /// Skip this many results at the start, up to 10,000.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = values::offset, conflicts_with = "cursor")]
    offset: usize,
    /// Continue after a page of the same query.
    #[arg(long, allow_hyphen_values = true)]
    cursor: Option<String>,
}

impl PageArgs {
    /// Adds these options to a query.
    pub(crate) fn apply<K: Kind>(&self, query: QueryBuilder<K>) -> QueryBuilder<K> {
        let mut query = query.limit(self.limit).offset(self.offset);
        if let Some(text) = &self.text {
            query = query.text(text);
        }
        if let Some(order) = self.order {
            query = query.order(order.into());
        }
        if let Some(cursor) = &self.cursor {
            query = query.cursor(cursor);
        }
        query
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum OrderArg {
    Newest,
    Oldest,
}

impl From<OrderArg> for Order {
    fn from(order: OrderArg) -> Self {
        match order {
            OrderArg::Newest => Self::NewestFirst,
            OrderArg::Oldest => Self::OldestFirst,
        }
    }
}
