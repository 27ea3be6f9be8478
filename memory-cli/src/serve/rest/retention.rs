//! How long records are kept, for operators.

use std::time::Duration;

use axum::extract::State;
use axum::{Extension, Json};
use memory_core::Retention;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::wire::reading::{count, objects};
use crate::serve::access::Access;
use crate::serve::extract::Body;
use crate::serve::problem::Problem;
use crate::serve::state::Server;

/// The retention rules, each for a space of its own.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RetentionBody {
    /// At most 1,000.
    #[serde(deserialize_with = "objects")]
    #[schema(max_items = 1_000)]
    rules: Vec<RetentionRule>,
}

/// How long records are kept in and below a space: a memory from when it was stored, a document from when it was last put. The rule
/// with the longest space holds.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct RetentionRule {
    /// The space.
    #[schema(min_length = 1)]
    under: String,
    /// The time, in milliseconds.
    #[serde(deserialize_with = "millis")]
    #[schema(minimum = 1, maximum = 8_640_000_000_000_i64)]
    keep: u64,
}

/// Shows the retention rules.
///
/// Requires a caller that may erase (a token of a file needs `erase = true`) and read every space.
#[utoipa::path(
    get,
    path = "/v1/retention",
    operation_id = "get_retention",
    tag = "erasure",
    responses((status = 200, body = RetentionBody), Problem)
)]
pub(super) async fn show(
    State(server): State<Server>,
    Extension(access): Extension<Access>,
) -> Result<Json<RetentionBody>, Problem> {
    access.check_retention()?;
    Ok(Json(RetentionBody::from(server.provider.retention().await?)))
}

/// Replaces the retention rules.
///
/// They hold at once, also for existing records: those over the time are in no answer any more, and are erased. Requires a caller that may
/// erase everything, which no token of a file may.
#[utoipa::path(
    put,
    path = "/v1/retention",
    operation_id = "put_retention",
    tag = "erasure",
    request_body = RetentionBody,
    responses((status = 200, body = RetentionBody), Problem)
)]
pub(super) async fn put(
    State(server): State<Server>,
    Extension(access): Extension<Access>,
    Body(body): Body<RetentionBody>,
) -> Result<Json<RetentionBody>, Problem> {
    access.check_retention_write()?;
    let rule = |rule: RetentionRule| Retention::new(rule.under, Duration::from_millis(rule.keep));
    let rules = body.rules.into_iter().map(rule).collect::<memory_core::Result<_>>()?;
    server.provider.set_retention(rules).await?;
    Ok(Json(RetentionBody::from(server.provider.retention().await?)))
}

impl From<Vec<Retention>> for RetentionBody {
    fn from(rules: Vec<Retention>) -> Self {
        // A rule keeps for at least a millisecond.
        let keep = |rule: &Retention| u64::try_from(rule.keep_millis()).unwrap_or_default();
        let rule = |rule: Retention| RetentionRule { keep: keep(&rule), under: rule.under().to_owned() };
        Self { rules: rules.into_iter().map(rule).collect() }
    }
}

/// A span of time; what is none is refused as one that is too short.
fn millis<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(count(deserializer)?.unwrap_or_default() as u64)
}
