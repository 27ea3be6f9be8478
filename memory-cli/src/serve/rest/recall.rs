//! Questions in words.

use axum::extract::State;
use axum::{Extension, Json};
use memory_core::{DocumentQuery, Error, MemoryQuery};

use super::hits::RecalledBody;
use super::params::{LedgerParams, RecallParams, SpaceParams};
use crate::serve::access::Access;
use crate::serve::extract::Parameters;
use crate::serve::problem::Problem;
use crate::serve::state::Server;

/// Answers a question in words from the memories, or the documents, of a scope: the best first.
#[utoipa::path(
    get,
    path = "/v1/recall",
    tag = "recall",
    params(SpaceParams, RecallParams, LedgerParams),
    responses((status = 200, body = RecalledBody), Problem)
)]
pub(super) async fn recall(
    State(server): State<Server>,
    Extension(access): Extension<Access>,
    Parameters((spaces, question, ledger)): Parameters<(SpaceParams, RecallParams, LedgerParams)>,
) -> Result<Json<RecalledBody>, Problem> {
    let Some(collection) = question.collection()? else {
        let (query, _patterns) = spaces.apply(MemoryQuery::builder(), &server.limits).await?;
        let recall = question.recall(access.confine(ledger.apply(query)?))?;
        return Ok(Json(server.provider.recall(&recall).await?.into()));
    };
    access.check_collection(&collection)?;
    if !ledger.is_empty() {
        return Err(Error::invalid("after, before, status and exclude ask for memories, and this for documents").into());
    }
    let (query, _patterns) = spaces.apply(DocumentQuery::builder(collection), &server.limits).await?;
    let recall = question.recall(access.confine(query))?;
    Ok(Json(server.documents.recall(&recall).await?.into()))
}
