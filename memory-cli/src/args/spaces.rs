//! Which spaces a command looks at.

use clap::{ArgGroup, Args};
use memory_core::{Kind, QueryBuilder, SpaceSelector, Spaces};
use serde_json::{Value, json};

use super::values;

/// Which spaces to look at: the union of all that are named.
#[derive(Debug, Args)]
#[command(next_help_heading = "Spaces")]
pub(crate) struct SpaceArgs {
    /// This space alone.
    #[arg(long = "space", value_name = "SPACE", value_parser = values::exact)]
    exact: Vec<SpaceSelector>,
    /// This space and all below it; the safe choice to keep tenants apart.
    #[arg(long, value_name = "SPACE", value_parser = values::under)]
    under: Vec<SpaceSelector>,
    /// Spaces that start with these characters: "guild1" also finds "guild12".
    #[arg(long, value_name = "PREFIX", value_parser = values::prefix)]
    prefix: Vec<SpaceSelector>,
    /// Spaces that match a pattern of *, ? and [a-z] as a whole.
    #[arg(long, value_name = "GLOB", value_parser = values::glob)]
    glob: Vec<SpaceSelector>,
    /// Spaces in which a regular expression finds something.
    #[arg(long, value_name = "REGEX", value_parser = values::regex, allow_hyphen_values = true)]
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

    /// The spaces that are named; all when none is.
    pub(crate) fn spaces(&self) -> Spaces {
        match self.all || self.is_empty() {
            true => Spaces::All,
            false => Spaces::from(self.named().cloned().collect::<Vec<_>>()),
        }
    }

    /// What is named, as JSON.
    pub(crate) fn to_json(&self) -> Value {
        let named: Vec<_> = self.named().collect();
        if named.is_empty() { json!("all") } else { json!(named) }
    }

    /// A group for commands that insist on one of these.
    pub(crate) fn required() -> ArgGroup {
        ArgGroup::new("spaces").args(["exact", "under", "prefix", "glob", "regex", "all"]).required(true).multiple(true)
    }

    fn named(&self) -> impl Iterator<Item = &SpaceSelector> {
        [&self.exact, &self.under, &self.prefix, &self.glob, &self.regex].into_iter().flatten()
    }
}
