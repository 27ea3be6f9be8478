//! A program that watches all changes, and reports each with its token.

use futures::StreamExt;
use memory_core::{
    ChangeKind, Collections, ErrorKind, MemoryProvider, MemoryQuery, RecordId, Watch, WatchFrom, Watched,
};
use serde::{Deserialize, Serialize};

use crate::Fallible;
use crate::client::{PAUSE, is_trouble, opened, say};
use crate::log::{Line, Told, now};

/// What the program watches, and from which token on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Post {
    pub(crate) url: String,
    pub(crate) token: Option<String>,
}

/// Watches until the parent ends it, or the feed fails for good.
pub(crate) async fn watch(post: Post) -> Fallible {
    let provider = opened(&post.url).await?;
    let mut token = post.token;
    loop {
        let from = token.clone().map_or(WatchFrom::Beginning, WatchFrom::Token);
        match follow(&*provider, from, &mut token).await {
            Err(error) if error.kind() == ErrorKind::FeedReset => {
                token = None;
                say(&Line::Told { told: Some(Told::Reset { at: now() }), token: None });
            }
            Err(error) if is_trouble(&error) => tokio::time::sleep(PAUSE).await,
            ended => return Ok(ended?),
        }
    }
}

/// Reports changes until the stream ends.
async fn follow(provider: &dyn MemoryProvider, from: WatchFrom, token: &mut Option<String>) -> memory_core::Result<()> {
    let watch = Watch::new(Watched::Both(Collections::All), MemoryQuery::builder().under("h"))?.from(from);
    let mut changes = provider.watch(&watch).await?;
    while let Some(change) = changes.next().await {
        let change = change?;
        *token = Some(change.token.to_string());
        say(&Line::Told { told: told(change.kind), token: token.clone() });
    }
    Ok(())
}

fn told(kind: ChangeKind) -> Option<Told> {
    match kind {
        ChangeKind::Stored(record) | ChangeKind::Updated(record) => {
            Some(Told::Now { id: id(&record.id()), revision: record.revision().get() })
        }
        ChangeKind::Removed(record) | ChangeKind::Erased(record) | ChangeKind::Left(record) => {
            Some(Told::Gone { id: id(&record) })
        }
        _ => None,
    }
}

fn id(record: &RecordId) -> String {
    match record {
        RecordId::Memory(id) => id.to_string(),
        RecordId::Document { id, .. } => id.to_string(),
    }
}
