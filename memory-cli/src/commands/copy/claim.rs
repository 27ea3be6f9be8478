//! The owner of a source's fence: a document of the source, which is put before the fence. After the fence it can't be changed.

use memory_core::{DocumentId, DocumentStore, ErrorKind, MemoryProvider, Result};
use serde::{Deserialize, Serialize};

use super::mark;

const ID: &str = "fence";

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Claim {
    /// The id of the last move that wanted to make the source read-only.
    r#move: String,
}

/// Claims the next fence of the source for this move. Another move can still claim it before the fence is set.
pub(super) async fn put(source: &dyn DocumentStore, r#move: &str) -> Result<()> {
    let text = serde_json::to_string(&Claim { r#move: r#move.to_owned() }).map_err(|error| {
        memory_core::Error::new(ErrorKind::Unexpected, "a claim can't be written").with_source(error)
    })?;
    source.put(mark::write(DocumentId::parse(ID)?, &text)?).await.map(drop)
}

/// Whether the source is read-only on behalf of this move.
pub(super) async fn holds(source: &dyn MemoryProvider, r#move: &str) -> Result<bool> {
    Ok(source.is_read_only().await? && is_of(source, r#move).await?)
}

/// Whether the fence of the source belongs to this move, or would if it were set.
pub(super) async fn is_of(source: &dyn MemoryProvider, r#move: &str) -> Result<bool> {
    let found = source.documents().get(&mark::collection()?, &DocumentId::parse(ID)?).await?;
    let Some(document) = found else { return Ok(false) };
    let unreadable =
        |error| memory_core::Error::corrupt("the claim on the fence of the source can't be read").with_source(error);
    let claim: Claim = serde_json::from_str(document.content.as_str()).map_err(unreadable)?;
    Ok(claim.r#move == r#move)
}
