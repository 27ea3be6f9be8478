//! What a composition is asked for.

use std::collections::BTreeSet;
use std::time::Duration;

use super::budget::Budget;

/// Which providers run, and what becomes of what they give. By default those that are neither dynamic nor private, from the
/// cache where it holds, in the order of their positions, without a budget.
///
/// ```
/// use memory_context::state::{Budget, ComposeOptions};
///
/// let defaults = ComposeOptions::default();
/// let more = ComposeOptions::with(["FACTS", "ENTITIES"]);
/// let one = ComposeOptions::only(["CHARACTER"]).skip_cache();
/// let small = ComposeOptions::default().budget(Budget::bytes(20_000)).stable_first();
/// ```
#[derive(Debug, Clone, Default)]
pub struct ComposeOptions {
    pub(super) selection: Selection,
    pub(super) fresh: Fresh,
    pub(super) order: Order,
    pub(super) budget: Option<Budget>,
    pub(super) deadline: Option<Duration>,
}

/// Which providers run.
#[derive(Debug, Clone, Default)]
pub(super) enum Selection {
    #[default]
    Defaults,
    DefaultsAnd(BTreeSet<String>),
    Only(BTreeSet<String>),
}

/// Whose cached results don't count.
#[derive(Debug, Clone, Default)]
pub(super) enum Fresh {
    #[default]
    None,
    Named(BTreeSet<String>),
    All,
}

/// How the sections of the text come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Order {
    #[default]
    Position,
    StableFirst,
}

impl ComposeOptions {
    /// The default providers and these, dynamic and private ones included.
    pub fn with<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        Self { selection: Selection::DefaultsAnd(names.into_iter().map(Into::into).collect()), ..Self::default() }
    }

    /// These providers and no others; none at all where none is named.
    pub fn only<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        Self { selection: Selection::Only(names.into_iter().map(Into::into).collect()), ..Self::default() }
    }

    /// Also these providers.
    #[must_use]
    pub fn and<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        match &mut self.selection {
            Selection::Defaults if names.is_empty() => {}
            Selection::Defaults => self.selection = Selection::DefaultsAnd(names.into_iter().collect()),
            Selection::DefaultsAnd(selected) | Selection::Only(selected) => selected.extend(names),
        }
        self
    }

    /// Runs all selected providers anew. What they give takes the place of what is cached.
    #[must_use]
    pub fn skip_cache(mut self) -> Self {
        self.fresh = Fresh::All;
        self
    }

    /// Runs these providers anew, as far as they are selected, and those that saw what they gave before.
    #[must_use]
    pub fn refresh<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.fresh = Fresh::Named(names.into_iter().map(Into::into).collect());
        self
    }

    /// Puts sections that seldom change first and those that change with every message last, so that the cache of a model for
    /// the beginnings of prompts holds for longer. Within a class, positions count.
    #[must_use]
    pub fn stable_first(mut self) -> Self {
        self.order = Order::StableFirst;
        self
    }

    /// Cuts the text to this size.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Ends the whole composition after this long: what runs then has timed out, and what did not begin is skipped.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }
}

impl Fresh {
    pub(super) fn concerns(&self, name: &str) -> bool {
        match self {
            Self::None => false,
            Self::Named(names) => names.contains(name),
            Self::All => true,
        }
    }
}
