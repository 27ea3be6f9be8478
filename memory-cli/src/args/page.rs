//! Which page of the results a command shows.

use clap::{Args, ValueEnum};
use memory_core::{Kind, Order, QueryBuilder};

use super::values;

/// Which page of what was found.
#[derive(Debug, Args)]
#[command(next_help_heading = "Page")]
pub(crate) struct PageArgs {
    /// Only what holds at least one word of this text.
    #[arg(long, allow_hyphen_values = true)]
    text: Option<String>,
    /// Which come first, by the time they were created; newest unless said otherwise.
    #[arg(long)]
    order: Option<OrderArg>,
    /// How many at most, up to 1,000.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = values::limit)]
    limit: usize,
    /// Leave out this many at the start, up to 10,000.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = values::offset, conflicts_with = "cursor")]
    offset: usize,
    /// Go on where a page of the same query ended.
    #[arg(long, allow_hyphen_values = true)]
    cursor: Option<String>,
}

impl PageArgs {
    /// Asks for this page.
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
