//! The options that select spaces.

use clap::{ArgGroup, Args};
use memory_core::{Kind, QueryBuilder, SpaceSelector, Spaces};
use serde_json::{Value, json};

use super::values;

/// The spaces to look at: the union of all selectors.
#[derive(Debug, Args)]
#[command(next_help_heading = "Spaces")]
pub(crate) struct SpaceArgs {
    /// Only this space.
    #[arg(long = "space", value_name = "SPACE", value_parser = values::exact)]
    exact: Vec<SpaceSelector>,
    /// This space and all below it; the safe choice to keep tenants apart.
    #[arg(long, value_name = "SPACE", value_parser = values::under)]
    under: Vec<SpaceSelector>,
    /// Spaces that start with these characters: "guild1" also finds "guild12".
    #[arg(long, value_name = "PREFIX", value_parser = values::prefix)]
    prefix: Vec<SpaceSelector>,
    /// Spaces whose whole name matches a pattern with *, ? and [a-z].
    #[arg(long, value_name = "GLOB", value_parser = values::glob)]
    glob: Vec<SpaceSelector>,
    /// Spaces that a regular expression matches anywhere.
    #[arg(long, value_name = "REGEX", value_parser = values::regex, allow_hyphen_values = true)]
    regex: Vec<SpaceSelector>,
    /// Every space.
    #[arg(long, conflicts_with_all = ["exact", "under", "prefix", "glob", "regex"])]
    all: bool,
}

impl SpaceArgs {
    /// Whether no option is given, not even `--all`.
    pub(crate) fn is_empty(&self) -> bool {
        !self.all && self.named().next().is_none()
    }

    /// Adds the spaces to a query; every space if no selector is given.
    pub(crate) fn apply<K: Kind>(&self, query: QueryBuilder<K>) -> QueryBuilder<K> {
        if self.all || self.is_empty() {
            return query.all();
        }
        self.named().fold(query, |query, selector| query.selector(selector.clone()))
    }

    /// The selected spaces; all if no selector is given.
    pub(crate) fn spaces(&self) -> Spaces {
        match self.all || self.is_empty() {
            true => Spaces::All,
            false => Spaces::from(self.named().cloned().collect::<Vec<_>>()),
        }
    }

    /// The selectors as JSON.
    pub(crate) fn to_json(&self) -> Value {
        let named: Vec<_> = self.named().collect();
        if named.is_empty() { json!("all") } else { json!(named) }
    }

    /// The argument group for commands that require one of these options.
    pub(crate) fn required() -> ArgGroup {
        ArgGroup::new("spaces").args(["exact", "under", "prefix", "glob", "regex", "all"]).required(true).multiple(true)
    }

    fn named(&self) -> impl Iterator<Item = &SpaceSelector> {
        [&self.exact, &self.under, &self.prefix, &self.glob, &self.regex].into_iter().flatten()
    }
}
