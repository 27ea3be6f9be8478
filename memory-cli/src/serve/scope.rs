//! The spaces that a request names, over REST and in the console.

use axum::http::StatusCode;
use memory_core::engine::Permit;
use memory_core::{Kind, QueryBuilder};
use serde::Deserialize;
use tokio::task::spawn_blocking;
use utoipa::IntoParams;

use super::limits::Limits;
use super::problem::Problem;

/// Which spaces: at least one of `space`, `under`, `prefix`, `glob` and `regex` (their union), or `all`.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct SpaceParams {
    /// The space with this id.
    pub(crate) space: Vec<String>,
    /// This space and all below it: the safe choice to keep tenants apart.
    pub(crate) under: Vec<String>,
    /// Spaces that start with these bytes; `guild1` also finds `guild12`.
    pub(crate) prefix: Vec<String>,
    /// Spaces whose whole id matches a pattern of `*`, `?` and `[a-z]`.
    pub(crate) glob: Vec<String>,
    /// Spaces in whose id a regular expression finds a match.
    pub(crate) regex: Vec<String>,
    /// Every space.
    pub(crate) all: bool,
}

impl SpaceParams {
    /// Whether nothing is named, not even all.
    pub(crate) fn is_empty(&self) -> bool {
        let named = [&self.space, &self.under, &self.prefix, &self.glob, &self.regex];
        !self.all && named.iter().all(|names| names.is_empty())
    }

    /// How many globs and regexes are named.
    pub(crate) fn patterns(&self) -> usize {
        self.glob.len() + self.regex.len()
    }

    /// Names the spaces of a query.
    ///
    /// Patterns take a while to compile and much room then. So that is done on a thread of its own, for few requests at once: each keeps its
    /// place until it has its answer.
    pub(crate) async fn apply<K>(
        self,
        query: QueryBuilder<K>,
        limits: &Limits,
    ) -> Result<(QueryBuilder<K>, Option<Permit>), Problem>
    where
        K: Kind + Send + 'static,
    {
        if self.patterns() == 0 {
            return Ok((self.named(query), None));
        }
        let mut place = limits.place_for_patterns().await?;
        let named = spawn_blocking(move || {
            let named = self.named(query);
            place.end_work();
            (named, Some(place))
        })
        .await;
        named.map_err(|_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the patterns could not be compiled"))
    }

    fn named<K: Kind>(&self, mut query: QueryBuilder<K>) -> QueryBuilder<K> {
        if self.all {
            query = query.all();
        }
        query = self.space.iter().fold(query, QueryBuilder::exact);
        query = self.under.iter().fold(query, QueryBuilder::under);
        query = self.prefix.iter().fold(query, QueryBuilder::prefix);
        query = self.glob.iter().fold(query, QueryBuilder::glob);
        self.regex.iter().fold(query, QueryBuilder::regex)
    }
}
