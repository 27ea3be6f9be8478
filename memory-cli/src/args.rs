//! The command line: its global options, and the options that several commands share.

use clap::{ArgGroup, Args, Parser, ValueEnum};
use memory_context::records::AgentId;
use memory_core::{Filter, MemoryId, MemoryQuery, Order, QueryBuilder, SpaceSelector, Status, Timestamp};
use memory_core::{Kind, Ledger};

use crate::commands::Command;
use crate::usage::Usage;

/// Store, recall, import and export what an agent remembers.
#[derive(Debug, Parser)]
#[command(name = "agent-memory", version, propagate_version = true)]
pub(crate) struct Cli {
    /// Where the memory is kept: sqlite://data/memory.db, postgres://USER:PASSWORD@HOST/DATABASE,
    /// redis://USER:PASSWORD@HOST/DATABASE or mongodb://USER:PASSWORD@HOST/DATABASE.
    #[arg(
        long = "url",
        global = true,
        help_heading = GLOBAL,
        env = "AGENT_MEMORY_URL",
        hide_env_values = true,
        default_value = DEFAULT_URL,
        value_name = "URL"
    )]
    urls: Vec<String>,
    /// One JSON value per line on standard output, and nothing else there.
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Where the memory is kept, for all commands that work on one.
    pub(crate) fn url(&self) -> Result<&str, Usage> {
        match self.urls.as_slice() {
            [url] => Ok(url),
            _ => Err(Usage("--url: this command takes one".into())),
        }
    }

    /// All that were given.
    pub(crate) fn urls(&self) -> &[String] {
        &self.urls
    }
}

/// Where the memory is kept unless the caller says otherwise.
pub(crate) const DEFAULT_URL: &str = "sqlite://data/memory.db";

/// The heading in the help under which the options of all commands stand, apart from those of the command.
const GLOBAL: &str = "Global options";

/// Which spaces to look at: the union of all that are named.
#[derive(Debug, Args)]
#[command(next_help_heading = "Spaces")]
pub(crate) struct SpaceArgs {
    /// This space alone.
    #[arg(long = "space", value_name = "SPACE", value_parser = exact)]
    exact: Vec<SpaceSelector>,
    /// This space and all below it; the safe choice to keep tenants apart.
    #[arg(long, value_name = "SPACE", value_parser = under)]
    under: Vec<SpaceSelector>,
    /// Spaces that start with these characters: "guild1" also finds "guild12".
    #[arg(long, value_name = "PREFIX", value_parser = prefix)]
    prefix: Vec<SpaceSelector>,
    /// Spaces that match a pattern of *, ? and [a-z] as a whole.
    #[arg(long, value_name = "GLOB", value_parser = glob)]
    glob: Vec<SpaceSelector>,
    /// Spaces in which a regular expression finds something.
    #[arg(long, value_name = "REGEX", value_parser = regex, allow_hyphen_values = true)]
    regex: Vec<SpaceSelector>,
    /// Every space.
    #[arg(long, conflicts_with_all = ["exact", "under", "prefix", "glob", "regex"])]
    all: bool,
}

impl SpaceArgs {
    /// Whether nothing is named, not even all.
    pub(crate) fn is_empty(&self) -> bool {
        !self.all && self.named().next().is_none()
    }

    /// Adds the spaces to a query; every space when none is named.
    pub(crate) fn apply<K: Kind>(&self, query: QueryBuilder<K>) -> QueryBuilder<K> {
        if self.all || self.is_empty() {
            return query.all();
        }
        self.named().fold(query, |query, selector| query.selector(selector.clone()))
    }

    /// A group for commands that insist on one of these.
    pub(crate) fn required() -> ArgGroup {
        ArgGroup::new("spaces").args(["exact", "under", "prefix", "glob", "regex", "all"]).required(true).multiple(true)
    }

    fn named(&self) -> impl Iterator<Item = &SpaceSelector> {
        [&self.exact, &self.under, &self.prefix, &self.glob, &self.regex].into_iter().flatten()
    }
}

/// Which memories of those spaces.
#[derive(Debug, Args)]
#[command(next_help_heading = "Conditions")]
pub(crate) struct LedgerArgs {
    /// Only memories created after this many milliseconds since 1970 UTC.
    #[arg(long, value_name = "MS", value_parser = timestamp, allow_negative_numbers = true)]
    after: Option<Timestamp>,
    /// Only memories created before this many milliseconds since 1970 UTC.
    #[arg(long, value_name = "MS", value_parser = timestamp, allow_negative_numbers = true)]
    before: Option<Timestamp>,
    /// Only memories of this status (pending, running, completed, failed, observed); more than one is a choice.
    #[arg(long, value_parser = status)]
    status: Vec<Status>,
    /// Only what satisfies a condition, such as "metadata.topic = 'rust' AND text ILIKE '%borrow%'".
    #[arg(long = "where", value_name = "PREDICATE", value_parser = filter)]
    filter: Option<Filter>,
    /// Leave this memory out.
    #[arg(long, value_name = "ID", value_parser = memory_id)]
    exclude: Vec<MemoryId>,
}

impl LedgerArgs {
    /// Whether no condition is named.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_only_filter() && self.filter.is_none()
    }

    /// Whether a query of documents can ask the same.
    pub(crate) fn is_only_filter(&self) -> bool {
        self.after.is_none() && self.before.is_none() && self.status.is_empty() && self.exclude.is_empty()
    }

    /// The condition.
    pub(crate) fn filter(&self) -> Option<&Filter> {
        self.filter.as_ref()
    }

    /// A query of these memories.
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

/// Which page of what was found.
#[derive(Debug, Args)]
#[command(next_help_heading = "Page")]
pub(crate) struct PageArgs {
    /// Only what holds at least one word of this text, best first.
    #[arg(long, conflicts_with_all = ["order", "cursor"], allow_hyphen_values = true)]
    text: Option<String>,
    /// Which come first, by the time they were created; newest unless said otherwise.
    #[arg(long)]
    order: Option<OrderArg>,
    /// How many at most, up to 1,000.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = limit)]
    limit: usize,
    /// Leave out this many at the start, up to 10,000.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = offset, conflicts_with = "cursor")]
    offset: usize,
    /// Go on where a page of the same query ended.
    #[arg(long)]
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

/// The query, if its parts go together.
pub(crate) fn build<K: Kind>(query: QueryBuilder<K>) -> Result<memory_core::Query<K>, Usage> {
    Ok(query.build()?)
}

/// Adds a condition if there is one.
pub(crate) fn with_filter<K: Kind>(query: QueryBuilder<K>, filter: Option<&Filter>) -> QueryBuilder<K> {
    match filter {
        Some(filter) => query.filter(filter.clone()),
        None => query,
    }
}

/// Reads a value of the core; its own sentence says what is wrong.
macro_rules! value_parsers {
    ($($name:ident: $type:ty = $parse:expr;)*) => {
        $(
            /// For clap.
            pub(crate) fn $name(text: &str) -> Result<$type, String> {
                $parse(text).map_err(|error: memory_core::Error| error.message().to_owned())
            }
        )*
    };
}

value_parsers! {
    exact: SpaceSelector = SpaceSelector::exact;
    under: SpaceSelector = SpaceSelector::under;
    prefix: SpaceSelector = SpaceSelector::prefix;
    glob: SpaceSelector = SpaceSelector::glob;
    regex: SpaceSelector = SpaceSelector::regex;
    space_id: memory_core::SpaceId = memory_core::SpaceId::parse;
    status: Status = Status::parse;
    filter: Filter = Filter::parse;
    memory_id: MemoryId = MemoryId::parse;
    agent_id: AgentId = AgentId::parse;
    document_id: memory_core::DocumentId = memory_core::DocumentId::parse;
    collection: memory_core::Collection = memory_core::Collection::parse;
    idempotency_key: memory_core::IdempotencyKey = memory_core::IdempotencyKey::parse;
}

/// For clap.
pub(crate) fn timestamp(text: &str) -> Result<Timestamp, String> {
    let millis = text.parse().map_err(|_| "a time is a whole number of milliseconds since 1970 UTC".to_owned())?;
    Timestamp::from_millis(millis).map_err(|error| error.message().to_owned())
}

fn limit(text: &str) -> Result<usize, String> {
    at_most(memory_core::MAX_LIMIT, text)
}

fn offset(text: &str) -> Result<usize, String> {
    at_most(memory_core::MAX_OFFSET, text)
}

fn at_most(most: usize, text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| *number <= most).ok_or_else(|| format!("must be a whole number from 0 to {most}"))
}

/// For clap.
pub(crate) fn revision(text: &str) -> Result<memory_core::Revision, String> {
    let number = text.parse().map_err(|_| "a revision is a whole number from 1".to_owned())?;
    memory_core::Revision::new(number).map_err(|error| error.message().to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
