//! Whose the fence of a source is: a document of the source, put before the fence. Behind it nobody can put another one.

use memory_core::{DocumentId, DocumentStore, ErrorKind, MemoryProvider, Result};
use serde::{Deserialize, Serialize};

use super::mark;

const ID: &str = "fence";

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Claim {
    /// The move that last was to make the source read-only.
    r#move: String,
}

/// Lets the next fence of the source be for this move, unless another one claims it before there is one.
pub(super) async fn put(source: &dyn DocumentStore, r#move: &str) -> Result<()> {
    let text = serde_json::to_string(&Claim { r#move: r#move.to_owned() }).map_err(|error| {
        memory_core::Error::new(ErrorKind::Unexpected, "a claim can't be written").with_source(error)
    })?;
    source.put(mark::write(DocumentId::parse(ID)?, &text)?).await.map(drop)
}

/// Whether the source is read-only for this move.
pub(super) async fn holds(source: &dyn MemoryProvider, r#move: &str) -> Result<bool> {
    Ok(source.is_read_only().await? && is_of(source, r#move).await?)
}

/// Whether the fence of the source is for this move, or would be if there were one.
pub(super) async fn is_of(source: &dyn MemoryProvider, r#move: &str) -> Result<bool> {
    let found = source.documents().get(&mark::collection()?, &DocumentId::parse(ID)?).await?;
    let Some(document) = found else { return Ok(false) };
    let unreadable =
        |error| memory_core::Error::corrupt("whose the fence of the source is can't be read").with_source(error);
    let claim: Claim = serde_json::from_str(document.content.as_str()).map_err(unreadable)?;
    Ok(claim.r#move == r#move)
}
