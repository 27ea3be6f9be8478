//! The options of a composition.

use std::collections::BTreeSet;
use std::time::Duration;

use super::budget::Budget;

/// Which providers run, and how their results are ordered, cached and cut. By default the providers that are neither dynamic nor private
/// run, from the cache if possible, with their sections in the order of positions and without a budget.
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

/// Which of the registered providers a composition runs.
#[derive(Debug, Clone, Default)]
pub(super) enum Selection {
    #[default]
    Defaults,
    DefaultsAnd(BTreeSet<String>),
    Only(BTreeSet<String>),
}

/// The providers whose cached results are not used.
#[derive(Debug, Clone, Default)]
pub(super) enum Fresh {
    #[default]
    None,
    Named(BTreeSet<String>),
    All,
}

/// The order of the sections in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Order {
    #[default]
    Position,
    StableFirst,
}

impl ComposeOptions {
    /// Selects the default providers and these, which may be dynamic or private.
    pub fn with<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        Self { selection: Selection::DefaultsAnd(names.into_iter().map(Into::into).collect()), ..Self::default() }
    }

    /// Selects only these providers; none if no name is given.
    pub fn only<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        Self { selection: Selection::Only(names.into_iter().map(Into::into).collect()), ..Self::default() }
    }

    /// Adds these providers to the selection.
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

    /// Runs all selected providers again; their results replace the cached ones.
    #[must_use]
    pub fn skip_cache(mut self) -> Self {
        self.fresh = Fresh::All;
        self
    }

    /// Runs these providers again, as far as they are selected, and the providers that read their results.
    #[must_use]
    pub fn refresh<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.fresh = Fresh::Named(names.into_iter().map(Into::into).collect());
        self
    }

    /// Puts sections that rarely change first and those that change with every message last, so that a model's prompt cache, which works on
    /// prefixes, hits more often. Sections of the same stability are ordered by position.
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

    /// Sets a deadline for the whole composition. At the deadline, running providers are dropped as timed out, and the others are not
    /// started.
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
