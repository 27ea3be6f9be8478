//! The tree of spaces.

use axum::extract::State;
use axum::{Extension, Json};
use memory_core::{Collection, Count, SpaceId, SpaceLevel, SpaceQuery, SpaceQueryBuilder, SpaceSummary, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::wire::page::next;
use crate::serve::access::Access;
use crate::serve::extract::Parameters;
use crate::serve::problem::Problem;
use crate::serve::state::Server;

/// Which spaces are listed, and how many.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct ListingParams {
    /// The spaces right below this one; the top-level ones without it.
    under: Option<String>,
    /// Lists the spaces of the documents of this collection instead of those of the ledger.
    #[param(pattern = "^[a-z0-9_-]{1,64}$")]
    collection: Option<String>,
    /// The number of levels: 1 by default, at most 8.
    #[param(minimum = 1, maximum = 8)]
    depth: Option<usize>,
    /// The limit of each level, in spaces: 50 by default, at most 1,000.
    #[param(maximum = 1000)]
    limit: Option<usize>,
    /// `next` of an earlier level; `under` must then be the same as that of the level.
    cursor: Option<String>,
}

/// Spaces, level by level.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LevelsBody {
    /// The requested level, and with a `depth` those below it.
    levels: Vec<LevelBody>,
}

/// The spaces right below one, in the order of the bytes of their ids.
#[derive(Debug, Serialize, ToSchema)]
struct LevelBody {
    /// The space above them; absent for top-level spaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    under: Option<String>,
    spaces: Vec<SpaceBody>,
    /// The `cursor` of the rest of the level; absent at its end. A short level may have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// A space, with the number of records in and below it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SpaceBody {
    #[schema(value_type = String)]
    id: SpaceId,
    /// The number of memories or documents; with `more`, a lower bound.
    count: usize,
    /// Whether there are more than `count`.
    more: bool,
    /// When the newest of them was created, in milliseconds since 1970 UTC.
    #[schema(value_type = i64)]
    newest: Timestamp,
}

impl From<SpaceSummary> for SpaceBody {
    fn from(SpaceSummary { id, count, newest }: SpaceSummary) -> Self {
        let (count, more) = match count {
            Count::Exactly(count) => (count, false),
            Count::MoreThan(count) => (count, true),
        };
        Self { id, count, more, newest }
    }
}

impl From<SpaceLevel> for LevelBody {
    fn from(level: SpaceLevel) -> Self {
        let spaces = level.spaces.into_iter().map(SpaceBody::from).collect();
        Self { under: level.under, spaces, next: next(level.next) }
    }
}

/// Lists the spaces right below one, or the top-level spaces, with the number of records in each that the caller may read.
#[utoipa::path(
    get,
    path = "/v1/spaces",
    operation_id = "list_spaces",
    tag = "spaces",
    params(ListingParams),
    responses((status = 200, body = LevelsBody), Problem)
)]
pub(super) async fn list(
    State(server): State<Server>,
    Extension(access): Extension<Access>,
    Parameters((listing,)): Parameters<(ListingParams,)>,
) -> Result<Json<LevelsBody>, Problem> {
    let mut query = SpaceQuery::builder();
    query = listing.under.into_iter().fold(query, SpaceQueryBuilder::under);
    query = listing.depth.into_iter().fold(query, SpaceQueryBuilder::depth);
    query = listing.limit.into_iter().fold(query, SpaceQueryBuilder::limit);
    query = listing.cursor.into_iter().fold(query, SpaceQueryBuilder::cursor);
    let query = access.confine_listing(query).build()?;
    let levels = match listing.collection.as_deref().map(Collection::parse).transpose()? {
        Some(collection) => {
            access.check_collection(&collection)?;
            server.documents.spaces(&collection, &query).await?
        }
        None => server.provider.spaces(&query).await?,
    };
    Ok(Json(LevelsBody { levels: levels.into_iter().map(LevelBody::from).collect() }))
}
