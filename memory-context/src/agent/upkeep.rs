//! What an agent does for its memory beside its conversations.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::records::Records;

/// How many vectors are made at once.
const BATCH: usize = 100;
/// How often it looks whether facts have come that no run has told of.
const PAUSE: Duration = Duration::from_secs(60);

/// Makes the vectors of new facts: at once, when a run is over, and once in a minute, until it is stopped. What fails is tried again the
/// next time.
pub(super) async fn embed(records: Records, news: Arc<Notify>, stop: CancellationToken) {
    let work = async {
        loop {
            match records.facts().embed_pending(BATCH).await {
                Ok(BATCH) => continue,
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "facts have no vectors yet"),
            }
            tokio::select! {
                () = news.notified() => {}
                () = sleep(PAUSE) => {}
            }
        }
    };
    stop.run_until_cancelled(work).await;
}
